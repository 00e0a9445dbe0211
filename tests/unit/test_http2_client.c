/* The client's end of HTTP/2 by memory, against nghttp2's own server session. */
#include "base_testing.h"

#include <nghttp2/nghttp2.h>

#include "wire/http2_client.h"

enum { STREAMS = 8, BODY_MAX = 1 << 20 };

/* What the server has heard of one stream. */
struct served {
    int32_t id;
    size_t body;
    bool is_ended;
    bool is_reset;
};

struct world {
    struct http2_client *client;
    nghttp2_session *server;
    struct served served[STREAMS];
    unsigned count;
};

/* What the owner of a request has heard. Static in each test, since streams that are left end when
 * the world is cleared. */
struct heard {
    unsigned headers;
    size_t data;
    unsigned ends;
    uint32_t error;
    bool untouched;
    char status[8];
};

static void on_header(void *call, struct slice name, struct slice value)
{
    struct heard *h = call;
    h->headers++;
    if (slice_equal(name, slice_of("grpc-status"))) {
        snprintf(h->status, sizeof(h->status), "%.*s", (int)value.len, (const char *)value.data);
    }
}

static void on_data(void *call, struct slice data)
{
    ((struct heard *)call)->data += data.len;
}

static void on_end(void *call, uint32_t error, bool untouched)
{
    struct heard *h = call;
    h->ends++;
    h->error = error;
    h->untouched = untouched;
}

static const struct http2_client_handler handler = {on_header, on_data, on_end};

/* ---- the other end ---- */

static struct served *served_of(struct world *w, int32_t id)
{
    for (unsigned i = 0; i < w->count; i++) {
        if (w->served[i].id == id) {
            return &w->served[i];
        }
    }
    assert_true(w->count < STREAMS);
    w->served[w->count].id = id;
    return &w->served[w->count++];
}

static int server_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    if (frame->hd.stream_id != 0 &&
        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA ||
         frame->hd.type == NGHTTP2_RST_STREAM)) {
        struct served *s = served_of(user, frame->hd.stream_id);
        s->is_reset = s->is_reset || frame->hd.type == NGHTTP2_RST_STREAM;
        s->is_ended = s->is_ended || (frame->hd.type != NGHTTP2_RST_STREAM &&
                                      (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0);
    }
    return 0;
}

static int server_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                       size_t len, void *user)
{
    served_of(user, id)->body += len;
    return 0;
}

static int make(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    nghttp2_session_callbacks *callbacks;
    nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 3};
    w->client = http2_client_new(memory_system(), &handler, "host:1", "test");
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, server_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, server_data);
    assert_int_equal(nghttp2_session_server_new(&w->server, callbacks, w), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(w->server, 0, &settings, 1), 0);
    *state = w;
    return 0;
}

static int clear(void **state)
{
    struct world *w = *state;
    http2_client_free(w->client);
    nghttp2_session_del(w->server);
    free(w);
    return 0;
}

/* Bytes go to and fro until nobody has any. False: the client gives up. */
static bool settle(struct world *w)
{
    for (bool moves = true; moves;) {
        struct buffer out;
        const uint8_t *data;
        moves = false;
        buffer_init(&out, memory_system(), 4 * BODY_MAX);
        http2_client_output(w->client, &out, BODY_MAX);
        if (buffer_len(&out) > 0) {
            struct slice bytes = buffer_bytes(&out);
            moves = true;
            assert_int_equal(nghttp2_session_mem_recv(w->server, bytes.data, bytes.len), bytes.len);
        }
        buffer_close(&out);
        ssize_t len = nghttp2_session_mem_send(w->server, &data);
        if (len > 0) {
            moves = true;
            /* A byte at a time: nothing may depend on how they are cut. */
            for (ssize_t i = 0; i < len; i++) {
                if (!http2_client_input(w->client, slice_make(data + i, 1))) {
                    return false;
                }
            }
        }
    }
    return true;
}

