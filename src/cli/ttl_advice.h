/* What `holdfast ttl-advice` found, and its output. */
#ifndef HOLDFAST_CLI_TTL_ADVICE_H
#define HOLDFAST_CLI_TTL_ADVICE_H

#include "base/slice.h"
#include "cli/ttl_measure.h"

enum { TTL_ASSUMED_PAUSE_MS = 1000, TTL_LATE_FACTOR = 2 };

enum ttl_basis {
    TTL_BY_RENEWALS, /* the lateness of renewals was measured */
    TTL_BY_HOLDS,    /* the leases are not renewed: the longest hold in the history */
    TTL_BY_DEFAULTS, /* nothing was measured that tells of pauses of the clients */
};

struct ttl_report {
    const char *name;   /* NULL: of a prefix */
    const char *prefix; /* may be empty */
    uint64_t measured_ms;
    uint64_t outage_ms;
    uint64_t pause_ms; /* 0: not given */
    struct ttl_measure leases;
    struct ttl_kinds kinds;
    struct ttl_values gaps; /* sorted, as all below */
    struct ttl_values late;
    struct ttl_values trips_us; /* keep-alives of this command's own session */
    char trip_problem[256];     /* why there are none; or "" */
    struct ttl_values holds;    /* released ones, in ms */
    size_t names;               /* whose history was read */
    size_t expired;             /* holds that ended because nobody renewed them */

    /* Set by ttl_decide. */
    enum ttl_basis basis;
    uint64_t late_ms; /* what the TTL allows for */
    uint64_t ttl_ms;
    uint64_t holds_ttl_ms; /* for leases that are not renewed; 0: not known */
};

void ttl_decide(struct ttl_report *r);
void ttl_print(const struct ttl_report *r);
void ttl_print_json(const struct ttl_report *r);

#endif
