/* `holdfast ls [PREFIX]`: locks that are held, waited for or delayed, by name. */
#include <stdlib.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"

struct ls_settings {
    struct cli_common common;
    bool is_no_ttl;
};

const struct flag ls_options[] = {
    {"no-ttl", 0, FLAG_SWITCH(struct ls_settings, is_no_ttl), NULL,
     "only locks without a TTL, which live until they are released"},
    CLI_COMMON_OPTIONS(struct ls_settings),
    FLAGS_END,
};

static struct slice name_of(const struct json_t *row)
{
    return json_tree_text(json_tree_get(row, "name"));
}

static int by_name(const void *a, const void *b)
{
    return slice_compare(name_of(*(const struct json_t *const *)a),
                         name_of(*(const struct json_t *const *)b));
}

/* Lists are unordered; a lock that changed meanwhile may occur twice (S9.2). */
static void sort(struct api_pages *pages)
{
    if (pages->count == 0) {
        return;
    }
    qsort((void *)pages->items, pages->count, sizeof(*pages->items), by_name);
    size_t kept = 1;
    for (size_t i = 1; i < pages->count; i++) {
        if (!slice_equal(name_of(pages->items[i]), name_of(pages->items[kept - 1]))) {
            pages->items[kept++] = pages->items[i];
        }
    }
    pages->count = kept;
}

static void add_row(struct columns *t, const struct json_t *row)
{
    char text[HUMAN_TEXT];
    const struct json_t *holder = json_tree_get(row, "holder");
    uint64_t holders = json_tree_u64(json_tree_get(row, "holder_count"), 0);
    columns_slice(t, name_of(row));
    columns_slice(t, json_tree_text(json_tree_get(row, "mode")));
    if (holder == NULL) {
        const struct json_t *delayed = json_tree_get(row, "delayed_until");
        columns_text(t, delayed != NULL ? "(delayed)" : "(free)");
        columns_colour(t, COLOUR_YELLOW);
        columns_text(t, "-");
        columns_text(t, delayed != NULL ? human_time(json_tree_text(delayed), text) : "-");
    } else {
        struct slice client = json_tree_text(json_tree_get(holder, "client_id"));
        if (holders > 1) {
            columns_printf(t, "%.*s and %u more", (int)client.len, (const char *)client.data,
                           (unsigned)(holders - 1));
        } else {
            columns_slice(t, client);
        }
        columns_text(t, human_time(json_tree_text(json_tree_get(holder, "since")), text));
        const struct json_t *left = json_tree_get(holder, "expires_in_ms");
        columns_text(t, human_left(json_tree_u64(left, UINT64_MAX), text));
    }
    columns_printf(t, "%u", (unsigned)json_tree_u64(json_tree_get(row, "queue_length"), 0));
    columns_slice(t, json_tree_text(json_tree_get(row, "tier")));
    bool is_long_held = json_tree_true(json_tree_get(row, "long_held"));
    columns_text(t, is_long_held ? "long-held" : "");
    columns_colour(t, is_long_held ? COLOUR_RED : COLOUR_NONE);
    columns_slice(t, json_tree_text(json_tree_get(holder, "trace")));
}

static void print_table(const struct api_pages *pages)
{
    struct columns t;
    columns_init(&t, 9);
    static const char *const heading[] = {"NAME",    "MODE",    "HOLDER", "SINCE",
                                          "EXPIRES", "WAITERS", "TIER"};
    for (unsigned i = 0; i < 7; i++) {
        columns_text(&t, heading[i]);
    }
    columns_optional(&t, "ALERT");
    columns_optional(&t, "TRACE");
    for (size_t i = 0; i < pages->count; i++) {
        add_row(&t, pages->items[i]);
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

int ls_main(int count, char **arguments)
{
    struct ls_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    if (!flags_read("ls", ls_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("ls", &words, 0, 1) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    struct buffer target;
    buffer_init(&target, memory_system(), API_TARGET - 64);
    buffer_append_text(&target, "/api/v1/locks?limit=1000");
    buffer_append_text(&target, o.is_no_ttl ? "&no_ttl=true&prefix=" : "&prefix=");
    http_escape(&target, slice_of(words.count > 0 ? words.items[0] : ""), false);
    buffer_append_byte(&target, 0);
    struct api_pages pages;
    int code = api_pages_read(&api, (const char *)buffer_bytes(&target).data, "locks", &pages);
    buffer_close(&target);
    if (code != 0) {
        return code;
    }
    sort(&pages);
    if (o.common.json) {
        api_pages_print_json(&pages, "locks");
    } else {
        print_table(&pages);
    }
    api_pages_close(&pages);
    return 0;
}
