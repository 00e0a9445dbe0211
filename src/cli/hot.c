/* `holdfast hot`: the busiest prefixes of lock names. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"

struct hot_settings {
    struct cli_common common;
    const char *by;
    uint64_t limit;
};

const struct flag hot_options[] = {
    {"by", 0, FLAG_TEXT(struct hot_settings, by), "WHAT",
     "contention, hold, wait or rate (default: contention)"},
    {"limit", 'n', FLAG_NUMBER(struct hot_settings, limit), "N",
     "at most so many prefixes, up to 100 (default: 20)"},
    CLI_COMMON_OPTIONS(struct hot_settings),
    FLAGS_END,
};

/* What a row counts, and its heading. */
static const struct hot_measure {
    const char *by;
    const char *heading;
} measures[] = {
    {"contention", "CONTENDED/S"},
    {"hold", "HOLDERS"}, /* seconds of hold in each second */
    {"wait", "WAITING"},
    {"rate", "ACQUIRES/S"},
};

static const struct hot_measure *find_measure(const char *by)
{
    for (unsigned i = 0; i < sizeof(measures) / sizeof(measures[0]); i++) {
        if (slice_is_word(slice_of(by), measures[i].by)) {
            return &measures[i];
        }
    }
    return NULL;
}

static double number_of(const struct json_t *row, const char *key)
{
    return json_tree_double(json_tree_get(row, key), 0);
}

static void print_table(const struct json_t *tree, const struct hot_measure *measure)
{
    struct columns t;
    const struct json_t *rows = json_tree_get(tree, "prefixes");
    columns_init(&t, 5);
    columns_text(&t, measure->heading);
    columns_text(&t, "ERROR");
    columns_text(&t, "SHARE");
    columns_text(&t, "TENANT");
    columns_text(&t, "PREFIX");
    for (size_t i = 0; i < json_tree_count(rows); i++) {
        const struct json_t *row = json_tree_at(rows, i);
        columns_printf(&t, "%.2f", number_of(row, "per_second"));
        columns_printf(&t, "%.2f", number_of(row, "error"));
        columns_printf(&t, "%.1f%%", 100 * number_of(row, "share"));
        columns_slice(&t, json_tree_text(json_tree_get(row, "tenant")));
        columns_slice(&t, json_tree_text(json_tree_get(row, "prefix")));
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

static void print_head(const struct json_t *tree, const struct hot_measure *measure)
{
    char span[HUMAN_TEXT];
    char since[HUMAN_TEXT];
    printf("by %s, about the last %s, on leader %" PRIu64 " since %s\n", measure->by,
           human_span(json_tree_u64(json_tree_get(tree, "window_ms"), 0), span),
           json_tree_u64(json_tree_get(tree, "leader"), 0),
           human_time(json_tree_text(json_tree_get(tree, "since")), since));
}

int hot_main(int count, char **arguments)
{
    struct hot_settings o = {CLI_COMMON_DEFAULT, "contention", 20};
    struct flag_words words;
    struct api api;
    struct api_answer answer;
    char target[128];
    if (!flags_read("hot", hot_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("hot", &words, 0, 0)) {
        return EXIT_USAGE;
    }
    const struct hot_measure *measure = find_measure(o.by);
    if (measure == NULL || o.limit < 1 || o.limit > 100) {
        cli_say("hot: %s", measure == NULL ? "--by: must be contention, hold, wait or rate"
                                           : "--limit: must be from 1 to 100");
        return EXIT_USAGE;
    }
    if (!api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    (void)snprintf(target, sizeof(target), "/api/v1/hot?by=%s&limit=%" PRIu64, measure->by,
                   o.limit);
    int code = api_get(&api, target, &answer);
    if (code != 0) {
        return code;
    }
    if (o.common.json) {
        api_print_json(&answer);
    } else {
        print_head(answer.tree, measure);
        print_table(answer.tree, measure);
    }
    api_answer_close(&answer);
    return 0;
}
