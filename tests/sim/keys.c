/* The model of keys, see keys.h. */
#include "keys.h"

#include "base/codec.h"
#include "core/view.h"

enum { MAX_GRANTS = 64, TRANSACTIONS_OF = 1 << 20 };

/* Those of one entry: another leader may have written another entry of that index. */
struct written {
    uint64_t index;
    uint64_t term;
    uint64_t stamp_ms;
    uint64_t *numbers;
    uint32_t count;
    struct written *next;
};

static struct transaction *transactions;
static uint64_t transaction_count;
static uint64_t transaction_capacity;

static struct written *written; /* and not applied anywhere, newest first */
static struct key_state keys[KEYS];
static uint64_t now_ms;
static uint64_t applied;

/* Tokens that the core gave, which the model takes up in the same order. */
static struct key_grants {
    struct {
        uint64_t index;
        uint64_t token;
    } at[MAX_GRANTS];
    uint32_t count;
} grants[KEYS];

const char *keys_name(uint32_t key)
{
    static const char *const names[KEYS] = {"k0", "k1", "k2", "k3", "k4", "k5", "w0", "w1"};
    return names[key];
}

bool keys_read(const struct key_view *view, uint32_t key, struct key_state *out)
{
    *out = (struct key_state){0};
    if (view->kind == KEY_ABSENT) {
        return true;
    }
    if (view->kind == KEY_COUNTER && keys_counts(key)) {
        *out = (struct key_state){true, (uint64_t)view->number, 0, view->deadline_ms, KEY_COUNTER};
        return true;
    }
    if (!key_kind_has_value(view->kind) || keys_counts(key)) {
        return false;
    }
    *out = (struct key_state){true, 0, view->token, view->deadline_ms, view->kind};
    for (size_t i = 0; i < view->value.len; i++) {
        out->value = out->value * 10 + (uint64_t)(view->value.data[i] - '0');
    }
    return true;
}

/* ---- transactions ---- */

static struct transaction *find(uint64_t number)
{
    if (number == 0 || number > transaction_count) {
        violation("there is no transaction %llu", ull(number));
    }
    return &transactions[number - 1];
}

uint64_t keys_begin(const struct transaction *t)
{
    if (transaction_count == transaction_capacity) {
        transaction_capacity = transaction_capacity == 0 ? 256 : transaction_capacity * 2;
        transactions = realloc(transactions, transaction_capacity * sizeof(*transactions));
    }
    transactions[transaction_count++] = *t;
    return transaction_count;
}

struct id keys_id(uint64_t number)
{
    return (struct id){TRANSACTIONS_OF, number};
}

static void check_answered(uint64_t number)
{
    const struct transaction *t = find(number);
    if (t->reported != ANSWERED_NOTHING && t->fate != FATE_UNKNOWN &&
        (t->reported == ANSWERED_DONE) != (t->fate == FATE_DONE)) {
        violation("transaction %llu is %s by what it saw, and was answered that it is %s (S13.2)",
                  ull(number), t->fate == FATE_DONE ? "done" : "a conflict",
                  t->reported == ANSWERED_DONE ? "done" : "a conflict");
    }
}

void keys_answered(uint64_t number, bool done)
{
    find(number)->reported = done ? ANSWERED_DONE : ANSWERED_CONFLICT;
    check_answered(number);
}

/* ---- the log ---- */

static bool is_known(uint64_t index, uint64_t term)
{
    for (const struct written *w = written; w != NULL; w = w->next) {
        if (w->index == index && w->term == term) {
            return true;
        }
    }
    return false;
}

