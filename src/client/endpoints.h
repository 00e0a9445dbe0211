/* Addresses given by the caller and reported by the service, the leader among them, and a circuit
 * breaker for each. No socket, no clock.
 *
 *            3 failures in a row               its time is over
 *   CLOSED ──────────────────────▶ OPEN ───────────────────────▶ HALF OPEN
 *     ▲  ▲                          ▲                              │   │
 *     │  └── success                └────────── failure ───────────┘   │
 *     └───────────────────────────────── success ──────────────────────┘
 *
 * A CLOSED endpoint is retried soon. An OPEN one rests for an increasing time, up to
 * ENDPOINT_OPEN_MAX_MS; then one attempt probes it. These times have jitter: clients do not all
 * reconnect at once. */
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
    uint64_t tried;         /* number of its last attempt; the lowest is next */
    char why[ENDPOINT_WHY]; /* last failure */
};

struct endpoints {
    struct endpoint at[ENDPOINT_MAX];
    unsigned count;
    uint64_t attempts;
    int leader;      /* -1: unknown */
    uint64_t random; /* for jitter */
};

/* "HOST:PORT,[IPV6]:PORT,...". NULL, or why it is invalid. */
const char *endpoints_init(struct endpoints *e, const char *list, uint64_t seed);

/* The leader that the service names; "": none. Adds a new address if there is space. Returns its
 * number, or -1. */
int endpoints_learn_leader(struct endpoints *e, const char *text);

/* Adds a node that the service reports, unless its address is a wildcard. */
void endpoints_learn(struct endpoints *e, const char *text);

/* The endpoint to try now: the leader if it may be tried, else the fewest failures in a row, then
 * the oldest attempt. Never `avoid` (-1: none). -1: none may be tried before *next_ms. */
int endpoints_pick(struct endpoints *e, int avoid, int64_t now_ms, int64_t *next_ms);
bool endpoints_may_try(const struct endpoints *e, int which, int64_t now_ms);

/* Each attempt that was begun must end in succeeded or failed. */
void endpoints_begun(struct endpoints *e, int which);
void endpoints_succeeded(struct endpoints *e, int which);
void endpoints_failed(struct endpoints *e, int which, const char *why, int64_t now_ms);

/* Every one may only be probed. */
bool endpoints_all_open(const struct endpoints *e);
/* "10.0.0.1:4653 (connection refused), 10.0.0.2:4653 (...)". */
void endpoints_describe(const struct endpoints *e, char *out, size_t size);

/* Half of `base_ms` to all of it. */
int64_t endpoints_jitter(struct endpoints *e, int64_t base_ms);

#endif
