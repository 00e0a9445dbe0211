/* What the event log costs the event loop, and how fast it is searched, on a real disk.
 * bench/README.md says what each figure means.
 *
 *   event_log [--mib N] [--rate R] [FOLDER]
 *
 * Writes N MiB (256) of events to a new folder in FOLDER (/var/tmp), searches them, and removes it.
 * With --rate, R events a second, evenly, as a node under load; else in bursts, as fast as possible. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "events/event_scan.h"
#include "sinks/sink_batch.h"

enum { NAMES = 100000, ENTRY_EVENTS = 64, PAUSE_EVERY = 20000, PATH_BYTES = 256, STEP_US = 2000 };

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

static uint64_t wall_ms(void *ctx)
{
    (void)ctx;
    return (uint64_t)time(NULL) * 1000;
}

static void name_of(char name[40], uint64_t number)
{
    (void)snprintf(name, 40, "tenant/billing/close/%011" PRIu64, number);
}

struct event_load {
    uint64_t events;
    uint64_t index; /* of the last complete entry */
};

static void add_events(struct event_log *log, struct event_load *load, uint64_t count)
{
    char name[40];
    for (uint64_t i = 0; i < count; i++) {
        name_of(name, load->events * 7919 % NAMES);
        struct event event = {.type = EVENT_GRANTED,
                              .index = load->index + 1,
                              .ordinal = (uint32_t)(load->events % ENTRY_EVENTS),
                              .parts = 1,
                              .at_ms = 1000000 + load->index,
                              .wall_ms = 1700000000000 + load->index,
                              .token = load->events * 1024,
                              .deadline_ms = 1030000 + load->index,
                              .session = {load->events, 7},
                              .lease = {load->events, 9},
                              .name = slice_of(name),
                              .client = slice_of("worker-7"),
                              .ttl_ms = 30000};
        event_log_append(log, &event, CORE_VERSION);
        if (++load->events % ENTRY_EVENTS == 0) {
            event_log_applied(log, ++load->index, event.wall_ms);
        }
    }
}

/* The thread writes in the pauses. The pauses themselves are not counted. */
static void append(struct event_log *log, uint64_t bytes, uint64_t rate)
{
    struct event_log_stats stats = {0};
    struct event_load load = {0, 0};
    double own_s = 0;
    double pause_s = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double all_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double begin = seconds_now();
    while (stats.bytes < bytes) {
        double due = (seconds_now() - begin) * (double)rate - (double)load.events;
        double from_s = seconds_of(CLOCK_THREAD_CPUTIME_ID);
        add_events(log, &load, rate == 0 ? PAUSE_EVERY : due > 0 ? (uint64_t)due : 0);
        own_s += seconds_of(CLOCK_THREAD_CPUTIME_ID) - from_s;
        do {
            usleep(STEP_US);
            event_log_stats(log, &stats);
        } while (rate == 0 && stats.appended + ENTRY_EVENTS < load.events && stats.dropped == 0);
    }
    pause_s = seconds_of(CLOCK_THREAD_CPUTIME_ID) - pause_s - own_s;
    all_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - all_s - pause_s;
    double ns = 1e9 / (double)load.events;
    printf("append: CPU an event: loop %.0f ns, name included, thread %.0f ns; %.0f bytes on disk; "
           "dropped %" PRIu64 "\n",
           own_s * ns, (all_s - own_s) * ns, (double)stats.bytes / (double)stats.appended,
           stats.dropped);
    printf("log: %" PRIu64 " MiB, %" PRIu64 " events, %" PRIu64 " segments\n", stats.bytes >> 20,
           stats.appended, stats.segments);
}

static struct slice tenant_name(void *ctx, uint32_t tenant)
{
    (void)ctx;
    (void)tenant;
    return slice_of("default");
}

