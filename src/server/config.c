/* The table of settings, and their four sources: defaults, file, environment, flags. */
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config_check.h"
#include "server/config_value.h"
#include "server/flags.h"

enum setting_kind {
    KIND_NUMBER,
    KIND_DURATION,
    KIND_SIZE,
    KIND_SWITCH,
    KIND_TEXT,
    KIND_SECRET, /* a text that is never printed and is no flag: the process list shows flags */
    KIND_ADDRESS,
    KIND_LISTENER, /* an address, or "off" */
    KIND_WORD,     /* one of the words in `argument`, which `|` separates; stored as 0, 1, ... */
};

struct setting {
    const char *name;
    enum setting_kind kind;
    size_t offset;
    size_t size; /* of a text */
    const char *fallback;
    const char *argument; /* placeholder of the value in the help text */
    const char *help;     /* NULL: hidden */
    bool flag_only;
};

/* Kind, offset and size of a member. A member of another type does not compile. */
#define MEMBER(type, member)                          \
    _Generic(&((struct config *)NULL)->member, type * \
             : offsetof(struct config, member)),      \
        sizeof(((struct config *)NULL)->member)
#define CHARS(member)                                                                           \
    _Generic(&((struct config *)NULL)->member, char(*)[sizeof(((struct config *)NULL)->member)] \
             : offsetof(struct config, member)),                                                \
        sizeof(((struct config *)NULL)->member)
#define NUMBER(member) KIND_NUMBER, MEMBER(uint64_t, member)
#define DURATION(member) KIND_DURATION, MEMBER(uint64_t, member)
#define SIZE(member) KIND_SIZE, MEMBER(uint64_t, member)
#define WORD(member) KIND_WORD, MEMBER(uint64_t, member)
#define SWITCH(member) KIND_SWITCH, MEMBER(bool, member)
#define TEXT(member) KIND_TEXT, CHARS(member)
#define SECRET(member) KIND_SECRET, CHARS(member)
#define ADDRESS(member) KIND_ADDRESS, MEMBER(struct address, member)
#define LISTENER(member) KIND_LISTENER, MEMBER(struct address, member)

