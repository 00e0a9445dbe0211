/* What `holdfast serve` is told: by flags, else by HOLDFAST_* in the environment, else by the file
 * that
 * --config names, else by default. One table in config.c has every setting; its name is the long
 * flag, the key in the file and, in capitals, the variable. */
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
#define CONFIG_OFF "off" /* a host that is none */

/* In the order in which config.c's table has the words. */
enum config_log_format { LOG_JSON, LOG_TEXT };
enum config_resp_del { RESP_DEL_ALLOW, RESP_DEL_REFUSE };
enum config_disk_io { DISK_IO_AUTO, DISK_IO_THREAD };

/* Where a setting comes from, so that what is wrong with it can be said with its place. */
enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };
enum { CONFIG_SETTINGS_MAX = 48 };

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
    uint64_t resp_tier; /* as enum tier has them */
    uint64_t resp_del;
    char advertise_client[PEER_ADDRESS_MAX + 1];
    char cluster[CONFIG_CLUSTER];
    char cluster_name[PEER_NAME_MAX + 1];
    bool bootstrap;
    bool join;
    bool insecure;
    uint64_t election_ms;
    uint64_t heartbeat_ms;
    uint64_t request_ms;
    uint64_t ttl_min_ms;
    uint64_t snapshot_bytes;
    uint64_t connection_bytes; /* 0: a share of the memory, see serve.c */
    uint64_t state_bytes;      /* 0: likewise */
    uint64_t segment_bytes;
    uint64_t disk_io; /* an enum config_disk_io */
    uint64_t max_clients;
    uint64_t max_clients_per_address;
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

    /* Of flags only. */
    char file[CONFIG_PATH];
    bool check;
    bool help;
    uint64_t ready_fd; /* 0: none; "ready LEADER\n" is written there */

    /* Made of the settings of Redis by config_load, if it is the backend. */
    bool has_redis;
    struct redis_settings redis_settings;
    /* Made of `cluster` by config_load. */
    struct node_member members[LIMIT_NODES];
    uint32_t member_count;
    struct config_origin origins[CONFIG_SETTINGS_MAX]; /* in the order of the table */
};

/* Reads all sources and checks them together. False: every problem is a line in `problems`, each
 * with its file and line, flag or variable. */
bool config_load(struct config *config, int count, char **arguments, struct buffer *problems);

/* Begins a sentence about a setting: "FILE:3: heartbeat: ", "--heartbeat: ", "HOLDFAST_HEARTBEAT:
 * "; its name alone when nobody set it. */
void config_blame(const struct config *config, const char *name, struct buffer *problems);
/* A port that was switched off. */
static inline bool config_is_off(const struct address *address)
{
    return address->port == 0 && strcmp(address->host, CONFIG_OFF) == 0;
}
/* Whether anybody did. */
bool config_was_set(const struct config *config, const char *name);

/* The table as a help text. */
void config_print_help(struct buffer *out);
/* The settings in force, as a file that could be read again. */
void config_print(const struct config *config, struct buffer *out);

#endif