/* What a sink does with every record, apart from sending the lines. */
static void make_lines(struct event_log *log)
{
    static struct sink_batch batch;
    struct event_json json = {.cluster = slice_of("bench"), .tenant_name = tenant_name};
    struct event_cursor *cursor = event_cursor_open(log, (struct event_id){0, 0});
    struct event_step step;
    enum event_read read = EVENT_READ_MORE;
    uint64_t lines = 0;
    uint64_t bytes = 0;
    sink_batch_init(&batch, memory_system());
    double cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    while (read == EVENT_READ_MORE || read == EVENT_READ_RECORD) {
        read = event_cursor_next(cursor, &step);
        if (read == EVENT_READ_RECORD) {
            sink_batch_add(&batch, &json, slice_make(NULL, 0), &step.record);
        }
        if (read == EVENT_READ_END || sink_batch_is_full(&batch)) {
            lines += batch.count;
            bytes += buffer_len(&batch.lines);
            sink_batch_clear(&batch);
        }
    }
    cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu_s;
    printf("lines of a sink: %.0f ns an event, %.0f bytes\n", cpu_s / (double)lines * 1e9,
           (double)bytes / (double)lines);
    sink_batch_close(&batch);
    event_cursor_close(cursor);
}

static void search(struct event_log *log, const char *what, struct event_scan scan, bool to_the_end)
{
    struct event_page page;
    struct problem problem;
    uint64_t found = 0;
    uint32_t pages = 0;
    double begin = seconds_now();
    double first_s = 0;
    do {
        if (event_scan_page(log, &scan, &page, &problem) != HF_OK) {
            fprintf(stderr, "event_log: %s\n", problem.text);
            exit(1);
        }
        found += page.count;
        scan.is_continued = true;
        scan.after = page.next;
        event_page_close(log, &page);
        first_s = pages++ == 0 ? seconds_now() - begin : first_s;
    } while (page.more && to_the_end);
    double s = seconds_now() - begin;
    struct event_log_stats stats;
    event_log_stats(log, &stats);
    printf("%-32s %9" PRIu64 " found, %5" PRIu32 " pages, first %7.2f ms, all %8.1f ms", what,
           found, pages, first_s * 1e3, s * 1e3);
    if (to_the_end) {
        printf(", %.0f MiB/s", (double)stats.bytes / s / (1 << 20));
    }
    printf("\n");
}

static void search_all(struct event_log *log)
{
    char name[40];
    name_of(name, 4711);
    struct event_scan all = {.kinds = SCAN_EVENTS | SCAN_AUDIT, .limit = EVENT_SCAN_RECORDS};
    struct event_scan newest = all;
    newest.newest_first = true;
    newest.limit = 100;
    struct event_scan one = newest;
    one.match = SCAN_EXACT_NAME;
    one.name = slice_of(name);
    struct event_scan absent = one;
    absent.name = slice_of("tenant/billing/absent");
    struct event_scan prefix = all;
    prefix.match = SCAN_PREFIX;
    prefix.name = absent.name;
    search(log, "newest 100", newest, false);
    search(log, "newest 100 of one name", one, false);
    search(log, "all of one name", one, true);
    search(log, "a name that is not there", absent, true);
    search(log, "a prefix that is not there", prefix, true);
    search(log, "everything", all, true);
}

static void remove_folder(const char *path)
{
    char file[PATH_BYTES * 2];
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        (void)unlink(file);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    (void)rmdir(path);
}

int main(int argc, char **argv)
{
    uint64_t mib = 256;
    uint64_t rate = 0;
    const char *folder = "/var/tmp";
    char path[PATH_BYTES];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mib") == 0 && i + 1 < argc) {
            mib = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--rate") == 0 && i + 1 < argc) {
            rate = strtoull(argv[++i], NULL, 10);
        } else {
            folder = argv[i];
        }
    }
    snprintf(path, sizeof(path), "%s/event-log-XXXXXX", folder);
    if (mib == 0 || mkdtemp(path) == NULL) {
        fprintf(stderr, "event_log: cannot make a folder in %s\n", folder);
        return 1;
    }
    struct event_log_options options = {.memory = memory_system(),
                                        .path = path,
                                        .cluster = {1, 2},
                                        .node = 1,
                                        .max_bytes = (mib + 64) << 20,
                                        .wall_ms = wall_ms};
    struct problem problem = {.text = ""};
    struct event_log *log = event_log_open(&options, &problem);
    int status = log == NULL;
    if (log == NULL) {
        fprintf(stderr, "event_log: %s\n", problem.text);
    } else {
        append(log, mib << 20, rate);
        make_lines(log);
        search_all(log);
        event_log_close(log);
        double begin = seconds_now();
        log = event_log_open(&options, &problem);
        printf("open: %.1f ms\n", (seconds_now() - begin) * 1e3);
        event_log_close(log);
    }
    remove_folder(path);
    return status;
}
