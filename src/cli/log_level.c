/* `holdfast log-level`: the log levels of all nodes, shown or changed. Each node has its own, so each gets
 * its own request at the client address that the members have of it. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/members.h"
#include "cli/say.h"
#include "server/log.h"

#define TARGET "/api/v1/log-level"

struct log_level_settings {
    struct cli_common common;
    uint64_t node; /* 0: all */
    const char *actor;
};

const struct flag log_level_options[] = {
    {"node", 0, FLAG_NUMBER(struct log_level_settings, node), "N",
     "only this node (default: all members)"},
    {"actor", 0, FLAG_TEXT(struct log_level_settings, actor), "NAME",
     "name of the operator, for the audit record (default: USER@HOST)"},
    CLI_COMMON_OPTIONS(struct log_level_settings),
    FLAGS_END,
};

struct level_row {
    uint64_t node;
    char address[HTTP_ENDPOINT];
    struct api_answer answer; /* if `code` is 0 */
    char problem[HTTP_PROBLEM];
    int code;
};

struct level_rows {
    struct level_row items[LIMIT_NODES];
    size_t count;
};

/* ---- requests ---- */

static void write_body(const char *levels, const char *actor, struct buffer *body)
{
    char own[256];
    struct json_writer w;
    api_actor(own, sizeof(own));
    json_writer_init(&w, body);
    json_write_open(&w, '{');
    json_put_text(&w, "log_level", levels);
    json_put_text(&w, "actor_id", actor != NULL ? actor : own);
    json_write_close(&w);
}

/* `levels` NULL: shows them. */
static void call(struct level_row *row, const struct log_level_settings *o, const char *levels)
{
    struct api to = {.count = 1, .timeout_ms = o->common.timeout_ms, .is_quiet = true};
    struct buffer body;
    if (row->address[0] == '\0') {
        row->code = EXIT_UNREACHABLE;
        (void)snprintf(row->problem, sizeof(row->problem),
                       "the answering node does not know its client address");
        return;
    }
    memcpy(to.endpoints[0], row->address, sizeof(row->address));
    buffer_init(&body, memory_system(), 4096);
    if (levels != NULL) {
        write_body(levels, o->actor, &body);
    }
    /* Setting the same level again changes nothing. */
    struct cli_request request = {levels == NULL ? "GET" : "PUT", TARGET, buffer_bytes(&body),
                                  API_REPEAT};
    row->code = api_call(&to, &request, &row->answer);
    if (row->code != 0) {
        memcpy(row->problem, to.problems[0], sizeof(row->problem));
    }
    buffer_close(&body);
}

static bool add_members(const struct json_t *cluster, const struct log_level_settings *o,
                        struct level_rows *rows)
{
    const struct json_t *members = json_tree_get(cluster, "members");
    for (size_t i = 0; i < json_tree_count(members) && rows->count < LIMIT_NODES; i++) {
        const struct json_t *member = json_tree_at(members, i);
        uint64_t id = json_tree_u64(json_tree_get(member, "id"), 0);
        struct slice address = json_tree_text(json_tree_get(member, "client_address"));
        if (o->node == 0 || o->node == id) {
            struct level_row *row = &rows->items[rows->count++];
            *row = (struct level_row){.node = id};
            (void)snprintf(row->address, sizeof(row->address), "%.*s", (int)address.len,
                           (const char *)address.data);
        }
    }
    return rows->count > 0;
}

/* ---- output ---- */

