/* `holdfast show NAME`: holders, queue, next change, wait-for graph. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/show.h"
#include "cli/show_graph.h"

struct show_settings {
    struct cli_common common;
    bool no_graph;
};

const struct flag show_options[] = {
    {"no-graph", 0, FLAG_SWITCH(struct show_settings, no_graph), NULL,
     "do not read other locks to show which client waits for which"},
    CLI_COMMON_OPTIONS(struct show_settings),
    FLAGS_END,
};

#define TEXT(s) (int)(s).len, (const char *)(s).data

static struct slice text_of(const struct json_t *object, const char *key)
{
    return json_tree_text(json_tree_get(object, key));
}

static void print_head(FILE *to, bool has_colour, const struct json_t *lock)
{
    struct slice name = text_of(lock, "name");
    struct slice mode = text_of(lock, "mode");
    struct slice tier = text_of(lock, "tier");
    char when[HUMAN_TEXT];
    fprintf(to, "%s%.*s%s  %.*s", cli_colour_on(COLOUR_BOLD, has_colour), TEXT(name),
            cli_colour_off(COLOUR_BOLD, has_colour), TEXT(mode));
    if (json_tree_get(lock, "limit") != NULL) {
        fprintf(to, ", %" PRIu64 " of %" PRIu64 " permits used",
                json_tree_u64(json_tree_get(lock, "permits_used"), 0),
                json_tree_u64(json_tree_get(lock, "limit"), 0));
    }
    fprintf(to, ", %.*s", TEXT(tier));
    if (json_tree_get(lock, "delayed_until") != NULL) {
        fprintf(to, ", delayed until %s", human_time(text_of(lock, "delayed_until"), when));
    } else if (!json_tree_true(json_tree_get(lock, "held"))) {
        fprintf(to, ", free");
    }
    if (json_tree_true(json_tree_get(lock, "long_held"))) {
        fprintf(to, ", %sLONG-HELD%s", cli_colour_on(COLOUR_RED, has_colour),
                cli_colour_off(COLOUR_RED, has_colour));
    }
    fprintf(to, "\n");
}

static void add_metadata(struct columns *t, const struct json_t *row)
{
    struct buffer text;
    buffer_init(&text, memory_system(), 8192);
    if (json_tree_get(row, "metadata") != NULL) {
        json_tree_write(json_tree_get(row, "metadata"), &text);
    }
    columns_slice(t, buffer_len(&text) > 0 ? buffer_bytes(&text) : slice_of("-"));
    buffer_close(&text);
}

/* "in 23s, revoked, at most until 2026-11-15 12:00:03Z, long-held" */
static void add_expiry(struct columns *t, const struct json_t *row)
{
    char left[HUMAN_TEXT];
    char until[HUMAN_TEXT];
    const struct json_t *hold = json_tree_get(row, "hold_until");
    columns_printf(t, "%s%s%s%s%s",
                   human_left(json_tree_u64(json_tree_get(row, "expires_in_ms"), UINT64_MAX), left),
                   json_tree_get(row, "revoked_at") != NULL ? ", revoked" : "",
                   hold != NULL ? ", at most until " : "",
                   hold != NULL ? human_time(json_tree_text(hold), until) : "",
                   json_tree_true(json_tree_get(row, "long_held")) ? ", long-held" : "");
}

static void print_holders(FILE *to, bool has_colour, const struct json_t *holders)
{
    struct columns t;
    size_t count = json_tree_count(holders);
    if (count == 0) {
        return;
    }
    columns_init(&t, 7);
    static const char *const heading[] = {"HELD BY", "MODE", "SINCE", "EXPIRES", "TOKEN"};
    for (unsigned i = 0; i < 5; i++) {
        columns_text(&t, heading[i]);
    }
    columns_optional(&t, "TRACE");
    columns_text(&t, "METADATA");
    for (size_t i = 0; i < count; i++) {
        const struct json_t *row = json_tree_at(holders, i);
        char text[HUMAN_TEXT];
        columns_slice(&t, text_of(row, "client_id"));
        columns_slice(&t, text_of(row, "mode"));
        columns_text(&t, human_time(text_of(row, "since"), text));
        add_expiry(&t, row);
        if (json_tree_get(row, "fencing_token") != NULL) {
            columns_printf(&t, "%" PRIu64, json_tree_u64(json_tree_get(row, "fencing_token"), 0));
        } else {
            columns_text(&t, "-");
        }
        columns_slice(&t, text_of(row, "trace"));
        add_metadata(&t, row);
    }
    fprintf(to, "\n");
    columns_print_as(&t, to, has_colour);
    columns_close(&t);
}

