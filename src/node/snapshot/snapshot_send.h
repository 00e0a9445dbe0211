/* Gives the bytes of a snapshot to a peer that asks for them, piece by piece, as fast as it takes
 * them (S12.4). The file is kept while somebody reads it. */
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

/* Takes over a link whose other end wants a snapshot, until it closes. The options must outlive it.
 */
void snapshot_send(const struct snapshot_send_options *options, struct peer_link *link);

/* FETCH: what is wanted, and from which byte on. END carries nothing. */
#define SNAPSHOT_FETCH_BYTES 24u
void snapshot_fetch_encode(uint8_t at[SNAPSHOT_FETCH_BYTES], uint64_t index, uint64_t term,
                           uint64_t offset);

#endif
