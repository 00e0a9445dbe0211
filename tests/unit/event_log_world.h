/* What the tests of the event log share: a log on a fake disk that the test writes by hand, records
 * whose content follows from a number, and a naive list of what should be in the log. To be included
 * first. */
#ifndef HOLDFAST_TESTS_EVENT_LOG_WORLD_H
#define HOLDFAST_TESTS_EVENT_LOG_WORLD_H

#include "base_testing.h"

#include "disk_fake.h"
#include "events/event_log.h"
#include "events/event_scan.h"
#include "events/segment.h"

#define assert_text(text, part)                                          \
    do {                                                                 \
        if (strstr((text), (part)) == NULL)                              \
            fail_msg("line %d: \"%s\" in \"%s\"", __LINE__, part, text); \
    } while (0)

static const struct id world_cluster = {0x1111, 0x2222};

enum { WORLD_RECORDS = 40000, WORLD_WALL_MS = 1000000 };

/* A record as the test knows it. */
struct known_record {
    enum logged_kind kind;
    bool is_lossy;
    struct event_id id;
    struct event_position position;
    uint64_t seed;
    uint64_t wall_ms;
};

struct event_world {
    struct counted counted;
    struct disk_fake *fake;
    struct event_log *log;
    uint64_t wall_ms;
    uint64_t max_bytes;
    uint64_t max_age_ms;
    size_t segment_bytes;
    size_t buffer_bytes;
    struct id cluster;
    uint64_t index; /* the newest entry that was appended */
    struct known_record known[WORLD_RECORDS];
    uint32_t count;
};

static uint64_t world_wall(void *ctx)
{
    return ((struct event_world *)ctx)->wall_ms;
}

static inline struct event_log *world_try_open(struct event_world *w, struct problem *problem)
{
    const struct event_log_options options = {
        .memory = &w->counted.memory,
        .disk = disk_fake_disk(w->fake),
        .cluster = w->cluster,
        .node = 1,
        .max_bytes = w->max_bytes,
        .max_age_ms = w->max_age_ms,
        .segment_bytes = w->segment_bytes,
        .buffer_bytes = w->buffer_bytes,
        .by_hand = true,
        .ctx = w,
        .wall_ms = world_wall,
    };
    return event_log_open(&options, problem);
}

static inline void world_open(struct event_world *w)
{
    struct problem problem = {.text = ""};
    w->log = world_try_open(w, &problem);
    if (w->log == NULL)
        fail_msg("%s", problem.text);
}

static inline struct event_world *world_new(void)
{
    struct event_world *w = calloc(1, sizeof(*w));
    counted_init(&w->counted);
    w->fake = disk_fake_new(1);
    w->wall_ms = WORLD_WALL_MS;
    w->max_bytes = 64 << 20;
    w->segment_bytes = 32 << 10;
    w->cluster = world_cluster;
    return w;
}

static inline void world_close(struct event_world *w)
{
    event_log_close(w->log);
    w->log = NULL;
    assert_int_equal(w->counted.blocks, 0);
}

static inline void world_free(struct event_world *w)
{
    if (w->log != NULL)
        world_close(w);
    disk_fake_free(w->fake);
    free(w);
}

/* As after kill -9: what was not written is lost. */
static inline void world_crash(struct event_world *w)
{
    struct disk_fake *copy = disk_fake_copy(w->fake, 2);
    world_close(w);
    disk_fake_free(w->fake);
    w->fake = copy;
}

/* ---- records ---- */

struct world_texts {
    char name[600];
    char client[64];
    char actor[64];
};

static inline struct event world_event(const struct known_record *k, struct world_texts *t)
{
    snprintf(t->name, sizeof(t->name), "team-%u/lock-%u", (unsigned)(k->seed % 3),
             (unsigned)(k->seed % 17));
    snprintf(t->client, sizeof(t->client), "client-%u", (unsigned)(k->seed % 5));
    snprintf(t->actor, sizeof(t->actor), "actor-%u", (unsigned)(k->seed % 4));
    return (struct event){.type = (enum event_type)(1 + k->seed % (EVENT_COUNT - 1)),
                          .tier = k->is_lossy ? TIER_EFFICIENCY : TIER_CORRECTNESS,
                          .tenant = (uint32_t)(k->seed / 7 % 2),
                          .index = k->id.index,
                          .ordinal = k->id.ordinal,
                          .parts = 1,
                          .at_ms = k->wall_ms,
                          .wall_ms = k->wall_ms,
                          .token = 1 + k->seed % 11,
                          .name = slice_of(t->name),
                          .client = slice_of(t->client),
                          .actor = slice_of(t->actor),
                          .text = slice_make(t->name, k->seed % 6 == 0 ? 1 : 0)};
}

static inline struct audit_view world_audit(const struct known_record *k, struct world_texts *t)
{
    snprintf(t->name, sizeof(t->name), "team-%u/lock-%u", (unsigned)(k->seed % 3),
             (unsigned)(k->seed % 17));
    snprintf(t->actor, sizeof(t->actor), "actor-%u", (unsigned)(k->seed % 4));
    return (struct audit_view){.number = k->seed,
                               .index = k->position.index,
                               .wall_ms = k->wall_ms,
                               .tenant = (uint32_t)(k->seed / 7 % 2),
                               .kind = (uint32_t)(k->seed % 3),
                               .action = slice_of(k->seed % 2 == 0 ? "FORCE_UNLOCK" : "REVOKE"),
                               .resource = slice_of(t->name),
                               .actor = slice_of(t->actor),
                               .reason = slice_of("because"),
                               .count = (uint32_t)(k->seed % 9),
                               .is_fence_reset = k->seed % 2 == 1,
                               .slot = 3,
                               .mark_before = k->seed,
                               .mark_after = k->seed + 1,
                               .is_note = k->seed % 3 == 1};
}