static void print_table(const struct level_rows *rows)
{
    struct columns t;
    static const char *const words[] = {
#define X(symbol, word) word,
        JOURNAL_SUBSYSTEM_LIST(X)
#undef X
    };
    static const char *const headings[] = {"NODE",     "RAFT",   "PEER", "DISK",
                                           "SNAPSHOT", "CLIENT", "LOCK"};
    _Static_assert(sizeof(words) / sizeof(words[0]) == sizeof(headings) / sizeof(headings[0]),
                   "a heading for each subsystem");
    columns_init(&t, 2 + JOURNAL_SUBSYSTEMS);
    columns_text(&t, "ID");
    columns_text(&t, "ADDRESS");
    for (unsigned i = 0; i < JOURNAL_SUBSYSTEMS; i++) {
        columns_text(&t, headings[i]);
    }
    for (size_t i = 0; i < rows->count; i++) {
        const struct level_row *row = &rows->items[i];
        const struct json_t *levels =
            row->code == 0 ? json_tree_get(row->answer.tree, "levels") : NULL;
        columns_printf(&t, "%" PRIu64, row->node);
        columns_text(&t, row->address[0] != '\0' ? row->address : "-");
        for (unsigned j = 0; j < JOURNAL_SUBSYSTEMS; j++) {
            struct slice level = json_tree_text(json_tree_get(levels, words[j]));
            columns_slice(&t, level.len > 0 ? level : slice_of("-"));
        }
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

static void print_json(const struct level_rows *rows)
{
    struct buffer text;
    struct json_writer w;
    buffer_init(&text, memory_system(), API_ANSWER_MAX);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    json_put_open(&w, "nodes", '[');
    for (size_t i = 0; i < rows->count; i++) {
        const struct level_row *row = &rows->items[i];
        json_write_open(&w, '{');
        json_put_u64(&w, "node", row->node);
        json_put_text(&w, "address", row->address);
        if (row->code == 0) {
            json_put_open(&w, "levels", '{');
#define X(symbol, word) \
    json_put_string(    \
        &w, word, json_tree_text(json_tree_get(json_tree_get(row->answer.tree, "levels"), word)));
            JOURNAL_SUBSYSTEM_LIST(X)
#undef X
            json_write_close(&w);
        } else {
            json_put_text(&w, "error", row->problem);
        }
        json_write_close(&w);
    }
    json_write_close(&w);
    json_write_close(&w);
    buffer_append_byte(&text, '\n');
    struct slice bytes = buffer_bytes(&text);
    (void)fwrite(bytes.data, 1, bytes.len, stdout);
    buffer_close(&text);
}

/* The exit code of the first that failed. */
static int report(const struct level_rows *rows, bool changes)
{
    int code = 0;
    size_t failed = 0;
    (void)fflush(stdout);
    for (size_t i = 0; i < rows->count; i++) {
        const struct level_row *row = &rows->items[i];
        if (row->code != 0) {
            cli_say("log-level: node %" PRIu64 " (%s): %s", row->node,
                    row->address[0] != '\0' ? row->address : "no address", row->problem);
            code = code == 0 ? row->code : code;
            failed++;
        }
    }
    if (failed > 0) {
        cli_say("log-level: %zu of %zu nodes did not answer%s", failed, rows->count,
                changes ? "; their levels are unchanged or unknown. Repeat the command" : "");
    }
    return code;
}

/* ---- the command ---- */

static int run(struct api *api, const struct log_level_settings *o, const char *levels)
{
    struct api_answer cluster;
    static struct level_rows rows;
    int code = api_get(api, "/api/v1/cluster", &cluster);
    if (code != 0) {
        return code;
    }
    bool found = add_members(cluster.tree, o, &rows);
    api_answer_close(&cluster);
    if (!found) {
        cli_say("log-level: node %" PRIu64 " is no member; `holdfast status` lists the members",
                o->node);
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < rows.count; i++) {
        call(&rows.items[i], o, levels);
    }
    if (o->common.json) {
        print_json(&rows);
    } else {
        print_table(&rows);
    }
    code = report(&rows, levels != NULL);
    for (size_t i = 0; i < rows.count; i++) {
        if (rows.items[i].code == 0) {
            api_answer_close(&rows.items[i].answer);
        }
    }
    return code;
}

int log_level_main(int count, char **arguments)
{
    struct log_level_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct log_levels checked;
    if (!flags_read("log-level", log_level_options, FLAGS_ANY_ORDER, count, arguments, &o,
                    &words) ||
        !cli_words_check("log-level", &words, 0, 1)) {
        return EXIT_USAGE;
    }
    const char *levels = words.count > 0 ? words.items[0] : NULL;
    const char *wrong = levels == NULL ? NULL : log_levels_parse(levels, &checked);
    if (wrong != NULL) {
        cli_say("log-level: \"%s\": %s", levels, wrong);
        return EXIT_USAGE;
    }
    return api_init(&api, &o.common) ? run(&api, &o, levels) : EXIT_USAGE;
}
