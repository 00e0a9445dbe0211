/* Grants, from request to give-back, and their timing; see tier.h. */
#include "redis/tier_state.h"

enum {
    BACKOFF_MIN_MS = 20, /* while another user of Redis holds it */
    BACKOFF_MAX_MS = 500,
    RUN_MAX = 256, /* keys per turn */
    SCAN_BUCKETS = 256,
};

uint64_t tier_now_ms(const struct redis_tier *t)
{
    return t->options.now_ms(t->options.ctx);
}

static void report_grant(struct redis_tier *t, uint64_t token, enum redis_word word,
                         const struct redis_result *result)
{
    struct slice holder = result == NULL ? slice_make(NULL, 0) : result->holder;
    t->options.on_grant(t->options.ctx, token, word, holder,
                        result == NULL ? 0 : result->holder_ms);
}

/* Keys that may exist for it are given back. */
static void forget_hold(struct redis_tier *t, struct hold *hold)
{
    while (true) {
        const struct part *part = claims_part(&t->claims, hold->parts);
        struct claim *claim = claims_claim(&t->claims, part->claim);
        bool is_last = part->next_of_hold == 0;
        claims_mark(&t->claims, claim);
        claims_drop_part(&t->claims, hold, claim_name(claim));
        if (is_last) {
            return;
        }
    }
}

static uint32_t next_backoff(struct hold *hold, struct net *net)
{
    uint32_t wait = hold->backoff_ms == 0 ? BACKOFF_MIN_MS : hold->backoff_ms;
    hold->backoff_ms = wait * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : wait * 2;
    return wait / 2 + net_random(net, wait + 1);
}

static void poll_later(struct redis_tier *t, struct hold *hold, uint64_t holder_ms)
{
    uint64_t token = hold->token;
    uint64_t wait_ms = next_backoff(hold, t->options.backend.link.net);
    wait_ms = holder_ms + 1 < wait_ms ? holder_ms + 1 : wait_ms; /* when its key expires */
    uint64_t at_ms = tier_now_ms(t) + wait_ms;
    claims_set_state(&t->claims, hold, HOLD_POLLING);
    claims_set_poll(&t->claims, hold, at_ms < hold->wait_until_ms ? at_ms : hold->wait_until_ms);
    hold->is_new = false;
    if (!hold->is_waiting_reported) {
        hold->is_waiting_reported = true;
        report_grant(t, token, REDIS_WAITING, NULL);
    }
}

static void on_away(struct redis_tier *t, struct hold *hold, const struct redis_result *result)
{
    uint64_t token = hold->token;
    if (t->options.fallback == REDIS_FALLBACK_EMBEDDED) {
        t->view.embedded++;
        forget_hold(t, hold);
        report_grant(t, token, REDIS_CONFIRMED, NULL);
    } else if (hold->is_new) {
        forget_hold(t, hold);
        report_grant(t, token,
                     t->options.fallback == REDIS_FALLBACK_FAIL ? REDIS_FAILED : REDIS_AGAIN, NULL);
    } else if (tier_now_ms(t) >= hold->wait_until_ms) {
        forget_hold(t, hold);
        report_grant(t, token, REDIS_FOREIGN, result);
    } else {
        poll_later(t, hold, UINT64_MAX - 1);
    }
}

void tier_on_take(struct redis_tier *t, struct hold *hold, const struct redis_result *result)
{
    uint64_t token = hold->token;
    if (result->verdict == REDIS_DONE) {
        claims_set_state(&t->claims, hold, HOLD_HELD);
        t->view.granted++;
        report_grant(t, token, REDIS_CONFIRMED, NULL);
    } else if (result->verdict != REDIS_HELD) {
        on_away(t, hold, result);
    } else if (tier_now_ms(t) >= hold->wait_until_ms) {
        t->view.foreign++;
        forget_hold(t, hold);
        report_grant(t, token, REDIS_FOREIGN, result);
    } else {
        poll_later(t, hold, result->holder_ms == UINT64_MAX ? UINT64_MAX - 1 : result->holder_ms);
    }
}

