/* The rules between settings: members, reachable addresses, ranges, the Redis backend. */
#include "server/config_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/config_value.h"
#include "server/log.h"

#define SEGMENT_MIN (9u << 20) /* the largest entry with its headers must fit */
#define SEGMENT_MAX (1u << 30)

enum { KAFKA_TOPIC_MAX = 249 };

static bool complain(const struct config *config, struct buffer *problems, const char *setting,
                     const char *text)
{
    config_blame(config, setting, problems);
    buffer_printf(problems, "%s\n", text);
    return false;
}

/* ---- members ---- */

static bool add_member(struct config *config, const char *text, struct buffer *problems)
{
    char id_text[32];
    struct node_member member;
    const char *equals = strchr(text, '=');
    size_t len = equals == NULL ? 0 : (size_t)(equals - text);
    if (len == 0 || len >= sizeof(id_text)) {
        config_blame(config, "cluster", problems);
        buffer_printf(problems, "\"%s\" is not ID=HOST:PORT\n", text);
        return false;
    }
    memcpy(id_text, text, len);
    id_text[len] = '\0';
    if (!value_number(id_text, &member.id) || member.id == 0 || member.id > UINT32_MAX ||
        !address_parse(equals + 1, &member.address) || member.address.host[0] == '\0' ||
        member.address.port == 0) {
        config_blame(config, "cluster", problems);
        buffer_printf(problems, "\"%s\" is not ID=HOST:PORT\n", text);
        return false;
    }
    for (uint32_t i = 0; i < config->member_count; i++) {
        if (config->members[i].id == member.id) {
            config_blame(config, "cluster", problems);
            buffer_printf(problems, "node %s is named twice\n", id_text);
            return false;
        }
    }
    if (config->member_count == LIMIT_NODES) {
        return complain(config, problems, "cluster", "there are at most 64 members");
    }
    /* By id, so that the order in the setting does not matter. */
    uint32_t at = config->member_count++;
    for (; at > 0 && config->members[at - 1].id > member.id; at--) {
        config->members[at] = config->members[at - 1];
    }
    config->members[at] = member;
    return true;
}

static bool read_members(struct config *config, struct buffer *problems)
{
    bool fine = true;
    const char *at = config->cluster;
    config->member_count = 0;
    while (*at != '\0') {
        char text[PEER_ADDRESS_MAX + 40];
        size_t len = strcspn(at, ",");
        snprintf(text, sizeof(text), "%.*s", (int)len, at);
        /* Ignore blanks around a member. */
        char *begin = text + strspn(text, " \t");
        begin[strcspn(begin, " \t")] = '\0';
        if (begin[0] != '\0') {
            fine = add_member(config, begin, problems) && fine;
        }
        at += len + (at[len] == ',');
    }
    return fine;
}

static const struct node_member *find_self(const struct config *config)
{
    for (uint32_t i = 0; i < config->member_count; i++) {
        if (config->members[i].id == config->id) {
            return &config->members[i];
        }
    }
    return NULL;
}

static bool check_members(struct config *config, struct buffer *problems)
{
    if (config->cluster[0] == '\0') {
        /* A single node is its own cluster and may bootstrap it. */
        config->members[0] = (struct node_member){config->id, config->peer};
        config->member_count = 1;
        if (config->join) {
            return complain(config, problems, "join", "needs --cluster with the members to join");
        }
        config->bootstrap = true;
        return true;
    }
    const struct node_member *self = find_self(config);
    if (self == NULL) {
        config_blame(config, "cluster", problems);
        buffer_printf(problems, "does not name node %" PRIu64 ", the id of this node (--id)\n",
                      config->id);
        return false;
    }
    if (!config_was_set(config, "peer")) {
        config->peer = self->address;
    }
    if (config->bootstrap && config->join) {
        return complain(config, problems, "join", "cannot be combined with bootstrap");
    }
    return true;
}

/* ---- addresses ---- */

/* `missing`: what the address lacks, and what to do. NULL: nothing, every address is accepted. Without
 * it only loopback addresses are, unless the operator sets `insecure`. */
