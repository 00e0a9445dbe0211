/* Arbitrary bytes behind TLS: through real TLS sessions into connections of the HTTP API or of the
 * Redis protocol, without or with authentication, as the first byte selects. fuzz_tls.c has what is before TLS. */
#include "parties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parties_auth = size > 0 && data[0] % 4 > 1;
    if (size > 0) {
        parties_run(parties_secured(data[0] % 2 == 0 ? &parties_http : &parties_resp), data + 1,
                    size - 1);
    }
    return 0;
}
