/* A run over the keys in memory: what keyspace.c and the commands in resp_keys*.c share. */
#ifndef HOLDFAST_SERVICE_RESP_KEYSPACE_STATE_H
#define HOLDFAST_SERVICE_RESP_KEYSPACE_STATE_H

#include "core/effect.h"
#include "service/resp/keyspace.h"

enum {
    KEYSPACE_WRITTEN = 1024,      /* slots that remember which keys are being changed */
    KEYSPACE_ARENA_MAX = 4 << 20, /* bytes that one run may take */
    KEYSPACE_SCAN_MAX = 1 << 16,
};

/* One key, as it was in the state and as the run has it now. */
struct key {
    struct slice name;
    struct key_view seen;
    /* The overlay. */
    enum key_kind kind;
    struct slice value;
    int64_t number;
    uint64_t deadline_ms;
    uint32_t ttl_ms;   /* the new one; 0: as it was */
    bool is_changed;   /* value or kind */
    bool is_forced;    /* its end: somebody else's lock */
    bool is_compared;  /* a script has read its value */
    bool is_persisted; /* a counter: it loses the deadline that it had */
};

struct key_message {
    struct slice channel;
    struct slice text;
};

struct resp_conn;

struct keyspace {
    struct service *service;
    struct resp_conn *conn; /* whose command it is; for EXEC */
    struct bump arena;
    const struct core *core; /* that is read: of the tier that these clients get */
    uint32_t tenant;
    struct slice client; /* in whose name */
    uint64_t now_ms;     /* cluster time */
    bool is_looking;     /* a plain read after a barrier: nothing is checked, nothing changed */
    bool is_script;
    uint32_t count;
    struct key keys[LIMIT_CHECKS];
    uint32_t message_count;
    struct key_message messages[LIMIT_EFFECTS];
    uint8_t *checks;  /* LIMIT_TRANSACT_BYTES */
    uint8_t *effects; /* LIMIT_TRANSACT_BYTES */
    /* By the hash of the key: the state's index, plus one, when a change of it was last submitted.
     * While the state has not moved on, whoever runs over it again would only meet a conflict. */
    uint64_t written[KEYSPACE_WRITTEN];
};

void keyspace_open(struct keyspace *k, struct service *s);
void keyspace_close(struct keyspace *k);

/* A run begins; `client` lasts until it is over. False: this node has nothing to read (S10.1). */
bool keyspace_begin(struct keyspace *k, uint32_t tenant, struct slice client, bool is_looking);
/* Something that it read is being changed by another run, whose result is not there yet. */
bool keyspace_is_busy(const struct keyspace *k);
/* It read nothing and wants nothing: no need to ask anybody. */
bool keyspace_is_idle(const struct keyspace *k);
/* What it read and what it wants as one command, which lasts until the next run. HF_OK, or why it
 * cannot be. */
enum hf_error keyspace_build(struct keyspace *k, struct command *out);
/* It was submitted. */
void keyspace_submitted(struct keyspace *k);

/* ---- for the commands ---- */

/* The key, noted as read. NULL: it cannot be one, and `to` was told. */
struct key *keyspace_key(struct keyspace *k, struct slice name, const struct key_sink *to);

static inline bool key_is_present(const struct key *key)
{
    return key->kind != KEY_ABSENT && key->kind != KEY_RESERVED;
}

/* Whether this run may change it without force: the lock was taken through this connection, or a
 * script has looked at its value. */
bool key_is_own(const struct keyspace *k, const struct key *key);

/* A copy that lasts as long as the run; false, and `to` was told, when it takes too much. */
bool keyspace_copy(struct keyspace *k, struct slice *text, const struct key_sink *to);

void key_put(struct keyspace *k, struct key *key, enum key_kind kind, struct slice value,
             uint32_t ttl_ms);
void key_set_ttl(struct keyspace *k, struct key *key, uint32_t ttl_ms);
void key_set_number(struct key *key, int64_t number);
/* A counter: no deadline any more. */
void key_persist_counter(struct key *key);
/* False: it is somebody else's, and that is switched off; `to` was told. */
bool key_may_drop(const struct keyspace *k, const struct key *key, const struct key_sink *to);
void key_drop(struct keyspace *k, struct key *key);
bool keyspace_publish(struct keyspace *k, struct slice channel, struct slice text,
                      const struct key_sink *to);

#define KEY_WRONG_TYPE "Operation against a key holding the wrong kind of value"

#endif
