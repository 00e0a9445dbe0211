/* `holdfast top`: the leader's figures and the locks, by queue, age, wait or rate.
 *
 * On a terminal it has keys and a page for each lock; otherwise it prints a table or a line of JSON per
 * update. Each update reads the locks; the events between two updates give the rates. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"
#include "cli/show.h"
#include "cli/show_graph.h"
#include "cli/top_screen.h"
#include "cli/top_view.h"
#include "transport/clock.h"

enum { UPDATE_MS = 2000 /* timeout of the requests of one update */, KEY_LINE_ROWS = 1 };

struct top_settings {
    struct cli_common common;
    uint64_t interval_ms;
    uint64_t rows;
    uint64_t sort;
    bool once;
};

const struct flag top_options[] = {
    {"sort", 's', FLAG_WORD(struct top_settings, sort), TOP_SORT_WORDS,
     "order of the locks: waiters, age of the hold, time of the first waiter, events (default: "
     "queue)"},
    {"interval", 'i', FLAG_DURATION_IN(struct top_settings, interval_ms, 100, 3600000), "DURATION",
     "time between two updates (default: 1s)"},
    {"rows", 'n', FLAG_NUMBER_IN(struct top_settings, rows, 1, TOP_ROWS_MAX), "N",
     "number of locks to print, not on a terminal (default: 20)"},
    {"once", '1', FLAG_SWITCH(struct top_settings, once), NULL, "print once and exit"},
    CLI_COMMON_OPTIONS(struct top_settings),
    FLAGS_END,
};

enum top_page { PAGE_LOCKS, PAGE_LOCK, PAGE_HELP };

struct top {
    struct api api;
    struct sse events;
    bool has_events;
    struct top_data data;
    struct top_view view;
    char prefix[TOP_NAME_TEXT];

    /* On a terminal. */
    enum top_page page;
    bool is_paused;
    bool is_typing; /* a prefix, in `typed` */
    char typed[TOP_NAME_TEXT];
    char name[TOP_NAME_TEXT]; /* of the selected row; "": the first */
    size_t selected;
};

/* ---- data ---- */

static void unfollow(struct top *t)
{
    if (t->has_events) {
        sse_close(&t->events);
        t->has_events = false;
    }
}

static int follow(struct top *t)
{
    struct buffer target;
    buffer_init(&target, memory_system(), API_TARGET - 128);
    buffer_append_text(&target, "/api/v1/watch?list=false&prefix=");
    http_escape(&target, slice_of(t->prefix), false);
    buffer_append_byte(&target, 0);
    int code = sse_open(&t->events, &t->api, (const char *)buffer_bytes(&target).data, NULL);
    buffer_close(&target);
    t->has_events = code == 0;
    return code;
}

/* Events until `end_ms`. False: the stream is lost. */
static bool count_until(struct top *t, int64_t end_ms)
{
    struct sse_event event;
    enum sse_state state;
    while ((state = sse_next(&t->events, &event, end_ms)) == SSE_EVENT) {
        top_count_event(&t->data, &event);
        if (clock_boot_ms() >= end_ms) {
            return true;
        }
    }
    return state != SSE_FAILED;
}

static int update(struct top *t)
{
    struct api api = t->api;
    api.is_quiet = true; /* `problem` has the message */
    api.timeout_ms = api.timeout_ms < UPDATE_MS ? api.timeout_ms : UPDATE_MS;
    int code = top_read(&t->data, &api, t->prefix, t->view.sort);
    t->api.current = api.current;
    return code;
}

/* ---- without a terminal ---- */

static int print_updates(struct top *t, const struct top_settings *o)
{
    int code = update(t); /* the rates need two */
    if (code != 0) {
        cli_say("%s", t->data.problem);
        return code;
    }
    t->view.rows = (size_t)o->rows;
    for (;;) {
        if (!count_until(t, clock_boot_ms() + (int64_t)o->interval_ms)) {
            return EXIT_UNREACHABLE;
        }
        code = update(t);
        if (code != 0) {
            cli_say("%s", t->data.problem);
            if (o->once) {
                return code;
            }
        } else if (o->common.json) {
            top_print_json(&t->view, &t->data);
        } else {
            top_print_header(stdout, &t->view, &t->data);
            printf("\n");
            top_print_rows(stdout, &t->view, &t->data);
            printf("%s", o->once ? "" : "\n");
        }
        if (fflush(stdout) != 0 || o->once) {
            return 0;
        }
    }
}

