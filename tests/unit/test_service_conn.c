/* One connection: many requests on it, bad ones, slow ones, and ones cut anywhere. */
#include "http_testing.h"

static void expect_reply(struct http_client *c, int status, const char *expected)
{
    struct reply r = client_reply(c);
    if (r.status != status) {
        fail_msg("%d instead of %d: %s", r.status, status, r.body == NULL ? "" : r.body);
    }
    if (expected != NULL) {
        expect_json(r.body, expected);
    }
    reply_free(&r);
}

/* ---- many on one connection ---- */

static const char pipeline[] =
    "POST /api/v1/locks/a/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: 17\r\n\r\n"
    "{\"client_id\":\"x\"}"
    "GET /livez HTTP/1.1\r\nHost: t\r\n\r\n"
    "POST /api/v1/locks/a/acquire HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5\r\n{\"cli\r\n6\r\nent_id\r\n6\r\n\":\"y\"}\r\n0\r\n\r\n"
    "POST /api/v1/locks/a/release HTTP/1.1\r\nHost: t\r\nContent-Length: 38\r\n\r\n"
    "{\"client_id\":\"x\",\"fencing_token\":2048}"
    "GET /nowhere HTTP/1.1\r\nHost: t\r\n\r\n"
    "POST /api/v1/locks/a/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: 17\r\n\r\n"
    "{\"client_id\":\"z\"}";

static void check_pipeline(struct http_client *c)
{
    expect_reply(c, 200, "acquired=true fencing_token=2048");
    expect_reply(c, 200, NULL);
    expect_reply(c, 200, "acquired=false reason=\"held\" holder.client_id=\"x\"");
    expect_reply(c, 200, "released=true");
    expect_reply(c, 404, "error.code=\"not_found\"");
    expect_reply(c, 200, "acquired=true fencing_token=3072");
    assert_int_equal(client_reply(c).status, 0);
    assert_non_null(c->conn);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct http_client *c = world_client(&world, false);
    client_send(c, pipeline);
    check_pipeline(c);
}

static void requests_may_be_cut_anywhere(void **state)
{
    size_t len = sizeof(pipeline) - 1;
    for (size_t cut = 1; cut < len; cut++) {
        world_close(&world);
        world_open(&world, &counted.memory, &small_ring);
        struct http_client *c = world_client(&world, false);
        client_send_bytes(c, pipeline, cut);
        client_send_bytes(c, pipeline + cut, len - cut);
        check_pipeline(c);
    }
    world_close(&world);
    world_open(&world, &counted.memory, &small_ring);
    struct http_client *c = world_client(&world, false);
    for (size_t i = 0; i < len; i++) {
        client_send_bytes(c, pipeline + i, 1);
    }
    check_pipeline(c);
}

