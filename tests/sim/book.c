/* Holders and queues, see book.h. */
#include "book.h"

enum { MAX_HOLDERS = 64, MAX_WAITERS = 64 };

struct book_holder {
    uint64_t token;
    struct id session;
    enum mode mode;
};

struct waiting {
    struct id lease;
    struct id session; /* zero: none */
    bool detached;     /* or it may be */
    uint32_t node;     /* 0: it came back, through whichever */
};

struct name {
    struct book_holder holders[MAX_HOLDERS];
    uint32_t holder_count;
    struct waiting waiters[MAX_WAITERS]; /* in the order they came */
    uint32_t waiter_count;
};

struct book {
    const char *whose;
    struct name names[NAMES];
};

struct book *book_new(const char *whose)
{
    struct book *b = malloc(sizeof(*b));
    b->whose = whose;
    for (int i = 0; i < NAMES; i++) { /* the rest is written before it is read */
        b->names[i].holder_count = 0;
        b->names[i].waiter_count = 0;
    }
    return b;
}

void book_free(struct book *b)
{
    free(b);
}

int book_number(struct slice name)
{
    int number = 0;
    if (name.len < 2 || name.len > 3 || name.data[0] != 'n') {
        return -1;
    }
    for (size_t i = 1; i < name.len; i++) {
        number = number * 10 + (name.data[i] - '0');
    }
    return number < NAMES ? number : -1;
}

/* ---- queues ---- */

static void leave_queue(struct name *n, uint32_t i)
{
    n->waiter_count--;
    memmove(n->waiters + i, n->waiters + i + 1, (n->waiter_count - i) * sizeof(n->waiters[0]));
}

/* A multi-lock stands in several queues, and its events name one of them. */
static void each_place(struct book *b, struct id lease, void (*visit)(struct name *n, uint32_t i))
{
    for (int k = 0; k < NAMES; k++) {
        for (uint32_t i = 0; i < b->names[k].waiter_count; i++) {
            if (id_equal(b->names[k].waiters[i].lease, lease)) {
                visit(&b->names[k], i);
                break;
            }
        }
    }
}

static void set_detached(struct name *n, uint32_t i)
{
    n->waiters[i].detached = true;
}

static void set_attached(struct name *n, uint32_t i)
{
    n->waiters[i].detached = false;
    n->waiters[i].node = 0;
}

static void queued(struct name *n, const struct event *e)
{
    if (n->waiter_count == MAX_WAITERS) {
        violation("more waiters than clients");
    }
    n->waiters[n->waiter_count++] = (struct waiting){
        .lease = e->lease,
        .session = e->session,
        .node = e->node,
    };
}

static void node_gone(struct book *b, uint32_t node)
{
    for (int k = 0; k < NAMES; k++) {
        for (uint32_t i = 0; i < b->names[k].waiter_count; i++) {
            struct waiting *w = &b->names[k].waiters[i];
            w->detached =
                w->detached || (id_is_zero(w->session) && (w->node == node || w->node == 0));
        }
    }
}

/* S6.1: nothing overtakes. */
static void check_order(const struct book *b, int k, struct name *n, const struct event *e)
{
    for (uint32_t i = 0; i < n->waiter_count; i++) {
        if (id_equal(n->waiters[i].lease, e->lease)) {
            leave_queue(n, i);
            return;
        }
        if (!n->waiters[i].detached) {
            violation("%s: token %llu on n%d was granted past an earlier waiter (S6.1)", b->whose,
                      ull(e->token), k);
        }
    }
}

/* ---- holders ---- */

static void granted(const struct book *b, int k, struct name *n, const struct event *e)
{
    check_order(b, k, n, e);
    for (uint32_t i = 0; i < n->holder_count; i++) {
        if (e->mode != MODE_SHARED || n->holders[i].mode != MODE_SHARED) {
            violation("%s: n%d has two holders, tokens %llu and %llu", b->whose, k,
                      ull(n->holders[i].token), ull(e->token));
        }
    }
    if (n->holder_count == MAX_HOLDERS) {
        violation("more holders than clients");
    }
    n->holders[n->holder_count++] = (struct book_holder){e->token, e->session, e->mode};
}

