/* The webhook driver, with a receiver of HTTP on a thread of the test: the request, its signature, and what
 * each answer means. */
#include "base_testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/sink_world.h"
#include "tls/digest.h"

enum { POLL_MS = 100, POLLS = 600, REQUEST = 1 << 16 };

static const struct event_json json = {.cluster = {(const uint8_t *)"c", 1},
                                       .tenant_name = fake_tenant_name};
static const char secret[] = "0123456789abcdef0123456789abcdef";

struct webhook_test {
    int listener;
    uint16_t port;
    pthread_t thread;
    const char *answer;    /* of the next request; "": the connection is closed without one */
    char request[REQUEST]; /* the last */
    char path[64];         /* of the secret */
    char url[64];
    struct sink_driver *driver;
    struct sink_batch batch;
};

/* ---- the receiver ---- */

/* A request has come whole: its head says how long its body is. */
static bool is_whole(const char *text, size_t len)
{
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = strstr(text, "Content-Length: ");
    return end != NULL && length != NULL &&
           len >= (size_t)(end + 4 - text) + strtoul(length + 16, NULL, 10);
}

static void *receive(void *ctx)
{
    struct webhook_test *t = ctx;
    int fd = accept(t->listener, NULL, NULL);
    size_t len = 0;
    ssize_t got;
    memset(t->request, 0, sizeof(t->request));
    while (!is_whole(t->request, len) &&
           (got = read(fd, t->request + len, sizeof(t->request) - 1 - len)) > 0) {
        len += (size_t)got;
    }
    if (t->answer[0] != '\0') {
        (void)!write(fd, t->answer, strlen(t->answer));
    }
    close(fd);
    return NULL;
}

/* ---- the test ---- */

static void write_secret(struct webhook_test *t)
{
    snprintf(t->path, sizeof(t->path), "/tmp/holdfast-webhook-XXXXXX");
    int fd = mkstemp(t->path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, secret, strlen(secret)), (ssize_t)strlen(secret));
    close(fd);
}

static struct webhook_test *new_test(void)
{
    struct webhook_test *t = calloc(1, sizeof(*t));
    char problem[DRIVER_PROBLEM] = "";
    struct driver_trouble trouble = {0};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    t->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(t->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(t->listener, 4), 0);
    assert_int_equal(getsockname(t->listener, (struct sockaddr *)&address, &len), 0);
    write_secret(t);
    snprintf(t->url, sizeof(t->url), "http://127.0.0.1:%u/hook", ntohs(address.sin_port));
    struct webhook_settings settings = {t->url, t->path, "", false, 30000};
    t->driver = webhook_driver_new(&settings, problem);
    assert_string_equal(problem, "");
    assert_true(t->driver->open(t->driver, &trouble));
    sink_batch_init(&t->batch, memory_system());
    for (uint64_t i = 1; i <= 3; i++) {
        struct logged_event r = {.kind = LOGGED_EVENT,
                                 .id = {i, 0},
                                 .event = {.type = EVENT_RELEASED, .name = slice_of("a")}};
        sink_batch_add(&t->batch, &json, slice_make(NULL, 0), &r);
    }
    return t;
}

static void close_test(struct webhook_test *t)
{
    t->driver->close(t->driver);
    t->driver->free(t->driver);
    sink_batch_close(&t->batch);
    close(t->listener);
    unlink(t->path);
    free(t);
}

static enum driver_step post(struct webhook_test *t, const char *answer,
                             struct driver_trouble *trouble)
{
    enum driver_step step = DRIVER_WAITS;
    t->answer = answer;
    assert_int_equal(pthread_create(&t->thread, NULL, receive, t), 0);
    t->driver->begin(t->driver, &t->batch);
    for (int i = 0; i < POLLS && step == DRIVER_WAITS; i++) {
        memset(trouble, 0, sizeof(*trouble));
        step = t->driver->poll(t->driver, POLL_MS, trouble);
    }
    pthread_join(t->thread, NULL);
    return step;
}

#define OK "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"

