/* Streams of events: resumed without a gap, dropped with a word, started over when too late (S9.3).
 */
#include "http_testing.h"

#include "service/state.h"

static struct http_client *watch(const char *target, const char *last_id)
{
    struct http_client *c = world_client(&world, false);
    char text[300];
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: t\r\n%s%s%s\r\n", target,
                   last_id == NULL ? "" : "Last-Event-ID: ", last_id == NULL ? "" : last_id,
                   last_id == NULL ? "" : "\r\n");
    client_send(c, text);
    return c;
}

static void act(struct http_client *c, const char *what, const char *name, uint64_t token)
{
    char target[100];
    char body[100];
    (void)snprintf(target, sizeof(target), "/api/v1/locks/%s/%s", name, what);
    (void)snprintf(body, sizeof(body),
                   token == 0 ? "{\"client_id\":\"a\"}"
                              : "{\"client_id\":\"a\",\"fencing_token\":%llu}",
                   (unsigned long long)token);
    struct reply r = client_request_to(c, "POST", target, body);
    assert_int_equal(r.status, 200);
    reply_free(&r);
}

static void free_client(struct http_client *c)
{
    client_close(c);
    free(c->got);
    memset(c, 0, sizeof(*c));
}

/* The last id in the text of a stream. */
static void last_id(const char *text, char out[64])
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, "id: ")) != NULL; at++) {
        found = at + 4;
    }
    if (found != NULL) {
        size_t len = strcspn(found, "\n");
        memcpy(out, found, len);
        out[len] = '\0';
    }
}

static void expect_text(struct http_client *c, const char *expected)
{
    char *text = client_stream(c);
    if (strcmp(text, expected) != 0) {
        fail_msg("expected\n%s\nand got\n%s", expected, text);
    }
    free(text);
}

/* ---- what it says ---- */

static void events_come_as_they_happen(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *all = watch("/api/v1/watch", NULL);
    struct http_client *some = watch("/api/v1/watch?prefix=job%2F", NULL);
    assert_non_null(strstr((char *)all->got, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr((char *)all->got, "Cache-Control: no-store\r\n"));
    expect_text(all, "id: 11-4294967295\nevent: ready\ndata: {}\n\n");
    expect_text(some, "id: 11-4294967295\nevent: ready\ndata: {}\n\n");
    act(c, "acquire", "job/1", 0);
    act(c, "acquire", "other", 0);
    const char *granted =
        "event: granted\ndata: {\"type\":\"granted\",\"at\":\"2024-11-15T08:49:37.123Z\","
        "\"name\":\"job/1\",\"client_id\":\"a\",\"mode\":\"exclusive\",\"tier\":\"CORRECTNESS\","
        "\"expires_at\":\"2024-11-15T08:50:07.123Z\"}\n\n";
    char expected[1000];
    (void)snprintf(expected, sizeof(expected), "id: 14-0\n%s", granted);
    expect_text(some, expected);
    char *text = client_stream(all);
    assert_non_null(strstr(text, granted));
    assert_non_null(strstr(text, "id: 15-0\nevent: granted\n"));
    free(text);
    act(c, "release", "job/1", 2048);
    text = client_stream(some);
    assert_non_null(strstr(text, "event: released\n"));
    assert_non_null(strstr(text, "\"ended\":\"released\""));
    free(text);
}

static void a_stream_shows_that_it_is_alive(void **state)
{
    struct http_client *c = watch("/api/v1/watch", NULL);
    free(client_stream(c));
    world_pass(&world, 14999);
    expect_text(c, "");
    world_pass(&world, 1);
    expect_text(c, ": still here\n\n");
    world_pass(&world, 15000);
    expect_text(c, ": still here\n\n");
    client_close(c);
    world_run(&world);
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.streams, 0);
}

