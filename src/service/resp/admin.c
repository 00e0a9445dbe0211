/* Commands about the connection. */
#include "service/resp/conn.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/resp/number.h"

#define SAME_PASSWORD "invalid username-password pair or user is disabled."

/* Takes the same time for every password of the right length. */
static bool is_password(const struct service *s, struct slice text)
{
    const char *password = s->options.resp_password;
    size_t len = strlen(password);
    unsigned difference = (unsigned)(len != text.len);
    for (size_t i = 0; i < text.len; i++) {
        difference |= (unsigned)text.data[i] ^ (unsigned)(uint8_t)password[len > 0 ? i % len : 0];
    }
    return difference == 0;
}

/* False: the error was sent. `user`: "default" if the client named none. */
static bool authenticate(struct resp_conn *conn, struct slice user, struct slice password)
{
    bool is_default = resp_is_word(user, "DEFAULT");
    bool is_open = conn->service->options.resp_password[0] == '\0';
    if (conn->service->auth != NULL) {
        return resp_auth_token(conn, user, password);
    }
    if (!is_default || (!is_open && !is_password(conn->service, password))) {
        resp_conn_error(conn, "WRONGPASS", SAME_PASSWORD);
        return false;
    }
    conn->is_authenticated = true;
    return true;
}

void resp_auth(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    if (count > 3) {
        resp_conn_error(conn, "ERR", "wrong number of arguments for 'auth' command");
    } else if (count == 2 && !resp_needs_auth(conn->service)) {
        resp_conn_error(conn, "ERR",
                        "AUTH <password> called without any password configured for the default "
                        "user. Are you sure your configuration is correct?");
    } else if (authenticate(conn, count == 3 ? args[1] : slice_of("default"), args[count - 1])) {
        resp_simple(&w, "OK");
    }
}

static void put_hello(struct resp_conn *conn)
{
    struct resp_writer w = resp_conn_writer(conn);
    resp_map(&w, 7);
    resp_text(&w, "server");
    resp_text(&w, "redis"); /* clients check this value */
    resp_text(&w, "version");
    resp_text(&w, RESP_REDIS_VERSION);
    resp_text(&w, "proto");
    resp_integer(&w, conn->protocol);
    resp_text(&w, "id");
    resp_integer(&w, (int64_t)conn->id);
    resp_text(&w, "mode");
    resp_text(&w, "standalone"); /* every node accepts all requests */
    resp_text(&w, "role");
    resp_text(&w, "master");
    resp_text(&w, "modules");
    resp_array(&w, 0);
}

void resp_hello(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    int64_t version = conn->protocol;
    struct slice name = slice_make(NULL, 0);
    bool has_name = false;
    if (count > 1 && (!resp_parse_number(args[1], &version) || version < 2 || version > 3)) {
        resp_conn_error(conn, "NOPROTO", "unsupported protocol version");
        return;
    }
    for (uint32_t i = 2; i < count; i++) {
        if (resp_is_word(args[i], "AUTH") && i + 2 < count) {
            if (!authenticate(conn, args[i + 1], args[i + 2])) {
                return;
            }
            i += 2;
        } else if (resp_is_word(args[i], "SETNAME") && i + 1 < count) {
            name = args[++i];
            has_name = true;
        } else {
            resp_conn_error(conn, "ERR", "Syntax error in HELLO option '%.*s'",
                            (int)(args[i].len < 64 ? args[i].len : 64), (const char *)args[i].data);
            return;
        }
    }
    if (conn->service->auth != NULL && conn->auth.peer != NULL && !resp_auth_certificate(conn)) {
        return;
    }
    if (!conn->is_authenticated) {
        resp_conn_error(conn, "NOAUTH",
                        "HELLO must be called with the client already authenticated, otherwise the "
                        "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the "
                        "client and select the RESP protocol version at the same time");
        return;
    }
    if (has_name && !resp_set_name(conn, name)) {
        return;
    }
    conn->protocol = (int)version;
    put_hello(conn);
}

static bool is_serving(const struct service *s)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    return status.leader != 0 && status.serving;
}

