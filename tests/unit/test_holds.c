/* Holds folded from events, compared with what really happened in random histories: over pages of any
 * size, at any moment, and with parts of the log missing. */
#include "base_testing.h"

#include "events/holds.h"

enum { EVENTS = 400, TRUE_HOLDS = 200, START = 1000000, STEP_MOST = 50 };

/* What really happened. */
struct true_hold {
    uint64_t token;
    uint64_t from_ms;
    uint64_t to_ms; /* UINT64_MAX: still held */
    uint64_t waited_ms;
    enum ended ended;
    enum tier tier;
    enum mode mode;
    char client[8];
};

struct history_case {
    struct true_hold holds[TRUE_HOLDS];
    uint32_t hold_count;
    struct event events[EVENTS];
    bool is_lost[EVENTS]; /* not in the log */
    uint32_t count;
    uint64_t now_ms;
    uint64_t complete_since_ms; /* 0: from the begin */
    uint32_t examined;          /* events that one page looks at */
    bool is_shared;
    uint64_t searches;
};

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

/* ---- a log, searched naively ---- */

static struct event_position place(const struct event *e)
{
    return (struct event_position){e->index, e->ordinal, 0};
}

static bool is_in_time(const struct event_scan *scan, const struct event *e)
{
    return e->wall_ms >= scan->since_ms && (scan->until_ms == 0 || e->wall_ms < scan->until_ms);
}

static bool passes(const struct event_scan *scan, const struct event *e)
{
    return (scan->types & UINT64_C(1) << e->type) != 0 &&
           (scan->token == 0 || scan->token == e->token) && is_in_time(scan, e) &&
           slice_equal(scan->name, e->name) && scan->tenant == e->tenant;
}

static void note_gap(const struct history_case *t, uint32_t at, struct event_page *page)
{
    const struct event *e = &t->events[at];
    struct event_gap *last = page->gap_count == 0 ? NULL : &page->gaps[page->gap_count - 1];
    if (last != NULL && (last->from == e->index || last->to == e->index - 1)) {
        last->to = last->to > e->index ? last->to : e->index;
        last->from = last->from < e->index - 1 ? last->from : e->index - 1;
    } else if (page->gap_count < EVENT_SCAN_GAPS) {
        page->gaps[page->gap_count++] =
            (struct event_gap){e->index - 1, e->index, e->wall_ms, e->wall_ms};
    }
}

static void search_log(struct history_case *t, const struct event_scan *scan,
                       struct event_page *page, struct logged_event *records)
{
    uint32_t looked = 0;
    *page = (struct event_page){.records = records,
                                .complete_since_ms = t->complete_since_ms,
                                .complete_from_begin = t->complete_since_ms == 0};
    t->searches++;
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t at = scan->newest_first ? t->count - 1 - i : i;
        const struct event *e = &t->events[at];
        if (scan->is_continued &&
            (scan->newest_first ? !event_position_after(scan->after, place(e))
                                : !event_position_after(place(e), scan->after))) {
            continue;
        }
        if (looked == t->examined || page->count == scan->limit) {
            page->more = true;
            return;
        }
        looked++;
        page->next = place(e);
        if (t->is_lost[at] && is_in_time(scan, e)) {
            note_gap(t, at, page);
        } else if (!t->is_lost[at] && passes(scan, e)) {
            records[page->count++] = (struct logged_event){
                .kind = LOGGED_EVENT, .id = {e->index, e->ordinal}, .event = *e};
        }
    }
}

static void begin(const struct history_case *t, struct holds *h, const struct memory *memory,
                  const struct holds_query *query)
{
    holds_open(h, memory, query);
    for (uint32_t i = 0; i < t->hold_count; i++) {
        const struct true_hold *held = &t->holds[i];
        if (held->to_ms == UINT64_MAX) {
            struct grant_view view = {.holder = {.client = slice_of(held->client),
                                                 .mode = held->mode,
                                                 .since_ms = held->from_ms - START / 2},
                                      .token = held->token,
                                      .parts = 1};
            holds_present(h, held->tier, &view, held->from_ms, t->now_ms - START / 2);
        }
    }
}

