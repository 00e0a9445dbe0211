/* The keys that one command or script sees: the applied state of this node, overlaid with the run's
 * own changes.
 *
 * A key is a lock name. The run records each key it reads with its version, and keeps its changes
 * in the overlay. At the end both become one `transact`. The core applies it completely, or rejects
 * it if a key that was read has changed. Then the run starts again from the beginning. So a run
 * must have no effect except calls of keyspace_call and its reply to a sink.
 *
 * The commands are in keys.c, set.c, hash.c, scan.c, multi.c and token.c. A script's redis.call and
 * a client's command use the same functions. */
#ifndef HOLDFAST_SERVICE_RESP_KEYSPACE_H
#define HOLDFAST_SERVICE_RESP_KEYSPACE_H

#include "base/bump.h"
#include "core/view.h"
#include "service/service.h"

/* Receives a reply: writes it to a connection or pushes it on a script's stack. A plain value is
 * one call. An array or a map announces the number of calls that follow. Texts are borrowed for the
 * call. */
struct key_sink {
    void *ctx;
    void (*status)(void *ctx, const char *text); /* "OK" */
    /* `code` is the first word ("ERR", "WRONGTYPE"), `text` the rest. */
    void (*error)(void *ctx, const char *code, const char *text);
    void (*integer)(void *ctx, int64_t value);
    void (*bulk)(void *ctx, struct slice bytes);
    void (*null)(void *ctx);
    void (*array)(void *ctx, uint32_t count);
    void (*map)(void *ctx, uint32_t pairs); /* twice as many values follow */
};

struct keyspace;

/* Runs one command that a script may call; `args[0]` is its name. Refuses commands about
 * connections, subscriptions and scripts with Redis's error texts. Sends exactly one reply to
 * `to`. */
void keyspace_call(struct keyspace *k, const struct slice *args, uint32_t count,
                   const struct key_sink *to);

/* Marks the run as a script. A script may change or delete a key whose value it has read (GET,
 * HGET, HEXISTS, HGETALL, ...), since it could compare the value. */
void keyspace_enter_script(struct keyspace *k);

/* Discards the changes, for a script that failed. The keys it read are still checked before its
 * reply is sent. */
void keyspace_cancel(struct keyspace *k);

/* The service of the run, and its time, which stays constant during the run. */
struct service *keyspace_service(const struct keyspace *k);
uint64_t keyspace_now_ms(const struct keyspace *k);
/* Memory that is valid until the run ends. NULL: the run has exceeded its limit. */
struct bump *keyspace_arena(struct keyspace *k);

#endif
