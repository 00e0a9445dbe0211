/* Arbitrary bytes as what a Redis client sends. However they are cut, the parser finds the same
 * requests, within its limits and within the bytes. */
#include <stdlib.h>

#include "base/panic.h"
#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was found, as one number; `cut` bytes more are shown each time. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t cut)
{
    static struct resp_parser p;
    uint8_t *bytes = malloc(size + 1);
    uint64_t digest = 1469598103934665603u;
    size_t at = 0;
    size_t have = 0;
    hf_assert(bytes != NULL);
    memcpy(bytes, data, size);
    resp_parser_init(&p);
    for (;;) {
        struct resp_result r = resp_feed(&p, bytes + at, have - at);
        if (r.status == RESP_INCOMPLETE) {
            if (have == size) {
                break;
            }
            have = size - have < cut ? size : have + cut;
            continue;
        }
        if (r.status == RESP_ERROR) {
            digest = (digest ^ slice_of(r.error).len) * 1099511628211u;
            break;
        }
        hf_assert(r.consumed > 0 && r.consumed <= have - at);
        for (uint32_t i = 0; i < resp_count(&p); i++) {
            struct slice a = resp_argument(&p, bytes + at, i);
            hf_assert(a.len <= LIMIT_RESP_BULK && a.data >= bytes + at &&
                      a.data + a.len <= bytes + at + r.consumed);
            for (size_t k = 0; k < a.len; k++) {
                digest = (digest ^ a.data[k]) * 1099511628211u;
            }
            digest = (digest ^ 0x100) * 1099511628211u;
        }
        digest = (digest ^ r.consumed) * 1099511628211u;
        at += r.consumed;
    }
    free(bytes);
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = read_all(data, size, size + 1);
    hf_assert(read_all(data, size, 1) == whole);
    hf_assert(read_all(data, size, 7) == whole);
    return 0;
}
