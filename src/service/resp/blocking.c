/* BLPOP, BRPOP, BLMOVE, BRPOPLPUSH: as without B, but a client that finds nothing waits (S13.12).
 *
 *   run finds nothing ─▶ parked ──a key exists──▶ run ─▶ answered
 *                          ▲ │                     │
 *                          │ └─time is over─▶ barrier ─▶ last run, answers
 *                          └──another was faster───┘
 *
 * A list exists while it has an element, so a parked client need look again only when one of its keys
 * begins to exist: the event GRANTED. Clients of this node wait in one queue for each key, in the
 * order of their requests; a client keeps its place while it looks. One event runs the first client;
 * a client that was answered, or goes, runs the next one.
 *
 * A run may have seen a list as uncommitted changes would leave it (uncommitted.h): empty, but full
 * in the state. When those changes are applied or refused, such clients look again: the event of a key
 * that exists again may have come before. */
#include "service/resp/conn.h"

#define XXH_INLINE_ALL
#include <math.h>
#include <stdlib.h>
#include <xxhash.h>

#include "service/resp/number.h"

/* All who wait for one key. */
struct queue {
    ref next; /* in shared.queues */
    ref self;
    uint32_t hash;
    uint32_t tenant;
    struct slice name;  /* of the first place */
    struct list places; /* in their order */
};

/* Of one client in one queue. */
struct waiting_place {
    struct list link; /* in queue.places */
    struct queue *queue;
    struct resp_wait *wait;
    struct slice name; /* in wait.bytes */
};

struct resp_wait {
    struct resp_conn *conn;
    ref self;
    struct list link;      /* in shared.waits */
    struct list expecting; /* in shared.expecting: saw uncommitted changes */
    uint32_t timer;        /* position in shared.timers; 0: none, or over */
    uint32_t tenant;       /* whose quota of watchers counts it */
    bool is_running;       /* until it is parked again or answered */
    struct list yielding;  /* in shared.yielding: an earlier client of a queue is to run first */
    bool is_over;
    bool is_gone;  /* answered, and about to be freed */
    bool is_error; /* CLIENT UNBLOCK with ERROR */
    uint32_t count;
    struct waiting_place *places; /* in `bytes` */
    uint8_t *bytes;               /* of the connection's account */
    size_t size;
};

/* ---- the queues ---- */

static bool is_earlier(const void *ctx, ref a, ref b)
{
    (void)ctx;
    return a < b; /* no output depends on it */
}

static void timer_moved(void *ctx, ref who, uint32_t position)
{
    struct resp_shared *shared = ctx;
    struct resp_wait *wait = pool_at(&shared->pool, who);
    wait->timer = position;
}

static const struct heap_ops timer_ops = {is_earlier, timer_moved};

static uint32_t queue_hash(const void *ctx, const void *object)
{
    (void)ctx;
    return ((const struct queue *)object)->hash;
}

void resp_waits_open(struct service *s)
{
    struct resp_shared *shared = s->resp;
    list_init(&shared->waits);
    list_init(&shared->expecting);
    list_init(&shared->yielding);
    table_init(&shared->queues, s->memory, &shared->pool, offsetof(struct queue, next), queue_hash,
               shared);
    heap_init(&shared->timers, s->memory, &timer_ops, shared);
}

void resp_waits_close(struct service *s)
{
    struct resp_shared *shared = s->resp;
    hf_assert(list_is_empty(&shared->waits));
    table_close(&shared->queues);
    heap_close(&shared->timers);
}

/* Keyed: clients cannot construct colliding names. */
static uint32_t hash_of(const struct resp_shared *shared, struct slice name)
{
    return (uint32_t)XXH3_64bits_withSeed(name.data, name.len, shared->hash_key);
}

static struct queue *find_queue(struct resp_shared *shared, uint32_t tenant, struct slice name)
{
    uint32_t hash = hash_of(shared, name);
    for (ref at = table_first(&shared->queues, hash); at != 0;) {
        struct queue *queue = pool_at(&shared->pool, at);
        if (queue->hash == hash && queue->tenant == tenant && slice_equal(queue->name, name)) {
            return queue;
        }
        at = queue->next;
    }
    return NULL;
}

