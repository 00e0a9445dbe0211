/* The addresses of the service: those that the caller gave and those that the service reported,
 * which of them leads, and a circuit breaker for each. No socket, no clock.
 *
 *            3 failures in a row               its time is over
 *   CLOSED ──────────────────────▶ OPEN ───────────────────────▶ HALF OPEN
 *     ▲  ▲                          ▲                              │   │
 *     │  └── success                └────────── failure ───────────┘   │
 *     └───────────────────────────────── success ──────────────────────┘
 *
 * A CLOSED endpoint is retried soon after a failure. An OPEN one is not tried for an increasing
 * time, up to ENDPOINT_OPEN_MAX_MS; then one attempt probes it. All of these times have jitter, so
 * that the clients do not all reconnect at once when a cluster is up again. */
#ifndef HOLDFAST_CLIENT_ENDPOINTS_H
#define HOLDFAST_CLIENT_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/host_port.h"

enum {
    ENDPOINT_MAX = 32,
    ENDPOINT_TEXT = HOST_PORT_TEXT,
    ENDPOINT_WHY = 64,
    ENDPOINT_OPENS_AFTER = 3, /* failures */
    ENDPOINT_RETRY_MS = 25,
    ENDPOINT_OPEN_MS = 250,
    ENDPOINT_OPEN_MAX_MS = 2000,
};

enum circuit { CIRCUIT_CLOSED, CIRCUIT_OPEN, CIRCUIT_HALF_OPEN };

struct endpoint {
    char text[ENDPOINT_TEXT]; /* HOST:PORT */
    struct host_port address;
    enum circuit circuit;
    unsigned failures;      /* in a row */
    int64_t not_before_ms;  /* of the next attempt */
    uint64_t tried;         /* the number of its last attempt; the lowest one is tried next */
    char why[ENDPOINT_WHY]; /* its last failure */
};

struct endpoints {
    struct endpoint at[ENDPOINT_MAX];
    unsigned count;
    uint64_t attempts;
    int leader;      /* -1: not known */
    uint64_t random; /* state of the jitter */
};

/* Parses "HOST:PORT,[IPV6]:PORT,...". Returns NULL, or the reason why it is invalid. */
const char *endpoints_init(struct endpoints *e, const char *list, uint64_t seed);

/* The service names its leader; "" when it has none. A new address is added if there is space.
 * Returns its number, or -1. */
int endpoints_learn_leader(struct endpoints *e, const char *text);

/* Adds another node of the cluster, as the service reports it. Wildcard addresses are ignored. */
void endpoints_learn(struct endpoints *e, const char *text);

/* The endpoint to try now: the leader if it may be tried, else the one with the fewest failures in
 * a row, and of those the one that was tried longest ago. Never `avoid` (-1: none). Returns -1 when
 * none may be tried; then *next_ms is the time when one may. */
int endpoints_pick(struct endpoints *e, int avoid, int64_t now_ms, int64_t *next_ms);
/* Whether this endpoint may be tried now. */
bool endpoints_may_try(const struct endpoints *e, int which, int64_t now_ms);

/* The progress of an attempt. Each one that was begun must end in succeeded or failed. */
void endpoints_begun(struct endpoints *e, int which);
void endpoints_succeeded(struct endpoints *e, int which);
void endpoints_failed(struct endpoints *e, int which, const char *why, int64_t now_ms);

/* Every endpoint may only be probed. */
bool endpoints_all_open(const struct endpoints *e);
/* "10.0.0.1:4653 (connection refused), 10.0.0.2:4653 (...)". */
void endpoints_describe(const struct endpoints *e, char *out, size_t size);

/* Between half of `base_ms` and all of it. */
int64_t endpoints_jitter(struct endpoints *e, int64_t base_ms);

#endif
