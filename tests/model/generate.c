/* Makes up random commands that have a chance to do something: it looks at the model for tokens,
 * leases and attachment numbers that are right, and remembers some that no longer are. */
#include "generator.h"

#include <stdarg.h>
#include <stdlib.h>

void *arena_take(struct generator *g, size_t len)
{
    hf_assert(g->arena_at + len <= ARENA);
    void *block = g->arena + g->arena_at;
    g->arena_at += len;
    return block;
}

struct slice arena_text(struct generator *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char buffer[256];
    int len = vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    hf_assert(len >= 0 && (size_t)len < sizeof(buffer));
    uint8_t *copy = arena_take(g, (size_t)len);
    memcpy(copy, buffer, (size_t)len);
    return slice_make(copy, (size_t)len);
}

/* Few high halves, so that the low ones decide an order now and then. */
struct id new_id(struct generator *g)
{
    return (struct id){random_below(&g->random, 1000), random_next(&g->random) | 1};
}

struct slice name_number(struct generator *g, uint32_t number)
{
    static const char *const some[] = {"a", "a/b", "b", "job", "job/1", "jöb/2"};
    if (number < sizeof(some) / sizeof(some[0])) {
        return slice_of(some[number]);
    }
    return arena_text(g, "name/%u", number);
}

struct slice client_number(struct generator *g, uint32_t number)
{
    return arena_text(g, "client-%u", number);
}

struct slice any_name(struct generator *g)
{
    return name_number(g, random_below(&g->random, g->profile->names));
}

/* In the profile of sessions the first one is long-lived and never acknowledges. */
struct slot *any_slot(struct generator *g)
{
    if (g->kind == PROFILE_SESSIONS && random_chance(&g->random, 45)) {
        return &g->slots[0];
    }
    return &g->slots[random_below(&g->random, g->profile->sessions)];
}

struct slice any_trace(struct generator *g)
{
    return arena_text(g, "00-4bf92f3577b34da6a3ce929d0e0e%04x-00f067aa0ba9%04x-01",
                      random_below(&g->random, 1000), random_between(&g->random, 1, 9));
}

uint32_t any_ttl(struct generator *g)
{
    uint32_t percent = random_below(&g->random, 100);
    if (percent < 70) {
        return random_between(&g->random, 100, 600);
    }
    return percent < 95 ? random_between(&g->random, 600, 5000) : 86400000;
}

uint64_t any_key_ttl(struct generator *g)
{
    uint32_t percent = random_below(&g->random, 100);
    if (percent < 80) {
        return any_ttl(g);
    }
    return percent < 90   ? random_between(&g->random, 1, 99)
           : percent < 93 ? LIMIT_TTL_MAX_MS + 1 +
                                random_next(&g->random) % (LIMIT_KEY_TTL_MAX_MS - LIMIT_TTL_MAX_MS)
                          : TTL_NONE;
}

void keep_lease(struct generator *g, struct id lease)
{
    g->leases[g->lease_count++ % RECENT] = lease;
}

static void old_set(struct old_command *old, const uint8_t *bytes, size_t len)
{
    free(old->bytes);
    old->bytes = malloc(len);
    hf_assert(old->bytes != NULL);
    memcpy(old->bytes, bytes, len);
    old->len = len;
}

struct generator *generator_new(uint64_t seed, struct model *model)
{
    struct generator *g = calloc(1, sizeof(*g));
    hf_assert(g != NULL);
    g->random.state = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    g->kind = profile_of(seed);
    g->profile = &profiles[g->kind];
    g->model = model;
    g->time_ms = 1000;
    g->has_principals = seed / PROFILE_COUNT % 2 == 1 && g->profile->principals > 0;
    g->arena = malloc(ARENA);
    hf_assert(g->arena != NULL && g->profile->sessions <= MAX_SLOTS);
    for (uint32_t i = 0; i < g->profile->sessions; i++) {
        g->slots[i] = (struct slot){new_id(g), i % 5, 1, 0};
    }
    return g;
}

void generator_free(struct generator *g)
{
    for (size_t i = 0; i < HISTORY; i++) {
        free(g->history[i].bytes);
    }
    for (size_t i = 0; i < OLD; i++) {
        free(g->old[i].bytes);
    }
    free(g->arena);
    free(g);
}

