/* How fast and how small the lock core is, in one thread, without network or disk. bench/README.md
 * says what each figure means. Names are 32 bytes, there is no metadata.
 *
 *   core [--json] [--growth] [--largest N]
 *
 * --growth leaves all but the growth out; N is the number of locks in its last row, 10,000,000. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "core/entry.h"
#include "core/snapshot.h"

#define BATCH 64
#define LOCKS_PER_SESSION 1000
#define WINDOW 1024 /* a lock is released that many acquires after its own */
#define CLIENT "worker-7"

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One core with a load on it. Commands travel as they do in a node: encoded into entries of BATCH
 * commands, decoded, applied; only the applying, which includes the decoding, is timed. */
struct core_load {
    struct core *core;
    uint64_t index;
    bool in_session;
    uint64_t next_name;
    struct entry_writer writer;
    uint8_t entry[64 * 1024];
    uint64_t tokens[WINDOW];
    uint64_t token_at;
    double applying_s;
};

static void mix_id(struct id *id, uint64_t kind, uint64_t number)
{
    *id = (struct id){kind * UINT64_C(0x9e3779b97f4a7c15) + 1,
                      (number + 1) * UINT64_C(0xbf58476d1ce4e5b9)};
}

/* 32 bytes that share most of their prefix, as real names do. */
static struct slice name_of(char *buffer, uint64_t number)
{
    (void)snprintf(buffer, 40, "tenant/billing/close/%011" PRIu64, number);
    return slice_make(buffer, 32);
}

static void on_result(void *ctx, uint32_t number, const struct command *command,
                      const struct result *result)
{
    (void)number;
    struct core_load *load = ctx;
    bool fine = command->type == COMMAND_ACQUIRE ? result->outcome == OUTCOME_GRANTED
                                                 : result->outcome == OUTCOME_DONE;
    if (result->error != HF_OK || !fine) {
        fprintf(stderr, "bench/core: a %s was not done: %s, %s\n", command_name(command->type),
                hf_error_code(result->error), reason_name(result->reason));
        exit(1);
    }
    if (command->type == COMMAND_ACQUIRE) {
        load->tokens[load->token_at++ % WINDOW] = result->token;
    }
}

static void flush(struct core_load *load)
{
    if (load->writer.count == 0) {
        return;
    }
    size_t len = entry_writer_seal(&load->writer, 1000 + load->index / 1000, 0);
    struct slice entry = slice_make(load->entry, len);
    double start = seconds_now();
    enum hf_error error = entry_apply(load->core, ++load->index, entry, on_result, load);
    load->applying_s += seconds_now() - start;
    if (error != HF_OK) {
        fprintf(stderr, "bench/core: an entry was not accepted\n");
        exit(1);
    }
    entry_writer_init(&load->writer, CORE_VERSION, load->entry, sizeof(load->entry));
}

static void add(struct core_load *load, const struct command *command)
{
    if (load->writer.count == BATCH || !entry_writer_add(&load->writer, command)) {
        flush(load);
        (void)entry_writer_add(&load->writer, command);
    }
}

static void open_session(struct core_load *load, uint64_t number)
{
    struct command c;
    command_init(&c, COMMAND_SESSION_OPEN);
    mix_id(&c.session_open.id, 1, number);
    c.session_open.client = slice_of(CLIENT);
    c.session_open.ttl_ms = 86400000;
    add(load, &c);
}

/* The sessions for `number` and its neighbours are made as the first of them comes. */
static void acquire(struct core_load *load, uint64_t number, uint64_t session)
{
    char name[40];
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    mix_id(&c.acquire.lease, 2, number);
    if (load->in_session) {
        mix_id(&c.session, 1, session);
    } else {
        c.acquire.client = slice_of(CLIENT);
        c.acquire.ttl_ms = 86400000;
    }
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = name_of(name, number);
    add(load, &c);
}

static void release(struct core_load *load, uint64_t number, uint64_t token)
{
    char name[40];
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = name_of(name, number);
    c.release.client = slice_of(CLIENT);
    c.release.token = token;
    add(load, &c);
}

static void load_close(struct core_load *load)
{
    core_free(load->core);
    free(load);
}

/* A core with `locks` live locks. */
static struct core_load *load_new(uint64_t locks, bool in_session)
{
    struct core_load *load = calloc(1, sizeof(*load));
    if (load == NULL) {
        fprintf(stderr, "bench/core: out of memory\n");
        exit(1);
    }
    struct core_options options = {.memory = memory_system(), .hash_key = 42};
    load->core = core_new(&options);
    load->in_session = in_session;
    entry_writer_init(&load->writer, CORE_VERSION, load->entry, sizeof(load->entry));
    for (uint64_t i = 0; i < locks; i++) {
        if (in_session && i % LOCKS_PER_SESSION == 0) {
            open_session(load, i / LOCKS_PER_SESSION);
        }
        acquire(load, i, i / LOCKS_PER_SESSION);
    }
    flush(load);
    load->next_name = locks;
    return load;
}

