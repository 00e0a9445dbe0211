/* The keys that a run sees: this node's applied state, overlaid with its changes.
 *
 * A key is a lock name. The run records the version of each key it reads; reads and changes become
 * one `transact`. The core applies it completely, or rejects it if a key that was read has changed.
 * Then the run starts again. So a run must have no effect except keyspace_call and its reply to a
 * sink.
 *
 * Scripts and clients use the same commands: keys.c, set.c, hash.c, list.c,
 * sorted_set.c, unordered_set.c, scan.c, multi.c, token.c. */
#ifndef HOLDFAST_SERVICE_RESP_KEYSPACE_H
#define HOLDFAST_SERVICE_RESP_KEYSPACE_H

#include "base/bump.h"
#include "core/view.h"
#include "service/service.h"

/* Receives a reply, for a connection or a script's stack. A plain value is one call. An array or
 * map announces the number of calls that follow. Texts are borrowed for the call. */
struct key_sink {
    void *ctx;
    void (*status)(void *ctx, const char *text); /* "OK" */
    /* `code`: the first word ("ERR", "WRONGTYPE"); `text`: the rest. */
    void (*error)(void *ctx, const char *code, const char *text);
    void (*integer)(void *ctx, int64_t value);
    void (*bulk)(void *ctx, struct slice bytes);
    void (*null)(void *ctx);
    void (*array)(void *ctx, uint32_t count);
    void (*map)(void *ctx, uint32_t pairs); /* twice as many values follow */
};

struct keyspace;

/* Runs one command of a script; `args[0]` is its name. Refuses commands about connections,
 * subscriptions and scripts with Redis's error texts. Sends exactly one reply. */
void keyspace_call(struct keyspace *k, const struct slice *args, uint32_t count,
                   const struct key_sink *to);

/* Marks the run as a script: it may change or delete a key whose value it has read (GET, HGET,
 * ...), since it could compare it. */
void keyspace_enter_script(struct keyspace *k);

/* Discards the changes of a failed script. The keys it read are still checked before its reply. */
void keyspace_cancel(struct keyspace *k);

/* The time is constant during the run. */
struct service *keyspace_service(const struct keyspace *k);
uint64_t keyspace_now_ms(const struct keyspace *k);
/* Valid until the run ends. NULL: the run exceeded its limit. */
struct bump *keyspace_arena(struct keyspace *k);

#endif