static void answer(struct history_case *t, struct holds *h, const struct memory *memory,
                   const struct holds_query *query)
{
    static struct logged_event records[EVENT_SCAN_RECORDS];
    struct event_scan scan;
    struct event_page page;
    begin(t, h, memory, query);
    while (holds_next(h, &scan)) {
        search_log(t, &scan, &page, records);
        holds_take(h, &page);
    }
}

/* ---- a random history ---- */

static struct event *add_event(struct history_case *t, enum event_type type,
                               const struct true_hold *held, uint64_t wall_ms)
{
    struct event *e = &t->events[t->count];
    *e = (struct event){.type = type,
                        .index = 100 + t->count / 2, /* two of an entry */
                        .ordinal = t->count % 2,
                        .tenant = 7,
                        .tier = held->tier,
                        .wall_ms = wall_ms,
                        .at_ms = wall_ms - START / 2,
                        .token = held->token,
                        .mode = held->mode,
                        .parts = 1,
                        .name = slice_of("n"),
                        .client = slice_of(held->client),
                        .since_ms = held->from_ms - START / 2,
                        .since_wall_ms = held->from_ms};
    t->count++;
    return e;
}

static void end_one(struct history_case *t, struct true_hold *held, uint64_t wall_ms)
{
    static const struct {
        enum event_type type;
        enum ended ended;
    } ways[] = {{EVENT_RELEASED, ENDED_RELEASED}, {EVENT_RELEASED, ENDED_SESSION_CLOSED},
                {EVENT_EXPIRED, ENDED_EXPIRED},   {EVENT_EXPIRED, ENDED_SESSION_EXPIRED},
                {EVENT_EXPIRED, ENDED_MAX_HOLD},  {EVENT_FORCED, ENDED_FORCED},
                {EVENT_REVOKED, ENDED_REVOKED}};
    unsigned way = (unsigned)draw(sizeof(ways) / sizeof(ways[0]));
    held->to_ms = wall_ms;
    held->ended = ways[way].ended;
    struct event *e = add_event(t, ways[way].type, held, wall_ms);
    e->ended = held->ended;
    if (held->ended == ENDED_FORCED || held->ended == ENDED_REVOKED) {
        e->actor = slice_of("alice");
        e->text = slice_of("stuck");
    }
}

static void make_history(struct history_case *t, bool is_shared)
{
    *t = (struct history_case){.is_shared = is_shared,
                               .examined = draw(3) == 0 ? 1 + (uint32_t)draw(20) : EVENTS};
    uint64_t now_ms = START;
    uint32_t steps = 1 + (uint32_t)draw(EVENTS - 10);
    while (t->count < steps && t->hold_count < TRUE_HOLDS) {
        now_ms += 1 + draw(STEP_MOST);
        uint32_t open[TRUE_HOLDS];
        uint32_t open_count = 0;
        for (uint32_t i = 0; i < t->hold_count; i++) {
            if (t->holds[i].to_ms == UINT64_MAX) {
                open[open_count++] = i;
            }
        }
        bool is_full = open_count == (is_shared ? 6 : 1);
        if (is_full || (open_count > 0 && draw(2) == 0)) {
            end_one(t, &t->holds[open[draw(open_count)]], now_ms);
            if (draw(4) != 0) {
                continue; /* else the next is granted in the same moment */
            }
            is_full = false;
        }
        if (!is_full) {
            struct true_hold *held = &t->holds[t->hold_count++];
            *held = (struct true_hold){.token = 1024 * t->hold_count,
                                       .from_ms = now_ms,
                                       .to_ms = UINT64_MAX,
                                       .waited_ms = draw(2) * draw(500),
                                       .mode = is_shared ? MODE_SHARED : MODE_EXCLUSIVE};
            (void)snprintf(held->client, sizeof(held->client), "c%u", (unsigned)draw(1000));
            struct event *e = add_event(t, EVENT_GRANTED, held, now_ms);
            e->waited_ms = held->waited_ms;
        }
    }
    t->now_ms = now_ms + draw(100);
}

