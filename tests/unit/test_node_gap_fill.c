/* Tests of filling gaps from other nodes: which peer is used, what happens when it is silent, busy, lacks
 * the records or sends something else, and how it ends. The peers are logs of the test. */
#include "event_log_world.h"

#include "node/events/gap_fill.h"

enum { PEERS = 3, ENTRIES = 2000, HOLE_FROM = 200, HOLE_TO = 1800 };

enum behaviour { ANSWERS, SILENT, IS_BUSY, SENDS_NOISE, REFUSES, IS_GONE };

static uv_loop_t loop;
static uint64_t now_ms;
static struct event_world *mine;
static struct gap_fill *fill;
static struct scan_threads *my_scans;
static struct peer_node {
    struct event_world *world; /* NULL: no log */
    struct scan_threads *scans;
    struct gap_fill *fill; /* answers */
    enum behaviour behaviour;
    uint32_t requests;
} peers[PEERS];
static uint32_t peer_count;
static uint32_t noted_remains, noted_filled;

static bool wants(void *ctx, enum journal_level level, enum journal_subsystem subsystem)
{
    (void)ctx;
    (void)level;
    (void)subsystem;
    return true;
}

static void note(void *ctx, enum journal_level level, enum journal_subsystem subsystem,
                 const char *event, const struct journal_field *fields, size_t count)
{
    (void)ctx;
    (void)level;
    (void)subsystem;
    (void)fields;
    (void)count;
    noted_remains += strcmp(event, "event_gap_remains") == 0;
    noted_filled += strcmp(event, "event_gap_filled") == 0;
}

static const struct journal journal = {.wants = wants, .write = note};

static uint32_t list_peers(void *ctx, uint64_t ids[LIMIT_NODES])
{
    (void)ctx;
    for (uint32_t i = 0; i < peer_count; i++) {
        ids[i] = i + 1;
    }
    return peer_count;
}

static bool request(void *ctx, uint64_t peer, uint64_t number, struct slice body)
{
    (void)ctx;
    struct peer_node *p = &peers[peer - 1];
    p->requests++;
    switch (p->behaviour) {
    case IS_GONE:
        return false;
    case SILENT:
        break;
    case IS_BUSY:
        p->behaviour = ANSWERS;
        assert_true(gap_fill_on_answer(fill, peer, number, FILL_BUSY, slice_make(NULL, 0), now_ms));
        break;
    case REFUSES:
        assert_true(
            gap_fill_on_answer(fill, peer, number, FILL_MALFORMED, slice_make(NULL, 0), now_ms));
        break;
    case SENDS_NOISE:
        assert_true(gap_fill_on_answer(fill, peer, number, FILL_HAS,
                                       slice_of("this is no answer to any request"), now_ms));
        break;
    case ANSWERS:
        assert_true(gap_fill_on_request(p->fill, peer, 77, number, body, now_ms));
        break;
    }
    return true;
}

/* Of a peer: it arrives at once. */
static void answer(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t status,
                   struct slice body)
{
    (void)ctx;
    assert_int_equal(link, 77);
    assert_true(gap_fill_on_answer(fill, peer, number, status, body, now_ms));
}

static uint32_t version(void *ctx)
{
    (void)ctx;
    return CORE_VERSION;
}

static uint64_t clock_ms(void *ctx)
{
    (void)ctx;
    return now_ms;
}

static struct gap_fill *make_fill(struct event_log *log, struct scan_threads **scans)
{
    struct scan_threads_options threads = {
        .loop = &loop, .memory = memory_system(), .log = log, .why = "none"};
    *scans = scan_threads_new(&threads);
    struct gap_fill_options options = {.loop = &loop,
                                       .memory = memory_system(),
                                       .journal = &journal,
                                       .log = log,
                                       .scans = *scans,
                                       .peers = list_peers,
                                       .request = request,
                                       .answer = answer,
                                       .version = version,
                                       .now_ms = clock_ms};
    return gap_fill_new(&options);
}

/* Without the entries (from, to]. */
static struct event_world *make_log(uint64_t from, uint64_t to, uint64_t last)
{
    struct event_world *w = world_new();
    world_open(w);
    for (uint64_t i = 1; i <= last; i++) {
        w->wall_ms = WORLD_WALL_MS + i * 10;
        if (i > from && i <= to) {
            w->index = i;
            for (uint32_t k = 0; k < 2; k++) {
                w->known[w->count++] = (struct known_record){.kind = LOGGED_EVENT,
                                                             .id = {i, k},
                                                             .position = {i, k, 0},
                                                             .seed = i * 3 + k,
                                                             .wall_ms = w->wall_ms};
            }
            if (i == to) {
                event_log_skipped(w->log, to, w->wall_ms);
            }
        } else {
            w->index = i - 1;
            world_entry(w, 2, i * 3);
        }
        if (i % 100 == 0) {
            event_log_write(w->log);
        }
    }
    event_log_write(w->log);
    return w;
}

static void set_up_nodes(uint32_t count)
{
    now_ms = 100000;
    peer_count = count;
    noted_remains = noted_filled = 0;
    uv_loop_init(&loop);
    mine = make_log(HOLE_FROM, HOLE_TO, ENTRIES);
    fill = make_fill(mine->log, &my_scans);
}

static void set_up_peer(uint32_t i, enum behaviour behaviour, struct event_world *world)
{
    struct peer_node *p = &peers[i];
    *p = (struct peer_node){.world = world, .behaviour = behaviour};
    p->fill = make_fill(world == NULL ? NULL : world->log, &p->scans);
}

