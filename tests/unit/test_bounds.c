/* Bounded work (S1.7, S2): however much is due at once, no command and no sweep does more than its
 * share, nothing dead is taken for alive meanwhile, and all of it gets done. */
#include "base_testing.h"

#include "base/codec.h"
#include "core/core.h"
#include "core/view.h"

struct world {
    struct core *core;
    uint64_t index;
    uint64_t now;
    uint32_t events[EVENT_COUNT];
    uint32_t entry_events[EVENT_COUNT]; /* of the last entry */
};

static void on_event(void *ctx, const struct event *event)
{
    struct world *w = ctx;
    w->events[event->type]++;
    w->entry_events[event->type]++;
}

static void world_open(struct world *w)
{
    memset(w, 0, sizeof(*w));
    struct core_options options = {.memory = memory_system(),
                                   .hash_key = 3,
                                   .on_event = on_event,
                                   .event_ctx = w,
                                   .version = CORE_VERSION};
    w->core = core_new(&options);
}

static void world_close(struct world *w)
{
    assert_null(core_check_invariants(w->core));
    core_free(w->core);
}

static void begin(struct world *w, uint64_t now)
{
    w->now = now;
    memset(w->entry_events, 0, sizeof(w->entry_events));
    core_begin(w->core, ++w->index, now, 0);
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_true(stats.last_sweep_steps <= LIMIT_SWEEP_STEPS);
}

static struct result apply(struct world *w, const struct command *c)
{
    struct result r;
    core_apply(w->core, c, &r);
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_true(stats.last_steps <= LIMIT_COMMAND_STEPS);
    return r;
}

static struct id id_of(uint64_t kind, uint64_t n)
{
    return (struct id){kind, n + 1};
}

static void open_session(struct world *w, uint64_t n, uint32_t ttl_ms)
{
    struct command c;
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = id_of(1, n);
    c.session_open.client = slice_of("client");
    c.session_open.ttl_ms = ttl_ms;
    assert_int_equal(apply(w, &c).error, HF_OK);
}

static struct result acquire(struct world *w, uint64_t session, bool in_session, const char *name,
                             uint64_t lease, enum mode mode, uint64_t wait_ms)
{
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    if (in_session) {
        c.session = id_of(1, session);
    } else {
        c.acquire.client = slice_of("client");
        c.acquire.ttl_ms = 10000;
    }
    char owner[24];
    (void)snprintf(owner, sizeof(owner), "%llu", (unsigned long long)lease);
    c.acquire.owner = slice_of(owner);
    c.acquire.lease = id_of(2, lease);
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    c.acquire.mode = mode;
    c.acquire.wait_ms = wait_ms;
    struct result r = apply(w, &c);
    assert_int_equal(r.error, HF_OK);
    return r;
}

static uint64_t sessions_of(const struct world *w)
{
    struct core_stats stats;
    core_stats(w->core, &stats);
    return stats.sessions;
}

/* Sanitizers make a million slow enough to matter; the bounds are the same for fewer. */
#if defined(__SANITIZE_ADDRESS__)
#define MANY 100000
#else
#define MANY 1000000
#endif

static void a_million_sessions_that_expire_at_once_go_in_many_entries(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    begin(&w, 1000);
    for (uint64_t i = 0; i < MANY; i++) {
        open_session(&w, i, 5000);
    }
    uint64_t left = MANY;
    uint32_t entries = 0;
    while (left > 0) {
        begin(&w, 6000);
        uint64_t now_left = sessions_of(&w);
        assert_true(left - now_left <= LIMIT_SWEEP_SESSIONS);
        assert_true(now_left < left);
        assert_int_equal(core_next_due_ms(w.core) <= 6000, now_left > 0);
        left = now_left;
        entries++;
    }
    assert_int_equal(entries, MANY / LIMIT_SWEEP_SESSIONS);
    assert_int_equal(w.events[EVENT_SESSION_EXPIRED], MANY);
    world_close(&w);
}

