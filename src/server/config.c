/* The table of settings, and the four sources. What must fit together is checked in config_check.c.
 */
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

enum kind {
    NUMBER,
    DURATION,
    SIZE,
    SWITCH,
    TEXT,
    SECRET, /* a text that is never shown, and no flag: the list of processes shows those */
    ADDRESS,
    DOOR, /* an address, or "off" */
    WORD, /* one of those that `argument` has between bars: its number, from 0 */
};

struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    size_t size; /* of a text */
    const char *fallback;
    const char *argument; /* for people */
    const char *help;     /* NULL: not shown */
    bool flag_only;
};

#define AT(member) offsetof(struct config, member), sizeof(((struct config *)0)->member)

/* clang-format off */
static const struct setting settings[] = {
    {"id", NUMBER, AT(id), "1", "N", "this node's number in the cluster", false},
    {"data", TEXT, AT(data), "", "DIR", "where it keeps its log and snapshots", false},
    {"client", ADDRESS, AT(client), "127.0.0.1:4653", "HOST:PORT", "where clients are served", false},
    {"peer", ADDRESS, AT(peer), "127.0.0.1:4654", "HOST:PORT", "where other nodes connect (default with --cluster: this node's entry there)", false},
    {"resp", DOOR, AT(resp), "127.0.0.1:4655", "HOST:PORT", "where clients of the Redis protocol are served; off: nowhere", false},
    {"resp-password", SECRET, AT(resp_password), "", "PASSWORD", "what AUTH asks them for; in the file or in HOLDFAST_RESP_PASSWORD only", false},
    {"resp-tier", WORD, AT(resp_tier), "correctness", "correctness|efficiency", "the tier that their locks are in", false},
    {"resp-del", WORD, AT(resp_del), "allow", "allow|refuse", "their plain DEL of another one's lock: an audited force-unlock, or an error", false},
    {"advertise-client", TEXT, AT(advertise_client), "", "HOST:PORT", "the client address that others are told (default: --client)", false},
    {"cluster", TEXT, AT(cluster), "", "1=HOST:PORT,2=HOST:PORT,...", "the first members by their peer addresses", false},
    {"cluster-name", TEXT, AT(cluster_name), "holdfast", "NAME", "told in messages; clusters with other names keep apart", false},
    {"bootstrap", SWITCH, AT(bootstrap), "false", "", "begin a new cluster, if the folder is empty", false},
    {"join", SWITCH, AT(join), "false", "", "an existing cluster will add this node", false},
    {"insecure", SWITCH, AT(insecure), "false", "", "serve on addresses that other machines reach, without credentials", false},
    {"election-timeout", DURATION, AT(election_ms), "300ms", "DURATION", "without word from the leader", false},
    {"heartbeat", DURATION, AT(heartbeat_ms), "50ms", "DURATION", "between two words of the leader", false},
    {"request-timeout", DURATION, AT(request_ms), "3s", "DURATION", "until a request that reaches no leader is given up", false},
    {"ttl-min", DURATION, AT(ttl_min_ms), "1s", "DURATION", "the shortest TTL that is accepted", false},
    {"snapshot-log-size", SIZE, AT(snapshot_bytes), "64MiB", "SIZE", "of log after which a snapshot is taken", false},
    {"segment-size", SIZE, AT(segment_bytes), "16MiB", "SIZE", "of a file of the log", false},
    {"connections-max-bytes", SIZE, AT(connection_bytes), "0", "SIZE", "memory of all HTTP connections together; above it those that hold the most are closed (0: an eighth of the machine's or the container's memory)", false},
    {"state-max", SIZE, AT(state_bytes), "0", "SIZE", "memory of live state, locks, sessions and values of both tiers; above it whatever adds more is refused; the smallest of the members counts (0: a quarter of the machine's or the container's memory)", false},
    {"disk-io", WORD, AT(disk_io), "auto", "auto|thread", "who waits for the log's writes: the kernel where the file system is known to be good at it, else a thread; or always a thread", false},
    {"max-clients", NUMBER, AT(max_clients), "10000", "N", "client connections of all ports at the same time, up to 8 of them kept for clients on this machine; less where the limit of open files is too small", false},
    {"max-clients-per-address", NUMBER, AT(max_clients_per_address), "0", "N", "of them from one address; 0: no such limit", false},
    {"log-format", WORD, AT(log_format), "json", "json|text", "one JSON object a line, or lines for people", false},
    {"log-level", TEXT, AT(log_level), "info,lock=warn", "LEVEL,...", "debug, info, warn or error; SUBSYSTEM=LEVEL for one of node, raft, peer, disk, snapshot, client, lock; read again on SIGHUP", false},
    {"log-file", TEXT, AT(log_file), "", "FILE", "append the log to a file, opened anew on SIGHUP (default: stderr)", false},
    {"efficiency-backend", TEXT, AT(efficiency_backend), "embedded", "embedded|redis", "what the tier EFFICIENCY stands on: the leader's memory alone, or an own Redis as well", false},
    {"efficiency-fallback", TEXT, AT(efficiency_fallback), "", "fail|embedded|correctness", "what becomes of new acquires while that Redis is away; must be named with it", false},
    {"redis", TEXT, AT(redis), "", "HOST:PORT|PATH", "that Redis, or the path of its socket", false},
    {"redis-user", TEXT, AT(redis_user), "", "NAME", "whom to be there (default: the default user)", false},
    {"redis-password", SECRET, AT(redis_password), "", "SECRET", "its password; in the file or in HOLDFAST_REDIS_PASSWORD only", false},
    {"redis-db", NUMBER, AT(redis_db), "0", "N", "the number of its database", false},
    {"redis-prefix", TEXT, AT(redis_prefix), "holdfast:", "TEXT", "a lock's key there is this and its name", false},
    {"redis-timeout", DURATION, AT(redis_timeout_ms), "250ms", "DURATION", "until it counts as away", false},
    {"config", TEXT, AT(file), "", "FILE", "settings as `name = value` lines", true},
    {"check", SWITCH, AT(check), "false", "", "check the settings, print them, and do nothing", true},
    {"help", SWITCH, AT(help), "false", "", "this list", true},
    {"ready-fd", NUMBER, AT(ready_fd), "0", "N", NULL, true},
};
/* clang-format on */

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };
_Static_assert((int)SETTINGS <= (int)CONFIG_SETTINGS_MAX,
               "config.h has room for the origins of all settings");

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
    [NUMBER] = "a number",
    [DURATION] = "a duration (seconds, or with ms, s, m or h behind it)",
    [SIZE] = "a size (bytes, or with K, M or G behind it)",
    [SWITCH] = "true or false",
    [TEXT] = "a shorter text",
    [SECRET] = "a password of at most 128 bytes",
    [DOOR] = "an address (HOST:PORT, [IPV6]:PORT, or :PORT for all interfaces) or off",
    [ADDRESS] = "an address (HOST:PORT, [IPV6]:PORT, or :PORT for all interfaces)",
};