static void an_old_client_gets_its_stream_without_chunks(void **state)
{
    struct http_client *c = world_client(&world, false);
    client_send(c, "GET /api/v1/watch HTTP/1.0\r\n\r\n");
    const char *end = strstr((char *)c->got, "\r\n\r\n");
    assert_string_equal(end + 4, "id: 11-4294967295\nevent: ready\ndata: {}\n\n");
    struct http_client *head = world_client(&world, false);
    client_send(head, "HEAD /api/v1/watch HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_non_null(strstr((char *)head->got, "Content-Length: 0\r\n"));
    assert_non_null(head->conn);
}

/* ---- limited ---- */

static void grant_some(struct http_client *c, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        char name[20];
        (void)snprintf(name, sizeof(name), "%s%d", prefix, i);
        act(c, "acquire", name, 0);
    }
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

static void expect_granted(struct http_client *c, const char *first, unsigned count)
{
    char *text = client_stream(c);
    assert_int_equal(count_of(text, "event: "), count);
    assert_int_equal(count_of(text, "event: granted\n"), count);
    assert_non_null(strstr(text, first));
    free(text);
}

static void a_limited_stream_reports_how_many_events_it_skipped(void **state)
{
    char id[64] = "";
    char expected[200];
    struct http_client *c = world_client(&world, false);
    struct http_client *whole = watch("/api/v1/watch?prefix=n", NULL);
    struct http_client *limited = watch("/api/v1/watch?prefix=n&max_rate=2", NULL);
    free(client_stream(whole));
    free(client_stream(limited));
    world_pass(&world, 5000); /* unused seconds are not saved */
    grant_some(c, "n/a", 5);
    char *text = client_stream(whole);
    last_id(text, id);
    assert_int_equal(count_of(text, "event: granted\n"), 5);
    free(text);
    grant_some(c, "other/", 3); /* not for this stream: neither sent nor counted */
    expect_granted(limited, "\"name\":\"n/a0\"", 2);
    world_pass(&world, 999);
    grant_some(c, "n/b", 1);
    expect_text(limited, "");
    text = client_stream(whole);
    last_id(text, id);
    free(text);
    world_pass(&world, 1);
    (void)snprintf(expected, sizeof(expected), "id: %s\nevent: skipped\ndata: {\"events\":4}\n\n",
                   id);
    expect_text(limited, expected);
    world_pass(&world, 500);
    expect_text(limited, ""); /* reported once */
    grant_some(c, "n/c", 3);
    expect_granted(limited, "\"name\":\"n/c0\"", 2);
    /* The report comes before the next event, and a resume from it has what followed. */
    world_pass(&world, 500);
    grant_some(c, "n/d", 1);
    text = client_stream(limited);
    assert_int_equal(count_of(text, "event: "), 2);
    const char *skipped = strstr(text, "event: skipped\ndata: {\"events\":1}\n");
    const char *granted = strstr(text, "\"name\":\"n/d0\"");
    assert_true(skipped != NULL && granted != NULL && skipped < granted);
    *strstr(text, "event: skipped") = '\0';
    last_id(text, id);
    free(text);
    struct http_client *resumed = watch("/api/v1/watch?prefix=n", id);
    text = client_stream(resumed);
    assert_int_equal(count_of(text, "event: "), 2); /* ready and n/d0 */
    assert_non_null(strstr(text, "\"name\":\"n/d0\""));
    free(text);
}

static void a_limit_must_be_a_number_and_is_not_for_sessions(void **state)
{
    struct http_client *c = world_client(&world, false);
    char target[100];
    char *id = open_session(c, "{\"client_id\":\"s\",\"ttl_ms\":60000}");
    expect(c, "GET", "/api/v1/watch?max_rate=0", NULL, 400, "error.code=\"field_range\"");
    expect(c, "GET", "/api/v1/watch?max_rate=100001", NULL, 400, "error.code=\"field_range\"");
    expect(c, "GET", "/api/v1/watch?max_rate=many", NULL, 400, "error.code=\"field_type\"");
    (void)snprintf(target, sizeof(target), "/api/v1/watch?session_id=%s&max_rate=5", id);
    expect(c, "GET", target, NULL, 400, "error.code=\"field_range\"");
    free(id);
}

/* ---- resuming ---- */

static void a_stream_is_resumed_without_a_gap_or_a_double(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *whole = watch("/api/v1/watch?prefix=n", NULL);
    struct http_client *broken = watch("/api/v1/watch?prefix=n", NULL);
    free(client_stream(whole));
    char id[64] = "";
    size_t used = 0;
    char *together = calloc(1, 64 << 10);
    for (uint64_t i = 0; i < 30; i++) {
        char name[20];
        (void)snprintf(name, sizeof(name), "n%d", (int)i);
        act(c, "acquire", name, 0);
        if (i % 3 == 1) {
            act(c, "release", name, 2048 + i * 1024);
        }
        if (i % 4 == 2) {
            char *text = client_stream(broken);
            last_id(text, id);
            used += (size_t)snprintf(together + used, 4096, "%s", text);
            free(text);
            free_client(broken);
        } else if (i % 4 == 0 && broken->world == NULL) {
            broken = watch("/api/v1/watch?prefix=n", id);
        }
    }
    if (broken->world == NULL) {
        broken = watch("/api/v1/watch?prefix=n", id);
    }
    char *text = client_stream(broken);
    (void)snprintf(together + used, 4096, "%s", text);
    free(text);
    text = client_stream(whole);
    /* Apart from the places where it was joined, it is the same text. */
    char *at = together;
    char *plain = calloc(1, 64 << 10);
    size_t len = 0;
    while (*at != '\0') {
        char *end = strstr(at, "\n\n") + 2;
        if (strstr(at, "event: ready\n") == NULL || strstr(at, "event: ready\n") > end) {
            memcpy(plain + len, at, (size_t)(end - at));
            len += (size_t)(end - at);
        }
        at = end;
    }
    assert_string_equal(plain, text);
    free(text);
    free(together);
    free(plain);
}

static void who_comes_too_late_starts_over(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *first = watch("/api/v1/watch", NULL);
    char id[64];
    char *text = client_stream(first);
    last_id(text, id);
    free(text);
    free_client(first);
    for (uint64_t i = 0; i < 600; i++) {
        char name[20];
        (void)snprintf(name, sizeof(name), "n%d", (int)i);
        act(c, "acquire", name, 0);
    }
    struct http_client *late = watch("/api/v1/watch?prefix=n29", id);
    act(c, "release", "n299", 2048 + UINT64_C(299) * 1024);
    text = client_stream(late);
    if (strncmp(text, "event: reset\ndata: {\"missing_from\":", 35) != 0) {
        fail_msg("%s", text);
    }
    assert_null(strstr(text, "event: ready"));
    size_t rows = 0;
    for (const char *at = text; (at = strstr(at, "event: lock\n")) != NULL; at++) {
        rows++;
    }
    assert_int_equal(rows, 11); /* n29, n290 to n299 */
    const char *listed = strstr(text, "event: listed\n");
    assert_non_null(listed);
    const char *released = strstr(text, "event: released\n");
    assert_true(released > listed);
    free(text);
    struct reply r;
    struct http_client *strict = watch("/api/v1/watch?reset=false", id);
    r = client_reply(strict);
    assert_int_equal(r.status, 410);
    expect_json(r.body, "error.code=\"events_trimmed\"");
    reply_free(&r);
    static const char *const wrong[] = {"list=maybe", "list=", "reset=no"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char target[64];
        (void)snprintf(target, sizeof(target), "/api/v1/watch?%s", wrong[i]);
        r = client_reply(watch(target, NULL));
        assert_int_equal(r.status, 400);
        expect_json(r.body, "error.code=\"field_range\"");
        reply_free(&r);
    }
    struct http_client *future = watch("/api/v1/watch?last_event_id=999999-0", NULL);
    text = client_stream(future);
    assert_int_equal(strncmp(text, "event: reset\n", 13), 0); /* of another life of this cluster */
    free(text);
    struct http_client *wants = watch("/api/v1/watch?list=true&prefix=n1", NULL);
    text = client_stream(wants);
    assert_int_equal(strncmp(text, "event: reset\n", 13), 0);
    assert_non_null(strstr(text, "\"name\":\"n199\""));
    free(text);
}

static void a_listing_that_the_leader_cannot_finish_ends_without_an_id(void **state)
{
    struct http_client *c = world_client(&world, false);
    act(c, "acquire", "n1", 0);
    /* The state is there, and then the leader is not, which has the other tier (S10). */
    world.gateway.is_held = true;
    struct http_client *w = watch("/api/v1/watch?list=true", NULL);
    world.gateway.is_held = false;
    assert_true(fake_gateway_deliver(&world.gateway));
    world.gateway.fails = HF_UNAVAILABLE;
    world_run(&world);
    world.gateway.fails = HF_OK;
    char *text = client_stream(w);
    assert_int_equal(strncmp(text, "event: reset\n", 13), 0);
    assert_non_null(strstr(text, "\"name\":\"n1\""));
    assert_null(strstr(text, "event: listed\n"));
    assert_null(strstr(text, "id: ")); /* who comes back begins anew, and misses nothing */
    assert_null(w->conn);
    free(text);
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.streams, 0);
    /* One that leaves meanwhile leaves nothing behind. */
    world.gateway.is_held = true;
    w = watch("/api/v1/watch?list=true", NULL);
    world.gateway.is_held = false;
    assert_true(fake_gateway_deliver(&world.gateway));
    world.gateway.is_held = true;
    world_run(&world);
    assert_non_null(world.gateway.first); /* the question to the leader */
    client_close(w);
    world_run(&world);
    world.gateway.is_held = false;
    world_run(&world);
    service_stats(world.service, &stats);
    assert_int_equal(stats.streams, 0);
}

