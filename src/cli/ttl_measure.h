/* Measures renewals from lists of holders, for `holdfast ttl-advice`, and computes the TTL that they allow. No
 * I/O; time is an argument.
 *
 * A renewal moves the deadline of a lease. The difference of two deadlines of one lease is the time between
 * the two renewals as the service applied them, however seldom the list was read in between: it is exact if the
 * list is read more often than the lease is renewed. Without a renewal in between, `left_ms` falls as fast as
 * time passes; a deadline that moves while it does so was shown by a corrected wall clock and is no renewal. */
#ifndef HOLDFAST_CLI_TTL_MEASURE_H
#define HOLDFAST_CLI_TTL_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TTL_LEASES = 1000, /* further ones are counted, not measured */
    TTL_GAPS = 256,    /* of a lease, the latest */
    TTL_VALUES = 65536,
    TTL_RETRY_MS = 500, /* the longest pause of a client between two attempts (C4.3) */
};

struct ttl_lease {
    uint64_t id; /* hash of name and holder */
    uint64_t expires_wall_ms;
    int64_t seen_ms;       /* last sighting */
    uint64_t left_ms;      /* then */
    uint64_t most_left_ms; /* of all sightings: slightly less than its TTL */
    uint64_t least_left_ms;
    uint32_t renewals;
    uint32_t gaps[TTL_GAPS];
};

struct ttl_measure {
    struct ttl_lease *leases;
    size_t count;
    size_t omitted;
};

bool ttl_measure_init(struct ttl_measure *m);
void ttl_measure_close(struct ttl_measure *m);
void ttl_measure_see(struct ttl_measure *m, uint64_t id, uint64_t expires_wall_ms, uint64_t left_ms,
                     int64_t now_ms);
/* Time until the list should be read again: longer for long lists, and short enough that no renewal at a third of
 * a TTL is missed. */
uint64_t ttl_measure_pause_ms(const struct ttl_measure *m);

/* Values in any unit, with quantiles. */
struct ttl_values {
    uint64_t *items;
    size_t count;
};
bool ttl_values_init(struct ttl_values *v);
void ttl_values_close(struct ttl_values *v);
void ttl_values_add(struct ttl_values *v, uint64_t value); /* no effect beyond TTL_VALUES */
void ttl_values_sort(struct ttl_values *v);
/* Of sorted values; the smallest value that at least `per_mille` / 1000 of them do not exceed. 0: none. */
uint64_t ttl_values_quantile(const struct ttl_values *v, uint32_t per_mille);

struct ttl_kinds {
    size_t renewed;
    size_t not_renewed; /* more than half of the TTL passed without a renewal */
    uint64_t ttl_min_ms;
    uint64_t ttl_max_ms;
};
/* Gaps of all leases; lateness: a gap less the median gap of its lease, of leases with three gaps. */
void ttl_measure_sum(const struct ttl_measure *m, struct ttl_values *gaps, struct ttl_values *late,
                     struct ttl_kinds *kinds);

/* The shortest TTL with which a client that renews after a third of it survives these, one after the other:
 * a renewal that is late, an outage of the service, the pause before the next attempt, its round trip. */
uint64_t ttl_rule_ms(uint64_t late_ms, uint64_t outage_ms, uint64_t round_trip_ms);
/* The next TTL that people write: 1s, 2s, 3s, 5s, 10s, ... 24h. */
uint64_t ttl_rounded_ms(uint64_t ttl_ms);

#endif
