/* Watches that resume from before the ring read the event log and join the live stream: nothing is lost
 * or sent twice, gaps are named, and errors end the stream where it can be resumed (S9.3). */
#include "http_testing.h"

#include "events/event_codec.h"
#include "service/state.h"

enum { TEXT_MAX = 4 << 20, KEPT_MAX = 20000, PAGE_MAX = 64 };

/* The event log of the test: what the gateway reported. */
static struct kept_event {
    uint8_t *bytes;
    size_t len;
} kept[KEPT_MAX];
static uint32_t kept_count;

static void keep(void *ctx, const struct event *event)
{
    uint8_t bytes[EVENT_BYTES_MAX];
    struct kept_event *k = &kept[kept_count++];
    assert_true(kept_count < KEPT_MAX);
    k->len = event_encode(event, CORE_VERSION, bytes);
    k->bytes = malloc(k->len);
    memcpy(k->bytes, bytes, k->len);
}

static int open_world(void **state)
{
    set_up_with_small_ring(state);
    world.gateway.on_event = keep;
    world.gateway.events.is_kept = true;
    world.gateway.events.complete_index = 0;
    return 0;
}

static int close_world(void **state)
{
    for (uint32_t i = 0; i < kept_count; i++) {
        free(kept[i].bytes);
    }
    kept_count = 0;
    return tear_down(state);
}

/* Answers the search with at most `most` events, and with these gaps. */
static void answer(uint32_t most, const struct event_gap *gap)
{
    static struct logged_event records[PAGE_MAX + 1];
    const struct event_scan *scan = &world.gateway.scanned;
    struct gateway_scan_call *call = world.gateway.scan;
    struct event_page page = {.records = records, .read_to = world.gateway.index};
    assert_non_null(call);
    assert_true(scan->is_continued && !scan->newest_first && scan->kinds == SCAN_EVENTS);
    assert_true(most <= PAGE_MAX);
    for (uint32_t i = 0; i < kept_count; i++) {
        struct logged_event *record = &records[page.count];
        bool fine = event_decode(slice_make(kept[i].bytes, kept[i].len), &record->event);
        assert_true(fine);
        struct event_position at = {record->event.index, record->event.ordinal, 0};
        if (!event_position_after(at, scan->after)) {
            continue;
        }
        if (page.count == most) {
            page.more = true;
            break;
        }
        record->kind = LOGGED_EVENT;
        record->id = (struct event_id){at.index, at.ordinal};
        page.next = at;
        page.count++;
    }
    if (gap != NULL) {
        page.gaps[0] = *gap;
        page.gap_count = 1;
    }
    world.gateway.scan = NULL;
    call->done(call, HF_OK, &page, NULL);
    world_run(&world);
}

static void refuse(enum hf_error error, const char *why)
{
    struct gateway_scan_call *call = world.gateway.scan;
    assert_non_null(call);
    world.gateway.scan = NULL;
    call->done(call, error, NULL, why);
    world_run(&world);
}

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

static void act(struct http_client *c, const char *name)
{
    char target[100];
    (void)snprintf(target, sizeof(target), "/api/v1/locks/%s/acquire", name);
    struct reply r = client_request_to(c, "POST", target, "{\"client_id\":\"a\"}");
    assert_int_equal(r.status, 200);
    reply_free(&r);
}

/* Each acts on a new name, so that each makes an event. */
static void fill(struct http_client *c, uint32_t count)
{
    static uint32_t used;
    for (uint32_t i = 0; i < count; i++) {
        char name[20];
        (void)snprintf(name, sizeof(name), "n%u", used++);
        act(c, name);
    }
}

static void leave(struct http_client *c)
{
    client_close(c);
    free(c->got);
    memset(c, 0, sizeof(*c));
    world_run(&world);
}

/* Appends the events of the stream to `to`, without `ready`, and keeps the last id. */
static void collect(struct http_client *c, char *to, char id[64])
{
    char *text = client_stream(c);
    size_t len = strlen(to);
    for (char *at = text; *at != '\0';) {
        char *end = strstr(at, "\n\n");
        assert_non_null(end);
        end += 2;
        if (strncmp(at, "id: ", 4) == 0) {
            size_t id_len = strcspn(at + 4, "\n");
            memcpy(id, at + 4, id_len);
            id[id_len] = '\0';
        }
        char *ready = strstr(at, "event: ready\n");
        if (ready == NULL || ready > end) {
            assert_true(len + (size_t)(end - at) < TEXT_MAX);
            memcpy(to + len, at, (size_t)(end - at));
            len += (size_t)(end - at);
        }
        at = end;
    }
    to[len] = '\0';
    free(text);
}

