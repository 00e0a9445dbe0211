/* `holdfast auth bootstrap|rescue|show|apply|explain|tenants|whoami`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/auth_local.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/say.h"

enum { POLICY_MAX = 1 << 20 };

struct auth_settings {
    struct cli_common common;
    const char *data;
    const char *name;
    const char *secret_file;
    const char *out;
    bool dry_run;
    bool end_sessions;
};

const struct flag auth_options[] = {
    {"data", 0, FLAG_TEXT_SET(struct auth_settings, data), "DIR",
     "bootstrap, rescue: data folder of a running node of this machine; required"},
    {"name", 0, FLAG_TEXT_SET(struct auth_settings, name), "TENANT/PRINCIPAL",
     "bootstrap, rescue: name of the administrator (default: default/admin)"},
    {"secret-file", 0, FLAG_TEXT_SET(struct auth_settings, secret_file), "FILE",
     "bootstrap, rescue: file with a prepared token (default: make one)"},
    {"out", 'o', FLAG_TEXT_SET(struct auth_settings, out), "FILE",
     "bootstrap, rescue: write the new token to a new file of mode 0600 (default: stdout)"},
    {"dry-run", 0, FLAG_SWITCH(struct auth_settings, dry_run), NULL,
     "apply: print the changes and make none"},
    {"end-sessions", 0, FLAG_SWITCH(struct auth_settings, end_sessions), NULL,
     "apply: end the sessions of removed principals at once"},
    CLI_COMMON_OPTIONS(struct auth_settings),
    FLAGS_END,
};

static void print_text(const struct json_t *value)
{
    struct slice text = json_tree_text(value);
    printf("%.*s", (int)text.len, (const char *)text.data);
}

/* ---- show ---- */

static void add_grant(struct columns *t, const struct json_t *principal, const struct json_t *grant)
{
    const struct json_t *rights = json_tree_get(grant, "rights");
    struct slice home = json_tree_text(json_tree_get(principal, "tenant"));
    struct slice name = json_tree_text(json_tree_get(principal, "name"));
    struct buffer text;
    buffer_init(&text, memory_system(), 256);
    for (size_t i = 0; i < json_tree_count(rights); i++) {
        buffer_append_text(&text, i == 0 ? "" : ",");
        buffer_append_slice(&text, json_tree_text(json_tree_at(rights, i)));
    }
    columns_printf(t, "%.*s/%.*s", (int)home.len, (const char *)home.data, (int)name.len,
                   (const char *)name.data);
    columns_slice(t,
                  grant == NULL ? slice_of("-") : json_tree_text(json_tree_get(grant, "tenant")));
    columns_slice(t,
                  grant == NULL ? slice_of("-") : json_tree_text(json_tree_get(grant, "prefix")));
    columns_slice(t, grant == NULL ? slice_of("-") : buffer_bytes(&text));
    columns_slice(t, json_tree_text(json_tree_get(principal, "description")));
    buffer_close(&text);
}

