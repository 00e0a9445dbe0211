/* `holdfast watch [PREFIX]`: lock events. */
#include <stdio.h>

#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/sse.h"
#include "transport/clock.h"

struct watch_settings {
    struct cli_common common;
    const char *since;
    uint64_t events;
    bool list;
};

const struct flag watch_options[] = {
    {"since", 0, FLAG_TEXT(struct watch_settings, since), "ID",
     "continue after the event with this id (`--json` prints ids)"},
    {"list", 'l', FLAG_SWITCH(struct watch_settings, list), NULL, "print the current state first"},
    {"events", 'n', FLAG_NUMBER(struct watch_settings, events), "N", "exit after N events"},
    CLI_COMMON_OPTIONS(struct watch_settings),
    FLAGS_END,
};

static void print_json(const struct sse_event *e)
{
    printf("{\"id\":\"%s\",\"event\":\"%s\",\"data\":%.*s}\n", e->id, e->type, (int)e->data.len,
           (const char *)e->data.data);
}

static enum cli_colour colour_of(const char *type)
{
    static const struct {
        const char *type;
        enum cli_colour colour;
    } colours[] = {
        {"granted", COLOUR_GREEN}, {"expired", COLOUR_RED},   {"forced", COLOUR_RED},
        {"revoked", COLOUR_RED},   {"queued", COLOUR_YELLOW}, {"delayed", COLOUR_YELLOW},
        {"long_held", COLOUR_RED},
    };
    for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++) {
        if (strcmp(type, colours[i].type) == 0) {
            return colours[i].colour;
        }
    }
    return COLOUR_NONE;
}

/* `word` and the value of `key`, if any. */
static void print_field(const struct json_t *tree, const char *key, const char *word)
{
    struct slice text = json_tree_text(json_tree_get(tree, key));
    if (text.len > 0) {
        printf("  %s%.*s", word, (int)text.len, (const char *)text.data);
    }
}

static void print_line(const struct sse_event *e)
{
    struct fault fault;
    struct json_t *tree = json_tree_parse(e->data, &fault);
    char at[HUMAN_TEXT];
    bool has_colour = cli_has_colour(stdout);
    enum cli_colour colour = colour_of(e->type);
    printf("%-20s  %s%-16s%s", human_time(json_tree_text(json_tree_get(tree, "at")), at),
           cli_colour_on(colour, has_colour), e->type, cli_colour_off(colour, has_colour));
    print_field(tree, "name", "");
    print_field(tree, "client_id", "client ");
    print_field(tree, "actor_id", "by ");
    print_field(tree, "reason", "reason ");
    print_field(tree, "text", "");
    print_field(tree, "rule", "longer than the rule of ");
    print_field(tree, "value", "value ");
    print_field(tree, "trace", "trace ");
    (void)putchar('\n');
    json_tree_free(tree);
}

static int follow(struct sse *s, const struct watch_settings *o)
{
    struct sse_event event;
    uint64_t count = 0;
    while (o->events == 0 || count < o->events) {
        enum sse_state state = sse_next(s, &event, clock_boot_ms() + 3600000);
        if (state == SSE_FAILED) {
            return EXIT_UNREACHABLE;
        }
        if (state == SSE_TIMEOUT) {
            continue;
        }
        if (o->common.json) {
            print_json(&event);
        } else if (strcmp(event.type, "ready") != 0) {
            print_line(&event);
        }
        count += strcmp(event.type, "ready") != 0;
        if (fflush(stdout) != 0) {
            return EXIT_FAILED; /* stdout is closed */
        }
    }
    return 0;
}

int watch_main(int count, char **arguments)
{
    struct watch_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct sse sse;
    if (!flags_read("watch", watch_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("watch", &words, 0, 1) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    struct buffer target;
    buffer_init(&target, memory_system(), API_TARGET - 1);
    buffer_append_text(&target, "/api/v1/watch?list=");
    buffer_append_text(&target, o.list ? "true" : "false");
    if (words.count > 0) {
        buffer_append_text(&target, "&prefix=");
        http_escape(&target, slice_of(words.items[0]), false);
    }
    buffer_append_byte(&target, 0);
    int code = sse_open(&sse, &api, (const char *)buffer_bytes(&target).data, o.since);
    buffer_close(&target);
    if (code == 0) {
        code = follow(&sse, &o);
        sse_close(&sse);
    }
    return code;
}
