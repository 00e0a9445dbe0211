/* `holdfast alert set|list|remove`: long-held rules, and the holds that are past them. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"
#include "server/config_value.h"

#define TARGET "/api/v1/alerts"

struct alert_settings {
    struct cli_common common;
    const char *reason;
    const char *actor; /* NULL: USER@HOST */
};

const struct flag alert_options[] = {
    {"reason", 'r', FLAG_TEXT(struct alert_settings, reason), "TEXT",
     "set, remove: reason, for the audit record"},
    {"actor", 0, FLAG_TEXT(struct alert_settings, actor), "NAME",
     "set, remove: name of the operator, for the audit record (default: USER@HOST)"},
    CLI_COMMON_OPTIONS(struct alert_settings),
    FLAGS_END,
};

/* ---- list ---- */

static void print_rules(const struct json_t *rules)
{
    struct columns t;
    char text[HUMAN_TEXT];
    columns_init(&t, 2);
    columns_text(&t, "PREFIX");
    columns_text(&t, "LONGER THAN");
    for (size_t i = 0; i < json_tree_count(rules); i++) {
        const struct json_t *row = json_tree_at(rules, i);
        columns_slice(&t, json_tree_text(json_tree_get(row, "prefix")));
        columns_text(&t, human_span(json_tree_u64(json_tree_get(row, "after_ms"), 0), text));
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

static void add_hold(struct columns *t, const struct json_t *row)
{
    char text[HUMAN_TEXT];
    const struct json_t *holder = json_tree_get(row, "holder");
    uint64_t token = json_tree_u64(json_tree_get(holder, "fencing_token"), 0);
    columns_slice(t, json_tree_text(json_tree_get(row, "name")));
    columns_slice(t, json_tree_text(json_tree_get(holder, "client_id")));
    if (token != 0) {
        columns_printf(t, "%" PRIu64, token);
    } else {
        columns_text(t, "-");
    }
    columns_text(t, human_time(json_tree_text(json_tree_get(holder, "since")), text));
    columns_text(t, human_span(json_tree_u64(json_tree_get(row, "held_ms"), 0), text));
    columns_text(t, human_span(json_tree_u64(json_tree_get(row, "over_ms"), 0), text));
    columns_colour(t, COLOUR_RED);
    columns_slice(t, json_tree_text(json_tree_get(row, "rule")));
    columns_printf(t, "%" PRIu64, json_tree_u64(json_tree_get(row, "queue_length"), 0));
}

static void print_holds(const struct api_pages *pages)
{
    static const char *const heading[] = {"NAME", "HOLDER",  "TOKEN", "SINCE",
                                          "HELD", "OVER BY", "RULE",  "WAITERS"};
    struct columns t;
    if (pages->count == 0) {
        printf("No lock is held longer than its rule.\n");
        return;
    }
    columns_init(&t, 8);
    for (unsigned i = 0; i < 8; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < pages->count; i++) {
        add_hold(&t, pages->items[i]);
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

/* One object of all pages: {"rules":[...],"holds":[...]}. */
static void print_json(const struct json_t *rules, const struct api_pages *pages)
{
    struct buffer out;
    buffer_init(&out, memory_system(), API_ANSWER_MAX);
    json_tree_write(rules, &out);
    printf("{\"rules\":%.*s,\"holds\":[", (int)buffer_len(&out),
           (const char *)buffer_bytes(&out).data);
    for (size_t i = 0; i < pages->count; i++) {
        buffer_truncate(&out, 0);
        json_tree_write(pages->items[i], &out);
        printf("%s%.*s", i == 0 ? "" : ",", (int)buffer_len(&out),
               (const char *)buffer_bytes(&out).data);
    }
    printf("]}\n");
    buffer_close(&out);
}

static int list(struct api *api, const struct alert_settings *o)
{
    struct api_pages pages;
    int code = api_pages_read(api, TARGET "?limit=1000", "holds", &pages);
    if (code != 0) {
        return code;
    }
    const struct json_t *rules = json_tree_get(pages.trees[0], "rules");
    if (o->common.json) {
        print_json(rules, &pages);
    } else if (json_tree_count(rules) == 0) {
        printf("There are no rules; `holdfast alert set PREFIX DURATION` adds one.\n");
    } else {
        print_rules(rules);
        printf("\n");
        print_holds(&pages);
    }
    api_pages_close(&pages);
    return 0;
}

/* ---- set, remove ---- */

/* `after_ms` 0: removes the rule. */
static void write_body(const struct alert_settings *o, const char *prefix, uint64_t after_ms,
                       struct buffer *body)
{
    char actor[256];
    char id[33];
    struct json_writer w;
    api_actor(actor, sizeof(actor));
    api_request_id(id);
    json_writer_init(&w, body);
    json_write_open(&w, '{');
    json_put_text(&w, "prefix", prefix);
    json_put_text(&w, "actor_id", o->actor != NULL ? o->actor : actor);
    json_put_text(&w, "request_id", id);
    if (o->reason != NULL) {
        json_put_text(&w, "reason", o->reason);
    }
    if (after_ms != 0) {
        json_put_u64(&w, "after_ms", after_ms);
    }
    json_write_close(&w);
}

static int change(struct api *api, const struct alert_settings *o, const char *prefix,
                  uint64_t after_ms)
{
    struct api_answer answer;
    struct buffer body;
    char text[HUMAN_TEXT];
    buffer_init(&body, memory_system(), 64 << 10);
    write_body(o, prefix, after_ms, &body);
    struct cli_request request = {after_ms != 0 ? "PUT" : "DELETE", TARGET, buffer_bytes(&body),
                                  API_REPEAT};
    int code = api_call(api, &request, &answer);
    buffer_close(&body);
    if (code != 0) {
        return code;
    }
    if (o->common.json) {
        api_print_json(&answer);
    } else if (after_ms != 0) {
        printf("%s: a hold longer than %s is reported\n", prefix, human_span(after_ms, text));
    } else {
        printf("%s: the rule is removed\n", prefix);
    }
    api_answer_close(&answer);
    return 0;
}

/* An empty prefix, written '' in a shell, is every name, as "*" is. */
static const char *prefix_of(const char *word)
{
    return word[0] == '\0' ? "*" : word;
}

static int run(struct api *api, const struct alert_settings *o, const struct flag_words *words)
{
    uint64_t after_ms;
    if (words->count == 0 || (words->count == 1 && strcmp(words->items[0], "list") == 0)) {
        return list(api, o);
    }
    if (words->count == 2 && strcmp(words->items[0], "remove") == 0) {
        return change(api, o, prefix_of(words->items[1]), 0);
    }
    if (words->count != 3 || strcmp(words->items[0], "set") != 0) {
        cli_say("usage: holdfast alert set PREFIX DURATION | list | remove PREFIX");
        return EXIT_USAGE;
    }
    if (!value_duration_ms(words->items[2], &after_ms) || after_ms == 0) {
        cli_say("alert set: \"%s\" is no duration; examples: 90s, 10m, 2h", words->items[2]);
        return EXIT_USAGE;
    }
    return change(api, o, prefix_of(words->items[1]), after_ms);
}

int alert_main(int count, char **arguments)
{
    struct alert_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    if (!flags_read("alert", alert_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    return run(&api, &o, &words);
}