/* ---- on a terminal ---- */

/* Rows of locks that fit below the header, a line about them, their heading, above the keys. */
static size_t visible_rows(void)
{
    unsigned lines;
    unsigned columns;
    top_screen_size(&lines, &columns);
    unsigned used = TOP_HEADER_LINES + 3 + KEY_LINE_ROWS;
    return lines > used ? lines - used : 1;
}

/* The selection stays with its name. */
static void select_row(struct top *t)
{
    struct top_table *d = &t->data.shown;
    for (size_t i = 0; t->name[0] != '\0' && i < d->count; i++) {
        if (strcmp(d->rows[i].name, t->name) == 0) {
            t->selected = i;
            break;
        }
    }
    t->selected = t->selected < d->count ? t->selected : d->count > 0 ? d->count - 1 : 0;
    t->view.rows = visible_rows();
    if (t->selected < t->view.first) {
        t->view.first = t->selected;
    } else if (t->selected >= t->view.first + t->view.rows) {
        t->view.first = t->selected - t->view.rows + 1;
    }
}

static void print_about(struct top *t, FILE *to)
{
    const struct top_data *d = &t->data;
    fprintf(to, "\n%s%zu locks%s%s%s, by %s%s%s", cli_colour_on(COLOUR_DIM, t->view.has_colour),
            d->shown.listed, d->shown.is_cut ? " (there are more; choose a prefix with /)" : "",
            t->prefix[0] != '\0' ? " that begin with " : "", t->prefix, top_sort_name(t->view.sort),
            t->is_paused ? ", PAUSED" : "", d->is_stale ? ", STALE: no leader answers" : "");
    if (d->problem[0] != '\0') {
        fprintf(to, ", not updated: %s", d->problem);
    }
    fprintf(to, "%s\n", cli_colour_off(COLOUR_DIM, t->view.has_colour));
}

static void print_locks(struct top *t, FILE *to)
{
    select_row(t);
    top_print_header(to, &t->view, &t->data);
    print_about(t, to);
    top_print_rows(to, &t->view, &t->data);
}

static void print_lock(struct top *t, FILE *to)
{
    struct api api = t->api;
    struct api_answer answer;
    api.is_quiet = true;
    if (show_graph_query(&api, slice_of(t->name), &answer) != 0) {
        char problem[256];
        api_problem(&api, problem, sizeof(problem));
        fprintf(to, "%s\n\nnot shown: %s\n", t->name, problem);
        return;
    }
    show_print(to, t->view.has_colour, answer.tree);
    (void)show_graph_print(to, &api, answer.tree);
    api_answer_close(&answer);
}

static void print_help(FILE *to)
{
    fprintf(to, "Keys\n\n"
                "  u          sort by the number of waiters\n"
                "  a          sort by the age of the hold\n"
                "  w          sort by the time that the first waiter has waited\n"
                "  r          sort by the rate of events\n"
                "  s          sort by the next of these\n"
                "  /          show only names that begin with a prefix; empty: all\n"
                "  up, down, page up, page down, home, end\n"
                "             select a lock (also k and j)\n"
                "  enter      the selected lock: holders, queue, who waits for whom\n"
                "  escape     back\n"
                "  + -        update less or more often\n"
                "  space      pause, go on\n"
                "  q, ^C      end\n\n"
                "GRANTS/S and LOST (expired, forced, revoked) count the events since the last "
                "update.\n");
}

static const char *key_line(const struct top *t, char *out, size_t size)
{
    char span[HUMAN_TEXT];
    if (t->is_typing) {
        (void)snprintf(out, size, "prefix: %s_   (enter: apply, escape: cancel)", t->typed);
    } else if (t->page == PAGE_LOCKS) {
        (void)snprintf(out, size,
                       "u queue  a age  w wait  r rate  / prefix  enter details  space pause  "
                       "h help  q end   every %s",
                       human_span(t->view.interval_ms, span));
    } else {
        (void)snprintf(out, size, "escape back  q end");
    }
    return out;
}