static uint64_t any_step(struct generator *g)
{
    struct random *r = &g->random;
    uint32_t percent = random_below(r, 1000);
    if (g->kind == PROFILE_RINGS) {
        percent = percent / 2; /* little expires, much is remembered */
    }
    if (percent < 500) {
        return 0;
    }
    if (percent < 830) {
        return random_between(r, 1, 20);
    }
    if (percent < 960) {
        return random_between(r, 20, 100);
    }
    if (g->kind == PROFILE_PRIVATE && percent >= 993) {
        return LIMIT_DETACHED_MS; /* those who were detached leave */
    }
    if (percent < 997) {
        return random_between(r, 100, 800);
    }
    return random_between(r, 800, 15000);
}

uint32_t generator_entry(struct generator *g, uint64_t *time_ms, uint64_t *wall_ms)
{
    uint64_t step_ms = 0;
    if (g->kind == PROFILE_MANY_WAITERS || g->kind == PROFILE_RINGS) {
        burst_begin(g);
    }
    uint32_t count = burst_entry(g, &step_ms);
    if (count == 0) {
        step_ms = any_step(g);
        uint32_t percent = random_below(&g->random, 100);
        count = percent < 5 ? 0 : percent < 65 ? 1 : random_between(&g->random, 2, 8);
    }
    g->time_ms += step_ms;
    *time_ms = g->time_ms;
    if (random_chance(&g->random, 2)) {
        *time_ms -= random_below(&g->random, 200); /* an older stamp counts as the newest */
    }
    if (random_below(&g->random, 40) == 0) { /* the next leader's clock, or somebody set this one */
        g->clock_ms = random_below(&g->random, 400);
    }
    *wall_ms = UINT64_C(1700000000000) + *time_ms + g->clock_ms + random_below(&g->random, 50);
    return count;
}

/* Sends an earlier command once more, now and then with something changed. */
static bool repeat(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    const struct old_command *old = NULL;
    uint32_t percent = random_below(r, 100);
    if (percent < 50) {
        uint64_t back = random_between(r, 1, 8);
        old = back <= g->history_count ? &g->history[(g->history_count - back) % HISTORY] : NULL;
    } else if (percent < 85) {
        old = &g->history[random_below(r, HISTORY)];
    } else {
        old = &g->old[random_below(r, OLD)];
    }
    if (old == NULL || old->bytes == NULL) {
        return false;
    }
    uint8_t *bytes = arena_take(g, old->len);
    memcpy(bytes, old->bytes, old->len);
    hf_assert(command_decode(slice_make(bytes, old->len), c) == HF_OK);
    if (c->type == COMMAND_ACQUIRE && random_chance(r, 50)) {
        c->acquire.node = random_between(r, 1, g->profile->nodes); /* through another node */
    }
    if (c->type == COMMAND_ACQUIRE && (c->request_id.len > 0 || c->seq != 0) &&
        random_chance(r, 50)) {
        c->acquire.lease = new_id(g); /* which drew another lease id */
    }
    if (c->type == COMMAND_ACQUIRE && random_chance(r, 30)) {
        c->acquire.trace = any_trace(g); /* which is no other request (S8.1) */
    }
    if (g->has_principals && random_chance(r, 15)) { /* by somebody else */
        give_principal(g, c);
    }
    if (random_chance(r, 12)) { /* an altered body under the same id */
        struct command other;
        command_init(&other, c->type);
        generate_body(g, c->type, &other);
        other.tenant = c->tenant;
        other.principal = c->principal;
        other.session = c->session;
        other.request_id = c->request_id;
        other.seq = c->seq;
        other.acked_through = c->acked_through;
        if (c->type == COMMAND_ACQUIRE && random_chance(r, 50)) {
            other.acquire.lease = c->acquire.lease;
        }
        if (c->type == COMMAND_SESSION_OPEN && random_chance(r, 50)) {
            other.session_open.id = c->session_open.id;
        }
        if (c->type == COMMAND_TRANSACT && random_chance(r, 80)) {
            other.transact.id = c->transact.id;
        }
        *c = other;
    }
    return true;
}

