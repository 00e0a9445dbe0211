/* Connections whose filter has not completed its handshake. Their bytes wait here, because a
 * handshake costs as much as a hundred requests: each turn spends at most OPENING_NS on all of
 * them, peers first, and the rest waits for the next turn. */
#include "net/connection_state.h"

enum { OPENING_NS = 2000000 };

void connection_open_later(struct connection *c)
{
    if (list_is_empty(&c->opening_link)) {
        list_append(c->options.writes_first ? &c->net->opening_first : &c->net->opening,
                    &c->opening_link);
        net_stay_awake(c->net, true);
    }
}

void connection_hold(struct connection *c, struct slice bytes)
{
    /* It fits: on_alloc offers OPENING_READ bytes, and reading stops while any are held. */
    bool fits = buffer_append(&c->held, bytes.data, bytes.len);
    hf_assert(fits);
    connection_update_reading(c);
    connection_open_later(c);
}

void connection_begin_opening(struct connection *c)
{
    if (c->filter.is_opening == NULL || !c->filter.is_opening(c->filter.ctx)) {
        return;
    }
    c->opening = true;
    c->open_at = uv_now(c->net->loop) + OPENING_MS;
    connection_schedule(c);
    if (c->filter.begins) {
        connection_open_later(c);
    }
}

static void step(struct connection *c)
{
    struct buffer bytes = c->held; /* consumed as a whole; the connection may get more */
    buffer_init(&c->held, c->net->memory, c->held.max);
    connection_pass_filter(c, buffer_bytes(&bytes));
    buffer_close(&bytes);
    if (c->phase != CONNECTION_CLOSING) {
        connection_update_reading(c);
    }
}

void connections_open(struct net *net)
{
    if (list_is_empty(&net->opening_first) && list_is_empty(&net->opening)) {
        return;
    }
    uint64_t start = uv_hrtime();
    do {
        struct list *link = list_take(&net->opening_first);
        link = link != NULL ? link : list_take(&net->opening);
        if (link == NULL) {
            break;
        }
        step(LIST_OBJECT(link, struct connection, opening_link));
    } while (uv_hrtime() - start < OPENING_NS);
    net->opening_ns += uv_hrtime() - start;
}