static void what_comes_behind_a_wait_waits_too(void **state)
{
    struct http_client *a = world_client(&world, false);
    struct http_client *b = world_client(&world, false);
    expect(a, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\"}", 200, "acquired=true");
    client_send(b, "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: 38\r\n\r\n"
                   "{\"client_id\":\"b\",\"wait_timeout_ms\":-1}"
                   "GET /api/v1/cluster HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_int_equal(client_reply(b).status, 0);
    expect(a, "POST", "/api/v1/locks/n/release", "{\"client_id\":\"a\",\"fencing_token\":2048}",
           200, "released=true");
    expect_reply(b, 200, "acquired=true fencing_token=3072");
    expect_reply(b, 200, "node=1");
}

static void a_flood_of_requests_is_held_back(void **state)
{
    struct http_client *c = world_client(&world, false);
    const char *one = "GET /api/v1/cluster HTTP/1.1\r\nHost: t\r\n\r\n";
    struct reply r = client_request_to(c, "GET", "/api/v1/cluster", NULL);
    size_t answer = strlen(r.head) + r.body_len;
    reply_free(&r);
    c->is_deaf = true;
    size_t sent = 0;
    while (http_conn_wants_input(c->conn) && sent < 1000000) {
        client_send(c, one);
        sent++;
    }
    assert_in_range(sent, 100, 999999);
    size_t waiting = http_conn_output(c->conn).len;
    assert_in_range(waiting, 200 << 10, (300 << 10) + answer);
    c->is_deaf = false;
    size_t got = 0;
    world_run(&world);
    while ((r = client_reply(c)).status == 200) {
        reply_free(&r);
        got++;
    }
    assert_int_equal(got, sent);
}

static void a_head_and_its_body_may_come_apart(void **state)
{
    struct http_client *c = world_client(&world, false);
    client_send(c, "POST /api/v1/locks/long%2Fname/acquire?  HTTP/1.1\r\n\r\n");
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 400);
    reply_free(&r);
    c = world_client(&world, false);
    client_send(c, "POST /api/v1/locks/long%2Fname/acquire HTTP/1.1\r\nHost: t\r\n"
                   "Idempotency-Key: key-1\r\nContent-Length: 10017\r\n\r\n");
    char spaces[5000];
    memset(spaces, ' ', sizeof(spaces));
    client_send_bytes(c, spaces, sizeof(spaces));
    client_send_bytes(c, spaces, sizeof(spaces));
    client_send(c, "{\"client_id\":\"x\"}");
    expect_reply(c, 200, "acquired=true");
    expect(c, "GET", "/api/v1/locks/long/name", NULL, 200, "held=true");
    client_send(c, "POST /api/v1/locks/long/name/acquire HTTP/1.1\r\nHost: t\r\n"
                   "Idempotency-Key: key-1\r\nContent-Length: 17\r\n\r\n{\"client_id\":\"x\"}");
    expect_reply(c, 200, "acquired=true fencing_token=2048 replayed=true");
}

static void expectations_are_met(void **state)
{
    struct http_client *c = world_client(&world, false);
    client_send(c, "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
                   "Content-Length: 17\r\n\r\n");
    assert_string_equal((char *)c->got, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send(c, "{\"client_id\":\"x\"}");
    expect_reply(c, 200, "acquired=true");
    client_send(c, "POST /api/v1/nothing HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
                   "Content-Length: 17\r\n\r\n");
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 404); /* and the body need not be sent */
    assert_non_null(strstr(r.head, "Connection: close\r\n"));
    reply_free(&r);
    assert_null(c->conn);
}

