/* Arbitrary bytes as a command: whatever can be decoded is encoded to the very same bytes, and the
 * check and the digest take it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct command command;
    if (command_decode(slice_make(data, size), &command) != HF_OK) {
        return 0;
    }
    enum hf_error error = command_check(&command);
    uint64_t digest = command_digest(&command);
    uint8_t *again = malloc(size + 1);
    size_t len = again == NULL ? 0 : command_encode(&command, CORE_VERSION, again, size + 1);
    if (len != size || memcmp(again, data, size) != 0) {
        fprintf(stderr, "fuzz_command: a %s is encoded to other bytes\n",
                command_name(command.type));
        abort();
    }
    struct command copy;
    if (command_encode(&command, CORE_VERSION, again, size - 1) != 0 ||
        command_decode(slice_make(data, size), &copy) != HF_OK || command_check(&copy) != error ||
        command_digest(&copy) != digest) {
        fprintf(stderr, "fuzz_command: a %s is not the same twice\n", command_name(command.type));
        abort();
    }
    free(again);
    return 0;
}
