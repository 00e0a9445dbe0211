/* Fills gaps of this node's event log from other nodes, and answers other nodes that do (decision 32).
 *
 *      looking ──a gap, a peer──▶ requested ──answer──▶ writing ──more──▶ resting ──▶ requested
 *         ▲                         │ lacks it, silent     │ done, failed
 *         │                         ▼                      ▼
 *         └──────────────────── next peer, or ──────▶ closing
 *
 * Writing and closing are work for a thread of libuv. One request is in flight, and
 * FILL_BYTES_A_SECOND limits the rate, so heartbeats on the same connections are not late. Only peers
 * whose protocol has the request get it (PEER_PROTOCOL_EVENTS). */
#ifndef HOLDFAST_NODE_EVENTS_GAP_FILL_H
#define HOLDFAST_NODE_EVENTS_GAP_FILL_H

#include "base/journal.h"
#include "base/limits.h"
#include "events/event_fill.h"
#include "node/events/scan_threads.h"

enum {
    FILL_BYTES_A_SECOND = 4 << 20,
    FILL_SERVES = 4,        /* requests of other nodes at a time */
    FILL_SILENT_MS = 10000, /* without an answer: the next peer */
    FILL_LOOK_MS = 1000,
    FILL_BUSY_MS = 500,
    FILL_RETRY_MS = 60000, /* after no peer had it */
};

/* Of peers_request and peers_answer; distinct from those of forward/. */
enum { FILL_REQUEST_KIND = 0x20 };
enum fill_status { FILL_HAS = 1, FILL_LACKS, FILL_BUSY, FILL_MALFORMED };
#define FILL_NUMBER (UINT64_C(1) << 62)

struct gap_fill;

struct gap_fill_options {
    uv_loop_t *loop;
    const struct memory *memory;
    const struct journal *journal;
    struct event_log *log; /* NULL: only answers that it has nothing */
    struct scan_threads *scans;
    void *ctx;
    /* Connected members that support the request. */
    uint32_t (*peers)(void *ctx, uint64_t ids[LIMIT_NODES]);
    bool (*request)(void *ctx, uint64_t peer, uint64_t number, struct slice body);
    void (*answer)(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t status,
                   struct slice body);
    uint32_t (*version)(void *ctx); /* of the state */
    uint64_t (*now_ms)(void *ctx);  /* boot time */
};

struct gap_fill *gap_fill_new(const struct gap_fill_options *options);
/* In each iteration of the loop. */
void gap_fill_step(struct gap_fill *f, uint64_t now_ms);
/* Boot time of the next step, besides one each second; UINT64_MAX: none. */
uint64_t gap_fill_next_ms(const struct gap_fill *f);

/* False: malformed. */
bool gap_fill_on_request(struct gap_fill *f, uint64_t peer, uint64_t link, uint64_t number,
                         struct slice body, uint64_t now_ms);
bool gap_fill_on_answer(struct gap_fill *f, uint64_t peer, uint64_t number, uint8_t status,
                        struct slice body, uint64_t now_ms);

/* After scan_threads_stop. The loop must then run until it has nothing to do. Takes NULL. */
void gap_fill_stop(struct gap_fill *f);
void gap_fill_free(struct gap_fill *f);

/* Whether a gap that is left can be filled by no node that is reachable now, or by none at all. */
bool gap_fill_is_stuck(const struct gap_fill *f);
/* Entries that were filled since start. */
uint64_t gap_fill_filled(const struct gap_fill *f);

#endif
