/* How long a node waits for a snapshot that it fetches (E20). Meanwhile it neither votes nor
 * campaigns, so it must detect a dead sender, but not mistake a slow link for one.
 *
 *   - Silence: nothing was received for four election timeouts. Any byte counts: a piece of 1 MiB
 *     takes longer on a link of 7 Mbit/s.
 *   - No progress: no whole piece was received for a minute, which needs 140 kbit/s. So a sender
 *     that sends a byte now and then does not hold the node. */
#ifndef HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_PATIENCE_H
#define HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_PATIENCE_H

#include "node/peers/peer_link.h"

#define SNAPSHOT_SILENT_TIMEOUTS 4
#define SNAPSHOT_PIECE_MS 60000

struct snapshot_patience {
    uint64_t silence_ms;   /* silence that ends the fetch */
    uint64_t received_ms;  /* the start, or the last received bytes */
    uint64_t connected_ms; /* received_ms when the current link was connected */
    uint64_t piece_ms;     /* the start, or the last whole piece */
};

static inline void snapshot_patience_begin(struct snapshot_patience *p, uint32_t election_ms,
                                           uint64_t now_ms)
{
    *p = (struct snapshot_patience){.silence_ms = SNAPSHOT_SILENT_TIMEOUTS * (uint64_t)election_ms,
                                    .received_ms = now_ms,
                                    .piece_ms = now_ms};
}

/* Does not count as received bytes: a kernel accepts for a dead process, too. */
static inline void snapshot_patience_connected(struct snapshot_patience *p,
                                               const struct peer_link *link)
{
    p->connected_ms = link->received_ms;
}

/* Before the link is freed, and before snapshot_patience_end_ms. */
static inline void snapshot_patience_note_bytes(struct snapshot_patience *p,
                                                const struct peer_link *link)
{
    if (link->received_ms > p->connected_ms && link->received_ms > p->received_ms) {
        p->received_ms = link->received_ms;
    }
}

static inline void snapshot_patience_piece(struct snapshot_patience *p, uint64_t now_ms)
{
    p->piece_ms = now_ms;
}

/* When to abandon if nothing more is received. */
static inline uint64_t snapshot_patience_end_ms(const struct snapshot_patience *p)
{
    uint64_t silent_ms = p->received_ms + p->silence_ms;
    uint64_t stuck_ms = p->piece_ms + SNAPSHOT_PIECE_MS;
    return silent_ms < stuck_ms ? silent_ms : stuck_ms;
}

#endif