/* A client with an id from before the ring. */
static struct http_client *late_client(const char *target, char id[64])
{
    struct http_client *c = world_client(&world, false);
    struct http_client *first = watch("/api/v1/watch", NULL);
    char *ignored = calloc(1, TEXT_MAX);
    collect(first, ignored, id);
    free(ignored);
    leave(first);
    fill(c, 600);
    return watch(target, id);
}

static void a_late_client_reads_the_log_and_joins_the_live_stream(void **state)
{
    char id[64];
    char *got = calloc(1, TEXT_MAX);
    struct http_client *late = late_client("/api/v1/watch?prefix=n", id);
    assert_int_equal(world.gateway.scanned.match, SCAN_PREFIX);
    assert_int_equal(world.gateway.scanned.after.sub, UINT32_MAX);
    uint32_t pages = 0;
    while (world.gateway.scan != NULL) {
        answer(50, NULL);
        collect(late, got, id);
        pages++;
    }
    assert_true(pages > 3 && pages < 13); /* the ring has the rest */
    fill(world_client(&world, false), 3);
    collect(late, got, id);
    uint32_t events = 0;
    uint64_t before = 0;
    for (const char *at = got; (at = strstr(at, "id: ")) != NULL; at++) {
        uint64_t index = strtoull(at + 4, NULL, 10);
        assert_true(index > before);
        before = index;
        events++;
    }
    assert_int_equal(events, 603);
    assert_null(strstr(got, "event: reset\n"));
    free(got);
}

static bool is_in_ring(const char *id)
{
    uint64_t position;
    uint64_t index = strtoull(id, NULL, 10);
    return event_ring_find(&world.service->events, (struct event_id){index, 0}, &position);
}

/* Without a stream for a minute, each event is only in the log. The first stream changes that. */
static void a_node_without_streams_keeps_events_in_the_log_only(void **state)
{
    char id[64];
    char *got = calloc(1, TEXT_MAX);
    struct http_client *c = world_client(&world, false);
    struct http_client *first = watch("/api/v1/watch?prefix=n", NULL);
    fill(c, 2);
    collect(first, got, id);
    world_pass(&world, 61000);
    world_pass(&world, 61000); /* it is still there */
    fill(c, 1);
    assert_true(is_in_ring(id));
    collect(first, got, id);
    leave(first);
    world_pass(&world, 61000); /* it was there a minute ago */
    fill(c, 1);
    assert_true(is_in_ring(id));
    world_pass(&world, 61000);
    fill(c, 2);
    assert_false(is_in_ring(id));
    assert_int_equal(world.service->events.head, world.service->events.tail);
    struct http_client *late = watch("/api/v1/watch?prefix=n", id);
    fill(c, 2); /* in the ring again */
    assert_non_null(world.gateway.scan);
    answer(PAGE_MAX, NULL);
    collect(late, got, id);
    fill(c, 1);
    collect(late, got, id);
    assert_null(world.gateway.scan);
    uint32_t events = 0;
    uint64_t before = 0;
    for (const char *at = got; (at = strstr(at, "id: ")) != NULL; at++) {
        uint64_t index = strtoull(at + 4, NULL, 10);
        const char *type = strchr(at, '\n');
        assert_true(index >= before); /* holds that expire may share an entry */
        before = index;
        events += strncmp(type, "\nevent: granted\n", 16) == 0;
    }
    assert_int_equal(events, 9);
    assert_null(strstr(got, "event: reset\n"));
    leave(late);
    /* A new stream begins with what comes now. */
    world_pass(&world, 61000);
    world_pass(&world, 61000);
    fill(c, 1);
    late = watch("/api/v1/watch?prefix=n", NULL);
    got[0] = '\0';
    fill(c, 1);
    collect(late, got, id);
    const char *granted = strstr(got, "event: granted\n");
    assert_non_null(granted);
    assert_null(strstr(granted + 1, "event: granted\n"));
    free(got);
}

static void the_ring_is_kept_where_the_log_is_not_complete(void **state)
{
    struct http_client *c = world_client(&world, false);
    fill(c, 1);
    world.gateway.events.dropped = 7;
    world_pass(&world, 61000);
    world_pass(&world, 1);
    fill(c, 1);
    assert_true(world.service->events.head < world.service->events.tail);
    world.gateway.events.dropped = 8;
    world_pass(&world, 61000);
    fill(c, 1);
    assert_true(world.service->events.head < world.service->events.tail);
    world.gateway.events.is_kept = false;
    world_pass(&world, 61000);
    world_pass(&world, 61000);
    fill(c, 1);
    assert_true(world.service->events.head < world.service->events.tail);
    world.gateway.events.is_kept = true;
    world_pass(&world, 61000);
    fill(c, 1);
    assert_true(world.service->events.head == world.service->events.tail);
    world.gateway.events.dropped = 9; /* it begins to lose records */
    world_pass(&world, 61000);
    fill(c, 1);
    assert_true(world.service->events.head < world.service->events.tail);
}