/* The text, cut or filled up to the lines above the key line. */
static void paint(struct top *t)
{
    char *text = NULL;
    size_t len = 0;
    char keys[TOP_NAME_TEXT + 128];
    unsigned lines;
    unsigned columns;
    FILE *to = open_memstream(&text, &len);
    hf_assert(to != NULL);
    if (t->page == PAGE_LOCKS) {
        print_locks(t, to);
    } else if (t->page == PAGE_LOCK) {
        print_lock(t, to);
    } else {
        print_help(to);
    }
    (void)fclose(to);

    top_screen_size(&lines, &columns);
    struct buffer out;
    buffer_init(&out, memory_system(), 4 << 20);
    const char *at = text;
    for (unsigned i = 0; i + KEY_LINE_ROWS < lines; i++) {
        const char *end = memchr(at, '\n', len - (size_t)(at - text));
        size_t part = end == NULL ? len - (size_t)(at - text) : (size_t)(end - at);
        buffer_append(&out, at, part);
        buffer_append_byte(&out, '\n');
        at += part + (end != NULL);
    }
    buffer_append_text(&out, key_line(t, keys, sizeof(keys)));
    int marked = t->page == PAGE_LOCKS && t->data.shown.count > 0
                     ? TOP_HEADER_LINES + 3 + (int)(t->selected - t->view.first)
                     : -1;
    top_screen_paint((const char *)buffer_bytes(&out).data, buffer_len(&out), marked);
    buffer_close(&out);
    free(text);
}

static void move(struct top *t, long by)
{
    long to = (long)t->selected + by;
    long last = t->data.shown.count > 0 ? (long)t->data.shown.count - 1 : 0;
    t->selected = (size_t)(to < 0 ? 0 : to > last ? last : to);
    if (t->data.shown.count > 0) {
        (void)snprintf(t->name, sizeof(t->name), "%s", t->data.shown.rows[t->selected].name);
    }
}

static void sort_by(struct top *t, enum top_sort by)
{
    t->view.sort = by;
    top_sort_rows(&t->data, by);
    t->name[0] = '\0';
    t->selected = 0;
}

/* The same keys as while nothing is typed; true: the prefix has changed. */
static bool type_key(struct top *t, int key)
{
    size_t len = strlen(t->typed);
    if (key == KEY_ESCAPE) {
        t->is_typing = false;
    } else if (key == KEY_ENTER) {
        t->is_typing = false;
        memcpy(t->prefix, t->typed, sizeof(t->prefix));
        return true;
    } else if (key == KEY_ERASE || key == '\b') {
        do {
            len -= len > 0;
        } while (len > 0 && ((uint8_t)t->typed[len] & 0xc0) == 0x80);
        t->typed[len] = '\0';
    } else if (key >= ' ' && key < 0x100 && len + 1 < sizeof(t->typed)) {
        t->typed[len] = (char)key;
        t->typed[len + 1] = '\0';
    }
    return false;
}

static void open_lock(struct top *t)
{
    if (t->data.shown.count > 0) {
        move(t, 0);
        t->page = PAGE_LOCK;
    }
}

static void change_interval(struct top *t, bool is_longer)
{
    uint64_t next = is_longer ? t->view.interval_ms * 2 : t->view.interval_ms / 2;
    t->view.interval_ms = next < 250 ? 250 : next > 60000 ? 60000 : next;
}

