/* Tenants, and the connections of each, take turns when calls are sent to the log.
 *
 * A client that pipelines has up to a thousand calls outstanding. In one batch, they would delay
 * every other client. So a connection has at most FORWARD_WINDOW calls sent and unanswered, and a
 * node FORWARD_NODE_WINDOW, its share of the leader's batches. One batch is in flight and one is
 * open, so these also bound a batch. The rest waits here, in order. The tenants send FORWARD_TURN
 * calls each in turn, and so do the connections of one tenant: the number of its connections gives
 * a tenant nothing. While several tenants send, each has at most FORWARD_TENANT_WINDOW calls sent.
 *
 * With long batches a small window makes a pipeline slow. So the only connection that sends has a
 * larger one. Only the leader applies this: other nodes see only their own connections. */
#include "node/forward/forward_state.h"

static void tenant_open(struct forward *f, struct turn_tenant *t, uint32_t number, uint32_t count)
{
    *t = (struct turn_tenant){.number = number, .count = count};
    t->sources = memory_alloc(f->options.memory, count * sizeof(t->sources[0]));
    memset(t->sources, 0, count * sizeof(t->sources[0]));
}

static void tenant_close(struct forward *f, struct turn_tenant *t)
{
    memory_free(f->options.memory, t->sources, t->count * sizeof(t->sources[0]));
}

void turns_open(struct forward *f)
{
    tenant_open(f, &f->first_tenant, 0, FORWARD_SOURCES);
}

static struct turn_tenant **bucket_of(struct forward *f, uint32_t number)
{
    return &f->tenants[number % FORWARD_BUCKETS];
}

static void tenant_drop(struct forward *f, struct turn_tenant **at)
{
    struct turn_tenant *t = *at;
    *at = t->bucket_next;
    f->tenant_count--;
    tenant_close(f, t);
    memory_free(f->options.memory, t, sizeof(*t));
}

void turns_close(struct forward *f)
{
    for (uint32_t i = 0; i < FORWARD_BUCKETS; i++) {
        while (f->tenants[i] != NULL) {
            tenant_drop(f, &f->tenants[i]);
        }
    }
    tenant_close(f, &f->first_tenant);
}

/* Numbers of tenants are not used again: those of removed tenants would stay for ever. */
static void drop_one_unused(struct forward *f)
{
    for (uint32_t i = 0; i < FORWARD_BUCKETS; i++) {
        for (struct turn_tenant **at = &f->tenants[i]; *at != NULL; at = &(*at)->bucket_next) {
            if ((*at)->calls == 0 && !(*at)->is_held) {
                tenant_drop(f, at);
                return;
            }
        }
    }
}

static struct turn_tenant *tenant_of(struct forward *f, uint32_t number)
{
    if (number == 0) {
        return &f->first_tenant;
    }
    struct turn_tenant *t = *bucket_of(f, number);
    while (t != NULL && t->number != number) {
        t = t->bucket_next;
    }
    if (t != NULL) {
        return t;
    }
    if (f->tenant_count == FORWARD_TENANTS) {
        drop_one_unused(f);
    }
    if (f->tenant_count == FORWARD_TENANTS) {
        return &f->first_tenant;
    }
    t = memory_alloc(f->options.memory, sizeof(*t));
    tenant_open(f, t, number, FORWARD_TENANT_SOURCES);
    t->bucket_next = *bucket_of(f, number);
    *bucket_of(f, number) = t;
    f->tenant_count++;
    return t;
}

void turns_assign(struct forward *f, struct call *call, uint32_t tenant, uint64_t source)
{
    call->tenant = source == 0 ? &f->first_tenant : tenant_of(f, tenant);
    call->source = source == 0 ? 0 : 1 + (uint32_t)(source % (call->tenant->count - 1));
    call->tenant->calls++;
}

void turns_release(struct forward *f, struct call *call)
{
    (void)f;
    hf_assert(call->tenant->calls > 0);
    call->tenant->calls--;
}

struct call *turns_first_without(struct forward *f)
{
    return f->first_tenant.sources[0].first;
}

void turns_note(struct forward *f, uint64_t sender, uint32_t tenant)
{
    uint64_t now_ms = forward_now_ms(f);
    if (sender != f->sender) {
        if (f->sender != 0 && now_ms <= f->sender_ms + FORWARD_SHARED_MS) {
            f->shared_ms = now_ms + FORWARD_SHARED_MS;
        }
        f->sender = sender;
    }
    f->sender_ms = now_ms;
    if (tenant != f->last_tenant) {
        if (now_ms <= f->last_tenant_ms + FORWARD_SHARED_MS) {
            f->shared_tenant_ms = now_ms + FORWARD_SHARED_MS;
        }
        f->last_tenant = tenant;
    }
    f->last_tenant_ms = now_ms;
}

static void set_tenant_window(struct forward *f)
{
    f->tenant_window = f->shared_tenant_ms != 0 && forward_now_ms(f) < f->shared_tenant_ms
                           ? FORWARD_TENANT_WINDOW
                           : FORWARD_NODE_WINDOW;
}

void turns_begin(struct forward *f, bool leads)
{
    bool is_alone = leads && forward_now_ms(f) >= f->shared_ms;
    f->window = is_alone ? FORWARD_ALONE : FORWARD_WINDOW;
    set_tenant_window(f);
    while (f->held_tenants != NULL) {
        struct turn_tenant *t = f->held_tenants;
        f->held_tenants = t->held_next;
        t->is_held = false;
        t->held_next = NULL;
    }
}