static struct holds_query query_of(const struct history_case *t)
{
    return (struct holds_query){.tenant = 7,
                                .name = slice_of("n"),
                                .limit = HOLDS_MAX,
                                .now_ms = t->now_ms,
                                .index = UINT64_MAX};
}

/* ---- comparison ---- */

static const struct true_hold *truth_of(const struct history_case *t, uint64_t token)
{
    assert_true(token % 1024 == 0 && token / 1024 >= 1 && token / 1024 <= t->hold_count);
    return &t->holds[token / 1024 - 1];
}

static void is_true(const struct history_case *t, const struct past_hold *row)
{
    const struct true_hold *held = truth_of(t, row->token);
    assert_int_equal(row->acquired_ms, held->from_ms);
    assert_true(slice_equal(row->client, slice_of(held->client)));
    if (row->waited_ms != UINT64_MAX) {
        assert_int_equal(row->waited_ms, held->waited_ms);
    }
    if (row->state == HOLD_CURRENT) {
        assert_true(held->to_ms == UINT64_MAX);
        assert_int_equal(row->held_ms, t->now_ms - held->from_ms);
    } else if (row->state == HOLD_ENDED) {
        assert_int_equal(row->ended_ms, held->to_ms);
        assert_int_equal(row->ended, held->ended);
        assert_int_equal(row->held_ms, held->to_ms - held->from_ms);
        bool is_forced = held->ended == ENDED_FORCED || held->ended == ENDED_REVOKED;
        assert_true(slice_equal(row->actor, slice_of(is_forced ? "alice" : "")));
        assert_true(slice_equal(row->reason, slice_of(is_forced ? "stuck" : "")));
    }
}

static bool was_held(const struct true_hold *held, uint64_t at_ms)
{
    return held->from_ms <= at_ms && at_ms < held->to_ms;
}

/* The whole list in pages of `limit`; each hold once. Returns the number of rows. */
static uint32_t check_list(struct history_case *t, uint32_t limit, uint64_t since_ms,
                           uint64_t until_ms, bool *seen)
{
    uint32_t rows = 0;
    uint64_t last_ms = UINT64_MAX;
    struct holds_query query = query_of(t);
    query.limit = limit;
    query.since_ms = since_ms;
    query.until_ms = until_ms;
    memset(seen, 0, TRUE_HOLDS * sizeof(*seen));
    for (;;) {
        struct counted counted;
        struct holds h;
        counted_init(&counted);
        answer(t, &h, &counted.memory, &query);
        for (uint32_t i = 0; i < h.count; i++) {
            const struct past_hold *row = &h.rows[i];
            is_true(t, row);
            assert_false(seen[row->token / 1024 - 1]);
            seen[row->token / 1024 - 1] = true;
            assert_true(row->state == HOLD_ENDED || t->complete_since_ms != 0 ||
                        row->state == HOLD_CURRENT);
            if (row->state == HOLD_ENDED) {
                assert_true(row->ended_ms <= last_ms && row->ended_ms >= since_ms);
                last_ms = row->ended_ms;
            }
            assert_true(until_ms == 0 || row->acquired_ms < until_ms);
            rows++;
        }
        assert_true(h.count <= limit + (query.is_continued ? 0 : 6)); /* present holders */
        query.is_continued = true;
        query.after = h.next;
        bool more = h.more;
        holds_close(&h);
        assert_int_equal(counted.blocks, 0);
        if (!more) {
            return rows;
        }
    }
}

static void a_list_has_every_hold_once(void **state)
{
    static struct history_case t;
    bool seen[TRUE_HOLDS];
    (void)state;
    for (seed = 1; seed < 400; seed++) {
        uint64_t first = seed;
        make_history(&t, seed % 2 == 0);
        uint32_t limit = 1 + (uint32_t)draw(draw(2) == 0 ? 5 : HOLDS_MAX);
        assert_int_equal(check_list(&t, limit, 0, 0, seen), t.hold_count);
        uint64_t since_ms = START + draw(t.now_ms - START + 1);
        uint64_t until_ms = since_ms + 1 + draw(t.now_ms - START + 1);
        (void)check_list(&t, limit, since_ms, until_ms, seen);
        for (uint32_t i = 0; i < t.hold_count; i++) {
            const struct true_hold *held = &t.holds[i];
            assert_int_equal(seen[i], held->to_ms >= since_ms && held->from_ms < until_ms);
        }
        seed = first;
    }
}

