/* Transactions with a chance: the versions are those of the model, but for some. */
#include "generator.h"

enum { LIST_BYTES = LIMIT_TRANSACT_BYTES };

/* Few enough that they meet, and sometimes the name of a lock. */
struct slice any_counter(struct generator *g)
{
    struct random *r = &g->random;
    return random_chance(r, 95) ? arena_text(g, "n/%u", random_below(r, 6)) : any_name(g);
}

static struct slice any_key(struct generator *g)
{
    return random_chance(&g->random, 80) ? any_name(g) : any_counter(g);
}

/* Mostly the right one. */
static struct key_version any_version(struct generator *g, uint32_t tenant, struct slice name)
{
    struct random *r = &g->random;
    struct key_view view;
    model_view_key(g->model, tenant, name, &view);
    switch (random_below(r, 24)) {
    case 0:
        return (struct key_version){0, 0, 0};
    case 1:
        view.version.changes++;
        break;
    case 2:
        view.version.deadline_ms--;
        break;
    case 3:
        view.version.number += 1024;
        break;
    default:
        break;
    }
    return view.version;
}

/* Longer than keys had before version 9, rarely as long as they may be. */
static struct slice long_value(struct random *r)
{
    static const uint8_t bytes[LIMIT_KEY_VALUE] = {0xff};
    return slice_make(bytes, random_chance(r, 5) ? LIMIT_KEY_VALUE
                                                 : LIMIT_VALUE + 1 + random_below(r, 4000));
}

/* Rarely two, which are refused. */
static uint32_t any_type(struct random *r)
{
    static const uint32_t types[] = {0, 0, EFFECT_HASH, EFFECT_LIST, EFFECT_SORTED_SET, EFFECT_SET};
    uint32_t type = types[random_below(r, sizeof(types) / sizeof(types[0]))];
    return random_chance(r, 1) ? type | EFFECT_HASH : type;
}

/* What fits the key that is there, mostly. */
static struct effect any_effect(struct generator *g, uint32_t tenant)
{
    struct random *r = &g->random;
    struct effect e = {.kind = EFFECT_PUBLISH, .name = any_key(g)};
    struct key_view view;
    model_view_key(g->model, tenant, e.name, &view);
    bool is_absent = view.kind == KEY_ABSENT || view.kind == KEY_RESERVED;
    bool is_counter = e.name.len > 2 && memcmp(e.name.data, "n/", 2) == 0;
    uint32_t percent = random_below(r, 100);
    if (percent < 6) {
        e.value = arena_text(g, "\xfe%u", percent);
    } else if (is_counter ? percent < 70 : percent < 9) {
        e.kind = EFFECT_COUNTER;
        e.number = (int64_t)random_next(r);
        e.flags = random_chance(r, 40) ? EFFECT_TTL : random_chance(r, 20) ? EFFECT_PERSIST : 0;
        e.ttl_ms = e.flags != EFFECT_TTL  ? 0
                   : random_chance(r, 20) ? random_between(r, 1, 99)
                   : random_chance(r, 5)  ? LIMIT_KEY_TTL_MAX_MS
                                          : any_ttl(g);
    } else if (is_absent ? percent < 90 : percent < 45) {
        e.kind = EFFECT_PUT;
        e.lease = random_chance(r, 97) ? new_id(g) : g->leases[random_below(r, RECENT)];
        e.lease = id_is_zero(e.lease) ? new_id(g) : e.lease;
        e.ttl_ms = is_absent && random_chance(r, 95) ? any_key_ttl(g)
                   : random_chance(r, 50)            ? any_key_ttl(g)
                                                     : 0;
        e.flags = any_type(r) | (random_chance(r, 20) ? EFFECT_VALUE : 0u);
        e.value =
            random_chance(r, 1) ? long_value(r) : arena_text(g, "\xff%u", random_below(r, 100));
        keep_lease(g, e.lease);
    } else if (percent < 65) {
        e.kind = EFFECT_EXPIRE;
        e.ttl_ms = random_chance(r, 85) ? any_key_ttl(g) : 0;
    } else {
        e.kind = EFFECT_DROP;
        bool force = view.kind == KEY_LOCK ? random_chance(r, 70) : random_chance(r, 15);
        e.flags = !force ? 0 : EFFECT_FORCED | (random_chance(r, 40) ? (uint32_t)EFFECT_NOW : 0);
    }
    return e;
}

static bool is_taken(const struct effect *all, uint32_t count, const struct effect *e)
{
    for (uint32_t i = 0; i < count; i++) {
        if (slice_equal(all[i].name, e->name)) {
            return true;
        }
    }
    return false;
}

void generate_transact(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    struct command_transact *t = &c->transact;
    struct packer checks = packer_make(arena_take(g, LIST_BYTES), LIST_BYTES);
    struct packer effects = packer_make(arena_take(g, LIST_BYTES), LIST_BYTES);
    struct effect all[8];
    uint32_t wanted = random_chance(r, 60) ? 1 : random_below(r, 5);
    uint32_t count = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        struct effect e = any_effect(g, c->tenant);
        if (is_taken(all, count, &e) && random_chance(r, 97)) {
            continue;
        }
        all[count++] = e;
        hf_assert(pack_effect(&effects, &e));
        if (e.kind != EFFECT_PUBLISH && random_chance(r, 75)) {
            struct key_check check = {e.name, any_version(g, c->tenant, e.name)};
            hf_assert(pack_check(&checks, &check));
        }
    }
    uint32_t more = count == 0 ? random_between(r, 1, 3) : random_chance(r, 25);
    for (uint32_t i = 0; i < more; i++) {
        struct slice name = any_key(g);
        struct key_check check = {name, any_version(g, c->tenant, name)};
        hf_assert(pack_check(&checks, &check));
    }
    t->id = new_id(g);
    t->client = client_number(g, random_below(r, 5));
    t->actor = arena_text(g, "resp-%u", random_below(r, 2));
    t->reason = slice_of("DEL");
    t->checks = packer_list(&checks);
    t->effects = packer_list(&effects);
}

void invalid_transact(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    struct command_transact *t = &c->transact;
    struct packer effects = packer_make(arena_take(g, LIST_BYTES), LIST_BYTES);
    struct effect e = {.kind = EFFECT_DROP, .flags = EFFECT_FORCED, .name = any_name(g)};
    switch (random_below(r, 9)) {
    case 0:
        t->id = (struct id){0, 0};
        return;
    case 1:
        t->client = slice_of(random_chance(r, 50) ? "" : "\t");
        return;
    case 2:
        t->actor = slice_make(NULL, 0);
        break;
    case 3:
        e.name = slice_of("a//b");
        break;
    case 4:
        e.flags = EFFECT_NOW;
        break;
    case 5:
        hf_assert(pack_effect(&effects, &e));
        break;
    case 6:
        e = (struct effect){.kind = EFFECT_COUNTER,
                            .flags = EFFECT_TTL,
                            .name = any_name(g),
                            .ttl_ms = random_chance(r, 50) ? 0 : LIMIT_KEY_TTL_MAX_MS + 1};
        break;
    case 7:
        e = (struct effect){.kind = EFFECT_COUNTER,
                            .flags = EFFECT_TTL | EFFECT_PERSIST,
                            .name = any_name(g),
                            .ttl_ms = 1000};
        break;
    default:
        e = (struct effect){
            .kind = EFFECT_EXPIRE, .name = any_name(g), .ttl_ms = LIMIT_KEY_TTL_MAX_MS + 1};
        break;
    }
    hf_assert(pack_effect(&effects, &e));
    t->effects = packer_list(&effects);
}
