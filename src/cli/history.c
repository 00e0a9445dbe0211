/* `holdfast history NAME`: who held a lock, how long and how each hold ended; with --at, who held it at
 * one moment. From the event log of the node that answers. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"
#include "cli/when.h"

struct history_settings {
    struct cli_common common;
    const char *at;
    const char *since;
    const char *until;
    uint64_t limit;
};

enum { HISTORY_LIMIT = 20, HISTORY_LIMIT_MAX = 100000 };

const struct flag history_options[] = {
    {"at", 0, FLAG_TEXT_SET(struct history_settings, at), "TIME",
     "who held it then: 2h (ago), or in UTC 14:03 or 2026-11-19T14:03:00Z"},
    {"since", 0, FLAG_TEXT_SET(struct history_settings, since), "TIME",
     "holds that had not ended by then"},
    {"until", 0, FLAG_TEXT_SET(struct history_settings, until), "TIME",
     "holds that began before then"},
    {"limit", 0, FLAG_NUMBER_IN(struct history_settings, limit, 1, HISTORY_LIMIT_MAX), "N",
     "at most N holds, the latest (default: 20; with --since: all)"},
    CLI_COMMON_OPTIONS(struct history_settings),
    FLAGS_END,
};

#define TEXT(s) (int)(s).len, (const char *)(s).data

static struct slice text_of(const struct json_t *object, const char *key)
{
    return json_tree_text(json_tree_get(object, key));
}

static const char *span_of(const struct json_t *object, const char *key, char out[HUMAN_TEXT])
{
    uint64_t ms = json_tree_u64(json_tree_get(object, key), UINT64_MAX);
    return ms == UINT64_MAX ? "?" : human_span(ms, out);
}

/* ---- a list ---- */

/* "forced by olga: it hangs" */
static void add_end(struct columns *t, const struct json_t *hold)
{
    struct slice ended = text_of(hold, "ended");
    struct slice actor = text_of(hold, "actor_id");
    struct slice reason = text_of(hold, "reason");
    if (json_tree_true(json_tree_get(hold, "held"))) {
        columns_text(t, "still held");
        columns_colour(t, COLOUR_GREEN);
    } else if (actor.len > 0) {
        columns_printf(t, "%.*s by %.*s: %.*s", TEXT(ended), TEXT(actor), TEXT(reason));
        columns_colour(t, COLOUR_RED);
    } else {
        columns_slice(t, ended);
        columns_colour(t, slice_is_word(ended, "released") ? COLOUR_NONE : COLOUR_YELLOW);
    }
}

static void add_row(struct columns *t, const struct json_t *hold)
{
    char text[HUMAN_TEXT];
    bool is_held = json_tree_true(json_tree_get(hold, "held"));
    columns_text(t, human_time(text_of(hold, "acquired_at"), text));
    columns_text(t, is_held ? "now" : human_time(text_of(hold, "ended_at"), text));
    columns_text(t, span_of(hold, "held_ms", text));
    columns_text(t, span_of(hold, "waited_ms", text));
    columns_slice(t, text_of(hold, "client_id"));
    columns_slice(t, text_of(hold, "owner"));
    uint64_t token = json_tree_u64(json_tree_get(hold, "fencing_token"), 0);
    if (token != 0) {
        columns_printf(t, "%" PRIu64, token);
    } else {
        columns_text(t, "");
    }
    add_end(t, hold);
    columns_slice(t, text_of(hold, "trace"));
}

