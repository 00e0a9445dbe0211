/* Refusals of nodes for a wrong certificate or secret. Anyone who reaches the port can cause them, so
 * they are reported once per address and interval, with their number. The interval is a minute,
 * and doubles with each report of the same address up to an hour. Addresses beyond PEER_REFUSALS
 * share one entry. */
#ifndef HOLDFAST_NODE_PEERS_PEER_REFUSALS_H
#define HOLDFAST_NODE_PEERS_PEER_REFUSALS_H

#include "node/peers/peer_protocol.h"

enum {
    PEER_REFUSALS = 16, /* addresses with their own entry */
    PEER_REFUSAL_MIN_MS = 60000,
    PEER_REFUSAL_MAX_MS = 3600000,
};

struct peer_refusal {
    char address[PEER_ADDRESS_MAX + 1]; /* without the port; "": the entry is free */
    char reason[PEER_SENTENCE_MAX];     /* of the last refusal */
    uint64_t peer;                      /* as it called itself; 0: it sent no id */
    uint64_t count;                     /* not reported yet */
    uint64_t next_ms;                   /* of the next report */
    uint64_t interval_ms;               /* after it */
    uint64_t last_ms;
};

struct peer_refusals {
    struct peer_refusal at[PEER_REFUSALS + 1]; /* the last: other addresses */
};

/* `remote`: "HOST:PORT". */
void peer_refusals_add(struct peer_refusals *r, const char *remote, uint64_t peer,
                       const char *reason, uint64_t now_ms);
/* Copies a refusal that is due, which then counts as reported. False: none. */
bool peer_refusals_next(struct peer_refusals *r, uint64_t now_ms, struct peer_refusal *out);

#endif
