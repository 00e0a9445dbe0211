/* `holdfast sessions`: open sessions, their expiry and number of locks; `holdfast sessions ID`: the
 * locks of one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"

struct sessions_settings {
    struct cli_common common;
    bool is_private;
};

const struct flag sessions_options[] = {
    {"private", 'p', FLAG_SWITCH(struct sessions_settings, is_private), NULL,
     "also list the private sessions of locks that were acquired without one"},
    CLI_COMMON_OPTIONS(struct sessions_settings),
    FLAGS_END,
};

static void add_row(struct columns *t, const struct json_t *row)
{
    char text[HUMAN_TEXT];
    struct slice id = json_tree_text(json_tree_get(row, "session_id"));
    struct buffer metadata;
    columns_slice(t, id.len > 0 ? id : slice_of("-"));
    columns_slice(t, json_tree_text(json_tree_get(row, "client_id")));
    const struct json_t *ttl = json_tree_get(row, "ttl_ms");
    columns_text(t, ttl != NULL ? human_span(json_tree_u64(ttl, 0), text) : "none");
    const struct json_t *left = json_tree_get(row, "expires_in_ms");
    columns_text(t, left != NULL ? human_span(json_tree_u64(left, 0), text) : "-");
    columns_printf(t, "%u", (unsigned)json_tree_u64(json_tree_get(row, "entries"), 0));
    buffer_init(&metadata, memory_system(), 8192);
    json_tree_write(json_tree_get(row, "metadata"), &metadata);
    columns_slice(t, buffer_bytes(&metadata));
    buffer_close(&metadata);
}

static void print_table(const struct api_pages *pages)
{
    struct columns t;
    columns_init(&t, 6);
    static const char *const heading[] = {"SESSION", "CLIENT", "TTL", "LEFT", "LOCKS", "METADATA"};
    for (unsigned i = 0; i < 6; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < pages->count; i++) {
        add_row(&t, pages->items[i]);
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

/* ---- the locks of one session ---- */

static void add_lock(struct columns *t, const struct json_t *row)
{
    char text[HUMAN_TEXT];
    bool is_held = json_tree_true(json_tree_get(row, "held"));
    const struct json_t *entry = json_tree_get(row, is_held ? "holder" : "waiter");
    const struct json_t *gives_up = json_tree_get(entry, "gives_up_at");
    const struct json_t *token = json_tree_get(entry, "fencing_token");
    columns_slice(t, json_tree_text(json_tree_get(row, "name")));
    columns_text(t, is_held ? "holds" : "waits");
    columns_colour(t, is_held ? COLOUR_NONE : COLOUR_YELLOW);
    columns_slice(t, json_tree_text(json_tree_get(entry, "mode")));
    columns_text(t, human_time(json_tree_text(json_tree_get(entry, "since")), text));
    if (is_held) {
        const struct json_t *left = json_tree_get(entry, "expires_in_ms");
        columns_text(t, human_left(json_tree_u64(left, UINT64_MAX), text));
    } else {
        columns_text(t, gives_up == NULL ? "-" : human_time(json_tree_text(gives_up), text));
    }
    columns_printf(t, "%u", (unsigned)json_tree_u64(json_tree_get(row, "queue_length"), 0));
    columns_slice(t, json_tree_text(json_tree_get(row, "tier")));
    columns_slice(t, json_tree_text(json_tree_get(entry, "owner")));
    if (token == NULL) {
        columns_text(t, "");
    } else {
        columns_printf(t, "%" PRIu64, json_tree_u64(token, 0));
    }
}

static void print_locks(const struct api_pages *pages)
{
    struct columns t;
    columns_init(&t, 9);
    static const char *const heading[] = {"NAME", "STATE",   "MODE", "SINCE",
                                          "ENDS", "WAITERS", "TIER"};
    for (unsigned i = 0; i < 7; i++) {
        columns_text(&t, heading[i]);
    }
    columns_optional(&t, "OWNER");
    columns_optional(&t, "TOKEN");
    for (size_t i = 0; i < pages->count; i++) {
        add_lock(&t, pages->items[i]);
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

static bool is_id(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static int show_locks(struct api *api, const char *id, bool is_json)
{
    char target[API_TARGET];
    struct api_pages pages;
    if (!is_id(id)) {
        cli_say("sessions: \"%s\" is not the id of a session: it must be 32 hexadecimal digits; "
                "`holdfast sessions` lists the ids",
                id);
        return EXIT_USAGE;
    }
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s/locks?limit=1000", id);
    int code = api_pages_read(api, target, "locks", &pages);
    if (code != 0) {
        return code;
    }
    if (is_json) {
        api_pages_print_json(&pages, "locks");
    } else {
        print_locks(&pages);
    }
    api_pages_close(&pages);
    return 0;
}

int sessions_main(int count, char **arguments)
{
    struct sessions_settings o = {CLI_COMMON_DEFAULT, false};
    struct flag_words words;
    struct api api;
    struct api_pages pages;
    if (!flags_read("sessions", sessions_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("sessions", &words, 0, 1) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    if (words.count > 0) {
        return show_locks(&api, words.items[0], o.common.json);
    }
    int code = api_pages_read(&api,
                              o.is_private ? "/api/v1/sessions?limit=1000&private=true"
                                           : "/api/v1/sessions?limit=1000",
                              "sessions", &pages);
    if (code != 0) {
        return code;
    }
    if (o.common.json) {
        api_pages_print_json(&pages, "sessions");
    } else {
        print_table(&pages);
    }
    api_pages_close(&pages);
    return 0;
}
