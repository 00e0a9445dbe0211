/* See top_view.h. */
#include "cli/top_view.h"

#include <inttypes.h>

#include "cli/columns.h"
#include "cli/human.h"

static const char *const sort_names[TOP_SORTS] = {"queue", "age", "wait", "rate"};

const char *top_sort_name(enum top_sort sort)
{
    hf_assert(sort < TOP_SORTS);
    return sort_names[sort];
}

static void print_leader(FILE *to, const struct top_view *view, const struct top_figures *f)
{
    char span[HUMAN_TEXT];
    enum cli_colour colour = f->is_serving ? COLOUR_GREEN : COLOUR_RED;
    fprintf(to, "%s%s%s", cli_colour_on(colour, view->has_colour),
            f->is_serving ? "serving" : "not serving", cli_colour_off(colour, view->has_colour));
    if (f->leader != 0) {
        fprintf(to, "  leader: node %" PRIu64, f->leader);
    } else {
        fprintf(to, "  no leader");
    }
    colour = f->healthy < f->members ? COLOUR_RED : COLOUR_NONE;
    fprintf(to, "  term %" PRIu64 "  members: %s%u of %u healthy%s", f->term,
            cli_colour_on(colour, view->has_colour), f->healthy, f->members,
            cli_colour_off(colour, view->has_colour));
    if (f->is_known) {
        fprintf(to, "  leader up %s", human_span(f->uptime_ms, span));
    }
    fprintf(to, "\n");
}

static void print_counts(FILE *to, const struct top_view *view, const struct top_figures *f)
{
    char span[HUMAN_TEXT];
    if (!f->is_known) {
        fprintf(to, "no figures: no leader answers\n");
        return;
    }
    fprintf(to, "held %" PRIu64 "  waiting %" PRIu64 "  sessions %" PRIu64 "  oldest hold %s",
            f->held, f->waiting, f->sessions, human_span(f->oldest_ms, span));
    if (f->long_held > 0) {
        fprintf(to, "  %slong-held %" PRIu64 "%s", cli_colour_on(COLOUR_RED, view->has_colour),
                f->long_held, cli_colour_off(COLOUR_RED, view->has_colour));
    }
    fprintf(to, "\n");
}

static void print_rate(FILE *to, const char *name, double rate)
{
    if (rate < 0) {
        fprintf(to, "  %s -", name);
    } else {
        fprintf(to, "  %s %.*f", name, rate < 10 ? 1 : 0, rate);
    }
}

static void print_p99(FILE *to, const char *name, double ms)
{
    if (ms < 0) {
        fprintf(to, "  %s -", name);
    } else {
        fprintf(to, "  %s %.*f ms", name, ms < 10 ? 2 : 0, ms);
    }
}

void top_print_header(FILE *to, const struct top_view *view, const struct top_data *data)
{
    const struct top_figures *a = &data->before;
    const struct top_figures *b = &data->now;
    print_leader(to, view, b);
    print_counts(to, view, b);
    fprintf(to, "per second:");
    print_rate(to, "grants", top_per_second(data, a->grants, b->grants));
    print_rate(to, "releases", top_per_second(data, a->releases, b->releases));
    print_rate(to, "renewals", top_per_second(data, a->renewals, b->renewals));
    print_rate(to, "contended", top_per_second(data, a->contended, b->contended));
    print_rate(to, "lost", top_per_second(data, a->ended, b->ended));
    fprintf(to, "\np99:");
    print_p99(to, "acquire", b->is_known ? b->acquire_p99_ms : -1);
    print_p99(to, "wait", b->is_known ? b->wait_p99_ms : -1);
    print_p99(to, "commit", b->is_known ? b->commit_p99_ms : -1);
    fprintf(to, "\n");
}

static void add_holder(struct columns *t, const struct top_row *row)
{
    if (!row->is_listed || !row->is_held) {
        columns_text(t, row->is_listed && row->queue > 0 ? "(delayed)" : "(free)");
        columns_colour(t, COLOUR_DIM);
    } else if (row->holders > 1) {
        columns_printf(t, "%s and %u more", row->client, row->holders - 1);
    } else {
        columns_text(t, row->client);
    }
}

static void add_row(struct columns *t, const struct top_row *row, uint64_t interval_ms)
{
    char span[HUMAN_TEXT];
    columns_text(t, row->name);
    columns_text(t, row->is_listed && row->is_held ? row->mode : "-");
    add_holder(t, row);
    columns_text(t, row->is_held ? human_span(row->age_ms, span) : "-");
    columns_printf(t, "%u", row->queue);
    columns_text(t, row->queue > 0 ? human_span(row->wait_ms, span) : "-");
    columns_printf(t, "%.1f", (double)row->granted * 1000.0 / (double)interval_ms);
    columns_printf(t, "%u", row->lost);
    columns_colour(t, row->lost > 0 ? COLOUR_RED : COLOUR_NONE);
    columns_text(t, row->is_long_held ? "long-held" : "");
    columns_colour(t, row->is_long_held ? COLOUR_RED : COLOUR_NONE);
}

