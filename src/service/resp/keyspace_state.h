/* State of a run, shared by keyspace.c and the command files. */
#ifndef HOLDFAST_SERVICE_RESP_KEYSPACE_STATE_H
#define HOLDFAST_SERVICE_RESP_KEYSPACE_STATE_H

#include "core/effect.h"
#include "service/auth/auth.h"
#include "service/auth/caller.h"
#include "service/resp/keyspace.h"
#include "service/resp/name.h"
#include "service/resp/uncommitted.h"

enum {
    KEYSPACE_ARENA_MAX = 4 << 20, /* bytes, of one run */
    KEYSPACE_SCAN_MAX = 1 << 16,
};

struct key {
    struct slice name;
    struct key_view seen;
    /* The overlay. */
    enum key_kind kind;
    struct slice value;
    int64_t number;
    uint64_t deadline_ms;
    uint64_t ttl_ms;   /* the new TTL, perhaps TTL_NONE; 0: unchanged */
    bool is_changed;   /* value or kind */
    bool is_forced;    /* deletes a lock of another holder */
    bool is_compared;  /* the script has read its value */
    bool is_examined;  /* the run has read whether it exists */
    bool is_value;     /* if the run creates it: without an owner */
    bool is_persisted; /* counter: loses its deadline */
};

struct key_message {
    struct slice channel;
    struct slice text;
};

struct resp_conn;

struct keyspace {
    struct service *service;
    struct resp_conn *conn; /* of the command; for EXEC */
    struct bump arena;
    const struct core *core; /* of the configured tier */
    struct caller_id who;
    struct slice client; /* of the run */
    uint64_t now_ms;     /* cluster time */
    uint32_t database;   /* of the client */
    bool is_read_only;   /* after a barrier: no checks, no changes */
    bool is_script;
    bool is_flush;   /* versions are not checked: keys are removed whatever they are (flush.c) */
    bool is_early;   /* commands of others are under way: only keys that are KNOWN may be read */
    bool is_hopeful; /* ... and keys that are present: an acquire under way does not change them */
    bool is_busy;    /* has read a key that is not known yet (uncommitted.h) */
    bool is_expecting; /* has read a key as uncommitted changes will leave it */
    bool is_settled;   /* reads applied keys only */
    bool waits;        /* there is nothing to answer yet: see blocking.c */
    uint64_t wait_ms;  /* ... for so long; UINT64_MAX: for ever */
    bool is_denied; /* a right is missing by the policy applied here; `denial` is the first text */
    char denial[AUTH_TEXT];
    uint32_t count;
    struct key keys[LIMIT_CHECKS];
    uint32_t message_count;
    struct key_message messages[LIMIT_EFFECTS];
    uint8_t *checks;  /* LIMIT_TRANSACT_BYTES */
    uint8_t *effects; /* LIMIT_TRANSACT_BYTES */
    struct uncommitted uncommitted;
};

void keyspace_open(struct keyspace *k, struct service *s);
void keyspace_close(struct keyspace *k);

/* `client` must stay valid until the run ends. False: this node has no state to read (S10.1). */
bool keyspace_begin(struct keyspace *k, struct caller_id who, struct slice client,
                    bool is_read_only);
/* What this run read is not known before the state moves on: the run would only conflict. */
bool keyspace_is_busy(const struct keyspace *k);
/* The reads of a run without changes are confirmed otherwise. */
void keyspace_forget_reads(struct keyspace *k);
/* Nothing read or changed: nothing to submit. */
bool keyspace_is_idle(const struct keyspace *k);
/* One command from the reads and changes, valid until the next run. Returns HF_OK, or why it cannot
 * be built. */
enum hf_error keyspace_build(struct keyspace *k, struct command *out);
/* The command is submitted: later runs build on its effects. Returns its number in
 * `k->uncommitted`. */
uint64_t keyspace_submitted(struct keyspace *k);

/* ---- for the commands ---- */

/* Sends the error. An empty name: all names. */
void keyspace_deny(struct keyspace *k, enum right right, struct slice name,
                   const struct key_sink *to);
/* Its name, in `out` or itself. False: no key can be that. */
bool keyspace_name(const struct keyspace *k, struct slice key, uint8_t out[RESP_NAME_BYTES],
                   struct slice *name);
bool keyspace_can_exist(const struct keyspace *k, struct slice key);
/* Records the key as read. NULL: invalid name; the error was sent. */
struct key *keyspace_key(struct keyspace *k, struct slice name, const struct key_sink *to);
/* The same for the name of a key. */
struct key *keyspace_named(struct keyspace *k, struct slice name, const struct key_sink *to);

/* The key, and its value, empty if it does not exist. NULL: it has another type, or an invalid name;
 * the error was sent. */
struct key *keyspace_typed(struct keyspace *k, struct slice name, enum key_kind kind,
                           const struct key_sink *to, struct slice *value);

static inline bool key_is_present(const struct key *key)
{
    return key->kind != KEY_ABSENT && key->kind != KEY_RESERVED;
}

/* May change the key without force: acquired through this connection, or the script has read its
 * value. */
bool key_is_own(const struct keyspace *k, const struct key *key);

/* As key_is_own, also of a key that does not exist yet. False: the error was sent. */
bool key_may_change(const struct keyspace *k, const struct key *key, const struct key_sink *to);

/* To memory of the run. False: above its limit; the error was sent. */
bool keyspace_copy(struct keyspace *k, struct slice *text, const struct key_sink *to);

void key_put(struct keyspace *k, struct key *key, enum key_kind kind, struct slice value,
             uint64_t ttl_ms);
/* Of a list or a sorted set: everybody's if the run creates it (S13.11); gone with its last
 * element. */
void key_put_shared(struct keyspace *k, struct key *key, enum key_kind kind, struct slice value);
/* TTL_NONE: not for a counter. */
void key_set_ttl(struct keyspace *k, struct key *key, uint64_t ttl_ms);
void key_set_number(struct key *key, int64_t number);
void key_persist_counter(struct key *key);
/* False: another holder's key, and force is disabled; the error was sent. */
bool key_may_drop(const struct keyspace *k, const struct key *key, const struct key_sink *to);
void key_drop(struct keyspace *k, struct key *key);
/* Removes a present key by force (`operate`). False: the run has no space for it. */
bool keyspace_flush(struct keyspace *k, struct slice name);
bool keyspace_publish(struct keyspace *k, struct slice channel, bool is_shard, struct slice text,
                      const struct key_sink *to);

#define KEY_WRONG_TYPE "Operation against a key holding the wrong kind of value"

#endif
