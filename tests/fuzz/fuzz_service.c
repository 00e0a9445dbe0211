/* Arbitrary bytes into connections of the HTTP API (parties_http.c). */
#include "parties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parties_run(&parties_http, data, size);
    return 0;
}
