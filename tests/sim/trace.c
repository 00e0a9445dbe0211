/* Words and a picture of what happened. The last things that happened are kept in a ring; at a
 * violation they become a space-time picture: a line for each node, an arrow for each message, a
 * bar for each holder of a lock. */
#include "world.h"

#include <stdarg.h>
#include <unistd.h>

enum { RING = 4096, WINDOW_US = 400000, SCALE = 400, LEFT = 90, TOP = 60, ROW = 46, BAR = 18 };

enum what { NOTHING, MESSAGE, MARK, HOLD, HOLD_END };

static struct traced_event {
    enum what what;
    int from; /* or the node, or the name */
    int to;
    uint64_t from_us;
    uint64_t to_us;
    uint64_t token;
    const char *word;
} ring[RING];
static uint64_t ring_next;

static struct traced_event *next(void)
{
    return &ring[ring_next++ % RING];
}

void trace_message(int from, int to, uint64_t sent_us, uint64_t arrived_us, const char *what)
{
    *next() = (struct traced_event){MESSAGE, from, to, sent_us, arrived_us, 0, what};
}

void trace_mark(int node, const char *what)
{
    *next() = (struct traced_event){MARK, node, 0, world.now_us, world.now_us, 0, what};
}

void trace_hold(uint32_t name, uint64_t token, bool begins)
{
    uint64_t until_us = begins ? UINT64_MAX : world.now_us;
    *next() = (struct traced_event){
        begins ? HOLD : HOLD_END, (int)name, 0, world.now_us, until_us, token, ""};
}

/* ---- the picture ---- */

/* Each hold is reported when it ended. Only now: a picture is seldom drawn, a hold often ends. */
static void match_ends(void)
{
    uint64_t first = ring_next > RING ? ring_next - RING : 0;
    for (uint64_t end = first; end < ring_next; end++) {
        const struct traced_event *e = &ring[end % RING];
        for (uint64_t i = end; e->what == HOLD_END && i > first; i--) {
            struct traced_event *s = &ring[(i - 1) % RING];
            if (s->what == HOLD && s->token == e->token && s->from == e->from) {
                s->to_us = e->to_us;
                break;
            }
        }
    }
}

static double x_of(uint64_t us, uint64_t start_us)
{
    return (double)LEFT + (double)(us - start_us) / (double)SCALE;
}

static void draw_frame(FILE *f, uint64_t start_us, int rows[MAX_NODES + 1], int row_count,
                       const char *title)
{
    double width = x_of(world.now_us, start_us) + 30;
    int height = TOP + row_count * ROW + NAMES * BAR + 60;
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%d' "
            "font-family='sans-serif' font-size='11'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n"
            "<text x='10' y='20' font-size='14'>seed %llu: %s</text>\n",
            width, height, ull(world.options.seed), title);
    for (int i = 1; i <= MAX_NODES; i++) {
        if (world.nodes[i].used) {
            int y = TOP + rows[i] * ROW;
            fprintf(f,
                    "<text x='10' y='%d'>node %d%s</text>"
                    "<line x1='%d' y1='%d' x2='%.0f' y2='%d' stroke='#999'/>\n",
                    y + 4, i, world.nodes[i].up ? "" : " (down)", LEFT, y, width - 20, y);
        }
    }
    for (int i = 0; i < NAMES; i++) {
        fprintf(f, "<text x='10' y='%d'>name n%d</text>\n", TOP + row_count * ROW + i * BAR + 12,
                i);
    }
    for (uint64_t us = (start_us / 50000 + 1) * 50000; us < world.now_us; us += 50000) {
        fprintf(f,
                "<line x1='%.1f' y1='40' x2='%.1f' y2='%d' stroke='#eee'/>"
                "<text x='%.1f' y='38' fill='#777'>%.2f s</text>\n",
                x_of(us, start_us), x_of(us, start_us), height - 20, x_of(us, start_us) - 14,
                (double)us / 1e6);
    }
}

