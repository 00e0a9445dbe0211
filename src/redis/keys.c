/* Keys in Redis: taken, extended, handed over, given back, and what the answers say of them. */
#include "redis/tier_state.h"

#include "base/list.h"

enum {
    MARGIN_MS = 1000, /* of a key's life, beside two TTLs */
    SLACK_MS = 500,   /* that a key must outlive its lock by */
    DRIFT = 500,      /* S1.6: clocks differ by a thousandth, both ways */
    RETRY_MS = 250,
    GIVE_BACK_MS = 1000,
};

enum asked_kind { ASKED_TAKE, ASKED_RENEW, ASKED_EXTEND, ASKED_HAND_OVER, ASKED_GIVE_BACK };

struct asked_key {
    struct list all;
    struct redis_tier *tier;
    uint64_t generation;
    enum asked_kind kind;
    uint64_t token;
    uint64_t from; /* ASKED_HAND_OVER: the token that has ended */
    uint64_t sent_ms;
    uint32_t ttl_ms;
    uint16_t name_len;
    uint8_t name[]; /* of those about one name */
};

static uint64_t life_ms(const struct redis_tier *t, uint32_t ttl_ms)
{
    return 2 * (uint64_t)ttl_ms + 2 * t->options.backend.link.timeout_ms + MARGIN_MS;
}

bool keys_cover(const struct redis_tier *t, const struct claim *claim, uint32_t ttl_ms)
{
    return claim->until_ms >= tier_now_ms(t) + ttl_ms + ttl_ms / DRIFT + SLACK_MS;
}

/* ---- asking ---- */

static struct asked_key *asked_new(struct redis_tier *t, enum asked_kind kind, uint64_t token,
                                   uint32_t ttl_ms, struct slice name)
{
    struct asked_key *a = memory_alloc(t->claims.memory, sizeof(*a) + name.len);
    *a = (struct asked_key){.tier = t,
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
    list_append(&t->asked, &a->all);
    return a;
}

static void asked_free(struct asked_key *a)
{
    list_remove(&a->all);
    memory_free(a->tier->claims.memory, a, sizeof(*a) + a->name_len);
}

void keys_forget(struct redis_tier *t)
{
    while (!list_is_empty(&t->asked)) {
        asked_free(LIST_OBJECT(t->asked.next, struct asked_key, all));
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
    claims_set_state(&t->claims, hold, HOLD_ASKING);
    redis_take(t->backend, &names, hold->token, t->floor, px_ms,
               slice_make(hold->client, hold->client_len), on_result,
               asked_new(t, ASKED_TAKE, hold->token, ttl_ms, slice_make(NULL, 0)));
}

/* The only holder's own token; of several that share the name the key has one, and any will do. */
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
                 asked_new(t, ASKED_RENEW, hold->token, hold->ttl_ms, slice_make(NULL, 0)));
}

static void extend(struct redis_tier *t, struct claim *claim)
{
    const struct redis_names names = {.count = 1, .at = {claim_name(claim)}};
    uint64_t token = token_of(t, claim);
    claim->is_busy = true;
    redis_extend(t->backend, &names, &token, life_ms(t, claim->ttl_ms), on_result,
                 asked_new(t, ASKED_EXTEND, token, claim->ttl_ms, claim_name(claim)));
}

/* Nobody holds it any more. */
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
                        asked_new(t, ASKED_GIVE_BACK, claim->highest, 0, claim_name(claim)));
    } else {
        tier_on_not_left(t, claim);
    }
}

/* Of those that hold it. */
static const struct hold *newest(const struct redis_tier *t, const struct claim *claim)
{
    return claims_hold(&t->claims, claims_part(&t->claims, claim->parts)->hold);
}

/* A later token has ended than that of the newest of those that are left. */
static bool hand_over(struct redis_tier *t, struct claim *claim)
{
    const struct hold *hold = newest(t, claim);
    if (hold->state != HOLD_HELD || claim->token <= hold->token) {
        return false;
    }
    struct asked_key *a =
        asked_new(t, ASKED_HAND_OVER, hold->token, claim->ttl_ms, claim_name(claim));
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
    if (hold->state == HOLD_HELD) { /* else those who let go hear when it is answered */
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
        tier_lose(t, claim, "Redis has not confirmed its key for too long");
        return;
    }
    claims_set_due(&t->claims, claim, tier_now_ms(t) + RETRY_MS);
    if (!claim->is_busy && redis_backend_is_usable(t->backend) && !hand_over(t, claim)) {
        extend(t, claim);
    }
}

