/* The connection to Redis while Redis is killed, stopped, slow, or says no; and the breaker. */
#include "redis_world.h"

/* ---- the breaker ---- */

static void the_breaker_opens_after_failures_in_a_row_and_closes_after_a_trial(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 3, 100, 300);
    assert_false(breaker_failed(&b, 0));
    assert_false(breaker_failed(&b, 0));
    assert_false(breaker_succeeded(&b)); /* not in a row */
    assert_false(breaker_failed(&b, 0));
    assert_false(breaker_failed(&b, 0));
    assert_true(breaker_failed(&b, 1000));
    assert_int_equal(b.state, REDIS_OPEN);
    assert_false(breaker_failed(&b, 1050)); /* open already, and no longer by this */
    assert_false(breaker_succeeded(&b));    /* of a call from before */
    assert_int_equal(b.state, REDIS_OPEN);
    assert_false(breaker_rest(&b, 1099));
    assert_true(breaker_rest(&b, 1100));
    assert_int_equal(b.state, REDIS_HALF_OPEN);
    assert_true(breaker_failed(&b, 1200)); /* twice as long now ... */
    assert_false(breaker_rest(&b, 1399));
    assert_true(breaker_rest(&b, 1400));
    assert_true(breaker_failed(&b, 2000)); /* ... up to the bound ... */
    assert_true(breaker_rest(&b, 2300));
    assert_true(breaker_succeeded(&b));
    assert_int_equal(b.state, REDIS_CLOSED);
    breaker_failed(&b, 0);
    breaker_failed(&b, 0);
    assert_true(breaker_failed(&b, 5000)); /* ... and short again */
    assert_true(breaker_rest(&b, 5100));
    assert_int_equal(b.opened, 4);
}

/* ---- it dies and comes back ---- */

static void a_killed_redis_is_away_and_a_restarted_one_is_found_again(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_DONE);
    server_kill(&w);
    UNTIL(&w, world_view(&w).breaker == REDIS_OPEN);
    assert_false(redis_backend_is_usable(w.backend));
    struct heard h = take(&w, "b", FLOOR + 2);
    assert_int_equal(h.verdict, REDIS_AWAY);
    assert_string_equal(h.problem, "the circuit breaker is open");
    assert_true(strlen(world_view(&w).problem) > 0);
    uint64_t failed = world_view(&w).connects_failed;
    UNTIL(&w, world_view(&w).connects_failed > failed + 1);

    server_start(&w);
    UNTIL(&w, redis_backend_is_usable(w.backend));
    assert_int_equal(world_view(&w).breaker, REDIS_CLOSED);
    assert_string_equal(world_view(&w).problem, "");
    assert_string_equal(request(&w, "EXISTS lock://trial"), "1");
    assert_int_equal(take(&w, "a", FLOOR + 3).verdict, REDIS_DONE);
    assert_int_equal(world_view(&w).connects, 2);
    assert_true(w.changes >= 3);
    world_close(&w);
}

static void a_call_on_a_connection_that_dies_is_in_doubt(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.options.link.timeout_ms = TIMEOUT_MS;
    world_up(&w);
    kill(w.server, SIGSTOP);
    struct heard h[3] = {0};
    struct redis_names names = one_name("a");
    for (int i = 0; i < 3; i++) {
        redis_take(w.backend, &names, FLOOR + 1 + (uint64_t)i, FLOOR, 30000, slice_of("c"), hear,
                   &h[i]);
    }
    uv_run(&w.loop, UV_RUN_NOWAIT);
    server_kill(&w);
    UNTIL(&w, h[0].count == 1 && h[1].count == 1 && h[2].count == 1);
    assert_int_equal(h[0].verdict, REDIS_UNSURE);
    assert_int_equal(h[2].verdict, REDIS_UNSURE);
    assert_int_equal(world_view(&w).doubts, 3);
    world_close(&w);
}

static void a_call_waits_for_a_connection_that_is_being_made(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    server_start(&w);
    world_connect(&w);
    assert_false(world_view(&w).up);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_DONE);
    world_close(&w);
}

static void a_redis_that_is_not_there_at_the_start_is_away(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_connect(&w);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_AWAY);
    UNTIL(&w, world_view(&w).breaker == REDIS_OPEN);
    world_close(&w);
}

/* ---- it stands still ---- */