static bool check_reach(const struct config *config, const char *name,
                        const struct address *address, const char *missing, struct buffer *problems)
{
    if (missing == NULL) {
        return true;
    }

    struct sockaddr_storage found[8];
    const char *words = "";
    char text[ADDRESS_TEXT];
    address_format(address, text, sizeof(text));
    int count = address_resolve(address, found, 8, &words);
    if (count == 0) {
        config_blame(config, name, problems);
        buffer_printf(problems, "%s cannot be resolved: %s\n", text, words);
        return false;
    }
    for (int i = 0; i < count && !config->insecure; i++) {
        if (!address_is_loopback(&found[i])) {
            config_blame(config, name, problems);
            buffer_printf(
                problems,
                "other machines can reach %s, and %s; or listen on 127.0.0.1; or allow it "
                "with --insecure, in a network that keeps others out\n",
                text, missing);
            return false;
        }
    }
    return true;
}

/* What clients need before other machines may reach their port. */
static const char *client_lacks(const struct config *config)
{
    bool has_tls = config->tls_cert[0] != '\0';
    if (config->auth == AUTH_ON && has_tls) {
        return NULL;
    }
    if (config->auth == AUTH_ON) {
        return "tokens would pass in clear text: set tls-cert, tls-key and tls-ca (`holdfast cert` "
               "makes them)";
    }
    return has_tls
               ? "nothing authenticates clients there: set auth = on"
               : "nothing authenticates clients there: set auth = on, and tls-cert, tls-key and "
                 "tls-ca (`holdfast cert` makes them)";
}

/* A password authenticates Redis-protocol clients, if tokens do not. */
static const char *resp_lacks(const struct config *config)
{
    bool has_password = config->resp_password[0] != '\0' && config->auth == AUTH_OFF;
    return config_is_off(&config->resp) || has_password ? NULL : client_lacks(config);
}

/* With TLS, nodes verify each other. */
static const char *peer_lacks(const struct config *config)
{
    if (config->tls_cert[0] != '\0') {
        return NULL;
    }
    return config->peer_secret_file[0] != '\0'
               ? "the peer secret protects only the start of a connection: set tls-cert, tls-key "
                 "and tls-ca (`holdfast cert` makes them)"
               : "nothing authenticates nodes there: set tls-cert, tls-key and tls-ca (`holdfast "
                 "cert` makes them)";
}

static bool check_addresses(const struct config *config, struct buffer *problems)
{
    bool fine = check_reach(config, "client", &config->client, client_lacks(config), problems);
    fine = check_reach(config, "peer", &config->peer, peer_lacks(config), problems) && fine;
    return check_reach(config, "resp", &config->resp, resp_lacks(config), problems) && fine;
}

/* ---- numbers ---- */

static bool check_range(const struct config *config, const char *name, uint64_t value, uint64_t low,
                        uint64_t high, const char *text, struct buffer *problems)
{
    if (value >= low && value <= high) {
        return true;
    }
    config_blame(config, name, problems);
    buffer_printf(problems, "must be %s\n", text);
    return false;
}