void top_print_rows(FILE *to, const struct top_view *view, const struct top_data *data)
{
    struct columns t;
    static const char *const heading[] = {"NAME",  "MODE", "HOLDER",   "AGE",
                                          "QUEUE", "WAIT", "GRANTS/S", "LOST"};
    columns_init(&t, 9);
    for (unsigned i = 0; i < 8; i++) {
        columns_text(&t, heading[i]);
    }
    columns_optional(&t, "ALERT");
    for (size_t i = view->first; i < data->shown.count && i < view->first + view->rows; i++) {
        add_row(&t, &data->shown.rows[i], view->interval_ms);
    }
    columns_print_as(&t, to, view->has_colour);
    columns_close(&t);
}

static void json_rate(struct json_writer *w, const char *key, double rate)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.3f", rate);
    if (rate < 0) {
        json_put_null(w, key);
    } else {
        json_put_raw(w, key, slice_of(text));
    }
}

static void json_row(struct json_writer *w, const struct top_row *row)
{
    json_write_open(w, '{');
    json_put_text(w, "name", row->name);
    json_put_bool(w, "held", row->is_held);
    json_put_u64(w, "holder_count", row->holders);
    json_put_u64(w, "queue_length", row->queue);
    json_put_u64(w, "age_ms", row->age_ms);
    json_put_u64(w, "wait_ms", row->wait_ms);
    json_put_bool(w, "long_held", row->is_long_held);
    json_put_u64(w, "granted", row->granted);
    json_put_u64(w, "queued", row->queued);
    json_put_u64(w, "released", row->released);
    json_put_u64(w, "lost", row->lost);
    json_put_text(w, "last_client", row->client);
    json_write_close(w);
}

void top_print_json(const struct top_view *view, const struct top_data *data)
{
    const struct top_figures *a = &data->before;
    const struct top_figures *b = &data->now;
    struct buffer out;
    struct json_writer w;
    buffer_init(&out, memory_system(), 32 << 20);
    json_writer_init(&w, &out);
    json_write_open(&w, '{');
    json_put_u64(&w, "interval_ms", view->interval_ms);
    json_put_text(&w, "sort", top_sort_name(view->sort));
    json_put_bool(&w, "serving", b->is_serving);
    json_put_u64(&w, "leader", b->leader);
    json_put_u64(&w, "term", b->term);
    json_put_u64(&w, "members", b->members);
    json_put_u64(&w, "healthy_members", b->healthy);
    json_put_u64(&w, "held", b->held);
    json_put_u64(&w, "waiting", b->waiting);
    json_put_u64(&w, "sessions", b->sessions);
    json_put_u64(&w, "long_held", b->long_held);
    json_put_u64(&w, "oldest_hold_ms", b->oldest_ms);
    json_put_open(&w, "per_second", '{');
    json_rate(&w, "grants", top_per_second(data, a->grants, b->grants));
    json_rate(&w, "releases", top_per_second(data, a->releases, b->releases));
    json_rate(&w, "renewals", top_per_second(data, a->renewals, b->renewals));
    json_rate(&w, "contended", top_per_second(data, a->contended, b->contended));
    json_rate(&w, "lost", top_per_second(data, a->ended, b->ended));
    json_write_close(&w);
    json_put_open(&w, "p99_ms", '{');
    json_rate(&w, "acquire", b->is_known ? b->acquire_p99_ms : -1);
    json_rate(&w, "wait", b->is_known ? b->wait_p99_ms : -1);
    json_rate(&w, "commit", b->is_known ? b->commit_p99_ms : -1);
    json_write_close(&w);
    json_put_u64(&w, "events", data->shown.events);
    json_put_bool(&w, "more_names", data->shown.is_cut || data->shown.count > view->rows);
    json_put_bool(&w, "stale", data->is_stale);
    json_put_open(&w, "names", '[');
    for (size_t i = 0; i < data->shown.count && i < view->rows; i++) {
        json_row(&w, &data->shown.rows[i]);
    }
    json_write_close(&w);
    json_write_close(&w);
    printf("%.*s\n", (int)buffer_len(&out), (const char *)buffer_bytes(&out).data);
    buffer_close(&out);
}
