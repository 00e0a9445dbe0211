/* Arbitrary bytes as a log entry, applied to a core that has one of everything: a damaged entry
 * changes nothing at all, any other leaves a state in which the invariants hold, and a core
 * restored from a snapshot takes the same entry to the same state. */
#include "../support/rich_core.h"

#include "core/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fuzz_entry: %s\n", what);
    abort();
}

static void on_result(void *ctx, uint32_t number, const struct command *command,
                      const struct result *result)
{
    uint64_t *print = ctx;
    print_number(print, number + (uint64_t)command->type * 1000);
    print_result(print, result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The core is made once, and restored for each input: that is much quicker. */
    static struct bytes before;
    struct snapshot_problem problem;
    enum hf_error error;
    struct core_options options = {.memory = memory_system(), .hash_key = 1};
    if (before.len == 0) {
        struct rich r = rich_new(&options);
        before = snapshot_of(r.core);
        core_free(r.core);
    }
    uint64_t prints[2] = {0, 0};
    struct bytes after[2];
    enum hf_error errors[2];
    for (unsigned i = 0; i < 2; i++) {
        options.hash_key = i + 2;
        options.on_event = print_event;
        options.event_ctx = &prints[i];
        struct core *core =
            core_from(&options, before.data, before.len, before.len, &error, &problem);
        if (core == NULL) {
            die(problem.text);
        }
        errors[i] =
            entry_apply(core, core_index(core) + 1, slice_make(data, size), on_result, &prints[i]);
        const char *broken = core_check_invariants(core);
        if (broken != NULL) {
            die(broken);
        }
        after[i] = snapshot_of(core);
        core_free(core);
        if (errors[i] != HF_OK && !bytes_equal(&before, &after[i])) {
            die("a damaged entry changed something");
        }
    }
    if (errors[0] != errors[1] || prints[0] != prints[1] || !bytes_equal(&after[0], &after[1])) {
        die("two cores made different things of an entry");
    }
    bytes_free(&after[0]);
    bytes_free(&after[1]);
    return 0;
}
