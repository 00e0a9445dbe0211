/* Clients that use keys as those of the Redis protocol do (S13): they read one or two on the node
 * that they are connected to, which may lag, and have them set, kept longer or dropped if nothing
 * of them has changed. They build on what others submitted there (client_key.c). Some do not look
 * first. Checked by keys.c. */
#include "client.h"

#include "keys.h"
#include "service/resp/uncommitted.h"

enum { HOT_KEY = 0 }; /* many clients change its value at once, mostly without a new TTL */

/* Since version 8 a TTL may be short, or there is none (S13.1). */
static uint64_t choose_ttl(const struct sim_node *n)
{
    if (core_version(replica_core(n->replica)) >= 8 && one_in(4)) {
        return one_in(2) ? TTL_NONE : 1 + chance_below(100);
    }
    return 150 + chance_below(one_in(4) ? 300 : 4000);
}

/* Lists and sorted sets are since version 9 (S13.11). */
static uint32_t choose_type(const struct sim_node *n)
{
    if (core_version(replica_core(n->replica)) < 9 || one_in(2)) {
        return 0;
    }
    return one_in(3) ? EFFECT_LIST : one_in(2) ? EFFECT_SORTED_SET : EFFECT_SET;
}

static struct key_change choose(const struct sim_node *n, uint32_t key, bool there)
{
    struct key_change e = {.key = key, .kind = EFFECT_PUT};
    uint64_t ttl_ms = choose_ttl(n);
    uint64_t what = key == HOT_KEY && !one_in(4) ? 8 : chance_below(8);
    if (there ? what < 3 : one_in(12)) {
        e.kind = EFFECT_EXPIRE;
        e.ttl_ms = one_in(6) ? 0 : ttl_ms;
    } else if (there ? what < 5 : one_in(12)) {
        e.kind = EFFECT_DROP;
    } else {
        e.ttl_ms = there && (what == 8 || one_in(2)) ? 0 : ttl_ms;
        e.flags = choose_type(n);
    }
    return e;
}

/* INCR and EXPIRE, PERSIST, DEL of a counter. The TTL is of version 4. */
static struct key_change choose_count(const struct sim_node *n, uint32_t key, bool there)
{
    struct key_change e = {.key = key, .kind = EFFECT_COUNTER};
    uint64_t what = chance_below(8);
    if (there ? what == 0 : one_in(12)) {
        e.kind = EFFECT_DROP;
    } else if (core_version(replica_core(n->replica)) >= 4 && what < 5) {
        e.flags = what == 1 ? EFFECT_PERSIST : EFFECT_TTL;
        e.ttl_ms = what == 1 ? 0 : 1 + (uint32_t)chance_below(one_in(4) ? 300 : 4000);
    }
    return e;
}

enum { COUNTER_VERSION = 8 }; /* of the state, which changes the versions of counters (S13.3) */

/* As submitted transactions will leave it, or as it is. False: not known. */
static bool look(const struct sim_client *c, uint32_t key, struct key_view *out)
{
    struct slice name = slice_of(keys_name(key));
    enum uncommitted_state state = uncommitted_look(client_uncommitted(c->entry), 0, name, out);
    if (state == UNCOMMITTED_NONE) {
        view_key(replica_core(world.nodes[c->entry].replica), 0, name, out);
    }
    return state != UNCOMMITTED_BUSY;
}

/* Reads the keys and decides; `views`: those that it changes. False: not now. */
static bool compose(const struct sim_client *c, const struct sim_node *n, struct transaction *t,
                    struct key_view *views, struct packer *checks)
{
    uint32_t first = one_in(2) ? HOT_KEY : (uint32_t)chance_below(KEYS);
    uint32_t count = one_in(3) ? 2 : 1;
    bool looks = !one_in(8);
    *t = (struct transaction){.effect_count = count};
    /* One more may be looked at and not changed. */
    for (uint32_t i = 0; i < count + one_in(4); i++) {
        uint32_t key = (first + i) % KEYS;
        struct key_state seen;
        struct key_view view;
        if (!look(c, key, &view) || !keys_read(&view, key, &seen)) {
            return false;
        }
        struct key_check check = {.name = slice_of(keys_name(key)), .version = view.version};
        if (keys_counts(key) && core_version(replica_core(n->replica)) < COUNTER_VERSION) {
            return false; /* an upgrade changes the version: a conflict that the model lacks */
        }
        if (i < count) {
            views[i] = view;
            t->effects[i] =
                keys_counts(key) ? choose_count(n, key, seen.there) : choose(n, key, seen.there);
        }
        if (looks) {
            t->checks[t->check_count].key = key;
            t->checks[t->check_count++].seen = seen;
            if (!pack_check(checks, &check)) {
                violation("there is no space for a transaction");
            }
        }
    }
    return true;
}

static void pack(struct sim_client *c, const struct transaction *t, const struct key_view *views,
                 struct packer *effects)
{
    char value[24];
    struct uncommitted *u = client_uncommitted(c->entry);
    const struct core *core = replica_core(world.nodes[c->entry].replica);
    c->change.run = uncommitted_begin(u);
    c->change.node = c->entry;
    snprintf(value, sizeof(value), "%llu", ull(c->change.number));
    for (uint32_t i = 0; i < t->effect_count; i++) {
        const struct key_change *e = &t->effects[i];
        struct effect effect = {.kind = e->kind,
                                .flags = e->flags,
                                .name = slice_of(keys_name(e->key)),
                                .ttl_ms = e->ttl_ms,
                                .number = (int64_t)c->change.number};
        if (e->kind == EFFECT_PUT) {
            effect.value = slice_of(value);
            effect.lease = (struct id){(uint64_t)c->id, chance() | 1};
        }
        if (!pack_effect(effects, &effect)) {
            violation("there is no space for a transaction");
        }
        uncommitted_note(u, core, 0, &effect, &views[i]);
    }
}

void client_put(struct sim_client *c, const struct sim_node *n)
{
    struct sim_transaction *h = &c->change;
    struct packer checks = packer_make(h->checks, sizeof(h->checks));
    struct packer effects = packer_make(h->effects, sizeof(h->effects));
    struct transaction t;
    struct key_view views[KEY_EFFECTS];
    if (!compose(c, n, &t, views, &checks)) {
        client_idle(c, client_think_us());
        return;
    }
    client_begin(c, CHANGING, COMMAND_TRANSACT);
    h->count = 0;
    h->number = keys_begin(&t);
    pack(c, &t, views, &effects);
    c->command.transact.id = keys_id(h->number);
    c->command.transact.client = slice_of("client");
    c->command.transact.checks = packer_list(&checks);
    c->command.transact.effects = packer_list(&effects);
    client_submit(c);
}

void client_hear_put(struct sim_client *c, const struct sim_answer *a)
{
    bool conflict = a->outcome == OUTCOME_REFUSED && a->reason == REASON_CONFLICT;
    if (a->error != HF_OK || (a->outcome != OUTCOME_DONE && !conflict)) {
        violation("client %d changed a key and was answered %s, %s", c->id, hf_error_code(a->error),
                  reason_name(a->reason));
    }
    keys_answered(c->change.number, !conflict);
    client_idle(c, client_think_us());
}