/* What the node may close in favour of a new connection. */
static void a_connection_is_idle_between_requests_only(void **state)
{
    struct http_client *c = world_client(&world, false);
    assert_true(http_conn_is_idle(c->conn));
    client_send(c, "GET /livez HT");
    assert_false(http_conn_is_idle(c->conn));
    c->is_deaf = true;
    client_send(c, "TP/1.1\r\nHost: t\r\n\r\n");
    assert_false(http_conn_is_idle(c->conn)); /* the answer was not taken */
    c->is_deaf = false;
    world_run(&world);
    http_conn_written(c->conn, http_conn_output(c->conn).len);
    assert_true(http_conn_is_idle(c->conn));
    struct http_client *holder = world_client(&world, false);
    expect(holder, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"x\"}", 200,
           "acquired=true");
    assert_true(http_conn_is_idle(holder->conn)); /* the lock does not hang on the connection */
    client_send(c, "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: 41\r\n\r\n"
                   "{\"client_id\":\"y\",\"wait_timeout_ms\":60000}");
    assert_false(http_conn_is_idle(c->conn));
    struct http_client *watcher = world_client(&world, false);
    client_send(watcher, "GET /api/v1/watch HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_false(http_conn_is_idle(watcher->conn));
}

static void a_connection_closes_on_request(void **state)
{
    struct http_client *c = world_client(&world, false);
    client_send(c, "GET /livez HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\nGET /livez");
    expect_reply(c, 200, NULL);
    assert_null(c->conn);
    c = world_client(&world, false);
    client_send(c, "GET /livez HTTP/1.0\r\n\r\n");
    expect_reply(c, 200, NULL);
    assert_null(c->conn);
}

/* ---- bad ones ---- */

struct bad {
    const char *request; /* as it is, or else ... */
    const char *target;  /* ... a POST */
    const char *body;
    int status;
    const char *code;
    bool closes;
};

#define RAW(text) text, NULL, NULL
#define POST(target, body) NULL, target, body

static const struct bad bad_requests[] = {
    /* Smuggling and floods are wire's; here it matters that they end the connection. */
    {RAW("GET /livez HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: "
         "chunked\r\n\r\n"),
     400, "http_length_and_chunked", true},
    {RAW("GET /livez HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400,
     "http_content_length_repeated", true},
    {RAW("GET /livez HTTP/1.1\nHost: t\n\n"), 400, "http_bare_lf", true},
    {RAW("GET /livez HTTP/1.1\r\n\r\n"), 400, "http_host", true},
    {RAW("POST /livez HTTP/1.1\r\nHost: t\r\nContent-Length: 1048577\r\n\r\n"), 413, "limit_body",
     true},
    {RAW("GET /livez HTTP/3.0\r\nHost: t\r\n\r\n"), 505, "http_version", true},
    {RAW("BREW /livez HTTP/1.1\r\nHost: t\r\n\r\n"), 501, "http_method", true},
    /* Paths and methods. */
    {RAW("GET / HTTP/1.1\r\nHost: t\r\n\r\n"), 404, "not_found", false},
    {RAW("GET /api/v1/ HTTP/1.1\r\nHost: t\r\n\r\n"), 404, "not_found", false},
    {RAW("GET /api/v1/sessions/x/y HTTP/1.1\r\nHost: t\r\n\r\n"), 404, "not_found", false},
    {RAW("GET /api/v1/sessions/x HTTP/1.1\r\nHost: t\r\n\r\n"), 400, "invalid_id", false},
    {RAW("POST /livez HTTP/1.1\r\nHost: t\r\n\r\n"), 405, "method_not_allowed", false},
    {RAW("DELETE /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t\r\n\r\n"), 405, "method_not_allowed",
     false},
    {RAW("PUT /api/v1/fence/check HTTP/1.1\r\nHost: t\r\n\r\n"), 405, "method_not_allowed", false},
    {RAW("GET /livez?x=1 HTTP/1.1\r\nHost: t\r\n\r\n"), 400, "field_unknown", false},
    {POST("/api/v1/locks/n/acquire?x=1", "{\"client_id\":\"a\"}"), 400, "field_unknown", false},
    /* Bodies. */
    {POST("/api/v1/locks/n/acquire", ""), 400, "field_missing", false},
    {POST("/api/v1/locks/n/release", ""), 400, "json_malformed", false},
    {POST("/api/v1/locks/n/acquire", "{"), 400, "json_malformed", false},
    {POST("/api/v1/locks/n/acquire", "[]"), 400, "json_not_object", false},
    {POST("/api/v1/locks/n/acquire", "null"), 400, "json_not_object", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"\xff\"}"), 400, "json_not_utf8", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"\\u0000\"}"), 400, "json_nul", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":7}"), 400, "field_type", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"\"}"), 400, "field_range", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"\\u0001\"}"), 400, "invalid_client_id",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"client_id\":\"b\"}"), 400,
     "field_repeated", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"color\":1}"), 400, "field_unknown",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":999}"), 400, "field_range",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":0}"), 400, "field_range",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":86400001}"), 400,
     "field_range", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":1e4}"), 400, "field_type",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":\"5\"}"), 400, "field_type",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"wait_timeout_ms\":-2}"), 400,
     "field_range", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"mode\":\"odd\"}"), 400, "invalid_mode",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"mode\":\"semaphore\"}"), 400,
     "invalid_limit", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"limit\":1}"), 400, "invalid_limit",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"tier\":\"fast\"}"), 400, "field_range",
     false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"request_id\":\"a b\"}"), 400,
     "invalid_request_id", false},
    {POST("/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"seq\":1}"), 400, "invalid_request_id",
     false},
    {POST("/api/v1/locks/n/release", "{\"client_id\":\"a\"}"), 400, "field_missing", false},
    {POST("/api/v1/locks/n/release", "{\"fencing_token\":1}"), 400, "field_missing", false},
    {POST("/api/v1/locks/n/release", "{\"client_id\":\"a\",\"fencing_token\":9007199254740992}"),
     400, "field_range", false},
    {POST("/api/v1/sessions", "{}"), 400, "field_missing", false},
    {POST("/api/v1/sessions/0123456789abcdef0123456789abcdef/keepalive", "{\"a\":1}"), 400,
     "field_unknown", false},
    {RAW("GET /api/v1/watch?last_event_id=x HTTP/1.1\r\nHost: t\r\n\r\n"), 400, "field_type",
     false},
    {RAW("GET /api/v1/watch?session_id=x HTTP/1.1\r\nHost: t\r\n\r\n"), 400, "invalid_id", false},
};

