/* Tests of gaps that are filled from the log of another node. */
#include "event_log_world.h"

#include "events/event_fill.h"

enum { ENTRIES = 3000, HOLE_FROM = 400, HOLE_TO = 2600 };

/* Entry `i`: a few events, now and then audit records, and once very many. */
static void add_entry(struct event_world *w, uint64_t i, bool is_skipped)
{
    uint32_t events = i == 1500 ? 3000 : (uint32_t)(i % 4);
    uint32_t audits = i % 97 == 0 ? 3 : 0;
    w->index = i;
    w->wall_ms = WORLD_WALL_MS + i * 10;
    static struct event_id newest; /* for audit records */
    newest = i == 1 ? (struct event_id){0, 0} : newest;
    for (uint32_t k = 0; k < events + audits; k++) {
        struct known_record r = {.kind = k < events ? LOGGED_EVENT : LOGGED_AUDIT,
                                 .id = {i, k},
                                 .position = {i, k, 0},
                                 .seed = i * 7 + k,
                                 .wall_ms = w->wall_ms};
        if (k >= events) {
            r.id = newest;
            r.position = (struct event_position){i, EVENT_AUDIT, k - events + 1};
        } else {
            newest = r.id;
        }
        w->known[w->count++] = r;
        if (!is_skipped) {
            world_append(w, &r);
        }
    }
    if (!is_skipped) {
        event_log_applied(w->log, i, w->wall_ms);
    }
    if (i % 50 == 0) {
        event_log_write(w->log);
    }
}

/* `from` to `to` are missing; both 0: nothing. Lossy events are only in the whole one. */
static struct event_world *make_log(uint64_t from, uint64_t to)
{
    struct event_world *w = world_new();
    world_open(w);
    for (uint64_t i = 1; i <= ENTRIES; i++) {
        bool is_skipped = i > from && i <= to;
        add_entry(w, i, is_skipped);
        if (i == to) {
            event_log_skipped(w->log, to, w->wall_ms);
        }
        if (to == 0 && i % 300 == 0) {
            struct known_record lossy = {
                .kind = LOGGED_EVENT, .is_lossy = true, .seed = i, .wall_ms = w->wall_ms};
            world_append(w, &lossy);
            event_log_applied(w->log, i, w->wall_ms);
        }
    }
    event_log_write(w->log);
    return w;
}

/* As the node that has the records answers. False: it lacks them. */
static bool answer(struct event_world *peer, const struct fill_request *request, struct buffer *out,
                   uint64_t *continues)
{
    uint8_t bytes[FILL_REQUEST_BYTES];
    struct fill_request decoded;
    struct event_page page;
    struct problem problem;
    size_t len = fill_request_encode(request, bytes);
    assert_true(fill_request_decode(slice_make(bytes, len), &decoded));
    struct event_scan scan = fill_request_scan(&decoded);
    assert_int_equal(event_scan_page(peer->log, &scan, &page, &problem), HF_OK);
    buffer_truncate(out, 0);
    bool has = fill_answer_encode(&decoded, &page, CORE_VERSION, out, continues);
    event_page_close(peer->log, &page);
    return has;
}

/* Answers are taken until the gap is filled, the peer lacks the rest, or `most` are taken. */
static bool fill_gap(struct event_world *w, struct event_world *peer, const struct event_gap *gap,
                     uint32_t most, uint64_t *continues)
{
    struct event_fill *fill = event_fill_begin(w->log, gap);
    struct buffer out;
    struct problem problem;
    bool has = true;
    assert_non_null(fill);
    buffer_init(&out, memory_system(), 1 << 20);
    struct fill_request request = {.after = event_fill_begins(fill), .to = gap->to};
    while (has && most-- > 0 && event_fill_done(fill) < gap->to) {
        has = answer(peer, &request, &out, continues);
        if (has && !event_fill_take(fill, buffer_bytes(&out), &request.after, &problem)) {
            fail_msg("%s", problem.text);
        }
    }
    bool is_filled = event_fill_done(fill) == gap->to;
    event_fill_end(fill);
    buffer_close(&out);
    return is_filled;
}

