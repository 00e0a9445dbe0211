/* Passes bytes between a socket and the service, which keeps output until the kernel has it, to
 * release a grant whose answer could not be written (S7.2). */
#include "node/clients/client_listener.h"

#include <stdio.h>

#include "net/listener.h"
#include "node/clients/tls_filter.h"
#include "service/http/http_api.h"
#include "service/resp/api.h"

enum { STALL_MS = 30000 };

struct client_listener {
    struct client_listener_options options;
    struct listener *listener;
    uint16_t port;
    uint32_t clients;
};

struct accepted_client {
    struct client_entry entry;
    struct client_listener *listener;
    struct connection *connection;
    void *conn; /* of the service */
};

/* Of service/http/http_api.h and service/resp/api.h. */
struct protocol {
    void *(*open)(struct service *s, struct accepted_client *client);
    void (*set_peer)(void *conn, const struct peer_identity *peer);
    void (*receive)(void *conn, struct slice bytes);
    bool (*wants_input)(void *conn);
    void (*end)(void *conn);
    struct slice (*output)(const void *conn);
    void (*written)(void *conn, size_t len);
    bool (*is_finished)(const void *conn);
    bool (*is_idle)(const void *conn);
    void (*retire)(void *conn);
    void (*close)(void *conn);
};

static void on_ready(void *owner);

#define PROTOCOL(name)                                                        \
    static void name##_set_peer(void *conn, const struct peer_identity *peer) \
    {                                                                         \
        name##_conn_set_peer(conn, peer);                                     \
    }                                                                         \
    static void name##_receive(void *conn, struct slice b)                    \
    {                                                                         \
        name##_conn_receive(conn, b);                                         \
    }                                                                         \
    static bool name##_wants_input(void *conn)                                \
    {                                                                         \
        return name##_conn_wants_input(conn);                                 \
    }                                                                         \
    static void name##_end(void *conn)                                        \
    {                                                                         \
        name##_conn_end(conn);                                                \
    }                                                                         \
    static struct slice name##_output(const void *conn)                       \
    {                                                                         \
        return name##_conn_output(conn);                                      \
    }                                                                         \
    static void name##_written(void *conn, size_t len)                        \
    {                                                                         \
        name##_conn_written(conn, len);                                       \
    }                                                                         \
    static bool name##_is_finished(const void *conn)                          \
    {                                                                         \
        return name##_conn_is_finished(conn);                                 \
    }                                                                         \
    static bool name##_is_idle(const void *conn)                              \
    {                                                                         \
        return name##_conn_is_idle(conn);                                     \
    }                                                                         \
    static void name##_retire(void *conn)                                     \
    {                                                                         \
        name##_conn_retire(conn);                                             \
    }                                                                         \
    static void name##_close(void *conn)                                      \
    {                                                                         \
        name##_conn_close(conn);                                              \
    }                                                                         \
    static const struct protocol name##_protocol = {                          \
        name##_open,    name##_set_peer, name##_receive, name##_wants_input,  \
        name##_end,     name##_output,   name##_written, name##_is_finished,  \
        name##_is_idle, name##_retire,   name##_close,                        \
    };

static void *http_open(struct service *s, struct accepted_client *client)
{
    struct http_conn_options options = {.owner = client,
                                        .ready = on_ready,
                                        .address = connection_remote(client->connection),
                                        .is_operator = true};
    return http_conn_new(s, &options);
}

static void *resp_open(struct service *s, struct accepted_client *client)
{
    char local[CLIENT_ADDRESS_MAX + 1];
    struct resp_conn_options options = {
        .owner = client,
        .ready = on_ready,
        .address = connection_remote(client->connection),
        .local = local,
        .descriptor = connection_local(client->connection, local, sizeof(local))};
    return resp_conn_new(s, &options);
}

PROTOCOL(http)
PROTOCOL(resp)

_Static_assert(HTTP_CONN_READ == RESP_CONN_READ, "one loop feeds both");

static const struct protocol *protocol_of(const struct accepted_client *client)
{
    return client->listener->options.protocol == CLIENT_HTTP ? &http_protocol : &resp_protocol;
}

static const struct connection_options client_connection = {
    .in_max = HTTP_CONN_READ, /* buffered while a request is in progress; connections-max-bytes does
                                 not count it */
    .out_max = 32u << 20,
    .out_high = 1u << 20,
    .out_low = 256u << 10,
    .stall_ms = STALL_MS,
};

/* Schedules output for the end of the turn. Closes a finished connection without any. */
static void look(struct accepted_client *client)
{
    const struct protocol *p = protocol_of(client);
    if (p->output(client->conn).len > 0) {
        connection_touch(client->connection);
    } else if (p->is_finished(client->conn)) {
        connection_close(client->connection);
    }
    client_table_set_idle(client->listener->options.clients, &client->entry,
                          p->is_idle(client->conn));
}

static void on_open(void *owner)
{
    struct accepted_client *client = owner;
    const struct peer_identity *peer = connection_identity(client->connection);
    if (peer != NULL) {
        protocol_of(client)->set_peer(client->conn, peer);
    }
}