static void answer(struct world *w, int32_t id)
{
    nghttp2_nv headers[] = {
        {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "200", 7, 3, 0},
        {(uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)(uintptr_t) "0", 11, 1, 0}};
    assert_int_equal(nghttp2_submit_response(w->server, id, headers, 2, NULL), 0);
}

static struct http2_client_stream *pending(struct world *w, struct heard *h, bool keep_open)
{
    return http2_client_request(w->client, "/a/b", NULL, 0, slice_of("hello"), keep_open, h);
}

/* ---- tests ---- */

static void it_is_ready_when_the_settings_have_come(void **state)
{
    struct world *w = *state;
    assert_false(http2_client_is_ready(w->client));
    assert_true(settle(w));
    assert_true(http2_client_is_ready(w->client));
    assert_int_equal(http2_client_max_streams(w->client), 3);
}

static void a_request_is_sent_and_answered_once(void **state)
{
    struct world *w = *state;
    static struct heard h;
    assert_non_null(pending(w, &h, false));
    assert_true(settle(w));
    assert_int_equal(w->served[0].body, 5);
    assert_true(w->served[0].is_ended);
    answer(w, 1);
    assert_true(settle(w));
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.error, 0);
    assert_int_equal(h.headers, 2);
    assert_string_equal(h.status, "0");
    assert_int_equal(http2_client_streams(w->client), 0);
}

static void a_stream_that_was_kept_open_takes_more_until_its_end(void **state)
{
    struct world *w = *state;
    static struct heard h;
    struct http2_client_stream *s = pending(w, &h, true);
    assert_true(settle(w));
    assert_false(w->served[0].is_ended);
    http2_client_send(s, slice_of("more"), false);
    assert_true(settle(w));
    http2_client_send(s, slice_of("last"), true);
    http2_client_send(s, slice_of("too late"), true);
    assert_true(settle(w));
    assert_int_equal(w->served[0].body, 13);
    assert_true(w->served[0].is_ended);
}

static void an_answer_before_the_end_of_the_request_ends_the_stream(void **state)
{
    struct world *w = *state;
    static struct heard h;
    assert_non_null(pending(w, &h, true));
    assert_true(settle(w));
    answer(w, 1);
    assert_true(settle(w));
    assert_int_equal(h.ends, 1);
    assert_int_equal(h.error, 0);
}

static void what_is_longer_than_a_window_waits_for_it(void **state)
{
    struct world *w = *state;
    static struct heard h;
    uint8_t *body = calloc(1, 300000);
    assert_non_null(
        http2_client_request(w->client, "/a/b", NULL, 0, slice_make(body, 300000), false, &h));
    assert_true(settle(w));
    assert_int_equal(w->served[0].body, 300000);
    assert_true(w->served[0].is_ended);
    free(body);
}

static void a_refused_stream_was_not_touched(void **state)
{
    struct world *w = *state;
    static struct heard h;
    assert_non_null(pending(w, &h, true));
    assert_true(settle(w));
    assert_int_equal(nghttp2_submit_rst_stream(w->server, 0, 1, NGHTTP2_REFUSED_STREAM), 0);
    assert_true(settle(w));
    assert_int_equal(h.ends, 1);
    assert_true(h.untouched);
}

static void a_reset_stream_may_have_been(void **state)
{
    struct world *w = *state;
    static struct heard h;
    assert_non_null(pending(w, &h, true));
    assert_true(settle(w));
    assert_int_equal(nghttp2_submit_rst_stream(w->server, 0, 1, NGHTTP2_INTERNAL_ERROR), 0);
    assert_true(settle(w));
    assert_int_equal(h.ends, 1);
    assert_false(h.untouched);
    assert_int_equal(h.error, NGHTTP2_INTERNAL_ERROR);
}