void turns_hold(struct forward *f, struct turn_tenant *t)
{
    hf_assert(!t->is_held);
    t->is_held = true;
    t->held_next = f->held_tenants;
    f->held_tenants = t;
}

/* A source that begins to wait has its turn last. Calls sent before count as part of that turn
 * (turns_may_send_now). */
static void ring_add(struct turn_tenant *t, uint32_t number)
{
    struct source *s = &t->sources[number];
    s->taken = s->sent < FORWARD_TURN ? s->sent : FORWARD_TURN;
    if (t->turn == 0) {
        t->turn = number;
        s->next = s->prev = number;
        return;
    }
    struct source *first = &t->sources[t->turn];
    s->next = t->turn;
    s->prev = first->prev;
    t->sources[first->prev].next = number;
    first->prev = number;
}

static void ring_remove(struct turn_tenant *t, uint32_t number)
{
    struct source *s = &t->sources[number];
    t->sources[s->prev].next = s->next;
    t->sources[s->next].prev = s->prev;
    if (t->turn == number) {
        t->turn = s->next == number ? 0 : s->next;
    }
    s->next = s->prev = 0;
}

/* As ring_add, of a tenant. */
static void tenant_waits(struct forward *f, struct turn_tenant *t)
{
    t->taken = t->sent < FORWARD_TURN ? t->sent : FORWARD_TURN;
    if (f->turn == NULL) {
        f->turn = t;
        t->next = t->prev = t;
        return;
    }
    t->next = f->turn;
    t->prev = f->turn->prev;
    t->prev->next = t;
    t->next->prev = t;
}

static void tenant_waits_no_more(struct forward *f, struct turn_tenant *t)
{
    t->prev->next = t->next;
    t->next->prev = t->prev;
    if (f->turn == t) {
        f->turn = t->next == t ? NULL : t->next;
    }
    t->next = t->prev = NULL;
}

static bool is_sent(enum call_state state)
{
    return state == CALL_HERE || state == CALL_THERE;
}

void turns_enter(struct forward *f, struct call *call, enum call_state state)
{
    struct turn_tenant *t = call->tenant;
    struct source *s = &t->sources[call->source];
    if (is_sent(state) && call->source != 0) {
        s->sent++;
        t->sent++;
        f->sent++;
    }
    if (state != CALL_WAITING) {
        return;
    }
    call->source_next = NULL;
    call->source_prev = s->last;
    if (s->last != NULL) {
        s->last->source_next = call;
    } else {
        s->first = call;
    }
    s->last = call;
    if (call->source != 0 && s->next == 0) {
        if (t->turn == 0) {
            tenant_waits(f, t);
        }
        ring_add(t, call->source);
    }
}

void turns_leave(struct forward *f, struct call *call, enum call_state state)
{
    struct turn_tenant *t = call->tenant;
    struct source *s = &t->sources[call->source];
    if (is_sent(state) && call->source != 0) {
        hf_assert(s->sent > 0 && t->sent > 0 && f->sent > 0);
        s->sent--;
        t->sent--;
        f->sent--;
        f->changed = f->changed || f->turn != NULL; /* a window is open again */
    }
    if (state != CALL_WAITING) {
        return;
    }
    if (call->source_prev != NULL) {
        call->source_prev->source_next = call->source_next;
    } else {
        s->first = call->source_next;
    }
    if (call->source_next != NULL) {
        call->source_next->source_prev = call->source_prev;
    } else {
        s->last = call->source_prev;
    }
    call->source_next = call->source_prev = NULL;
    if (call->source != 0 && s->first == NULL) {
        ring_remove(t, call->source);
        if (t->turn == 0) {
            tenant_waits_no_more(f, t);
        }
    }
}

bool turns_may_send_now(struct forward *f, const struct call *call)
{
    const struct turn_tenant *t = call->tenant;
    if (call->source == 0) {
        return true;
    }
    if (t->sent >= FORWARD_TENANT_WINDOW) {
        set_tenant_window(f);
        if (t->sent >= f->tenant_window) {
            return false;
        }
    }
    return t->sources[call->source].sent < FORWARD_TURN && f->sent < FORWARD_NODE_WINDOW;
}

static struct call *next_of_tenant(struct turn_tenant *t, uint32_t window)
{
    hf_assert(t->turn != 0);
    uint32_t begun = t->turn;
    do {
        struct source *s = &t->sources[t->turn];
        if (s->sent < window && s->taken < FORWARD_TURN) {
            s->taken++;
            return s->first;
        }
        s->taken = 0;
        t->turn = s->next;
    } while (t->turn != begun);
    /* No other source may send. */
    struct source *s = &t->sources[begun];
    if (s->sent >= window) {
        return NULL;
    }
    s->taken = 1;
    return s->first;
}

/* The next call of a tenant whose turn is not over; those of the others are over afterwards. */
static struct call *next_in_turn(struct forward *f)
{
    struct turn_tenant *begun = f->turn;
    do {
        struct turn_tenant *t = f->turn;
        bool may = t->taken < FORWARD_TURN && t->sent < f->tenant_window && !t->is_held;
        struct call *call = may ? next_of_tenant(t, f->window) : NULL;
        if (call != NULL) {
            t->taken++;
            return call;
        }
        t->taken = 0;
        f->turn = t->next;
    } while (f->turn != begun);
    return NULL;
}

struct call *turns_next(struct forward *f)
{
    if (f->turn == NULL || f->sent >= FORWARD_NODE_WINDOW) {
        return NULL;
    }
    struct call *call = next_in_turn(f);
    return call != NULL ? call : next_in_turn(f); /* all turns begin again */
}
