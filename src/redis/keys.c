/* Requests to Redis about keys. */
#include "redis/tier_state.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/list.h"

enum {
    MARGIN_MS = 1000, /* of a key, beyond two TTLs */
    SLACK_MS = 500,   /* by which a key must outlive its lock */
    DRIFT = 500,      /* S1.6: clocks drift by 1/1000 in each direction */
    RETRY_MS = 250,
    GIVE_BACK_MS = 1000,
};

enum key_request_kind {
    REQUEST_TAKE,
    REQUEST_RENEW,
    REQUEST_EXTEND,
    REQUEST_HAND_OVER,
    REQUEST_GIVE_BACK
};

struct key_request {
    struct list all;
    struct redis_tier *tier;
    uint64_t generation;
    enum key_request_kind kind;
    uint64_t token;
    uint64_t from; /* REQUEST_HAND_OVER: the ended token */
    uint64_t sent_ms;
    uint32_t ttl_ms;
    uint16_t name_len;
    uint8_t name[]; /* of a request about one name */
};

struct slice redis_tenant_name(uint32_t tenant, struct slice name, uint8_t out[REDIS_NAME_MAX])
{
    char number[16];
    if (tenant == 0) {
        return name;
    }
    int len = snprintf(number, sizeof(number), "/%" PRIu32 "/", tenant);
    hf_assert(len > 0 && (size_t)len + name.len <= REDIS_NAME_MAX);
    memcpy(out, number, (size_t)len);
    memcpy(out + len, name.data, name.len);
    return slice_make(out, (size_t)len + name.len);
}

static uint64_t life_ms(const struct redis_tier *t, uint32_t ttl_ms)
{
    return 2 * (uint64_t)ttl_ms + 2 * t->options.backend.link.timeout_ms + MARGIN_MS;
}

bool keys_cover(const struct redis_tier *t, const struct claim *claim, uint32_t ttl_ms)
{
    return claim->until_ms >= tier_now_ms(t) + ttl_ms + ttl_ms / DRIFT + SLACK_MS;
}

static struct key_request *request_new(struct redis_tier *t, enum key_request_kind kind,
                                       uint64_t token, uint32_t ttl_ms, struct slice name)
{
    struct key_request *a = memory_alloc(t->claims.memory, sizeof(*a) + name.len);
    *a = (struct key_request){.tier = t,
                              .generation = t->generation,
                              .kind = kind,
                              .token = token,
                              .sent_ms = tier_now_ms(t),
                              .ttl_ms = ttl_ms,
                              .name_len = (uint16_t)name.len};
    if (name.len > 0) {
        memcpy(a->name, name.data, name.len);
    }
    list_init(&a->all);
    list_append(&t->requests, &a->all);
    return a;
}

static void request_free(struct key_request *a)
{
    list_remove(&a->all);
    memory_free(a->tier->claims.memory, a, sizeof(*a) + a->name_len);
}

void keys_forget(struct redis_tier *t)
{
    while (!list_is_empty(&t->requests)) {
        request_free(LIST_OBJECT(t->requests.next, struct key_request, all));
    }
}

static void on_result(void *owner, const struct redis_result *result);

static uint32_t names_of(const struct redis_tier *t, const struct hold *hold,
                         struct redis_names *names)
{
    names->count = 0;
    for (ref r = hold->parts; r != 0; r = claims_part(&t->claims, r)->next_of_hold) {
        const struct claim *claim = claims_claim(&t->claims, claims_part(&t->claims, r)->claim);
        hf_assert(names->count < LIMIT_MULTILOCK_NAMES);
        names->at[names->count++] = claim_name(claim);
    }
    return names->count;
}

void keys_take(struct redis_tier *t, struct hold *hold)
{
    struct redis_names names;
    uint32_t ttl_ms = hold->ttl_ms;
    names_of(t, hold, &names);
    for (ref r = hold->parts; r != 0; r = claims_part(&t->claims, r)->next_of_hold) {
        const struct claim *claim = claims_claim(&t->claims, claims_part(&t->claims, r)->claim);
        bool is_shared = claims_part(&t->claims, claim->parts)->next_of_claim != 0;
        ttl_ms = is_shared && claim->ttl_ms > ttl_ms ? claim->ttl_ms : ttl_ms;
    }
    uint64_t px_ms = life_ms(t, ttl_ms);
    for (ref r = hold->parts; r != 0; r = claims_part(&t->claims, r)->next_of_hold) {
        struct part *part = claims_part(&t->claims, r);
        struct claim *claim = claims_claim(&t->claims, part->claim);
        uint64_t gone_ms = tier_now_ms(t) + px_ms + t->options.backend.link.timeout_ms;
        part->prior_ms = claim->gone_ms;
        claim->token = hold->token > claim->token ? hold->token : claim->token;
        claim->highest = hold->token > claim->highest ? hold->token : claim->highest;
        claim->gone_ms = gone_ms > claim->gone_ms ? gone_ms : claim->gone_ms;
    }
    claims_set_state(&t->claims, hold, HOLD_REQUESTED);
    redis_take(t->backend, &names, hold->token, t->floor, px_ms,
               slice_make(hold->client, hold->client_len), on_result,
               request_new(t, REQUEST_TAKE, hold->token, ttl_ms, slice_make(NULL, 0)));
}

