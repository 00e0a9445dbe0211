/* Requests whose credentials this node does not know: back-off by address, and one shared barrier
 * after which they are decided. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "service/auth/state.h"
#include "tls/digest.h"

void auth_open(struct service *s)
{
    struct auth_state *a = memory_alloc(s->memory, sizeof(*a));
    memset(a, 0, sizeof(*a));
    list_init(&a->delayed);
    list_init(&a->next);
    list_init(&a->current);
    list_init(&a->decided);
    a->hash_key = service_random_id(s).low;
    a->served_ms = service_boot_ms(s);
    a->reviewed = policy_version(service_policy(s));
    a->expires_ms = UINT64_MAX;
    a->quotas = quota_book_new(s->memory);
    list_init(&a->denials);
    a->denied_due_ms = UINT64_MAX;
    s->auth = a;
}

void auth_close(struct service *s)
{
    if (s->auth != NULL) {
        auth_denied_close(s);
        quota_book_free(s->auth->quotas);
        memory_free(s->memory, s->auth, sizeof(*s->auth));
        s->auth = NULL;
    }
}

/* Of the address without its port. An IPv6 client has its whole /64 network: the text up to the
 * fourth colon. */
static uint64_t hash_address(const struct auth_state *a, const char *text)
{
    size_t len = strlen(text);
    size_t colons = 0;
    if (text[0] == '[') {
        for (len = 1; text[len] != '\0' && text[len] != ']' && colons < 4; len++) {
            colons += text[len] == ':';
        }
    } else {
        const char *port = strrchr(text, ':');
        len = port == NULL ? len : (size_t)(port - text);
    }
    return XXH3_64bits_withSeed(text, len, a->hash_key) | 1;
}

void auth_conn_open(struct service *s, struct auth_conn *conn, const char *address)
{
    memset(conn, 0, sizeof(*conn));
    conn->caller.expires_ms = UINT64_MAX;
    if (s->auth != NULL && address != NULL) {
        conn->address = hash_address(s->auth, address);
    }
}

void auth_conn_set_peer(struct service *s, struct auth_conn *conn, const struct peer_identity *peer)
{
    hf_assert(conn->peer == NULL);
    if (peer->uri_count > 0) {
        conn->peer = memory_alloc(s->memory, sizeof(*conn->peer));
        *conn->peer = *peer;
    }
}

void auth_conn_close(struct service *s, struct auth_conn *conn)
{
    if (conn->peer != NULL) {
        memory_free(s->memory, conn->peer, sizeof(*conn->peer));
    }
    digest_wipe(conn, sizeof(*conn));
}

/* ---- back-off ---- */

static struct auth_address *slot_of(struct auth_state *a, uint64_t address)
{
    return &a->addresses[address % AUTH_ADDRESSES];
}

void auth_failed(struct service *s, const struct auth_conn *conn)
{
    struct auth_address *slot = slot_of(s->auth, conn->address);
    uint64_t now_ms = service_boot_ms(s);
    s->auth_failures++;
    if (slot->address != conn->address || now_ms - slot->last_ms > AUTH_FORGET_MS) {
        slot->address = conn->address;
        slot->failures = 0;
    }
    slot->failures++;
    slot->last_ms = now_ms;
}

static uint64_t delay_ms(const struct auth_state *a, const struct auth_conn *conn, uint64_t now_ms)
{
    const struct auth_address *slot = &a->addresses[conn->address % AUTH_ADDRESSES];
    if (slot->address != conn->address || slot->failures < AUTH_FREE_FAILURES ||
        now_ms - slot->last_ms > AUTH_FORGET_MS) {
        return 0;
    }
    uint32_t doublings = slot->failures - AUTH_FREE_FAILURES;
    return (uint64_t)AUTH_DELAY_MS
           << (doublings < AUTH_DELAY_DOUBLINGS ? doublings : AUTH_DELAY_DOUBLINGS);
}

/* ---- waiting ---- */

void auth_wait_open(struct auth_wait *wait)
{
    *wait = (struct auth_wait){.due_ms = 0};
    list_init(&wait->link);
}

