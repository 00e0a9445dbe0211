/* Searches in the event log: pages in both directions find what a naive filter over all records finds. */
#include "event_log_world.h"

enum { ROUNDS = 300, MAX_GAPS = 64 };

/* Random entries: events, audit records, events of the tier EFFICIENCY, entries without records, gaps. */
struct random_log {
    struct event_world *w;
    struct random random;
    struct event_gap gaps[MAX_GAPS];
    uint32_t gap_count;
    struct event_id newest;
    struct event_position last;
};

static void add_event(struct random_log *l, uint32_t ordinal)
{
    struct event_world *w = l->w;
    l->newest = (struct event_id){w->index, ordinal};
    l->last = (struct event_position){w->index, ordinal, 0};
    world_add(w, (struct known_record){.kind = LOGGED_EVENT,
                                       .id = l->newest,
                                       .position = l->last,
                                       .seed = random_below(&l->random, 5000)});
}

static void add_audit(struct random_log *l, uint32_t number)
{
    struct event_world *w = l->w;
    l->last = (struct event_position){w->index, EVENT_AUDIT, number};
    world_add(w, (struct known_record){.kind = LOGGED_AUDIT,
                                       .id = l->newest,
                                       .position = l->last,
                                       .seed = random_below(&l->random, 5000)});
}

static void add_lossy(struct random_log *l)
{
    l->last.sub = l->last.sub < EVENT_LOSSY ? EVENT_LOSSY + 1 : l->last.sub + 1;
    world_add(l->w, (struct known_record){.kind = LOGGED_EVENT,
                                          .is_lossy = true,
                                          .id = l->newest,
                                          .position = l->last,
                                          .seed = random_below(&l->random, 5000)});
}

static void add_entry(struct random_log *l)
{
    struct event_world *w = l->w;
    struct random *random = &l->random;
    w->index++;
    uint32_t events = random_below(random, 4);
    for (uint32_t i = 0; i < events; i++)
        add_event(l, i);
    uint32_t audits = random_below(random, 12) == 0 ? 1 + random_below(random, 3) : 0;
    for (uint32_t i = 1; i <= audits; i++)
        add_audit(l, i);
    event_log_applied(w->log, w->index, w->wall_ms);
    l->last = event_position_end_of(w->index);
    uint32_t lossy = random_below(random, 6) == 0 ? random_below(random, 3) : 0;
    for (uint32_t i = 0; i < lossy; i++)
        add_lossy(l);
    if (lossy > 0)
        event_log_applied(w->log, w->index, w->wall_ms);
}

static void add_gap(struct random_log *l)
{
    struct event_world *w = l->w;
    struct event_gap gap = {w->index, w->index + 1 + random_below(&l->random, 30), w->wall_ms, 0};
    w->wall_ms += random_below(&l->random, 2000);
    gap.to_ms = w->wall_ms;
    event_log_skipped(w->log, gap.to, w->wall_ms);
    w->index = gap.to;
    l->newest = (struct event_id){gap.to, UINT32_MAX};
    l->last = event_position_end_of(gap.to);
    l->gaps[l->gap_count++] = gap;
}

static void fill_log(struct random_log *l, uint32_t entries)
{
    struct event_world *w = l->w;
    for (uint32_t i = 0; i < entries; i++) {
        /* The wall clock of the entries may go back a little. */
        w->wall_ms += random_below(&l->random, 40);
        w->wall_ms -= random_below(&l->random, 50) == 0 ? 200 : 0;
        add_entry(l);
        if (random_below(&l->random, 8) == 0)
            event_log_write(w->log);
        if (i > 0 && i % 700 == 0 && l->gap_count < MAX_GAPS)
            add_gap(l);
        if (i % 1500 == 999) {
            event_log_write(w->log);
            world_close(w);
            world_open(w);
        }
    }
    event_log_write(w->log);
}

/* ---- the naive search ---- */

