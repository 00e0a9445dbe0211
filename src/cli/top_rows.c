/* See top_rows.h. */
#include "cli/top_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/exits.h"
#include "cli/human.h"
#include "cli/members.h"
#include "transport/clock.h"

enum { SLOTS = 4 * TOP_ROWS_MAX, TARGET_MAX = API_TARGET - 128 };

static void table_init(struct top_table *table)
{
    *table = (struct top_table){.rows = calloc(TOP_ROWS_MAX, sizeof(*table->rows)),
                                .slots = calloc(SLOTS, sizeof(*table->slots))};
    hf_assert(table->rows != NULL && table->slots != NULL);
}

static void table_clear(struct top_table *table)
{
    memset(table->slots, 0, SLOTS * sizeof(*table->slots));
    *table = (struct top_table){.rows = table->rows, .slots = table->slots};
}

void top_data_init(struct top_data *data)
{
    *data = (struct top_data){.is_stale = false};
    table_init(&data->shown);
    table_init(&data->next);
}

void top_data_free(struct top_data *data)
{
    free(data->shown.rows);
    free(data->shown.slots);
    free(data->next.rows);
    free(data->next.slots);
}

static void copy(char *out, size_t size, struct slice text)
{
    (void)snprintf(out, size, "%.*s", (int)text.len, (const char *)text.data);
}

static struct slice text_of(const struct json_t *object, const char *key)
{
    return json_tree_text(json_tree_get(object, key));
}

static uint64_t number_of(const struct json_t *object, const char *key)
{
    return json_tree_u64(json_tree_get(object, key), 0);
}

/* The slot of a name, or a free one. Collisions slow down only this command. */
static uint32_t *find_slot(const struct top_table *table, struct slice name)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ name.data[i]) * 16777619u;
    }
    uint32_t at = hash % SLOTS;
    while (table->slots[at] != 0 &&
           !slice_equal(slice_of(table->rows[table->slots[at] - 1].name), name)) {
        at = (at + 1) % SLOTS;
    }
    return &table->slots[at];
}

/* NULL: there are TOP_ROWS_MAX rows. */
static struct top_row *find_row(struct top_table *table, struct slice name)
{
    uint32_t *slot = find_slot(table, name);
    if (*slot != 0) {
        return &table->rows[*slot - 1];
    }
    if (table->count == TOP_ROWS_MAX || name.len >= TOP_NAME_TEXT) {
        return NULL;
    }
    struct top_row *fresh = &table->rows[table->count++];
    *slot = (uint32_t)table->count;
    *fresh = (struct top_row){.is_listed = false};
    copy(fresh->name, sizeof(fresh->name), name);
    return fresh;
}

void top_count_event(struct top_data *data, const struct sse_event *event)
{
    struct fault fault;
    struct json_t *tree = json_tree_parse(event->data, &fault);
    struct slice name = text_of(tree, "name");
    struct top_row *row = name.len == 0 ? NULL : find_row(&data->next, name);
    data->next.events += name.len > 0;
    if (row != NULL) {
        bool is_grant = strcmp(event->type, "granted") == 0;
        row->granted += is_grant;
        row->queued += strcmp(event->type, "queued") == 0;
        row->released += strcmp(event->type, "released") == 0;
        row->lost += strcmp(event->type, "expired") == 0 || strcmp(event->type, "forced") == 0 ||
                     strcmp(event->type, "revoked") == 0;
        if (is_grant) {
            copy(row->client, sizeof(row->client), text_of(tree, "client_id"));
        }
    }
    json_tree_free(tree);
}

static uint64_t local_wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The cluster's clock: `expires_at` of a hold, less the time until then. Without one, our clock. */
static uint64_t cluster_wall_ms(const struct json_t *locks)
{
    for (size_t i = 0; i < json_tree_count(locks); i++) {
        const struct json_t *holder = json_tree_get(json_tree_at(locks, i), "holder");
        uint64_t end_ms = human_wall_ms(text_of(holder, "expires_at"));
        if (end_ms != 0) {
            return end_ms - number_of(holder, "expires_in_ms");
        }
    }
    return local_wall_ms();
}