static size_t on_bytes(void *owner, struct slice bytes)
{
    struct accepted_client *client = owner;
    const struct protocol *p = protocol_of(client);
    size_t used = 0;
    while (used < bytes.len && p->wants_input(client->conn)) {
        size_t len = bytes.len - used < HTTP_CONN_READ ? bytes.len - used : HTTP_CONN_READ;
        p->receive(client->conn, slice_make(bytes.data + used, len));
        used += len;
    }
    look(client);
    return used;
}

static void on_end(void *owner)
{
    struct accepted_client *client = owner;
    protocol_of(client)->end(client->conn);
    look(client);
}

static void on_ready(void *owner)
{
    struct accepted_client *client = owner;
    if (protocol_of(client)->wants_input(client->conn)) {
        connection_resume(client->connection);
    }
    look(client);
}

static struct slice output(void *owner)
{
    struct accepted_client *client = owner;
    return protocol_of(client)->output(client->conn);
}

static void on_written(void *owner, size_t len)
{
    struct accepted_client *client = owner;
    protocol_of(client)->written(client->conn, len);
    if (protocol_of(client)->wants_input(client->conn)) {
        connection_resume(client->connection);
    }
    look(client);
}

static void on_close(void *owner, const char *reason)
{
    struct accepted_client *client = owner;
    struct client_listener *l = client->listener;
    journal_note(l->options.journal, DEBUG, CLIENT, "client_disconnected",
                 JOURNAL_TEXT("address", connection_remote(client->connection)),
                 JOURNAL_TEXT("reason", reason));
    protocol_of(client)->close(client->conn);
    client_table_remove(l->options.clients, &client->entry);
    l->clients--;
    memory_free(l->options.net->memory, client, sizeof(*client));
}

static const struct connection_handlers handlers = {
    .on_bytes = on_bytes,
    .on_open = on_open,
    .on_end = on_end,
    .on_close = on_close,
    .output = output,
    .on_written = on_written,
};

void client_listener_evict(struct client_entry *entry)
{
    struct accepted_client *client = LIST_OBJECT(entry, struct accepted_client, entry);
    protocol_of(client)->retire(client->conn);
    connection_dismiss(client->connection, "idle, closed in favour of a new connection");
}

/* For a client that sent a request without TLS. */
static const char *const needs_tls[] = {
    [CLIENT_HTTP] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 34\r\n"
                    "Connection: close\r\n\r\nThis port needs TLS: use https://\n",
    [CLIENT_RESP] = "-ERR this port needs TLS\r\n",
};

static void on_accept(void *ctx, struct connection *c)
{
    struct client_listener *l = ctx;
    if (*l->options.tls != NULL) {
        tls_filter_set(c, l->options.net->memory, *l->options.tls, false,
                       needs_tls[l->options.protocol]);
    }
    struct accepted_client *client = memory_alloc(l->options.net->memory, sizeof(*client));
    enum client_verdict verdict = client_table_admit(l->options.clients, &client->entry,
                                                     connection_ip(c), client_listener_evict);
    if (verdict != CLIENT_ADMITTED) {
        memory_free(l->options.net->memory, client, sizeof(*client));
        refuse(l->options.refusals, c,
               l->options.protocol == CLIENT_RESP ? REFUSE_RESP : REFUSE_HTTP);
        return;
    }
    client->listener = l;
    client->connection = c;
    client->conn = protocol_of(client)->open(l->options.service, client);
    l->clients++;
    journal_note(l->options.journal, DEBUG, CLIENT, "client_connected",
                 JOURNAL_TEXT("address", connection_remote(c)));
    connection_start(c, &handlers, client);
    look(client);
}

struct client_listener *client_listener_new(const struct client_listener_options *options,
                                            char *problem, size_t problem_size)
{
    struct net *net = options->net;
    struct client_listener *l = memory_alloc(net->memory, sizeof(*l));
    *l = (struct client_listener){.options = *options};
    struct listener_options listen = {.address = options->listen,
                                      .connection = client_connection,
                                      .max_connections = UINT32_MAX,
                                      .on_accept = on_accept,
                                      .ctx = l};
    char words[LISTENER_PROBLEM];
    l->listener = listener_new(net, &listen, words);
    if (l->listener == NULL) {
        snprintf(problem, problem_size, "%s", words);
        memory_free(net->memory, l, sizeof(*l));
        return NULL;
    }
    l->port = listener_port(l->listener);
    return l;
}

void client_listener_shut(struct client_listener *l)
{
    listener_close(l->listener);
    l->listener = NULL;
}

void client_listener_free(struct client_listener *l)
{
    if (l != NULL) {
        memory_free(l->options.net->memory, l, sizeof(*l));
    }
}

uint16_t client_listener_port(const struct client_listener *l)
{
    return l->port;
}

uint32_t client_listener_clients(const struct client_listener *l)
{
    return l->clients;
}
