/* A connection without its socket: HTTP/2 in memory, output, detection of a dead peer.
 *
 * UP: the peer has sent its SETTINGS; the kernel accepts connections also for a stopped process. A
 * peer that owes an answer and is silent for `silence_ms` gets a PING; silent as long again, it is
 * dead. */
#ifndef HOLDFAST_CLIENT_LINK_H
#define HOLDFAST_CLIENT_LINK_H

#include "base/buffer.h"
#include "client/endpoints.h"
#include "wire/http2_client.h"

struct client_engine;

enum link_state {
    LINK_FREE,
    LINK_DIALING, /* the socket connects, then the peer sends SETTINGS */
    LINK_UP,
};

enum {
    LINK_OUTPUT = 256 << 10, /* bytes waiting for the socket */
    LINK_WHY = ENDPOINT_WHY,
};

struct link {
    struct client_engine *client_engine;
    enum link_state state;
    uint32_t generation; /* of its socket: rises with each dial and close */
    int endpoint;
    int64_t dial_until_ms;
    struct http2_client *http2; /* NULL: FREE */
    struct buffer out;
    char peer[ENDPOINT_TEXT]; /* numeric; "": unknown */
    int64_t heard_ms;
    int64_t owed_since_ms; /* `owed` last rose from 0 */
    int64_t pinged_ms;     /* 0: no PING unanswered */
    unsigned owed;         /* answers due soon */
};

void link_init(struct link *link, struct client_engine *client_engine);
void link_dial(struct link *link, int endpoint, const char *authority, int64_t until_ms);
/* Ends all its streams. */
void link_close(struct link *link);

/* owe: an answer is due soon. paid: received, or no longer due. */
void link_owe(struct link *link, int64_t now_ms);
void link_paid(struct link *link);

/* False: close the link. */
bool link_input(struct link *link, struct slice bytes, int64_t now_ms);
/* To `out`. */
void link_flush(struct link *link);

/* NULL, or why the peer counts as dead. Sends a due PING. */
const char *link_check(struct link *link, int64_t silence_ms, int64_t now_ms);
int64_t link_next_check(const struct link *link, int64_t silence_ms);

#endif