static void each_bad_request_has_its_code(void **state)
{
    for (size_t i = 0; i < sizeof(bad_requests) / sizeof(bad_requests[0]); i++) {
        const struct bad *bad = &bad_requests[i];
        struct http_client *c = world_client(&world, true);
        struct reply r;
        if (bad->request != NULL) {
            client_send(c, bad->request);
            r = client_reply(c);
        } else {
            r = client_request_to(c, "POST", bad->target, bad->body);
        }
        char expected[100];
        (void)snprintf(expected, sizeof(expected), "error.code=\"%s\" error.message=*", bad->code);
        if (r.status != bad->status) {
            fail_msg("%s %s: %d instead of %d: %s",
                     bad->request != NULL ? bad->request : bad->target,
                     bad->body != NULL ? bad->body : "", r.status, bad->status,
                     r.body == NULL ? "" : r.body);
        }
        expect_json(r.body, expected);
        reply_free(&r);
        assert_int_equal(c->conn == NULL, bad->closes);
        if (!bad->closes) {
            expect(c, "GET", "/livez", NULL, 200, NULL); /* its state is sound */
        }
        client_close(c);
        c->world = NULL; /* the place is free again */
        free(c->got);
        memset(c, 0, sizeof(*c));
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        assert_int_equal(world.gateway.submitted[i], 0); /* nobody else was bothered */
    }
}

static void the_answer_to_a_wrong_method_lists_the_right_ones(void **state)
{
    static const char *const table[][3] = {
        {"DELETE", "/api/v1/locks/n/acquire", "Allow: GET, HEAD, POST, OPTIONS\r\n"},
        {"POST", "/api/v1/sessions/x", "Allow: GET, HEAD, DELETE, OPTIONS\r\n"},
        {"PUT", "/api/v1/fence/check", "Allow: POST, OPTIONS\r\n"},
    };
    struct http_client *c = world_client(&world, false);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct reply r = client_request_to(c, table[i][0], table[i][1], NULL);
        assert_int_equal(r.status, 405);
        assert_non_null(strstr(r.head, table[i][2]));
        reply_free(&r);
        r = client_request_to(c, "OPTIONS", table[i][1], NULL);
        assert_int_equal(r.status, 204);
        assert_non_null(strstr(r.head, table[i][2]));
        reply_free(&r);
    }
}

static void the_message_names_the_field(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct reply r = client_request_to(c, "POST", "/api/v1/locks/n/acquire",
                                       "{\"client_id\":\"a\",\"ttl_ms\":5}");
    char *message = json_text_at(r.body, "error.message");
    assert_string_equal(message, "ttl_ms: must be a whole number from 1000 to 86400000");
    free(message);
    reply_free(&r);
}

