/* Arbitrary bytes behind TLS: through real TLS sessions into connections of the HTTP API or of the
 * Redis protocol, which the first byte selects. fuzz_tls.c has what is before TLS. */
#include "parties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        parties_run(parties_secured(data[0] % 2 == 0 ? &parties_http : &parties_resp), data + 1,
                    size - 1);
    }
    return 0;
}