static bool check_numbers(const struct config *config, struct buffer *problems)
{
    bool fine = check_range(config, "id", config->id, 1, UINT32_MAX, "1 to 4294967295", problems);
    fine = check_range(config, "heartbeat", config->heartbeat_ms, 5, 10000, "5 ms to 10 s",
                       problems) &&
           fine;
    fine = check_range(config, "election-timeout", config->election_ms, 2 * config->heartbeat_ms,
                       60000, "at least twice the heartbeat, and at most 60 s", problems) &&
           fine;
    fine = check_range(config, "request-timeout", config->request_ms, 100, 600000, "100 ms to 10 m",
                       problems) &&
           fine;
    fine = check_range(config, "slow-request", config->slow_ms, 0, 600000, "0 to 10 m", problems) &&
           fine;
    fine = check_range(config, "ttl-min", config->ttl_min_ms, LIMIT_TTL_MIN_MS, LIMIT_TTL_MAX_MS,
                       "100 ms to 24 h", problems) &&
           fine;
    fine = check_range(config, "resp-ttl-min", config->resp_ttl_min_ms, 1, LIMIT_TTL_MAX_MS,
                       "1 ms to 24 h", problems) &&
           fine;
    fine = check_range(config, "resp-ttl-max", config->resp_ttl_max_ms, config->resp_ttl_min_ms,
                       LIMIT_KEY_TTL_MAX_MS, "resp-ttl-min to 87600 h (10 years)", problems) &&
           fine;
    bool is_fast = config->resp_tier == TIER_EFFICIENCY;
    fine = check_range(config, "resp-value-max", config->resp_value_max, LIMIT_VALUE,
                       is_fast ? LIMIT_VALUE : LIMIT_KEY_VALUE,
                       is_fast ? "4 KiB (with resp-tier = efficiency)" : "4 KiB to 64 KiB",
                       problems) &&
           fine;
    fine = check_range(config, "snapshot-log-size", config->snapshot_bytes, 64u << 10,
                       UINT64_C(1) << 40, "64 KiB to 1 TiB", problems) &&
           fine;
    fine = check_range(config, "segment-size", config->segment_bytes, SEGMENT_MIN, SEGMENT_MAX,
                       "9 MiB to 1 GiB", problems) &&
           fine;
    if (config->connection_bytes != 0) {
        fine = check_range(config, "connections-max-bytes", config->connection_bytes, 16u << 20,
                           UINT64_C(1) << 40, "0, or 16 MiB to 1 TiB", problems) &&
               fine;
    }
    if (config->state_bytes != 0) {
        fine = check_range(config, "state-max", config->state_bytes, 1u << 20, UINT64_C(1) << 40,
                           "0, or 1 MiB to 1 TiB", problems) &&
               fine;
    }
    if (config->events_max_bytes != 0) {
        fine = check_range(config, "events-max-bytes", config->events_max_bytes, 1u << 20,
                           UINT64_C(1) << 40, "0, or 1 MiB to 1 TiB", problems) &&
               fine;
    }
    fine = check_range(config, "events-max-age", config->events_max_age_ms, 60000,
                       UINT64_C(315360000000), "1 m to 87600 h", problems) &&
           fine;
    if (config->segment_bytes % 4096 != 0) {
        fine = complain(config, problems, "segment-size", "must be a multiple of 4096");
    }
    fine = check_range(config, "max-clients-per-address", config->max_clients_per_address, 0,
                       1000000, "0 (no such limit) to 1,000,000", problems) &&
           fine;
    return check_range(config, "max-clients", config->max_clients, 1, 1000000, "1 to 1,000,000",
                       problems) &&
           fine;
}

/* ---- the Redis backend of the EFFICIENCY tier ---- */

static bool check_redis_place(struct config *config, struct buffer *problems)
{
    struct redis_settings *r = &config->redis_settings;
    if (config->redis[0] == '\0') {
        return complain(config, problems, "redis",
                        "efficiency-backend = redis needs the HOST:PORT or the socket path of the "
                        "Redis server");
    }
    if (config->redis[0] == '/' && strlen(config->redis) <= REDIS_PATH_MAX) {
        memcpy(r->path, config->redis, strlen(config->redis) + 1);
        return true;
    }
    if (!address_parse(config->redis, &r->address) || r->address.host[0] == '\0' ||
        r->address.port == 0) {
        return complain(
            config, problems, "redis",
            "must be HOST:PORT, or a socket path of at most 107 bytes that begins with /");
    }
    return true;
}

static bool check_redis_words(struct config *config, struct buffer *problems)
{
    struct redis_settings *r = &config->redis_settings;
    for (const char *c = config->redis_prefix; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            return complain(config, problems, "redis-prefix",
                            "must not contain control characters");
        }
    }
    if (config->redis_user[0] != '\0' && config->redis_password[0] == '\0') {
        return complain(config, problems, "redis-user", "needs redis-password");
    }
    static const char *const words[] = {"fail", "embedded", "correctness"};
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(config->efficiency_fallback, words[i]) == 0) {
            r->fallback = (enum redis_fallback)i;
            return true;
        }
    }
    return complain(
        config, problems, "efficiency-fallback",
        "must be set, to say what happens to new acquire requests while Redis is unreachable: "
        "fail (they are refused), embedded (the memory of the leader grants them) or correctness "
        "(the CORRECTNESS tier grants them)");
}