static void a_slow_reader_is_dropped_with_a_word_and_can_resume(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *slow = watch("/api/v1/watch", NULL);
    free(client_stream(slow));
    slow->is_deaf = true;
    uint64_t count = 0;
    struct service_stats stats;
    char name[20];
    do {
        (void)snprintf(name, sizeof(name), "n%d", (int)count++);
        act(c, "acquire", name, 0);
        service_stats(world.service, &stats);
    } while (stats.dropped_streams == 0 && count < 5000);
    assert_in_range(count, 10, 4999);
    slow->is_deaf = false;
    world_run(&world);
    assert_null(slow->conn);
    char *text = client_stream(slow);
    char id[64];
    last_id(text, id);
    const char *dropped = strstr(text, "event: dropped\n");
    assert_non_null(dropped);
    assert_non_null(strstr(dropped, "too slow"));
    uint64_t seen = 0;
    for (const char *at = text; (at = strstr(at, "event: granted\n")) != NULL; at++) {
        seen++;
    }
    free(text);
    struct http_client *again = watch("/api/v1/watch", id);
    text = client_stream(again);
    assert_null(strstr(text, "event: reset\n"));
    for (const char *at = text; (at = strstr(at, "event: granted\n")) != NULL; at++) {
        seen++;
    }
    assert_int_equal(seen, count);
    free(text);
}

