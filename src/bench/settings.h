/* The flags of `holdfast bench`. */
#ifndef HOLDFAST_BENCH_SETTINGS_H
#define HOLDFAST_BENCH_SETTINGS_H

#include "bench/protocol.h"

struct bench_settings {
    uint64_t clients;
    uint64_t connections;
    uint64_t measure_ms;
    uint64_t warmup_ms;
    uint64_t rate; /* cycles started per second; 0: unlimited */
    uint64_t held; /* other locks to hold during the run */
    const struct bench_protocol *protocol;
    const char *tier;      /* "" or a name in upper case */
    const char *endpoints; /* NULL: from the environment */
    const char *samples;   /* a file, or NULL */
    const char *resp;      /* Redis-protocol addresses; NULL: the clients' ports plus two */
    bool via_any;
    bool contended; /* one lock for all clients */
    bool json;
    bool help;
};

enum {
    BENCH_CLIENTS_MAX = 200000,
    BENCH_HELD_MAX = 10000000,
    BENCH_HELD_PER_SESSION = 500,
    BENCH_RATE_MAX = 10000000,
};

/* False: invalid arguments; the error was printed to stderr. Refers to the texts of `arguments`
 * without a copy. */
bool bench_settings_read(struct bench_settings *s, int count, char **arguments);
void bench_settings_print_help(void);

#endif