static void pages_of_other_origins_may_only_look(void **state)
{
    struct http_client *c = world_client(&world, false);
    client_send(c,
                "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t:4653\r\nOrigin: http://evil\r\n"
                "Content-Length: 17\r\n\r\n{\"client_id\":\"a\"}");
    expect_reply(c, 403, "error.code=\"cross_origin\"");
    client_send(c, "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t:4653\r\nOrigin: null\r\n"
                   "Content-Length: 17\r\n\r\n{\"client_id\":\"a\"}");
    expect_reply(c, 403, "error.code=\"cross_origin\"");
    client_send(c, "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t:4653\r\n"
                   "Origin: http://t:4653\r\nContent-Length: 17\r\n\r\n{\"client_id\":\"a\"}");
    expect_reply(c, 200, "acquired=true");
    client_send(c, "GET /api/v1/locks HTTP/1.1\r\nHost: t:4653\r\nOrigin: http://evil\r\n\r\n");
    expect_reply(c, 200, "locks.0=*");
}

/* The members of fake_gateway.c. */
static void pages_of_members_may_use_the_api(void **state)
{
    struct http_client *c = world_client(&world, false);
    client_send(c, "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t:4653\r\n"
                   "Origin: http://127.0.0.1:4663\r\nContent-Length: 17\r\n\r\n"
                   "{\"client_id\":\"a\"}");
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "\r\naccess-control-allow-origin: http://127.0.0.1:4663\r\n"));
    assert_non_null(strstr(r.head, "\r\nvary: Origin\r\n"));
    reply_free(&r);
    client_send(c, "OPTIONS /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t:4653\r\n"
                   "Origin: http://127.0.0.1:4653\r\n\r\n");
    r = client_reply(c);
    assert_int_equal(r.status, 204);
    assert_non_null(
        strstr(r.head, "\r\naccess-control-allow-methods: GET, HEAD, POST, OPTIONS\r\n"));
    assert_non_null(strstr(r.head, "\r\naccess-control-allow-headers: Authorization, "));
    reply_free(&r);
    static const char *const others[] = {"https://127.0.0.1:4663", "http://127.0.0.1:466",
                                         "http://127.0.0.1:46631", "http://", "127.0.0.1:4663"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text),
                       "GET /api/v1/locks HTTP/1.1\r\nHost: t:4653\r\nOrigin: %s\r\n\r\n",
                       others[i]);
        client_send(c, text);
        r = client_reply(c);
        assert_int_equal(r.status, 200);
        assert_null(strstr(r.head, "access-control"));
        reply_free(&r);
    }
}

static bool give_asset(struct slice path, struct service_asset *out)
{
    *out = (struct service_asset){slice_of("body {}"), "text/css"};
    return slice_equal(path, slice_of("/style.css"));
}

static void assets_have_a_strict_policy(void **state)
{
    struct service_options more = {.event_bytes = 64 << 10, .asset = give_asset};
    world_close(&world);
    world_open(&world, &counted.memory, &more);
    struct http_client *c = world_client(&world, false);
    struct reply r = client_request_to(c, "GET", "/style.css", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "body {}");
    assert_non_null(strstr(r.head, "connect-src 'self' http://127.0.0.1:4653 "
                                   "http://127.0.0.1:4663; img-src 'self'; "));
    assert_non_null(strstr(r.head, "; frame-ancestors 'none'\r\n"));
    reply_free(&r);
    expect(c, "GET", "/other", NULL, 404, "error.code=\"not_found\"");
    expect(c, "POST", "/style.css", NULL, 404, "error.code=\"not_found\"");
}

static bool give_page(void *ctx, struct slice path, struct buffer *out, const char **content_type)
{
    if (!slice_equal(path, slice_of("/"))) {
        return false;
    }
    *content_type = "text/html";
    return buffer_append_text(out, ctx);
}

