/* Clients raise counters by transactions, as the Redis protocol does it (S13): read the state of
 * the node that they are connected to, which may lag, and have the next number written if nothing
 * of it has changed. They build on what others submitted there and is not applied yet, and do not
 * always learn that it was refused: the checks of the state machine alone prevent a lost change.
 * Checked by register.c. */
#include "client.h"

#include "core/view.h"
#include "register.h"
#include "service/resp/uncommitted.h"

static struct counter_history {
    struct register_op *ops;
    size_t count;
    size_t capacity;
} counters[COUNTERS];

static struct uncommitted uncommitted[MAX_NODES + 1]; /* by node */

struct uncommitted *client_uncommitted(int node)
{
    return &uncommitted[node];
}

static void put(uint32_t counter, const struct register_op *op)
{
    struct counter_history *n = &counters[counter];
    if (n->count == n->capacity) {
        n->capacity = n->capacity == 0 ? 64 : n->capacity * 2;
        n->ops = realloc(n->ops, n->capacity * sizeof(*n->ops));
    }
    n->ops[n->count++] = *op;
}

void client_changes_begin(void)
{
    for (uint32_t i = 0; i <= MAX_NODES; i++) {
        uncommitted_open(&uncommitted[i], memory_system());
    }
}

static void record(const struct sim_client *c, enum register_outcome outcome, uint64_t return_us)
{
    for (uint32_t i = 0; i < c->change.count; i++) {
        struct register_op op = {
            .outcome = outcome,
            .client = c->id,
            .alone = c->change.count == 1 && !c->change.is_older,
            .is_built = c->change.is_built[i],
            .seen = c->change.seen[i],
            .call_us = c->call_us,
            .return_us = return_us,
        };
        put(c->change.counters[i], &op);
    }
}

static void add(struct sim_client *c, struct packer *checks, struct packer *effects, uint32_t i)
{
    struct key_view view;
    struct sim_transaction *h = &c->change;
    snprintf(h->names[i], sizeof(h->names[i]), "c%u", h->counters[i]);
    struct slice name = slice_of(h->names[i]);
    const struct core *core = replica_core(world.nodes[c->entry].replica);
    struct uncommitted *u = &uncommitted[c->entry];
    h->is_older = h->is_older || core_version(core) < CORE_VERSION;
    h->is_built[i] = uncommitted_look(u, 0, name, &view) == UNCOMMITTED_KNOWN;
    if (!h->is_built[i]) {
        view_key(core, 0, name, &view);
    }
    h->seen[i] = view.kind == KEY_COUNTER ? (uint64_t)view.number : 0;
    struct key_check check = {name, view.version};
    struct effect effect = {
        .kind = EFFECT_COUNTER, .name = name, .number = (int64_t)h->seen[i] + 1};
    if (!pack_check(checks, &check) || !pack_effect(effects, &effect)) {
        violation("there is no space for a transaction");
    }
    c->change.run = i == 0 ? uncommitted_begin(u) : c->change.run;
    uncommitted_note(u, core, 0, &effect, &view);
}

void client_change(struct sim_client *c)
{
    const struct sim_node *n = &world.nodes[c->entry];
    if (!n->up || n->failed || n->lost || n->paused_until_us > world.now_us) {
        client_choose_entry(c);
        client_idle(c, 1000);
        return;
    }
    if (one_in(2)) {
        client_put(c, n);
        return;
    }
    client_begin(c, CHANGING, COMMAND_TRANSACT);
    struct sim_transaction *h = &c->change;
    h->number = 0;
    h->is_older = false;
    h->node = c->entry;
    struct packer checks = packer_make(h->checks, sizeof(h->checks));
    struct packer effects = packer_make(h->effects, sizeof(h->effects));
    h->counters[0] = (uint32_t)chance_below(COUNTERS);
    h->counters[1] = (h->counters[0] + 1) % COUNTERS;
    h->count = one_in(4) ? 2 : 1;
    for (uint32_t i = 0; i < h->count; i++) {
        add(c, &checks, &effects, i);
    }
    c->command.transact.id = (struct id){(uint64_t)c->id, chance() | 1};
    c->command.transact.client = slice_of("client");
    c->command.transact.checks = packer_list(&checks);
    c->command.transact.effects = packer_list(&effects);
    client_submit(c);
}

static void note_end(const struct sim_client *c, bool conflict)
{
    if (one_in(2)) {
        uncommitted_end(&uncommitted[c->change.node], c->change.run);
    } else if (conflict && one_in(2)) {
        uncommitted_forget(&uncommitted[c->change.node]);
    }
}

void client_hear_change(struct sim_client *c, const struct sim_answer *a)
{
    bool conflict = a->outcome == OUTCOME_REFUSED && a->reason == REASON_CONFLICT;
    note_end(c, conflict);
    if (c->change.number != 0) {
        client_hear_put(c, a);
        return;
    }
    if (a->error != HF_OK || (a->outcome != OUTCOME_DONE && !conflict)) {
        violation("client %d raised a counter and was answered %s, %s", c->id,
                  hf_error_code(a->error), reason_name(a->reason));
    }
    world.counts.raised += !conflict;
    world.counts.conflicts += conflict;
    world.counts.built += !conflict && c->change.is_built[0];
    record(c, conflict ? REGISTER_CONFLICT : REGISTER_RAISED, world.now_us);
    client_idle(c, client_think_us());
}

void client_give_up_change(struct sim_client *c)
{
    if (c->change.number == 0) { /* the others are looked for in the log */
        record(c, REGISTER_UNKNOWN, REGISTER_NEVER);
    }
    client_idle(c, client_think_us());
}

void client_changes_check(void)
{
    char problem[300];
    for (uint32_t i = 0; i < COUNTERS; i++) {
        if (!register_check(counters[i].ops, counters[i].count, problem, sizeof(problem))) {
            violation("c%u: %s", i, problem);
        }
    }
}

void client_changes_end(void)
{
    for (uint32_t i = 0; i < COUNTERS; i++) {
        free(counters[i].ops);
    }
    memset(counters, 0, sizeof(counters));
    for (uint32_t i = 0; i <= MAX_NODES; i++) {
        uncommitted_close(&uncommitted[i]);
    }
}
