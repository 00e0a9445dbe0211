/* An idempotent producer of librdkafka. A batch is queued, then delivery reports are counted; it is
 * delivered when each message was. If one fails, the producer is closed with all that it still has,
 * and the whole batch is sent again by a new one: consumers see ids again, but none overtakes another
 * of its key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sinks/driver.h"
#include "sinks/kafka_config.h"
#include "sinks/kafka_library.h"

enum {
    LINGER_MS = 50,
    EVENTS = 1000,     /* in one batch */
    STALLED_MS = 5000, /* without a report: the last error is shown */
    PURGE_POLLS = 10,
};

struct kafka_driver {
    struct sink_driver driver; /* first */
    struct kafka_settings settings;
    rd_kafka_t *producer;
    const struct sink_batch *batch;
    uint32_t queued;
    uint32_t delivered;
    uint32_t failed;
    uint32_t waited_ms;     /* without a report */
    char text[DRIVER_TEXT]; /* the last error; "": none */
};

static struct kafka_driver *kafka_of(struct sink_driver *driver)
{
    return (struct kafka_driver *)driver;
}

/* ---- callbacks, inside of rd_kafka_poll ---- */

static void note(struct kafka_driver *k, rd_kafka_resp_err_t error, const char *reason)
{
    snprintf(k->text, sizeof(k->text), "%.100s: %.140s", kafka.err2str(error), reason);
}

static void on_report(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque)
{
    struct kafka_driver *k = opaque;
    (void)producer;
    k->waited_ms = 0;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        k->delivered++;
        return;
    }
    k->failed++;
    note(k, message->err, k->settings.topic);
}

static void on_error(rd_kafka_t *producer, int error, const char *reason, void *opaque)
{
    (void)producer;
    note(opaque, (rd_kafka_resp_err_t)error, reason);
}

/* What matters comes as an error, too. */
static void on_log(const rd_kafka_t *producer, int level, const char *facility, const char *text)
{
    (void)producer;
    (void)level;
    (void)facility;
    (void)text;
}

/* ---- a batch ---- */

static void kafka_begin(struct sink_driver *driver, const struct sink_batch *batch)
{
    struct kafka_driver *k = kafka_of(driver);
    k->batch = batch;
    k->queued = k->delivered = k->failed = k->waited_ms = 0;
    k->text[0] = '\0';
}

static rd_kafka_resp_err_t queue_row(struct kafka_driver *k, uint32_t row)
{
    static const char schema[] = {'0' + EVENT_JSON_SCHEMA};
    struct slice line = sink_batch_line(k->batch, row);
    struct slice key = sink_batch_key(k->batch, row);
    struct slice id = sink_batch_id(k->batch, row);
    return kafka.producev(
        k->producer, RD_KAFKA_V_TOPIC(k->settings.topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(key.data, key.len), RD_KAFKA_V_VALUE((void *)(uintptr_t)line.data, line.len),
        RD_KAFKA_V_HEADER("id", id.data, (ssize_t)id.len),
        RD_KAFKA_V_HEADER("schema", schema, (ssize_t)sizeof(schema)), RD_KAFKA_V_END);
}

/* False: a row was refused. */
static bool queue_rows(struct kafka_driver *k)
{
    while (k->queued < k->batch->count) {
        rd_kafka_resp_err_t error = queue_row(k, k->queued);
        if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            return true; /* after some reports */
        }
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            note(k, error, k->settings.topic);
            return false;
        }
        k->queued++;
    }
    return true;
}

static enum driver_step kafka_poll(struct sink_driver *driver, uint32_t wait_ms,
                                   struct driver_trouble *trouble)
{
    struct kafka_driver *k = kafka_of(driver);
    char fatal[DRIVER_TEXT];
    bool is_fine = queue_rows(k);
    uint32_t reports = k->delivered + k->failed;
    if (is_fine) {
        (void)kafka.poll(k->producer, (int)wait_ms);
    }
    if (k->delivered == k->batch->count) {
        return DRIVER_DELIVERED;
    }
    rd_kafka_resp_err_t error = kafka.fatal_error(k->producer, fatal, sizeof(fatal));
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        note(k, error, fatal);
        is_fine = false;
    }
    if (!is_fine || k->failed > 0) {
        memcpy(trouble->text, k->text, sizeof(trouble->text));
        trouble->reopen = true;
        return DRIVER_FAILED;
    }
    if (k->delivered + k->failed == reports) {
        k->waited_ms += wait_ms;
    }
    if (k->waited_ms >= STALLED_MS) {
        snprintf(trouble->text, sizeof(trouble->text), "%s",
                 k->text[0] != '\0' ? k->text : "the brokers do not answer");
    }
    return DRIVER_WAITS;
}

/* ---- open and close ---- */

static rd_kafka_t *make_producer(struct kafka_driver *k, char problem[DRIVER_PROBLEM])
{
    char text[DRIVER_TEXT];
    rd_kafka_conf_t *conf = kafka_config_new(&k->settings, problem);
    if (conf == NULL) {
        return NULL;
    }
    kafka.conf_set_opaque(conf, k);
    kafka.conf_set_dr_msg_cb(conf, on_report);
    kafka.conf_set_error_cb(conf, on_error);
    kafka.conf_set_log_cb(conf, on_log);
    rd_kafka_t *producer = kafka.new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (producer == NULL) {
        kafka.conf_destroy(conf);
        snprintf(problem, DRIVER_PROBLEM, "sink-kafka-config: %s", text);
    }
    return producer;
}

static bool kafka_open(struct sink_driver *driver, struct driver_trouble *trouble)
{
    struct kafka_driver *k = kafka_of(driver);
    char problem[DRIVER_PROBLEM];
    k->producer = make_producer(k, problem);
    if (k->producer == NULL) {
        snprintf(trouble->text, sizeof(trouble->text), "%.250s", problem);
    }
    return k->producer != NULL;
}

static void kafka_close(struct sink_driver *driver)
{
    struct kafka_driver *k = kafka_of(driver);
    if (k->producer == NULL) {
        return;
    }
    (void)kafka.purge(k->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    for (int i = 0; i < PURGE_POLLS && kafka.poll(k->producer, 0) > 0; i++) {
    }
    kafka.destroy_flags(k->producer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    k->producer = NULL;
}

static void kafka_free(struct sink_driver *driver)
{
    free(kafka_of(driver));
}

/* Makes a producer, to report wrong properties at the start. */
static bool check(struct kafka_driver *k, char problem[DRIVER_PROBLEM])
{
    char text[DRIVER_PROBLEM / 2];
    if (!kafka_load(text, sizeof(text))) {
        snprintf(problem, DRIVER_PROBLEM, "sink-kafka-brokers: %s", text);
        return false;
    }
    k->producer = make_producer(k, problem);
    bool is_fine = k->producer != NULL;
    kafka_close(&k->driver);
    return is_fine;
}

struct sink_driver *kafka_driver_new(const struct kafka_settings *settings,
                                     char problem[DRIVER_PROBLEM])
{
    struct kafka_driver *k = calloc(1, sizeof(*k));
    hf_assert(k != NULL);
    k->driver = (struct sink_driver){.linger_ms = LINGER_MS,
                                     .events = EVENTS,
                                     .open = kafka_open,
                                     .begin = kafka_begin,
                                     .poll = kafka_poll,
                                     .close = kafka_close,
                                     .free = kafka_free};
    k->settings = *settings;
    if (!check(k, problem)) {
        free(k);
        return NULL;
    }
    return &k->driver;
}
