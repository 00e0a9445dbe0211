/* Client connections: bytes of a socket into one of the service's doors, its output back. Output
 * stays with the service until the kernel has it, so that a grant whose answer could not be written
 * is known and given back (S7.2). */
#include "node/clients/client_listener.h"

#include <stdio.h>

#include "net/listener.h"
#include "service/http/http_api.h"
#include "service/resp/api.h"

enum { STALL_MS = 30000 };

struct door {
    struct client_listener_options options;
    struct listener *listener;
    uint16_t port;
    uint32_t clients;
};

struct client {
    struct client_entry entry;
    struct door *door;
    struct connection *connection;
    void *conn; /* the service's */
};

/* What the service's doors have in common; service/http/http_api.h and resp_api.h say what each does. */
struct protocol {
    void *(*open)(struct service *s, struct client *client);
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

#define PROTOCOL(name)                                                                        \
    static void name##_receive(void *conn, struct slice b)                                    \
    {                                                                                         \
        name##_conn_receive(conn, b);                                                         \
    }                                                                                         \
    static bool name##_wants_input(void *conn)                                                \
    {                                                                                         \
        return name##_conn_wants_input(conn);                                                 \
    }                                                                                         \
    static void name##_end(void *conn)                                                        \
    {                                                                                         \
        name##_conn_end(conn);                                                                \
    }                                                                                         \
    static struct slice name##_output(const void *conn)                                       \
    {                                                                                         \
        return name##_conn_output(conn);                                                      \
    }                                                                                         \
    static void name##_written(void *conn, size_t len)                                        \
    {                                                                                         \
        name##_conn_written(conn, len);                                                       \
    }                                                                                         \
    static bool name##_is_finished(const void *conn)                                          \
    {                                                                                         \
        return name##_conn_is_finished(conn);                                                 \
    }                                                                                         \
    static bool name##_is_idle(const void *conn)                                              \
    {                                                                                         \
        return name##_conn_is_idle(conn);                                                     \
    }                                                                                         \
    static void name##_retire(void *conn)                                                     \
    {                                                                                         \
        name##_conn_retire(conn);                                                             \
    }                                                                                         \
    static void name##_close(void *conn)                                                      \
    {                                                                                         \
        name##_conn_close(conn);                                                              \
    }                                                                                         \
    static const struct protocol name##_protocol = {                                          \
        name##_open,    name##_receive,     name##_wants_input, name##_end,    name##_output, \
        name##_written, name##_is_finished, name##_is_idle,     name##_retire, name##_close,  \
    };

static void *http_open(struct service *s, struct client *client)
{
    struct http_conn_options options = {.owner = client, .ready = on_ready, .is_operator = true};
    return http_conn_new(s, &options);
}

static void *resp_open(struct service *s, struct client *client)
{
    struct resp_conn_options options = {
        .owner = client, .ready = on_ready, .address = connection_remote(client->connection)};
    return resp_conn_new(s, &options);
}

PROTOCOL(http)
PROTOCOL(resp)

_Static_assert(HTTP_CONN_READ == RESP_CONN_READ, "one loop feeds both");

static const struct protocol *protocol_of(const struct client *client)
{
    return client->door->options.protocol == CLIENT_HTTP ? &http_protocol : &resp_protocol;
}

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
    const struct protocol *p = protocol_of(client);
    if (p->output(client->conn).len > 0) {
        connection_touch(client->connection);
    } else if (p->is_finished(client->conn)) {
        connection_close(client->connection);
    }
    client_table_set_idle(client->door->options.clients, &client->entry, p->is_idle(client->conn));
}

static size_t on_bytes(void *owner, struct slice bytes)
{
    struct client *client = owner;
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
    struct client *client = owner;
    protocol_of(client)->end(client->conn);
    look(client);
}

static void on_ready(void *owner)
{
    struct client *client = owner;
    if (protocol_of(client)->wants_input(client->conn)) {
        connection_resume(client->connection);
    }
    look(client);
}

static struct slice output(void *owner)
{
    struct client *client = owner;
    return protocol_of(client)->output(client->conn);
}

static void on_written(void *owner, size_t len)
{
    struct client *client = owner;
    protocol_of(client)->written(client->conn, len);
    if (protocol_of(client)->wants_input(client->conn)) {
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
    protocol_of(client)->close(client->conn);
    client_table_remove(d->options.clients, &client->entry);
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

void client_listener_evict(struct client_entry *entry)
{
    struct client *client = LIST_OBJECT(entry, struct client, entry);
    protocol_of(client)->retire(client->conn);
    connection_dismiss(client->connection, "idle, closed in favour of a new connection");
}

static void on_accept(void *ctx, struct connection *c)
{
    struct door *d = ctx;
    struct client *client = memory_alloc(d->options.net->memory, sizeof(*client));
    enum client_verdict verdict = client_table_admit(d->options.clients, &client->entry,
                                                     connection_ip(c), client_listener_evict);
    if (verdict != CLIENT_ADMITTED) {
        memory_free(d->options.net->memory, client, sizeof(*client));
        refuse(d->options.refusals, c,
               d->options.protocol == CLIENT_RESP ? REFUSE_RESP : REFUSE_HTTP);
        return;
    }
    client->door = d;
    client->connection = c;
    client->conn = protocol_of(client)->open(d->options.service, client);
    d->clients++;
    journal_note(d->options.journal, DEBUG, CLIENT, "client_connected",
                 JOURNAL_TEXT("address", connection_remote(c)));
    connection_start(c, &handlers, client);
    look(client);
}

struct door *client_listener_new(const struct client_listener_options *options, char *problem,
                                 size_t problem_size)
{
    struct net *net = options->net;
    struct door *d = memory_alloc(net->memory, sizeof(*d));
    *d = (struct door){.options = *options};
    struct listener_options listen = {.address = options->listen,
                                      .connection = client_connection,
                                      .max_connections = UINT32_MAX,
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

void client_listener_shut(struct door *d)
{
    listener_close(d->listener);
    d->listener = NULL;
}

void client_listener_free(struct door *d)
{
    if (d != NULL) {
        memory_free(d->options.net->memory, d, sizeof(*d));
    }
}

uint16_t client_listener_port(const struct door *d)
{
    return d->port;
}

uint32_t client_listener_clients(const struct door *d)
{
    return d->clients;
}