static void tear_down_nodes(void)
{
    scan_threads_stop(my_scans);
    gap_fill_stop(fill);
    for (uint32_t i = 0; i < peer_count; i++) {
        scan_threads_stop(peers[i].scans);
        gap_fill_stop(peers[i].fill);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    gap_fill_free(fill);
    scan_threads_free(my_scans);
    for (uint32_t i = 0; i < peer_count; i++) {
        gap_fill_free(peers[i].fill);
        scan_threads_free(peers[i].scans);
        if (peers[i].world != NULL) {
            world_free(peers[i].world);
        }
    }
    world_free(mine);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    scan_threads_run(my_scans, now_ms);
    gap_fill_step(fill, now_ms);
    for (uint32_t i = 0; i < peer_count; i++) {
        scan_threads_run(peers[i].scans, now_ms);
    }
}

/* Threads work in between; the time of the test passes only if nothing is in flight for a while. */
static void run_until(const uint32_t *count, uint32_t value, uint64_t limit_ms)
{
    uint64_t end_ms = now_ms + limit_ms;
    for (uint32_t idle = 0; *count < value; idle++) {
        turn();
        struct timespec moment = {.tv_nsec = 200000};
        nanosleep(&moment, NULL);
        if (idle > 20) {
            now_ms += 20;
            idle = 0;
        }
        assert_true(now_ms < end_ms);
    }
}

static void a_gap_is_filled_from_a_peer(void **state)
{
    (void)state;
    set_up_nodes(1);
    set_up_peer(0, ANSWERS, make_log(0, 0, ENTRIES));
    uint64_t begin_ms = now_ms;
    run_until(&noted_filled, 1, 60000);
    while (world_stats(mine).gaps > 0) {
        turn();
    }
    assert_true(peers[0].requests > 10);
    assert_true(now_ms > begin_ms); /* it rests between requests */
    assert_int_equal(gap_fill_filled(fill), HOLE_TO - HOLE_FROM);
    expect_all(mine);
    assert_int_equal(noted_remains, 0);
    tear_down_nodes();
}

static void a_peer_that_does_not_help_is_followed_by_the_next(void **state)
{
    (void)state;
    static const enum behaviour useless[] = {SILENT, SENDS_NOISE, REFUSES, IS_GONE, IS_BUSY};
    for (size_t i = 0; i < sizeof(useless) / sizeof(useless[0]); i++) {
        set_up_nodes(3);
        set_up_peer(0, useless[i], make_log(0, 0, ENTRIES));
        set_up_peer(1, ANSWERS, make_log(0, 0, ENTRIES));
        set_up_peer(2, useless[i], NULL);
        run_until(&noted_filled, 1, 400000);
        while (world_stats(mine).gaps > 0) {
            turn();
        }
        expect_all(mine);
        tear_down_nodes();
    }
}

static void what_no_peer_has_remains_and_is_tried_again(void **state)
{
    (void)state;
    set_up_nodes(2);
    set_up_peer(0, ANSWERS, NULL);
    set_up_peer(1, ANSWERS, make_log(100, 1900, ENTRIES));
    run_until(&noted_remains, 1, 60000);
    assert_int_equal(world_stats(mine).gaps, 1);
    uint32_t before = peers[1].requests;
    for (uint32_t i = 0; i < 100; i++) {
        turn();
    }
    assert_int_equal(peers[1].requests, before);
    now_ms += FILL_RETRY_MS;
    run_until(&peers[1].requests, before + 1, 60000);
    assert_int_equal(noted_remains, 1); /* once for a gap */
    assert_true(gap_fill_is_stuck(fill));
    tear_down_nodes();
}

static void a_part_is_better_than_nothing(void **state)
{
    (void)state;
    set_up_nodes(2);
    set_up_peer(0, ANSWERS, make_log(100, 1500, ENTRIES));
    set_up_peer(1, ANSWERS, make_log(100, 900, ENTRIES)); /* has more */
    run_until(&noted_filled, 1, 60000);
    struct event_gap gap = {0};
    do {
        turn();
        assert_true(event_fill_find(mine->log, &gap));
    } while (gap.to == HOLE_TO);
    assert_int_equal(gap.from, HOLE_FROM);
    assert_int_equal(gap.to, 900);
    struct event_log_stats stats = world_stats(mine);
    assert_int_equal(stats.gaps, 1);
    assert_int_equal(stats.complete_index, 900);
    assert_true(stats.complete_since_ms != 0); /* 0: nothing is missing */
    tear_down_nodes();
}

static void an_end_in_the_middle_keeps_what_is_there(void **state)
{
    (void)state;
    set_up_nodes(1);
    set_up_peer(0, ANSWERS, make_log(0, 0, ENTRIES));
    run_until(&peers[0].requests, 5, 60000);
    scan_threads_stop(my_scans);
    gap_fill_stop(fill);
    uv_run(&loop, UV_RUN_NOWAIT);
    struct event_gap gap;
    assert_true(event_fill_find(mine->log, &gap));
    tear_down_nodes();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_filled_from_a_peer),
        cmocka_unit_test(a_peer_that_does_not_help_is_followed_by_the_next),
        cmocka_unit_test(what_no_peer_has_remains_and_is_tried_again),
        cmocka_unit_test(a_part_is_better_than_nothing),
        cmocka_unit_test(an_end_in_the_middle_keeps_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
