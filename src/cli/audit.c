/* `holdfast audit`: audit records, oldest first. With a filter, also older ones from the event log of
 * the node that answers. */
#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"
#include "cli/when.h"

struct audit_settings {
    struct cli_common common;
    const char *name;
    const char *prefix;
    const char *actor;
    const char *action;
    const char *since;
    const char *until;
    uint64_t limit;
};

enum { AUDIT_LIMIT_MAX = 100000 };

const struct flag audit_options[] = {
    {"name", 0, FLAG_TEXT_SET(struct audit_settings, name), "NAME", "records about this name"},
    {"prefix", 0, FLAG_TEXT_SET(struct audit_settings, prefix), "PREFIX",
     "records about names with this prefix"},
    {"actor", 0, FLAG_TEXT_SET(struct audit_settings, actor), "NAME", "records of this operator"},
    {"action", 0, FLAG_TEXT_SET(struct audit_settings, action), "ACTION",
     "records of this action, such as force_unlock"},
    {"since", 0, FLAG_TEXT_SET(struct audit_settings, since), "TIME",
     "not before this time: 2h (ago), or in UTC 14:03 or 2026-11-19T14:03:00Z"},
    {"until", 0, FLAG_TEXT_SET(struct audit_settings, until), "TIME", "before this time"},
    {"limit", 0, FLAG_NUMBER_IN(struct audit_settings, limit, 1, AUDIT_LIMIT_MAX), "N",
     "only the last N records"},
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

/* The newest `limit` rows are read newest first; they are shown oldest first. */
static void reverse(struct api_pages *pages)
{
    for (size_t i = 0; i < pages->count / 2; i++) {
        const struct json_t *row = pages->items[i];
        pages->items[i] = pages->items[pages->count - 1 - i];
        pages->items[pages->count - 1 - i] = row;
    }
}

/* The last page knows best; empty: nothing is missing, or the answer does not say. */
static struct slice complete_since(const struct api_pages *pages)
{
    return pages->tree_count == 0 ? slice_make(NULL, 0)
                                  : json_tree_text(json_tree_get(
                                        pages->trees[pages->tree_count - 1], "complete_since"));
}

static void print_rows(const struct audit_settings *o, const struct api_pages *pages)
{
    if (o->common.json) {
        api_pages_print_json_since(pages, "records", complete_since(pages));
        return;
    }
    print_table(pages);
    struct slice since = complete_since(pages);
    bool is_cut = o->limit != 0 && pages->count == o->limit;
    if (since.len > 0 && !is_cut) {
        char text[HUMAN_TEXT];
        cli_say("audit: earlier records than %s may be missing on this node",
                human_time(since, text));
    }
}

static bool make_target(const struct audit_settings *o, struct buffer *target)
{
    char since[WHEN_TEXT];
    char until[WHEN_TEXT];
    if (!when_read("audit", "since", o->since, since) ||
        !when_read("audit", "until", o->until, until)) {
        return false;
    }
    buffer_printf(target, "/api/v1/audit?limit=%u",
                  o->limit != 0 && o->limit < 1000 ? (unsigned)o->limit : 1000);
    when_add_text(target, "order", o->limit != 0 ? "newest" : NULL);
    when_add_text(target, "name", o->name);
    when_add_text(target, "prefix", o->prefix);
    when_add_text(target, "actor", o->actor);
    when_add_text(target, "action", o->action);
    when_add_text(target, "since", since);
    when_add_text(target, "until", until);
    buffer_append_byte(target, 0);
    return true;
}

int audit_main(int count, char **arguments)
{
    struct audit_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct api_pages pages;
    struct buffer target;
    if (!flags_read("audit", audit_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("audit", &words, 0, 0)) {
        return EXIT_USAGE;
    }
    buffer_init(&target, memory_system(), API_TARGET - 64);
    int code = EXIT_USAGE;
    if (make_target(&o, &target) && api_init(&api, &o.common)) {
        code = api_pages_read_some(&api, (const char *)buffer_bytes(&target).data, "records",
                                   o.limit, &pages);
    }
    buffer_close(&target);
    if (code != 0) {
        return code;
    }
    if (o.limit != 0) {
        reverse(&pages);
    }
    print_rows(&o, &pages);
    api_pages_close(&pages);
    return 0;
}
