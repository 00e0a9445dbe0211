/* Connections whose filter has not completed its handshake. Their bytes wait here, because a
 * handshake costs as much as a hundred requests: each turn spends at most OPENING_NS on all of
 * them, peers first, and the rest waits for the next turn.
 *
 * Handshakes of clients are limited in number, because they take memory that nobody counts. For a
 * new one above the limit, the one that has waited longest for the other end is closed. Those that
 * wait for this node stay: closing them would favour whoever sends the most. */
#include "net/connection_state.h"

enum { OPENING_NS = 2000000 };

static void wait_for_other_end(struct connection *c)
{
    if (!c->options.writes_first) {
        list_append(&c->net->opening_waits, &c->opening_link);
    }
}

void connection_open_later(struct connection *c)
{
    if (!c->opening_due) {
        c->opening_due = true;
        list_remove(&c->opening_link);
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

static void count(struct connection *c)
{
    struct net *net = c->net;
    if (c->options.writes_first) {
        return;
    }
    c->opening_counted = true;
    if (++net->openings > net->openings_max) {
        struct list *link = list_take(&net->opening_waits);
        struct connection *oldest =
            link != NULL ? LIST_OBJECT(link, struct connection, opening_link) : c;
        connection_abort(oldest, "too many handshakes at a time");
    }
}

void connection_end_opening(struct connection *c)
{
    c->net->openings -= c->opening_counted ? 1 : 0;
    c->opening_counted = false;
    list_remove(&c->opening_link);
}

void connection_begin_opening(struct connection *c)
{
    if (c->filter.is_opening == NULL || !c->filter.is_opening(c->filter.ctx)) {
        return;
    }
    c->opening = true;
    c->open_at = uv_now(c->net->loop) + OPENING_MS;
    connection_schedule(c);
    count(c);
    if (c->phase != CONNECTION_OPEN) {
        return;
    }
    if (c->filter.begins) {
        connection_open_later(c);
    } else {
        wait_for_other_end(c);
    }
}

static void step(struct connection *c)
{
    struct buffer bytes = c->held; /* consumed as a whole; the connection may get more */
    c->opening_due = false;
    buffer_init(&c->held, c->net->memory, c->held.max);
    connection_pass_filter(c, buffer_bytes(&bytes));
    buffer_close(&bytes);
    if (c->phase == CONNECTION_OPEN && c->opening) {
        wait_for_other_end(c);
    }
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