static void one_that_resumes_from_far_back_is_given_the_time_to_catch_up(void **state)
{
    enum { RING = 512 << 10 };
    world_close(&world);
    struct service_options options = {.event_bytes = RING};
    world_open(&world, &counted.memory, &options);
    struct http_client *c = world_client(&world, false);
    struct http_client *first = watch("/api/v1/watch", NULL);
    char *text = client_stream(first);
    char id[64];
    last_id(text, id);
    free(text);
    free_client(first);
    uint64_t count = 0;
    while (world.service->events.tail < RING / 8 * 7) {
        char name[20];
        (void)snprintf(name, sizeof(name), "n%d", (int)count++);
        act(c, "acquire", name, 0);
    }
    struct http_client *again = watch("/api/v1/watch", id);
    text = client_stream(again);
    assert_null(strstr(text, "event: dropped\n"));
    assert_null(strstr(text, "event: reset\n"));
    uint64_t seen = 0;
    for (const char *at = text; (at = strstr(at, "event: granted\n")) != NULL; at++) {
        seen++;
    }
    assert_int_equal(seen, count);
    free(text);
}

static void a_burst_larger_than_the_ring_starts_everybody_over(void **state)
{
    struct http_client *c = world_client(&world, false);
    for (uint64_t i = 0; i < 400; i++) {
        char name[20];
        (void)snprintf(name, sizeof(name), "n%d", (int)i);
        act(c, "acquire", name, 0);
    }
    struct http_client *fast = watch("/api/v1/watch", NULL);
    free(client_stream(fast));
    world_pass(&world, 30000); /* 400 expire in one entry, with two events each */
    char *text = client_stream(fast);
    assert_non_null(strstr(text, "event: reset\n"));
    assert_non_null(strstr(text, "event: listed\n"));
    free(text);
    act(c, "acquire", "n", 0);
    text = client_stream(fast);
    assert_non_null(strstr(text, "event: granted\n"));
    free(text);
}

