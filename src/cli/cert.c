/* `holdfast cert init|node|client|show`: a private CA and its certificates. Works on files only. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/options.h"
#include "cli/say.h"
#include "tls/describe.h"
#include "tls/issue.h"
#include "wire/json_write.h"

enum { CA_DAYS = 3650, DAYS = 365 };

struct cert_settings {
    const char *dir;
    const char *name;
    const char *cluster;
    uint64_t id;
    uint64_t days; /* 0: the default */
    struct flag_list hosts;
    bool json;
};

const struct flag cert_options[] = {
    {"dir", 'd', FLAG_TEXT_SET(struct cert_settings, dir), "DIR",
     "folder of the CA and of the files that it issues; required, except for show"},
    {"id", 0, FLAG_NUMBER_IN(struct cert_settings, id, 1, UINT32_MAX), "N",
     "node: id of the node; required"},
    {"host", 0, FLAG_LIST(struct cert_settings, hosts), "HOST",
     "node: host name or IP address by which clients and nodes reach it; may be repeated"},
    {"cluster", 0, FLAG_TEXT_SET(struct cert_settings, cluster), "NAME",
     "node: the setting cluster-name (default: holdfast)"},
    {"name", 0, FLAG_TEXT_SET(struct cert_settings, name), "NAME",
     "client: TENANT/PRINCIPAL; required. init: name of the CA (default: Holdfast CA)"},
    {"days", 0, FLAG_NUMBER_IN(struct cert_settings, days, 1, ISSUE_DAYS), "N",
     "validity (default: 365; init: 3650)"},
    {"json", 0, FLAG_SWITCH(struct cert_settings, json), NULL, "print JSON"},
    FLAGS_END,
};

static int usage(const char *text)
{
    cli_say("%s", text);
    cli_say("`holdfast cert --help` lists its flags");
    return EXIT_USAGE;
}

static int fail(const char *problem)
{
    cli_say("%s", problem);
    return EXIT_FAILED;
}

static void print_json(struct buffer *text)
{
    printf("%.*s\n", (int)buffer_len(text), (const char *)buffer_bytes(text).data);
    buffer_close(text);
}

static void print_files(const struct cert_settings *o, const struct issue_files *files)
{
    struct buffer text;
    struct json_writer w;
    if (!o->json) {
        printf("%s\n%s\n", files->certificate, files->key);
        return;
    }
    buffer_init(&text, memory_system(), 64 << 10);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    json_put_text(&w, "certificate", files->certificate);
    json_put_text(&w, "key", files->key);
    json_write_close(&w);
    print_json(&text);
}

static int run_init(const struct cert_settings *o, int count, char **words)
{
    struct issue_files files;
    char problem[ISSUE_PROBLEM];
    if (o->dir == NULL || count > 0) {
        return usage("usage: holdfast cert init --dir DIR");
    }
    if (!issue_authority(o->dir, o->name != NULL ? o->name : "Holdfast CA",
                         o->days != 0 ? (uint32_t)o->days : CA_DAYS, &files, problem)) {
        return fail(problem);
    }
    print_files(o, &files);
    return 0;
}

static int issue(const struct cert_settings *o, struct issue_request *request)
{
    struct issue_files files;
    char problem[ISSUE_PROBLEM];
    request->dir = o->dir;
    request->days = o->days != 0 ? (uint32_t)o->days : DAYS;
    if (!issue_certificate(request, &files, problem)) {
        return fail(problem);
    }
    print_files(o, &files);
    return 0;
}

static bool is_cluster_name(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~' || strchr("\"\\/", *c) != NULL) {
            return false;
        }
    }
    return text[0] != '\0' && strlen(text) <= 64;
}

/* Words after `node` are hosts too: `--host a b c`. */
static int run_node(const struct cert_settings *o, int count, char **words)
{
    const char *cluster = o->cluster != NULL ? o->cluster : "holdfast";
    struct flag_list hosts = o->hosts;
    char stem[32];
    char name[32];
    char uri[128];
    for (int i = 0; i < count && hosts.count < FLAG_LIST_MAX; i++) {
        hosts.items[hosts.count++] = words[i];
    }
    if (o->dir == NULL || o->id == 0 || hosts.count == 0 || o->name != NULL) {
        return usage("usage: holdfast cert node --dir DIR --id N --host HOST... [--cluster NAME]");
    }
    if (!is_cluster_name(cluster)) {
        return usage("--cluster: the name must be 1 to 64 printable characters of ASCII without "
                     "spaces, slashes and quotes");
    }
    (void)snprintf(stem, sizeof(stem), "node-%" PRIu64, o->id);
    (void)snprintf(name, sizeof(name), "node %" PRIu64, o->id);
    (void)snprintf(uri, sizeof(uri), "holdfast-node:%s/%" PRIu64, cluster, o->id);
    struct issue_request request = {.stem = stem,
                                    .common_name = name,
                                    .uri = uri,
                                    .hosts = hosts.items,
                                    .host_count = hosts.count,
                                    .is_node = true};
    return issue(o, &request);
}