static bool check_redis(struct config *config, struct buffer *problems)
{
    struct redis_settings *r = &config->redis_settings;
    bool fine = true;
    config->has_redis = strcmp(config->efficiency_backend, "redis") == 0;
    if (!config->has_redis) {
        const struct {
            const char *name;
            const char *value;
        } redis_only[] = {{"efficiency-fallback", config->efficiency_fallback},
                          {"redis", config->redis},
                          {"redis-user", config->redis_user},
                          {"redis-password", config->redis_password}};
        for (unsigned i = 0; i < sizeof(redis_only) / sizeof(redis_only[0]); i++) {
            if (redis_only[i].value[0] != '\0') {
                fine = complain(config, problems, redis_only[i].name,
                                "is only valid with efficiency-backend = redis");
            }
        }
        return strcmp(config->efficiency_backend, "embedded") == 0
                   ? fine
                   : complain(config, problems, "efficiency-backend", "must be embedded or redis");
    }
    fine = check_redis_place(config, problems);
    if (config->resp_tier == TIER_EFFICIENCY) {
        fine = complain(config, problems, "resp-tier",
                        "locks of Redis-protocol clients cannot be in the EFFICIENCY tier while "
                        "its backend is Redis: set resp-tier = correctness, or efficiency-backend "
                        "= embedded");
    }
    fine = check_redis_words(config, problems) && fine;
    fine = check_range(config, "redis-timeout", config->redis_timeout_ms, REDIS_TIMEOUT_MIN_MS,
                       REDIS_TIMEOUT_MAX_MS, "10 ms to 60 s", problems) &&
           fine;
    fine =
        check_range(config, "redis-db", config->redis_db, 0, 65535, "0 to 65535", problems) && fine;
    memcpy(r->user, config->redis_user, sizeof(r->user));
    snprintf(r->password, sizeof(r->password), "%s", config->redis_password);
    memcpy(r->prefix, config->redis_prefix, sizeof(r->prefix));
    r->db = (uint32_t)config->redis_db;
    r->timeout_ms = (uint32_t)config->redis_timeout_ms;
    return fine;
}

/* ---- TLS ---- */

static bool check_tls(const struct config *config, struct buffer *problems)
{
    if ((config->tls_cert[0] == '\0') != (config->tls_key[0] == '\0')) {
        return complain(config, problems, config->tls_cert[0] == '\0' ? "tls-key" : "tls-cert",
                        "tls-cert and tls-key must be set together");
    }
    if (config->tls_cert[0] != '\0' && config->tls_ca[0] == '\0') {
        return complain(config, problems, "tls-cert",
                        "needs tls-ca, which verifies the certificates of other nodes");
    }
    if (config->tls_cert[0] == '\0' && config->tls_ca[0] != '\0') {
        return complain(config, problems, "tls-ca", "needs tls-cert and tls-key");
    }
    return true;
}

/* ---- event sinks ---- */

/* Of a sink that is not configured it would have no effect. */
static bool check_unused(const struct config *config, const char *name, const char *value,
                         const char *owner, struct buffer *problems)
{
    if (value[0] != '\0') {
        config_blame(config, name, problems);
        buffer_printf(problems, "is only valid with %s\n", owner);
    }
    return value[0] == '\0';
}

static bool check_sink_file(const struct config *config, struct buffer *problems)
{
    size_t len = strlen(config->sink_file);
    if (len == 0) {
        return true;
    }
    bool fine = config->sink_file[len - 1] != '/' ||
                complain(config, problems, "sink-file", "must be the name of a file");
    fine = check_range(config, "sink-file-max-bytes", config->sink_file_max_bytes, 64u << 10,
                       UINT64_C(1) << 40, "64 KiB to 1 TiB", problems) &&
           fine;
    return check_range(config, "sink-file-keep", config->sink_file_keep, 0, 1000, "0 to 1000",
                       problems) &&
           fine;
}