static void a_new_state_starts_everybody_over(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *w = watch("/api/v1/watch", NULL);
    free(client_stream(w));
    world.gateway.service = NULL;
    act(c, "acquire", "n", 0);
    world.gateway.service = world.service;
    service_state_replaced(world.service);
    world_run(&world);
    char *text = client_stream(w);
    assert_int_equal(strncmp(text, "event: reset\n", 13), 0);
    assert_non_null(strstr(text, "\"name\":\"n\""));
    free(text);
}

/* What a client that follows the stream believes to be held. */
struct belief {
    bool held[40];
};

static void believe(struct belief *b, const char *text)
{
    for (const char *at = text; *at != '\0'; at = strstr(at, "\n\n") + 2) {
        const char *end = strstr(at, "\n\n");
        const char *type = strstr(at, "event: ");
        const char *name = strstr(at, "\"name\":\"n");
        if (type == NULL || type > end) {
            continue;
        }
        if (strncmp(type, "event: reset\n", 13) == 0) {
            memset(b, 0, sizeof(*b));
        }
        if (name == NULL || name > end) {
            continue;
        }
        size_t i = strtoul(name + 9, NULL, 10);
        if (strncmp(type, "event: granted\n", 15) == 0 || strncmp(type, "event: lock\n", 12) == 0) {
            b->held[i] = true;
        } else if (strncmp(type, "event: released\n", 16) == 0 ||
                   strncmp(type, "event: expired\n", 15) == 0) {
            b->held[i] = false;
        }
    }
}

/* Anything may happen: events, breaks, deafness, long absences; in the end it knows the truth. */
static void who_follows_the_stream_knows_the_truth(void **state)
{
    struct random random;
    random_init(&random, "the truth");
    struct http_client *c = world_client(&world, false);
    struct belief belief = {{false}};
    struct http_client *w = watch("/api/v1/watch?list=true", NULL);
    uint64_t tokens[40] = {0};
    char id[64] = "";
    for (int step = 0; step < 3000; step++) {
        uint32_t i = random_below(&random, 40);
        char name[20];
        (void)snprintf(name, sizeof(name), "n%u", i);
        switch (random_below(&random, 8)) {
        default:
            if (tokens[i] == 0) {
                char target[100];
                (void)snprintf(target, sizeof(target), "/api/v1/locks/%s/acquire", name);
                struct reply r = client_request_to(c, "POST", target, "{\"client_id\":\"a\"}");
                tokens[i] = json_number_at(r.body, "fencing_token");
                reply_free(&r);
            } else {
                act(c, "release", name, tokens[i]);
                tokens[i] = 0;
            }
            break;
        case 6:
            if (w != NULL) {
                w->is_deaf = random_below(&random, 2) == 0;
                world_run(&world);
            }
            break;
        case 7:
            if (w == NULL) {
                w = watch("/api/v1/watch?list=true", id[0] == '\0' ? NULL : id);
            } else if (random_below(&random, 4) == 0) {
                char *text = client_stream(w);
                last_id(text, id);
                believe(&belief, text);
                free(text);
                free_client(w);
                w = NULL;
            }
            break;
        }
        if (w != NULL && w->conn == NULL) { /* dropped */
            char *text = client_stream(w);
            last_id(text, id);
            believe(&belief, text);
            free(text);
            free_client(w);
            w = NULL;
        }
    }
    if (w == NULL) {
        w = watch("/api/v1/watch?list=true", id[0] == '\0' ? NULL : id);
    }
    w->is_deaf = false;
    world_run(&world);
    char *text = client_stream(w);
    believe(&belief, text);
    free(text);
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(belief.held[i], tokens[i] != 0);
    }
}

