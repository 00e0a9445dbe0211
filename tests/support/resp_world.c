/* The world of resp_world.h. */
#include "base_testing.h"

#include "resp_world.h"
#include "turn.h"

void resp_world_open(struct resp_world *w, const struct memory *memory,
                     const struct service_options *more)
{
    memset(w, 0, sizeof(*w));
    w->service = turn_begin(&w->gateway, memory, more);
}

void resp_world_close(struct resp_world *w)
{
    for (size_t i = 0; i < RESP_CLIENTS; i++) {
        resp_client_close(&w->clients[i]);
        free(w->clients[i].got);
    }
    resp_world_run(w);
    service_free(w->service);
    fake_gateway_close(&w->gateway);
}

static void take_output(struct resp_client *c)
{
    struct slice out = resp_conn_output(c->conn);
    if (c->is_deaf || out.len == 0) {
        return;
    }
    assert_true(c->is_readied); /* or else nobody would have known */
    if (c->got_len + out.len + 1 > c->got_size) {
        c->got_size = (c->got_len + out.len + 1) * 2;
        c->got = realloc(c->got, c->got_size);
        assert_non_null(c->got);
    }
    memcpy(c->got + c->got_len, out.data, out.len);
    c->got_len += out.len;
    c->got[c->got_len] = '\0';
    resp_conn_written(c->conn, out.len);
}

static void visit(struct resp_client *c)
{
    if (c->conn == NULL) {
        return;
    }
    take_output(c);
    if (resp_conn_is_finished(c->conn)) {
        resp_conn_close(c->conn);
        c->conn = NULL;
    }
}

static void visit_all(void *world)
{
    struct resp_world *w = world;
    for (size_t i = 0; i < RESP_CLIENTS; i++) {
        visit(&w->clients[i]);
    }
}

static struct turn turn_of(struct resp_world *w)
{
    return (struct turn){&w->gateway, w->service, visit_all, w};
}

void resp_world_run(struct resp_world *w)
{
    struct turn turn = turn_of(w);
    turn_run(&turn);
}

void resp_world_pass(struct resp_world *w, uint64_t ms)
{
    struct turn turn = turn_of(w);
    turn_pass(&turn, ms);
}

static void on_ready(void *owner)
{
    ((struct resp_client *)owner)->is_readied = true;
}

struct resp_client *resp_world_client(struct resp_world *w)
{
    for (size_t i = 0; i < RESP_CLIENTS; i++) {
        struct resp_client *c = &w->clients[i];
        if (c->world == NULL) {
            char address[32];
            snprintf(address, sizeof(address), "10.0.0.%zu:4000", i + 1);
            struct resp_conn_options options = {
                .owner = c, .ready = on_ready, .address = address, .local = "10.0.0.100:4655"};
            c->world = w;
            c->conn = resp_conn_new(w->service, &options);
            return c;
        }
    }
    fail_msg("more than %d clients", RESP_CLIENTS);
    return NULL;
}

void resp_client_close(struct resp_client *c)
{
    if (c->conn != NULL) {
        resp_conn_close(c->conn);
        c->conn = NULL;
    }
}

static void send_only(struct resp_client *c, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0 && c->conn != NULL) {
        size_t now = len < RESP_CONN_READ ? len : RESP_CONN_READ;
        if (!resp_conn_wants_input(c->conn)) {
            return;
        }
        resp_conn_receive(c->conn, slice_make(at, now));
        at += now;
        len -= now;
    }
}

void resp_send_only(struct resp_client *c, const char *text)
{
    send_only(c, text, strlen(text));
}

void resp_send_bytes(struct resp_client *c, const void *data, size_t len)
{
    send_only(c, data, len);
    resp_world_run(c->world);
}

void resp_say(struct resp_client *c, const char *line)
{
    resp_send_only(c, line);
    resp_send_bytes(c, "\r\n", 2);
}

/* "|" becomes CR LF. */
static char *spelled(const char *text)
{
    char *out = malloc(strlen(text) * 2 + 1);
    size_t len = 0;
    assert_non_null(out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '|') {
            out[len++] = '\r';
            out[len++] = '\n';
        } else {
            out[len++] = *c;
        }
    }
    out[len] = '\0';
    return out;
}

static void forget(struct resp_client *c)
{
    c->got_len = 0;
    if (c->got != NULL) {
        c->got[0] = '\0';
    }
}

void resp_expect(struct resp_client *c, const char *expected)
{
    char *text = spelled(expected);
    assert_string_equal(c->got == NULL ? "" : c->got, text);
    free(text);
    forget(c);
}

void resp_expect_start(struct resp_client *c, const char *expected)
{
    const char *got = c->got == NULL ? "" : c->got;
    if (strncmp(got, expected, strlen(expected)) != 0) {
        fail_msg("\"%.200s\" does not begin with \"%s\"", got, expected);
    }
    forget(c);
}

void resp_request(struct resp_client *c, const char *line, const char *expected)
{
    resp_say(c, line);
    resp_expect(c, expected);
}
