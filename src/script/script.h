/* Scripts of Redis clients, run unchanged in an embedded Lua 5.1.
 *
 * A script sees what Redis shows it: KEYS, ARGV, `redis`, and the parts of Lua's library that reach
 * nothing outside. It is bounded in steps, in memory and in time on the processor, and what it does
 * to its world ends with it: the next script finds everything as it was. What `redis.call` does is
 * the host's business; this room knows neither locks nor sockets.
 *
 * Replies travel as RESP, in both directions, as they do in Redis: the host writes what a command
 * answers, and the script's own answer is written for its client.
 *
 * One engine serves one thread. It keeps compiled scripts by the SHA-1 of their text, as EVALSHA
 * wants them; those used least recently go first when there is no room. */
#ifndef HOLDFAST_SCRIPT_SCRIPT_H
#define HOLDFAST_SCRIPT_SCRIPT_H

#include "base/memory.h"
#include "base/slice.h"
#include "wire/resp.h"

/* The hexadecimal digits of a SHA-1. */
#define SCRIPT_NAME_LEN 40

struct script_engine; /* the interpreter and the cache */
struct script;        /* one script in it */

struct script_host {
    /* One command of a script: writes exactly one value to `out`, an error too, and returns. It
     * must not run a script. With `is_read_only` it refuses commands that change something. */
    void (*call)(void *ctx, const struct slice *arguments, uint32_t count, bool is_read_only,
                 struct resp_writer *out);
    void *ctx;
};

struct script_limits {
    uint64_t steps;      /* instructions of Lua; what C does for them is counted as well */
    size_t memory_bytes; /* taken on top of what the engine holds */
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

/* `limits` NULL stands for those of base/limits.h. */
struct script_engine *script_engine_new(const struct memory *memory,
                                        const struct script_limits *limits, size_t cache_bytes);
void script_engine_free(struct script_engine *engine);

/* The script of this text, compiled now or before. NULL when it does not compile: then the reason
 * was written to `out` as an error. It may leave the cache at any later call, so one who comes back
 * to it holds it meanwhile. */
struct script *script_load(struct script_engine *engine, struct slice source,
                           struct resp_writer *out);
/* The script of this name, in upper or lower case; NULL when it is not in the cache. */
struct script *script_find(struct script_engine *engine, struct slice name);
/* Whether it is there; unlike a script that is looked for, it counts as used no more than before.
 */
bool script_exists(const struct script_engine *engine, struct slice name);
/* Empties the cache. */
void script_flush(struct script_engine *engine);
uint32_t script_count(const struct script_engine *engine);
size_t script_cache_bytes(const struct script_engine *engine);
/* Runs so far, and those of them that were stopped at a limit. */
uint64_t script_runs(const struct script_engine *engine);
uint64_t script_stops(const struct script_engine *engine);
/* Microseconds that went into compiling, and into runs of more than a few instructions, so far: for
 * one who shares a thread with scripts. */
uint64_t script_busy_us(const struct script_engine *engine);
/* Steps of all runs so far, as script_limits counts them. */
uint64_t script_steps(const struct script_engine *engine);

/* SCRIPT_NAME_LEN bytes and a NUL. */
const char *script_name(const struct script *script);
void script_hold(struct script *script);
void script_release(struct script_engine *engine, struct script *script);

/* Runs it, and writes its answer, exactly one value, to `out`. False when it ended with an error,
 * its own or a limit: then nothing of what it asked the host to do may stand. (An error that it
 * returns as its answer is an answer.) */
bool script_run(struct script_engine *engine, struct script *script, const struct script_call *call,
                struct resp_writer *out);

#endif