static void a_stopped_redis_is_in_doubt_after_the_timeout_and_then_left_alone(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.options.link.timeout_ms = TIMEOUT_MS;
    world_up(&w);
    kill(w.server, SIGSTOP);
    uint64_t begun = world_ms();
    struct heard h = take(&w, "a", FLOOR + 1);
    assert_int_equal(h.verdict, REDIS_UNSURE);
    assert_in_range(world_ms() - begun, TIMEOUT_MS / 2, 20 * TIMEOUT_MS);
    assert_int_equal(world_view(&w).timeouts, 1);
    UNTIL(&w, world_view(&w).breaker == REDIS_OPEN);
    assert_int_equal(take(&w, "a", FLOOR + 2).verdict, REDIS_AWAY);
    assert_int_equal(world_view(&w).not_sent, 1);
    assert_int_equal(world_view(&w).doubts, 1);

    /* It runs on, and does what was in its socket. The next take of this lead replaces that. */
    kill(w.server, SIGCONT);
    UNTIL(&w, redis_backend_is_usable(w.backend));
    assert_string_equal(request(&w, "EXISTS lock:a"), "1");
    assert_int_equal(take(&w, "a", FLOOR + 3).verdict, REDIS_DONE);
    assert_int_equal(give_back(&w, "a", FLOOR + 3).verdict, REDIS_DONE);
    world_close(&w);
}

static void a_redis_that_stops_while_idle_is_noticed(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.options.link.timeout_ms = TIMEOUT_MS;
    w.options.link.idle_ms = 50;
    world_up(&w);
    UNTIL(&w, world_view(&w).pings >= 2);
    assert_true(world_view(&w).up);
    kill(w.server, SIGSTOP);
    UNTIL(&w, !world_view(&w).up);
    UNTIL(&w, !redis_backend_is_usable(w.backend));
    kill(w.server, SIGCONT);
    UNTIL(&w, redis_backend_is_usable(w.backend));
    world_close(&w);
}

static void a_slow_redis_is_answered_late_or_in_doubt_and_recovers(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.options.link.timeout_ms = TIMEOUT_MS;
    world_up(&w);
    /* Slower than the timeout: another client makes it sleep. */
    redisContext *c = server_connect(&w);
    redisAppendCommand(c, "DEBUG SLEEP 0.5");
    int done = 0;
    while (!done) {
        assert_int_equal(redisBufferWrite(c, &done), REDIS_OK);
    }
    /* It sleeps from the moment when it has read that. */
    enum redis_verdict verdict = REDIS_DONE;
    for (uint64_t i = 1; verdict == REDIS_DONE && i < 100000; i++) {
        verdict = take(&w, "a", FLOOR + i).verdict;
    }
    assert_int_equal(verdict, REDIS_UNSURE);
    redisFree(c);
    UNTIL(&w, redis_backend_is_usable(w.backend) && world_view(&w).up);
    assert_int_equal(take(&w, "b", FLOOR + 1).verdict, REDIS_DONE);
    world_close(&w);
}

static void when_we_are_late_ourselves_the_answer_still_counts(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.options.link.timeout_ms = TIMEOUT_MS;
    world_up(&w);
    struct heard h = {0};
    struct redis_names names = one_name("a");
    redis_take(w.backend, &names, FLOOR + 1, FLOOR, 30000, slice_of("c"), hear, &h);
    uv_run(&w.loop, UV_RUN_NOWAIT);
    struct timespec stall = {.tv_nsec = (TIMEOUT_MS * 2) * 1000000L};
    nanosleep(&stall, NULL);
    UNTIL(&w, h.count == 1);
    assert_int_equal(h.verdict, REDIS_DONE);
    assert_int_equal(world_view(&w).timeouts, 0);
    world_close(&w);
}

/* ---- it says no ---- */

static void expect_refusals_then_recovery(struct redis_world *w, const char *word)
{
    struct heard h = take(w, "a", FLOOR + 1);
    assert_int_equal(h.verdict, REDIS_AWAY);
    assert_non_null(strstr(h.problem, word));
    for (uint64_t i = 2; redis_backend_is_usable(w->backend); i++) {
        assert_true(i < 100);
        assert_int_not_equal(take(w, "a", FLOOR + i).verdict, REDIS_DONE);
    }
    UNTIL(w, world_view(w).breaker_opened >= 2); /* the trial fails, too */
    assert_string_equal(request(w, "EXISTS lock:a"), "0");
}

static void a_redis_without_memory_refuses_and_is_left_alone(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    request(&w, "CONFIG SET maxmemory 1");
    expect_refusals_then_recovery(&w, "OOM");
    request(&w, "CONFIG SET maxmemory 0");
    UNTIL(&w, redis_backend_is_usable(w.backend));
    assert_int_equal(take(&w, "a", FLOOR + 200).verdict, REDIS_DONE);
    world_close(&w);
}