bool auth_wait_begin(struct service *s, struct auth_wait *wait, const struct auth_conn *conn,
                     void (*decide)(struct auth_wait *wait))
{
    struct auth_state *a = s->auth;
    struct auth_address *slot = slot_of(a, conn->address);
    uint64_t now_ms = service_boot_ms(s);
    hf_assert(!auth_is_waiting(wait));
    if (a->waits >= AUTH_WAITS_MAX || slot->waits >= AUTH_ADDRESS_WAITS) {
        return false;
    }
    a->waits++;
    slot->waits++;
    wait->address = conn->address;
    wait->due_ms = now_ms + delay_ms(a, conn, now_ms);
    wait->decide = decide;
    list_append(wait->due_ms > now_ms ? &a->delayed : &a->next, &wait->link);
    return true;
}

/* It is in no list any more. */
static void leave(struct auth_state *a, const struct auth_wait *wait)
{
    struct auth_address *slot = slot_of(a, wait->address);
    hf_assert(a->waits > 0 && slot->waits > 0);
    a->waits--;
    slot->waits--;
}

void auth_wait_stop(struct service *s, struct auth_wait *wait)
{
    if (auth_is_waiting(wait)) {
        list_remove(&wait->link);
        leave(s->auth, wait);
    }
}

static void on_barrier(void *owner, enum hf_error error, const struct result *result)
{
    struct service *s = owner;
    struct auth_state *a = s->auth;
    (void)result;
    (void)pending_settle(a->barrier);
    a->barrier = NULL;
    a->wants_version = false;
    a->is_version_sure = a->is_version_sure || error == HF_OK;
    for (struct list *link = list_take(&a->current); link != NULL; link = list_take(&a->current)) {
        LIST_OBJECT(link, struct auth_wait, link)->error = error;
        list_append(&a->decided, link);
    }
}

static void move_due(struct auth_state *a, uint64_t now_ms)
{
    struct list *next;
    for (struct list *link = a->delayed.next; link != &a->delayed; link = next) {
        next = link->next;
        if (LIST_OBJECT(link, struct auth_wait, link)->due_ms <= now_ms) {
            list_append(&a->next, link);
        }
    }
}

/* A node that has just joined applies an empty state of version 1, and may not refuse because of
 * it. */
static bool wants_barrier(const struct auth_state *a)
{
    return a->wants_version || !list_is_empty(&a->next);
}

static void run_waits(struct service *s, uint64_t now_ms)
{
    struct auth_state *a = s->auth;
    for (struct list *link = list_take(&a->decided); link != NULL; link = list_take(&a->decided)) {
        struct auth_wait *wait = LIST_OBJECT(link, struct auth_wait, link);
        leave(a, wait);
        wait->is_sure = true;
        wait->decide(wait);
    }
    move_due(a, now_ms);
    if (a->barrier == NULL && wants_barrier(a) && now_ms - a->barrier_ms >= AUTH_BARRIER_MS) {
        list_move_all(&a->current, &a->next);
        a->barrier_ms = now_ms;
        a->barrier = pending_barrier(s, on_barrier, s);
    }
}

static void note_leader(struct service *s, uint64_t now_ms)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    if (status.leader != 0 && status.serving) {
        s->auth->served_ms = now_ms;
    }
}

void auth_run(struct service *s)
{
    if (s->auth == NULL) {
        return;
    }
    uint64_t now_ms = service_boot_ms(s);
    note_leader(s, now_ms);
    run_waits(s, now_ms);
    auth_review(s);
    auth_denied_run(s, now_ms);
    if (now_ms >= s->auth->quotas_ms) {
        quota_book_prune(s->auth->quotas, service_policy(s));
        s->auth->quotas_ms = now_ms + AUTH_PRUNE_MS;
    }
}

uint64_t auth_next_ms(const struct service *s)
{
    const struct auth_state *a = s->auth;
    if (a == NULL) {
        return UINT64_MAX;
    }
    uint64_t next_ms = auth_review_next_ms(s);
    next_ms = a->denied_due_ms < next_ms ? a->denied_due_ms : next_ms;
    if (!list_is_empty(&a->decided)) {
        return 0;
    }
    if (wants_barrier(a) && a->barrier == NULL) {
        uint64_t at_ms = a->barrier_ms + AUTH_BARRIER_MS;
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    for (const struct list *link = a->delayed.next; link != &a->delayed; link = link->next) {
        uint64_t at_ms = LIST_OBJECT(link, struct auth_wait, link)->due_ms;
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}