/* clang-format off */
static const struct setting settings[] = {
    {"id", NUMBER(id), "1", "N", "id of this node in the cluster", false},
    {"data", TEXT(data), "", "DIR", "folder of the log and the snapshots (default: /var/lib/holdfast for root, else ~/.local/state/holdfast)", false},
    {"client", ADDRESS(client), "127.0.0.1:4653", "HOST:PORT", "address of the HTTP and gRPC API for clients", false},
    {"peer", ADDRESS(peer), "127.0.0.1:4654", "HOST:PORT", "address for connections from other nodes; if --cluster is given, its entry for this node is the default", false},
    {"resp", LISTENER(resp), "127.0.0.1:4655", "HOST:PORT", "address for clients that use the Redis protocol, or off", false},
    {"resp-password", SECRET(resp_password), "", "PASSWORD", "password that Redis-protocol clients must send with AUTH; only in the file or in HOLDFAST_RESP_PASSWORD", false},
    {"resp-tier", WORD(resp_tier), "correctness", "correctness|efficiency", "tier of the locks of Redis-protocol clients", false},
    {"resp-ping", WORD(resp_ping), "node", "node|serving", "PING on the Redis port: answered while the node runs, or an error while the node reaches no leader with a majority", false},
    {"resp-del", WORD(resp_del), "allow", "allow|refuse", "DEL of a lock that another connection holds, and FLUSHDB: allow them as force-unlocks with audit records, or refuse them with an error", false},
    {"advertise-client", TEXT(advertise_client), "", "HOST:PORT", "client address that this node reports to clients and to other nodes (default: --client)", false},
    {"cluster", TEXT(cluster), "", "1=HOST:PORT,2=HOST:PORT,...", "initial members and their peer addresses, including this node", false},
    {"cluster-name", TEXT(cluster_name), "holdfast", "NAME", "name of the cluster; clusters with different names do not connect to each other", false},
    {"bootstrap", SWITCH(bootstrap), "false", "", "create a new cluster if the data folder is empty", false},
    {"join", SWITCH(join), "false", "", "with an empty data folder, wait until an existing cluster adds this node", false},
    {"auth", WORD(auth), "off", "off|on", "require a token or a client certificate for every request, and check its rights; holdfast auth bootstrap makes the first administrator", false},
    {"server-names", TEXT(server_names), "", "NAME,...", "names of this node that clients may use in Host, besides IP addresses, localhost and the configured addresses; *: any", false},
    {"tls-cert", TEXT(tls_cert), "", "FILE", "certificate of this node in PEM form, with its intermediates; all ports then speak TLS only", false},
    {"tls-key", TEXT(tls_key), "", "FILE", "private key of that certificate in PEM form; only its owner may have access to the file", false},
    {"tls-ca", TEXT(tls_ca), "", "FILE", "CA certificates in PEM form that the certificates of clients and of other nodes are verified with", false},
    {"tls-min", WORD(tls_min), "1.3", "1.3|1.2", "lowest version of TLS that clients may use", false},
    {"peer-secret-file", TEXT(peer_secret_file), "", "FILE", "file with a secret that all nodes share, which proves nodes to each other at the start of a connection; only its owner may have access to the file; read again on SIGHUP", false},
    {"peer-secret-required", WORD(peer_secret_required), "on", "on|off", "off: also accept nodes without the peer secret, while it is introduced", false},
    {"insecure", SWITCH(insecure), "false", "", "allow addresses that other machines can reach, without TLS and authentication", false},
    {"election-timeout", DURATION(election_ms), "300ms", "DURATION", "time without a message from the leader before a node starts an election", false},
    {"heartbeat", DURATION(heartbeat_ms), "50ms", "DURATION", "interval between heartbeats of the leader", false},
    {"request-timeout", DURATION(request_ms), "3s", "DURATION", "time before a request that reaches no leader fails", false},
    {"slow-request", DURATION(slow_ms), "1s", "DURATION", "log requests that take longer than this, without the wait for a lock; 0: none", false},
    {"ttl-min", DURATION(ttl_min_ms), "1s", "DURATION", "shortest TTL that is accepted", false},
    {"resp-ttl-min", DURATION(resp_ttl_min_ms), "1ms", "DURATION", "shortest TTL that is accepted on the Redis port", false},
    {"resp-ttl-max", DURATION(resp_ttl_max_ms), "87600h", "DURATION", "longest TTL that is accepted on the Redis port (default: 10 years); below the default, a key that is set without a TTL gets this one", false},
    {"resp-value-max", SIZE(resp_value_max), "4KiB", "SIZE", "longest value of a key on the Redis port: text, hash, list, set or sorted set; at most 64 KiB, more than 4 KiB only with resp-tier = correctness; set it on all nodes", false},
    {"snapshot-log-size", SIZE(snapshot_bytes), "64MiB", "SIZE", "size of the log after which a snapshot is taken", false},
    {"segment-size", SIZE(segment_bytes), "16MiB", "SIZE", "size of one log file", false},
    {"connections-max-bytes", SIZE(connection_bytes), "0", "SIZE", "memory limit of all client connections together; above it, the connections that use the most are closed; 0: an eighth of the memory of the machine or container", false},
    {"state-max", SIZE(state_bytes), "0", "SIZE", "memory limit of the live state of both tiers; above it, requests that add state are refused; the smallest value of all members applies; 0: a quarter of the memory of the machine or container", false},
    {"events-max-bytes", SIZE(events_max_bytes), "1GiB", "SIZE", "size limit of the event log in the data folder, which history, audit search and resumed watches read; the oldest events are removed; 0: no event log", false},
    {"events-max-age", DURATION(events_max_age_ms), "720h", "DURATION", "age after which events are removed from the event log (default: 30 days)", false},
    {"disk-io", WORD(disk_io), "auto", "auto|thread", "auto: write the log with asynchronous direct I/O where the file system is known to support it well, else in a thread; thread: always in a thread", false},
    {"max-clients", NUMBER(max_clients), "10000", "N", "limit of client connections on all ports, of which up to 8 are reserved for clients on this machine; lower if the limit of open files is too small", false},
    {"max-clients-per-address", NUMBER(max_clients_per_address), "0", "N", "limit of client connections from one IP address; 0: no limit", false},
    {"sandbox", WORD(sandbox), "on", "on|off", "on: refuse system calls that a node does not need, log each of them once, and end the node if it executes a program; off: only no_new_privs", false},
    {"log-format", WORD(log_format), "json", "json|text", "json: one JSON object per line; text: plain lines", false},
    {"log-level", TEXT(log_level), "info,lock=warn", "LEVEL,...", "debug, info, warn, error or off; SUBSYSTEM=LEVEL sets one of node, raft, peer, disk, snapshot, client, lock; read again on SIGHUP", false},
    {"log-file", TEXT(log_file), "", "FILE", "append the log to this file, which is reopened on SIGHUP (default: stderr)", false},
    {"efficiency-backend", TEXT(efficiency_backend), "embedded", "embedded|redis", "storage of the EFFICIENCY tier: the memory of the leader only, or also a Redis server", false},
    {"efficiency-fallback", TEXT(efficiency_fallback), "", "fail|embedded|correctness", "handling of new acquire requests while that Redis server is unreachable; required with efficiency-backend = redis", false},
    {"redis", TEXT(redis), "", "HOST:PORT|PATH", "address of that Redis server, or the path of its Unix socket", false},
    {"redis-user", TEXT(redis_user), "", "NAME", "user name for that Redis server (default: the default user)", false},
    {"redis-password", SECRET(redis_password), "", "SECRET", "password for that Redis server; only in the file or in HOLDFAST_REDIS_PASSWORD", false},
    {"redis-db", NUMBER(redis_db), "0", "N", "database number in that Redis server", false},
    {"redis-prefix", TEXT(redis_prefix), "holdfast:", "TEXT", "prefix of keys in that Redis server; the lock name follows it", false},
    {"redis-timeout", DURATION(redis_timeout_ms), "250ms", "DURATION", "time without a response after which that Redis server counts as unreachable", false},
    {"sink-file", TEXT(sink_file), "", "FILE", "the leader appends each event to this file, as a line of JSON; reopened on SIGHUP", false},
    {"sink-file-max-bytes", SIZE(sink_file_max_bytes), "256MiB", "SIZE", "size of that file above which it is renamed to FILE.1, FILE.1 to FILE.2, ...", false},
    {"sink-file-keep", NUMBER(sink_file_keep), "4", "N", "renamed files that are kept", false},
    {"sink-kafka-brokers", TEXT(sink_kafka_brokers), "", "HOST:PORT,...", "the leader sends each event to this Kafka cluster", false},
    {"sink-kafka-topic", TEXT(sink_kafka_topic), "holdfast-events", "NAME", "topic of those events; the key of a record is the name of the lock", false},
    {"sink-kafka-config", TEXT(sink_kafka_config), "", "FILE", "file with properties of librdkafka, one `property=value` per line, such as those of TLS and SASL; only its owner may have access to it; read again on SIGHUP", false},
    {"sink-webhook-url", TEXT(sink_webhook_url), "", "URL", "the leader sends each event to this https:// address, in JSON arrays with a signature", false},
    {"sink-webhook-secret-file", TEXT(sink_webhook_secret_file), "", "FILE", "file with the secret of that signature, or two while it is replaced, one per line; only its owner may have access to it; read again on SIGHUP", false},
    {"sink-webhook-ca", TEXT(sink_webhook_ca), "", "FILE", "CA certificates in PEM form that verify that address (default: those of the system)", false},
    {"sink-webhook-http", WORD(sink_webhook_http), "refuse", "refuse|allow", "allow: also an http:// address of another machine, in a network that keeps others out", false},
    {"sink-webhook-timeout", DURATION(sink_webhook_timeout_ms), "10s", "DURATION", "time without an answer after which that request is repeated", false},
    {"sink-prefix", TEXT(sink_prefix), "", "PREFIX", "sinks deliver only events of names that begin with this", false},
    {"config", TEXT(file), "", "FILE", "file with settings, one `name = value` per line", true},
    {"check", SWITCH(check), "false", "", "check the settings, print them, and exit", true},
    {"help", SWITCH(help), "false", "", "this list", true},
    {"ready-fd", NUMBER(ready_fd), "0", "N", NULL, true},
};
/* clang-format on */

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };
_Static_assert((int)SETTINGS <= (int)CONFIG_SETTINGS_MAX,
               "struct config has an origin for every setting");

