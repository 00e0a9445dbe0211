/* See kafka_config.h. */
#include "sinks/kafka_config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls/digest.h"

enum { FILE_BYTES = 16 << 10, ERROR_TEXT = 256 };

/* What the promise of the stream depends on: no file may change these. message.timeout.ms 0: a message
 * waits for its broker for as long as this node leads. A gap-less producer stops at the first message
 * that is refused, so that no later one of its partition overtakes it. */
static const struct kafka_property {
    const char *name;
    const char *value;
} required[] = {
    {"enable.idempotence", "true"},
    {"enable.gapless.guarantee", "true"},
    {"acks", "all"},
    {"message.timeout.ms", "0"},
};

/* The operator may change these. The partitioner is that of Java producers. */
static const struct kafka_property defaults[] = {
    {"linger.ms", "5"},
    {"partitioner", "murmur2_random"},
    {"queue.buffering.max.messages", "2000"},
    {"queue.buffering.max.kbytes", "4096"},
    {"statistics.interval.ms", "0"},
    {"reconnect.backoff.max.ms", "5000"},
};

/* Also names of the same properties. The last one loads code. */
static const char *const refused[] = {"bootstrap.servers",
                                      "metadata.broker.list",
                                      "enable.idempotence",
                                      "enable.gapless.guarantee",
                                      "acks",
                                      "request.required.acks",
                                      "message.timeout.ms",
                                      "delivery.timeout.ms",
                                      "transactional.id",
                                      "max.in.flight",
                                      "max.in.flight.requests.per.connection",
                                      "retries",
                                      "message.send.max.retries",
                                      "plugin.library.paths"};

static bool set(rd_kafka_conf_t *conf, const char *name, const char *value, const char *source,
                char problem[DRIVER_PROBLEM])
{
    char text[ERROR_TEXT];
    if (kafka.conf_set(conf, name, value, text, sizeof(text)) == RD_KAFKA_CONF_OK) {
        return true;
    }
    snprintf(problem, DRIVER_PROBLEM, "%.200s: %s", source, text);
    return false;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]) != NULL) {
        len--;
    }
    text[len] = '\0';
    return text;
}

static bool take_line(rd_kafka_conf_t *conf, char *line, const char *path, unsigned number,
                      char problem[DRIVER_PROBLEM])
{
    char source[DRIVER_PROBLEM / 2];
    snprintf(source, sizeof(source), "sink-kafka-config: %.160s:%u", path, number);
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#') {
        return true;
    }
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        snprintf(problem, DRIVER_PROBLEM, "%s: a line is `property=value`", source);
        return false;
    }
    *equals = '\0';
    const char *name = trim(line);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (strcmp(name, refused[i]) == 0) {
            snprintf(problem, DRIVER_PROBLEM, "%s: %s cannot be changed: remove the line", source,
                     name);
            return false;
        }
    }
    return set(conf, name, trim(equals + 1), source, problem);
}

static bool take_lines(rd_kafka_conf_t *conf, char *text, const char *path,
                       char problem[DRIVER_PROBLEM])
{
    for (unsigned number = 1; text != NULL; number++) {
        char *line = text;
        text = strchr(text, '\n');
        if (text != NULL) {
            *text++ = '\0';
        }
        if (!take_line(conf, line, path, number, problem)) {
            return false;
        }
    }
    return true;
}

/* It may contain passwords. */
static bool read_file(const char *path, char text[FILE_BYTES], char problem[DRIVER_PROBLEM])
{
    struct stat info;
    const char *wrong = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t len = fd < 0 ? -1 : read(fd, text, FILE_BYTES - 1);
    if (len < 0) {
        wrong = strerrordesc_np(errno);
    } else if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        wrong = "this is not a regular file";
    } else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        wrong = "other users may read or change this file, which may contain passwords; run: chmod "
                "600 on it";
    } else if (len == FILE_BYTES - 1) {
        wrong = "the file is larger than 16 KiB";
    } else {
        text[len] = '\0';
    }
    if (fd >= 0) {
        close(fd);
    }
    if (wrong != NULL) {
        snprintf(problem, DRIVER_PROBLEM, "sink-kafka-config: %.200s: %s", path, wrong);
    }
    return wrong == NULL;
}

/* Kerberos would start a program (kinit). */
static bool check_sasl(rd_kafka_conf_t *conf, char problem[DRIVER_PROBLEM])
{
    char protocol[32] = "";
    char mechanism[64] = "";
    size_t size = sizeof(protocol);
    (void)kafka.conf_get(conf, "security.protocol", protocol, &size);
    size = sizeof(mechanism);
    (void)kafka.conf_get(conf, "sasl.mechanisms", mechanism, &size);
    if (strncmp(protocol, "sasl", 4) == 0 && strcmp(mechanism, "GSSAPI") == 0) {
        snprintf(problem, DRIVER_PROBLEM,
                 "sink-kafka-config: sasl.mechanisms = GSSAPI is not supported: set it to "
                 "SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN");
        return false;
    }
    return true;
}

static bool take_file(rd_kafka_conf_t *conf, const char *path, char problem[DRIVER_PROBLEM])
{
    char text[FILE_BYTES];
    if (path[0] == '\0') {
        return true;
    }
    bool is_fine = read_file(path, text, problem) && take_lines(conf, text, path, problem);
    digest_wipe(text, sizeof(text));
    return is_fine;
}

static bool fill(rd_kafka_conf_t *conf, const struct kafka_settings *s,
                 char problem[DRIVER_PROBLEM])
{
    char client[64];
    bool is_fine = true;
    snprintf(client, sizeof(client), "holdfast-%" PRIu64, s->node);
    for (size_t i = 0; is_fine && i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        is_fine = set(conf, defaults[i].name, defaults[i].value, "librdkafka", problem);
    }
    is_fine = is_fine && set(conf, "client.id", client, "librdkafka", problem) &&
              take_file(conf, s->config, problem);
    for (size_t i = 0; is_fine && i < sizeof(required) / sizeof(required[0]); i++) {
        is_fine = set(conf, required[i].name, required[i].value, "librdkafka", problem);
    }
    return is_fine && set(conf, "bootstrap.servers", s->brokers, "sink-kafka-brokers", problem) &&
           check_sasl(conf, problem);
}

rd_kafka_conf_t *kafka_config_new(const struct kafka_settings *settings,
                                  char problem[DRIVER_PROBLEM])
{
    rd_kafka_conf_t *conf = kafka.conf_new();
    if (!fill(conf, settings, problem)) {
        kafka.conf_destroy(conf);
        return NULL;
    }
    return conf;
}
