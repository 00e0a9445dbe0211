/* `holdfast top`: the busiest locks by their events, per interval. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/sse.h"
#include "transport/clock.h"

enum { NAMES_MAX = 4096, SLOTS = 4 * NAMES_MAX, NAME_TEXT = 513 };

struct top_settings {
    struct cli_common common;
    uint64_t interval_ms;
    uint64_t rows;
    bool once;
};

const struct flag top_options[] = {
    {"interval", 'i', FLAG_DURATION(struct top_settings, interval_ms), "DURATION",
     "time between two updates (default: 1s)"},
    {"rows", 'n', FLAG_NUMBER(struct top_settings, rows), "N",
     "number of locks to show (default: 20)"},
    {"once", '1', FLAG_SWITCH(struct top_settings, once), NULL, "print once and exit"},
    CLI_COMMON_OPTIONS(struct top_settings),
    FLAGS_END,
};

/* Events since the last update. */
struct lock_activity {
    char name[NAME_TEXT];
    char client[64]; /* of the last grant */
    unsigned granted, queued, ended, lost;
};

struct top {
    struct lock_activity *names;
    uint16_t *slots; /* hash table: index in `names` plus 1, or 0 */
    size_t count;
    unsigned others; /* events of locks beyond `names` */
    unsigned total;
};

/* The slot of a name, or a free one. Collisions slow down only this command. */
static uint16_t *find_slot(const struct top *top, struct slice name)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ name.data[i]) * 16777619u;
    }
    uint32_t at = hash % SLOTS;
    while (top->slots[at] != 0 &&
           !slice_equal(slice_of(top->names[top->slots[at] - 1].name), name)) {
        at = (at + 1) % SLOTS;
    }
    return &top->slots[at];
}

/* NULL: `names` is full. */
static struct lock_activity *find(struct top *top, struct slice name)
{
    uint16_t *slot = find_slot(top, name);
    if (*slot != 0) {
        return &top->names[*slot - 1];
    }
    if (top->count == NAMES_MAX || name.len >= NAME_TEXT) {
        return NULL;
    }
    struct lock_activity *fresh = &top->names[top->count++];
    *slot = (uint16_t)top->count;
    *fresh = (struct lock_activity){.granted = 0};
    (void)snprintf(fresh->name, NAME_TEXT, "%.*s", (int)name.len, (const char *)name.data);
    return fresh;
}

static void count_event(struct top *top, const struct sse_event *e)
{
    struct fault fault;
    struct json_t *tree = json_tree_parse(e->data, &fault);
    struct slice name = json_tree_text(json_tree_get(tree, "name"));
    struct slice client = json_tree_text(json_tree_get(tree, "client_id"));
    struct lock_activity *activity = name.len == 0 ? NULL : find(top, name);
    top->total += name.len > 0;
    top->others += name.len > 0 && activity == NULL;
    if (activity != NULL) {
        bool is_grant = strcmp(e->type, "granted") == 0;
        activity->granted += is_grant;
        activity->queued += strcmp(e->type, "queued") == 0;
        activity->ended += strcmp(e->type, "released") == 0;
        activity->lost += strcmp(e->type, "expired") == 0 || strcmp(e->type, "forced") == 0 ||
                          strcmp(e->type, "revoked") == 0;
        if (is_grant) {
            (void)snprintf(activity->client, sizeof(activity->client), "%.*s", (int)client.len,
                           (const char *)client.data);
        }
    }
    json_tree_free(tree);
}

static unsigned event_count(const struct lock_activity *h)
{
    return h->granted + h->queued + h->ended + h->lost;
}

