/* See progress.h. */
#include "server/progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START_OF_LINE "\r\033[K"

static struct {
    pthread_mutex_t mutex; /* of all below but `is_on`, which belongs to the caller */
    pthread_cond_t over;
    pthread_t thread;
    bool is_on;
    bool is_over;
    struct progress_view view;
} line = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the text ---- */

__attribute__((format(printf, 2, 3))) static void append(char out[PROGRESS_LINE],
                                                         const char *format, ...)
{
    size_t len = strlen(out);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(out + len, PROGRESS_LINE - len, format, list);
    va_end(list);
}

static const char *scale(double most, double *unit)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;
    for (*unit = 1; most >= 1024 * *unit && i < 4; i++) {
        *unit *= 1024;
    }
    return names[i];
}

static void append_bytes(const struct progress_view *v, char out[PROGRESS_LINE])
{
    double unit;
    const char *name = scale((double)(v->total > v->done ? v->total : v->done), &unit);
    append(out, "  %.1f", (double)v->done / unit);
    if (v->total != 0) {
        append(out, " of %.1f", (double)v->total / unit);
    }
    append(out, " %s", name);
}

static void append_span(uint64_t s, char out[PROGRESS_LINE])
{
    if (s < 60) {
        append(out, "%" PRIu64 "s", s);
    } else if (s < 3600) {
        append(out, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    } else {
        append(out, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
    }
}

static void append_amount(const struct progress_view *v, char out[PROGRESS_LINE])
{
    if (v->unit == PROGRESS_BYTES) {
        append_bytes(v, out);
        return;
    }
    append(out, "  %" PRIu64, v->done);
    if (v->total != 0) {
        append(out, " of %" PRIu64, v->total);
    }
    append(out, " %s", v->unit == PROGRESS_SECONDS ? "s" : v->noun);
}

static void append_rate(const struct progress_view *v, int64_t now_ms, char out[PROGRESS_LINE])
{
    double passed_s = (double)(now_ms - v->first_ms) / 1000;
    double unit;
    if (v->unit == PROGRESS_SECONDS || v->first_ms == 0 || passed_s < 0.5 || v->done <= v->first) {
        return;
    }
    double rate = (double)(v->done - v->first) / passed_s;
    if (v->unit == PROGRESS_BYTES) {
        const char *name = scale(rate, &unit);
        append(out, "  %.1f %s/s", rate / unit, name);
    } else {
        append(out, "  %.0f/s", rate);
    }
    if (v->total > v->done) {
        append(out, "  ");
        append_span((uint64_t)((double)(v->total - v->done) / rate) + 1, out);
        append(out, " left");
    }
}

void progress_format(const struct progress_view *v, int64_t now_ms, char out[PROGRESS_LINE])
{
    (void)snprintf(out, PROGRESS_LINE, "%s:", v->what);
    if (v->total != 0) {
        uint64_t done = v->done < v->total ? v->done : v->total;
        append(out, " %3u %%", (unsigned)(100.0 * (double)done / (double)v->total));
    }
    if (v->done == 0 && v->total == 0) {
        append(out, " ");
        append_span((uint64_t)(now_ms - v->began_ms) / 1000, out);
    } else {
        append_amount(v, out);
        append_rate(v, now_ms, out);
    }
    if (v->note[0] != '\0') {
        append(out, "  %s", v->note);
    }
}

/* ---- the thread ---- */

/* With the mutex. False: the work is over. */
static bool pause_ms(int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int status = 0;
    while (!line.is_over && status == 0) {
        status = pthread_cond_timedwait(&line.over, &line.mutex, &until);
    }
    return !line.is_over;
}

static void *print_lines(void *unused)
{
    bool has_line = false;
    char text[PROGRESS_LINE];
    (void)unused;
    pthread_mutex_lock(&line.mutex);
    for (bool goes_on = pause_ms(PROGRESS_AFTER_MS); goes_on;
         goes_on = pause_ms(PROGRESS_EVERY_MS)) {
        progress_format(&line.view, clock_ms(), text);
        (void)fprintf(stderr, START_OF_LINE "%s", text);
        (void)fflush(stderr);
        has_line = true;
    }
    pthread_mutex_unlock(&line.mutex);
    if (has_line) {
        (void)fprintf(stderr, START_OF_LINE);
        (void)fflush(stderr);
    }
    return NULL;
}

/* Signals belong to the other threads. */
static bool start_thread(void)
{
    pthread_condattr_t attributes;
    sigset_t all;
    sigset_t before;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&line.over, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&line.thread, NULL, print_lines, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status == 0;
}

void progress_begin(const char *what, enum progress_unit unit, const char *noun, bool is_quiet)
{
    progress_end();
    if (is_quiet || isatty(STDERR_FILENO) != 1) {
        return;
    }
    line.is_over = false;
    line.view = (struct progress_view){.unit = unit, .noun = noun, .began_ms = clock_ms()};
    (void)snprintf(line.view.what, sizeof(line.view.what), "%s", what);
    line.is_on = start_thread();
}

void progress_update(uint64_t done, uint64_t total)
{
    if (!line.is_on) {
        return;
    }
    int64_t now_ms = clock_ms();
    pthread_mutex_lock(&line.mutex);
    if (line.view.first_ms == 0 || done < line.view.first) {
        line.view.first_ms = now_ms;
        line.view.first = done;
    }
    line.view.done = done;
    line.view.total = total;
    pthread_mutex_unlock(&line.mutex);
}

static void set_text(char *to, size_t size, const char *text)
{
    if (line.is_on) {
        pthread_mutex_lock(&line.mutex);
        (void)snprintf(to, size, "%s", text);
        pthread_mutex_unlock(&line.mutex);
    }
}

void progress_rename(const char *what)
{
    set_text(line.view.what, sizeof(line.view.what), what);
}

void progress_note(const char *note)
{
    set_text(line.view.note, sizeof(line.view.note), note);
}

void progress_end(void)
{
    if (!line.is_on) {
        return;
    }
    pthread_mutex_lock(&line.mutex);
    line.is_over = true;
    (void)pthread_cond_signal(&line.over);
    pthread_mutex_unlock(&line.mutex);
    (void)pthread_join(line.thread, NULL);
    (void)pthread_cond_destroy(&line.over);
    line.is_on = false;
}