static void goaway_tells_what_was_not_touched_and_takes_no_more(void **state)
{
    struct world *w = *state;
    static struct heard first;
    static struct heard second;
    static struct heard third;
    assert_non_null(pending(w, &first, true));
    assert_true(settle(w));
    assert_non_null(pending(w, &second, true));
    /* The second has not been seen when the other end says that it goes. */
    assert_int_equal(nghttp2_submit_goaway(w->server, 0, 1, NGHTTP2_NO_ERROR, NULL, 0), 0);
    const uint8_t *data;
    for (ssize_t len = nghttp2_session_mem_send(w->server, &data); len > 0;
         len = nghttp2_session_mem_send(w->server, &data)) {
        assert_true(http2_client_input(w->client, slice_make(data, (size_t)len)));
    }
    assert_true(http2_client_is_going(w->client));
    assert_null(pending(w, &third, false));
    answer(w, 1);
    (void)settle(w);
    assert_int_equal(first.ends, 1);
    assert_int_equal(first.error, 0);
    assert_int_equal(second.ends, 1);
    assert_true(second.untouched);
    assert_int_equal(third.ends, 0);
}

static void more_requests_than_are_taken_wait_their_turn(void **state)
{
    struct world *w = *state;
    static struct heard h[5];
    assert_true(settle(w));
    for (int i = 0; i < 5; i++) {
        assert_non_null(pending(w, &h[i], false));
    }
    assert_true(settle(w));
    assert_int_equal(w->count, 3);
    for (int i = 0; i < 5; i++) {
        answer(w, 2 * i + 1);
        assert_true(settle(w));
        assert_int_equal(h[i].ends, 1);
    }
    assert_int_equal(w->count, 5);
}

static void what_was_withdrawn_tells_its_owner_nothing(void **state)
{
    struct world *w = *state;
    static struct heard sent;
    static struct heard unsent;
    struct http2_client_stream *s = pending(w, &sent, true);
    assert_true(settle(w));
    http2_client_cancel(s);
    http2_client_cancel(pending(w, &unsent, false));
    assert_true(settle(w));
    assert_true(w->served[0].is_reset);
    assert_int_equal(w->count, 1); /* the other one never left */
    assert_int_equal(sent.ends + unsent.ends, 0);
    assert_int_equal(http2_client_streams(w->client), 0);
}

static void a_client_that_is_freed_ends_its_streams(void **state)
{
    struct world *w = *state;
    static struct heard sent;
    static struct heard unsent;
    assert_non_null(pending(w, &sent, true));
    assert_true(settle(w));
    assert_non_null(pending(w, &unsent, true));
    http2_client_free(w->client);
    w->client = NULL;
    assert_int_equal(sent.ends, 1);
    assert_false(sent.untouched);
    assert_int_equal(unsent.ends, 1);
    assert_true(unsent.untouched);
}

static void a_ping_is_answered(void **state)
{
    struct world *w = *state;
    http2_client_ping(w->client);
    assert_int_equal(http2_client_pongs(w->client), 0);
    assert_true(settle(w));
    assert_int_equal(http2_client_pongs(w->client), 1);
}

static void what_is_not_http2_is_noticed(void **state)
{
    struct world *w = *state;
    struct buffer out;
    assert_true(http2_client_input(
        w->client, slice_of("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")));
    buffer_init(&out, memory_system(), BODY_MAX);
    http2_client_output(w->client, &out, HTTP2_CLIENT_PIECE);
    assert_true(http2_client_is_over(w->client));
    buffer_close(&out);
}

#define http2_test(f) cmocka_unit_test_setup_teardown(f, make, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        http2_test(it_is_ready_when_the_settings_have_come),
        http2_test(a_request_is_sent_and_answered_once),
        http2_test(a_stream_that_was_kept_open_takes_more_until_its_end),
        http2_test(an_answer_before_the_end_of_the_request_ends_the_stream),
        http2_test(what_is_longer_than_a_window_waits_for_it),
        http2_test(a_refused_stream_was_not_touched),
        http2_test(a_reset_stream_may_have_been),
        http2_test(goaway_tells_what_was_not_touched_and_takes_no_more),
        http2_test(more_requests_than_are_taken_wait_their_turn),
        http2_test(what_was_withdrawn_tells_its_owner_nothing),
        http2_test(a_client_that_is_freed_ends_its_streams),
        http2_test(a_ping_is_answered),
        http2_test(what_is_not_http2_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