static void poll_now(struct redis_tier *t, struct hold *hold)
{
    if (tier_now_ms(t) >= hold->wait_until_ms) {
        uint64_t token = hold->token;
        t->view.foreign++;
        forget_hold(t, hold);
        report_grant(t, token, REDIS_FOREIGN, NULL);
    } else if (redis_backend_is_usable(t->backend)) {
        keys_take(t, hold);
    } else {
        const struct redis_result away = {.verdict = REDIS_AWAY, .problem = ""};
        on_away(t, hold, &away);
    }
}

enum redis_word redis_tier_route(const struct redis_tier *t)
{
    if (redis_backend_is_usable(t->backend) || t->options.fallback == REDIS_FALLBACK_EMBEDDED) {
        return REDIS_CONFIRMED;
    }
    return t->options.fallback == REDIS_FALLBACK_FAIL ? REDIS_FAILED : REDIS_AGAIN;
}

bool redis_tier_grant(struct redis_tier *t, const struct redis_hold *h)
{
    struct hold *hold = claims_find_token(&t->claims, h->token);
    hf_assert(t->floor != 0 && h->token >= t->floor);
    if (hold == NULL) {
        bool usable = redis_backend_is_usable(t->backend);
        if (h->part != 1 || (!usable && t->options.fallback == REDIS_FALLBACK_EMBEDDED)) {
            t->view.embedded += h->part == 1;
            return false;
        }
        hold = claims_add_hold(&t->claims, h->token, h->client);
        hold->lease = h->lease;
        hold->ttl_ms = h->ttl_ms;
        hold->is_new = h->is_new;
        hold->wait_until_ms =
            h->wait_ms >= UINT64_MAX - tier_now_ms(t) ? UINT64_MAX : tier_now_ms(t) + h->wait_ms;
    }
    claims_add_part(&t->claims, hold, h->name);
    if (h->part == h->parts) {
        keys_take(t, hold);
    }
    return true;
}

bool redis_tier_renew(struct redis_tier *t, uint64_t token, uint32_t ttl_ms)
{
    struct hold *hold = claims_find_token(&t->claims, token);
    if (hold == NULL || hold->state != HOLD_HELD) {
        return false;
    }
    hold->ttl_ms = ttl_ms;
    keys_renew(t, hold);
    return true;
}

void redis_tier_end(struct redis_tier *t, uint64_t token, struct slice name)
{
    struct hold *hold = claims_find_token(&t->claims, token);
    struct claim *claim = claims_find_name(&t->claims, name);
    if (hold != NULL && claim != NULL) {
        claims_mark(&t->claims, claim);
        claims_leave(&t->claims, claim, token);
        claims_drop_part(&t->claims, hold, name);
    }
}

bool redis_tier_release(struct redis_tier *t, uint64_t token)
{
    struct leaver *leaver = claims_find_leaver(&t->claims, token);
    if (leaver != NULL) {
        leaver->is_awaited = true;
    }
    return leaver != NULL;
}

void tier_on_left(struct redis_tier *t, struct claim *claim, uint64_t above, uint64_t below)
{
    ref settled = claims_settle(&t->claims, claim, above, below);
    while (settled != 0) {
        uint64_t token = claims_take_settled(&t->claims, &settled);
        t->options.on_released(t->options.ctx, token, REDIS_CONFIRMED);
    }
}

void tier_on_not_left(struct redis_tier *t, const struct claim *claim)
{
    for (ref r = claim->leaving; r != 0;) {
        const struct leaving *leaving = pool_at(&t->claims.pool, r);
        struct leaver *leaver = pool_at(&t->claims.pool, leaving->leaver);
        r = leaving->next_of_claim;
        if (leaver->is_awaited) {
            leaver->is_awaited = false;
            t->options.on_released(t->options.ctx, leaver->token, REDIS_AGAIN);
        }
    }
}

void tier_lose_hold(struct redis_tier *t, struct hold *hold, const char *why)
{
    if (hold->is_lost) {
        return;
    }
    hold->is_lost = true;
    t->view.lost++;
    journal_note(t->options.backend.link.journal, WARN, NODE, "redis_lock_lost",
                 JOURNAL_NUMBER("token", hold->token), JOURNAL_TEXT("why", why));
    t->options.on_lost(t->options.ctx, hold->token, hold->lease, why);
}

