/* Scripts of Redis clients, run unchanged in an embedded Lua 5.1.
 *
 * A script has the environment of Redis: KEYS, ARGV, `redis`, and the parts of Lua's library that
 * reach nothing outside. Its steps, memory and CPU time are limited. It cannot change the
 * environment of the next script. The host implements `redis.call`.
 *
 * Replies are RESP in both directions: the host writes the reply of a command, and the script's
 * result is written for its client.
 *
 * One engine serves one thread. It caches compiled scripts by the SHA-1 of their text, for EVALSHA,
 * and evicts the least recently used ones. */
#ifndef HOLDFAST_SCRIPT_SCRIPT_H
#define HOLDFAST_SCRIPT_SCRIPT_H

#include "base/memory.h"
#include "base/slice.h"
#include "wire/resp.h"

/* The length of a SHA-1 in hexadecimal digits. */
#define SCRIPT_NAME_LEN 40

struct script_engine; /* the interpreter and the cache */
struct script;        /* one script in the cache */

struct script_host {
    /* Executes one command: writes exactly one value to `out`, which may be an error. It must not
     * run a script. `is_read_only`: refuses commands that change something. */
    void (*call)(void *ctx, const struct slice *arguments, uint32_t count, bool is_read_only,
                 struct resp_writer *out);
    void *ctx;
};

struct script_limits {
    uint64_t steps;      /* Lua instructions; the work of C functions is charged too */
    size_t memory_bytes; /* in addition to the memory of the engine */
    uint32_t cpu_ms;
};

struct script_call {
    const struct slice *keys;
    uint32_t key_count;
    const struct slice *arguments;
    uint32_t argument_count;
    bool is_read_only; /* EVAL_RO */
    struct script_host host;
};

/* `limits` NULL: those of base/limits.h. */
struct script_engine *script_engine_new(const struct memory *memory,
                                        const struct script_limits *limits, size_t cache_bytes);
void script_engine_free(struct script_engine *engine);

/* The script of this text, compiled now or before. NULL when it does not compile: the error was
 * written to `out`. Any later call may evict it; script_hold prevents that. */
struct script *script_load(struct script_engine *engine, struct slice source,
                           struct resp_writer *out);
/* In upper or lower case; NULL when it is not in the cache. */
struct script *script_find(struct script_engine *engine, struct slice name);
/* Does not count as a use. */
bool script_exists(const struct script_engine *engine, struct slice name);
void script_flush(struct script_engine *engine);
uint32_t script_count(const struct script_engine *engine);
size_t script_cache_bytes(const struct script_engine *engine);
/* Runs so far, and those that were stopped at a limit. */
uint64_t script_runs(const struct script_engine *engine);
uint64_t script_stops(const struct script_engine *engine);
/* Microseconds for compiling, and for runs of more than a few instructions. For a caller that
 * shares its thread with scripts. */
uint64_t script_busy_us(const struct script_engine *engine);
/* As script_limits counts them. */
uint64_t script_steps(const struct script_engine *engine);

/* SCRIPT_NAME_LEN bytes and a NUL. */
const char *script_name(const struct script *script);
void script_hold(struct script *script);
void script_release(struct script_engine *engine, struct script *script);

/* Writes the result, exactly one value, to `out`. False when it ended with an error, its own or a
 * limit: then the host must undo all its effects. (An error that it returns as its result is a
 * result.) */
bool script_run(struct script_engine *engine, struct script *script, const struct script_call *call,
                struct resp_writer *out);

#endif