static void print_table(const struct api_pages *pages)
{
    struct columns t;
    columns_init(&t, 9);
    static const char *const heading[] = {"FROM", "UNTIL", "HELD", "WAITED", "CLIENT"};
    for (unsigned i = 0; i < 5; i++) {
        columns_text(&t, heading[i]);
    }
    columns_optional(&t, "OWNER");
    columns_optional(&t, "TOKEN");
    columns_text(&t, "END");
    columns_optional(&t, "TRACE");
    for (size_t i = 0; i < pages->count; i++) {
        add_row(&t, pages->items[i]);
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

/* What the log of the node cannot tell. */
static void say_limits(const struct json_t *answer)
{
    char text[HUMAN_TEXT];
    struct slice since = text_of(answer, "complete_since");
    if (since.len > 0) {
        cli_say("history: earlier holds than %s may be missing: the event log of node %" PRIu64
                " has all events only since then; --endpoints selects another node",
                human_time(since, text), json_tree_u64(json_tree_get(answer, "node"), 0));
    }
}

static void print_list(const struct history_settings *o, const char *name,
                       const struct api_pages *pages)
{
    const struct json_t *last = pages->trees[pages->tree_count - 1];
    if (o->common.json) {
        api_pages_print_json_since(pages, "holds", text_of(last, "complete_since"));
        return;
    }
    if (pages->count == 0) {
        printf("%s: nobody has held it%s\n", name,
               o->since != NULL || o->until != NULL      ? " at that time"
               : text_of(last, "complete_since").len > 0 ? " as far as this node has recorded"
                                                         : "");
    } else {
        print_table(pages);
    }
    bool is_cut = o->limit != 0 && pages->count >= o->limit;
    if (is_cut && text_of(last, "next_cursor").len > 0) {
        cli_say("history: these are the last %zu; --limit or --since shows more", pages->count);
    } else {
        say_limits(last);
    }
}

/* ---- one moment ---- */

/* "worker-7 (owner main, token 5120)" */
static void print_holder(const struct json_t *hold)
{
    struct slice owner = text_of(hold, "owner");
    uint64_t token = json_tree_u64(json_tree_get(hold, "fencing_token"), 0);
    printf("%.*s", TEXT(text_of(hold, "client_id")));
    if (owner.len > 0) {
        printf(" (owner %.*s)", TEXT(owner));
    }
    if (token != 0) {
        printf(", token %" PRIu64, token);
    }
    printf("\n");
}

static void print_end(const struct json_t *hold)
{
    char text[HUMAN_TEXT];
    char span[HUMAN_TEXT];
    struct slice ended = text_of(hold, "ended");
    struct slice actor = text_of(hold, "actor_id");
    if (json_tree_true(json_tree_get(hold, "held"))) {
        printf("    and still holds it, for %s now\n", span_of(hold, "held_ms", span));
        return;
    }
    if (slice_is_word(ended, "unknown")) {
        printf("    how it ended is not known\n");
        return;
    }
    printf("    until %s, for %s: %.*s", human_time(text_of(hold, "ended_at"), text),
           span_of(hold, "held_ms", span), TEXT(ended));
    if (actor.len > 0) {
        printf(" by %.*s: %.*s", TEXT(actor), TEXT(text_of(hold, "reason")));
    }
    printf("\n");
}

static void print_hold(const struct json_t *hold)
{
    char text[HUMAN_TEXT];
    char span[HUMAN_TEXT];
    uint64_t waited_ms = json_tree_u64(json_tree_get(hold, "waited_ms"), 0);
    print_holder(hold);
    printf("    since %s", human_time(text_of(hold, "acquired_at"), text));
    if (waited_ms != 0) {
        printf(", after a wait of %s", human_span(waited_ms, span));
    }
    printf("\n");
    print_end(hold);
}

static void print_at(const struct json_t *answer, const char *name)
{
    char text[HUMAN_TEXT];
    struct slice what = text_of(answer, "answer");
    const struct json_t *holds = json_tree_get(answer, "holds");
    const struct json_t *previous = json_tree_get(answer, "previous");
    printf("%s at %s: ", name, human_time(text_of(answer, "at"), text));
    if (slice_is_word(what, "held")) {
        size_t count = json_tree_count(holds);
        printf("held by %s", count == 1 ? "" : "\n");
        for (size_t i = 0; i < count; i++) {
            print_hold(json_tree_at(holds, i));
        }
        if (!json_tree_true(json_tree_get(answer, "certain"))) {
            cli_say("history: there may have been more holders");
        }
    } else if (slice_is_word(what, "free")) {
        printf("nobody held it\n");
    } else {
        printf("not known\n");
        say_limits(answer);
    }
    if (json_tree_is_object(previous)) {
        printf("the last holder before: ");
        print_hold(previous);
    }
}

/* ---- the command ---- */

static bool make_target(struct history_settings *o, const char *name, struct buffer *target)
{
    char at[WHEN_TEXT];
    char since[WHEN_TEXT];
    char until[WHEN_TEXT];
    if (!when_read("history", "at", o->at, at) || !when_read("history", "since", o->since, since) ||
        !when_read("history", "until", o->until, until)) {
        return false;
    }
    if (o->at != NULL && (o->since != NULL || o->until != NULL)) {
        cli_say("history: --at excludes --since and --until");
        return false;
    }
    o->limit = o->limit == 0 && o->since == NULL && o->at == NULL ? HISTORY_LIMIT : o->limit;
    buffer_append_text(target, "/api/v1/locks/");
    http_escape(target, slice_of(name), false);
    buffer_printf(target, "/history?limit=%u",
                  o->limit != 0 && o->limit < 1000 ? (unsigned)o->limit : 1000);
    when_add_text(target, "at", at);
    when_add_text(target, "since", since);
    when_add_text(target, "until", until);
    buffer_append_byte(target, 0);
    return true;
}

static int show_at(struct api *api, const char *target, const struct history_settings *o,
                   const char *name)
{
    struct api_answer answer;
    int code = api_get(api, target, &answer);
    if (code != 0) {
        return code;
    }
    if (o->common.json) {
        api_print_json(&answer);
    } else {
        print_at(answer.tree, name);
    }
    api_answer_close(&answer);
    return 0;
}

static int show_list(struct api *api, const char *target, const struct history_settings *o,
                     const char *name)
{
    struct api_pages pages;
    int code = api_pages_read_some(api, target, "holds", o->limit, &pages);
    if (code == 0) {
        print_list(o, name, &pages);
        api_pages_close(&pages);
    }
    return code;
}

int history_main(int count, char **arguments)
{
    struct history_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct buffer target;
    if (!flags_read("history", history_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("history", &words, 1, 1)) {
        return EXIT_USAGE;
    }
    const char *name = words.items[0];
    buffer_init(&target, memory_system(), API_TARGET - 64);
    int code = EXIT_USAGE;
    if (make_target(&o, name, &target) && api_init(&api, &o.common)) {
        const char *text = (const char *)buffer_bytes(&target).data;
        code = o.at != NULL ? show_at(&api, text, &o, name) : show_list(&api, text, &o, name);
    }
    buffer_close(&target);
    return code;
}