static bool check_sink_kafka(const struct config *config, struct buffer *problems)
{
    const char *topic = config->sink_kafka_topic;
    size_t len = strlen(topic);
    if (config->sink_kafka_brokers[0] == '\0') {
        return check_unused(config, "sink-kafka-config", config->sink_kafka_config,
                            "sink-kafka-brokers", problems);
    }
    if (len == 0 || len > KAFKA_TOPIC_MAX || strcmp(topic, ".") == 0 || strcmp(topic, "..") == 0 ||
        strspn(topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != len) {
        return complain(config, problems, "sink-kafka-topic",
                        "must be 1 to 249 letters, digits, dots, underscores and hyphens");
    }
    return true;
}

static bool check_sink_webhook(const struct config *config, struct buffer *problems)
{
    const char *url = config->sink_webhook_url;
    if (url[0] == '\0') {
        bool fine = check_unused(config, "sink-webhook-secret-file",
                                 config->sink_webhook_secret_file, "sink-webhook-url", problems);
        return check_unused(config, "sink-webhook-ca", config->sink_webhook_ca, "sink-webhook-url",
                            problems) &&
               fine;
    }
    bool fine = strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0 ||
                complain(config, problems, "sink-webhook-url", "must begin with https://");
    if (config->sink_webhook_secret_file[0] == '\0') {
        fine = complain(config, problems, "sink-webhook-url",
                        "needs sink-webhook-secret-file, with which receivers verify the "
                        "signature; `openssl rand -hex 32` makes a secret");
    }
    return check_range(config, "sink-webhook-timeout", config->sink_webhook_timeout_ms, 100, 300000,
                       "100 ms to 5 m", problems) &&
           fine;
}

static bool check_sinks(const struct config *config, struct buffer *problems)
{
    bool fine = check_sink_file(config, problems);
    fine = check_sink_kafka(config, problems) && fine;
    fine = check_sink_webhook(config, problems) && fine;
    if (config->sink_file[0] == '\0' && config->sink_kafka_brokers[0] == '\0' &&
        config->sink_webhook_url[0] == '\0') {
        return check_unused(config, "sink-prefix", config->sink_prefix,
                            "sink-file, sink-kafka-brokers or sink-webhook-url", problems) &&
               fine;
    }
    if (config->events_max_bytes == 0) {
        fine = complain(config, problems, "events-max-bytes",
                        "sinks read the event log: set a size, or remove the settings sink-*");
    }
    return fine;
}

bool config_check(struct config *config, struct buffer *problems)
{
    struct log_levels levels;
    struct address advertised;
    bool fine = check_numbers(config, problems);
    if (!read_members(config, problems) || !check_members(config, problems)) {
        fine = false;
    }
    fine = check_redis(config, problems) && fine;
    fine = check_sinks(config, problems) && fine;
    fine = check_tls(config, problems) && fine;
    fine = check_addresses(config, problems) && fine;
    if (config->peer_secret_required == PEER_SECRET_OPTIONAL &&
        config->peer_secret_file[0] == '\0') {
        fine = complain(config, problems, "peer-secret-required", "needs peer-secret-file");
    }
    if (config->data[0] == '\0') {
        fine = complain(config, problems, "data", "must not be empty");
    }
    if (config->cluster_name[0] == '\0' || strpbrk(config->cluster_name, "\"\\\n\r\t") != NULL) {
        fine =
            complain(config, problems, "cluster-name", "must be 1 to 64 characters without quotes");
    }
    if (config->advertise_client[0] != '\0' &&
        (!address_parse(config->advertise_client, &advertised) || advertised.host[0] == '\0')) {
        fine = complain(config, problems, "advertise-client", "must be HOST:PORT");
    }
    const char *wrong = log_levels_parse(config->log_level, &levels);
    if (wrong != NULL) {
        fine = complain(config, problems, "log-level", wrong);
    }
    return fine;
}
