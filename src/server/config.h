/* The settings of `holdfast serve`. A flag overrides the variable HOLDFAST_NAME, which overrides
 * the file of --config, which overrides the default. The table in config.c has every setting; its
 * name is the flag, the key in the file and, in capitals, the variable. */
#ifndef HOLDFAST_SERVER_CONFIG_H
#define HOLDFAST_SERVER_CONFIG_H

#include <string.h>

#include "base/buffer.h"
#include "base/limits.h"
#include "net/address.h"
#include "node/node.h"

#define CONFIG_PATH 4096
#define CONFIG_CLUSTER 8192
#define CONFIG_LEVELS 256

#define CONFIG_PASSWORD 129
#define CONFIG_OFF "off" /* the host of a listener that is switched off */

/* In the order of the words in config.c. */
enum config_log_format { LOG_JSON, LOG_TEXT };
enum config_resp_del { RESP_DEL_ALLOW, RESP_DEL_REFUSE };
enum config_resp_ping { RESP_PING_NODE, RESP_PING_SERVING };
enum config_peer_secret { PEER_SECRET_REQUIRED, PEER_SECRET_OPTIONAL };
enum config_auth { AUTH_OFF, AUTH_ON };
enum config_disk_io { DISK_IO_AUTO, DISK_IO_THREAD };
enum config_sandbox { CONFIG_SANDBOX_ON, CONFIG_SANDBOX_OFF };
enum config_sink_http { SINK_HTTP_REFUSE, SINK_HTTP_ALLOW };

/* Where a setting was set; errors name it. */
enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };
enum { CONFIG_SETTINGS_MAX = 96, CONFIG_NAMES = 512 };

struct config_origin {
    enum config_source source;
    int line; /* in the file */
};

struct config {
    uint64_t id;
    char data[CONFIG_PATH];
    struct address client;
    struct address peer;
    struct address resp;
    char resp_password[CONFIG_PASSWORD];
    uint64_t resp_tier; /* an enum tier */
    uint64_t resp_del;  /* an enum config_resp_del */
    uint64_t resp_ping; /* an enum config_resp_ping */
    char advertise_client[PEER_ADDRESS_MAX + 1];
    char cluster[CONFIG_CLUSTER];
    char cluster_name[PEER_NAME_MAX + 1];
    bool bootstrap;
    bool join;
    uint64_t auth; /* an enum config_auth */
    char server_names[CONFIG_NAMES];
    char tls_cert[CONFIG_PATH];
    char tls_key[CONFIG_PATH];
    char tls_ca[CONFIG_PATH];
    uint64_t tls_min; /* an enum tls_version */
    char peer_secret_file[CONFIG_PATH];
    uint64_t peer_secret_required; /* an enum config_peer_secret */
    bool insecure;
    uint64_t election_ms;
    uint64_t heartbeat_ms;
    uint64_t request_ms;
    uint64_t slow_ms; /* 0: no lines about slow requests */
    uint64_t ttl_min_ms;
    uint64_t resp_ttl_min_ms;
    uint64_t resp_ttl_max_ms;
    uint64_t resp_value_max;
    uint64_t snapshot_bytes;
    uint64_t connection_bytes; /* 0: a share of the usable memory, see serve.c */
    uint64_t state_bytes;      /* 0: the same */
    uint64_t events_max_bytes; /* 0: no event log */
    uint64_t events_max_age_ms;
    uint64_t segment_bytes;
    uint64_t disk_io; /* an enum config_disk_io */
    uint64_t max_clients;
    uint64_t max_clients_per_address;
    uint64_t sandbox; /* an enum config_sandbox */
    uint64_t log_format;
    char log_level[CONFIG_LEVELS];
    char log_file[CONFIG_PATH]; /* "": stderr */
    char efficiency_backend[16];
    char efficiency_fallback[16];
    char redis[ADDRESS_TEXT]; /* HOST:PORT, or the path of a socket */
    char redis_user[REDIS_SECRET_MAX + 1];
    char redis_password[CONFIG_PASSWORD];
    uint64_t redis_db;
    char redis_prefix[REDIS_PREFIX_MAX + 1];
    uint64_t redis_timeout_ms;
    char sink_file[CONFIG_PATH];
    uint64_t sink_file_max_bytes;
    uint64_t sink_file_keep;
    char sink_kafka_brokers[1024];
    char sink_kafka_topic[256];
    char sink_kafka_config[CONFIG_PATH];
    char sink_webhook_url[2048];
    char sink_webhook_secret_file[CONFIG_PATH];
    char sink_webhook_ca[CONFIG_PATH];
    uint64_t sink_webhook_http; /* an enum config_sink_http */
    uint64_t sink_webhook_timeout_ms;
    char sink_prefix[LIMIT_NAME + 1];

    /* Flags only. */
    char file[CONFIG_PATH];
    bool check;
    bool help;
    uint64_t ready_fd; /* "ready LEADER\n" is written to this descriptor; 0: none */

    /* Derived by config_load if Redis is the backend. */
    bool has_redis;
    struct redis_settings redis_settings;
    /* Derived by config_load from `cluster`. */
    struct node_member members[LIMIT_NODES];
    uint32_t member_count;
    struct config_origin origins[CONFIG_SETTINGS_MAX]; /* in the order of the table */
};

/* On failure, `problems` has one line for each problem, which names the file and line, the flag or
 * the variable. */
bool config_load(struct config *config, int count, char **arguments, struct buffer *problems);

/* Appends the origin of a setting as the start of a message: "FILE:3: heartbeat: ", "--heartbeat: "
 * or "HOLDFAST_HEARTBEAT: "; only the name for a default. */
void config_blame(const struct config *config, const char *name, struct buffer *problems);
static inline bool config_is_off(const struct address *address)
{
    return address->port == 0 && strcmp(address->host, CONFIG_OFF) == 0;
}
/* Whether the file, the environment or a flag set it. */
bool config_was_set(const struct config *config, const char *name);

void config_print_help(struct buffer *out);
/* The effective settings in the format of the settings file, without passwords. */
void config_print(const struct config *config, struct buffer *out);

#endif
