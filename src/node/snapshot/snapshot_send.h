/* Sends a snapshot to a peer, as fast as the peer takes it (S12.4). The file is pinned
 * meanwhile. */
#ifndef HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_SEND_H
#define HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_SEND_H

#include "base/journal.h"
#include "node/log/logger.h"
#include "node/peers/peer_link.h"

struct snapshot_send_options {
    const struct memory *memory;
    const struct journal *journal;
    struct store *store;
    struct logger *logger;
};

/* Takes ownership of the link. The options must outlive it. */
void snapshot_send(const struct snapshot_send_options *options, struct peer_link *link);

/* Payload of FETCH: which snapshot, and the first byte. END has no payload. */
#define SNAPSHOT_FETCH_BYTES 24u
void snapshot_fetch_encode(uint8_t at[SNAPSHOT_FETCH_BYTES], uint64_t index, uint64_t term,
                           uint64_t offset);

#endif