/* The lowest token that the key may have: its holder's. Several holders share a key with the token
 * of one: the first of this lead. */
static uint64_t token_of(const struct redis_tier *t, const struct claim *claim)
{
    const struct part *first = claims_part(&t->claims, claim->parts);
    return first->next_of_claim == 0 ? claims_hold(&t->claims, first->hold)->token : t->floor;
}

void keys_renew(struct redis_tier *t, struct hold *hold)
{
    struct redis_names names;
    uint64_t tokens[LIMIT_MULTILOCK_NAMES];
    uint32_t count = 0;
    names_of(t, hold, &names);
    for (ref r = hold->parts; r != 0; r = claims_part(&t->claims, r)->next_of_hold) {
        struct claim *claim = claims_claim(&t->claims, claims_part(&t->claims, r)->claim);
        claim->ttl_ms = hold->ttl_ms > claim->ttl_ms ? hold->ttl_ms : claim->ttl_ms;
        tokens[count++] = token_of(t, claim);
    }
    hold->is_renewed = true;
    redis_extend(t->backend, &names, tokens, life_ms(t, hold->ttl_ms), on_result,
                 request_new(t, REQUEST_RENEW, hold->token, hold->ttl_ms, slice_make(NULL, 0)));
}

static void extend(struct redis_tier *t, struct claim *claim)
{
    const struct redis_names names = {.count = 1, .at = {claim_name(claim)}};
    uint64_t token = token_of(t, claim);
    claim->is_busy = true;
    redis_extend(t->backend, &names, &token, life_ms(t, claim->ttl_ms), on_result,
                 request_new(t, REQUEST_EXTEND, token, claim->ttl_ms, claim_name(claim)));
}

/* The name has no holder. */
static void give_back(struct redis_tier *t, struct claim *claim)
{
    uint64_t now_ms = tier_now_ms(t);
    if (claim->gone_ms <= now_ms) {
        tier_on_left(t, claim, 0, UINT64_MAX);
        claims_free(&t->claims, claim);
        return;
    }
    claims_set_due(&t->claims, claim, now_ms + GIVE_BACK_MS);
    if (redis_backend_is_usable(t->backend)) {
        const struct redis_names names = {.count = 1, .at = {claim_name(claim)}};
        redis_give_back(t->backend, &names, &claim->highest, t->floor, on_result,
                        request_new(t, REQUEST_GIVE_BACK, claim->highest, 0, claim_name(claim)));
    } else {
        tier_on_not_left(t, claim);
    }
}

static const struct hold *newest(const struct redis_tier *t, const struct claim *claim)
{
    return claims_hold(&t->claims, claims_part(&t->claims, claim->parts)->hold);
}

/* If its token has ended and is later than the newest holder's. */
static bool hand_over(struct redis_tier *t, struct claim *claim)
{
    const struct hold *hold = newest(t, claim);
    if (hold->state != HOLD_HELD || claim->token <= hold->token) {
        return false;
    }
    struct key_request *a =
        request_new(t, REQUEST_HAND_OVER, hold->token, claim->ttl_ms, claim_name(claim));
    a->from = claim->token;
    claim->token = hold->token;
    redis_hand_over(t->backend, claim_name(claim), a->from, hold->token, life_ms(t, claim->ttl_ms),
                    slice_make(hold->client, hold->client_len), on_result, a);
    return true;
}

void keys_settle(struct redis_tier *t, struct claim *claim)
{
    if (claim->parts == 0) {
        give_back(t, claim);
        return;
    }
    const struct hold *hold = newest(t, claim);
    if (hold->state == HOLD_HELD) { /* otherwise the reply to its take reports them */
        tier_on_left(t, claim, 0, hold->token);
        (void)hand_over(t, claim);
    }
}

void keys_on_due(struct redis_tier *t, struct claim *claim)
{
    if (claim->parts == 0) {
        give_back(t, claim);
        return;
    }
    if (!keys_cover(t, claim, claim->ttl_ms)) {
        claims_set_due(&t->claims, claim, tier_now_ms(t) + claim->ttl_ms);
        tier_lose(t, claim, "Redis has not confirmed the key in time");
        return;
    }
    claims_set_due(&t->claims, claim, tier_now_ms(t) + RETRY_MS);
    if (!claim->is_busy && redis_backend_is_usable(t->backend) && !hand_over(t, claim)) {
        extend(t, claim);
    }
}

/* At `sent_ms` or later Redis set or prolonged the key's lifetime. */
static void note_life(struct redis_tier *t, struct claim *claim, const struct key_request *a)
{
    uint64_t until_ms = a->sent_ms + life_ms(t, a->ttl_ms);
    bool is_new = a->kind == REQUEST_TAKE || a->kind == REQUEST_HAND_OVER;
    claim->ttl_ms = is_new || a->ttl_ms > claim->ttl_ms ? a->ttl_ms : claim->ttl_ms;
    claim->until_ms = is_new || until_ms > claim->until_ms ? until_ms : claim->until_ms;
    claim->gone_ms = until_ms + MARGIN_MS > claim->gone_ms ? until_ms + MARGIN_MS : claim->gone_ms;
    claims_set_due(&t->claims, claim, a->sent_ms + claim->ttl_ms / 2);
}