static void whatever_happens_each_event_comes_once_and_in_order(void **state)
{
    struct random random;
    random_init(&random, "the replay");
    for (uint32_t round = 0; round < 3; round++) {
        struct http_client *c = world_client(&world, false);
        struct http_client *whole = watch("/api/v1/watch?prefix=n", NULL);
        struct http_client *broken = watch("/api/v1/watch?prefix=n", NULL);
        char *truth = calloc(1, TEXT_MAX);
        char *got = calloc(1, TEXT_MAX);
        char id[64];
        char ignored[64];
        collect(broken, got, id);
        for (uint32_t i = 0; i < 400; i++) {
            fill(c, random_below(&random, 12));
            collect(whole, truth, ignored);
            if (broken != NULL && broken->conn == NULL) { /* dropped: too slow */
                collect(broken, got, id);
                leave(broken);
                broken = NULL;
            }
            switch (random_below(&random, 6)) {
            case 0:
                if (broken != NULL) {
                    broken->is_deaf = random_below(&random, 2) == 0;
                    world_run(&world);
                }
                break;
            case 1:
                if (broken == NULL) {
                    broken = watch("/api/v1/watch?prefix=n", id);
                } else if (random_below(&random, 3) == 0) {
                    broken->is_deaf = false;
                    world_run(&world);
                    collect(broken, got, id);
                    leave(broken);
                    broken = NULL;
                    fill(c, random_below(&random, 300));
                    collect(whole, truth, ignored);
                }
                break;
            default:
                if (world.gateway.scan != NULL) {
                    if (random_below(&random, 8) == 0) {
                        refuse(HF_BUSY, "full");
                        world_pass(&world, 100);
                    } else {
                        answer(random_below(&random, PAGE_MAX), NULL);
                    }
                }
                break;
            }
        }
        if (broken == NULL || broken->conn == NULL) {
            if (broken != NULL) {
                collect(broken, got, id);
                leave(broken);
            }
            broken = watch("/api/v1/watch?prefix=n", id);
        }
        broken->is_deaf = false;
        world_run(&world);
        while (world.gateway.scan != NULL) {
            answer(PAGE_MAX, NULL);
        }
        collect(broken, got, id);
        collect(whole, truth, ignored);
        /* Apart from `dropped`, it is the same text. */
        char *plain = calloc(1, TEXT_MAX);
        size_t len = 0;
        for (char *at = got; *at != '\0';) {
            char *end = strstr(at, "\n\n") + 2;
            char *dropped = strstr(at, "event: dropped\n");
            if ((dropped == NULL || dropped > end) && *at != ':') {
                memcpy(plain + len, at, (size_t)(end - at));
                len += (size_t)(end - at);
            }
            at = end;
        }
        assert_null(strstr(plain, "event: reset\n"));
        char *expected = calloc(1, TEXT_MAX);
        len = 0;
        for (char *at = truth; *at != '\0';) {
            char *end = strstr(at, "\n\n") + 2;
            if (*at != ':') {
                memcpy(expected + len, at, (size_t)(end - at));
                len += (size_t)(end - at);
            }
            at = end;
        }
        assert_true(strlen(expected) > 50000);
        assert_string_equal(plain, expected);
        free(truth);
        free(got);
        free(plain);
        free(expected);
        leave(broken);
        leave(whole);
        leave(c);
    }
}

static void a_log_that_lacks_events_resets_the_stream_with_the_numbers(void **state)
{
    char id[64];
    struct http_client *c = world_client(&world, false);
    struct http_client *first = watch("/api/v1/watch", NULL);
    char *text = calloc(1, TEXT_MAX);
    collect(first, text, id);
    fill(c, 600);
    world.gateway.events.complete_index = 40;
    struct http_client *late = watch("/api/v1/watch?prefix=n", "20-0");
    assert_null(world.gateway.scan);
    free(text);
    text = client_stream(late);
    const char *reset = "event: reset\ndata: {\"missing_from\":20,\"missing_to\":40}\n\n";
    assert_int_equal(strncmp(text, reset, strlen(reset)), 0);
    assert_non_null(strstr(text, "event: listed\n"));
    free(text);
    struct reply r = client_reply(watch("/api/v1/watch?reset=false", "20-4294967295"));
    assert_int_equal(r.status, 410);
    expect_json(r.body, "error.code=\"events_trimmed\"");
    assert_non_null(strstr(r.body, "events of the log entries 21 to 40 are not on this node"));
    reply_free(&r);
    /* The rest of this entry is missing, too; that after its end is not. */
    late = watch("/api/v1/watch?prefix=n", "40-0");
    assert_null(world.gateway.scan);
    late = watch("/api/v1/watch?prefix=n", "40-4294967295");
    assert_non_null(world.gateway.scan);
    leave(late);
    assert_null(world.gateway.scan);
    assert_int_equal(world.service->replays, 0);
    late = watch("/api/v1/watch?prefix=n", "41-0");
    assert_non_null(world.gateway.scan);
}