/* Each wait is known if its grant is in the log and the page reached it, or had searches left. */
static void a_list_says_how_long_each_holder_waited(void **state)
{
    static struct history_case t;
    (void)state;
    for (seed = 1; seed < 100; seed++) {
        uint64_t first = seed;
        struct holds h;
        make_history(&t, false);
        struct holds_query query = query_of(&t);
        query.limit = 10;
        answer(&t, &h, memory_system(), &query);
        for (uint32_t i = 0; i < h.count; i++) {
            assert_true(h.rows[i].waited_ms != UINT64_MAX);
        }
        holds_close(&h);
        seed = first;
    }
}

/* At every moment of the history, and right before and after each edge. */
static void at_each_moment_the_holders_are_those_who_held_it(void **state)
{
    static struct history_case t;
    (void)state;
    for (seed = 1; seed < 60; seed++) {
        uint64_t first = seed;
        make_history(&t, seed % 2 == 0);
        for (uint64_t at_ms = START - 1; at_ms <= t.now_ms; at_ms += 1 + draw(3)) {
            struct holds h;
            struct holds_query query = query_of(&t);
            query.is_at = true;
            query.at_ms = at_ms;
            answer(&t, &h, memory_system(), &query);
            uint32_t expected = 0;
            for (uint32_t i = 0; i < t.hold_count; i++) {
                expected += was_held(&t.holds[i], at_ms);
            }
            assert_int_equal(h.count, expected);
            assert_true(h.is_certain);
            assert_int_equal(holds_answer(&h), expected > 0 ? HOLDS_HELD : HOLDS_FREE);
            for (uint32_t i = 0; i < h.count; i++) {
                is_true(&t, &h.rows[i]);
                assert_true(was_held(truth_of(&t, h.rows[i].token), at_ms));
                assert_true(h.rows[i].waited_ms != UINT64_MAX);
            }
            uint64_t last_ms = 0;
            for (uint32_t i = 0; i < t.hold_count; i++) {
                uint64_t to_ms = t.holds[i].to_ms;
                last_ms = to_ms <= at_ms && to_ms > last_ms ? to_ms : last_ms;
            }
            assert_int_equal(h.has_previous, expected == 0 && last_ms != 0);
            if (h.has_previous) {
                is_true(&t, &h.previous);
                assert_int_equal(h.previous.ended_ms, last_ms);
                assert_true(h.previous.waited_ms != UINT64_MAX);
            }
            holds_close(&h);
        }
        seed = first;
    }
}

/* Loses a part of the log. */
static void lose(struct history_case *t)
{
    uint32_t from = (uint32_t)draw(t->count);
    uint32_t to = from + 1 + (uint32_t)draw(t->count - from);
    if (draw(2) == 0) {
        from = 0; /* the log begins later */
    }
    for (uint32_t i = from; i < to; i++) {
        t->is_lost[i] = true;
    }
    t->complete_since_ms = t->events[to - 1].wall_ms + 1;
}