static void pages_of_others_are_served_where_nothing_else_is(void **state)
{
    static char page[] = "<h1>dashboard</h1>";
    struct service_options more = {.event_bytes = 64 << 10, .page = give_page, .page_ctx = page};
    world_close(&world);
    world_open(&world, &counted.memory, &more);
    struct http_client *c = world_client(&world, false);
    struct reply r = client_request_to(c, "GET", "/", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, page);
    assert_non_null(strstr(r.head, "Content-Type: text/html\r\n"));
    reply_free(&r);
    expect(c, "GET", "/other", NULL, 404, "error.code=\"not_found\"");
    expect(c, "POST", "/", NULL, 404, "error.code=\"not_found\"");
    r = client_request_to(c, "GET", "/livez", NULL);
    assert_string_equal(r.body, "ok\n");
    reply_free(&r);
}

static void http2_is_recognised(void **state)
{
    struct http_client *c = world_client(&world, false);
    const char *preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    client_send_only(c, preface, strlen(preface));
    struct slice out = http_conn_output(c->conn);
    assert_true(out.len > 9);
    assert_int_equal(out.data[3], 4); /* a SETTINGS frame, on stream 0 */
    assert_memory_equal(out.data + 5, "\0\0\0\0", 4);
}

/* ---- slow ones ---- */

static void a_request_must_arrive_in_time(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *d = world_client(&world, false);
    client_send(d, "POST /api/v1/locks/n/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n");
    static const char text[] = "GET /livez HTTP";
    for (int i = 0; i < 9; i++) { /* a byte a second does not help */
        client_send_bytes(c, text + i, 1);
        world_pass(&world, 1000);
    }
    assert_non_null(c->conn);
    world_pass(&world, 1000);
    expect_reply(c, 408, "error.code=\"request_timeout\"");
    expect_reply(d, 408, "error.code=\"request_timeout\"");
    assert_null(c->conn);
    assert_null(d->conn);
}

static void an_idle_connection_is_closed_in_the_end(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "GET", "/livez", NULL, 200, NULL);
    world_pass(&world, 299999);
    assert_non_null(c->conn);
    expect(c, "GET", "/livez", NULL, 200, NULL);
    world_pass(&world, 299999);
    assert_non_null(c->conn);
    world_pass(&world, 1);
    assert_null(c->conn);
}

static void a_wait_has_no_such_end(void **state)
{
    struct http_client *a = world_client(&world, false);
    struct http_client *b = world_client(&world, false);
    expect(a, "POST", "/api/v1/locks/n/acquire", "{\"client_id\":\"a\",\"ttl_ms\":3600000}", 200,
           "acquired=true");
    (void)client_request_to(b, "POST", "/api/v1/locks/n/acquire",
                            "{\"client_id\":\"b\",\"wait_timeout_ms\":-1}");
    world_pass(&world, 3500000);
    assert_non_null(b->conn);
    world_pass(&world, 100000);
    expect_reply(b, 200, "acquired=true");
}

static void who_does_not_read_the_last_answer_is_closed(void **state)
{
    struct http_client *c = world_client(&world, false);
    c->is_deaf = true;
    client_send(c, "GET /livez HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    world_pass(&world, 9999);
    assert_non_null(c->conn);
    world_pass(&world, 1);
    assert_null(c->conn);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up_with_small_ring, tear_down)
    const struct CMUnitTest tests[] = {
        T(pipelined_requests_are_answered_in_order),
        T(requests_may_be_cut_anywhere),
        T(what_comes_behind_a_wait_waits_too),
        T(a_flood_of_requests_is_held_back),
        T(a_head_and_its_body_may_come_apart),
        T(expectations_are_met),
        T(a_connection_is_idle_between_requests_only),
        T(a_connection_closes_on_request),
        T(each_bad_request_has_its_code),
        T(the_answer_to_a_wrong_method_lists_the_right_ones),
        T(the_message_names_the_field),
        T(pages_of_other_origins_may_only_look),
        T(pages_of_members_may_use_the_api),
        T(assets_have_a_strict_policy),
        T(pages_of_others_are_served_where_nothing_else_is),
        T(http2_is_recognised),
        T(a_request_must_arrive_in_time),
        T(an_idle_connection_is_closed_in_the_end),
        T(a_wait_has_no_such_end),
        T(who_does_not_read_the_last_answer_is_closed),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