/* client-TENANT-PRINCIPAL; "default/ci" is client-default-ci. */
static int run_client(const struct cert_settings *o, int count, char **words)
{
    const char *slash = o->name != NULL ? strchr(o->name, '/') : NULL;
    char stem[160];
    char uri[160];
    if (o->dir == NULL || o->name == NULL || count > 0) {
        return usage("usage: holdfast cert client --dir DIR --name TENANT/PRINCIPAL");
    }
    if (slash == NULL || !issue_is_name(o->name, (size_t)(slash - o->name)) ||
        !issue_is_name(slash + 1, strlen(slash + 1))) {
        return usage("--name: it must be TENANT/PRINCIPAL, each 1 to 64 letters, digits, '.', '_' "
                     "or '-', first a letter or digit");
    }
    (void)snprintf(stem, sizeof(stem), "client-%.*s-%s", (int)(slash - o->name), o->name,
                   slash + 1);
    (void)snprintf(uri, sizeof(uri), "holdfast:%s", o->name);
    struct issue_request request = {.stem = stem, .common_name = slash + 1, .uri = uri};
    return issue(o, &request);
}

static void show_json(const char *file, const struct certificate_text *c, bool is_valid)
{
    struct buffer text;
    struct json_writer w;
    unsigned shown = c->name_count < DESCRIBE_NAMES ? c->name_count : DESCRIBE_NAMES;
    buffer_init(&text, memory_system(), 256 << 10);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    json_put_text(&w, "path", file);
    json_put_text(&w, "subject", c->subject);
    json_put_text(&w, "issuer", c->issuer);
    json_write_key(&w, "names");
    json_write_open(&w, '[');
    for (unsigned i = 0; i < shown; i++) {
        json_write_string(&w, slice_of(c->names[i]));
    }
    json_write_close(&w);
    json_write_key(&w, "not_before");
    json_write_time(&w, (uint64_t)c->from_s * 1000);
    json_write_key(&w, "not_after");
    json_write_time(&w, (uint64_t)c->until_s * 1000);
    json_put_bool(&w, "valid", is_valid);
    json_put_bool(&w, "ca", c->is_ca);
    json_put_bool(&w, "server", c->is_server && !c->is_ca);
    json_put_text(&w, "serial", c->serial);
    json_put_text(&w, "sha256", c->sha256);
    json_write_close(&w);
    print_json(&text);
}

static void print_time(const char *label, int64_t at_s, const char *note)
{
    char text[32];
    struct tm tm;
    time_t at = (time_t)at_s;
    (void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", gmtime_r(&at, &tm));
    printf("%-12s %s%s\n", label, text, note);
}

static void show_text(const struct certificate_text *c, int64_t now_s)
{
    unsigned shown = c->name_count < DESCRIBE_NAMES ? c->name_count : DESCRIBE_NAMES;
    char note[64] = "  EXPIRED";
    if (c->until_s > now_s) {
        (void)snprintf(note, sizeof(note), "  (in %" PRId64 " days)", (c->until_s - now_s) / 86400);
    }
    printf("%-12s %s\n%-12s %s\n", "subject", c->subject, "issuer", c->issuer);
    for (unsigned i = 0; i < shown; i++) {
        printf("%-12s %s\n", i == 0 ? "names" : "", c->names[i]);
    }
    print_time("valid from", c->from_s, c->from_s > now_s ? "  NOT YET" : "");
    print_time("valid until", c->until_s, note);
    printf("%-12s %s\n", "use",
           c->is_ca       ? "CA: issues certificates"
           : c->is_server ? "node: server and client"
                          : "client");
    printf("%-12s %s\n%-12s %s\n", "serial", c->serial, "sha256", c->sha256);
}

/* About 40 KiB: not on the stack. */
static struct certificate_text shown_certificate;

static int run_show(const struct cert_settings *o, int count, char **words)
{
    const struct certificate_text *c = &shown_certificate;
    char problem[DESCRIBE_PROBLEM];
    int64_t now_s = (int64_t)time(NULL);
    if (count != 1) {
        return usage("usage: holdfast cert show FILE");
    }
    if (!describe_certificate(words[0], &shown_certificate, problem)) {
        return fail(problem);
    }
    if (o->json) {
        show_json(words[0], c, c->from_s <= now_s && now_s < c->until_s);
    } else {
        show_text(c, now_s);
    }
    return 0;
}

int cert_main(int count, char **arguments)
{
    static const struct {
        const char *name;
        int (*run)(const struct cert_settings *o, int count, char **words);
    } actions[] = {
        {"init", run_init}, {"node", run_node}, {"client", run_client}, {"show", run_show}};
    struct cert_settings o = {.dir = NULL};
    struct flag_words words;
    if (!flags_read("cert", cert_options, FLAGS_ANY_ORDER, count, arguments, &o, &words)) {
        return EXIT_USAGE;
    }
    for (size_t i = 0; words.count > 0 && i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(words.items[0], actions[i].name) == 0) {
            return actions[i].run(&o, words.count - 1, words.items + 1);
        }
    }
    return usage("cert: the action must be one of init, node, client, show");
}