void resp_ping(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    if (count > 2) {
        resp_conn_error(conn, "ERR", "wrong number of arguments for 'ping' command");
    } else if (conn->service->options.resp_ping_serving && !is_serving(conn->service)) {
        resp_conn_error(conn, "CLUSTERDOWN",
                        "this node reaches no leader with a majority (resp-ping = serving)");
    } else if (conn->protocol == 2 && resp_is_subscribed(conn)) {
        resp_array(&w, 2);
        resp_text(&w, "pong");
        resp_bulk(&w, count == 2 ? args[1] : slice_make("", 0));
    } else if (count == 2) {
        resp_bulk(&w, args[1]);
    } else {
        resp_simple(&w, "PONG");
    }
}

void resp_echo(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    resp_bulk(&w, args[1]);
}

void resp_select(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)count;
    int64_t number;
    struct resp_writer w = resp_conn_writer(conn);
    if (!resp_parse_number(args[1], &number)) {
        resp_conn_error(conn, "ERR", "value is not an integer or out of range");
    } else if (number < 0 || number >= RESP_DATABASES) {
        resp_conn_error(conn, "ERR", "DB index is out of range");
    } else if (number != 0 && !resp_is_upgraded(conn->service)) {
        resp_conn_error(
            conn, "ERR",
            "DB index is out of range: until all nodes are upgraded, only database 0 exists");
    } else {
        conn->database = (uint32_t)number;
        resp_simple(&w, "OK");
    }
}

void resp_quit(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    resp_simple(&w, "OK");
    resp_conn_shut(conn);
}

void resp_reset(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    resp_pubsub_leave(conn);
    resp_multi_end(conn);
    conn->protocol = 2;
    conn->database = 0;
    conn->name[0] = '\0';
    resp_conn_name(conn);
    conn->is_authenticated = !resp_needs_auth(conn->service);
    conn->caller = (struct caller){.expires_ms = UINT64_MAX};
    struct resp_writer w = resp_conn_writer(conn);
    resp_simple(&w, "RESET");
}

static void put_time(const struct service *s, const struct key_sink *to)
{
    uint64_t ms = s->gateway.wall_ms(s->gateway.ctx);
    char text[24];
    to->array(to->ctx, 2);
    int len = snprintf(text, sizeof(text), "%" PRIu64, ms / 1000);
    to->bulk(to->ctx, slice_make(text, (size_t)len));
    len = snprintf(text, sizeof(text), "%" PRIu64, ms % 1000 * 1000);
    to->bulk(to->ctx, slice_make(text, (size_t)len));
}

void resp_time(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    struct key_sink sink = resp_sink(&w);
    put_time(conn->service, &sink);
}

/* In a script. A script that is repeated reads a later time. */
void key_time(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)args;
    (void)count;
    put_time(keyspace_service(k), to);
}

/* Every node accepts every command, so each reports itself as a primary. */
void resp_role(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    resp_array(&w, 3);
    resp_text(&w, "master");
    resp_integer(&w, 0);
    resp_array(&w, 0);
}

/* WAIT replicas milliseconds. A change is on a majority of the voters before it is answered, so that
 * many other nodes have it; more are never waited for. */
void resp_wait(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)count;
    int64_t number;
    const struct service *s = conn->service;
    struct resp_writer w = resp_conn_writer(conn);
    if (!resp_parse_number(args[1], &number) || !resp_parse_number(args[2], &number)) {
        resp_conn_error(conn, "ERR", "value is not an integer or out of range");
        return;
    }
    if (number < 0) {
        resp_conn_error(conn, "ERR", "timeout is negative");
        return;
    }
    struct gateway_member members[LIMIT_NODES];
    uint32_t known = s->gateway.members == NULL || s->options.resp_tier != TIER_CORRECTNESS
                         ? 0
                         : s->gateway.members(s->gateway.ctx, members, LIMIT_NODES);
    uint32_t voters = 0;
    for (uint32_t i = 0; i < known; i++) {
        voters += members[i].voter;
    }
    resp_integer(&w, voters / 2); /* besides the leader */
}

void resp_monitor(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    resp_conn_error(conn, "ERR",
                    "MONITOR is not supported: `holdfast watch` shows all changes of locks");
}
