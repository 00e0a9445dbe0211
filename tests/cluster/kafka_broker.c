/* A Kafka cluster for tests: the mock cluster of librdkafka, reached over TCP.
 *
 *     kafka_broker BROKERS
 *
 * Prints "HOST:PORT,..." and reads commands from the standard input, each answered with "ok":
 *
 *     down          all brokers close their connections and accept none
 *     up            they are back, with all that they had
 *     refuse N      the next N produce requests fail with an error that producers repeat
 *     slow MS       each answer is delayed
 *
 * It ends with the standard input. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 256, PRODUCE = 0, REFUSED_MAX = 100 };

struct brokers {
    rd_kafka_mock_cluster_t *cluster;
    int count;
};

static void refuse(const struct brokers *b, int count)
{
    rd_kafka_resp_err_t errors[REFUSED_MAX];
    count = count > REFUSED_MAX ? REFUSED_MAX : count;
    for (int i = 0; i < count; i++) {
        errors[i] = RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    }
    rd_kafka_mock_push_request_errors_array(b->cluster, PRODUCE, (size_t)count, errors);
}

static int obey(const struct brokers *b, const char *line)
{
    int number = 0;
    for (int id = 1; id <= b->count; id++) {
        if (strcmp(line, "down\n") == 0) {
            rd_kafka_mock_broker_set_down(b->cluster, id);
        } else if (strcmp(line, "up\n") == 0) {
            rd_kafka_mock_broker_set_up(b->cluster, id);
        } else if (sscanf(line, "slow %d", &number) == 1) {
            rd_kafka_mock_broker_set_rtt(b->cluster, id, number);
        } else if (sscanf(line, "refuse %d", &number) == 1 && number > 0) {
            refuse(b, number);
            return 0;
        } else {
            return -1;
        }
    }
    return 0;
}

/* The owner of the mock cluster has no brokers itself, which it would log. */
static rd_kafka_conf_t *quiet(void)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    return conf;
}

int main(int count, char **arguments)
{
    char text[TEXT] = "";
    struct brokers b = {.count = count == 2 ? (int)strtol(arguments[1], NULL, 10) : 0};
    if (b.count < 1) {
        fprintf(stderr, "usage: kafka_broker BROKERS\n");
        return 64;
    }
    rd_kafka_t *owner = rd_kafka_new(RD_KAFKA_PRODUCER, quiet(), text, sizeof(text));
    b.cluster = owner == NULL ? NULL : rd_kafka_mock_cluster_new(owner, b.count);
    if (b.cluster == NULL) {
        fprintf(stderr, "kafka_broker: %s\n", text);
        return 1;
    }
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(b.cluster));
    (void)fflush(stdout);
    while (fgets(text, sizeof(text), stdin) != NULL) {
        printf("%s\n", obey(&b, text) == 0 ? "ok" : "no such command");
        (void)fflush(stdout);
    }
    rd_kafka_mock_cluster_destroy(b.cluster);
    rd_kafka_destroy(owner);
    return 0;
}