static void ended(const struct book *b, int k, struct name *n, const struct event *e)
{
    uint32_t i = 0;
    while (i < n->holder_count && n->holders[i].token != e->token) {
        i++;
    }
    if (i == n->holder_count) {
        violation("%s: token %llu on n%d ended and was not held", b->whose, ull(e->token), k);
    }
    n->holder_count--;
    memmove(n->holders + i, n->holders + i + 1, (n->holder_count - i) * sizeof(n->holders[0]));
    if (e->type == EVENT_EXPIRED) {
        uint64_t safe_us = 0;
        int client = 0;
        world.counts.expired++;
        if (clients_safe_until(e->token, &safe_us, &client) && world.now_us < safe_us) {
            violation("%s: token %llu on n%d was cut short by %llu us: client %d counts on it (S5)",
                      b->whose, ull(e->token), k, ull(safe_us - world.now_us), client);
        }
    }
}

void book_event(struct book *b, const struct event *e)
{
    int k = book_number(e->name);
    if (e->type == EVENT_DETACHED && id_is_zero(e->lease)) {
        node_gone(b, e->node);
    }
    if (k < 0) {
        return;
    }
    struct name *n = &b->names[k];
    switch (e->type) {
    case EVENT_GRANTED:
        granted(b, k, n, e);
        break;
    case EVENT_QUEUED:
        queued(n, e);
        break;
    case EVENT_WAIT_ENDED:
        each_place(b, e->lease, leave_queue);
        break;
    case EVENT_DETACHED:
        each_place(b, e->lease, set_detached);
        break;
    case EVENT_SUPERSEDED:
        each_place(b, e->lease, set_attached);
        break;
    case EVENT_RELEASED:
    case EVENT_EXPIRED:
    case EVENT_FORCED:
    case EVENT_REVOKED:
        ended(b, k, n, e);
        break;
    default:
        break;
    }
}

/* ---- reading ---- */

bool book_is_held(const struct book *b, uint32_t name)
{
    return b->names[name].holder_count > 0;
}

bool book_is_used(const struct book *b, uint32_t name)
{
    return b->names[name].holder_count > 0 || b->names[name].waiter_count > 0;
}

bool book_holds(const struct book *b, uint32_t name, uint64_t token)
{
    const struct name *n = &b->names[name];
    for (uint32_t i = 0; i < n->holder_count; i++) {
        if (n->holders[i].token == token) {
            return true;
        }
    }
    return false;
}

uint64_t book_first_token(const struct book *b, uint32_t name)
{
    return b->names[name].holder_count == 0 ? 0 : b->names[name].holders[0].token;
}

bool book_has_token(const struct book *b, uint64_t token)
{
    for (uint32_t k = 0; k < NAMES; k++) {
        if (book_holds(b, k, token)) {
            return true;
        }
    }
    return false;
}

bool book_knows_session(const struct book *b, struct id session)
{
    for (int k = 0; k < NAMES; k++) {
        const struct name *n = &b->names[k];
        for (uint32_t i = 0; i < n->holder_count; i++) {
            if (id_equal(n->holders[i].session, session)) {
                return true;
            }
        }
        for (uint32_t i = 0; i < n->waiter_count; i++) {
            if (id_equal(n->waiters[i].session, session)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- all that were granted ---- */

void grants_add(struct grants *g, uint64_t token, int name)
{
    if (g->count > 0 && g->at[g->count - 1].token == token) {
        g->at[g->count - 1].names |= UINT64_C(1) << name;
        return;
    }
    if (g->count == g->capacity) {
        g->capacity = g->capacity == 0 ? 1024 : g->capacity * 2;
        g->at = realloc(g->at, g->capacity * sizeof(g->at[0]));
    }
    g->at[g->count++] = (struct granted){token, UINT64_C(1) << name};
}

void grants_free(struct grants *g)
{
    free(g->at);
    *g = (struct grants){0};
}