static int busiest_first(const void *a, const void *b)
{
    const struct lock_activity *x = a, *y = b;
    unsigned p = event_count(x), q = event_count(y);
    return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

static void print_json(const struct top *top, size_t rows, uint64_t interval_ms)
{
    struct buffer out;
    struct json_writer w;
    buffer_init(&out, memory_system(), 16 << 20);
    json_writer_init(&w, &out);
    json_write_open(&w, '{');
    json_put_u64(&w, "interval_ms", interval_ms);
    json_put_u64(&w, "events", top->total);
    json_put_open(&w, "names", '[');
    for (size_t i = 0; i < rows; i++) {
        const struct lock_activity *h = &top->names[i];
        json_write_open(&w, '{');
        json_put_text(&w, "name", h->name);
        json_put_u64(&w, "granted", h->granted);
        json_put_u64(&w, "queued", h->queued);
        json_put_u64(&w, "released", h->ended);
        json_put_u64(&w, "lost", h->lost);
        json_put_text(&w, "last_client", h->client);
        json_write_close(&w);
    }
    json_write_close(&w);
    json_write_close(&w);
    printf("%.*s\n", (int)buffer_len(&out), (const char *)buffer_bytes(&out).data);
    buffer_close(&out);
}

static void print_table(const struct top *top, size_t rows, uint64_t interval_ms)
{
    struct columns t;
    char span[HUMAN_TEXT];
    static const char *const heading[] = {"NAME", "GRANTED", "QUEUED", "RELEASED", "LOST", "LAST"};
    if (isatty(STDOUT_FILENO) == 1) {
        printf("\x1b[H\x1b[J"); /* VT100: home, clear */
    }
    printf("%u events in %s, %zu%s names\n\n", top->total, human_span(interval_ms, span),
           top->count, top->others > 0 ? "+" : "");
    columns_init(&t, 6);
    for (unsigned i = 0; i < 6; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < rows; i++) {
        const struct lock_activity *h = &top->names[i];
        columns_text(&t, h->name);
        columns_printf(&t, "%u", h->granted);
        columns_printf(&t, "%u", h->queued);
        columns_printf(&t, "%u", h->ended);
        columns_printf(&t, "%u", h->lost);
        columns_colour(&t, h->lost > 0 ? COLOUR_RED : COLOUR_NONE);
        columns_text(&t, h->client[0] != '\0' ? h->client : "-");
    }
    columns_print(&t, stdout);
    columns_close(&t);
}

static int run(struct sse *s, const struct top_settings *o, struct top *top)
{
    for (;;) {
        int64_t end_ms = clock_boot_ms() + (int64_t)o->interval_ms;
        struct sse_event event;
        enum sse_state state;
        *top = (struct top){.names = top->names, .slots = top->slots};
        memset(top->slots, 0, SLOTS * sizeof(*top->slots));
        while ((state = sse_next(s, &event, end_ms)) == SSE_EVENT && clock_boot_ms() < end_ms) {
            count_event(top, &event);
        }
        if (state == SSE_FAILED) {
            return EXIT_UNREACHABLE;
        }
        qsort(top->names, top->count, sizeof(*top->names), busiest_first);
        size_t rows = top->count < o->rows ? top->count : (size_t)o->rows;
        if (o->common.json) {
            print_json(top, rows, o->interval_ms);
        } else {
            print_table(top, rows, o->interval_ms);
        }
        if (fflush(stdout) != 0 || o->once) {
            return 0;
        }
    }
}

int top_main(int count, char **arguments)
{
    struct top_settings o = {.common = CLI_COMMON_DEFAULT, .interval_ms = 1000, .rows = 20};
    struct flag_words words;
    struct api api;
    struct sse sse;
    if (!flags_read("top", top_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("top", &words, 0, 0) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    struct top top = {.names = calloc(NAMES_MAX, sizeof(*top.names)),
                      .slots = calloc(SLOTS, sizeof(*top.slots))};
    hf_assert(top.names != NULL && top.slots != NULL);
    int code = sse_open(&sse, &api, "/api/v1/watch?list=false", NULL);
    if (code == 0) {
        code = run(&sse, &o, &top);
        sse_close(&sse);
    }
    free(top.names);
    free(top.slots);
    return code;
}
