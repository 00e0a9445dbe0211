/* The world of http_world.h. */
#include "base_testing.h"

#include "http_world.h"
#include "turn.h"

#include <jansson.h>

/* ---- the world ---- */

void world_open(struct http_world *w, const struct memory *memory,
                const struct service_options *more)
{
    memset(w, 0, sizeof(*w));
    w->memory = memory;
    w->service = turn_begin(&w->gateway, memory, more);
}

void world_close(struct http_world *w)
{
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        client_close(&w->clients[i]);
        free(w->clients[i].got);
    }
    service_free(w->service);
    fake_gateway_close(&w->gateway);
}

static void take_output(struct http_client *c)
{
    struct slice out = http_conn_output(c->conn);
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
    http_conn_written(c->conn, out.len);
}

static void visit(struct http_client *c)
{
    if (c->conn == NULL) {
        return;
    }
    take_output(c);
    if (http_conn_is_finished(c->conn)) {
        http_conn_close(c->conn);
        c->conn = NULL;
    }
}

static void visit_all(void *world)
{
    struct http_world *w = world;
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        visit(&w->clients[i]);
    }
}

static struct turn turn_of(struct http_world *w)
{
    return (struct turn){&w->gateway, w->service, visit_all, w};
}

void world_run(struct http_world *w)
{
    struct turn turn = turn_of(w);
    turn_run(&turn);
}

void world_pass(struct http_world *w, uint64_t ms)
{
    struct turn turn = turn_of(w);
    turn_pass(&turn, ms);
}

/* ---- clients ---- */

static void on_ready(void *owner)
{
    ((struct http_client *)owner)->is_readied = true;
}

struct http_client *world_client(struct http_world *w, bool is_operator)
{
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        struct http_client *c = &w->clients[i];
        if (c->world == NULL) {
            struct http_conn_options options = {
                .owner = c, .ready = on_ready, .address = w->address, .is_operator = is_operator};
            c->world = w;
            c->conn = http_conn_new(w->service, &options);
            return c;
        }
    }
    fail_msg("more than %d clients", WORLD_CLIENTS);
    return NULL;
}

void client_send_only(struct http_client *c, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0 && c->conn != NULL) {
        size_t now = len < HTTP_CONN_READ ? len : HTTP_CONN_READ;
        if (!http_conn_wants_input(c->conn)) {
            return;
        }
        http_conn_receive(c->conn, slice_make(at, now));
        at += now;
        len -= now;
    }
}

void client_send_bytes(struct http_client *c, const void *data, size_t len)
{
    client_send_only(c, data, len);
    world_run(c->world);
}

void client_send(struct http_client *c, const char *text)
{
    client_send_bytes(c, text, strlen(text));
}

void client_close(struct http_client *c)
{
    if (c->conn != NULL) {
        http_conn_close(c->conn);
        c->conn = NULL;
    }
}

/* ---- answers ---- */

static char *copy_text(const void *data, size_t len)
{
    char *text = malloc(len + 1);
    assert_non_null(text);
    memcpy(text, data, len);
    text[len] = '\0';
    return text;
}

static void drop_front(struct http_client *c, size_t len)
{
    c->got_len -= len;
    memmove(c->got, c->got + len, c->got_len + 1);
}

struct reply client_reply(struct http_client *c)
{
    struct reply r = {.status = 0};
    if (c->got_len == 0) {
        return r;
    }
    char *text = (char *)c->got;
    while (strncmp(text, "HTTP/1.1 100", 12) == 0) {
        drop_front(c, (size_t)(strstr(text, "\r\n\r\n") + 4 - text));
    }
    char *end = strstr(text, "\r\n\r\n");
    if (end == NULL) {
        return r;
    }
    size_t head_len = (size_t)(end + 4 - text);
    char *head = copy_text(text, head_len);
    assert_int_equal(strncmp(head, "HTTP/1.1 ", 9), 0);
    const char *length = strstr(head, "Content-Length: ");
    size_t body_len = length == NULL ? 0 : strtoul(length + 16, NULL, 10);
    if (c->got_len < head_len + body_len) {
        free(head);
        return r;
    }
    r.status = (int)strtol(head + 9, NULL, 10);
    r.head = head;
    r.body = copy_text(text + head_len, body_len);
    r.body_len = body_len;
    drop_front(c, head_len + body_len);
    return r;
}

void reply_free(struct reply *r)
{
    free(r->head);
    free(r->body);
    *r = (struct reply){.status = 0};
}

/* For tests/scripts/test_openapi.py. */
static void record(const char *method, const char *target, const struct reply *r)
{
    const char *path = getenv("HOLDFAST_RECORD");
    FILE *file = path == NULL || r->status == 0 ? NULL : fopen(path, "a");
    if (file == NULL) {
        return;
    }
    json_t *line = json_pack("{s:s, s:s, s:i, s:s}", "method", method, "target", target, "status",
                             r->status, "body", r->body);
    if (line != NULL) { /* a target or a body that is not UTF-8 */
        (void)json_dumpf(line, file, JSON_COMPACT);
        (void)fputc('\n', file);
        json_decref(line);
    }
    (void)fclose(file);
}