static void draw_one(FILE *f, const struct traced_event *s, uint64_t start_us, const int *rows,
                     int row_count)
{
    uint64_t from_us = s->from_us < start_us ? start_us : s->from_us;
    uint64_t to_us = s->to_us > world.now_us ? world.now_us : s->to_us;
    double x1 = x_of(from_us, start_us);
    double x2 = x_of(to_us, start_us);
    if (s->what == MESSAGE) {
        const char *colour = s->word[0] == 'a'   ? (s->word[6] == '\0' ? "#36c" : "#9bd")
                             : s->word[0] == 'v' ? "#c60"
                                                 : "#080";
        int y1 = TOP + rows[s->from] * ROW;
        int y2 = TOP + rows[s->to] * ROW;
        fprintf(f,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='%s'><title>%s, %d to "
                "%d</title></line><circle cx='%.1f' cy='%d' r='2' fill='%s'/>\n",
                x1, y1, x2, y2, colour, s->word, s->from, s->to, x2, y2, colour);
    } else if (s->what == MARK) {
        int y = TOP + rows[s->from] * ROW;
        fprintf(f,
                "<circle cx='%.1f' cy='%d' r='4' fill='#c00'/><text x='%.1f' y='%d' "
                "fill='#c00'>%s</text>\n",
                x1, y, x1 + 4, y - 6, s->word);
    } else if (s->what == HOLD) {
        int y = TOP + row_count * ROW + s->from * BAR;
        fprintf(f,
                "<rect x='%.1f' y='%d' width='%.1f' height='%d' fill='#cde' "
                "stroke='#68a'/><text x='%.1f' y='%d'>%llu</text>\n",
                x1, y, x2 - x1 + 1, BAR - 4, x1 + 2, y + 11, ull(s->token));
    }
}

/* Text goes into the picture as it is, but for what XML means by it. */
static void plain(const char *text, char *out, size_t size)
{
    size_t i = 0;
    for (; text[i] != '\0' && i + 1 < size; i++) {
        out[i] = strchr("<>&'\"", text[i]) != NULL ? ' ' : text[i];
    }
    out[i] = '\0';
}

static void draw(const char *text)
{
    char title[600];
    char path[64];
    int rows[MAX_NODES + 1] = {0};
    int row_count = 0;
    plain(text, title, sizeof(title));
    snprintf(path, sizeof(path), "sim-%llu.svg", ull(world.options.seed));
    const char *to = world.options.picture != NULL ? world.options.picture : path;
    FILE *f = fopen(to, "w");
    if (f == NULL) {
        fprintf(stderr, "no picture: %s cannot be written\n", to);
        return;
    }
    for (int i = 1; i <= MAX_NODES; i++) {
        rows[i] = row_count;
        row_count += world.nodes[i].used;
    }
    match_ends();
    uint64_t start_us = world.now_us > WINDOW_US ? world.now_us - WINDOW_US : 0;
    draw_frame(f, start_us, rows, row_count, title);
    for (uint64_t i = ring_next > RING ? ring_next - RING : 0; i < ring_next; i++) {
        const struct traced_event *s = &ring[i % RING];
        if (s->to_us >= start_us) {
            draw_one(f, s, start_us, rows, row_count);
        }
    }
    fprintf(f, "</svg>\n");
    fclose(f);
    fprintf(stderr, "picture: %s\n", to);
}

/* ---- words ---- */

void trace(const char *format, ...)
{
    if (world.options.trace) {
        va_list args;
        va_start(args, format);
        printf("%10.6f ", (double)world.now_us / 1e6);
        vprintf(format, args);
        putchar('\n');
        va_end(args);
    }
}

static _Noreturn void end_with(const char *text)
{
    fflush(stdout);
    if (world.options.said != NULL) {
        snprintf(world.options.said, SAID_MAX, "%s", text);
    }
    fprintf(stderr,
            "VIOLATION seed %llu, event %llu, at %.6f s: %s\nreplay: make sim SEED=%llu TRACE=1\n",
            ull(world.options.seed), ull(world.counts.happenings), (double)world.now_us / 1e6, text,
            ull(world.options.seed));
    if (world.options.picture == NULL || world.options.picture[0] != '\0') {
        draw(text);
    }
    fflush(stderr);
    _exit(1);
}

void violation(const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    end_with(text);
}

void breach(const char *rule, const char *format, ...)
{
    char text[600];
    int len = snprintf(text, sizeof(text), "%s: ", rule);
    va_list args;
    va_start(args, format);
    vsnprintf(text + len, sizeof(text) - (size_t)len, format, args);
    va_end(args);
    if (world.options.overlook != NULL && strstr(world.options.overlook, rule) != NULL) {
        world.counts.overlooked++;
        trace("overlooked: %s", text);
        return;
    }
    end_with(text);
}
