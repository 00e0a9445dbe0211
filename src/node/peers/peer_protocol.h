/* What two nodes say to each other, as bytes; no socket here.
 *
 * A frame is its length (4 bytes, low byte first, counting what follows), its type (1 byte) and its
 * payload. TCP keeps order and content, so frames carry no checksum; what is stored has its own.
 *
 *      dialler                                acceptor
 *         │  HELLO who I am, whom I want ───────▶│  refuses with a sentence, or
 *         │◀──────────── WELCOME who I am, a number
 *         │  BEGIN that number ──────────────────▶│  only now does this connection replace an older
 * one │  MESSAGE, REQUEST, PING ─────────────▶│ │◀──────────────────────────── ANSWER   │
 *
 * The number makes sure that whoever begins is alive now: a process that died after its HELLO,
 * whose bytes lay in a queue while its successor connected, cannot have read it.
 *
 * A connection is for messages (of the engines, and requests that a node forwards to the leader),
 * or for one snapshot: then FETCH goes one way, and PIECEs and an END come back (S12.4). */
#ifndef HOLDFAST_NODE_PEERS_PEER_PROTOCOL_H
#define HOLDFAST_NODE_PEERS_PEER_PROTOCOL_H

#include "base/buffer.h"
#include "base/codec.h"

/* 1: the first. 2: the body of an answer to a request that was done begins with the leader's epoch
 * (node/forward/relay.c). Two nodes use the newest version that both announce. */
#define PEER_PROTOCOL_OLDEST 1u
#define PEER_PROTOCOL_EPOCH 2u
#define PEER_PROTOCOL_NEWEST 2u

#define PEER_FRAME_MAX (64u << 20) /* a message with entries for a follower that is far behind */
#define PEER_GREETING_MAX 8192u    /* HELLO, WELCOME, BEGIN, REFUSE: before anybody is trusted */
#define PEER_FRAME_HEAD 5u
#define PEER_SENTENCE_MAX 512
#define PEER_NAME_MAX 64     /* of a cluster */
#define PEER_ADDRESS_MAX 265 /* "HOST:PORT" */

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
    PEER_FRAMES
};

enum peer_purpose { PEER_FOR_MESSAGES = 1, PEER_FOR_SNAPSHOT = 2 };

/* HELLO and WELCOME. The slices point into the frame. */
struct peer_introduction {
    uint32_t oldest; /* protocol versions that it speaks */
    uint32_t newest;
    enum peer_purpose purpose;
    struct id cluster; /* zero: a node that joins and does not know it yet */
    struct slice cluster_name;
    uint64_t node;
    uint64_t to; /* whom it believes to talk to */
    struct id store;
    uint64_t life;   /* rises with every start of that node (S12.1) */
    uint64_t number; /* WELCOME: to be repeated in BEGIN */
    struct slice client_address;
    struct slice stores;       /* what it knows of others (S12.1): see peer_stores_next */
    uint32_t state;            /* the newest version of the state machine that it knows (S12.9) */
    struct slice peer_address; /* where members dial it, "HOST:PORT"; empty: it did not say */
    uint64_t used_ids;         /* ids up to this were used, or passed over (S12.1); 0: not said */
    uint64_t state_max;        /* bytes of state that it has memory for (S12.14); 0: not said */
};

/* A state_max that is none. */
#define PEER_NO_LIMIT UINT64_MAX

/* A node counts its starts; nobody comes to so many. */
#define PEER_LIFE_MAX (UINT64_C(1) << 40)

/* Walks through `stores`: node ids with their store ids, each 24 bytes. */
#define PEER_STORES_MAX 6144u
bool peer_stores_next(struct slice *stores, uint64_t *node, struct id *store);
size_t peer_stores_put(uint8_t *at, uint64_t node, struct id store);

/* Appends a frame; false when it does not fit, nothing is appended then. */
bool peer_frame_append(struct buffer *out, enum peer_frame type, struct slice payload);
/* The same in pieces: returns where `len` bytes of payload go, NULL when they do not fit; then
 * buffer_commit of what peer_frame_size says. */
uint8_t *peer_frame_begin(struct buffer *out, enum peer_frame type, size_t len);
static inline size_t peer_frame_size(size_t len)
{
    return PEER_FRAME_HEAD + len;
}

/* Looks for a whole frame at the front. >0: its length, `type` and `payload` are set; 0: it is not
 * all there yet; -1: longer than `max`, or of no type. */
int64_t peer_frame_parse(struct slice bytes, size_t max, enum peer_frame *type,
                         struct slice *payload);

/* The payload of HELLO and WELCOME; the length, 0 when `size` is too small. */
size_t peer_introduction_encode(const struct peer_introduction *who, void *buffer, size_t size);
/* False: not a Holdfast node, or garbled. A newer protocol may add fields behind those we know. */
bool peer_introduction_decode(struct slice payload, struct peer_introduction *out);

/* The head of PEER_REQUEST and PEER_ANSWER: a number that the answer repeats, and a kind or status.
 */
#define PEER_REQUEST_HEAD 9u
void peer_request_head(uint8_t *at, uint64_t number, uint8_t kind);
bool peer_request_parse(struct slice payload, uint64_t *number, uint8_t *kind, struct slice *body);

#endif