void tier_lose(struct redis_tier *t, const struct claim *claim, const char *why)
{
    ref r = claim->parts;
    while (r != 0) {
        const struct part *part = claims_part(&t->claims, r);
        struct hold *hold = claims_hold(&t->claims, part->hold);
        r = part->next_of_claim;
        if (hold->state == HOLD_HELD && !hold->is_lost) {
            tier_lose_hold(t, hold, why);
            r = claim->parts; /* it and others may have ended in the callback */
        }
    }
}

static void check_soon(void *ctx, ref object)
{
    struct redis_tier *t = ctx;
    struct claim *claim = claims_claim(&t->claims, object);
    if (claim->parts != 0 && claim->until_ms != 0) {
        claims_set_due(&t->claims, claim, tier_now_ms(t));
    }
}

/* After a reconnect Redis may have lost its data: check every key. */
static void scan_after_reconnect(struct redis_tier *t)
{
    struct redis_link_view link;
    redis_backend_view(t->backend, &link);
    if (link.up && link.connects != t->connects) {
        t->connects = link.connects;
        t->scan = 0;
    }
    for (int i = 0; i < SCAN_BUCKETS && t->scan != TABLE_SCAN_END; i++) {
        t->scan = table_scan(&t->claims.names, t->scan, check_soon, t);
    }
}

void redis_tier_run(struct redis_tier *t)
{
    if (t->floor == 0) {
        return;
    }
    uint64_t now_ms = tier_now_ms(t);
    struct claim *marked = claims_take_marked(&t->claims);
    while (marked != NULL) {
        keys_settle(t, marked);
        marked = claims_take_marked(&t->claims);
    }
    scan_after_reconnect(t);
    for (int i = 0; i < RUN_MAX && heap_min_at(&t->claims.due) <= now_ms; i++) {
        keys_on_due(t, claims_claim(&t->claims, heap_min(&t->claims.due)));
    }
    for (int i = 0; i < RUN_MAX && heap_min_at(&t->claims.polls) <= now_ms; i++) {
        poll_now(t, claims_hold(&t->claims, heap_min(&t->claims.polls)));
    }
}

uint64_t redis_tier_next_ms(const struct redis_tier *t)
{
    if (t->floor == 0) {
        return UINT64_MAX;
    }
    if (t->claims.dirty != 0 || t->scan != TABLE_SCAN_END) {
        return 0;
    }
    uint64_t due_ms = heap_min_at(&t->claims.due);
    uint64_t poll_ms = heap_min_at(&t->claims.polls);
    return due_ms < poll_ms ? due_ms : poll_ms;
}

struct redis_tier *redis_tier_new(const struct redis_tier_options *options)
{
    const struct memory *memory = options->backend.link.net->memory;
    struct redis_tier *t = memory_alloc(memory, sizeof(*t));
    memset(t, 0, sizeof(*t));
    t->options = *options;
    t->scan = TABLE_SCAN_END;
    list_init(&t->requests);
    claims_init(&t->claims, memory, options->backend.cluster.low);
    t->backend = redis_backend_new(&options->backend);
    return t;
}

void redis_tier_begin(struct redis_tier *t, uint64_t floor)
{
    const struct memory *memory = t->claims.memory;
    t->floor = floor;
    t->generation++;
    claims_close(&t->claims);
    claims_init(&t->claims, memory, t->options.backend.cluster.low);
    struct redis_link_view link;
    redis_backend_view(t->backend, &link);
    t->connects = link.connects;
    t->scan = TABLE_SCAN_END;
}

void redis_tier_close(struct redis_tier *t)
{
    if (t == NULL) {
        return;
    }
    redis_backend_close(t->backend);
    keys_forget(t);
    const struct memory *memory = t->claims.memory;
    claims_close(&t->claims);
    memory_free(memory, t, sizeof(*t));
}

void redis_tier_view(const struct redis_tier *t, struct redis_tier_view *out)
{
    *out = t->view;
    redis_backend_view(t->backend, &out->link);
    out->fallback = t->options.fallback;
    out->keys = table_count(&t->claims.names);
    out->holds = table_count(&t->claims.tokens);
    out->waiting = t->claims.waiting;
}

const char *redis_fallback_name(enum redis_fallback fallback)
{
    static const char *const names[] = {"fail", "embedded", "correctness"};
    return names[fallback];
}
