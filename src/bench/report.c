/* Prints results as JSON, as a table and as CSV. */
#include "bench/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "server/progress.h"
#include "wire/json_write.h"

enum { JSON_MAX = 64 << 10 };

static const struct {
    const char *name;
    uint32_t share;
} shares[] = {
    {"p50", 50000}, {"p90", 90000}, {"p99", 99000}, {"p999", 99900}, {"max", HISTOGRAM_ALL},
};

enum { SHARES = sizeof(shares) / sizeof(shares[0]) };

static double per_second(uint64_t count, uint64_t ns)
{
    return ns == 0 ? 0 : (double)count * 1e9 / (double)ns;
}

static void put_real(struct json_writer *w, const char *key, double value)
{
    char text[40];
    int len = snprintf(text, sizeof(text), "%.1f", value);
    json_put_raw(w, key, slice_make(text, (size_t)len));
}

static void put_histogram(struct json_writer *w, const char *key, const struct histogram *h)
{
    json_put_open(w, key, '{');
    for (unsigned i = 0; i < SHARES; i++) {
        put_real(w, shares[i].name, (double)histogram_at(h, shares[i].share) / 1000);
    }
    json_put_u64(w, "count", h->count);
    json_write_close(w);
}

static void put_settings(struct json_writer *w, const struct bench_settings *s,
                         const struct bench_targets *t)
{
    json_put_open(w, "settings", '{');
    json_put_u64(w, "clients", s->clients);
    json_put_u64(w, "connections", s->connections);
    put_real(w, "seconds", (double)s->measure_ms / 1000);
    put_real(w, "warmup", (double)s->warmup_ms / 1000);
    json_put_text(w, "api", s->protocol->name);
    json_put_text(w, "via", s->via != 0 ? "any" : "leader");
    json_put_bool(w, "contended", s->contended);
    json_put_text(w, "tier", s->tier[0] == '\0' ? "CORRECTNESS" : s->tier);
    json_put_u64(w, "rate", s->rate);
    json_put_u64(w, "held", s->held);
    json_put_u64(w, "nodes", t->members);
    json_put_u64(w, "leader", t->leader);
    json_write_close(w);
}

static void put_errors(struct json_writer *w, const struct bench_result *r)
{
    json_put_u64(w, "errors", r->errors);
    json_put_open(w, "errors_by_code", '{');
    for (unsigned i = 0; i < r->codes; i++) {
        json_put_u64(w, r->by_code[i].code, r->by_code[i].count);
    }
    json_write_close(w);
    json_put_u64(w, "reconnects", r->reconnects);
}

void bench_report_json(const struct bench_settings *settings, const struct bench_targets *targets,
                       const struct bench_result *r)
{
    struct buffer out;
    struct json_writer w;
    buffer_init(&out, memory_system(), JSON_MAX);
    json_writer_init(&w, &out);
    json_write_open(&w, '{');
    put_real(&w, "cycles_per_second", per_second(r->cycles, r->measured_ns));
    put_histogram(&w, "acquire_us", &r->acquire);
    put_histogram(&w, "release_us", &r->release);
    if (settings->contended) {
        put_histogram(&w, "handover_us", &r->handover);
    }
    json_put_u64(&w, "cycles", r->cycles);
    put_real(&w, "measured_seconds", (double)r->measured_ns / 1e9);
    put_errors(&w, r);
    json_put_bool(&w, "interrupted", r->interrupted);
    put_real(&w, "bench_cpu_percent", 100 * (double)r->cpu_ns / (double)(r->measured_ns + 1));
    if (settings->held > 0) {
        put_real(&w, "held_acquires_per_second", per_second(settings->held, r->held_ns));
    }
    put_settings(&w, settings, targets);
    json_put_open(&w, "versions", '{');
    json_put_text(&w, "bench", HOLDFAST_VERSION);
    if (targets->version[0] != '\0') {
        json_put_text(&w, "server", targets->version);
    }
    json_write_close(&w);
    json_write_close(&w);
    hf_assert(json_writer_done(&w) && !out.overflowed);
    printf("%.*s\n", (int)buffer_len(&out), (const char *)buffer_bytes(&out).data);
    buffer_close(&out);
}

static void print_row(const char *name, const struct histogram *h)
{
    printf("%-10s", name);
    for (unsigned i = 0; i < SHARES; i++) {
        printf("%12.3f", (double)histogram_at(h, shares[i].share) / 1e6);
    }
    printf("\n");
}

void bench_report_table(const struct bench_settings *s, const struct bench_targets *t,
                        const struct bench_result *r)
{
    printf("%" PRIu64 " clients over %s to %s of %" PRIu64 " nodes, %.1f s%s\n", s->clients,
           s->protocol->name, s->via != 0 ? "all" : "the leader", t->members,
           (double)r->measured_ns / 1e9, r->interrupted ? " (interrupted)" : "");
    printf("%.0f lock+unlock cycles/s", per_second(r->cycles, r->measured_ns));
    printf(", %" PRIu64 " errors, the bench itself used %.0f %% of a core\n\n", r->errors,
           100 * (double)r->cpu_ns / (double)(r->measured_ns + 1));
    printf("%-10s", "ms");
    for (unsigned i = 0; i < SHARES; i++) {
        printf("%12s", shares[i].name);
    }
    printf("\n");
    print_row("acquire", &r->acquire);
    print_row("release", &r->release);
    if (s->contended) {
        print_row("handover", &r->handover);
    }
    for (unsigned i = 0; i < r->codes; i++) {
        printf("%s%s: %" PRIu64 "\n", i == 0 ? "\nerrors\n  " : "  ", r->by_code[i].code,
               r->by_code[i].count);
    }
}

void bench_report_progress(const struct bench_progress *p)
{
    char note[PROGRESS_NOTE] = "";
    if (p->so_far->acquire.count > 0) {
        (void)snprintf(note, sizeof(note),
                       "%.0f cycles/s, acquire p50 %.2f ms, p99 %.2f ms, %" PRIu64 " errors",
                       per_second(p->done, p->passed_ns),
                       (double)histogram_at(&p->so_far->acquire, 50000) / 1e6,
                       (double)histogram_at(&p->so_far->acquire, 99000) / 1e6, p->so_far->errors);
    } else if (p->done > 0) {
        (void)snprintf(note, sizeof(note), "%" PRIu64 " locks are held", p->done);
    }
    progress_rename(p->phase);
    progress_note(note);
    progress_update(p->passed_ns / 1000000000, p->total_ns / 1000000000);
}

static int64_t wall_minus_monotonic_ns(void)
{
    struct timespec wall;
    struct timespec monotonic;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    return (int64_t)(wall.tv_sec - monotonic.tv_sec) * 1000000000 + wall.tv_nsec -
           monotonic.tv_nsec;
}

bool bench_report_samples(const char *path, const struct bench_result *r)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    int64_t offset_ns = wall_minus_monotonic_ns();
    fprintf(file, "began_us,took_us\n");
    for (size_t i = 0; i < r->sample_count; i++) {
        fprintf(file, "%" PRId64 ",%.1f\n", ((int64_t)r->samples[i].began_ns + offset_ns) / 1000,
                (double)r->samples[i].took_ns / 1000);
    }
    bool written = ferror(file) == 0;
    return fclose(file) == 0 && written;
}
