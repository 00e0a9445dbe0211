/* Arbitrary bytes into connections of the Redis protocol (parties_resp.c). */
#include "parties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parties_run(&parties_resp, data, size);
    return 0;
}
