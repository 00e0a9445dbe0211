/* `holdfast audit`: audit records, oldest first. */
#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"

struct audit_settings {
    struct cli_common common;
};

const struct flag audit_options[] = {
    CLI_COMMON_OPTIONS(struct audit_settings),
    FLAGS_END,
};

static void print_table(const struct api_pages *pages)
{
    struct columns t;
    columns_init(&t, 7);
    static const char *const heading[] = {"WHEN", "ACTION", "NAME", "TIER", "BY"};
    for (unsigned i = 0; i < 5; i++) {
        columns_text(&t, heading[i]);
    }
    columns_optional(&t, "TRACE");
    columns_text(&t, "REASON");
    for (size_t i = 0; i < pages->count; i++) {
        const struct json_t *row = pages->items[i];
        char text[HUMAN_TEXT];
        columns_text(&t, human_time(json_tree_text(json_tree_get(row, "createdAt")), text));
        columns_slice(&t, json_tree_text(json_tree_get(row, "action")));
        columns_slice(&t, json_tree_text(json_tree_get(row, "resource")));
        columns_slice(&t, json_tree_text(json_tree_get(row, "tier")));
        columns_slice(&t, json_tree_text(json_tree_get(row, "actorId")));
        columns_slice(&t, json_tree_text(json_tree_get(row, "trace")));
        columns_slice(&t, json_tree_text(json_tree_get(row, "reason")));
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

int audit_main(int count, char **arguments)
{
    struct audit_settings o = {CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct api_pages pages;
    if (!flags_read("audit", audit_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("audit", &words, 0, 0) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    int code = api_pages_read(&api, "/api/v1/audit?limit=1000", "records", &pages);
    if (code != 0) {
        return code;
    }
    if (o.common.json) {
        api_pages_print_json(&pages, "records");
    } else {
        print_table(&pages);
    }
    api_pages_close(&pages);
    return 0;
}