static void a_gap_is_filled_and_read_in_order(void **state)
{
    (void)state;
    uint64_t continues;
    struct event_gap gap;
    struct event_world *peer = make_log(0, 0);
    struct event_world *w = make_log(HOLE_FROM, HOLE_TO);
    assert_false(event_fill_find(peer->log, &gap));
    assert_int_equal(world_stats(w).gaps, 1);
    assert_true(event_fill_find(w->log, &gap));
    assert_int_equal(gap.from, HOLE_FROM);
    assert_int_equal(gap.to, HOLE_TO);
    assert_true(fill_gap(w, peer, &gap, UINT32_MAX, &continues));
    assert_false(event_fill_find(w->log, &gap));
    struct event_log_stats stats = world_stats(w);
    assert_int_equal(stats.gaps, 0);
    assert_int_equal(stats.complete_index, 0);
    assert_int_equal(stats.complete_since_ms, 0);
    expect_all(w);
    /* Newest first, too. */
    struct event_scan scan = {.kinds = SCAN_EVENTS | SCAN_AUDIT,
                              .all_tenants = true,
                              .newest_first = true,
                              .limit = 1000};
    uint32_t seen = 0;
    bool more = true;
    while (more) {
        struct event_page page;
        struct problem problem;
        assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
        assert_int_equal(page.gap_count, 0);
        seen += page.count;
        more = page.more;
        scan.is_continued = true;
        scan.after = page.next;
        event_page_close(w->log, &page);
    }
    assert_int_equal(seen, w->count);
    /* And after a restart; the log goes on. */
    world_crash(w);
    world_open(w);
    assert_int_equal(world_stats(w).gaps, 0);
    expect_all(w);
    add_entry(w, ENTRIES + 1, false);
    event_log_write(w->log);
    expect_all(w);
    world_free(w);
    world_free(peer);
}

static void an_end_in_between_leaves_a_smaller_gap(void **state)
{
    (void)state;
    uint64_t continues;
    struct event_gap gap;
    struct event_world *peer = make_log(0, 0);
    struct event_world *w = make_log(HOLE_FROM, HOLE_TO);
    uint32_t rounds = 0;
    uint64_t before = HOLE_FROM;
    /* Also in the middle of the entry that has 3,000 events. */
    while (event_fill_find(w->log, &gap)) {
        assert_int_equal(gap.to, HOLE_TO);
        assert_true(gap.from >= before);
        before = gap.from;
        (void)fill_gap(w, peer, &gap, rounds == 0 ? 1 : 6, &continues);
        if (rounds % 2 == 1) {
            world_crash(w);
            world_open(w);
        }
        assert_true(++rounds < 200);
    }
    assert_true(rounds > 3);
    expect_all(w);
    world_crash(w);
    world_open(w);
    expect_all(w);
    world_free(w);
    world_free(peer);
}

static void a_node_that_has_only_a_part_fills_that(void **state)
{
    (void)state;
    uint64_t continues = 0;
    struct event_gap gap;
    struct event_world *whole = make_log(0, 0);
    struct event_world *part = make_log(100, 1000);
    struct event_world *w = make_log(HOLE_FROM, HOLE_TO);
    assert_true(event_fill_find(w->log, &gap));
    assert_false(fill_gap(w, part, &gap, UINT32_MAX, &continues));
    assert_int_equal(continues, 1000);
    assert_int_equal(world_stats(w).gaps, 1);
    struct event_gap later = {continues, gap.to, 0, gap.to_ms};
    assert_true(fill_gap(w, part, &later, UINT32_MAX, &continues));
    assert_true(event_fill_find(w->log, &gap));
    assert_int_equal(gap.from, HOLE_FROM);
    assert_int_equal(gap.to, 1000);
    assert_true(fill_gap(w, whole, &gap, UINT32_MAX, &continues));
    assert_int_equal(world_stats(w).gaps, 0);
    expect_all(w);
    /* One whose log ends too early, and one that begins too late. */
    struct event_world *hole = make_log(HOLE_FROM, HOLE_TO);
    struct event_world *young = world_new();
    world_open(young);
    event_log_skipped(young->log, 2000, 1);
    for (uint64_t i = 2001; i <= 2100; i++) {
        add_entry(young, i, false);
    }
    event_log_write(young->log);
    assert_true(event_fill_find(hole->log, &gap));
    assert_false(fill_gap(hole, young, &gap, UINT32_MAX, &continues));
    assert_int_equal(continues, 2000);
    later = (struct event_gap){2000, gap.to, 0, gap.to_ms};
    assert_false(fill_gap(hole, young, &later, UINT32_MAX, &continues));
    assert_int_equal(continues, UINT64_MAX);
    assert_int_equal(world_stats(hole).gaps, 2);
    assert_int_equal(world_stats(hole).complete_index, HOLE_TO);
    world_free(young);
    world_free(hole);
    world_free(w);
    world_free(part);
    world_free(whole);
}

