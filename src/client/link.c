/* See link.h. */
#include "client/link.h"

#include "client/deadline.h"
#include "client/rpc.h"

void link_init(struct link *link, struct client_engine *client_engine)
{
    memset(link, 0, sizeof(*link));
    link->client_engine = client_engine;
    link->endpoint = -1;
    buffer_init(&link->out, memory_system(), LINK_OUTPUT + HTTP2_CLIENT_PIECE);
}

void link_dial(struct link *link, int endpoint, const char *authority, int64_t until_ms)
{
    hf_assert(link->state == LINK_FREE);
    link->state = LINK_DIALING;
    link->generation++;
    link->endpoint = endpoint;
    link->dial_until_ms = until_ms;
    link->http2 = http2_client_new(memory_system(), &rpc_http2_handler, authority,
                                   "libholdfast/" HOLDFAST_VERSION);
    link->peer[0] = '\0';
    link->owed = 0;
    link->pinged_ms = 0;
    link_flush(link);
}

void link_close(struct link *link)
{
    if (link->state == LINK_FREE) {
        return;
    }
    struct http2_client *http2 = link->http2;
    link->http2 = NULL;
    link->state = LINK_FREE;
    link->generation++;
    link->endpoint = -1;
    buffer_close(&link->out);
    http2_client_free(http2);
    link->owed = 0;
}

void link_owe(struct link *link, int64_t now_ms)
{
    if (link->owed++ == 0) {
        link->owed_since_ms = now_ms;
    }
}

void link_paid(struct link *link)
{
    if (link->owed > 0) {
        link->owed--;
    }
}

bool link_input(struct link *link, struct slice bytes, int64_t now_ms)
{
    link->heard_ms = now_ms;
    link->pinged_ms = 0;
    bool is_well = http2_client_input(link->http2, bytes);
    link_flush(link);
    return is_well && !http2_client_is_over(link->http2);
}

void link_flush(struct link *link)
{
    if (link->http2 != NULL) {
        http2_client_output(link->http2, &link->out, LINK_OUTPUT);
    }
}

/* Since when the peer is silent and owes an answer. */
static int64_t silent_since(const struct link *link)
{
    int64_t since_ms = link->heard_ms > link->owed_since_ms ? link->heard_ms : link->owed_since_ms;
    return link->pinged_ms > since_ms ? link->pinged_ms : since_ms;
}

int64_t link_next_check(const struct link *link, int64_t silence_ms)
{
    switch (link->state) {
    case LINK_DIALING:
        return link->dial_until_ms;
    case LINK_UP:
        return link->owed == 0 && link->pinged_ms == 0 ? NEVER_MS : silent_since(link) + silence_ms;
    case LINK_FREE:
    default:
        return NEVER_MS;
    }
}

const char *link_check(struct link *link, int64_t silence_ms, int64_t now_ms)
{
    if (now_ms < link_next_check(link, silence_ms)) {
        return NULL;
    }
    if (link->state == LINK_DIALING) {
        return "no answer in time";
    }
    if (link->pinged_ms != 0) {
        return "it does not answer any more";
    }
    link->pinged_ms = now_ms;
    http2_client_ping(link->http2);
    return NULL;
}
