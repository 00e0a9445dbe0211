/* Client connections: bytes of a socket into the service's HTTP door, its output back. Output stays
 * with the service until the kernel has it, so that a grant whose answer could not be written is
 * known and given back (S7.2). */
#include "node/door.h"

#include <stdio.h>

#include "net/listener.h"
#include "service/http_api.h"

enum { STALL_MS = 30000 };

struct door {
    struct door_options options;
    struct listener *listener;
    uint16_t port;
    uint32_t clients;
};

struct client {
    struct door *door;
    struct connection *connection;
    struct http_conn *http;
};

static const struct connection_options client_connection = {
    .in_max = 4 * HTTP_CONN_READ, /* held back while a request is worked on */
    .out_max = 32u << 20,
    .out_high = 1u << 20,
    .out_low = 256u << 10,
    .stall_ms = STALL_MS,
};

/* What the service has to say is fetched at the end of the turn; when all is said, the end. */
static void look(struct client *client)
{
    if (http_conn_output(client->http).len > 0) {
        connection_touch(client->connection);
    } else if (http_conn_is_finished(client->http)) {
        connection_close(client->connection);
    }
}

static size_t on_bytes(void *owner, struct slice bytes)
{
    struct client *client = owner;
    size_t used = 0;
    while (used < bytes.len && http_conn_wants_input(client->http)) {
        size_t len = bytes.len - used < HTTP_CONN_READ ? bytes.len - used : HTTP_CONN_READ;
        http_conn_receive(client->http, slice_make(bytes.data + used, len));
        used += len;
    }
    look(client);
    return used;
}

static void on_end(void *owner)
{
    struct client *client = owner;
    http_conn_end(client->http);
    look(client);
}

static void on_ready(void *owner)
{
    struct client *client = owner;
    if (http_conn_wants_input(client->http)) {
        connection_resume(client->connection);
    }
    look(client);
}

static struct slice output(void *owner)
{
    struct client *client = owner;
    return http_conn_output(client->http);
}

static void on_written(void *owner, size_t len)
{
    struct client *client = owner;
    http_conn_written(client->http, len);
    if (http_conn_wants_input(client->http)) {
        connection_resume(client->connection);
    }
    look(client);
}

static void on_close(void *owner, const char *reason)
{
    struct client *client = owner;
    struct door *d = client->door;
    journal_note(d->options.journal, DEBUG, CLIENT, "client_disconnected",
                 JOURNAL_TEXT("address", connection_remote(client->connection)),
                 JOURNAL_TEXT("reason", reason));
    http_conn_close(client->http);
    d->clients--;
    memory_free(d->options.net->memory, client, sizeof(*client));
}

static const struct connection_handlers handlers = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_close = on_close,
    .output = output,
    .on_written = on_written,
};

static void on_accept(void *ctx, struct connection *c)
{
    struct door *d = ctx;
    struct client *client = memory_alloc(d->options.net->memory, sizeof(*client));
    client->door = d;
    client->connection = c;
    struct http_conn_options options = {.owner = client, .ready = on_ready, .is_operator = true};
    client->http = http_conn_new(d->options.service, &options);
    d->clients++;
    journal_note(d->options.journal, DEBUG, CLIENT, "client_connected",
                 JOURNAL_TEXT("address", connection_remote(c)));
    connection_start(c, &handlers, client);
}

struct door *door_new(const struct door_options *options, char *problem, size_t problem_size)
{
    struct net *net = options->net;
    struct door *d = memory_alloc(net->memory, sizeof(*d));
    *d = (struct door){.options = *options};
    struct listener_options listen = {.address = options->listen,
                                      .connection = client_connection,
                                      .max_connections = options->max_connections,
                                      .on_accept = on_accept,
                                      .ctx = d};
    char words[LISTENER_PROBLEM];
    d->listener = listener_new(net, &listen, words);
    if (d->listener == NULL) {
        snprintf(problem, problem_size, "%s", words);
        memory_free(net->memory, d, sizeof(*d));
        return NULL;
    }
    d->port = listener_port(d->listener);
    return d;
}

void door_shut(struct door *d)
{
    listener_close(d->listener);
    d->listener = NULL;
}

void door_free(struct door *d)
{
    if (d != NULL) {
        memory_free(d->options.net->memory, d, sizeof(*d));
    }
}

uint16_t door_port(const struct door *d)
{
    return d->port;
}

uint32_t door_clients(const struct door *d)
{
    return d->clients;
}
