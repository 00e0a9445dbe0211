/* One connection of the client, without its socket: HTTP/2 by memory, what is to be sent, and
 * whether the other end still lives.
 *
 * A link is UP once the other end has sent its SETTINGS: a process that is stopped still has a
 * kernel that accepts connections for it. After that, whoever owes an answer and is silent for
 * `silence_ms` is sent a PING; who is silent for as long again is dead. */
#ifndef HOLDFAST_CLIENT_LINK_H
#define HOLDFAST_CLIENT_LINK_H

#include "base/buffer.h"
#include "client/endpoints.h"
#include "wire/http2_client.h"

struct client_engine;

enum link_state {
    LINK_FREE,
    LINK_DIALING, /* the socket connects, then the other end has to say what it is */
    LINK_UP,
};

enum {
    LINK_OUTPUT = 256 << 10, /* bytes that wait for the socket */
    LINK_WHY = ENDPOINT_WHY,
};

struct link {
    struct client_engine *client_engine;
    enum link_state state;
    uint32_t generation; /* of the socket that belongs to it: a new one for each dial and close */
    int endpoint;
    int64_t dial_until_ms;
    struct http2_client *http2; /* NULL: FREE */
    struct buffer out;
    char peer[ENDPOINT_TEXT]; /* numeric; "" when not known */
    int64_t heard_ms;
    int64_t owed_since_ms; /* when `owed` last rose from 0 */
    int64_t pinged_ms;     /* 0: no PING is out */
    unsigned owed;         /* answers that should come soon */
};

void link_init(struct link *link, struct client_engine *client_engine);
void link_dial(struct link *link, int endpoint, const char *authority, int64_t until_ms);
/* Closes it; everything on it ends. */
void link_close(struct link *link);

/* An answer is due soon; and it has come, or is due no more. */
void link_owe(struct link *link, int64_t now_ms);
void link_paid(struct link *link);

/* False: it is to be closed. */
bool link_input(struct link *link, struct slice bytes, int64_t now_ms);
/* Puts what is to be sent into `out`. */
void link_flush(struct link *link);

/* NULL while it lives, else why it is taken for dead. Sends the PING when it is time. */
const char *link_check(struct link *link, int64_t silence_ms, int64_t now_ms);
int64_t link_next_check(const struct link *link, int64_t silence_ms);

#endif