static void enter(struct resp_shared *shared, struct waiting_place *place)
{
    uint32_t tenant = place->wait->tenant;
    struct queue *queue = find_queue(shared, tenant, place->name);
    if (queue == NULL) {
        ref self = 0;
        queue = pool_alloc(&shared->pool, sizeof(*queue), &self);
        queue->self = self;
        queue->hash = hash_of(shared, place->name);
        queue->tenant = tenant;
        queue->name = place->name;
        list_init(&queue->places);
        table_insert(&shared->queues, queue->hash, self);
    }
    list_init(&place->link);
    list_append(&queue->places, &place->link);
    place->queue = queue;
}

static void leave(struct resp_shared *shared, struct waiting_place *place)
{
    struct queue *queue = place->queue;
    list_remove(&place->link);
    if (list_is_empty(&queue->places)) {
        table_remove(&shared->queues, queue->hash, queue->self);
        pool_free(&shared->pool, queue->self, sizeof(*queue));
    } else {
        queue->name = LIST_OBJECT(queue->places.next, struct waiting_place, link)->name;
    }
}

/* ---- running ---- */

static void look_again(struct resp_wait *wait)
{
    struct resp_conn *conn = wait->conn;
    struct resp_shared *shared = resp_shared(conn);
    if (wait->is_running) {
        return;
    }
    wait->is_running = true;
    shared->wait_running++;
    list_remove(&wait->expecting);
    list_remove(&wait->yielding);
    conn->needs_barrier = wait->is_over && conn->service->options.resp_tier == TIER_CORRECTNESS;
    resp_transact_begin_again(conn);
}

static void run_first(const struct queue *queue)
{
    for (const struct list *link = queue->places.next; link != &queue->places; link = link->next) {
        struct resp_wait *wait = LIST_OBJECT(link, struct waiting_place, link)->wait;
        if (!wait->is_running && !wait->is_gone) {
            look_again(wait);
            return;
        }
    }
}

/* Whoever let another client run first may run, unless there is still one. */
static void run_yielding(struct resp_shared *shared)
{
    struct list all;
    list_init(&all);
    list_move_all(&all, &shared->yielding);
    for (struct list *link = list_take(&all); link != NULL; link = list_take(&all)) {
        look_again(LIST_OBJECT(link, struct resp_wait, yielding));
    }
}

/* The next client in the queues of its keys runs: it may find what this one left. */
static void pass_on(const struct resp_conn *conn)
{
    const struct resp_wait *wait = conn->wait_for;
    if (wait != NULL) {
        run_yielding(resp_shared(conn));
    }
    for (uint32_t i = 0; wait != NULL && i < wait->count; i++) {
        run_first(wait->places[i].queue);
    }
}

void resp_waits_on_key(struct service *s, uint32_t tenant, struct slice name)
{
    const struct queue *queue = s->resp->wait_count == 0 ? NULL : find_queue(s->resp, tenant, name);
    if (queue != NULL) {
        run_first(queue);
    }
}

/* Somebody with a place before this one runs: what it finds must not be taken from it, whatever order
 * the commands of a node take. */
static bool is_ahead(const struct waiting_place *place)
{
    const struct list *end = &place->link;
    for (const struct list *link = place->queue->places.next; link != end; link = link->next) {
        if (LIST_OBJECT(link, struct waiting_place, link)->wait->is_running) {
            return true;
        }
    }
    return false;
}

bool resp_wait_yields(struct resp_conn *conn)
{
    struct resp_wait *wait = conn->wait_for;
    struct resp_shared *shared = resp_shared(conn);
    bool yields = false;
    if (wait == NULL || wait->is_over || shared->wait_running < 2) {
        return false;
    }
    for (uint32_t i = 0; !yields && i < wait->count; i++) {
        yields = is_ahead(&wait->places[i]);
    }
    if (yields) {
        wait->is_running = false;
        shared->wait_running--;
        list_append(&shared->yielding, &wait->yielding);
    }
    return yields;
}

void resp_waits_on_settled(struct resp_shared *shared)
{
    while (!list_is_empty(&shared->expecting)) {
        look_again(LIST_OBJECT(shared->expecting.next, struct resp_wait, expecting));
    }
}

void resp_waits_run_all(struct service *s)
{
    const struct list *head = &s->resp->waits;
    for (const struct list *link = head->next; link != head; link = link->next) {
        look_again(LIST_OBJECT(link, struct resp_wait, link));
    }
}

/* ---- waiting ---- */

bool resp_wait_is_over(const struct resp_conn *conn)
{
    return conn->wait_for != NULL && conn->wait_for->is_over;
}

