/* The flags of `holdfast bench`. */
#ifndef HOLDFAST_BENCH_SETTINGS_H
#define HOLDFAST_BENCH_SETTINGS_H

#include "bench/protocol.h"

struct bench_settings {
    uint64_t clients;
    uint64_t connections;
    uint64_t measure_ms;
    uint64_t warmup_ms;
    uint64_t rate; /* cycles per second that are begun; 0: as many as there is time for */
    uint64_t held; /* locks that are held meanwhile */
    const struct bench_protocol *protocol;
    const char *tier;      /* "" or a name in capitals */
    const char *endpoints; /* NULL: those of the environment */
    const char *samples;   /* a file, or NULL */
    const char *resp;      /* addresses of the Redis protocol; NULL: two above the clients' */
    bool via_any;
    bool contended; /* one lock for all */
    bool json;
    bool help;
};

enum {
    BENCH_CLIENTS_MAX = 200000,
    BENCH_HELD_MAX = 10000000,
    BENCH_HELD_PER_SESSION = 500,
    BENCH_RATE_MAX = 10000000,
};

/* False: something is wrong with them, and has been said on stderr. Texts of `arguments` are
 * referred to, not copied. */
bool bench_settings_read(struct bench_settings *s, int count, char **arguments);
void bench_settings_print_help(void);

#endif