static void a_gap_that_appears_meanwhile_resets_or_ends_the_stream(void **state)
{
    char id[64];
    const struct event_gap old = {.from = 1, .to = 11};
    const struct event_gap gap = {.from = 90, .to = 120};
    struct http_client *late = late_client("/api/v1/watch?prefix=n59", id);
    answer(30, &old); /* before what is needed */
    char *text = client_stream(late);
    assert_null(strstr(text, "reset"));
    free(text);
    answer(30, &gap);
    text = client_stream(late);
    const char *reset = "event: reset\ndata: {\"missing_from\":91,\"missing_to\":120}\n\n";
    assert_non_null(strstr(text, reset));
    assert_non_null(strstr(text, "event: listed\n"));
    free(text);
    assert_null(world.gateway.scan);
    fill(world_client(&world, false), 1);
    late = watch("/api/v1/watch?reset=false", id);
    answer(30, &gap);
    text = client_stream(late);
    assert_non_null(strstr(text, "event: dropped\n"));
    assert_non_null(strstr(text, "events of the log entries 91 to 120 are not on this node"));
    assert_null(late->conn);
    free(text);
}

static void a_log_that_cannot_be_read_ends_the_stream_where_it_resumes(void **state)
{
    char id[64];
    char *got = calloc(1, TEXT_MAX);
    struct http_client *late = late_client("/api/v1/watch?prefix=n", id);
    answer(10, NULL);
    refuse(HF_BUSY, "full");
    assert_null(world.gateway.scan);
    world_pass(&world, 99);
    assert_null(world.gateway.scan);
    world_pass(&world, 1);
    assert_non_null(world.gateway.scan);
    refuse(HF_EVENT_LOG, "the disk is gone");
    collect(late, got, id);
    assert_non_null(strstr(got, "event: dropped\n"));
    assert_non_null(strstr(got, "the disk is gone"));
    assert_null(late->conn);
    /* It resumes after what it has. */
    late = watch("/api/v1/watch?prefix=n", id);
    while (world.gateway.scan != NULL) {
        answer(PAGE_MAX, NULL);
    }
    collect(late, got, id);
    uint32_t events = 0;
    for (const char *at = got; (at = strstr(at, "event: granted\n")) != NULL; at++) {
        events++;
    }
    assert_int_equal(events, 600);
    /* A log that stays behind is not read for ever. */
    leave(late);
    fill(world_client(&world, false), 600);
    late = watch("/api/v1/watch?prefix=n", id);
    for (uint32_t i = 0; i < 100 && late->conn != NULL; i++) {
        refuse(HF_BUSY, "full");
        world_pass(&world, 100);
    }
    assert_null(late->conn);
    assert_int_equal(world.service->replays, 0);
    free(got);
}

static void a_new_state_is_bridged_by_the_log(void **state)
{
    char id[64] = "";
    char *got = calloc(1, TEXT_MAX);
    struct http_client *c = world_client(&world, false);
    struct http_client *w = watch("/api/v1/watch?prefix=n", NULL);
    fill(c, 5);
    service_state_replaced(
        world.service); /* the ring is empty; the log was filled by another node */
    world_run(&world);
    fill(c, 5);
    while (world.gateway.scan != NULL) {
        answer(3, NULL);
    }
    collect(w, got, id);
    assert_null(strstr(got, "event: reset\n"));
    uint32_t events = 0;
    for (const char *at = got; (at = strstr(at, "event: granted\n")) != NULL; at++) {
        events++;
    }
    assert_int_equal(events, 10);
    free(got);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(a_late_client_reads_the_log_and_joins_the_live_stream),
        T(a_node_without_streams_keeps_events_in_the_log_only),
        T(the_ring_is_kept_where_the_log_is_not_complete),
        T(whatever_happens_each_event_comes_once_and_in_order),
        T(a_log_that_lacks_events_resets_the_stream_with_the_numbers),
        T(a_gap_that_appears_meanwhile_resets_or_ends_the_stream),
        T(a_log_that_cannot_be_read_ends_the_stream_where_it_resumes),
        T(a_new_state_is_bridged_by_the_log),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
