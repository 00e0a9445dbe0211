/* See claims.h. */
#include "redis/claims.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint32_t hash_name(const struct claims *c, struct slice name)
{
    return (uint32_t)XXH3_64bits_withSeed(name.data, name.len, c->key);
}

static uint32_t hash_token(const struct claims *c, uint64_t token)
{
    return (uint32_t)XXH3_64bits_withSeed(&token, sizeof(token), c->key);
}

static uint32_t hash_of_claim(const void *ctx, const void *object)
{
    (void)ctx;
    return ((const struct claim *)object)->hash;
}

static uint32_t hash_of_hold(const void *ctx, const void *object)
{
    return hash_token(ctx, ((const struct hold *)object)->token);
}

static uint32_t hash_of_leaver(const void *ctx, const void *object)
{
    return hash_token(ctx, ((const struct leaver *)object)->token);
}

struct claim *claims_claim(const struct claims *c, ref object)
{
    return pool_at(&c->pool, object);
}

struct hold *claims_hold(const struct claims *c, ref object)
{
    return pool_at(&c->pool, object);
}

struct part *claims_part(const struct claims *c, ref object)
{
    return pool_at(&c->pool, object);
}

struct claim *claims_find_name(const struct claims *c, struct slice name)
{
    uint32_t hash = hash_name(c, name);
    for (ref r = table_first(&c->names, hash); r != 0; r = claims_claim(c, r)->next) {
        struct claim *claim = claims_claim(c, r);
        if (claim->hash == hash && slice_equal(claim_name(claim), name)) {
            return claim;
        }
    }
    return NULL;
}

struct hold *claims_find_token(const struct claims *c, uint64_t token)
{
    ref r = table_first(&c->tokens, hash_token(c, token));
    while (r != 0 && claims_hold(c, r)->token != token) {
        r = claims_hold(c, r)->next;
    }
    return r == 0 ? NULL : claims_hold(c, r);
}

static bool lower_ref_first(const void *ctx, ref a, ref b)
{
    (void)ctx;
    return a < b;
}

static void claim_moved(void *ctx, ref object, uint32_t position)
{
    claims_claim(ctx, object)->position = position;
}

static void hold_moved(void *ctx, ref object, uint32_t position)
{
    claims_hold(ctx, object)->position = position;
}

static const struct heap_ops claim_ops = {.before = lower_ref_first, .moved = claim_moved};
static const struct heap_ops hold_ops = {.before = lower_ref_first, .moved = hold_moved};

static void set_time(struct heap *heap, ref object, uint32_t position, uint64_t at_ms)
{
    if (at_ms == UINT64_MAX) {
        if (position != 0) {
            heap_remove(heap, position);
        }
    } else if (position != 0) {
        heap_change(heap, position, at_ms);
    } else {
        heap_insert(heap, at_ms, object);
    }
}

void claims_set_due(struct claims *c, struct claim *claim, uint64_t at_ms)
{
    set_time(&c->due, claim->self, claim->position, at_ms);
}

void claims_set_poll(struct claims *c, struct hold *hold, uint64_t at_ms)
{
    set_time(&c->polls, hold->self, hold->position, at_ms);
}

void claims_mark(struct claims *c, struct claim *claim)
{
    if (!claim->is_dirty) {
        claim->is_dirty = true;
        claim->next_dirty = c->dirty;
        c->dirty = claim->self;
    }
}

struct claim *claims_take_marked(struct claims *c)
{
    if (c->dirty == 0) {
        return NULL;
    }
    struct claim *claim = claims_claim(c, c->dirty);
    c->dirty = claim->next_dirty;
    claim->is_dirty = false;
    return claim;
}

void claims_init(struct claims *c, const struct memory *memory, uint64_t key)
{
    memset(c, 0, sizeof(*c));
    c->memory = memory;
    c->key = key;
    pool_init(&c->pool, memory);
    table_init(&c->names, memory, &c->pool, offsetof(struct claim, next), hash_of_claim, c);
    table_init(&c->tokens, memory, &c->pool, offsetof(struct hold, next), hash_of_hold, c);
    table_init(&c->leavers, memory, &c->pool, offsetof(struct leaver, next), hash_of_leaver, c);
    heap_init(&c->due, memory, &claim_ops, c);
    heap_init(&c->polls, memory, &hold_ops, c);
}

void claims_close(struct claims *c)
{
    heap_close(&c->polls);
    heap_close(&c->due);
    table_close(&c->leavers);
    table_close(&c->tokens);
    table_close(&c->names);
    pool_close(&c->pool);
}

static void *new_object(struct claims *c, size_t size, ref *self)
{
    return pool_alloc(&c->pool, size, self);
}

struct hold *claims_add_hold(struct claims *c, uint64_t token, struct slice client)
{
    ref self;
    struct hold *hold = new_object(c, sizeof(*hold) + client.len, &self);
    hold->self = self;
    hold->token = token;
    hold->state = HOLD_GATHERING;
    hold->client_len = (uint8_t)client.len;
    if (client.len > 0) {
        memcpy(hold->client, client.data, client.len);
    }
    table_insert(&c->tokens, hash_token(c, token), self);
    c->waiting++;
    return hold;
}

