/* An external Redis (redis/tier.h) as the backend of the tier EFFICIENCY
 * (replica/tier_backend.h). */
#include <stdio.h>

#include "node/node_state.h"

static enum tier_word word_of(enum redis_word word)
{
    static const enum tier_word words[] = {[REDIS_CONFIRMED] = TIER_CONFIRMED,
                                           [REDIS_WAITING] = TIER_WAITS,
                                           [REDIS_FOREIGN] = TIER_FOREIGN,
                                           [REDIS_FAILED] = TIER_FAILED,
                                           [REDIS_AGAIN] = TIER_AGAIN};
    return words[word];
}

static void lead(void *ctx, uint64_t first)
{
    struct node *n = ctx;
    redis_tier_begin(n->redis, first);
}

static enum tier_word route(void *ctx)
{
    struct node *n = ctx;
    return word_of(redis_tier_route(n->redis));
}

static bool grant(void *ctx, const struct tier_hold *hold)
{
    struct node *n = ctx;
    uint8_t text[REDIS_NAME_MAX];
    const struct redis_hold request = {.name = redis_tenant_name(hold->tenant, hold->name, text),
                                       .client = hold->client,
                                       .token = hold->token,
                                       .lease = hold->lease,
                                       .part = hold->part,
                                       .parts = hold->parts,
                                       .ttl_ms = hold->ttl_ms,
                                       .wait_ms = hold->wait_ms,
                                       .is_new = hold->is_new};
    return redis_tier_grant(n->redis, &request);
}

static bool renew(void *ctx, uint64_t token, uint32_t ttl_ms)
{
    struct node *n = ctx;
    return redis_tier_renew(n->redis, token, ttl_ms);
}

static void end(void *ctx, uint64_t token, uint32_t tenant, struct slice name)
{
    struct node *n = ctx;
    uint8_t text[REDIS_NAME_MAX];
    redis_tier_end(n->redis, token, redis_tenant_name(tenant, name, text));
}

static bool release(void *ctx, uint64_t token)
{
    struct node *n = ctx;
    return redis_tier_release(n->redis, token);
}

static uint64_t now_ms(void *ctx)
{
    return node_now(ctx).boot_us / 1000;
}

static void on_grant(void *ctx, uint64_t token, enum redis_word word, struct slice holder,
                     uint64_t holder_ms)
{
    struct node *n = ctx;
    /* S10.1: without a majority there may be another leader, whose tokens are higher. */
    if (word == REDIS_CONFIRMED && !replica_has_majority(n->replica, node_now(n))) {
        word = REDIS_FAILED;
    }
    memory_tier_confirm(n->tier, token, word_of(word), holder, holder_ms);
}

static void on_renewed(void *ctx, uint64_t token, enum redis_word word)
{
    struct node *n = ctx;
    memory_tier_confirm_renewal(n->tier, token, word_of(word));
}

static void on_released(void *ctx, uint64_t token, enum redis_word word)
{
    struct node *n = ctx;
    memory_tier_confirm_release(n->tier, token, word_of(word));
}

static void on_lost(void *ctx, uint64_t token, struct id lease, const char *why)
{
    struct node *n = ctx;
    (void)token;
    (void)why; /* already logged */
    memory_tier_lose(n->tier, lease);
}

void node_open_redis(struct node *n)
{
    const struct redis_settings *s = &n->options.redis;
    if (!n->options.has_redis) {
        return;
    }
    struct redis_tier_options options = {.fallback = s->fallback,
                                         .ctx = n,
                                         .now_ms = now_ms,
                                         .on_grant = on_grant,
                                         .on_renewed = on_renewed,
                                         .on_released = on_released,
                                         .on_lost = on_lost};
    struct redis_link_options *link = &options.backend.link;
    options.backend.cluster = n->self.cluster;
    memcpy(options.backend.prefix, s->prefix, sizeof(options.backend.prefix));
    redis_link_defaults(link);
    link->net = &n->net;
    link->journal = n->options.journal;
    link->address = s->address;
    link->db = s->db;
    link->timeout_ms = s->timeout_ms;
    memcpy(link->path, s->path, sizeof(link->path));
    memcpy(link->user, s->user, sizeof(link->user));
    memcpy(link->password, s->password, sizeof(link->password));
    n->redis = redis_tier_new(&options);
    const struct tier_backend backend = {.ctx = n,
                                         .lead = lead,
                                         .route = route,
                                         .falls_back = s->fallback == REDIS_FALLBACK_CORRECTNESS,
                                         .grant = grant,
                                         .renew = renew,
                                         .end = end,
                                         .release = release};
    memory_tier_set_backend(n->tier, &backend);
}

void node_close_redis(struct node *n)
{
    if (n->redis != NULL) {
        memory_tier_set_backend(n->tier, NULL);
        redis_tier_close(n->redis);
        n->redis = NULL;
    }
}

/* Untrusted text becomes one line of ASCII. */
static void copy_problem(const char *from, char to[128])
{
    snprintf(to, 128, "%s", from);
    for (char *c = to; *c != '\0'; c++) {
        *c = *c >= ' ' && *c < 0x7f ? *c : '?';
    }
}

void node_redis_status(const struct node *n, struct gateway_status *out)
{
    struct redis_tier_view view;
    out->backend = "embedded";
    out->backend_healthy = true;
    if (n->redis != NULL) {
        redis_tier_view(n->redis, &view);
        out->backend = "redis";
        out->backend_healthy = view.link.up && view.link.breaker == REDIS_CLOSED;
        out->backend_breaker = redis_breaker_name(view.link.breaker);
        out->backend_fallback = redis_fallback_name(view.fallback);
        copy_problem(view.link.problem, out->backend_problem);
    }
}