struct reply client_request_to(struct http_client *c, const char *method, const char *target,
                               const char *body)
{
    size_t body_len = body == NULL ? 0 : strlen(body);
    size_t size = strlen(target) + body_len + 200;
    char *text = malloc(size);
    assert_non_null(text);
    if (body == NULL) {
        (void)snprintf(text, size, "%s %s HTTP/1.1\r\nHost: test\r\n\r\n", method, target);
    } else {
        (void)snprintf(text, size, "%s %s HTTP/1.1\r\nHost: test\r\nContent-Length: %zu\r\n\r\n%s",
                       method, target, body_len, body);
    }
    client_send(c, text);
    free(text);
    struct reply r = client_reply(c);
    record(method, target, &r);
    return r;
}

char *client_stream(struct http_client *c)
{
    char *text = copy_text(c->got_len == 0 ? "" : (const char *)c->got, c->got_len);
    size_t len = c->got_len;
    if (c->got_len > 0) {
        drop_front(c, c->got_len);
    }
    char *at = text;
    if (strncmp(text, "HTTP/1.1 ", 9) == 0) {
        assert_int_equal(strncmp(text, "HTTP/1.1 200", 12), 0);
        at = strstr(text, "\r\n\r\n") + 4;
    }
    char *out = malloc(len + 1);
    size_t used = 0;
    while (at < text + len) {
        char *rest;
        size_t chunk = strtoul(at, &rest, 16);
        assert_int_equal(strncmp(rest, "\r\n", 2), 0);
        assert_true(rest + 2 + chunk + 2 <= text + len);
        memcpy(out + used, rest + 2, chunk);
        used += chunk;
        at = rest + 2 + chunk;
        assert_int_equal(strncmp(at, "\r\n", 2), 0);
        at += 2;
    }
    out[used] = '\0';
    free(text);
    return out;
}

/* ---- JSON ---- */

static const json_t *at_path(const json_t *root, const char *path)
{
    char word[128];
    const json_t *at = root;
    while (*path != '\0' && at != NULL) {
        size_t len = strcspn(path, ".");
        assert_true(len < sizeof(word));
        memcpy(word, path, len);
        word[len] = '\0';
        if (json_is_array(at)) {
            at = json_array_get(at, strtoul(word, NULL, 10));
        } else {
            at = json_object_get(at, word);
        }
        path += len + (path[len] == '.');
    }
    return at;
}

static json_t *load(const char *body)
{
    json_error_t error;
    json_t *root = json_loads(body, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        fail_msg("not JSON: %s in: %s", error.text, body);
    }
    return root;
}

static void expect_one(const json_t *root, const char *path, const char *wanted, const char *body)
{
    const json_t *found = at_path(root, path);
    bool is_there = found != NULL && !json_is_null(found);
    if (strcmp(wanted, "*") == 0) {
        if (!is_there) {
            fail_msg("%s is missing in %s", path, body);
        }
        return;
    }
    if (strcmp(wanted, "-") == 0) {
        if (is_there) {
            fail_msg("%s should not be in %s", path, body);
        }
        return;
    }
    json_t *value = load(wanted);
    if (found == NULL || !json_equal(found, value)) {
        fail_msg("%s should be %s in %s", path, wanted, body);
    }
    json_decref(value);
}

void expect_json(const char *body, const char *expected)
{
    json_t *root = load(body);
    char *words = copy_text(expected, strlen(expected));
    char *save = NULL;
    for (char *word = strtok_r(words, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = '\0';
        expect_one(root, word, equals + 1, body);
    }
    free(words);
    json_decref(root);
}

uint64_t json_number_at(const char *body, const char *path)
{
    json_t *root = load(body);
    const json_t *found = at_path(root, path);
    if (!json_is_integer(found)) {
        fail_msg("%s is no number in %s", path, body);
    }
    uint64_t value = (uint64_t)json_integer_value(found);
    json_decref(root);
    return value;
}

char *json_text_at(const char *body, const char *path)
{
    json_t *root = load(body);
    const json_t *found = at_path(root, path);
    if (!json_is_string(found)) {
        fail_msg("%s is no text in %s", path, body);
    }
    char *text = copy_text(json_string_value(found), json_string_length(found));
    json_decref(root);
    return text;
}

void expect(struct http_client *c, const char *method, const char *target, const char *body,
            int status, const char *expected)
{
    struct reply r = client_request_to(c, method, target, body);
    if (r.status != status) {
        fail_msg("%s %s %s: %d instead of %d: %s", method, target, body == NULL ? "" : body,
                 r.status, status, r.body == NULL ? "" : r.body);
    }
    if (expected != NULL) {
        expect_json(r.body, expected);
    }
    reply_free(&r);
}
