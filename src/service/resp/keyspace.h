/* The keys of the Redis protocol, as one command or one script sees them: the applied state of this
 * node with the caller's own changes laid over it.
 *
 * A key is a lock name. What a run reads is noted with its version, what it changes stays in the
 * overlay; at the end both become one `transact`, which the core does as a whole, or not at all
 * when something that was read has changed meanwhile. Then the run is made again, from the
 * beginning. So a run must do nothing but call keyspace_call and give its answer to a sink.
 *
 * The commands themselves are in resp_keys*.c; a script's redis.call and a client's command are the
 * same function. */
#ifndef HOLDFAST_SERVICE_RESP_KEYSPACE_H
#define HOLDFAST_SERVICE_RESP_KEYSPACE_H

#include "base/bump.h"
#include "core/view.h"
#include "service/service.h"

/* Where an answer goes: onto a connection, or onto a script's stack. One call for a plain value; an
 * array or a map announces how many calls follow. All texts are borrowed for the call. */
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

/* Does one command, `args[0]` being its name, as a script may: commands about connections,
 * subscriptions and scripts are refused, with Redis's words. Exactly one answer goes to `to`. */
void keyspace_call(struct keyspace *k, const struct slice *args, uint32_t count,
                   const struct key_sink *to);

/* From here on the run is a script: a key whose value it has read (GET, HGET, HEXISTS, HGETALL,
 * ...) is its own to change or delete, since it had the chance to compare. */
void keyspace_enter_script(struct keyspace *k);

/* It wants nothing, after all: a script that ended with an error. What it read is still checked
 * before its answer is given. */
void keyspace_cancel(struct keyspace *k);

/* The service in whose name it runs, and the time that it sees, which does not pass meanwhile. */
struct service *keyspace_service(const struct keyspace *k);
uint64_t keyspace_now_ms(const struct keyspace *k);
/* Memory that lasts until the run is over. NULL: it has taken too much. */
struct bump *keyspace_arena(struct keyspace *k);

#endif
