/* The search for an order that explains a history: Wing and Gong's, with a memory of the dead ends
 * (as Lowe does it). At each point any operation may be next that was called before every other one
 * that is left returned. Operations mostly follow each other, so it seldom has to go back. */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HOLDERS = 40, SEEN_BITS = 14 };

struct history_holder {
    uint64_t token;
    uint64_t may_end_us; /* not earlier */
    uint64_t revoked_us; /* or not earlier than that */
    bool shared;
};

struct history_state {
    struct history_holder holders[MAX_HOLDERS];
    uint32_t count;
    uint64_t last_token;
    uint64_t now_us; /* not earlier */
};

struct history_node {
    const struct history_op *op;
    struct history_node *next; /* of those left, by time of call */
    struct history_node *before;
    uint64_t key; /* its part in the hash of what is done */
};

struct history_search {
    const struct history_op *ops;
    size_t count;
    struct history_node *nodes;
    struct history_node head;
    const struct history_op **unknown; /* acquires without an outcome */
    size_t unknown_count;
    const struct history_op **lost; /* what ends holders, without an outcome or of another name */
    size_t lost_count;
    uint64_t *granted; /* tokens, in order */
    size_t granted_count;
    uint64_t *seen; /* hashes of dead ends, one a slot; NULL: there was none yet */
    uint64_t steps;
    uint64_t max_steps;
    size_t deepest;
    const struct history_op *stuck;
};

/* ---- the model ---- */

static struct history_holder *find(struct history_state *s, uint64_t token)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->holders[i].token == token) {
            return &s->holders[i];
        }
    }
    return NULL;
}

static void drop(struct history_state *s, struct history_holder *h)
{
    *h = s->holders[--s->count];
}

/* Ends a holder by expiry, if that may have been by the time of return. */
static bool expire(struct history_state *s, struct history_holder *h, const struct history_op *op)
{
    uint64_t us = h->may_end_us < h->revoked_us ? h->may_end_us : h->revoked_us;
    if (us > op->return_us) {
        return false;
    }
    s->now_us = us > s->now_us ? us : s->now_us;
    drop(s, h);
    return true;
}

static bool grant(struct history_state *s, const struct history_op *op, uint64_t may_end_us)
{
    if (op->token <= s->last_token || s->count == MAX_HOLDERS) {
        return false;
    }
    for (uint32_t i = s->count; i-- > 0;) {
        if ((!op->shared || !s->holders[i].shared) && !expire(s, &s->holders[i], op)) {
            return false;
        }
    }
    s->last_token = op->token;
    s->holders[s->count++] =
        (struct history_holder){op->token, may_end_us, HISTORY_NEVER, op->shared};
    return true;
}

/* Whether an acquire whose fate nobody knows, or one that waits, may stand in the way. */
static bool may_be_in_the_way(const struct history_search *search, const struct history_op *op)
{
    for (size_t i = 0; i < search->unknown_count; i++) {
        const struct history_op *u = search->unknown[i];
        if (u->call_us <= op->return_us && op->call_us <= u->return_us) {
            return true;
        }
    }
    for (const struct history_node *n = search->head.next;
         n != NULL && n->op->call_us <= op->return_us; n = n->next) {
        if (n->op->waits && n->op != op) {
            return true;
        }
    }
    return false;
}

static bool refuse(const struct history_search *search, const struct history_state *s,
                   const struct history_op *op)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (!op->shared || !s->holders[i].shared) {
            return true;
        }
    }
    return may_be_in_the_way(search, op);
}

static bool nobody_holds(struct history_state *s, const struct history_op *op)
{
    for (uint32_t i = s->count; i-- > 0;) {
        if (!expire(s, &s->holders[i], op)) {
            return false;
        }
    }
    return true;
}

/* An operator ends them, or says until when they may stay. Who holds it may be unknown. */
static bool take_away(const struct history_search *search, struct history_state *s,
                      const struct history_op *op)
{
    if (!op->held) {
        return nobody_holds(s, op);
    }
    bool is_there = op->token == 0 ? s->count > 0 : find(s, op->token) != NULL;
    if (!is_there && !may_be_in_the_way(search, op)) {
        return false;
    }
    uint64_t us = op->call_us + op->lease_us;
    for (uint32_t i = s->count; i-- > 0;) {
        struct history_holder *h = &s->holders[i];
        if (op->token != 0 && op->token != h->token) {
            continue;
        }
        if (op->kind == HISTORY_FORCE) {
            drop(s, h);
        } else {
            h->revoked_us = us < h->revoked_us ? us : h->revoked_us;
        }
    }
    return true;
}