/* The keys that the run has read are those that it waits for. */
static struct resp_wait *make_wait(struct resp_conn *conn, const struct keyspace *k)
{
    struct resp_shared *shared = resp_shared(conn);
    ref self = 0;
    struct resp_wait *wait = pool_alloc(&shared->pool, sizeof(*wait), &self);
    wait->self = self;
    wait->conn = conn;
    wait->tenant = conn->caller.id.tenant;
    wait->count = k->count;
    wait->size = k->count * sizeof(struct waiting_place);
    for (uint32_t i = 0; i < k->count; i++) {
        wait->size += k->keys[i].name.len;
    }
    wait->bytes = memory_alloc(&conn->account.memory, wait->size);
    wait->places = (struct waiting_place *)(void *)wait->bytes;
    uint8_t *text = wait->bytes + k->count * sizeof(struct waiting_place);
    list_init(&wait->link);
    list_init(&wait->expecting);
    list_init(&wait->yielding);
    for (uint32_t i = 0; i < k->count; i++) {
        struct slice name = k->keys[i].name;
        memcpy(text, name.data, name.len);
        wait->places[i] = (struct waiting_place){.wait = wait, .name = slice_make(text, name.len)};
        text += name.len;
        enter(shared, &wait->places[i]);
    }
    list_append(&shared->waits, &wait->link);
    shared->wait_count++;
    return wait;
}

bool resp_wait_park(struct resp_conn *conn, struct keyspace *k, struct quota_refusal *refusal)
{
    struct resp_shared *shared = resp_shared(conn);
    struct resp_wait *wait = conn->wait_for;
    hf_assert(k->waits && k->count > 0);
    if (wait == NULL) {
        if (!auth_takes_watch(conn->service, conn->caller.id.tenant, refusal)) {
            return false;
        }
        wait = conn->wait_for = make_wait(conn, k);
        if (k->wait_ms != UINT64_MAX) {
            heap_insert(&shared->timers, service_boot_ms(conn->service) + k->wait_ms, wait->self);
        }
    }
    hf_assert(!wait->is_over);
    if (wait->is_running) {
        wait->is_running = false;
        shared->wait_running--;
        run_yielding(shared);
    }
    if (k->is_expecting) {
        list_append(&shared->expecting, &wait->expecting);
    }
    return true;
}

static void end_timer(struct resp_shared *shared, struct resp_wait *wait)
{
    if (wait->timer != 0) {
        heap_remove(&shared->timers, wait->timer);
    }
}

void resp_wait_end(struct resp_conn *conn)
{
    struct resp_shared *shared = resp_shared(conn);
    struct resp_wait *wait = conn->wait_for;
    if (wait == NULL) {
        return;
    }
    if (wait->is_running) {
        wait->is_running = false; /* what it was run for may still be there */
        shared->wait_running--;
        wait->is_gone = true;
        pass_on(conn);
    }
    end_timer(shared, wait);
    for (uint32_t i = 0; i < wait->count; i++) {
        leave(shared, &wait->places[i]);
    }
    list_remove(&wait->link);
    list_remove(&wait->expecting);
    list_remove(&wait->yielding);
    auth_watch_ended(conn->service, wait->tenant);
    memory_free(&conn->account.memory, wait->bytes, wait->size);
    pool_free(&shared->pool, wait->self, sizeof(*wait));
    shared->wait_count--;
    conn->wait_for = NULL;
}

void resp_wait_input_ended(struct resp_conn *conn)
{
    if (conn->wait_for != NULL && conn->awaited == NULL) {
        list_remove(&conn->pending);
        resp_wait_end(conn);
        conn->mode = RESP_MODE_IDLE;
        resp_conn_shut(conn);
    }
}

static void end_wait(struct resp_wait *wait)
{
    struct resp_conn *conn = wait->conn;
    end_timer(resp_shared(conn), wait);
    wait->is_over = true;
    if (conn->awaited == NULL) {
        conn->needs_barrier = conn->service->options.resp_tier == TIER_CORRECTNESS;
    }
    look_again(wait);
}

void resp_waits_run_deadlines(struct service *s, uint64_t now_ms)
{
    struct resp_shared *shared = s->resp;
    while (heap_min_at(&shared->timers) <= now_ms) {
        end_wait(pool_at(&shared->pool, heap_min(&shared->timers)));
    }
}

uint64_t resp_waits_next_ms(const struct service *s)
{
    return heap_min_at(&s->resp->timers);
}