/* ---- elections and sessions ---- */

static void an_election_is_observed(void **state)
{
    struct http_client *c = world_client(&world, false);
    struct http_client *o = watch("/api/v1/elections/db/observe", NULL);
    char *text = client_stream(o);
    assert_non_null(strstr(text, "event: leader\ndata: {\"name\":\"db\",\"leader\":null}\n\n"));
    free(text);
    expect(c, "POST", "/api/v1/elections/db/campaign", "{\"client_id\":\"a\",\"value\":\"v1\"}",
           200, "elected=true");
    expect(c, "POST", "/api/v1/elections/other/campaign", "{\"client_id\":\"a\"}", 200, NULL);
    expect(c, "POST", "/api/v1/elections/db/proclaim",
           "{\"client_id\":\"a\",\"fencing_token\":2048,\"value\":\"v2\"}", 200, NULL);
    struct http_client *second = watch("/api/v1/elections/db/observe", NULL);
    text = client_stream(second);
    assert_non_null(strstr(text, "\"client_id\":\"a\",\"value\":\"v2\""));
    free(text);
    expect(c, "POST", "/api/v1/elections/db/resign", "{\"client_id\":\"a\",\"fencing_token\":2048}",
           200, NULL);
    text = client_stream(o);
    assert_non_null(strstr(text, "event: leader_changed\n"));
    assert_non_null(strstr(text, "\"value\":\"v1\",\"vacant\":false"));
    assert_non_null(strstr(text, "event: proclaimed\n"));
    assert_non_null(strstr(text, "\"vacant\":true")); /* no leader is an event */
    assert_null(strstr(text, "other"));
    assert_null(strstr(text, "2048"));
    free(text);
}

static void a_session_is_notified_of_its_losses(void **state)
{
    struct http_client *c = world_client(&world, true);
    char *id = open_session(c, "{\"client_id\":\"s\",\"ttl_ms\":60000,\"linger_ms\":2000}");
    char target[100];
    char body[100];
    (void)snprintf(target, sizeof(target), "/api/v1/watch?session_id=%s", id);
    struct http_client *own = watch(target, NULL);
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_THROUGH], 1);
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\"}", id);
    expect(c, "POST", "/api/v1/locks/n/acquire", body, 200, "acquired=true");
    act(c, "acquire", "other", 0);
    expect(c, "POST", "/api/v1/locks/n/revoke",
           "{\"actor_id\":\"o\",\"reason\":\"please\",\"deadline_ms\":1000}", 200, NULL);
    world_pass(&world, 1000);
    char *text = client_stream(own);
    assert_non_null(strstr(text, "event: granted\n"));
    assert_non_null(strstr(text, "event: revoke_requested\n"));
    assert_non_null(strstr(text, "event: lost\n"));
    assert_non_null(strstr(text, "\"ended\":\"revoked\""));
    assert_non_null(strstr(text, "\"fencing_token\":2048")); /* its own */
    assert_null(strstr(text, "other"));
    free(text);
    /* When the stream breaks the session lingers, and then ends (S4.6). */
    free_client(own);
    world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_DOWN], 1);
    world_pass(&world, 1999);
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s", id);
    expect(c, "GET", target, NULL, 200, "client_id=\"s\"");
    world_pass(&world, 1);
    expect(c, "GET", target, NULL, 404, NULL);
    (void)snprintf(target, sizeof(target), "/api/v1/watch?session_id=%s", id);
    own = watch(target, NULL);
    struct reply r = client_reply(own);
    assert_int_equal(r.status, 410);
    reply_free(&r);
    free(id);
}

