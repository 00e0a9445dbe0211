/* See sink_world.h. */
#include "sink_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the log ---- */

struct fake_cursor {
    struct fake_log *log;
    struct event_id after;
    uint32_t at;
    uint64_t gap_seen; /* gap_to of the one that was returned */
    char name[64];
};

void fake_log_init(struct fake_log *log)
{
    memset(log, 0, sizeof(*log));
    pthread_mutex_init(&log->lock, NULL);
}

static struct event_cursor *open_cursor(void *ctx, struct event_id after)
{
    struct fake_cursor *c = calloc(1, sizeof(*c));
    c->log = ctx;
    c->after = after;
    pthread_mutex_lock(&c->log->lock);
    c->log->opened++;
    pthread_mutex_unlock(&c->log->lock);
    return (struct event_cursor *)(void *)c;
}

/* The next record that the cursor has to return; FAKE_RECORDS: none. */
static uint32_t find_next(const struct fake_cursor *c)
{
    const struct fake_log *log = c->log;
    for (uint32_t i = c->at; i < log->count; i++) {
        const struct logged_event *r = &log->records[i];
        bool is_audit = r->kind == LOGGED_AUDIT;
        if (event_id_after(r->id, c->after) ||
            (is_audit && r->id.index == c->after.index && r->id.ordinal == c->after.ordinal)) {
            return i;
        }
    }
    return FAKE_RECORDS;
}

static enum event_read next_locked(struct fake_cursor *c, struct event_step *out)
{
    struct fake_log *log = c->log;
    uint32_t found = find_next(c);
    if (log->reads_failing > 0) {
        log->reads_failing--;
        snprintf(out->problem.text, sizeof(out->problem.text), "the disk failed");
        return EVENT_READ_FAILED;
    }
    bool gap_is_next = log->gap_from < log->gap_to && c->after.index < log->gap_to &&
                       c->gap_seen != log->gap_to &&
                       (found == FAKE_RECORDS || log->records[found].id.index > log->gap_from);
    if (gap_is_next) {
        out->gap_from = log->gap_from;
        out->gap_to = log->gap_to;
        c->gap_seen = log->gap_to;
        c->after = (struct event_id){log->gap_to, UINT32_MAX};
        return EVENT_READ_GAP;
    }
    if (found == FAKE_RECORDS) {
        return EVENT_READ_END;
    }
    out->record = log->records[found];
    if (out->record.kind == LOGGED_EVENT) {
        snprintf(c->name, sizeof(c->name), "name-%llu", (unsigned long long)out->record.id.index);
        out->record.event.name = slice_of(c->name);
    }
    c->at = found + 1;
    return EVENT_READ_RECORD;
}

static enum event_read next_step(struct event_cursor *cursor, struct event_step *out)
{
    struct fake_cursor *c = (struct fake_cursor *)(void *)cursor;
    pthread_mutex_lock(&c->log->lock);
    enum event_read read = next_locked(c, out);
    pthread_mutex_unlock(&c->log->lock);
    return read;
}

static void close_cursor(struct event_cursor *c)
{
    free(c);
}

struct sink_source fake_log_source(struct fake_log *log)
{
    return (struct sink_source){
        .ctx = log, .open = open_cursor, .next = next_step, .close = close_cursor};
}

static struct logged_event *add(struct fake_log *log)
{
    hf_assert(log->count < FAKE_RECORDS);
    return &log->records[log->count++];
}

void fake_log_add(struct fake_log *log, uint64_t index, uint32_t ordinal)
{
    pthread_mutex_lock(&log->lock);
    *add(log) = (struct logged_event){.kind = LOGGED_EVENT,
                                      .id = {index, ordinal},
                                      .event = {.type = EVENT_GRANTED,
                                                .index = index,
                                                .ordinal = ordinal,
                                                .parts = 1,
                                                .at_ms = index,
                                                .wall_ms = 1700000000000 + index}};
    pthread_mutex_unlock(&log->lock);
}