static inline void world_append(struct event_world *w, const struct known_record *k)
{
    struct world_texts texts;
    if (k->kind == LOGGED_EVENT) {
        struct event event = world_event(k, &texts);
        event_log_append(w->log, &event, CORE_VERSION);
    } else {
        struct audit_view audit = world_audit(k, &texts);
        event_log_append_audit(w->log, &audit);
    }
}

static inline bool same_record(const struct logged_event *r, const struct known_record *k)
{
    struct world_texts texts;
    if (r->kind != k->kind || r->id.index != k->id.index || r->id.ordinal != k->id.ordinal)
        return false;
    if (k->kind == LOGGED_EVENT) {
        struct event e = world_event(k, &texts);
        return r->event.type == e.type && r->event.tier == e.tier && r->event.token == e.token &&
               r->event.tenant == e.tenant && r->event.index == e.index &&
               r->event.wall_ms == e.wall_ms && slice_equal(r->event.name, e.name) &&
               slice_equal(r->event.client, e.client) && slice_equal(r->event.text, e.text);
    }
    struct audit_view a = world_audit(k, &texts);
    return r->audit.number == a.number && r->audit.index == a.index &&
           r->audit.wall_ms == a.wall_ms && r->audit.tenant == a.tenant &&
           r->audit.kind == a.kind && r->audit.count == a.count && r->audit.slot == a.slot &&
           r->audit.is_fence_reset == a.is_fence_reset && r->audit.is_note == a.is_note &&
           r->audit.mark_before == a.mark_before && r->audit.mark_after == a.mark_after &&
           slice_equal(r->audit.action, a.action) && slice_equal(r->audit.resource, a.resource) &&
           slice_equal(r->audit.actor, a.actor) && slice_equal(r->audit.reason, a.reason);
}

/* Appends a record of the entry w->index + 1 or of the present one, and notes it. */
static inline void world_add(struct event_world *w, struct known_record k)
{
    assert_true(w->count < WORLD_RECORDS);
    k.wall_ms = k.wall_ms == 0 ? w->wall_ms : k.wall_ms;
    w->known[w->count++] = k;
    world_append(w, &k);
}

/* One entry with so many events. */
static inline void world_entry(struct event_world *w, uint32_t events, uint64_t seed)
{
    w->index++;
    for (uint32_t i = 0; i < events; i++) {
        struct event_position position = {w->index, i, 0};
        world_add(w, (struct known_record){.kind = LOGGED_EVENT,
                                           .id = {w->index, i},
                                           .position = position,
                                           .seed = seed + i});
    }
    event_log_applied(w->log, w->index, w->wall_ms);
}

/* Entries up to `index` with two events each, written after each `every`. */
static inline void world_entries(struct event_world *w, uint64_t index, uint64_t every)
{
    while (w->index < index) {
        w->wall_ms += 10;
        world_entry(w, 2, w->index * 3);
        if (w->index % every == 0)
            event_log_write(w->log);
    }
    event_log_write(w->log);
}

/* ---- reading ---- */

static inline enum event_read cursor_step(struct event_cursor *c, struct event_step *step)
{
    enum event_read read;
    do {
        read = event_cursor_next(c, step);
    } while (read == EVENT_READ_MORE);
    if (read == EVENT_READ_FAILED)
        fail_msg("%s", step->problem.text);
    return read;
}

/* Reads known[from, to) and nothing else. */
static inline void expect_records(struct event_world *w, struct event_cursor *c, uint32_t from,
                                  uint32_t to)
{
    struct event_step step;
    for (uint32_t i = from; i < to; i++) {
        enum event_read read = cursor_step(c, &step);
        if (read != EVENT_READ_RECORD)
            fail_msg("record %u: read %d, gap %llu to %llu", i, (int)read,
                     (unsigned long long)step.gap_from, (unsigned long long)step.gap_to);
        if (!same_record(&step.record, &w->known[i]))
            fail_msg("record %u is %llu-%u", i, (unsigned long long)step.record.id.index,
                     step.record.id.ordinal);
    }
}

static inline void expect_gap(struct event_cursor *c, uint64_t from, uint64_t to)
{
    struct event_step step;
    assert_int_equal(cursor_step(c, &step), EVENT_READ_GAP);
    assert_int_equal(step.gap_from, from);
    assert_int_equal(step.gap_to, to);
}

static inline void expect_end(struct event_cursor *c)
{
    struct event_step step;
    assert_int_equal(cursor_step(c, &step), EVENT_READ_END);
}

static inline void expect_all(struct event_world *w)
{
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){0, 0});
    expect_records(w, c, 0, w->count);
    expect_end(c);
    event_cursor_close(c);
}

static inline struct event_log_stats world_stats(struct event_world *w)
{
    struct event_log_stats stats;
    event_log_stats(w->log, &stats);
    return stats;
}

#endif