static void the_body_is_an_array_and_the_signature_is_of_it(void **state)
{
    (void)state;
    struct webhook_test *t = new_test();
    struct driver_trouble trouble;
    assert_int_equal(post(t, OK, &trouble), DRIVER_DELIVERED);
    assert_true(strncmp(t->request, "POST /hook HTTP/1.1\r\n", 21) == 0);
    assert_non_null(strstr(t->request, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(t->request, "\r\nHoldfast-Schema: 1\r\n"));
    const char *body = strstr(t->request, "\r\n\r\n") + 4;
    assert_true(strncmp(body, "[{\"id\":\"1-0\"", 12) == 0);
    assert_string_equal(body + strlen(body) - 2, "}]");
    const char *signature = strstr(t->request, "\r\nHoldfast-Signature: t=");
    assert_non_null(signature);
    const char *time = signature + 24;
    const struct slice parts[] = {slice_make(time, strcspn(time, ",")), slice_of("."),
                                  slice_of(body)};
    uint8_t mac[DIGEST_SIZE];
    digest_hmac(slice_of(secret), parts, 3, mac);
    const char *sent = strstr(time, ",v1=") + 4;
    for (size_t i = 0; i < sizeof(mac); i++) {
        char digits[3];
        snprintf(digits, sizeof(digits), "%02x", mac[i]);
        assert_memory_equal(sent + 2 * i, digits, 2);
    }
    close_test(t);
}

static void each_other_answer_is_a_failure(void **state)
{
    (void)state;
    struct webhook_test *t = new_test();
    struct driver_trouble trouble;
    assert_int_equal(post(t, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", &trouble),
                     DRIVER_FAILED);
    assert_non_null(strstr(trouble.text, "500"));
    assert_false(trouble.too_large);
    assert_int_equal(trouble.retry_after_ms, 0);
    assert_int_equal(
        post(t, "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", &trouble),
        DRIVER_FAILED);
    assert_int_equal(trouble.retry_after_ms, 7000);
    assert_int_equal(post(t, "HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n", &trouble),
                     DRIVER_FAILED);
    assert_true(trouble.too_large);
    assert_int_equal(
        post(t, "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", &trouble),
        DRIVER_FAILED);
    assert_non_null(strstr(trouble.text, "redirects are not followed"));
    assert_int_equal(post(t, "", &trouble), DRIVER_FAILED); /* closed without an answer */
    assert_string_not_equal(trouble.text, "");
    assert_int_equal(post(t, OK, &trouble), DRIVER_DELIVERED);
    close_test(t);
}

static const char *problem_of(const char *url, const char *path, bool allow_http)
{
    static char problem[DRIVER_PROBLEM];
    struct webhook_settings settings = {url, path, "", allow_http, 1000};
    problem[0] = '\0';
    struct sink_driver *driver = webhook_driver_new(&settings, problem);
    assert_int_equal(driver == NULL, problem[0] != '\0');
    if (driver != NULL) {
        driver->free(driver);
    }
    return problem;
}

static void addresses_that_would_show_events_are_refused(void **state)
{
    (void)state;
    struct webhook_test *t = new_test();
    assert_string_equal(problem_of("https://example.org/hook", t->path, false), "");
    assert_string_equal(problem_of("http://localhost:1/hook", t->path, false), "");
    assert_string_equal(problem_of("http://[::1]:1/hook", t->path, false), "");
    assert_string_equal(problem_of("http://example.org/hook", t->path, true), "");
    assert_non_null(strstr(problem_of("http://example.org/hook", t->path, false), "https://"));
    assert_non_null(
        strstr(problem_of("http://127.0.0.1.example.org/", t->path, false), "https://"));
    assert_non_null(
        strstr(problem_of("http://localhost.example.org/", t->path, false), "https://"));
    assert_non_null(strstr(problem_of("ftp://example.org/", t->path, true), "https://"));
    assert_non_null(strstr(problem_of("https://user@example.org/", t->path, true), "user name"));
    assert_non_null(strstr(problem_of("https://example.org/", "/nonexistent", false),
                           "sink-webhook-secret-file"));
    assert_int_equal(chmod(t->path, 0644), 0);
    assert_non_null(strstr(problem_of("https://example.org/", t->path, false), "chmod 600"));
    close_test(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_body_is_an_array_and_the_signature_is_of_it),
        cmocka_unit_test(each_other_answer_is_a_failure),
        cmocka_unit_test(addresses_that_would_show_events_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