/* Acquire and release on fresh names beside the live ones; pairs a second. */
static double run_pairs(struct core_load *load, uint64_t pairs)
{
    uint64_t session = UINT32_MAX; /* one of its own */
    if (load->in_session) {
        open_session(load, session);
        flush(load);
    }
    uint64_t first = load->next_name;
    load->token_at = 0;
    for (uint64_t i = 0; i < WINDOW; i++) {
        acquire(load, first + i, session);
    }
    flush(load);
    load->applying_s = 0;
    for (uint64_t i = 0; i < pairs; i++) {
        if (i % (BATCH / 2) == 0) {
            flush(load); /* so that the tokens of the window are known */
        }
        release(load, first + i, load->tokens[i % WINDOW]);
        acquire(load, first + WINDOW + i, session);
    }
    flush(load);
    load->next_name = first + WINDOW + pairs;
    return (double)pairs / load->applying_s;
}

/* Snapshot and restore. */

static bool count_bytes(void *ctx, const void *data, size_t len)
{
    (void)data;
    *(uint64_t *)ctx += len;
    return true;
}

static bool feed_reader(void *ctx, const void *data, size_t len)
{
    return snapshot_reader_feed(ctx, data, len) == HF_OK;
}

struct snapshot_times {
    double write_s;
    double restore_s;
    uint64_t bytes;
};

/* Restoring is measured with the writing that feeds it, which is then taken off. */
static struct snapshot_times run_snapshot(const struct core_load *load)
{
    struct snapshot_times t = {0, 0, 0};
    double start = seconds_now();
    bool written = snapshot_write(load->core, count_bytes, &t.bytes);
    t.write_s = seconds_now() - start;
    struct core_options options = {.memory = memory_system(), .hash_key = 43};
    struct snapshot_reader *reader = snapshot_reader_new(&options);
    struct core *restored = NULL;
    struct snapshot_problem problem = {""};
    start = seconds_now();
    written = written && snapshot_write(load->core, feed_reader, reader);
    if (snapshot_reader_finish(reader, &restored, &problem) != HF_OK || !written) {
        fprintf(stderr, "bench/core: the snapshot did not restore: %s\n", problem.text);
        exit(1);
    }
    t.restore_s = seconds_now() - start - t.write_s;
    core_free(restored);
    return t;
}

/* The report. */

static bool json;

static void figure(const char *key, double value, const char *text)
{
    if (json) {
        printf("  \"%s\": %.6g,\n", key, value);
    } else {
        printf("  %-58s %14.0f\n", text, value);
    }
}

static void seconds_figure(const char *key, double value, const char *text)
{
    if (json) {
        printf("  \"%s\": %.6g,\n", key, value);
    } else {
        printf("  %-58s %14.2f\n", text, value);
    }
}

static void measure_million(bool in_session)
{
    const uint64_t locks = 1000000;
    struct core_load *load = load_new(locks, in_session);
    struct core_stats stats;
    core_stats(load->core, &stats);
    double bytes = (double)stats.bytes / (double)locks;
    double pairs = run_pairs(load, 2000000);
    struct snapshot_times t = run_snapshot(load);
    if (in_session) {
        figure("bytes_per_lock_session", bytes, "bytes per live lock, in a session");
        figure("pairs_per_second_session", pairs, "pairs/s at 1,000,000 live, in a session");
        seconds_figure("snapshot_write_s", t.write_s, "snapshot of 1,000,000 in sessions, s");
        seconds_figure("snapshot_restore_s", t.restore_s, "restore of it, s");
        figure("snapshot_bytes", (double)t.bytes, "its size, bytes");
    } else {
        figure("bytes_per_lock_private", bytes, "bytes per live lock, private session");
        figure("pairs_per_second_private", pairs, "pairs/s at 1,000,000 live, private sessions");
        seconds_figure("snapshot_write_private_s", t.write_s, "snapshot of 1,000,000 private, s");
        seconds_figure("snapshot_restore_private_s", t.restore_s, "restore of it, s");
    }
    load_close(load);
}

static void measure_growth(uint64_t largest)
{
    double first_ns = 0;
    double last_ratio = 0;
    for (uint64_t locks = 1000; locks <= largest; locks *= 10) {
        struct core_load *load = load_new(locks, true);
        double ns = 1e9 / run_pairs(load, 1000000);
        load_close(load);
        first_ns = first_ns == 0 ? ns : first_ns;
        last_ratio = ns / first_ns;
        char key[64];
        char text[96];
        (void)snprintf(key, sizeof(key), "pair_ns_at_%" PRIu64, locks);
        (void)snprintf(text, sizeof(text), "ns per pair with %" PRIu64 " live (%.2fx the first)",
                       locks, last_ratio);
        figure(key, ns, text);
    }
    seconds_figure("growth_ratio", last_ratio, "growth: last over first");
}

int main(int argc, char **argv)
{
    uint64_t largest = 10000000;
    bool growth_only = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--growth") == 0) {
            growth_only = true;
        } else if (strcmp(argv[i], "--largest") == 0 && i + 1 < argc) {
            largest = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: core [--json] [--growth] [--largest N]\n");
            return 64;
        }
    }
    if (json) {
        printf("{\n");
    }
    if (!growth_only) {
        measure_million(true);
        measure_million(false);
    }
    measure_growth(largest);
    if (json) {
        printf("  \"batch\": %d\n}\n", BATCH);
    }
    return 0;
}