static void a_redis_that_became_a_replica_refuses_and_is_left_alone(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    request(&w, "REPLICAOF 127.0.0.1 1");
    expect_refusals_then_recovery(&w, "READONLY");
    request(&w, "REPLICAOF NO ONE");
    UNTIL(&w, redis_backend_is_usable(w.backend));
    assert_int_equal(take(&w, "a", FLOOR + 200).verdict, REDIS_DONE);
    world_close(&w);
}

static void a_password_is_given_and_a_wrong_one_is_reported(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    snprintf(w.password, sizeof(w.password), "secret with spaces");
    snprintf(w.options.link.password, sizeof(w.options.link.password), "wrong");
    server_start(&w);
    world_connect(&w);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_AWAY);
    UNTIL(&w, strstr(world_view(&w).problem, "AUTH: WRONGPASS") != NULL);
    redis_backend_close(w.backend);
    snprintf(w.options.link.password, sizeof(w.options.link.password), "%s", w.password);
    world_connect(&w);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_DONE);
    redis_backend_close(w.backend);
    request(&w, "ACL SETUSER holdfast on >pass ~lock:* +@all");
    snprintf(w.options.link.password, sizeof(w.options.link.password), "pass");
    snprintf(w.options.link.user, sizeof(w.options.link.user), "holdfast");
    world_connect(&w);
    assert_int_equal(take(&w, "b", FLOOR + 1).verdict, REDIS_DONE);
    /* None given, and one wanted. */
    redis_backend_close(w.backend);
    w.options.link.password[0] = '\0';
    world_connect(&w);
    assert_int_equal(take(&w, "c", FLOOR + 1).verdict, REDIS_AWAY);
    UNTIL(&w, strstr(world_view(&w).problem, "NOAUTH") != NULL);
    world_close(&w);
}

static void a_database_is_selected_and_a_missing_one_is_reported(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.options.link.db = 3;
    world_up(&w);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_DONE);
    assert_string_equal(request(&w, "EXISTS lock:a"), "0");
    redis_backend_close(w.backend);
    w.options.link.db = 4711;
    world_connect(&w);
    assert_int_equal(take(&w, "a", FLOOR + 2).verdict, REDIS_AWAY);
    UNTIL(&w, strstr(world_view(&w).problem, "SELECT: ERR") != NULL);
    world_close(&w);
}

/* Says the same to every command. */
struct parrot {
    struct redis_world *world;
    uv_tcp_t listener;
    uv_tcp_t client;
    bool open;
    const char *line;
    uv_write_t write;
};

static void parrot_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    static char bytes[65536];
    (void)handle;
    (void)size;
    *buffer = uv_buf_init(bytes, sizeof(bytes));
}

static void parrot_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *bytes)
{
    struct parrot *p = stream->data;
    if (len < 0) {
        p->open = false;
        uv_close((uv_handle_t *)stream, NULL);
        return;
    }
    for (ssize_t i = 0; i < len; i++) {
        if (bytes->base[i] == '*' && (i == 0 || bytes->base[i - 1] == '\n')) {
            uv_buf_t line = uv_buf_init((char *)(uintptr_t)p->line, (unsigned)strlen(p->line));
            uv_try_write(stream, &line, 1);
        }
    }
}

static void parrot_accept(uv_stream_t *listener, int status)
{
    struct parrot *p = listener->data;
    assert_int_equal(status, 0);
    assert_false(p->open);
    uv_tcp_init(listener->loop, &p->client);
    p->client.data = p;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&p->client), 0);
    p->open = true;
    uv_read_start((uv_stream_t *)&p->client, parrot_alloc, parrot_read);
}

static void parrot_open(struct parrot *p, struct redis_world *w, const char *line)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage name;
    int len = sizeof(name);
    memset(p, 0, sizeof(*p));
    p->line = line;
    uv_tcp_init(&w->loop, &p->listener);
    p->listener.data = p;
    assert_int_equal(uv_tcp_bind(&p->listener, (struct sockaddr *)&any, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&p->listener, 8, parrot_accept), 0);
    uv_tcp_getsockname(&p->listener, (struct sockaddr *)&name, &len);
    w->options.link.path[0] = '\0';
    w->options.link.address = (struct address){.host = "127.0.0.1", .port = address_port(&name)};
}

static void parrot_close(struct parrot *p)
{
    uv_close((uv_handle_t *)&p->listener, NULL);
    if (p->open) {
        uv_close((uv_handle_t *)&p->client, NULL);
    }
}