static void note(uint64_t index, const struct replica_entry *entry)
{
    struct reader r = reader_make(entry->bytes);
    struct command command;
    (void)read_fixed64(&r); /* format */
    struct written *w = malloc(sizeof(*w));
    *w = (struct written){
        .index = index, .term = entry->term, .stamp_ms = read_fixed64(&r), .next = written};
    (void)read_fixed64(&r); /* wall clock */
    uint64_t commands = read_fixed64(&r);
    for (uint64_t i = 0; i < commands; i++) {
        struct slice bytes = read_slice(&r, LIMIT_ENTRY);
        if (r.bad || command_decode(bytes, &command) != HF_OK) {
            violation("the entry %llu cannot be decoded", ull(index));
        }
        if (command.type == COMMAND_TRANSACT && command.transact.id.high == TRANSACTIONS_OF) {
            w->numbers = realloc(w->numbers, (w->count + 1) * sizeof(*w->numbers));
            w->numbers[w->count++] = command.transact.id.low;
        }
    }
    written = w;
}

void keys_written(uint64_t first, const struct replica_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].type == REPLICA_COMMAND && first + i > applied &&
            !is_known(first + i, entries[i].term)) {
            note(first + i, &entries[i]);
        }
    }
}

void keys_granted(const struct event *e)
{
    for (uint32_t k = 0; k < KEYS; k++) {
        struct key_grants *g = &grants[k];
        if (slice_equal(e->name, slice_of(keys_name(k)))) {
            if (g->count == MAX_GRANTS) {
                violation("%s was granted without a transaction", keys_name(k));
            }
            g->at[g->count].index = e->index;
            g->at[g->count++].token = e->token;
        }
    }
}

/* ---- the model ---- */

static uint64_t take_token(uint32_t key, uint64_t index)
{
    struct key_grants *g = &grants[key];
    if (g->count == 0 || g->at[0].index != index) {
        violation("a transaction at %llu takes %s, and it is not granted (S13.4)", ull(index),
                  keys_name(key));
    }
    uint64_t token = g->at[0].token;
    memmove(g->at, g->at + 1, --g->count * sizeof(g->at[0]));
    return token;
}

static bool is_same(const struct key_state *a, const struct key_state *b)
{
    return a->there == b->there && a->value == b->value && a->token == b->token &&
           a->deadline_ms == b->deadline_ms && a->kind == b->kind;
}

