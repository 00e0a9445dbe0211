/* The event sinks of this node (decision 0033): they deliver while it leads, from the replicated
 * positions on, and report their own positions to the replicated state.
 *
 *      node_open_sinks      the drivers: settings, files and libraries, before the sandbox
 *      node_step_sinks      starts and stops the threads, logs changes, submits positions
 *      node_sinks_policy    copies the names of tenants, which the threads need
 *      node_close_sinks     ends the threads, before the event log closes */
#include <pthread.h>
#include <stdio.h>

#include "core/view.h"
#include "node/node_events.h"
#include "node/node_state.h"
#include "service/request/sink_report.h"
#include "sinks/sink.h"

enum {
    SINKS_SINCE = 7, /* version of the state */
    POSITION_US = 1000000,
    GAP_WAIT_MS = 5000,      /* another node may fill it (decision 0032) */
    FAILING_NOTE_MS = 10000, /* between two lines about failures of one sink */
};

/* What the threads read of the policy. */
struct tenant_names {
    pthread_mutex_t lock;
    uint64_t version; /* of the policy; UINT64_MAX: not copied yet */
    uint32_t count;
    struct {
        uint32_t number;
        uint32_t len;
        uint8_t name[LIMIT_POLICY_NAME];
    } rows[LIMIT_TENANTS]; /* by rising number */
};

struct node_sink {
    const char *name;
    struct sink_driver *driver; /* until `sink` owns it */
    struct event_sink *sink;    /* NULL: this node never led */
    struct sink_status status;  /* copied in each step */
    uint64_t gaps_noted;
    bool was_failing;       /* and logged */
    uint64_t note_ms;       /* wall clock before which that is not logged again */
    uint64_t moved_ms;      /* wall clock: the position moved, or there was nothing to deliver */
    struct event_id at;     /* the position then */
    struct event_log *log;  /* which it listens to */
    struct node_sinks *all; /* for the thread */
    uint8_t tenant[LIMIT_POLICY_NAME]; /* of the thread: a name that it writes */
};

struct node_sinks {
    struct node *node;
    struct tenant_names tenants;
    bool leads;
    uint64_t term;        /* in which they lead */
    uint64_t position_us; /* boot time of the next report */
    bool without_log;     /* logged */
    uint32_t count;
    struct node_sink rows[NODE_SINKS];
};

/* ---- names of tenants ---- */

static void copy_tenant(void *ctx, const struct tenant_view *tenant)
{
    struct tenant_names *t = ctx;
    if (t->count < LIMIT_TENANTS) {
        t->rows[t->count].number = tenant->number;
        t->rows[t->count].len = (uint32_t)tenant->name.len;
        hf_assert(tenant->name.len <= LIMIT_POLICY_NAME);
        memcpy(t->rows[t->count].name, tenant->name.data, tenant->name.len);
        t->count++;
    }
}

void node_sinks_policy(struct node *n)
{
    const struct policy *policy;
    if (n->sinks == NULL || n->replica == NULL) {
        return;
    }
    struct tenant_names *t = &n->sinks->tenants;
    policy = core_policy(replica_core(n->replica));
    if (t->version == policy_version(policy)) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->version = policy_version(policy);
    t->count = 0;
    policy_each_tenant(policy, copy_tenant, t);
    pthread_mutex_unlock(&t->lock);
}

