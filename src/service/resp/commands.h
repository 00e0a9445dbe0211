/* The commands of the Redis protocol: one table, of which COMMAND tells clients, too.
 *
 * A command is of one of these kinds:
 *   LOCAL    about the connection; answered at once
 *   READ     looks at keys, after a barrier (S9.1); changes nothing
 *   CHANGE   runs over a keyspace and becomes one `transact`; runs again when that met a conflict
 * EVAL and its relatives are CHANGEs: their handler calls keyspace_enter_script, and then
 * keyspace_call for each redis.call. READs and CHANGEs may be called from scripts, unless they are
 * marked RESP_NO_SCRIPT. */
#ifndef HOLDFAST_SERVICE_RESP_COMMANDS_H
#define HOLDFAST_SERVICE_RESP_COMMANDS_H

#include "service/resp/keyspace.h"

struct resp_conn;

enum resp_kind { RESP_LOCAL, RESP_READ, RESP_CHANGE };

/* What COMMAND says about it, and RESP_* of our own. */
enum {
    RESP_FAST = 1,
    RESP_WRITE = 2,
    RESP_READONLY = 4,
    RESP_ADMIN = 8,
    RESP_PUBSUB = 16,
    RESP_NO_SCRIPT = 32,
    RESP_NO_AUTH = 64,         /* also before AUTH */
    RESP_WHEN_SUBSCRIBED = 128 /* also in RESP2 while it is subscribed */
};

struct resp_command {
    const char *name; /* in small letters */
    int arity;        /* words, the name included; negative: at least so many */
    uint32_t flags;
    int first_key; /* 0: none */
    int last_key;  /* negative: counted from the end */
    int key_step;
    const char *group;
    const char *summary;
    enum resp_kind kind;
    void (*local)(struct resp_conn *conn, const struct slice *args, uint32_t count);
    void (*run)(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to);
};

/* NULL: there is none of that name, in letters of either size. */
const struct resp_command *resp_command_find(struct slice name);
/* The same; a connection mostly asks for what it asked for last (NULL: for nothing yet). */
const struct resp_command *resp_command_again(const struct resp_command *last, struct slice name);
bool resp_command_takes(const struct resp_command *command, uint32_t count);
const struct resp_command *resp_command_all(uint32_t *count);

#endif