static const struct setting *find_setting(const char *name, size_t len)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        if (strlen(settings[i].name) == len && memcmp(settings[i].name, name, len) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

/* ---- one value ---- */

static const char *const expected[] = {
    [KIND_NUMBER] = "a number",
    [KIND_DURATION] = "a duration (a number of seconds, or a number with the unit ms, s, m or h)",
    [KIND_SIZE] = "a size (a number of bytes, or a number with the unit K, M or G)",
    [KIND_SWITCH] = "true or false",
    [KIND_TEXT] = "short enough",
    [KIND_SECRET] = "a password of at most 128 bytes",
    [KIND_LISTENER] = "an address (HOST:PORT, [IPV6]:PORT, or :PORT for all interfaces) or off",
    [KIND_ADDRESS] = "an address (HOST:PORT, [IPV6]:PORT, or :PORT for all interfaces)",
};

/* Its position in `words`, which `|` separates. */
static bool find_word(const char *words, const char *text, uint64_t *number)
{
    size_t len = strlen(text);
    for (uint64_t i = 0; *words != '\0'; i++) {
        size_t word = strcspn(words, "|");
        if (word == len && memcmp(words, text, len) == 0) {
            *number = i;
            return true;
        }
        words += word + (words[word] == '|');
    }
    return false;
}

static void print_word(const char *words, uint64_t number, char *text, size_t size)
{
    for (; number > 0; number--) {
        words += strcspn(words, "|") + 1;
    }
    snprintf(text, size, "%.*s", (int)strcspn(words, "|"), words);
}

static bool set_value(struct config *config, const struct setting *setting, const char *text)
{
    void *at = (char *)config + setting->offset;
    uint64_t number = 0;
    bool fine;
    switch (setting->kind) {
    case KIND_SWITCH:
        return value_switch(text, at);
    case KIND_ADDRESS:
        return address_parse(text, at);
    case KIND_LISTENER:
        if (strcmp(text, "off") == 0) {
            *(struct address *)at = (struct address){.host = CONFIG_OFF};
            return true;
        }
        return address_parse(text, at);
    case KIND_TEXT:
    case KIND_SECRET:
        if (strlen(text) >= setting->size) {
            return false;
        }
        snprintf(at, setting->size, "%s", text);
        return true;
    case KIND_WORD:
        fine = find_word(setting->argument, text, &number);
        break;
    case KIND_DURATION:
        fine = value_duration_ms(text, &number);
        break;
    case KIND_SIZE:
        fine = value_size(text, &number);
        break;
    default:
        fine = value_number(text, &number);
        break;
    }
    if (fine) {
        memcpy(at, &number, sizeof(number));
    }
    return fine;
}

/* ---- origins ---- */

static void variable_name(const struct setting *setting, char name[64])
{
    size_t len = (size_t)snprintf(name, 64, "HOLDFAST_");
    for (const char *c = setting->name; *c != '\0'; c++) {
        name[len++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
    name[len] = '\0';
}

static const struct config_origin *origin_of(const struct config *config,
                                             const struct setting *setting)
{
    return &config->origins[setting - settings];
}

void config_blame(const struct config *config, const char *name, struct buffer *problems)
{
    const struct setting *setting = find_setting(name, strlen(name));
    const struct config_origin *origin = origin_of(config, setting);
    char variable[64];
    switch (origin->source) {
    case CONFIG_FILE:
        buffer_printf(problems, "%s:%d: %s: ", config->file, origin->line, name);
        break;
    case CONFIG_ENVIRONMENT:
        variable_name(setting, variable);
        buffer_printf(problems, "%s: ", variable);
        break;
    case CONFIG_FLAG:
        buffer_printf(problems, "--%s: ", name);
        break;
    case CONFIG_DEFAULT:
        buffer_printf(problems, "%s: ", name);
        break;
    }
}

bool config_was_set(const struct config *config, const char *name)
{
    return origin_of(config, find_setting(name, strlen(name)))->source != CONFIG_DEFAULT;
}

static bool apply(struct config *config, const struct setting *setting, const char *text,
                  struct config_origin origin, struct buffer *problems)
{
    config->origins[setting - settings] = origin;
    if (!set_value(config, setting, text)) {
        config_blame(config, setting->name, problems);
        if (setting->kind == KIND_WORD) {
            buffer_printf(problems, "\"%s\" is not ", text);
            for (const char *c = setting->argument; *c != '\0'; c++) {
                if (*c == '|') {
                    buffer_append_text(problems, " or ");
                } else {
                    buffer_append_byte(problems, (uint8_t)*c);
                }
            }
            buffer_append_text(problems, "\n");
        } else {
            buffer_printf(problems, "\"%s\" is not %s\n",
                          setting->kind == KIND_SECRET ? "..." : text, expected[setting->kind]);
        }
        return false;
    }
    return true;
}

/* ---- defaults ---- */

static void default_folder(struct config *config)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (geteuid() == 0) {
        snprintf(config->data, sizeof(config->data), "/var/lib/holdfast");
    } else if (state != NULL && state[0] == '/') {
        snprintf(config->data, sizeof(config->data), "%s/holdfast", state);
    } else {
        snprintf(config->data, sizeof(config->data), "%s/.local/state/holdfast",
                 home != NULL ? home : ".");
    }
}

static void apply_defaults(struct config *config)
{
    memset(config, 0, sizeof(*config));
    for (unsigned i = 0; i < SETTINGS; i++) {
        bool fine = set_value(config, &settings[i], settings[i].fallback);
        hf_assert(fine);
    }
    default_folder(config);
}

/* ---- the file ---- */

struct config_reader {
    struct config *config;
    struct buffer *problems;
    FILE *file;
    const char *path;
    int line;
    bool fine;
    char last[64]; /* the key that a continuation line belongs to */
};

static char *read_line(char *text, int size, void *stream)
{
    struct config_reader *r = stream;
    char *got = fgets(text, size, r->file);
    if (got != NULL) {
        r->line++;
        if (strchr(text, '\n') == NULL && !feof(r->file)) {
            buffer_printf(r->problems,
                          "%s:%d: the line is too long; continue in the next line, which must "
                          "begin with a space\n",
                          r->path, r->line);
            r->fine = false;
            for (int c = fgetc(r->file); c != EOF && c != '\n'; c = fgetc(r->file)) {
            }
        }
    }
    return got;
}

/* Appends a continuation line to the list of members; any other value is copied. */
static void join_lines(struct config_reader *r, const struct setting *setting, const char *value,
                       char *joined, size_t size)
{
    const char *before = (const char *)r->config + setting->offset;
    if (strcmp(r->last, setting->name) == 0 && strcmp(setting->name, "cluster") == 0) {
        size_t len = strlen(before);
        snprintf(joined, size, "%s%s%s", before, len > 0 && before[len - 1] != ',' ? "," : "",
                 value);
    } else {
        snprintf(joined, size, "%s", value);
    }
}

static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct config_reader *r = user;
    char where[CONFIG_PATH + 16];
    snprintf(where, sizeof(where), "%s:%d", r->path, r->line);
    const struct setting *setting = find_setting(name, strlen(name));
    if (section[0] != '\0') {
        buffer_printf(r->problems, "%s: %s: sections like [%s] are not supported\n", where, name,
                      section);
    } else if (setting == NULL || setting->flag_only) {
        buffer_printf(r->problems, "%s: %s: there is no such setting\n", where, name);
    } else {
        char joined[CONFIG_CLUSTER + 256];
        join_lines(r, setting, value, joined, sizeof(joined));
        snprintf(r->last, sizeof(r->last), "%s", name);
        struct config_origin origin = {CONFIG_FILE, r->line};
        r->fine = apply(r->config, setting, joined, origin, r->problems) && r->fine;
        return 1;
    }
    r->fine = false;
    return 1;
}

static bool apply_file(struct config *config, struct buffer *problems)
{
    struct config_reader r = {
        .config = config, .problems = problems, .path = config->file, .fine = true};
    r.file = fopen(config->file, "re");
    if (r.file == NULL) {
        buffer_printf(problems, "%s: cannot be read: %s\n", config->file, strerror(errno));
        return false;
    }
    int line = ini_parse_stream(read_line, &r, on_pair, &r);
    fclose(r.file);
    if (line > 0) {
        buffer_printf(problems, "%s:%d: this is not `name = value`\n", config->file, line);
    }
    return r.fine && line == 0;
}

/* ---- the environment ---- */

static bool apply_environment(struct config *config, struct buffer *problems)
{
    bool fine = true;
    for (unsigned i = 0; i < SETTINGS; i++) {
        char name[64];
        struct config_origin origin = {.source = CONFIG_ENVIRONMENT};
        variable_name(&settings[i], name);
        const char *value = getenv(name);
        if (value != NULL && !settings[i].flag_only) {
            fine = apply(config, &settings[i], value, origin, problems) && fine;
        }
    }
    return fine;
}

/* ---- flags ---- */

/* Stores the text of each flag that is given in `given`, by the position of its setting. */
static bool read_flags(int count, char **arguments, const char *given[SETTINGS],
                       struct buffer *problems)
{
    struct flag flags[SETTINGS + 1] = {{.name = NULL}};
    struct flag_words words = {count, arguments, -1};
    char problem[FLAG_PROBLEM];
    for (unsigned i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings[i];
        bool is_switch = s->kind == KIND_SWITCH;
        flags[i] = (struct flag){.name = s->name,
                                 .letter = strcmp(s->name, "help") == 0 ? 'h' : '\0',
                                 .kind = is_switch ? FLAG_KIND_SETTING : FLAG_KIND_TEXT,
                                 .offset = i * sizeof(given[0]),
                                 .value = s->argument};
        given[i] = NULL;
    }
    if (!flags_parse(flags, FLAGS_ANY_ORDER, &words, given, problem)) {
        buffer_printf(problems, "%s\n", problem);
        return false;
    }
    if (words.count > 0) {
        buffer_printf(problems, "unexpected argument \"%s\"\n", words.items[0]);
        return false;
    }
    return true;
}

static bool apply_flags(struct config *config, const char *const given[SETTINGS],
                        struct buffer *problems)
{
    bool fine = true;
    for (unsigned i = 0; i < SETTINGS; i++) {
        struct config_origin origin = {.source = CONFIG_FLAG};
        if (given[i] == NULL) {
            continue;
        }
        if (settings[i].kind == KIND_SECRET) {
            buffer_printf(problems,
                          "--%s: not accepted as a flag, because the process list would show it; "
                          "set it in the file or in the environment\n",
                          settings[i].name);
            fine = false;
        } else {
            fine = apply(config, &settings[i], given[i], origin, problems) && fine;
        }
    }
    return fine;
}

/* ---- all sources ---- */

bool config_load(struct config *config, int count, char **arguments, struct buffer *problems)
{
    const char *given[SETTINGS];
    apply_defaults(config);
    /* Flags name the file and override its settings, so they are applied before and after it. */
    bool fine =
        read_flags(count, arguments, given, problems) && apply_flags(config, given, problems);
    if (!fine || config->help) {
        return fine;
    }
    const char *file = getenv("HOLDFAST_CONFIG");
    if (config->file[0] == '\0' && file != NULL) {
        snprintf(config->file, sizeof(config->file), "%s", file);
    }
    char path[CONFIG_PATH];
    memcpy(path, config->file, sizeof(path));
    apply_defaults(config);
    memcpy(config->file, path, sizeof(path));
    if (config->file[0] != '\0') {
        fine = apply_file(config, problems);
    }
    fine = apply_environment(config, problems) && fine;
    fine = apply_flags(config, given, problems) && fine;
    return fine && config_check(config, problems);
}

void config_print_help(struct buffer *out)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings[i];
        if (s->help != NULL) {
            buffer_printf(out, "  %s%s %s\n        %s%s%s%s\n",
                          s->kind == KIND_SECRET ? "  " : "--", s->name, s->argument, s->help,
                          s->fallback[0] != '\0' && s->kind != KIND_SWITCH ? " (default: " : "",
                          s->kind != KIND_SWITCH ? s->fallback : "",
                          s->fallback[0] != '\0' && s->kind != KIND_SWITCH ? ")" : "");
        }
    }
}