static void on_take(struct redis_tier *t, const struct key_request *a,
                    const struct redis_result *result)
{
    struct hold *hold = claims_find_token(&t->claims, a->token);
    if (hold == NULL || hold->state != HOLD_REQUESTED) {
        return; /* it has ended and is being given back */
    }
    /* REDIS_HELD: another user has one name. Keys of former holders on the others stay reserved for
     * this grant. */
    bool answered = result->verdict == REDIS_DONE || result->verdict == REDIS_HELD;
    for (ref r = hold->parts; r != 0; r = claims_part(&t->claims, r)->next_of_hold) {
        struct part *part = claims_part(&t->claims, r);
        struct claim *claim = claims_claim(&t->claims, part->claim);
        if (result->verdict == REDIS_DONE) {
            note_life(t, claim, a);
        } else if (result->verdict == REDIS_AWAY || result->verdict == REDIS_HELD) {
            claim->gone_ms = part->prior_ms; /* Redis has no new key of ours */
        }
        if (answered) {
            tier_on_left(t, claim, 0, hold->token);
        } else {
            tier_on_not_left(t, claim);
        }
    }
    tier_on_take(t, hold, result);
}

static void on_renew(struct redis_tier *t, const struct key_request *a,
                     const struct redis_result *result)
{
    struct hold *hold = claims_find_token(&t->claims, a->token);
    if (hold == NULL) { /* it has ended; the next request reports how */
        t->options.on_renewed(t->options.ctx, a->token, REDIS_AGAIN);
        return;
    }
    if (!hold->is_renewed) {
        return;
    }
    bool covered = true;
    for (ref r = hold->parts; r != 0; r = claims_part(&t->claims, r)->next_of_hold) {
        struct claim *claim = claims_claim(&t->claims, claims_part(&t->claims, r)->claim);
        if (result->verdict == REDIS_DONE) {
            note_life(t, claim, a);
        }
        covered = covered && keys_cover(t, claim, a->ttl_ms);
    }
    enum redis_word word = result->verdict == REDIS_DONE || covered ? REDIS_CONFIRMED : REDIS_AGAIN;
    hold->is_renewed = false;
    if (result->verdict == REDIS_GONE) {
        t->options.on_renewed(t->options.ctx, a->token, REDIS_FOREIGN);
        hold = claims_find_token(&t->claims, a->token);
        if (hold != NULL) {
            tier_lose_hold(t, hold, "the key in Redis belongs to another holder or is gone");
        }
        return;
    }
    t->options.on_renewed(t->options.ctx, a->token, word);
}

static void on_given_back(struct redis_tier *t, struct claim *claim, uint64_t token, bool answered)
{
    if (!answered) {
        tier_on_not_left(t, claim);
        return;
    }
    tier_on_left(t, claim, 0, token + 1);
    if (claim->parts == 0 && claim->highest == token && !claim->is_dirty) {
        claims_free(&t->claims, claim);
    }
}

static void on_one_name(struct redis_tier *t, const struct key_request *a,
                        const struct redis_result *result)
{
    struct claim *claim = claims_find_name(&t->claims, slice_make(a->name, a->name_len));
    bool answered = result->verdict == REDIS_DONE || result->verdict == REDIS_GONE;
    if (claim == NULL) {
        return;
    }
    if (a->kind == REQUEST_GIVE_BACK) {
        on_given_back(t, claim, a->token, answered);
        return;
    }
    claim->is_busy = claim->is_busy && a->kind != REQUEST_EXTEND;
    if (a->kind == REQUEST_HAND_OVER && answered) {
        tier_on_left(t, claim, a->token, a->from + 1);
    } else if (a->kind == REQUEST_HAND_OVER) {
        claim->token = claim->token == a->token ? a->from : claim->token;
        tier_on_not_left(t, claim);
    }
    if (claim->parts == 0) {
        return;
    }
    if (result->verdict == REDIS_DONE) {
        note_life(t, claim, a);
    } else if (result->verdict == REDIS_GONE && a->kind == REQUEST_EXTEND) {
        tier_lose(t, claim, "the key in Redis belongs to another holder or is gone");
    } else if (a->kind == REQUEST_HAND_OVER) {
        claims_set_due(&t->claims, claim, tier_now_ms(t));
    }
}

static void on_result(void *owner, const struct redis_result *result)
{
    struct key_request *a = owner;
    struct redis_tier *t = a->tier;
    if (a->generation == t->generation && t->floor != 0) {
        if (a->kind == REQUEST_TAKE) {
            on_take(t, a, result);
        } else if (a->kind == REQUEST_RENEW) {
            on_renew(t, a, result);
        } else {
            on_one_name(t, a, result);
        }
    }
    request_free(a);
}
