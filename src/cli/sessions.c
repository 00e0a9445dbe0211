/* `holdfast sessions`: open sessions, their expiry and number of locks. */
#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"

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
    columns_text(t, human_span(json_tree_u64(json_tree_get(row, "ttl_ms"), 0), text));
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

int sessions_main(int count, char **arguments)
{
    struct sessions_settings o = {CLI_COMMON_DEFAULT, false};
    struct flag_words words;
    struct api api;
    struct api_pages pages;
    if (!flags_read("sessions", sessions_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("sessions", &words, 0, 0) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
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
