/* The Kafka driver, with the mock cluster of librdkafka: delivery reports, brokers that are away, errors
 * that no repetition repairs, and the properties that operators may set. */
#include "base_testing.h"

#include <fcntl.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/sink_world.h"

enum { POLL_MS = 100, POLLS = 600, PRODUCE = 0 };

static const struct event_json json = {.cluster = {(const uint8_t *)"c", 1},
                                       .tenant_name = fake_tenant_name};

struct kafka_test {
    rd_kafka_t *owner;
    rd_kafka_mock_cluster_t *cluster;
    struct sink_driver *driver;
    struct sink_batch batch;
    char path[64]; /* of the properties; "": none */
};

/* The owner of the mock cluster has no brokers itself, which it would log. */
static rd_kafka_conf_t *quiet(void)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    return conf;
}

static struct kafka_test *new_test(void)
{
    struct kafka_test *t = calloc(1, sizeof(*t));
    char text[DRIVER_PROBLEM] = "";
    struct driver_trouble trouble = {0};
    t->owner = rd_kafka_new(RD_KAFKA_PRODUCER, quiet(), text, sizeof(text));
    assert_non_null(t->owner);
    t->cluster = rd_kafka_mock_cluster_new(t->owner, 1);
    assert_non_null(t->cluster);
    struct kafka_settings settings = {rd_kafka_mock_cluster_bootstraps(t->cluster), "events", "",
                                      1};
    t->driver = kafka_driver_new(&settings, text);
    assert_string_equal(text, "");
    assert_non_null(t->driver);
    assert_true(t->driver->open(t->driver, &trouble));
    sink_batch_init(&t->batch, memory_system());
    return t;
}

static void close_test(struct kafka_test *t)
{
    t->driver->close(t->driver);
    t->driver->free(t->driver);
    sink_batch_close(&t->batch);
    rd_kafka_mock_cluster_destroy(t->cluster);
    rd_kafka_destroy(t->owner);
    free(t);
}

static void fill(struct kafka_test *t, uint64_t from, uint64_t to)
{
    sink_batch_clear(&t->batch);
    for (uint64_t i = from; i <= to; i++) {
        char name[32];
        snprintf(name, sizeof(name), "name-%llu", (unsigned long long)(i % 7));
        struct logged_event r = {.kind = LOGGED_EVENT,
                                 .id = {i, 0},
                                 .event = {.type = EVENT_RELEASED, .name = slice_of(name)}};
        sink_batch_add(&t->batch, &json, slice_make(NULL, 0), &r);
    }
    t->driver->begin(t->driver, &t->batch);
}

static enum driver_step finish(struct kafka_test *t, struct driver_trouble *trouble)
{
    for (int i = 0; i < POLLS; i++) {
        memset(trouble, 0, sizeof(*trouble));
        enum driver_step step = t->driver->poll(t->driver, POLL_MS, trouble);
        if (step != DRIVER_WAITS) {
            return step;
        }
    }
    return DRIVER_WAITS;
}

static void a_batch_is_delivered_when_all_its_messages_are(void **state)
{
    (void)state;
    struct kafka_test *t = new_test();
    struct driver_trouble trouble;
    for (uint64_t i = 0; i < 3; i++) {
        fill(t, 1000 * i + 1, 1000 * i + 1000);
        assert_int_equal(t->batch.count, 1000);
        assert_int_equal(finish(t, &trouble), DRIVER_DELIVERED);
    }
    close_test(t);
}

static void a_batch_waits_for_a_broker_that_is_away(void **state)
{
    (void)state;
    struct kafka_test *t = new_test();
    struct driver_trouble trouble = {0};
    rd_kafka_mock_broker_set_down(t->cluster, 1);
    fill(t, 1, 10);
    int polls = 0;
    while (trouble.text[0] == '\0' && polls++ < POLLS) {
        assert_int_equal(t->driver->poll(t->driver, POLL_MS, &trouble), DRIVER_WAITS);
    }
    assert_string_not_equal(trouble.text, ""); /* it reports why */
    rd_kafka_mock_broker_set_up(t->cluster, 1);
    assert_int_equal(finish(t, &trouble), DRIVER_DELIVERED);
    close_test(t);
}

static void a_refused_message_fails_the_batch_which_a_new_producer_sends_again(void **state)
{
    (void)state;
    struct kafka_test *t = new_test();
    struct driver_trouble trouble;
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    rd_kafka_mock_push_request_errors_array(t->cluster, PRODUCE, 1, &error);
    fill(t, 1, 1);
    assert_int_equal(finish(t, &trouble), DRIVER_FAILED);
    assert_true(trouble.reopen);
    assert_non_null(strstr(trouble.text, "events")); /* the topic */
    t->driver->close(t->driver);
    assert_true(t->driver->open(t->driver, &trouble));
    t->driver->begin(t->driver, &t->batch);
    assert_int_equal(finish(t, &trouble), DRIVER_DELIVERED);
    close_test(t);
}

static void closing_does_not_wait_for_a_broker_that_is_away(void **state)
{
    (void)state;
    struct kafka_test *t = new_test();
    struct driver_trouble trouble = {0};
    rd_kafka_mock_broker_set_down(t->cluster, 1);
    fill(t, 1, 10);
    assert_int_equal(t->driver->poll(t->driver, POLL_MS, &trouble), DRIVER_WAITS);
    close_test(t); /* the limit of the test's duration notices if it waits */
}

/* ---- properties ---- */

/* The problem with a file of this content; "": none. */
static const char *problem_of(const char *text, mode_t mode)
{
    static char problem[DRIVER_PROBLEM];
    char path[] = "/tmp/holdfast-kafka-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    struct kafka_settings settings = {"127.0.0.1:1", "events", path, 1};
    problem[0] = '\0';
    struct sink_driver *driver = kafka_driver_new(&settings, problem);
    assert_int_equal(driver == NULL, problem[0] != '\0');
    if (driver != NULL) {
        driver->free(driver);
    }
    unlink(path);
    return problem;
}

static void properties_are_read_and_wrong_ones_named(void **state)
{
    (void)state;
    assert_string_equal(
        problem_of("# a comment\n\nlinger.ms = 10\r\ncompression.type=none\n", 0600), "");
    assert_non_null(strstr(problem_of("linger.ms=10\n", 0644), "chmod 600"));
    assert_non_null(strstr(problem_of("linger.ms=10\nno.such.thing=1\n", 0600), ":2: "));
    assert_non_null(strstr(problem_of("linger.ms\n", 0600), "property=value"));
    /* What the promise depends on. */
    static const char *const fixed[] = {
        "enable.idempotence=false\n", "acks=1\n",
        "request.required.acks=0\n",  "message.timeout.ms=5\n",
        "bootstrap.servers=x:1\n",    "plugin.library.paths=/tmp/x\n"};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        assert_non_null(strstr(problem_of(fixed[i], 0600), "cannot be changed"));
    }
    assert_non_null(strstr(
        problem_of("security.protocol=sasl_plaintext\nsasl.mechanisms=GSSAPI\n", 0600), "SCRAM"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_delivered_when_all_its_messages_are),
        cmocka_unit_test(a_batch_waits_for_a_broker_that_is_away),
        cmocka_unit_test(a_refused_message_fails_the_batch_which_a_new_producer_sends_again),
        cmocka_unit_test(closing_does_not_wait_for_a_broker_that_is_away),
        cmocka_unit_test(properties_are_read_and_wrong_ones_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