static void print_policy(const struct json_t *tree)
{
    static const char *const heading[] = {"PRINCIPAL", "TENANT", "NAMES", "RIGHTS", "DESCRIPTION"};
    const struct json_t *principals = json_tree_get(tree, "principals");
    const struct json_t *tenants = json_tree_get(tree, "tenants");
    struct columns t;
    printf("version %" PRIu64 ", tenants:", json_tree_u64(json_tree_get(tree, "version"), 0));
    for (size_t i = 0; i < json_tree_count(tenants); i++) {
        printf(" ");
        print_text(json_tree_get(json_tree_at(tenants, i), "name"));
    }
    printf("\n");
    columns_init(&t, 5);
    for (unsigned i = 0; i < 5; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < json_tree_count(principals); i++) {
        const struct json_t *principal = json_tree_at(principals, i);
        const struct json_t *grants = json_tree_get(principal, "grants");
        size_t count = json_tree_count(grants);
        for (size_t j = 0; j < (count > 0 ? count : 1); j++) {
            add_grant(&t, principal, count > 0 ? json_tree_at(grants, j) : NULL);
        }
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

/* ---- apply ---- */

static bool read_file(const char *path, struct buffer *out)
{
    char piece[8192];
    size_t got;
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    if (file == NULL) {
        cli_say("%s: %s", path, strerrordesc_np(errno));
        return false;
    }
    while ((got = fread(piece, 1, sizeof(piece), file)) > 0) {
        (void)buffer_append(out, piece, got);
    }
    bool is_read = ferror(file) == 0 && !out->overflowed;
    if (!is_stdin) {
        (void)fclose(file);
    }
    if (!is_read) {
        cli_say("%s: it cannot be read, or it is larger than 1 MiB", path);
    }
    return is_read;
}

/* A document that is not JSON is reported with the place. */
static bool read_policy(const char *path, struct buffer *out)
{
    struct fault fault;
    if (!read_file(path, out)) {
        return false;
    }
    struct json_t *tree = json_tree_parse(buffer_bytes(out), &fault);
    if (tree == NULL) {
        cli_say("%s: %s; `holdfast auth show --json` prints a document of this form", path,
                fault.text);
    }
    json_tree_free(tree);
    return tree != NULL;
}

static void print_changes(const struct json_t *tree, bool is_dry)
{
    const struct json_t *changes = json_tree_get(tree, "changes");
    for (size_t i = 0; i < json_tree_count(changes); i++) {
        print_text(json_tree_at(changes, i));
        printf("\n");
    }
    printf("%zu changes%s, version %" PRIu64 "\n", json_tree_count(changes),
           is_dry ? " (not made: --dry-run)" : "",
           json_tree_u64(json_tree_get(tree, "version"), 0));
}

static int apply(struct api *api, const struct auth_settings *o, char **words)
{
    char target[128];
    struct buffer body;
    struct api_answer answer;
    (void)snprintf(target, sizeof(target), "/api/v1/auth/policy?dry_run=%s&end_sessions=%s",
                   o->dry_run ? "true" : "false", o->end_sessions ? "true" : "false");
    buffer_init(&body, memory_system(), POLICY_MAX);
    if (!read_policy(words[0], &body)) {
        buffer_close(&body);
        return EXIT_USAGE;
    }
    struct cli_request request = {"PUT", target, buffer_bytes(&body),
                                  o->dry_run ? API_REPEAT : API_ONCE};
    int code = api_call(api, &request, &answer);
    buffer_close(&body);
    if (code != 0) {
        return code;
    }
    if (o->common.json) {
        api_print_json(&answer);
    } else {
        print_changes(answer.tree, o->dry_run);
    }
    api_answer_close(&answer);
    return 0;
}

/* ---- reads ---- */

static int read_and_print(struct api *api, const struct auth_settings *o, const char *target,
                          int (*print)(const struct json_t *tree))
{
    struct api_answer answer;
    int code = api_get(api, target, &answer);
    if (code != 0) {
        return code;
    }
    if (o->common.json) {
        api_print_json(&answer);
    } else {
        code = print(answer.tree);
    }
    api_answer_close(&answer);
    return code;
}

static int show_text(const struct json_t *tree)
{
    print_policy(tree);
    return 0;
}

static int show(struct api *api, const struct auth_settings *o, char **words)
{
    return read_and_print(api, o, "/api/v1/auth/policy", show_text);
}

static int explain_text(const struct json_t *tree)
{
    bool is_allowed = json_tree_true(json_tree_get(tree, "allowed"));
    printf("%s: ", is_allowed ? "allowed" : "denied");
    print_text(json_tree_get(tree, "because"));
    printf("\n");
    return is_allowed ? 0 : EXIT_DENIED;
}

static int explain(struct api *api, const struct auth_settings *o, char **words)
{
    static const char *const keys[] = {"principal", "right", "name"};
    struct buffer target;
    buffer_init(&target, memory_system(), API_TARGET);
    buffer_append_text(&target, "/api/v1/auth/explain");
    for (unsigned i = 0; i < 3; i++) {
        buffer_printf(&target, "%c%s=", i == 0 ? '?' : '&', keys[i]);
        http_escape(&target, slice_of(words[i]), true);
    }
    if (o->common.security.tenant != NULL) {
        buffer_append_text(&target, "&tenant=");
        http_escape(&target, slice_of(o->common.security.tenant), true);
    }
    buffer_append_byte(&target, 0);
    if (target.overflowed) {
        buffer_close(&target);
        cli_say("auth explain: the arguments are too long");
        return EXIT_USAGE;
    }
    int code = read_and_print(api, o, (const char *)buffer_bytes(&target).data, explain_text);
    buffer_close(&target);
    return code;
}

static void add_quota(struct columns *t, const struct json_t *tenant, const char *quota)
{
    const struct json_t *used = json_tree_get(json_tree_get(tenant, "usage"), quota);
    uint64_t limit = json_tree_u64(json_tree_get(json_tree_get(tenant, "quotas"), quota), 0);
    char text[48] = "";
    if (used != NULL) {
        (void)snprintf(text, sizeof(text), "%" PRIu64 "%s", json_tree_u64(used, 0),
                       limit == 0 ? "" : " of ");
    }
    if (limit == 0) {
        columns_text(t, used == NULL ? "-" : text);
    } else {
        columns_printf(t, "%s%" PRIu64, text, limit);
    }
}

static int tenants_text(const struct json_t *tree)
{
    static const char *const heading[] = {"TENANT",   "LOCKS",       "SESSIONS",  "WAITERS",
                                          "WATCHERS", "STATE BYTES", "REQUESTS/S"};
    static const char *const quotas[] = {"locks",    "sessions",    "waiters",
                                         "watchers", "state_bytes", "requests_per_second"};
    const struct json_t *tenants = json_tree_get(tree, "tenants");
    struct columns t;
    columns_init(&t, 7);
    for (unsigned i = 0; i < 7; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < json_tree_count(tenants); i++) {
        const struct json_t *tenant = json_tree_at(tenants, i);
        columns_slice(&t, json_tree_text(json_tree_get(tenant, "name")));
        for (unsigned j = 0; j < 6; j++) {
            add_quota(&t, tenant, quotas[j]);
        }
    }
    columns_print(&t, stdout);
    columns_close(&t);
    if (!json_tree_true(json_tree_get(tree, "has_efficiency"))) {
        cli_say("without locks of the tier EFFICIENCY, which only the leader knows");
    }
    return 0;
}

static int tenants(struct api *api, const struct auth_settings *o, char **words)
{
    return read_and_print(api, o, "/api/v1/auth/tenants", tenants_text);
}

static int whoami_text(const struct json_t *tree)
{
    struct slice expires = json_tree_text(json_tree_get(tree, "expires_at"));
    print_text(json_tree_get(tree, "principal"));
    printf(" in tenant ");
    print_text(json_tree_get(tree, "tenant"));
    printf(", by ");
    print_text(json_tree_get(tree, "by"));
    if (expires.len > 0) {
        printf(", expires %.*s", (int)expires.len, (const char *)expires.data);
    }
    printf("\n");
    return 0;
}

static int whoami(struct api *api, const struct auth_settings *o, char **words)
{
    return read_and_print(api, o, "/api/v1/auth/whoami", whoami_text);
}

static int local(const char *op, const struct auth_settings *o, int count)
{
    struct auth_local request = {
        op,     o->data,       o->name != NULL ? o->name : "default/admin", o->secret_file,
        o->out, o->common.json};
    if (o->data == NULL || count > 1 || (o->secret_file != NULL && o->out != NULL)) {
        cli_say("usage: holdfast auth %s --data DIR [--name TENANT/PRINCIPAL] [--secret-file FILE "
                "| --out FILE]",
                op);
        return EXIT_USAGE;
    }
    return auth_local_run(&request);
}

int auth_main(int count, char **arguments)
{
    static const struct {
        const char *name;
        int words;
        const char *usage;
        int (*run)(struct api *api, const struct auth_settings *o, char **words);
    } actions[] = {{"show", 0, "", show},
                   {"apply", 1, " FILE [--dry-run] [--end-sessions]", apply},
                   {"explain", 3, " TENANT/PRINCIPAL RIGHT NAME [--tenant NAME]", explain},
                   {"tenants", 0, "", tenants},
                   {"whoami", 0, "", whoami}};
    struct auth_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    if (!flags_read("auth", auth_options, FLAGS_ANY_ORDER, count, arguments, &o, &words)) {
        return EXIT_USAGE;
    }
    const char *action = words.count > 0 ? words.items[0] : "";
    if (strcmp(action, "bootstrap") == 0 || strcmp(action, "rescue") == 0) {
        return local(action, &o, words.count);
    }
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(action, actions[i].name) != 0) {
            continue;
        }
        if (words.count - 1 != actions[i].words) {
            cli_say("usage: holdfast auth %s%s", action, actions[i].usage);
            return EXIT_USAGE;
        }
        return api_init(&api, &o.common) ? actions[i].run(&api, &o, words.items + 1) : EXIT_USAGE;
    }
    cli_say("auth: the action must be one of bootstrap, rescue, show, apply, explain, tenants, "
            "whoami");
    return EXIT_USAGE;
}
