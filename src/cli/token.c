/* `holdfast token create|list|revoke`. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"
#include "cli/secret.h"
#include "server/config_value.h"

struct token_settings {
    struct cli_common common;
    const char *description;
    const char *out;
    uint64_t ttl_ms; /* 0: no expiry */
};

const struct flag token_options[] = {
    {"description", 0, FLAG_TEXT(struct token_settings, description), "TEXT",
     "create: what the token is for; `token list` shows it"},
    {"ttl", 0, FLAG_DURATION_IN(struct token_settings, ttl_ms, 1000, UINT64_MAX / 2), "DURATION",
     "create: the token expires after this time (default: never)"},
    {"out", 'o', FLAG_TEXT_SET(struct token_settings, out), "FILE",
     "create: write the token to a new file of mode 0600 (default: stdout)"},
    CLI_COMMON_OPTIONS(struct token_settings),
    FLAGS_END,
};

static int usage(const char *text)
{
    cli_say("usage: holdfast token %s", text);
    return EXIT_USAGE;
}

static void write_request(const struct token_settings *o, const char *principal,
                          const struct secret *secret, struct buffer *body)
{
    struct json_writer w;
    json_writer_init(&w, body);
    json_write_open(&w, '{');
    json_put_text(&w, "principal", principal);
    json_put_text(&w, "description", o->description != NULL ? o->description : "");
    if (o->ttl_ms != 0) {
        json_put_u64(&w, "ttl_seconds", (o->ttl_ms + 999) / 1000);
    }
    json_put_text(&w, "sha256", secret->sha256);
    json_write_close(&w);
}

/* With --json one object, which has the token unless it is in a file. */
static void print_created(const struct token_settings *o, const struct secret *secret,
                          const struct json_t *tree)
{
    struct buffer text;
    struct json_writer w;
    uint64_t number = json_tree_u64(json_tree_get(tree, "number"), 0);
    if (!o->common.json) {
        cli_say("token %" PRIu64 " is created; it is not shown again", number);
        if (o->out == NULL) {
            printf("%s\n", secret->text);
        }
        return;
    }
    struct slice expires = json_tree_text(json_tree_get(tree, "expires_at"));
    buffer_init(&text, memory_system(), 4096);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    json_put_u64(&w, "number", number);
    if (o->out == NULL) {
        json_put_text(&w, "token", secret->text);
    }
    if (expires.len > 0) {
        json_write_key(&w, "expires_at");
        json_write_string(&w, expires);
    }
    json_write_close(&w);
    printf("%.*s\n", (int)buffer_len(&text), (const char *)buffer_bytes(&text).data);
    buffer_close(&text);
}

static int create_token(struct api *api, const struct token_settings *o, const char *principal)
{
    struct secret secret;
    struct buffer body;
    struct api_answer answer;
    secret_make(&secret);
    if (o->out != NULL && !secret_store(&secret, o->out)) {
        return EXIT_FAILED;
    }
    buffer_init(&body, memory_system(), 64 << 10);
    write_request(o, principal, &secret, &body);
    struct cli_request request = {"POST", "/api/v1/auth/tokens", buffer_bytes(&body), API_ONCE};
    int code = api_call(api, &request, &answer);
    buffer_close(&body);
    if (code == 0) {
        print_created(o, &secret, answer.tree);
        api_answer_close(&answer);
    } else if (o->out != NULL) {
        (void)unlink(o->out);
    }
    secret_wipe(&secret);
    return code;
}

static void print_tokens(const struct json_t *rows)
{
    static const char *const heading[] = {"NUMBER", "PRINCIPAL", "CREATED", "EXPIRES",
                                          "DESCRIPTION"};
    struct columns t;
    char text[HUMAN_TEXT];
    columns_init(&t, 5);
    for (unsigned i = 0; i < 5; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < json_tree_count(rows); i++) {
        const struct json_t *row = json_tree_at(rows, i);
        struct slice created = json_tree_text(json_tree_get(row, "created_at"));
        struct slice expires = json_tree_text(json_tree_get(row, "expires_at"));
        columns_printf(&t, "%" PRIu64, json_tree_u64(json_tree_get(row, "number"), 0));
        columns_slice(&t, json_tree_text(json_tree_get(row, "principal")));
        columns_text(&t, created.len > 0 ? human_time(created, text) : "-");
        columns_text(&t, expires.len > 0 ? human_time(expires, text) : "never");
        columns_slice(&t, json_tree_text(json_tree_get(row, "description")));
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

static int list_tokens(struct api *api, const struct token_settings *o, const char *principal)
{
    struct api_answer answer;
    struct buffer target;
    buffer_init(&target, memory_system(), API_TARGET);
    buffer_append_text(&target, "/api/v1/auth/tokens");
    if (principal != NULL) {
        buffer_append_text(&target, "?principal=");
        http_escape(&target, slice_of(principal), true);
    }
    buffer_append_byte(&target, 0);
    int code = api_get(api, (const char *)buffer_bytes(&target).data, &answer);
    buffer_close(&target);
    if (code != 0) {
        return code;
    }
    if (o->common.json) {
        api_print_json(&answer);
    } else {
        print_tokens(json_tree_get(answer.tree, "tokens"));
    }
    api_answer_close(&answer);
    return 0;
}

static int revoke_token(struct api *api, const struct token_settings *o, const char *text)
{
    char target[64];
    struct api_answer answer;
    uint64_t number;
    if (!value_number(text, &number)) {
        cli_say("token revoke: the argument must be a number; `holdfast token list` shows it");
        return EXIT_USAGE;
    }
    (void)snprintf(target, sizeof(target), "/api/v1/auth/tokens/%" PRIu64, number);
    struct cli_request request = {"DELETE", target, slice_make(NULL, 0), API_ONCE};
    int code = api_call(api, &request, &answer);
    if (code == 0) {
        if (o->common.json) {
            api_print_json(&answer);
        } else {
            printf("token %" PRIu64 " is revoked\n", number);
        }
        api_answer_close(&answer);
    }
    return code;
}

int token_main(int count, char **arguments)
{
    struct token_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    if (!flags_read("token", token_options, FLAGS_ANY_ORDER, count, arguments, &o, &words)) {
        return EXIT_USAGE;
    }
    const char *action = words.count > 0 ? words.items[0] : "";
    bool is_create = strcmp(action, "create") == 0;
    bool is_list = strcmp(action, "list") == 0;
    bool is_revoke = strcmp(action, "revoke") == 0;
    if (!is_create && !is_list && !is_revoke) {
        return usage("create TENANT/PRINCIPAL | list [TENANT/PRINCIPAL] | revoke NUMBER");
    }
    if (is_list ? words.count > 2 : words.count != 2) {
        return usage(is_create ? "create TENANT/PRINCIPAL [--ttl DURATION] [--out FILE]"
                     : is_list ? "list [TENANT/PRINCIPAL]"
                               : "revoke NUMBER");
    }
    if (is_create && strchr(words.items[1], '/') == NULL) {
        return usage("create TENANT/PRINCIPAL: for example default/ci");
    }
    if (!api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    return is_create ? create_token(&api, &o, words.items[1])
           : is_list ? list_tokens(&api, &o, words.count > 1 ? words.items[1] : NULL)
                     : revoke_token(&api, &o, words.items[1]);
}