static void print_waiters(FILE *to, bool has_colour, const struct json_t *waiters,
                          uint64_t queue_length)
{
    struct columns t;
    size_t count = json_tree_count(waiters);
    if (count == 0) {
        return;
    }
    columns_init(&t, 8);
    static const char *const heading[] = {"WAITS", "CLIENT",  "MODE",
                                          "SINCE", "THROUGH", "GIVES UP"};
    for (unsigned i = 0; i < 6; i++) {
        columns_text(&t, heading[i]);
    }
    columns_optional(&t, "TRACE");
    columns_text(&t, "METADATA");
    for (size_t i = 0; i < count; i++) {
        const struct json_t *row = json_tree_at(waiters, i);
        char text[HUMAN_TEXT];
        bool is_detached = json_tree_true(json_tree_get(row, "detached"));
        columns_printf(&t, "%" PRIu64, json_tree_u64(json_tree_get(row, "position"), 0));
        columns_slice(&t, text_of(row, "client_id"));
        columns_slice(&t, text_of(row, "mode"));
        columns_text(&t, human_time(text_of(row, "since"), text));
        columns_printf(&t, "node %" PRIu64 "%s", json_tree_u64(json_tree_get(row, "node"), 0),
                       is_detached ? ", detached" : "");
        const struct json_t *end = json_tree_get(row, "gives_up_at");
        columns_text(&t, end != NULL ? human_time(json_tree_text(end), text) : "never");
        columns_slice(&t, text_of(row, "trace"));
        add_metadata(&t, row);
    }
    fprintf(to, "\n");
    columns_print_as(&t, to, has_colour);
    if (queue_length > count) {
        fprintf(to, "... and %" PRIu64 " more\n", queue_length - count);
    }
    columns_close(&t);
}

/* The next change, as a sentence. */
static void print_next(FILE *to, const struct json_t *lock)
{
    const struct json_t *holders = json_tree_get(lock, "holders");
    const struct json_t *holder = json_tree_at(holders, 0);
    const struct json_t *waiter = json_tree_at(json_tree_get(lock, "waiters"), 0);
    struct slice reserved = text_of(lock, "reserved_for");
    struct slice waits = text_of(waiter, "client_id");
    struct slice holds = text_of(holder, "client_id");
    char when[HUMAN_TEXT];
    fprintf(to, "\nNext: ");
    if (json_tree_get(lock, "delayed_until") != NULL) {
        fprintf(to, "the last holder did not release it, so it cannot be acquired before %s",
                human_time(text_of(lock, "delayed_until"), when));
        if (waiter != NULL) {
            fprintf(to, "; then %.*s gets it", TEXT(waits));
        }
    } else if (holder == NULL && reserved.len > 0) {
        fprintf(to, "it is reserved for %.*s, which waits for several locks at once",
                TEXT(reserved));
    } else if (holder == NULL) {
        fprintf(to, "the next client that requests it gets it");
    } else if (json_tree_get(holder, "expires_at") == NULL) {
        fprintf(to, "it has no TTL: it is free when %.*s releases it, or after a force-unlock",
                TEXT(holds));
    } else if (waiter != NULL) {
        fprintf(to, "%.*s gets it when %.*s %s, at %s at the latest unless the holder renews it",
                TEXT(waits), TEXT(holds),
                json_tree_count(holders) > 1 ? "and the other holders release it" : "releases it",
                human_time(text_of(holder, "expires_at"), when));
    } else {
        fprintf(to,
                "no client waits; it is free when %.*s releases it, or at %s unless it is renewed",
                TEXT(holds), human_time(text_of(holder, "expires_at"), when));
    }
    fprintf(to, "\n");
}

void show_print(FILE *to, bool has_colour, const struct json_t *lock)
{
    print_head(to, has_colour, lock);
    print_holders(to, has_colour, json_tree_get(lock, "holders"));
    print_waiters(to, has_colour, json_tree_get(lock, "waiters"),
                  json_tree_u64(json_tree_get(lock, "queue_length"), 0));
    print_next(to, lock);
}

int show_main(int count, char **arguments)
{
    struct show_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct api_answer answer;
    if (!flags_read("show", show_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("show", &words, 1, 1) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    int code = show_graph_query(&api, slice_of(words.items[0]), &answer);
    if (code != 0) {
        return code;
    }
    if (o.common.json) {
        api_print_json(&answer);
        api_answer_close(&answer);
        return 0;
    }
    show_print(stdout, cli_has_colour(stdout), answer.tree);
    if (!o.no_graph) {
        code = show_graph_print(stdout, &api, answer.tree);
    }
    api_answer_close(&answer);
    return code;
}