void config_print(const struct config *config, struct buffer *out)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings[i];
        const void *at = (const char *)config + s->offset;
        char text[CONFIG_CLUSTER];
        uint64_t number = 0;
        if (s->flag_only) {
            continue;
        }
        if (s->kind == KIND_SECRET) {
            buffer_printf(out, "# %s is %s\n", s->name,
                          *(const char *)at != '\0' ? "set" : "not set");
            continue;
        }
        if (s->kind != KIND_TEXT && s->kind != KIND_SWITCH && s->kind != KIND_ADDRESS &&
            s->kind != KIND_LISTENER) {
            memcpy(&number, at, sizeof(number));
        }
        switch (s->kind) {
        case KIND_SWITCH:
            snprintf(text, sizeof(text), "%s", *(const bool *)at ? "true" : "false");
            break;
        case KIND_LISTENER:
        case KIND_ADDRESS:
            address_format(at, text, sizeof(text));
            if (config_is_off(at)) {
                snprintf(text, sizeof(text), "off");
            }
            break;
        case KIND_TEXT:
            snprintf(text, sizeof(text), "%s", (const char *)at);
            break;
        case KIND_DURATION:
            value_print_duration(number, text, sizeof(text));
            break;
        case KIND_SIZE:
            value_print_size(number, text, sizeof(text));
            break;
        case KIND_WORD:
            print_word(s->argument, number, text, sizeof(text));
            break;
        default:
            snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
            break;
        }
        buffer_printf(out, "%s = %s\n", s->name, text);
    }
}