static void what_is_dead_is_dead_before_it_is_swept(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    begin(&w, 1000);
    for (uint64_t i = 0; i < 3000; i++) {
        open_session(&w, i, 5000);
    }
    /* The last in order of ids: it will be swept last. */
    (void)acquire(&w, 2999, true, "lock", 1, MODE_EXCLUSIVE, 0);
    begin(&w, 6000);
    assert_int_equal(sessions_of(&w), 2000); /* a backlog, and session 2999 is in it */
    struct command c;
    command_init(&c, COMMAND_STREAM_UP);
    c.session = id_of(1, 2500);
    assert_int_equal(apply(&w, &c).error, HF_SESSION_EXPIRED);
    struct result r = acquire(&w, 0, false, "lock", 2, MODE_EXCLUSIVE, 0);
    assert_int_equal(r.outcome, OUTCOME_GRANTED);
    uint8_t packed[16];
    struct writer writer = writer_make(packed, sizeof(packed));
    write_fixed64(&writer, id_of(1, 2700).high);
    write_fixed64(&writer, id_of(1, 2700).low);
    command_init(&c, COMMAND_KEEPALIVE);
    c.keepalive.sessions = (struct ids){1, packed};
    r = apply(&w, &c);
    assert_int_equal(r.alive[0], HF_SESSION_EXPIRED); /* a late keep-alive raises no dead */
    world_close(&w);
}

static void a_session_of_10000_locks_ends_in_one_step_within_the_bound(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    begin(&w, 1000);
    open_session(&w, 1, 5000);
    char name[32];
    for (uint64_t i = 0; i < LIMIT_SESSION_ENTRIES; i++) {
        (void)snprintf(name, sizeof(name), "lock/%llu", (unsigned long long)i);
        struct result r = acquire(&w, 1, true, name, i, MODE_EXCLUSIVE, 0);
        assert_int_equal(r.outcome, OUTCOME_GRANTED);
    }
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    c.session = id_of(1, 1);
    c.acquire.lease = id_of(2, 99999);
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of("one/more");
    assert_int_equal(apply(&w, &c).error, HF_TOO_MANY_LOCKS);
    /* Each has a waiter: 10,000 hand-overs, spread over the following commands. */
    for (uint64_t i = 0; i < LIMIT_SESSION_ENTRIES; i++) {
        (void)snprintf(name, sizeof(name), "lock/%llu", (unsigned long long)i);
        struct result r = acquire(&w, 0, false, name, 100000 + i, MODE_EXCLUSIVE, WAIT_FOREVER);
        assert_int_equal(r.outcome, OUTCOME_QUEUED);
    }
    uint32_t granted = w.events[EVENT_GRANTED];
    command_init(&c, COMMAND_SESSION_CLOSE);
    c.session = id_of(1, 1);
    assert_int_equal(apply(&w, &c).error, HF_OK);
    assert_int_equal(w.events[EVENT_RELEASED], LIMIT_SESSION_ENTRIES);
    assert_true(core_next_due_ms(w.core) <= w.now); /* more entries are needed */
    for (uint32_t i = 0; i < 10 && core_next_due_ms(w.core) <= w.now; i++) {
        begin(&w, 1000);
        assert_null(core_check_invariants(w.core));
    }
    assert_int_equal(w.events[EVENT_GRANTED] - granted, LIMIT_SESSION_ENTRIES);
    world_close(&w);
}

static void one_release_wakes_one_successor_among_many(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    begin(&w, 1000);
    struct result first = acquire(&w, 0, false, "hot", 0, MODE_EXCLUSIVE, 0);
    const uint64_t waiters = 20000;
    for (uint64_t i = 1; i <= waiters; i++) {
        struct result r = acquire(&w, 0, false, "hot", i, MODE_EXCLUSIVE, WAIT_FOREVER);
        assert_int_equal(r.queue_position, i <= LIMIT_POSITION ? i : LIMIT_POSITION + 1);
        assert_int_equal(r.queue_length, i);
    }
    uint64_t token = first.token;
    struct core_stats stats;
    for (uint64_t i = 0; i < 100; i++) {
        begin(&w, 1000);
        struct command c;
        command_init(&c, COMMAND_RELEASE);
        c.release.name = slice_of("hot");
        c.release.token = token;
        assert_int_equal(apply(&w, &c).outcome, OUTCOME_DONE);
        assert_int_equal(w.entry_events[EVENT_GRANTED], 1);
        core_stats(w.core, &stats);
        assert_true(stats.last_steps < 20); /* whatever the length of the queue */
        struct lock_view view;
        assert_true(view_lock(w.core, 0, slice_of("hot"), &view));
        assert_true(view.first.token > token);
        token = view.first.token;
        assert_int_equal(view.queue_length, waiters - i - 1);
    }
    world_close(&w);
}