/* S19.1 */
static void with_gaps_no_answer_is_wrong(void **state)
{
    static struct history_case t;
    bool seen[TRUE_HOLDS];
    uint32_t held = 0;
    uint32_t free_ = 0;
    uint32_t unknown = 0;
    (void)state;
    for (seed = 1; seed < 300; seed++) {
        uint64_t first = seed;
        make_history(&t, seed % 3 == 0);
        lose(&t);
        (void)check_list(&t, 1 + (uint32_t)draw(20), 0, 0, seen);
        for (uint32_t i = 0; i < t.count; i++) { /* an end in the log is a row */
            if (!t.is_lost[i] && t.events[i].ended != ENDED_NOT) {
                assert_true(seen[t.events[i].token / 1024 - 1]);
            }
        }
        for (uint64_t at_ms = START - 1; at_ms <= t.now_ms; at_ms += 1 + draw(200)) {
            struct holds h;
            struct holds_query query = query_of(&t);
            query.is_at = true;
            query.at_ms = at_ms;
            answer(&t, &h, memory_system(), &query);
            uint32_t expected = 0;
            for (uint32_t i = 0; i < t.hold_count; i++) {
                expected += was_held(&t.holds[i], at_ms);
            }
            for (uint32_t i = 0; i < h.count; i++) {
                is_true(&t, &h.rows[i]);
                assert_true(was_held(truth_of(&t, h.rows[i].token), at_ms));
            }
            enum holds_answer got = holds_answer(&h);
            assert_true(got != HOLDS_FREE || expected == 0);
            assert_true(!h.is_certain || h.count == expected);
            assert_true(at_ms < t.complete_since_ms || h.is_certain);
            held += got == HOLDS_HELD;
            free_ += got == HOLDS_FREE;
            unknown += got == HOLDS_UNKNOWN;
            holds_close(&h);
        }
        seed = first;
    }
    assert_true(held > 100 && free_ > 100 && unknown > 100);
}

/* ---- single cases ---- */

static struct history_case one_hold(enum tier tier, bool is_ended)
{
    struct history_case t = {.examined = EVENTS, .now_ms = START + 1000, .hold_count = 1};
    t.holds[0] = (struct true_hold){.token = 1024,
                                    .from_ms = START + 100,
                                    .to_ms = 0,
                                    .tier = tier,
                                    .waited_ms = 30,
                                    .client = "a"};
    add_event(&t, EVENT_GRANTED, &t.holds[0], START + 100)->waited_ms = 30;
    if (is_ended) {
        end_one(&t, &t.holds[0], START + 200);
    }
    return t;
}

/* S10: the tier has no log, so a leader that is lost takes its locks along without an event. */
static void the_end_of_a_lock_of_a_lost_leader_is_unknown(void **state)
{
    static struct history_case t;
    struct holds h;
    (void)state;
    t = one_hold(TIER_EFFICIENCY, false);
    struct holds_query query = query_of(&t);
    answer(&t, &h, memory_system(), &query);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.rows[0].state, HOLD_UNKNOWN);
    assert_true(h.rows[0].held_ms == UINT64_MAX && h.rows[0].waited_ms == 30);
    holds_close(&h);
    query.is_at = true;
    query.at_ms = START + 150;
    answer(&t, &h, memory_system(), &query);
    assert_int_equal(holds_answer(&h), HOLDS_UNKNOWN);
    assert_true(h.has_previous && h.previous.state == HOLD_UNKNOWN);
    holds_close(&h);
}

static void what_happened_after_the_barrier_is_not_in_the_answer(void **state)
{
    static struct history_case t;
    struct holds h;
    (void)state;
    t = one_hold(TIER_CORRECTNESS, true);
    t.holds[0].to_ms = UINT64_MAX; /* as the state showed it */
    struct holds_query query = query_of(&t);
    t.events[1].index = 101;
    query.index = 100;
    answer(&t, &h, memory_system(), &query);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.rows[0].state, HOLD_CURRENT);
    assert_int_equal(h.rows[0].waited_ms, 30);
    holds_close(&h);
}

static enum holds_answer answer_at(struct history_case *t, uint64_t at_ms)
{
    struct holds h;
    struct holds_query query = query_of(t);
    query.is_at = true;
    query.at_ms = at_ms;
    answer(t, &h, memory_system(), &query);
    enum holds_answer got = holds_answer(&h);
    holds_close(&h);
    return got;
}