void resp_waits_drain(struct service *s)
{
    const struct list *head = &s->resp->waits;
    for (const struct list *link = head->next; link != head;) {
        struct resp_wait *wait = LIST_OBJECT(link, struct resp_wait, link);
        link = link->next;
        if (wait->conn->awaited == NULL) {
            resp_transact_refuse(wait->conn, HF_UNAVAILABLE);
        }
    }
}

bool resp_wait_is_on(const struct resp_conn *conn)
{
    return conn->wait_for != NULL && !conn->wait_for->is_over;
}

bool resp_wait_unblock(struct resp_conn *conn, bool is_error)
{
    if (!resp_wait_is_on(conn)) {
        return false;
    }
    conn->wait_for->is_error = is_error;
    end_wait(conn->wait_for);
    return true;
}

/* ---- the commands ---- */

/* Seconds. False: the error was sent. */
static bool read_timeout(struct keyspace *k, struct slice text, uint64_t *ms,
                         const struct key_sink *to)
{
    const char *start = bump_text(&k->arena, text);
    char *end;
    long double seconds = text.len > 0 && text.data[0] > ' ' ? strtold(start, &end) : NAN;
    if (isnan(seconds) || end != start + text.len) {
        to->error(to->ctx, "ERR", "timeout is not a float or out of range");
        return false;
    }
    if (seconds < 0) {
        to->error(to->ctx, "ERR", "timeout is negative");
        return false;
    }
    if (seconds > (long double)INT64_MAX / 1000) {
        to->error(to->ctx, "ERR", "timeout is out of range");
        return false;
    }
    *ms = seconds == 0 ? UINT64_MAX : (uint64_t)ceill(seconds * 1000);
    return true;
}

/* Nothing was found. Between MULTI and EXEC, and when its time is over, the answer is nil. */
static void wait_or_nil(struct keyspace *k, const struct slice *args, uint64_t wait_ms,
                        const struct key_sink *to)
{
    struct resp_conn *conn = k->conn;
    bool may_wait = conn != NULL && conn->command == resp_command_find(args[0]);
    if (may_wait && !resp_wait_is_over(conn)) {
        for (uint32_t i = 0; i < k->count; i++) {
            if (!caller_may(service_policy(k->service), k->who, RIGHT_LOCK, k->keys[i].name)) {
                keyspace_deny(k, RIGHT_LOCK, k->keys[i].name, to);
                return;
            }
        }
        k->waits = true;
        k->wait_ms = wait_ms;
        return;
    }
    if (may_wait) {
        keyspace_forget_reads(k); /* the barrier confirmed them */
    }
    if (may_wait && conn->wait_for->is_error) {
        to->error(to->ctx, "UNBLOCKED", "client unblocked via CLIENT UNBLOCK");
    } else if (resp_is_word(args[0], "BLPOP") || resp_is_word(args[0], "BRPOP")) {
        resp_null_array(resp_sink_writer(to));
    } else {
        to->null(to->ctx);
    }
}

/* BLPOP, BRPOP: key [key ...] timeout */
void key_blpop(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    uint64_t wait_ms;
    if (!read_timeout(k, args[count - 1], &wait_ms, to)) {
        return;
    }
    for (uint32_t i = 1; i < count - 1; i++) {
        struct slice list;
        struct key *key = keyspace_typed(k, args[i], KEY_LIST, to, &list);
        if (key == NULL) {
            return;
        }
        if (list.len > 0) {
            to->array(to->ctx, 2);
            to->bulk(to->ctx, args[i]);
            resp_list_pop(k, key, list, resp_is_word(args[0], "BLPOP"), to);
            return;
        }
    }
    wait_or_nil(k, args, wait_ms, to);
}

/* BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout; BRPOPLPUSH source destination timeout */
void key_blmove(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    uint64_t wait_ms;
    struct slice list;
    if (count == 6 && !resp_list_ends(args[3], args[4], to)) {
        return;
    }
    if (!read_timeout(k, args[count - 1], &wait_ms, to) ||
        keyspace_typed(k, args[1], KEY_LIST, to, &list) == NULL) {
        return;
    }
    if (list.len == 0) {
        wait_or_nil(k, args, wait_ms, to);
    } else if (count == 6) {
        key_lmove(k, args, 5, to);
    } else {
        key_rpoplpush(k, args, 3, to);
    }
}