static void what_is_not_in_the_gap_is_refused(void **state)
{
    (void)state;
    uint64_t continues;
    struct event_gap gap;
    struct buffer out;
    struct problem problem;
    struct event_position next;
    struct event_world *peer = make_log(0, 0);
    struct event_world *w = make_log(HOLE_FROM, HOLE_TO);
    buffer_init(&out, memory_system(), 1 << 20);
    assert_true(event_fill_find(w->log, &gap));
    const struct fill_request wrong[] = {
        {.after = event_position_end_of(HOLE_FROM - 5), .to = HOLE_TO},   /* before the gap */
        {.after = event_position_end_of(HOLE_TO - 1), .to = HOLE_TO + 9}, /* behind it */
    };
    for (size_t i = 0; i < 2; i++) {
        struct event_fill *fill = event_fill_begin(w->log, &gap);
        assert_true(answer(peer, &wrong[i], &out, &continues));
        assert_false(event_fill_take(fill, buffer_bytes(&out), &next, &problem));
        assert_text(problem.text, "it sent ");
        event_fill_end(fill);
    }
    /* Twice the same; any changed byte either fails or stays in the gap. */
    struct event_fill *fill = event_fill_begin(w->log, &gap);
    struct fill_request request = {.after = event_fill_begins(fill), .to = gap.to};
    assert_true(answer(peer, &request, &out, &continues));
    assert_true(event_fill_take(fill, buffer_bytes(&out), &next, &problem));
    assert_false(event_fill_take(fill, buffer_bytes(&out), &next, &problem));
    event_fill_end(fill);
    assert_true(event_fill_find(w->log, &gap));
    fill = event_fill_begin(w->log, &gap);
    request.after = event_fill_begins(fill);
    assert_true(answer(peer, &request, &out, &continues));
    event_fill_end(fill);
    struct random random;
    random_init(&random, "the answers");
    for (uint32_t i = 0; i < 300; i++) {
        struct slice bytes = buffer_bytes(&out);
        uint8_t *copy = malloc(bytes.len);
        memcpy(copy, bytes.data, bytes.len);
        copy[random_below(&random, (uint32_t)bytes.len)] ^=
            (uint8_t)(1u << random_below(&random, 8));
        uint32_t len = random_below(&random, 4) == 0 ? random_below(&random, (uint32_t)bytes.len)
                                                     : (uint32_t)bytes.len;
        struct event_gap now;
        if (event_fill_find(w->log, &now) && (fill = event_fill_begin(w->log, &now)) != NULL) {
            (void)event_fill_take(fill, slice_make(copy, len), &next, &problem);
            event_fill_end(fill);
        }
        free(copy);
    }
    world_crash(w);
    world_open(w);
    struct event_step step;
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){0, 0});
    while (cursor_step(c, &step) != EVENT_READ_END) {
    }
    event_cursor_close(c);
    buffer_close(&out);
    world_free(w);
    world_free(peer);
}

static void a_full_disk_leaves_the_gap(void **state)
{
    (void)state;
    uint64_t continues;
    struct event_gap gap;
    struct buffer out;
    struct problem problem;
    struct event_world *peer = make_log(0, 0);
    struct event_world *w = make_log(HOLE_FROM, HOLE_TO);
    buffer_init(&out, memory_system(), 1 << 20);
    assert_true(event_fill_find(w->log, &gap));
    disk_fake_set_capacity(w->fake, disk_fake_bytes(w->fake) + 2000);
    struct event_fill *fill = event_fill_begin(w->log, &gap);
    struct fill_request request = {.after = event_fill_begins(fill), .to = gap.to};
    bool fine = true;
    for (uint32_t i = 0; i < 20 && fine; i++) {
        assert_true(answer(peer, &request, &out, &continues));
        fine = event_fill_take(fill, buffer_bytes(&out), &request.after, &problem);
    }
    assert_false(fine);
    event_fill_end(fill);
    assert_int_equal(world_stats(w).gaps, 1);
    disk_fake_set_capacity(w->fake, UINT64_MAX);
    assert_true(event_fill_find(w->log, &gap));
    assert_true(fill_gap(w, peer, &gap, UINT32_MAX, &continues));
    expect_all(w);
    buffer_close(&out);
    world_free(w);
    world_free(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_filled_and_read_in_order),
        cmocka_unit_test(an_end_in_between_leaves_a_smaller_gap),
        cmocka_unit_test(a_node_that_has_only_a_part_fills_that),
        cmocka_unit_test(what_is_not_in_the_gap_is_refused),
        cmocka_unit_test(a_full_disk_leaves_the_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