static void a_redis_that_is_loading_is_left_alone(void **state)
{
    (void)state;
    struct redis_world w;
    struct parrot p;
    world_open(&w);
    parrot_open(&p, &w, "-LOADING Redis is loading the dataset in memory\r\n");
    world_connect(&w);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_AWAY);
    UNTIL(&w, world_view(&w).breaker == REDIS_OPEN);
    UNTIL(&w, strstr(world_view(&w).problem, "LOADING") != NULL);
    parrot_close(&p);
    world_close(&w);
}

static void a_server_that_is_no_redis_is_reported(void **state)
{
    (void)state;
    static const char *const lines[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "$-1\r\n", ":1\r\n",
                                        "*1\r\n$1\r\nx\r\n"};
    for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct redis_world w;
        struct parrot p;
        world_open(&w);
        parrot_open(&p, &w, lines[i]);
        world_connect(&w);
        assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_AWAY);
        assert_false(world_view(&w).up);
        assert_true(strlen(world_view(&w).problem) > 0);
        parrot_close(&p);
        world_close(&w);
    }
}

/* ---- where it is ---- */

static void a_host_name_is_resolved_and_an_unknown_one_is_reported(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.port = free_port();
    server_start(&w);
    w.options.link.path[0] = '\0';
    w.options.link.address = (struct address){.host = "localhost", .port = w.port};
    world_connect(&w);
    /* It may be ::1 first, where nobody listens; the next attempt takes the next address. */
    UNTIL(&w, world_view(&w).up);
    redis_backend_close(w.backend);
    snprintf(w.options.link.address.host, sizeof(w.options.link.address.host), "127.0.0.1");
    world_connect(&w);
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_DONE);
    redis_backend_close(w.backend);
    snprintf(w.options.link.address.host, sizeof(w.options.link.address.host),
             "no-such-host.invalid");
    world_connect(&w);
    UNTIL(&w, world_view(&w).connects_failed > 0);
    assert_true(strlen(world_view(&w).problem) > 0);
    world_close(&w);
}

/* ---- ends ---- */

static void too_many_calls_are_refused_and_the_rest_is_forgotten_at_the_end(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    w.options.link.timeout_ms = 2 * LONG_TIMEOUT_MS;
    world_up(&w);
    kill(w.server, SIGSTOP);
    static struct heard h[REDIS_CALLS_MAX + 10];
    memset(h, 0, sizeof(h));
    struct redis_names names = one_name("a");
    for (uint32_t i = 0; i < REDIS_CALLS_MAX + 10; i++) {
        redis_take(w.backend, &names, FLOOR + 1, FLOOR, 30000, slice_of("c"), hear, &h[i]);
    }
    UNTIL(&w, h[REDIS_CALLS_MAX + 9].count == 1);
    assert_int_equal(h[REDIS_CALLS_MAX + 9].verdict, REDIS_AWAY);
    assert_int_equal(h[REDIS_CALLS_MAX].verdict, REDIS_AWAY);
    assert_int_equal(h[REDIS_CALLS_MAX - 1].count, 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_breaker_opens_after_failures_in_a_row_and_closes_after_a_trial),
        cmocka_unit_test(a_killed_redis_is_away_and_a_restarted_one_is_found_again),
        cmocka_unit_test(a_call_on_a_connection_that_dies_is_in_doubt),
        cmocka_unit_test(a_call_waits_for_a_connection_that_is_being_made),
        cmocka_unit_test(a_redis_that_is_not_there_at_the_start_is_away),
        cmocka_unit_test(a_stopped_redis_is_in_doubt_after_the_timeout_and_then_left_alone),
        cmocka_unit_test(a_redis_that_stops_while_idle_is_noticed),
        cmocka_unit_test(a_slow_redis_is_answered_late_or_in_doubt_and_recovers),
        cmocka_unit_test(when_we_are_late_ourselves_the_answer_still_counts),
        cmocka_unit_test(a_redis_without_memory_refuses_and_is_left_alone),
        cmocka_unit_test(a_redis_that_became_a_replica_refuses_and_is_left_alone),
        cmocka_unit_test(a_password_is_given_and_a_wrong_one_is_reported),
        cmocka_unit_test(a_database_is_selected_and_a_missing_one_is_reported),
        cmocka_unit_test(a_redis_that_is_loading_is_left_alone),
        cmocka_unit_test(a_server_that_is_no_redis_is_reported),
        cmocka_unit_test(a_host_name_is_resolved_and_an_unknown_one_is_reported),
        cmocka_unit_test(too_many_calls_are_refused_and_the_rest_is_forgotten_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