static bool known_matches(const struct event_scan *scan, const struct known_record *k)
{
    struct world_texts texts;
    struct slice name, actor;
    uint32_t tenant;
    if ((scan->kinds & (k->kind == LOGGED_EVENT ? SCAN_EVENTS : SCAN_AUDIT)) == 0 ||
        k->wall_ms < scan->since_ms || (scan->until_ms != 0 && k->wall_ms >= scan->until_ms))
        return false;
    if (k->kind == LOGGED_EVENT) {
        struct event e = world_event(k, &texts);
        name = e.name;
        actor = e.actor;
        tenant = e.tenant;
        if ((scan->types != 0 && (scan->types >> e.type & 1) == 0) ||
            (scan->token != 0 && e.token != scan->token) ||
            (scan->client.len > 0 && !slice_equal(e.client, scan->client)))
            return false;
    } else {
        struct audit_view a = world_audit(k, &texts);
        name = a.resource;
        actor = a.actor;
        tenant = a.tenant;
        char action[64] = "";
        memcpy(action, scan->action.data == NULL ? (const uint8_t *)"" : scan->action.data,
               scan->action.len);
        if (scan->action.len > 0 && !slice_is_word(a.action, action))
            return false;
    }
    return (scan->all_tenants || tenant == scan->tenant) &&
           (scan->match != SCAN_EXACT_NAME || slice_equal(name, scan->name)) &&
           (scan->match != SCAN_PREFIX || slice_starts_with(name, scan->name)) &&
           (scan->actor.len == 0 || slice_equal(actor, scan->actor));
}

struct filter_texts {
    char name[64];
    char client[64];
    char actor[64];
};

static struct event_scan random_scan(struct random_log *l, struct filter_texts *t)
{
    struct random *random = &l->random;
    struct event_world *w = l->w;
    struct event_scan scan = {.kinds = 1 + random_below(random, 3),
                              .tenant = random_below(random, 2),
                              .all_tenants = random_below(random, 2) == 0,
                              .newest_first = random_below(random, 2) == 0,
                              .limit = random_below(random, 3) == 0
                                           ? 1 + random_below(random, 9)
                                           : 1 + random_below(random, EVENT_SCAN_RECORDS)};
    scan.match = (enum event_scan_names)random_below(random, 3);
    snprintf(t->name, sizeof(t->name), "team-%u/lock-%u", random_below(random, 3),
             random_below(random, 17));
    if (scan.match != SCAN_ANY_NAME)
        scan.name = slice_of(t->name);
    if (random_below(random, 4) == 0)
        scan.types = random_next(random) & ((UINT64_C(1) << EVENT_COUNT) - 1);
    if (random_below(random, 6) == 0)
        scan.token = 1 + random_below(random, 11);
    if (random_below(random, 6) == 0) {
        snprintf(t->client, sizeof(t->client), "client-%u", random_below(random, 5));
        scan.client = slice_of(t->client);
    }
    if (random_below(random, 6) == 0) {
        snprintf(t->actor, sizeof(t->actor), "actor-%u", random_below(random, 4));
        scan.actor = slice_of(t->actor);
    }
    if (random_below(random, 6) == 0)
        scan.action = slice_of("Force_Unlock");
    uint32_t span = (uint32_t)(w->wall_ms - WORLD_WALL_MS);
    if (random_below(random, 3) == 0)
        scan.since_ms = WORLD_WALL_MS + random_below(random, span);
    if (random_below(random, 3) == 0)
        scan.until_ms = WORLD_WALL_MS + 1 + random_below(random, span);
    return scan;
}

/* The next that matches, in the direction of the scan; `count`: none. */
static uint32_t next_known(const struct event_world *w, const struct event_scan *scan, uint32_t at)
{
    for (; at < w->count; at++) {
        if (known_matches(scan, &w->known[scan->newest_first ? w->count - 1 - at : at]))
            break;
    }
    return at;
}

static bool is_relevant(const struct event_scan *scan, const struct event_gap *gap)
{
    return gap->to_ms >= scan->since_ms && (scan->until_ms == 0 || gap->from_ms < scan->until_ms);
}

static void compare_gaps(const struct random_log *l, const struct event_scan *scan,
                         const struct event_gap *found, uint32_t count)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < l->gap_count; i++) {
        const struct event_gap *gap = &l->gaps[scan->newest_first ? l->gap_count - 1 - i : i];
        if (!is_relevant(scan, gap))
            continue;
        assert_true(at < count);
        assert_int_equal(found[at].from, gap->from);
        assert_int_equal(found[at].to, gap->to);
        assert_int_equal(found[at].to_ms, gap->to_ms);
        at++;
    }
    assert_int_equal(at, count);
}

