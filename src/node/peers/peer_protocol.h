/* The wire protocol between two nodes: frames and their encoding. Uses no socket.
 *
 * A frame is its length (4 bytes, little-endian, counting what follows), its type (1 byte) and its
 * payload. TCP preserves content, so frames carry no checksum.
 *
 *      dialler                                          acceptor
 *         │                                                │
 *         │ ─── HELLO: own identity, expected node ──────▶ │  REFUSE with a reason, or
 *         │ ◀── WELCOME: own identity, a number ────────── │
 *         │ ─── BEGIN: that number ──────────────────────▶ │  replaces the older connection
 *         │                                                │
 *         │ ─── MESSAGE, REQUEST, PING ──────────────────▶ │
 *         │ ◀── ANSWER ─────────────────────────────────── │
 *
 * If both have a secret, a PROOF precedes WELCOME and BEGIN (peer_secret.h).
 *
 * The number proves that the dialler is alive: the HELLO of a dead process can arrive after its
 * successor has connected.
 *
 * A connection is for messages (of Raft, and requests to the leader), or for one snapshot: the
 * dialler sends FETCH, the acceptor PIECEs and an END (S12.4). */
#ifndef HOLDFAST_NODE_PEERS_PEER_PROTOCOL_H
#define HOLDFAST_NODE_PEERS_PEER_PROTOCOL_H

#include "base/buffer.h"
#include "base/codec.h"

/* Version 2: an ANSWER with status DONE begins with the leader's epoch (node/forward/relay.c). Version 3:
 * requests for records of the event log (node/events/gap_fill.h). Two nodes use the newest common
 * version. */
#define PEER_PROTOCOL_OLDEST 1u
#define PEER_PROTOCOL_EPOCH 2u
#define PEER_PROTOCOL_EVENTS 3u
#define PEER_PROTOCOL_NEWEST 3u

#define PEER_FRAME_MAX (64u << 20) /* entries for a follower that is far behind */
#define PEER_GREETING_MAX 8192u    /* HELLO, WELCOME, BEGIN, REFUSE: not trusted yet */
#define PEER_FRAME_HEAD 5u
#define PEER_SENTENCE_MAX 512
#define PEER_NAME_MAX 64
#define PEER_ADDRESS_MAX 265 /* "HOST:PORT" */
#define PEER_NONCE 32
#define PEER_PROOF_BYTES 32

enum peer_frame {
    PEER_HELLO = 1,
    PEER_WELCOME,
    PEER_BEGIN,
    PEER_REFUSE,
    PEER_MESSAGE,
    PEER_PING,
    PEER_REQUEST,
    PEER_ANSWER,
    PEER_FETCH,
    PEER_PIECE,
    PEER_END,
    PEER_PROOF, /* only to a node that sent a nonce */
    PEER_FRAMES
};

enum peer_purpose { PEER_FOR_MESSAGES = 1, PEER_FOR_SNAPSHOT = 2 };

/* HELLO and WELCOME. The slices point into the frame. */
struct peer_introduction {
    uint32_t oldest; /* protocol versions that the sender supports */
    uint32_t newest;
    enum peer_purpose purpose;
    struct id cluster; /* zero: the sender joins and has no cluster id yet */
    struct slice cluster_name;
    uint64_t node;
    uint64_t to; /* expected at the other end */
    struct id store;
    uint64_t life;   /* counts its starts (S12.1) */
    uint64_t number; /* WELCOME: to be repeated in BEGIN */
    struct slice client_address;
    struct slice stores;       /* store ids of other nodes (S12.1): see peer_stores_next */
    uint32_t state;            /* newest supported state machine version (S12.9) */
    struct slice peer_address; /* where members dial it, "HOST:PORT"; empty: not sent */
    uint64_t used_ids;         /* ids up to this were used or skipped (S12.1); 0: not sent */
    uint64_t state_max;        /* bytes of state that fit its memory (S12.14); 0: not sent */
    struct slice nonce;        /* PEER_NONCE bytes; empty: the sender has no secret */
};

/* state_max without a limit. */
#define PEER_NO_LIMIT UINT64_MAX

/* Of `life`: more starts than any node makes. */
#define PEER_LIFE_MAX (UINT64_C(1) << 40)

/* Iterates over `stores`: node id and store id, 24 bytes each. */
#define PEER_STORES_MAX 6144u
bool peer_stores_next(struct slice *stores, uint64_t *node, struct id *store);
size_t peer_stores_put(uint8_t *at, uint64_t node, struct id store);

/* False: it does not fit, nothing is appended. */
bool peer_frame_append(struct buffer *out, enum peer_frame type, struct slice payload);
/* Returns where `len` bytes of payload go, NULL if they do not fit. The caller then calls
 * buffer_commit with peer_frame_size(len). */
uint8_t *peer_frame_begin(struct buffer *out, enum peer_frame type, size_t len);
static inline size_t peer_frame_size(size_t len)
{
    return PEER_FRAME_HEAD + len;
}

/* >0: the length of the frame, `type` and `payload` are set; 0: incomplete; -1: longer than `max`,
 * or of unknown type. */
int64_t peer_frame_parse(struct slice bytes, size_t max, enum peer_frame *type,
                         struct slice *payload);

/* Of HELLO and WELCOME. Returns the length, 0 if `size` is too small. */
size_t peer_introduction_encode(const struct peer_introduction *intro, void *buffer, size_t size);
/* False: not a Holdfast node, or malformed. Fields of a newer protocol are ignored. */
bool peer_introduction_decode(struct slice payload, struct peer_introduction *out);

/* Of PEER_REQUEST and PEER_ANSWER: a number that the answer repeats, and a kind or status. */
#define PEER_REQUEST_HEAD 9u
void peer_request_head(uint8_t *at, uint64_t number, uint8_t kind);
bool peer_request_parse(struct slice payload, uint64_t *number, uint8_t *kind, struct slice *body);

#endif