static uint64_t passed_ms(uint64_t now_ms, struct slice since)
{
    uint64_t since_ms = human_wall_ms(since);
    return since_ms == 0 || since_ms > now_ms ? 0 : now_ms - since_ms;
}

static void list_row(struct top_table *table, const struct json_t *lock, uint64_t now_ms)
{
    struct top_row *row = find_row(table, text_of(lock, "name"));
    if (row == NULL) {
        table->is_cut = true;
        return;
    }
    const struct json_t *holder = json_tree_get(lock, "holder");
    table->listed += !row->is_listed;
    row->is_listed = true;
    row->is_held = holder != NULL;
    row->is_long_held = json_tree_true(json_tree_get(lock, "long_held"));
    row->holders = (unsigned)number_of(lock, "holder_count");
    row->queue = (unsigned)number_of(lock, "queue_length");
    row->age_ms = holder == NULL ? 0 : passed_ms(now_ms, text_of(holder, "since"));
    row->wait_ms = passed_ms(now_ms, text_of(lock, "waiting_since"));
    copy(row->mode, sizeof(row->mode), text_of(lock, "mode"));
    if (holder != NULL) {
        copy(row->client, sizeof(row->client), text_of(holder, "client_id"));
    }
}

/* One page; `cursor` becomes that of the next one, "" at the end. */
static int read_page(struct top_data *data, struct api *api, const char *target, char cursor[64])
{
    char paged[API_TARGET];
    struct api_answer answer;
    (void)snprintf(paged, sizeof(paged), "%s%s%s%s", target, data->is_stale ? "&stale=true" : "",
                   cursor[0] != '\0' ? "&cursor=" : "", cursor);
    int code = api_get(api, paged, &answer);
    if (code == 0) {
        const struct json_t *locks = json_tree_get(answer.tree, "locks");
        uint64_t now_ms = cluster_wall_ms(locks);
        for (size_t i = 0; i < json_tree_count(locks); i++) {
            list_row(&data->next, json_tree_at(locks, i), now_ms);
        }
        copy(cursor, 64, text_of(answer.tree, "next_cursor"));
        api_answer_close(&answer);
    }
    return code;
}

static int read_locks(struct top_data *data, struct api *api, const char *prefix)
{
    struct buffer target;
    char cursor[64] = "";
    int code;
    buffer_init(&target, memory_system(), TARGET_MAX);
    buffer_append_text(&target, "/api/v1/locks?limit=1000&prefix=");
    http_escape(&target, slice_of(prefix), false);
    buffer_append_byte(&target, 0);
    do {
        code = read_page(data, api, (const char *)buffer_bytes(&target).data, cursor);
    } while (code == 0 && cursor[0] != '\0' && !data->next.is_cut);
    buffer_close(&target);
    return code;
}

static double p99(const struct json_t *stats, const char *key)
{
    const struct json_t *pair = json_tree_get(json_tree_get(stats, "latency_ms"), key);
    return json_tree_real(json_tree_get(pair, "p99"), -1);
}

static void read_stats(struct top_figures *f, const struct json_t *stats)
{
    const struct json_t *totals = json_tree_get(stats, "totals");
    f->leader = number_of(stats, "leader");
    f->uptime_ms = number_of(stats, "uptime_ms");
    f->held = number_of(stats, "holders");
    f->waiting = number_of(stats, "waiters");
    f->sessions = number_of(stats, "sessions");
    f->long_held = number_of(stats, "long_held");
    f->oldest_ms = number_of(stats, "oldest_hold_ms");
    f->grants = number_of(totals, "grants");
    f->releases = number_of(totals, "releases");
    f->contended = number_of(totals, "contended");
    f->renewals = number_of(totals, "renewals");
    f->ended =
        number_of(totals, "expired") + number_of(totals, "forced") + number_of(totals, "revoked");
    f->acquire_p99_ms = p99(stats, "acquire");
    f->commit_p99_ms = p99(stats, "commit");
    f->wait_p99_ms = p99(stats, "wait");
    f->at_ms = clock_boot_ms();
    f->is_known = true;
}

