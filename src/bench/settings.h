/* The flags of `holdfast bench`. */
#ifndef HOLDFAST_BENCH_SETTINGS_H
#define HOLDFAST_BENCH_SETTINGS_H

#include "bench/protocol.h"
#include "transport/security.h"

struct bench_settings {
    uint64_t clients;
    uint64_t connections;
    uint64_t measure_ms;
    uint64_t warmup_ms;
    uint64_t rate;      /* cycles started per second; 0: no limit */
    uint64_t held;      /* locks that are held during the run */
    uint64_t api;       /* position in the words of --api; protocol follows from it */
    uint64_t tier_word; /* position in the words of --tier; tier follows from it */
    uint64_t via;       /* 0: the leader; 1: any node */
    const struct bench_protocol *protocol;
    const char *tier;            /* "" or a name in capitals */
    const char *endpoints;       /* NULL: HOLDFAST_ENDPOINTS or the default */
    const char *samples;         /* a file, or NULL */
    const char *resp;            /* addresses of the Redis protocol; NULL: the client ports + 2 */
    struct security_files files; /* flags */
    struct security *security;   /* made from them; NULL: clear text */
    bool contended;              /* one lock for all */
    bool json;
    bool help;
};

enum {
    BENCH_CLIENTS_MAX = 200000,
    BENCH_HELD_MAX = 10000000,
    BENCH_HELD_PER_SESSION = 500,
    BENCH_RATE_MAX = 10000000,
};

/* On failure, prints the problem to stderr and returns false. `s` points into `arguments`. */
bool bench_settings_read(struct bench_settings *s, int count, char **arguments);
void bench_settings_print_help(void);

#endif
