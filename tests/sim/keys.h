/* Keys of the Redis protocol (S13): what clients request by transactions of PUT, EXPIRE, DROP and
 * COUNTER (the last keys are counters, with and without a TTL), and a small model of it that goes
 * along with the log, entry by entry. A transaction says which states of keys it saw; the model
 * does all of it or nothing, by what can be read of a key and not by the core's versions. What the
 * core has then, and what clients are answered, must be the same. */
#ifndef HOLDFAST_TESTS_SIM_KEYS_H
#define HOLDFAST_TESTS_SIM_KEYS_H

#include "core/view.h"
#include "world.h"

enum { KEYS = 8, KEYS_THAT_COUNT = 2, KEY_CHECKS = 3, KEY_EFFECTS = 2 };

static inline bool keys_counts(uint32_t key)
{
    return key >= KEYS - KEYS_THAT_COUNT;
}

/* What can be read of a key. */
struct key_state {
    bool there;
    uint64_t value;       /* the number of the transaction that set it */
    uint64_t token;       /* of a lock */
    uint64_t deadline_ms; /* 0: none */
    enum key_kind kind;   /* the type of its value, or a counter */
};

struct key_change {
    uint32_t key;
    enum effect_kind kind;
    uint32_t flags;
    uint64_t ttl_ms; /* of a key also TTL_NONE */
};

struct transaction {
    struct {
        uint32_t key;
        struct key_state seen;
    } checks[KEY_CHECKS];
    uint32_t check_count;
    struct key_change effects[KEY_EFFECTS];
    uint32_t effect_count;
    enum { FATE_UNKNOWN, FATE_DONE, FATE_CONFLICT } fate; /* in the log, by the model */
    enum { ANSWERED_NOTHING, ANSWERED_DONE, ANSWERED_CONFLICT } reported;
};

const char *keys_name(uint32_t key);
/* What a client reads in this view. False: it is nothing that a transaction should touch now. */
bool keys_read(const struct key_view *view, uint32_t key, struct key_state *out);

/* Its id is made of its number, the first is 1. */
uint64_t keys_begin(const struct transaction *t);
struct id keys_id(uint64_t number);
void keys_answered(uint64_t number, bool done);

/* Entries that a node writes; what it has applied; a key that was granted, in log order. */
void keys_written(uint64_t first, const struct replica_entry *entries, uint32_t count);
void keys_applied(const struct sim_node *n);
void keys_granted(const struct event *e);
void keys_check(void);
void keys_end(void);

#endif