static void read_members(struct top_figures *f, const struct json_t *cluster)
{
    const struct json_t *members = json_tree_get(cluster, "members");
    f->is_serving = json_tree_true(json_tree_get(cluster, "serving"));
    f->leader = number_of(cluster, "leader");
    f->term = number_of(cluster, "term");
    f->members = (unsigned)json_tree_count(members);
    for (size_t i = 0; i < json_tree_count(members); i++) {
        f->healthy += json_tree_true(json_tree_get(json_tree_at(members, i), "healthy"));
    }
}

/* A node without a leader answers the first of the requests, and stale lists. */
int top_read(struct top_data *data, struct api *api, const char *prefix, enum top_sort by)
{
    struct api_answer answer;
    struct top_figures fresh = {.is_known = false};
    int code = members_look(api, &answer);
    if (code == 0) {
        read_members(&fresh, answer.tree);
        api_answer_close(&answer);
        data->is_stale = !fresh.is_serving;
        if (fresh.is_serving && api_get(api, "/api/v1/stats", &answer) == 0) {
            read_stats(&fresh, answer.tree);
            api_answer_close(&answer);
        }
        code = read_locks(data, api, prefix);
    }
    data->problem[0] = '\0';
    if (code != 0) {
        api_problem(api, data->problem, sizeof(data->problem));
    } else {
        struct top_table old = data->shown;
        data->shown = data->next;
        data->next = old;
        top_sort_rows(data, by);
    }
    table_clear(&data->next);
    data->before = data->now;
    data->now = fresh;
    return code;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b); /* the larger one first */
}

static int compare_rows(const struct top_row *x, const struct top_row *y, enum top_sort by)
{
    unsigned p = x->granted + x->queued + x->released + x->lost;
    unsigned q = y->granted + y->queued + y->released + y->lost;
    const int orders[TOP_SORTS] = {
        [TOP_BY_QUEUE] = compare_u64(x->queue, y->queue),
        [TOP_BY_AGE] = compare_u64(x->age_ms, y->age_ms),
        [TOP_BY_WAIT] = compare_u64(x->wait_ms, y->wait_ms),
        [TOP_BY_RATE] = compare_u64(p, q),
    };
    if (orders[by] != 0) {
        return orders[by];
    }
    static const enum top_sort then[] = {TOP_BY_QUEUE, TOP_BY_RATE, TOP_BY_AGE};
    for (unsigned i = 0; i < 3; i++) {
        if (orders[then[i]] != 0) {
            return orders[then[i]];
        }
    }
    return strcmp(x->name, y->name);
}

#define ORDER(name, by)                           \
    static int name(const void *a, const void *b) \
    {                                             \
        return compare_rows(a, b, by);            \
    }
ORDER(by_queue, TOP_BY_QUEUE)
ORDER(by_age, TOP_BY_AGE)
ORDER(by_wait, TOP_BY_WAIT)
ORDER(by_rate, TOP_BY_RATE)

void top_sort_rows(struct top_data *data, enum top_sort by)
{
    static int (*const orders[TOP_SORTS])(const void *, const void *) = {by_queue, by_age, by_wait,
                                                                         by_rate};
    hf_assert(by < TOP_SORTS);
    struct top_table *t = &data->shown;
    qsort(t->rows, t->count, sizeof(*t->rows), orders[by]);
}

double top_per_second(const struct top_data *data, uint64_t before, uint64_t now)
{
    int64_t span_ms = data->now.at_ms - data->before.at_ms;
    bool is_same = data->now.is_known && data->before.is_known &&
                   data->now.leader == data->before.leader && now >= before;
    return is_same && span_ms > 0 ? (double)(now - before) * 1000.0 / (double)span_ms : -1;
}