/* ---- answers ---- */

/* A key of this name was ours after `sent_ms`, with its life from then on: a new one, or an older
 * life made longer. */
static void note_life(struct redis_tier *t, struct claim *claim, const struct asked_key *a)
{
    uint64_t until_ms = a->sent_ms + life_ms(t, a->ttl_ms);
    bool is_new = a->kind == ASKED_TAKE || a->kind == ASKED_HAND_OVER;
    claim->ttl_ms = is_new || a->ttl_ms > claim->ttl_ms ? a->ttl_ms : claim->ttl_ms;
    claim->until_ms = is_new || until_ms > claim->until_ms ? until_ms : claim->until_ms;
    claim->gone_ms = until_ms + MARGIN_MS > claim->gone_ms ? until_ms + MARGIN_MS : claim->gone_ms;
    claims_set_due(&t->claims, claim, a->sent_ms + claim->ttl_ms / 2);
}

static void on_take(struct redis_tier *t, const struct asked_key *a,
                    const struct redis_result *result)
{
    struct hold *hold = claims_find_token(&t->claims, a->token);
    if (hold == NULL || hold->state != HOLD_ASKING) {
        return; /* ended meanwhile: it is being given back */
    }
    /* Or somebody outside has one of the names: what is left of the others waits for this one. */
    bool answered = result->verdict == REDIS_DONE || result->verdict == REDIS_HELD;
    for (ref r = hold->parts; r != 0; r = claims_part(&t->claims, r)->next_of_hold) {
        struct part *part = claims_part(&t->claims, r);
        struct claim *claim = claims_claim(&t->claims, part->claim);
        if (result->verdict == REDIS_DONE) {
            note_life(t, claim, a);
        } else if (result->verdict == REDIS_AWAY || result->verdict == REDIS_HELD) {
            claim->gone_ms = part->prior_ms; /* nothing new of ours is there */
        }
        if (answered) {
            tier_on_left(t, claim, 0, hold->token);
        } else {
            tier_on_not_left(t, claim);
        }
    }
    tier_on_take(t, hold, result);
}

static void on_renew(struct redis_tier *t, const struct asked_key *a,
                     const struct redis_result *result)
{
    struct hold *hold = claims_find_token(&t->claims, a->token);
    if (hold == NULL) { /* it ended: how, the next try is told */
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
            tier_lose_hold(t, hold, "its key in Redis is not ours any more");
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

static void on_one_name(struct redis_tier *t, const struct asked_key *a,
                        const struct redis_result *result)
{
    struct claim *claim = claims_find_name(&t->claims, slice_make(a->name, a->name_len));
    bool answered = result->verdict == REDIS_DONE || result->verdict == REDIS_GONE;
    if (claim == NULL) {
        return;
    }
    if (a->kind == ASKED_GIVE_BACK) {
        on_given_back(t, claim, a->token, answered);
        return;
    }
    claim->is_busy = claim->is_busy && a->kind != ASKED_EXTEND;
    if (a->kind == ASKED_HAND_OVER && answered) {
        tier_on_left(t, claim, a->token, a->from + 1);
    } else if (a->kind == ASKED_HAND_OVER) {
        claim->token = claim->token == a->token ? a->from : claim->token; /* once more */
        tier_on_not_left(t, claim);
    }
    if (claim->parts == 0) {
        return;
    }
    if (result->verdict == REDIS_DONE) {
        note_life(t, claim, a);
    } else if (result->verdict == REDIS_GONE && a->kind == ASKED_EXTEND) {
        tier_lose(t, claim, "its key in Redis is not ours any more");
    } else if (a->kind == ASKED_HAND_OVER) {
        claims_set_due(&t->claims, claim, tier_now_ms(t)); /* look at it */
    }
}

static void on_result(void *owner, const struct redis_result *result)
{
    struct asked_key *a = owner;
    struct redis_tier *t = a->tier;
    if (a->generation == t->generation && t->floor != 0) {
        if (a->kind == ASKED_TAKE) {
            on_take(t, a, result);
        } else if (a->kind == ASKED_RENEW) {
            on_renew(t, a, result);
        } else {
            on_one_name(t, a, result);
        }
    }
    asked_free(a);
}
