/* `holdfast sinks`: the event sinks as the leader sees them. */
#include <inttypes.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"

struct sinks_settings {
    struct cli_common common;
};

const struct flag sinks_options[] = {
    CLI_COMMON_OPTIONS(struct sinks_settings),
    FLAGS_END,
};

static uint64_t number(const struct json_t *row, const char *key)
{
    return json_tree_u64(json_tree_get(row, key), 0);
}

static struct slice message(const struct json_t *row)
{
    return json_tree_text(json_tree_get(json_tree_get(row, "last_error"), "message"));
}

static void add_row(struct columns *t, const struct json_t *row)
{
    char text[HUMAN_TEXT];
    struct slice state = json_tree_text(json_tree_get(row, "state"));
    bool is_failing = slice_equal(state, slice_of("failing"));
    columns_slice(t, json_tree_text(json_tree_get(row, "name")));
    if (is_failing) {
        columns_colour(t, COLOUR_RED);
    }
    columns_slice(t, state);
    columns_printf(t, "%" PRIu64, number(row, "delivered"));
    columns_slice(t, json_tree_text(json_tree_get(row, "position")));
    columns_text(t, human_span(number(row, "lag_ms"), text));
    columns_printf(t, "%" PRIu64, number(row, "lag_entries"));
    columns_printf(t, "%" PRIu64, number(row, "failures"));
    columns_printf(t, "%" PRIu64, number(row, "gaps"));
}

static void print_table(const struct json_t *sinks)
{
    static const char *const heading[] = {"SINK", "STATE",   "DELIVERED", "POSITION",
                                          "LAG",  "ENTRIES", "FAILURES",  "GAPS"};
    enum { COLUMNS = sizeof(heading) / sizeof(heading[0]) };
    struct columns t;
    columns_init(&t, COLUMNS);
    for (unsigned i = 0; i < COLUMNS; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < json_tree_count(sinks); i++) {
        add_row(&t, json_tree_at(sinks, i));
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

/* Also of sinks that have recovered. */
static void print_errors(const struct json_t *sinks)
{
    for (size_t i = 0; i < json_tree_count(sinks); i++) {
        char time[HUMAN_TEXT];
        const struct json_t *row = json_tree_at(sinks, i);
        struct slice name = json_tree_text(json_tree_get(row, "name"));
        const struct json_t *error = json_tree_get(row, "last_error");
        if (message(row).len > 0) {
            human_time(json_tree_text(json_tree_get(error, "time")), time);
            printf("\n%.*s: last error at %s: %.*s\n", (int)name.len, (const char *)name.data, time,
                   (int)message(row).len, (const char *)message(row).data);
        }
    }
}

int sinks_main(int count, char **arguments)
{
    struct sinks_settings o = {CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct api_answer answer;
    if (!flags_read("sinks", sinks_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("sinks", &words, 0, 0) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    int code = api_get(&api, "/api/v1/sinks", &answer);
    if (code != 0) {
        return code;
    }
    const struct json_t *sinks = json_tree_get(answer.tree, "sinks");
    if (o.common.json) {
        api_print_json(&answer);
    } else if (json_tree_count(sinks) == 0) {
        printf("node %" PRIu64 ", the leader, has no event sinks: set sink-file, "
               "sink-kafka-brokers or sink-webhook-url on every node\n",
               number(answer.tree, "leader"));
    } else {
        print_table(sinks);
        print_errors(sinks);
    }
    api_answer_close(&answer);
    return 0;
}