static uint32_t compare_scan(struct random_log *l, struct event_scan scan)
{
    struct event_world *w = l->w;
    struct event_gap gaps[MAX_GAPS];
    uint32_t gap_count = 0;
    uint32_t at = 0;
    uint32_t pages = 0;
    struct event_page page;
    struct problem problem;
    do {
        assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
        assert_true(page.count <= scan.limit && ++pages < 20000);
        for (uint32_t i = 0; i < page.count; i++) {
            at = next_known(w, &scan, at);
            if (at == w->count ||
                !same_record(&page.records[i],
                             &w->known[scan.newest_first ? w->count - 1 - at : at]))
                fail_msg("record %u of page %u: %llu-%u", i, pages,
                         (unsigned long long)page.records[i].id.index, page.records[i].id.ordinal);
            at++;
        }
        for (uint32_t i = 0; i < page.gap_count; i++) {
            assert_true(gap_count < MAX_GAPS);
            gaps[gap_count++] = page.gaps[i];
        }
        scan.is_continued = true;
        scan.after = page.next;
        event_page_close(w->log, &page);
    } while (page.more);
    assert_int_equal(next_known(w, &scan, at), w->count);
    compare_gaps(l, &scan, gaps, gap_count);
    return pages;
}

static struct random_log *new_log(const char *test, uint32_t entries)
{
    struct random_log *l = calloc(1, sizeof(*l));
    l->w = world_new();
    l->w->segment_bytes = 200 << 10;
    random_init(&l->random, test);
    world_open(l->w);
    fill_log(l, entries);
    return l;
}

static void free_log(struct random_log *l)
{
    world_free(l->w);
    free(l);
}

static void pages_are_as_a_naive_filter(void **state)
{
    struct random_log *l = new_log("pages_are_as_a_naive_filter", 12000);
    struct filter_texts texts;
    for (int i = 0; i < ROUNDS; i++)
        (void)compare_scan(l, random_scan(l, &texts));
    free_log(l);
}

static void a_page_says_since_when_it_is_complete(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    struct event_scan scan = {.kinds = SCAN_EVENTS, .all_tenants = true, .limit = 10};
    struct event_page page;
    struct problem problem;
    assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
    assert_true(page.complete_from_begin && !page.more && page.count == 0);
    world_entries(w, 10, 3);
    assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
    assert_true(page.complete_from_begin && page.more);
    assert_int_equal(page.count, 10);
    assert_int_equal(page.read_to, 10);
    event_page_close(w->log, &page);
    w->wall_ms += 500;
    event_log_skipped(w->log, 20, w->wall_ms);
    event_log_write(w->log);
    scan.newest_first = true;
    assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
    assert_false(page.complete_from_begin);
    assert_int_equal(page.complete_since_ms, WORLD_WALL_MS + 600);
    assert_int_equal(page.gap_count, 1);
    assert_int_equal(page.gaps[0].from, 10);
    assert_int_equal(page.gaps[0].to, 20);
    assert_int_equal(page.gaps[0].from_ms, WORLD_WALL_MS + 100);
    assert_int_equal(page.gaps[0].to_ms, WORLD_WALL_MS + 600);
    event_page_close(w->log, &page);
    world_free(w);
}

/* A scan that goes on after its segments were removed. */
static void a_page_after_a_removal_has_a_gap(void **state)
{
    struct event_world *w = world_new();
    w->max_bytes = 60 << 10;
    w->segment_bytes = 10 << 10;
    world_open(w);
    world_entries(w, 20, 5);
    struct event_scan scan = {.kinds = SCAN_EVENTS, .all_tenants = true, .limit = 10};
    struct event_page page;
    struct problem problem;
    assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
    assert_true(page.more);
    event_page_close(w->log, &page);
    world_entries(w, 1000, 5);
    scan.is_continued = true;
    scan.after = page.next;
    assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
    assert_int_equal(page.gap_count, 1);
    assert_int_equal(page.gaps[0].from, 5);
    assert_int_equal(page.gaps[0].to, world_stats(w).first_index);
    assert_true(same_record(&page.records[0], &w->known[page.gaps[0].to * 2]));
    event_page_close(w->log, &page);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_as_a_naive_filter),
        cmocka_unit_test(a_page_says_since_when_it_is_complete),
        cmocka_unit_test(a_page_after_a_removal_has_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