void fake_log_add_audit(struct fake_log *log, struct event_id id, uint64_t number)
{
    pthread_mutex_lock(&log->lock);
    *add(log) = (struct logged_event){.kind = LOGGED_AUDIT,
                                      .id = id,
                                      .audit = {.number = number,
                                                .index = id.index,
                                                .wall_ms = 1700000000000,
                                                .action = slice_of("FORCE_UNLOCK"),
                                                .resource = slice_of("name-a"),
                                                .actor = slice_of("alice"),
                                                .reason = slice_of("stuck")}};
    pthread_mutex_unlock(&log->lock);
}

void fake_log_set_gap(struct fake_log *log, uint64_t from, uint64_t to)
{
    pthread_mutex_lock(&log->lock);
    log->gap_from = from;
    log->gap_to = to;
    pthread_mutex_unlock(&log->lock);
}

/* ---- the driver ---- */

static bool driver_open(struct sink_driver *driver, struct driver_trouble *trouble)
{
    struct fake_driver *d = (struct fake_driver *)driver;
    pthread_mutex_lock(&d->lock);
    bool is_away = d->is_away;
    d->opens += !is_away;
    pthread_mutex_unlock(&d->lock);
    snprintf(trouble->text, sizeof(trouble->text), "the receiver is away");
    return !is_away;
}

static void driver_begin(struct sink_driver *driver, const struct sink_batch *batch)
{
    ((struct fake_driver *)driver)->batch = batch;
}

static enum driver_step take(struct fake_driver *d, struct driver_trouble *trouble)
{
    if (d->is_stuck) {
        snprintf(trouble->text, sizeof(trouble->text), "no answer");
        return DRIVER_WAITS;
    }
    d->attempts++;
    if (d->too_large != 0 && d->batch->count > d->too_large) {
        trouble->too_large = true;
        snprintf(trouble->text, sizeof(trouble->text), "too large");
        return DRIVER_FAILED;
    }
    if (d->failures > 0) {
        d->failures--;
        snprintf(trouble->text, sizeof(trouble->text), "refused");
        return DRIVER_FAILED;
    }
    for (uint32_t i = 0; i < d->batch->count; i++) {
        struct slice id = sink_batch_id(d->batch, i);
        hf_assert(d->count < FAKE_IDS && id.len < FAKE_ID_TEXT);
        memcpy(d->ids[d->count], id.data, id.len);
        d->ids[d->count++][id.len] = '\0';
    }
    return DRIVER_DELIVERED;
}

static enum driver_step driver_poll(struct sink_driver *driver, uint32_t wait_ms,
                                    struct driver_trouble *trouble)
{
    struct fake_driver *d = (struct fake_driver *)driver;
    struct sink_status status;
    if (d->sink != NULL) {
        sink_status(d->sink, &status);
        d->position = status.position;
    }
    pthread_mutex_lock(&d->lock);
    enum driver_step step = take(d, trouble);
    pthread_mutex_unlock(&d->lock);
    if (step == DRIVER_WAITS) {
        usleep(1000 * (wait_ms < 2 ? wait_ms : 2));
    }
    return step;
}

static void driver_close(struct sink_driver *driver)
{
    struct fake_driver *d = (struct fake_driver *)driver;
    pthread_mutex_lock(&d->lock);
    d->closes++;
    pthread_mutex_unlock(&d->lock);
}

static void driver_free(struct sink_driver *driver)
{
    (void)driver; /* the test's */
}

void fake_driver_init(struct fake_driver *d)
{
    memset(d, 0, sizeof(*d));
    pthread_mutex_init(&d->lock, NULL);
    d->driver = (struct sink_driver){.linger_ms = 1,
                                     .events = SINK_BATCH_EVENTS,
                                     .open = driver_open,
                                     .begin = driver_begin,
                                     .poll = driver_poll,
                                     .close = driver_close,
                                     .free = driver_free};
}

uint32_t fake_driver_count(struct fake_driver *d)
{
    pthread_mutex_lock(&d->lock);
    uint32_t count = d->count;
    pthread_mutex_unlock(&d->lock);
    return count;
}

struct slice fake_tenant_name(void *ctx, uint32_t tenant)
{
    (void)ctx;
    return tenant == 0 ? slice_of("default") : slice_make(NULL, 0);
}