/* S13.2, S13.4: the checks, and what the effects need. */
static bool may_be_done(const struct transaction *t)
{
    for (uint32_t i = 0; i < t->check_count; i++) {
        if (!is_same(&t->checks[i].seen, &keys[t->checks[i].key])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < t->effect_count; i++) {
        const struct key_change *e = &t->effects[i];
        bool makes_it = e->kind == EFFECT_COUNTER || (e->kind == EFFECT_PUT && e->ttl_ms != 0);
        if (!keys[e->key].there && !makes_it) {
            return false;
        }
    }
    return true;
}

static void count(const struct key_change *e, uint64_t number)
{
    struct key_state *k = &keys[e->key];
    k->there = true;
    k->kind = KEY_COUNTER;
    k->value = number;
    if (e->flags & EFFECT_TTL) {
        k->deadline_ms = now_ms + e->ttl_ms;
    } else if (e->flags & EFFECT_PERSIST) {
        k->deadline_ms = 0;
    }
}

static enum key_kind type_of(uint32_t flags)
{
    return flags & EFFECT_LIST         ? KEY_LIST
           : flags & EFFECT_SORTED_SET ? KEY_SORTED_SET
           : flags & EFFECT_SET        ? KEY_SET
                                       : KEY_STRING;
}

static void change(const struct key_change *e, uint64_t number, uint64_t index)
{
    struct key_state *k = &keys[e->key];
    if (e->kind == EFFECT_DROP || (e->kind == EFFECT_EXPIRE && e->ttl_ms == 0)) {
        *k = (struct key_state){0};
        return;
    }
    if (e->kind == EFFECT_COUNTER) {
        count(e, number);
        return;
    }
    if (!k->there) {
        *k = (struct key_state){.there = true, .token = take_token(e->key, index)};
    }
    if (e->kind == EFFECT_PUT) {
        k->value = number;
        k->kind = type_of(e->flags);
    }
    if (e->ttl_ms != 0) {
        k->deadline_ms = e->ttl_ms == TTL_NONE ? 0 : now_ms + e->ttl_ms;
    }
}

static void transact(uint64_t number, uint64_t index)
{
    struct transaction *t = find(number);
    if (t->fate != FATE_UNKNOWN) {
        return; /* repeated: it was decided (S13.6) */
    }
    t->fate = may_be_done(t) ? FATE_DONE : FATE_CONFLICT;
    trace("transaction %llu at %llu is %s", ull(number), ull(index),
          t->fate == FATE_DONE ? "done" : "a conflict");
    for (uint32_t i = 0; i < t->effect_count && t->fate == FATE_DONE; i++) {
        change(&t->effects[i], number, index);
    }
    world.counts.key_changes += t->fate == FATE_DONE;
    world.counts.key_conflicts += t->fate == FATE_CONFLICT;
    check_answered(number);
}

/* What is due at the stamp comes first (S1.7). True: something was changed. */
static bool apply(const struct written *w)
{
    now_ms = w->stamp_ms > now_ms ? w->stamp_ms : now_ms;
    for (uint32_t k = 0; k < KEYS; k++) {
        if (keys[k].there && keys[k].deadline_ms != 0 && keys[k].deadline_ms <= now_ms) {
            keys[k] = (struct key_state){0};
        }
    }
    for (uint32_t i = 0; i < w->count; i++) {
        transact(w->numbers[i], w->index);
    }
    return w->count > 0;
}

static void compare(const struct sim_node *n)
{
    for (uint32_t k = 0; k < KEYS; k++) {
        struct key_state now;
        struct key_view view;
        view_key(replica_core(n->replica), 0, slice_of(keys_name(k)), &view);
        if (!keys_read(&view, k, &now) || !is_same(&now, &keys[k])) {
            violation("%s at %llu: there %d, kind %d, value %llu, token %llu, until %llu; by its "
                      "transactions: there %d, kind %d, value %llu, token %llu, until %llu (S13)",
                      keys_name(k), ull(applied), now.there, (int)now.kind, ull(now.value),
                      ull(now.token), ull(now.deadline_ms), keys[k].there, (int)keys[k].kind,
                      ull(keys[k].value), ull(keys[k].token), ull(keys[k].deadline_ms));
        }
        if (grants[k].count != 0) {
            violation("%s was granted at %llu, which no transaction explains", keys_name(k),
                      ull(grants[k].at[0].index));
        }
    }
}

static void drop_written(uint64_t up_to)
{
    for (struct written **at = &written; *at != NULL;) {
        struct written *w = *at;
        if (w->index <= up_to) {
            *at = w->next;
            free(w->numbers);
            free(w);
        } else {
            at = &w->next;
        }
    }
}

/* Whoever is first to apply an entry has it in its log. */
void keys_applied(const struct sim_node *n)
{
    uint64_t index = core_index(replica_core(n->replica));
    bool changed = false;
    if (index <= applied) {
        return;
    }
    while (applied < index) {
        applied++;
        uint64_t term = terms_at(&n->memory, applied);
        for (const struct written *w = written; w != NULL; w = w->next) {
            if (w->index == applied && w->term == term) {
                changed = apply(w) || changed;
            }
        }
    }
    drop_written(applied);
    if (changed) {
        compare(n);
    }
}

/* ---- the end ---- */

void keys_check(void)
{
    for (uint64_t i = 1; i <= transaction_count; i++) {
        if (find(i)->reported != ANSWERED_NOTHING && find(i)->fate == FATE_UNKNOWN) {
            violation("transaction %llu was answered and is in no entry", ull(i));
        }
    }
}

void keys_end(void)
{
    drop_written(UINT64_MAX);
    free(transactions);
    transactions = NULL;
    transaction_count = transaction_capacity = 0;
    memset(keys, 0, sizeof(keys));
    memset(grants, 0, sizeof(grants));
    now_ms = applied = 0;
}