/* False: end. */
static bool press(struct top *t, int key)
{
    long page = (long)t->view.rows;
    switch (key) {
    case 'q':
    case KEY_GONE:
        return false;
    case 'u':
        sort_by(t, TOP_BY_QUEUE);
        break;
    case 'a':
        sort_by(t, TOP_BY_AGE);
        break;
    case 'w':
        sort_by(t, TOP_BY_WAIT);
        break;
    case 'r':
        sort_by(t, TOP_BY_RATE);
        break;
    case 's':
        sort_by(t, (enum top_sort)((t->view.sort + 1) % TOP_SORTS));
        break;
    case 'k':
    case KEY_UP:
        move(t, -1);
        break;
    case 'j':
    case KEY_DOWN:
        move(t, 1);
        break;
    case KEY_PAGE_UP:
        move(t, -page);
        break;
    case KEY_PAGE_DOWN:
        move(t, page);
        break;
    case KEY_HOME:
        move(t, -(long)t->data.shown.count);
        break;
    case KEY_BOTTOM:
        move(t, (long)t->data.shown.count);
        break;
    case '+':
        change_interval(t, true);
        break;
    case '-':
        change_interval(t, false);
        break;
    case ' ':
        t->is_paused = !t->is_paused;
        break;
    case '?':
    case 'h':
        t->page = t->page == PAGE_HELP ? PAGE_LOCKS : PAGE_HELP;
        break;
    case KEY_ENTER:
        open_lock(t);
        break;
    case KEY_ESCAPE:
        t->page = PAGE_LOCKS;
        break;
    case '/':
        t->page = PAGE_LOCKS;
        t->is_typing = true;
        memcpy(t->typed, t->prefix, sizeof(t->typed));
        break;
    default:
        break;
    }
    return true;
}

/* Events that are here. They are not waited for. */
static void take_events(struct top *t)
{
    struct sse_event event;
    enum sse_state state;
    while ((state = sse_next(&t->events, &event, clock_boot_ms() + 1)) == SSE_EVENT) {
        top_count_event(&t->data, &event);
    }
    if (state == SSE_FAILED) {
        unfollow(t);
    }
}

/* Without events the locks are still shown. Without a leader no node opens a stream, after a time. */
static void follow_again(struct top *t)
{
    if (t->data.now.is_serving) {
        (void)follow(t);
        t->events.is_once = true;
    }
}

static int run_screen(struct top *t)
{
    bool goes_on = true;
    int64_t next_ms = 0;
    t->api.is_quiet = true;
    t->api.timeout_ms = t->api.timeout_ms < UPDATE_MS ? t->api.timeout_ms : UPDATE_MS;
    t->events.is_once = true;
    while (goes_on) {
        int64_t now_ms = clock_boot_ms();
        if (now_ms >= next_ms) {
            if (!t->is_paused) {
                (void)update(t);
            }
            if (!t->has_events) {
                follow_again(t);
            }
            next_ms = now_ms + (int64_t)t->view.interval_ms;
            paint(t);
        }
        int key = top_screen_key(next_ms, t->has_events ? t->events.http.transport.fd : -1);
        if (key == KEY_NONE) {
            if (t->has_events) {
                take_events(t);
            }
            continue;
        }
        if (t->is_typing && key != KEY_GONE && key != KEY_REDRAW) {
            if (type_key(t, key)) {
                unfollow(t); /* the update follows the new prefix */
                next_ms = 0;
            }
        } else {
            goes_on = press(t, key);
        }
        if (next_ms != 0) {
            paint(t);
        }
    }
    return 0;
}

int top_main(int count, char **arguments)
{
    static struct top t;
    struct top_settings o = {
        .common = CLI_COMMON_DEFAULT, .interval_ms = 1000, .rows = 20, .sort = TOP_BY_QUEUE};
    struct flag_words words;
    if (!flags_read("top", top_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("top", &words, 0, 1) || !api_init(&t.api, &o.common)) {
        return EXIT_USAGE;
    }
    if (words.count > 0 && strlen(words.items[0]) >= sizeof(t.prefix)) {
        cli_say("the prefix is longer than a name may be (%d bytes)", TOP_NAME_TEXT - 1);
        return EXIT_USAGE;
    }
    (void)snprintf(t.prefix, sizeof(t.prefix), "%s", words.count > 0 ? words.items[0] : "");
    t.view = (struct top_view){.sort = (enum top_sort)o.sort,
                               .prefix = t.prefix,
                               .interval_ms = o.interval_ms,
                               .has_colour = cli_has_colour(stdout)};
    int code = follow(&t);
    if (code != 0) {
        return code;
    }
    top_data_init(&t.data);
    if (!o.once && !o.common.json && top_screen_open()) {
        code = run_screen(&t);
        top_screen_close();
    } else {
        code = print_updates(&t, &o);
    }
    top_data_free(&t.data);
    unfollow(&t);
    return code;
}