static int by_token(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static bool read_name(const struct history_search *search, struct history_state *s,
                      const struct history_op *op)
{
    if (op->token == 0) {
        return nobody_holds(s, op);
    }
    if (find(s, op->token) != NULL) {
        return true;
    }
    if (bsearch(&op->token, search->granted, search->granted_count, sizeof(op->token), by_token) !=
        NULL) {
        return false; /* somebody's, but not now */
    }
    return may_be_in_the_way(search, op);
}

/* When it may have ended what `op` holds: UINT64_MAX: it has nothing to do with it. */
static uint64_t lost_end_us(const struct history_op *lost, const struct history_op *op)
{
    if (lost->kind == HISTORY_RELEASE) {
        return lost->token == op->token ? lost->call_us : UINT64_MAX;
    }
    /* Whoever is notified that it holds it yet was not meant; a keep-alive tells nothing of it. */
    bool over = lost->kind == HISTORY_FORCE && lost->return_us < op->call_us && !op->maybe;
    if ((lost->nearby && !op->multi) || over || lost->call_us + HISTORY_LATE_US < op->call_us) {
        return UINT64_MAX;
    }
    uint64_t us = lost->call_us + lost->lease_us;
    return us > op->call_us ? us : op->call_us;
}

static uint64_t may_end_us(const struct history_search *search, const struct history_op *op)
{
    uint64_t us = op->call_us + op->lease_us;
    for (size_t i = 0; i < search->lost_count; i++) {
        uint64_t lost_us = lost_end_us(search->lost[i], op);
        us = lost_us < us ? lost_us : us;
    }
    return us;
}

static bool apply(const struct history_search *search, struct history_state *s,
                  const struct history_op *op)
{
    struct history_holder *h;
    s->now_us = op->call_us > s->now_us ? op->call_us : s->now_us;
    bool fine = false;
    switch (op->kind) {
    case HISTORY_GRANT:
        fine = grant(s, op, may_end_us(search, op));
        break;
    case HISTORY_REFUSAL:
        fine = refuse(search, s, op);
        break;
    case HISTORY_RELEASE:
        h = find(s, op->token);
        fine = op->held ? h != NULL : h == NULL || expire(s, h, op);
        if (fine && op->held) {
            drop(s, h);
        }
        break;
    case HISTORY_RENEW:
        h = find(s, op->token);
        fine = op->held ? h != NULL || op->maybe : h == NULL || expire(s, h, op);
        if (h != NULL && op->held) {
            uint64_t us = may_end_us(search, op);
            h->may_end_us = us > h->may_end_us ? us : h->may_end_us;
        }
        break;
    case HISTORY_READ:
        fine = read_name(search, s, op);
        break;
    case HISTORY_FORCE:
    case HISTORY_REVOKE:
        fine = take_away(search, s, op);
        break;
    case HISTORY_ACQUIRE:
        break;
    }
    return fine && s->now_us <= op->return_us;
}

/* ---- the search ---- */

static int by_call(const void *a, const void *b)
{
    const struct history_op *x = *(const struct history_op *const *)a;
    const struct history_op *y = *(const struct history_op *const *)b;
    return x->call_us < y->call_us ? -1 : x->call_us > y->call_us ? 1 : x < y ? -1 : x > y;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Those with an outcome into the list of what is left; the rest apart. */
static size_t lay_out(struct history_search *s)
{
    const struct history_op **sorted = malloc((s->count + 1) * sizeof(*sorted));
    size_t known = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct history_op *op = &s->ops[i];
        if (op->kind == HISTORY_GRANT) {
            s->granted[s->granted_count++] = op->token;
        }
        bool ends =
            op->kind == HISTORY_RELEASE || op->kind == HISTORY_FORCE || op->kind == HISTORY_REVOKE;
        if (op->kind == HISTORY_ACQUIRE) {
            s->unknown[s->unknown_count++] = op;
        } else if (ends && (op->nearby || op->return_us == HISTORY_NEVER)) {
            s->lost[s->lost_count++] = op;
        } else if (op->return_us != HISTORY_NEVER) {
            sorted[known++] = op;
        }
    }
    qsort(s->granted, s->granted_count, sizeof(*s->granted), by_token);
    qsort(sorted, known, sizeof(*sorted), by_call);
    struct history_node *before = &s->head;
    for (size_t i = 0; i < known; i++) {
        struct history_node *n = &s->nodes[i];
        *n = (struct history_node){.op = sorted[i], .before = before, .key = mix(i + 1)};
        before->next = n;
        before = n;
    }
    free(sorted);
    return known;
}

static void lift(struct history_node *n)
{
    n->before->next = n->next;
    if (n->next != NULL) {
        n->next->before = n->before;
    }
}

static void put_back(struct history_node *n)
{
    n->before->next = n;
    if (n->next != NULL) {
        n->next->before = n;
    }
}

static uint64_t state_hash(const struct history_state *s, uint64_t done)
{
    uint64_t hash = done ^ mix(s->last_token + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct history_holder *h = &s->holders[i];
        hash += mix(h->token * 2 + 1) ^ mix(h->may_end_us) ^ mix(h->revoked_us * 2 + 1);
    }
    return mix(hash + mix(s->now_us)) | 1;
}

static void remember(struct history_search *s, uint64_t hash)
{
    if (s->seen == NULL) { /* most histories never go back, and clearing it takes a while */
        s->seen = calloc((size_t)1 << SEEN_BITS, sizeof(*s->seen));
    }
    s->seen[hash >> (64 - SEEN_BITS)] = hash;
}

static bool is_dead_end(const struct history_search *s, const struct history_state *state,
                        uint64_t done)
{
    if (s->seen == NULL) {
        return false;
    }
    uint64_t hash = state_hash(state, done);
    return s->seen[hash >> (64 - SEEN_BITS)] == hash;
}

struct level {
    struct history_node *taken;
    struct history_state before;
    uint64_t done_before;
};

/* The next candidate at or after `from`: called before everything that is left returned. */
static struct history_node *candidate(const struct history_search *s, struct history_node *from)
{
    uint64_t first_return_us = HISTORY_NEVER;
    for (struct history_node *n = s->head.next; n != NULL && n->op->call_us <= first_return_us;
         n = n->next) {
        first_return_us = n->op->return_us < first_return_us ? n->op->return_us : first_return_us;
    }
    return from != NULL && from->op->call_us <= first_return_us ? from : NULL;
}

static enum history_verdict run(struct history_search *s, struct level *levels, size_t known)
{
    struct history_state state = {0};
    uint64_t done = 0;
    size_t depth = 0;
    struct history_node *next = s->head.next;
    while (depth < known) {
        struct history_node *n = candidate(s, next);
        if (++s->steps > s->max_steps) {
            return HISTORY_UNDECIDED;
        }
        if (n == NULL) { /* none left to try here: one back */
            if (depth >= s->deepest && s->head.next != NULL) {
                s->deepest = depth;
                s->stuck = s->head.next->op;
            }
            if (depth == 0) {
                return HISTORY_BAD;
            }
            remember(s, state_hash(&state, done));
            struct level *l = &levels[--depth];
            put_back(l->taken);
            state = l->before;
            done = l->done_before;
            next = l->taken->next;
            continue;
        }
        struct level *l = &levels[depth];
        l->before = state;
        l->done_before = done;
        lift(n);
        bool fine = apply(s, &state, n->op);
        if (!fine || is_dead_end(s, &state, done ^ n->key)) {
            state = l->before;
            put_back(n);
            next = n->next;
            continue;
        }
        l->taken = n;
        done ^= n->key;
        depth++;
        next = s->head.next;
    }
    return HISTORY_GOOD;
}

enum history_verdict history_check(const struct history_op *ops, size_t count, uint64_t max_steps,
                                   char *problem, size_t problem_size)
{
    static const char *const words[] = {"grant", "refusal", "release", "renewal",
                                        "read",  "acquire", "force",   "revocation"};
    struct history_search s = {.ops = ops, .count = count, .max_steps = max_steps};
    s.nodes = calloc(count + 1, sizeof(*s.nodes));
    s.unknown = calloc(count + 1, sizeof(*s.unknown));
    s.lost = calloc(count + 1, sizeof(*s.lost));
    s.granted = calloc(count + 1, sizeof(*s.granted));
    size_t known = lay_out(&s);
    struct level *levels = malloc((known + 1) * sizeof(*levels));
    enum history_verdict verdict = run(&s, levels, known);
    if (verdict == HISTORY_BAD && problem_size > 0) {
        snprintf(problem, problem_size,
                 "no order of events explains what clients saw; none goes past %zu of %zu "
                 "operations, before the %s of token %llu by client %d, called at %.6f s",
                 s.deepest, known, words[s.stuck->kind], (unsigned long long)s.stuck->token,
                 s.stuck->client, (double)s.stuck->call_us / 1e6);
    }
    free(levels);
    free(s.nodes);
    free(s.unknown);
    free(s.lost);
    free(s.granted);
    free(s.seen);
    return verdict;
}