static void a_session_hears_what_it_must_act_on_and_its_end(void **state)
{
    struct http_client *c = world_client(&world, true);
    char *id = open_session(c, "{\"client_id\":\"s\",\"ttl_ms\":60000}");
    char target[100];
    char body[100];
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s/events", id);
    struct http_client *own = watch(target, NULL);
    (void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\"}", id);
    expect(c, "POST", "/api/v1/locks/n/acquire", body, 200, "acquired=true");
    act(c, "acquire", "other", 0);
    expect(c, "POST", "/api/v1/locks/n/force-unlock", "{\"actor_id\":\"o\",\"reason\":\"stuck\"}",
           200, NULL);
    fake_gateway_apply(&world.gateway, &(struct command){.type = COMMAND_LEAD, .lead = {.node = 1}},
                       &(struct result){.error = HF_OK});
    world_run(&world);
    char *text = client_stream(own);
    assert_null(strstr(text, "event: granted\n"));
    assert_null(strstr(text, "event: forced\n"));
    const char *lost = strstr(text, "event: lost\n");
    assert_non_null(lost);
    assert_non_null(strstr(lost, "\"fencing_token\":2048"));
    assert_non_null(strstr(lost, "event: epoch\n"));
    assert_non_null(strstr(lost, "\"leader_epoch\":"));
    free(text);
    (void)snprintf(body, sizeof(body), "/api/v1/sessions/%s", id);
    expect(c, "DELETE", body, NULL, 200, "closed=true");
    world_run(&world);
    text = client_stream(own);
    assert_non_null(strstr(text, "event: session_closed\n"));
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_DOWN], 0);
    free(text);
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.streams, 0); /* it has ended */
    own = watch(target, NULL);
    struct reply r = client_reply(own);
    assert_int_equal(r.status, 410);
    reply_free(&r);
    free(id);
}

static void a_session_whose_stream_broke_at_once_lingers_too(void **state)
{
    struct http_client *c = world_client(&world, false);
    char *id = open_session(c, "{\"client_id\":\"s\",\"ttl_ms\":60000,\"linger_ms\":2000}");
    char target[100];
    (void)snprintf(target, sizeof(target), "/api/v1/watch?session_id=%s", id);
    world.gateway.is_held = true;
    struct http_client *own = watch(target, NULL);
    free_client(own);
    world.gateway.is_held = false;
    world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_STREAM_DOWN], 1);
    free(id);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up_with_small_ring, tear_down)
    const struct CMUnitTest tests[] = {
        T(events_come_as_they_happen),
        T(a_stream_shows_that_it_is_alive),
        T(an_old_client_gets_its_stream_without_chunks),
        T(a_limited_stream_reports_how_many_events_it_skipped),
        T(a_limit_must_be_a_number_and_is_not_for_sessions),
        T(a_stream_is_resumed_without_a_gap_or_a_double),
        T(who_comes_too_late_starts_over),
        T(a_listing_that_the_leader_cannot_finish_ends_without_an_id),
        T(a_slow_reader_is_dropped_with_a_word_and_can_resume),
        T(one_that_resumes_from_far_back_is_given_the_time_to_catch_up),
        T(a_burst_larger_than_the_ring_starts_everybody_over),
        T(a_new_state_starts_everybody_over),
        T(who_follows_the_stream_knows_the_truth),
        T(an_election_is_observed),
        T(a_session_is_notified_of_its_losses),
        T(a_session_hears_what_it_must_act_on_and_its_end),
        T(a_session_whose_stream_broke_at_once_lingers_too),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
