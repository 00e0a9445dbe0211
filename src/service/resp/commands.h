/* The command table of the Redis protocol, which COMMAND reports. A command has a kind:
 *   LOCAL    concerns the connection; answered at once. With `run`, scripts and MULTI have it, too
 *   READ     reads keys after a barrier (S9.1); changes nothing
 *   CHANGE   runs over a keyspace and becomes one `transact`; runs again after a conflict
 * EVAL is a CHANGE: it calls keyspace_enter_script, then keyspace_call for each redis.call. Scripts
 * may call READ and CHANGE commands without RESP_NO_SCRIPT. */
#ifndef HOLDFAST_SERVICE_RESP_COMMANDS_H
#define HOLDFAST_SERVICE_RESP_COMMANDS_H

#include "service/auth/need.h"
#include "service/resp/keyspace.h"

struct resp_conn;

enum resp_kind { RESP_LOCAL, RESP_READ, RESP_CHANGE };

/* Reported by COMMAND, and our own. */
enum {
    RESP_FAST = 1,
    RESP_WRITE = 2,
    RESP_READONLY = 4,
    RESP_ADMIN = 8,
    RESP_PUBSUB = 16,
    RESP_NO_SCRIPT = 32,
    RESP_NO_AUTH = 64,         /* allowed before AUTH */
    RESP_WHEN_SUBSCRIBED = 128 /* allowed in RESP2 while subscribed */
};

struct resp_command {
    const char *name; /* lower case */
    int arity;        /* words including the name; negative: at least that many */
    uint32_t flags;
    int first_key; /* 0: none */
    int last_key;  /* negative: counted from the end */
    int key_step;
    const char *group;
    const char *summary;
    enum need need;
    enum resp_kind kind;
    void (*local)(struct resp_conn *conn, const struct slice *args, uint32_t count);
    void (*run)(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to);
};

/* Ignores case. NULL: not found. */
const struct resp_command *resp_command_find(struct slice name);
/* The same; compares with `last` (may be NULL) first, since connections repeat commands. */
const struct resp_command *resp_command_again(const struct resp_command *last, struct slice name);
bool resp_command_takes(const struct resp_command *command, uint32_t count);
const struct resp_command *resp_command_all(uint32_t *count);

#endif