static void give_id(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    const struct profile *p = g->profile;
    bool in_session = !id_is_zero(c->session);
    if (in_session && random_chance(r, p->seq)) {
        struct slot *slot = &g->slots[0];
        for (uint32_t i = 0; i < p->sessions; i++) {
            if (id_equal(g->slots[i].id, c->session)) {
                slot = &g->slots[i];
            }
        }
        c->seq = slot->next_seq++;
        if (random_chance(r, 3)) {
            c->seq = random_below(r, (uint32_t)slot->next_seq) + 1;
        }
        bool stubborn = g->kind == PROFILE_SESSIONS && slot == &g->slots[0];
        if (random_chance(r, 30) && !stubborn) {
            uint64_t kept = random_below(r, 12);
            c->acked_through = c->seq > kept ? c->seq - kept : 0;
        }
        if (stubborn && random_below(r, 20000) == 0) {
            c->acked_through = slot->next_seq / 2;
        }
    } else if (random_chance(r, p->request_id)) {
        unsigned long long number = ++g->request_count;
        switch (random_below(r, 16)) {
        case 0:
            c->request_id = arena_text(g, "k%u", random_below(r, 10));
            break;
        case 1:
        case 2:
        case 3:
        case 4:
            c->request_id = arena_text(g, "node-%032llx", number); /* as nodes draw them */
            break;
        case 5:
            c->request_id = arena_text(g, "lease-%032llx", number);
            break;
        default:
            c->request_id = arena_text(g, "r%llu", number);
            break;
        }
    }
    if (in_session && random_chance(r, 2)) {
        c->acked_through = random_below(r, 30); /* also without a seq */
    }
}

static enum command_type any_type(struct generator *g)
{
    uint32_t total = 0;
    for (int type = 1; type < COMMAND_COUNT; type++) {
        total += g->profile->weight[type];
    }
    uint32_t ticket = random_below(&g->random, total);
    for (int type = 1; type < COMMAND_COUNT; type++) {
        if (ticket < g->profile->weight[type]) {
            return (enum command_type)type;
        }
        ticket -= g->profile->weight[type];
    }
    return COMMAND_TICK;
}

static void keep_for_later(struct generator *g, const struct command *c)
{
    static uint8_t buffer[1 << 18];
    size_t len = command_encode(c, CORE_VERSION, buffer, sizeof(buffer));
    if (len == 0 || len > 4096) {
        return;
    }
    old_set(&g->history[g->history_count++ % HISTORY], buffer, len);
    if (random_below(&g->random, 100) == 0) {
        old_set(&g->old[random_below(&g->random, OLD)], buffer, len);
    }
}

void generator_command(struct generator *g, struct command *c)
{
    g->arena_at = 0;
    if (burst_command(g, c)) {
        if (random_below(&g->random, 100) == 0) {
            keep_for_later(g, c);
        }
        return;
    }
    if (random_chance(&g->random, g->profile->repeat) && repeat(g, c)) {
        return;
    }
    enum command_type type = any_type(g);
    command_init(c, type);
    g->owner = 0;
    generate_body(g, type, c);
    if (type != COMMAND_TRANSACT) {
        give_id(g, c); /* that one has its own */
    }
    if (random_chance(&g->random, 2)) {
        c->tenant = 1;
    }
    if (g->has_principals) {
        give_principal(g, c);
    }
    if (random_chance(&g->random, g->profile->invalid)) {
        generate_invalid(g, c);
    }
    keep_for_later(g, c);
}

void generator_note(struct generator *g, const struct command *c, const struct result *result)
{
    if (result->error != HF_OK) {
        return;
    }
    if (c->type == COMMAND_STREAM_UP || c->type == COMMAND_STREAM_THROUGH) {
        for (uint32_t i = 0; i < g->profile->sessions; i++) {
            if (id_equal(g->slots[i].id, c->session)) {
                g->slots[i].stream = result->attachment;
            }
        }
    }
    if (c->type == COMMAND_ACQUIRE && result->outcome == OUTCOME_GRANTED) {
        struct recent_grant *grant = &g->grants[g->grant_count++ % RECENT];
        *grant = (struct recent_grant){c->tenant, result->token, result->lease, c->session, 0, 0};
        for (uint32_t i = 0; i < g->profile->names; i++) {
            g->arena_at = 0;
            if (slice_equal(name_number(g, i), c->acquire.names.at[0])) {
                grant->name = i;
            }
        }
    }
}