/* With the lock. -1: not found. */
static int64_t find_tenant(const struct tenant_names *t, uint32_t number)
{
    uint32_t low = 0;
    uint32_t high = t->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (t->rows[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < t->count && t->rows[low].number == number ? (int64_t)low : -1;
}

/* On the thread of the sink. */
static struct slice tenant_name(void *ctx, uint32_t number)
{
    struct node_sink *row = ctx;
    struct tenant_names *t = &row->all->tenants;
    size_t len = 0;
    pthread_mutex_lock(&t->lock);
    int64_t at = find_tenant(t, number);
    if (at >= 0) {
        len = t->rows[at].len;
        memcpy(row->tenant, t->rows[at].name, len);
    }
    pthread_mutex_unlock(&t->lock);
    return slice_make(row->tenant, len);
}

/* ---- drivers ---- */

static bool add_driver(struct node_sinks *s, const char *name, struct sink_driver *driver)
{
    if (driver == NULL) {
        return false;
    }
    hf_assert(s->count < NODE_SINKS);
    struct node_sink *row = &s->rows[s->count++];
    row->name = name;
    row->driver = driver;
    row->all = s;
    return true;
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static bool add_drivers(struct node *n, char problem[NODE_PROBLEM])
{
    const struct node_sink_settings *o = &n->options.sinks;
    _Static_assert((int)NODE_PROBLEM >= (int)DRIVER_PROBLEM, "problems of drivers fit");
    return (!is_set(o->file.path) ||
            add_driver(n->sinks, "file", file_driver_new(&o->file, problem))) &&
           (!is_set(o->kafka.brokers) ||
            add_driver(n->sinks, "kafka", kafka_driver_new(&o->kafka, problem))) &&
           (!is_set(o->webhook.url) ||
            add_driver(n->sinks, "webhook", webhook_driver_new(&o->webhook, problem)));
}

bool node_open_sinks(struct node *n, char problem[NODE_PROBLEM])
{
    const struct node_sink_settings *o = &n->options.sinks;
    if (!is_set(o->file.path) && !is_set(o->kafka.brokers) && !is_set(o->webhook.url)) {
        return true;
    }
    n->sinks = memory_alloc(n->options.memory, sizeof(*n->sinks));
    memset(n->sinks, 0, sizeof(*n->sinks));
    n->sinks->node = n;
    n->sinks->tenants.version = UINT64_MAX;
    pthread_mutex_init(&n->sinks->tenants.lock, NULL);
    return add_drivers(n, problem);
}

void node_close_sinks(struct node *n)
{
    struct node_sinks *s = n->sinks;
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        struct node_sink *row = &s->rows[i];
        if (row->sink != NULL) {
            event_log_unlisten(row->log, sink_notify, row->sink);
            sink_free(row->sink);
        } else {
            row->driver->free(row->driver);
        }
    }
    pthread_mutex_destroy(&s->tenants.lock);
    memory_free(n->options.memory, s, sizeof(*s));
    n->sinks = NULL;
}

void node_reload_sinks(struct node *n)
{
    for (uint32_t i = 0; n->sinks != NULL && i < n->sinks->count; i++) {
        if (n->sinks->rows[i].sink != NULL) {
            sink_reload(n->sinks->rows[i].sink);
        }
    }
}

/* ---- start and stop ---- */

static struct event_cursor *open_cursor(void *ctx, struct event_id after)
{
    return event_cursor_open(ctx, after);
}

/* When this node leads for the first time: most nodes of a cluster need no threads. */
static void start_thread(struct node *n, struct node_sink *row, struct event_log *log)
{
    const struct node_options *o = &n->options;
    struct sink_options options = {
        .memory = o->memory,
        .name = row->name,
        .driver = row->driver,
        .source = {.ctx = log,
                   .open = open_cursor,
                   .next = event_cursor_next,
                   .close = event_cursor_close},
        .json = {.cluster = slice_of(o->cluster_name), .ctx = row, .tenant_name = tenant_name},
        .prefix = slice_of(o->sinks.prefix == NULL ? "" : o->sinks.prefix),
        .gap_wait_ms = GAP_WAIT_MS};
    row->sink = sink_new(&options);
    row->log = log;
    event_log_listen(log, sink_notify, row->sink);
}

static struct event_id replicated_position(struct node *n, const struct node_sink *row)
{
    struct sink_view view;
    if (!view_sink(replica_core(n->replica), slice_of(row->name), &view)) {
        return (struct event_id){0, 0};
    }
    return (struct event_id){view.index, view.ordinal};
}

static void begin(struct node *n, struct event_log *log)
{
    struct node_sinks *s = n->sinks;
    node_sinks_policy(n);
    s->leads = true;
    s->term = n->term;
    for (uint32_t i = 0; i < s->count; i++) {
        struct node_sink *row = &s->rows[i];
        struct event_id after = replicated_position(n, row);
        if (row->sink == NULL) {
            start_thread(n, row, log);
        }
        row->was_failing = false;
        row->at = after;
        row->moved_ms = node_now(n).wall_ms;
        sink_lead(row->sink, after);
        journal_note(n->options.journal, INFO, NODE, "sink_started",
                     JOURNAL_TEXT("sink", row->name), JOURNAL_NUMBER("after", after.index));
    }
}

static void end(struct node *n)
{
    struct node_sinks *s = n->sinks;
    s->leads = false;
    for (uint32_t i = 0; i < s->count; i++) {
        sink_halt(s->rows[i].sink);
        journal_note(n->options.journal, INFO, NODE, "sink_stopped",
                     JOURNAL_TEXT("sink", s->rows[i].name));
    }
}

static void note_missing_log(struct node *n)
{
    if (!n->sinks->without_log) {
        n->sinks->without_log = true;
        journal_note(n->options.journal, ERROR, NODE, "sinks_not_started",
                     JOURNAL_TEXT("reason", "this node has no event log"),
                     JOURNAL_TEXT("next", "see the line event_log_not_open, repair its cause and "
                                          "start the node again"));
    }
}

/* Positions are part of the state since version 7. */
static void follow_lead(struct node *n)
{
    struct node_sinks *s = n->sinks;
    bool leads = n->serving && core_version(replica_core(n->replica)) >= SINKS_SINCE;
    struct event_log *log = node_event_log(n);
    if (s->leads && (!leads || s->term != n->term)) {
        end(n);
    }
    if (leads && !s->leads) {
        if (log == NULL) {
            note_missing_log(n);
        } else {
            begin(n, log);
        }
    }
}

/* ---- status ---- */

static void note_changes(struct node *n, struct node_sink *row, uint64_t wall_ms)
{
    const struct sink_status *now = &row->status;
    const struct journal *journal = n->options.journal;
    if (now->gaps != row->gaps_noted) {
        row->gaps_noted = now->gaps;
        journal_note(journal, WARN, NODE, "sink_gap", JOURNAL_TEXT("sink", row->name),
                     JOURNAL_NUMBER("from", now->gap_from), JOURNAL_NUMBER("to", now->gap_to),
                     JOURNAL_TEXT("text", "the event log does not have the events of these log "
                                          "entries any more; the sink was sent a gap instead"),
                     JOURNAL_TEXT("next", "raise events-max-bytes or events-max-age if the sink "
                                          "was away for long"));
    }
    if (now->is_failing && !row->was_failing && wall_ms >= row->note_ms) {
        row->was_failing = true;
        row->note_ms = wall_ms + FAILING_NOTE_MS;
        journal_note(journal, WARN, NODE, "sink_failing", JOURNAL_TEXT("sink", row->name),
                     JOURNAL_TEXT("reason", now->trouble),
                     JOURNAL_TEXT("next", "events are sent later, as long as the event log has "
                                          "them; `holdfast sinks` shows the lag"));
    } else if (!now->is_failing && row->was_failing) {
        row->was_failing = false;
        journal_note(journal, INFO, NODE, "sink_recovered", JOURNAL_TEXT("sink", row->name),
                     JOURNAL_NUMBER("delivered", now->delivered));
    }
}

static void look(struct node *n, struct replica_time now, struct event_id newest)
{
    for (uint32_t i = 0; i < n->sinks->count; i++) {
        struct node_sink *row = &n->sinks->rows[i];
        sink_status(row->sink, &row->status);
        note_changes(n, row, now.wall_ms);
        if (event_id_after(row->status.position, row->at) ||
            !event_id_after(newest, row->status.position)) {
            row->at = row->status.position;
            row->moved_ms = now.wall_ms;
        }
    }
}

/* ---- positions ---- */

static void submit(struct node *n, const struct node_sink *row, struct replica_time now)
{
    struct command c;
    command_init(&c, COMMAND_SINK_POSITION);
    c.sink_position.name = slice_of(row->name);
    c.sink_position.index = row->status.position.index;
    c.sink_position.ordinal = row->status.position.ordinal;
    (void)replica_submit(n->replica, &c, forward_no_cookie(), now); /* else in a second */
}

/* At most once a second for all sinks together; a node that stops does not wait for that. */
static void report_positions(struct node *n, struct replica_time now)
{
    struct node_sinks *s = n->sinks;
    if (now.boot_us < s->position_us && n->phase <= NODE_RUNNING) {
        return;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (event_id_after(s->rows[i].status.position, replicated_position(n, &s->rows[i]))) {
            submit(n, &s->rows[i], now);
            s->position_us = now.boot_us + POSITION_US;
        }
    }
}

void node_step_sinks(struct node *n, struct replica_time now)
{
    struct event_log_stats stats;
    if (n->sinks == NULL) {
        return;
    }
    follow_lead(n);
    if (n->sinks->leads) {
        event_log_stats(node_event_log(n), &stats);
        look(n, now, stats.newest);
        report_positions(n, now);
    }
}

/* ---- figures ---- */

static uint64_t lag_ms(const struct node_sink *row, uint64_t lag_entries, uint64_t wall_ms)
{
    uint64_t since_ms = row->status.oldest_ms != 0 ? row->status.oldest_ms
                        : lag_entries > 0          ? row->moved_ms
                                                   : wall_ms;
    return wall_ms > since_ms ? wall_ms - since_ms : 0;
}

static void fill_row(struct node *n, struct node_sink *row, struct event_id newest,
                     struct sink_report *out)
{
    const struct sink_status *s = &row->status;
    bool leads = n->sinks->leads;
    if (row->sink != NULL) {
        sink_status(row->sink, &row->status);
    }
    struct event_id at = leads ? s->position : replicated_position(n, row);
    *out = (struct sink_report){.name = slice_of(row->name),
                                .leads = leads,
                                .is_failing = leads && s->is_failing,
                                .index = at.index,
                                .ordinal = at.ordinal,
                                .delivered = s->delivered,
                                .failures = s->failures,
                                .gaps = s->gaps,
                                .gap_from = s->gap_from,
                                .gap_to = s->gap_to,
                                .trouble = slice_of(s->trouble),
                                .trouble_ms = s->trouble_ms};
    if (leads) {
        out->lag_entries = newest.index > at.index ? newest.index - at.index : 0;
        out->lag_ms = lag_ms(row, out->lag_entries, node_now(n).wall_ms);
    } else if (n->serving && node_event_log(n) == NULL) {
        out->is_failing = true;
        out->trouble = slice_of("this node has no event log");
    }
}

void node_sink_reports(struct node *n, struct sink_reports *out)
{
    struct event_log_stats stats = {0};
    *out = (struct sink_reports){.node = n->options.id};
    if (n->sinks == NULL || n->replica == NULL) {
        return;
    }
    if (node_event_log(n) != NULL) {
        event_log_stats(node_event_log(n), &stats);
    }
    out->count = n->sinks->count;
    for (uint32_t i = 0; i < out->count; i++) {
        fill_row(n, &n->sinks->rows[i], stats.newest, &out->rows[i]);
    }
}