static struct claim *add_claim(struct claims *c, struct slice name)
{
    ref self;
    struct claim *claim = new_object(c, sizeof(*claim) + name.len, &self);
    claim->self = self;
    claim->hash = hash_name(c, name);
    claim->name_len = (uint16_t)name.len;
    memcpy(claim->name, name.data, name.len);
    table_insert(&c->names, claim->hash, self);
    return claim;
}

struct claim *claims_add_part(struct claims *c, struct hold *hold, struct slice name)
{
    ref self;
    struct claim *claim = claims_find_name(c, name);
    claim = claim != NULL ? claim : add_claim(c, name);
    struct part *part = new_object(c, sizeof(*part), &self);
    *part = (struct part){.self = self,
                          .hold = hold->self,
                          .claim = claim->self,
                          .next_of_hold = hold->parts,
                          .next_of_claim = claim->parts};
    hold->parts = self;
    if (claim->parts != 0) {
        claims_part(c, claim->parts)->prev_of_claim = self;
    }
    claim->parts = self;
    return claim;
}

void claims_set_state(struct claims *c, struct hold *hold, enum hold_state state)
{
    c->waiting -= hold->state != HOLD_HELD;
    c->waiting += state != HOLD_HELD;
    hold->state = state;
    if (state != HOLD_POLLING) {
        claims_set_poll(c, hold, UINT64_MAX);
    }
}

static void free_hold(struct claims *c, struct hold *hold)
{
    claims_set_poll(c, hold, UINT64_MAX);
    c->waiting -= hold->state != HOLD_HELD;
    table_remove(&c->tokens, hash_token(c, hold->token), hold->self);
    pool_free(&c->pool, hold->self, sizeof(*hold) + hold->client_len);
}

void claims_drop_part(struct claims *c, struct hold *hold, struct slice name)
{
    ref *at = &hold->parts;
    while (*at != 0 &&
           !slice_equal(claim_name(claims_claim(c, claims_part(c, *at)->claim)), name)) {
        at = &claims_part(c, *at)->next_of_hold;
    }
    if (*at == 0) {
        return;
    }
    struct part *part = claims_part(c, *at);
    *at = part->next_of_hold;
    if (part->prev_of_claim != 0) {
        claims_part(c, part->prev_of_claim)->next_of_claim = part->next_of_claim;
    } else {
        claims_claim(c, part->claim)->parts = part->next_of_claim;
    }
    if (part->next_of_claim != 0) {
        claims_part(c, part->next_of_claim)->prev_of_claim = part->prev_of_claim;
    }
    pool_free(&c->pool, part->self, sizeof(*part));
    if (hold->parts == 0) {
        free_hold(c, hold);
    }
}

static struct leaver *leaver_at(const struct claims *c, ref object)
{
    return pool_at(&c->pool, object);
}

struct leaver *claims_find_leaver(const struct claims *c, uint64_t token)
{
    ref r = table_first(&c->leavers, hash_token(c, token));
    while (r != 0 && leaver_at(c, r)->token != token) {
        r = leaver_at(c, r)->next;
    }
    return r == 0 ? NULL : leaver_at(c, r);
}

void claims_leave(struct claims *c, struct claim *claim, uint64_t token)
{
    ref self;
    struct leaver *leaver = claims_find_leaver(c, token);
    if (leaver == NULL) {
        leaver = new_object(c, sizeof(*leaver), &self);
        *leaver = (struct leaver){.self = self, .token = token};
        table_insert(&c->leavers, hash_token(c, token), self);
    }
    leaver->names++;
    struct leaving *leaving = new_object(c, sizeof(*leaving), &self);
    *leaving =
        (struct leaving){.self = self, .leaver = leaver->self, .next_of_claim = claim->leaving};
    claim->leaving = self;
}

ref claims_settle(struct claims *c, struct claim *claim, uint64_t above, uint64_t below)
{
    ref settled = 0;
    ref *at = &claim->leaving;
    while (*at != 0) {
        struct leaving *leaving = pool_at(&c->pool, *at);
        struct leaver *leaver = leaver_at(c, leaving->leaver);
        if (leaver->token <= above || leaver->token >= below) {
            at = &leaving->next_of_claim;
            continue;
        }
        *at = leaving->next_of_claim;
        pool_free(&c->pool, leaving->self, sizeof(*leaving));
        if (--leaver->names > 0) {
            continue;
        }
        table_remove(&c->leavers, hash_token(c, leaver->token), leaver->self);
        if (leaver->is_awaited) {
            leaver->next = settled;
            settled = leaver->self;
        } else {
            pool_free(&c->pool, leaver->self, sizeof(*leaver));
        }
    }
    return settled;
}

uint64_t claims_take_settled(struct claims *c, ref *list)
{
    struct leaver *leaver = leaver_at(c, *list);
    uint64_t token = leaver->token;
    *list = leaver->next;
    pool_free(&c->pool, leaver->self, sizeof(*leaver));
    return token;
}

void claims_free(struct claims *c, struct claim *claim)
{
    hf_assert(claim->parts == 0 && claim->leaving == 0 && !claim->is_dirty);
    claims_set_due(c, claim, UINT64_MAX);
    table_remove(&c->names, claim->hash, claim->self);
    pool_free(&c->pool, claim->self, sizeof(*claim) + claim->name_len);
}