static void a_long_run_of_readers_is_granted_in_bounded_pieces(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    begin(&w, 1000);
    struct result writer = acquire(&w, 0, false, "book", 0, MODE_EXCLUSIVE, 0);
    for (uint64_t i = 1; i <= LIMIT_HOLDERS + 5; i++) {
        (void)acquire(&w, 0, false, "book", i, MODE_SHARED, WAIT_FOREVER);
    }
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("book");
    c.release.token = writer.token;
    (void)apply(&w, &c);
    while (core_next_due_ms(w.core) <= w.now) {
        begin(&w, 1000);
    }
    struct lock_view view;
    assert_true(view_lock(w.core, 0, slice_of("book"), &view));
    assert_int_equal(view.holders, LIMIT_HOLDERS); /* and no more (limits.h) */
    assert_int_equal(view.queue_length, 5);
    world_close(&w);
}

static void a_node_with_many_waiters_is_gone_in_one_small_step(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    begin(&w, 1000);
    char name[32];
    const uint64_t names = 8000;
    for (uint64_t i = 0; i < names; i++) {
        (void)snprintf(name, sizeof(name), "n/%llu", (unsigned long long)i);
        (void)acquire(&w, 0, false, name, i, MODE_EXCLUSIVE, 0);
        (void)acquire(&w, 0, false, name, 10000 + i, MODE_EXCLUSIVE, WAIT_FOREVER);
    }
    struct command c;
    command_init(&c, COMMAND_NODE_GONE);
    c.node_gone.node = 0;
    assert_int_equal(apply(&w, &c).error, HF_OK);
    for (uint32_t i = 0; i < 10 && core_next_due_ms(w.core) <= w.now; i++) {
        begin(&w, 1000);
    }
    /* They keep their places for 10 s, are passed over meanwhile, and then leave (S7.3). The
     * holders expire at the same time. */
    begin(&w, 1000 + LIMIT_DETACHED_MS);
    for (uint32_t i = 0; i < 20 && core_next_due_ms(w.core) <= w.now; i++) {
        begin(&w, w.now);
    }
    assert_int_equal(w.events[EVENT_WAIT_ENDED], names);
    assert_int_equal(w.events[EVENT_GRANTED], names); /* only the first ones */
    assert_int_equal(sessions_of(&w), 0);
    world_close(&w);
}

static void keeping_alive_does_not_depend_on_the_number_of_locks(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    begin(&w, 1000);
    open_session(&w, 1, 5000);
    char name[32];
    for (uint64_t i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof(name), "lock/%llu", (unsigned long long)i);
        (void)acquire(&w, 1, true, name, i, MODE_EXCLUSIVE, 0);
    }
    uint8_t packed[16];
    struct writer writer = writer_make(packed, sizeof(packed));
    write_fixed64(&writer, id_of(1, 1).high);
    write_fixed64(&writer, id_of(1, 1).low);
    begin(&w, 4000);
    struct command c;
    command_init(&c, COMMAND_KEEPALIVE);
    c.keepalive.sessions = (struct ids){1, packed};
    (void)apply(&w, &c);
    struct core_stats stats;
    core_stats(w.core, &stats);
    assert_true(stats.last_steps < 10);
    begin(&w, 8999);
    assert_int_equal(w.events[EVENT_EXPIRED], 0);
    begin(&w, 9000); /* exactly a TTL after the sign of life (S4.2) */
    assert_int_equal(w.events[EVENT_EXPIRED], 5000);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_sessions_that_expire_at_once_go_in_many_entries),
        cmocka_unit_test(what_is_dead_is_dead_before_it_is_swept),
        cmocka_unit_test(a_session_of_10000_locks_ends_in_one_step_within_the_bound),
        cmocka_unit_test(one_release_wakes_one_successor_among_many),
        cmocka_unit_test(a_long_run_of_readers_is_granted_in_bounded_pieces),
        cmocka_unit_test(a_node_with_many_waiters_is_gone_in_one_small_step),
        cmocka_unit_test(keeping_alive_does_not_depend_on_the_number_of_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