/* The number of `text` among words with bars between them. */
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
    case SWITCH:
        return value_switch(text, at);
    case ADDRESS:
        return address_parse(text, at);
    case DOOR:
        if (strcmp(text, "off") == 0) {
            *(struct address *)at = (struct address){.host = CONFIG_OFF};
            return true;
        }
        return address_parse(text, at);
    case TEXT:
    case SECRET:
        if (strlen(text) >= setting->size) {
            return false;
        }
        snprintf(at, setting->size, "%s", text);
        return true;
    case WORD:
        fine = find_word(setting->argument, text, &number);
        break;
    case DURATION:
        fine = value_duration_ms(text, &number);
        break;
    case SIZE:
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

/* ---- where it was set ---- */

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
        if (setting->kind == WORD) {
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
            buffer_printf(problems, "\"%s\" is not %s\n", setting->kind == SECRET ? "..." : text,
                          expected[setting->kind]);
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

struct reading {
    struct config *config;
    struct buffer *problems;
    FILE *file;
    const char *path;
    int line;
    bool fine;
    char last[64]; /* the key that a continued line goes on with */
};

static char *read_line(char *text, int size, void *stream)
{
    struct reading *r = stream;
    char *got = fgets(text, size, r->file);
    if (got != NULL) {
        r->line++;
        if (strchr(text, '\n') == NULL && !feof(r->file)) {
            buffer_printf(r->problems,
                          "%s:%d: the line is too long; go on in the next one, after a space\n",
                          r->path, r->line);
            r->fine = false;
            for (int c = fgetc(r->file); c != EOF && c != '\n'; c = fgetc(r->file)) {
            }
        }
    }
    return got;
}

/* A list may go on in the next line. */
static void join_lines(struct reading *r, const struct setting *setting, const char *value,
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
    struct reading *r = user;
    char where[CONFIG_PATH + 16];
    snprintf(where, sizeof(where), "%s:%d", r->path, r->line);
    const struct setting *setting = find_setting(name, strlen(name));
    if (section[0] != '\0') {
        buffer_printf(r->problems, "%s: %s: there are no sections like [%s]\n", where, name,
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
    struct reading r = {.config = config, .problems = problems, .path = config->file, .fine = true};
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

/* `--name VALUE`, `--name=VALUE`, and `--name` alone for a switch. Advances past what it used. */
static bool apply_flag(struct config *config, int count, char **arguments, int *at,
                       struct buffer *problems)
{
    const char *flag = arguments[(*at)++];
    if (strcmp(flag, "-h") == 0) {
        config->help = true;
        return true;
    }
    const char *name = flag + 2;
    const char *equals = strncmp(flag, "--", 2) == 0 ? strchr(name, '=') : NULL;
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(flag) < 2 ? 0 : strlen(name);
    const struct setting *setting = strncmp(flag, "--", 2) == 0 ? find_setting(name, len) : NULL;
    if (setting == NULL) {
        buffer_printf(problems, "%s: there is no such flag\n", flag);
        return false;
    }
    if (setting->kind == SECRET) {
        buffer_printf(problems,
                      "--%s: the list of processes would show it; set it in the file or in the "
                      "environment\n",
                      setting->name);
        return false;
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (value == NULL && setting->kind == SWITCH) {
        value = "true";
    } else if (value == NULL) {
        if (*at == count) {
            buffer_printf(problems, "%s: a value is missing (%s)\n", flag, setting->argument);
            return false;
        }
        value = arguments[(*at)++];
    }
    struct config_origin origin = {.source = CONFIG_FLAG};
    return apply(config, setting, value, origin, problems);
}

static bool apply_flags(struct config *config, int count, char **arguments, struct buffer *problems)
{
    bool fine = true;
    for (int at = 0; at < count;) {
        fine = apply_flag(config, count, arguments, &at, problems) && fine;
    }
    return fine;
}

/* ---- all of them ---- */

bool config_load(struct config *config, int count, char **arguments, struct buffer *problems)
{
    apply_defaults(config);
    /* The flags name the file, whose settings they are stronger than: so they are read twice. */
    bool fine = apply_flags(config, count, arguments, problems);
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
    fine = apply_flags(config, count, arguments, problems) && fine;
    return fine && config_check(config, problems);
}

void config_print_help(struct buffer *out)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings[i];
        if (s->help != NULL) {
            buffer_printf(out, "  %s%s %s\n        %s%s%s%s\n", s->kind == SECRET ? "  " : "--",
                          s->name, s->argument, s->help,
                          s->fallback[0] != '\0' && s->kind != SWITCH ? " (" : "",
                          s->kind != SWITCH ? s->fallback : "",
                          s->fallback[0] != '\0' && s->kind != SWITCH ? ")" : "");
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
        if (s->kind == SECRET) {
            buffer_printf(out, "# %s is %s\n", s->name,
                          *(const char *)at != '\0' ? "set" : "not set");
            continue;
        }
        if (s->kind != TEXT && s->kind != SWITCH && s->kind != ADDRESS && s->kind != DOOR) {
            memcpy(&number, at, sizeof(number));
        }
        switch (s->kind) {
        case SWITCH:
            snprintf(text, sizeof(text), "%s", *(const bool *)at ? "true" : "false");
            break;
        case DOOR:
        case ADDRESS:
            address_format(at, text, sizeof(text));
            if (config_is_off(at)) {
                snprintf(text, sizeof(text), "off");
            }
            break;
        case TEXT:
            snprintf(text, sizeof(text), "%s", (const char *)at);
            break;
        case DURATION:
            value_print_duration(number, text, sizeof(text));
            break;
        case SIZE:
            value_print_size(number, text, sizeof(text));
            break;
        case WORD:
            print_word(s->argument, number, text, sizeof(text));
            break;
        default:
            snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
            break;
        }
        buffer_printf(out, "%s = %s\n", s->name, text);
    }
}