/* Three holds of 100 ms, 100 ms apart; one event each is missing in turn. */
static void only_a_gap_between_what_decides_matters(void **state)
{
    static struct history_case t;
    static const enum holds_answer between[] = {HOLDS_FREE,    HOLDS_FREE,    HOLDS_FREE,
                                                HOLDS_UNKNOWN, HOLDS_UNKNOWN, HOLDS_FREE};
    (void)state;
    for (unsigned lost = 0; lost < 6; lost++) {
        t = (struct history_case){.examined = EVENTS, .now_ms = START + 1000, .hold_count = 3};
        for (unsigned i = 0; i < 3; i++) {
            t.holds[i] = (struct true_hold){
                .token = 1024 * (i + 1), .from_ms = START + 100 + i * 200, .client = "a"};
            add_event(&t, EVENT_GRANTED, &t.holds[i], t.holds[i].from_ms)->index = 200 + i * 20;
            end_one(&t, &t.holds[i], t.holds[i].from_ms + 100);
            t.events[t.count - 1].index = 210 + i * 20;
        }
        t.is_lost[lost] = true;
        t.complete_since_ms = START + 900;
        assert_int_equal(answer_at(&t, START + 450), between[lost]);
        assert_int_equal(answer_at(&t, START + 350), lost == 3 ? HOLDS_UNKNOWN : HOLDS_HELD);
    }
}

static void an_answer_may_stop_early(void **state)
{
    static struct history_case t;
    static struct logged_event records[EVENT_SCAN_RECORDS];
    (void)state;
    for (seed = 1; seed < 200; seed++) {
        uint64_t first = seed;
        struct counted counted;
        struct holds h;
        struct event_scan scan;
        struct event_page page;
        counted_init(&counted);
        make_history(&t, seed % 2 == 0);
        struct holds_query query = query_of(&t);
        query.is_at = seed % 4 < 2;
        query.at_ms = query.is_at ? START + draw(t.now_ms - START + 1) : 0;
        t.examined = 3;
        begin(&t, &h, &counted.memory, &query);
        for (uint64_t i = 1 + draw(6); i > 0 && holds_next(&h, &scan); i--) {
            search_log(&t, &scan, &page, records);
            holds_take(&h, &page);
        }
        holds_stop(&h);
        assert_false(holds_next(&h, &scan));
        uint32_t expected = 0;
        for (uint32_t i = 0; i < t.hold_count; i++) {
            expected += was_held(&t.holds[i], query.at_ms);
        }
        assert_true(!query.is_at || holds_answer(&h) != HOLDS_FREE || expected == 0);
        holds_close(&h);
        assert_int_equal(counted.blocks, 0);
        seed = first;
    }
}

static void a_position_has_one_text(void **state)
{
    char text[EVENT_CURSOR_TEXT];
    struct event_position p;
    (void)state;
    event_position_format((struct event_position){LIMIT_NUMBER - 1, UINT32_MAX, UINT32_MAX}, text);
    assert_true(event_position_parse(slice_of(text), &p));
    assert_true(p.index == LIMIT_NUMBER - 1 && p.ordinal == UINT32_MAX && p.sub == UINT32_MAX);
    assert_true(event_position_parse(slice_of("0-0-0"), &p));
    static const char *const wrong[] = {
        "",
        "1",
        "1-2",
        "1-2-",
        "-1-2-3",
        "1-2-3-",
        "1-2-3-4",
        "01-2-3",
        "1-2-3 ",
        "1-x-3",
        "1--3",
        "1-2-4294967296",
        "9007199254740992-0-0",
        "99999999999999999999999-0-0",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(event_position_parse(slice_of(wrong[i]), &p));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_every_hold_once),
        cmocka_unit_test(a_list_says_how_long_each_holder_waited),
        cmocka_unit_test(at_each_moment_the_holders_are_those_who_held_it),
        cmocka_unit_test(with_gaps_no_answer_is_wrong),
        cmocka_unit_test(the_end_of_a_lock_of_a_lost_leader_is_unknown),
        cmocka_unit_test(what_happened_after_the_barrier_is_not_in_the_answer),
        cmocka_unit_test(only_a_gap_between_what_decides_matters),
        cmocka_unit_test(an_answer_may_stop_early),
        cmocka_unit_test(a_position_has_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
