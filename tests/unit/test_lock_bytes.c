/* What a held lock costs in memory (S16.1): of the whole state, with the slack of its tables, divided by the locks.
 * bench/core.c measures it at a million. */
#include "base_testing.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/core.h"

enum { SESSIONS = 250, LOCKS_EACH = 1000, LOCKS = SESSIONS * LOCKS_EACH, MOST_BYTES = 160 };

static void apply(struct core *core, const struct command *command)
{
    struct result result;
    core_apply(core, command, &result);
    assert_int_equal(result.error, HF_OK);
    assert_int_equal(result.outcome,
                     command->type == COMMAND_ACQUIRE ? OUTCOME_GRANTED : result.outcome);
}

static void open_session(struct core *core, uint64_t number)
{
    struct command c;
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = (struct id){1, number};
    c.session_open.client = slice_of("client");
    c.session_open.ttl_ms = 86400000;
    apply(core, &c);
}

static void acquire(struct core *core, uint64_t session, uint64_t number)
{
    char name[40];
    struct command c;
    (void)snprintf(name, sizeof(name), "jobs/%012" PRIu64, number);
    command_init(&c, COMMAND_ACQUIRE);
    c.session = (struct id){1, session};
    c.acquire.lease = (struct id){2, number};
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    apply(core, &c);
}

/* Every entry has another wall clock, so that there are as many rows of it as there can be. */
static void a_lock_of_a_session_takes_less_than_160_bytes(void **state)
{
    (void)state;
    struct core_options options = {.memory = memory_system(), .hash_key = 7};
    struct core *core = core_new(&options);
    struct core_stats stats;
    for (uint64_t i = 0; i < LOCKS; i++) {
        if (i % 100 == 0) {
            core_begin(core, 1 + i / 100, 1000 + i, 1700000000000 + i * 1000);
        }
        if (i % LOCKS_EACH == 0) {
            open_session(core, i / LOCKS_EACH);
        }
        acquire(core, i / LOCKS_EACH, i);
    }
    core_stats(core, &stats);
    assert_int_equal(stats.grants, LOCKS);
    print_message("%" PRIu64 " bytes a lock\n", stats.bytes / LOCKS);
    assert_true(stats.bytes / LOCKS < MOST_BYTES);
    core_free(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_of_a_session_takes_less_than_160_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
