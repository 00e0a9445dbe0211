/* `holdfast ttl-advice NAME | --prefix PREFIX`: recommends a TTL from measured renewals.
 *
 * For some time it reads the holders again and again, which shows each renewal (ttl_measure.h), and keeps a
 * session of its own alive, which shows how long a renewal takes. Then it reads the history of the names. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/limits.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/lease.h"
#include "cli/say.h"
#include "cli/ttl_advice.h"
#include "server/progress.h"
#include "transport/clock.h"

enum { NAMES_MAX = 20 /* whose history is read */, SESSION_TTL_MS = 10000, KEEPALIVE_MS = 250 };

struct ttl_settings {
    struct cli_common common;
    const char *prefix;
    uint64_t for_ms;
    uint64_t outage_ms;
    uint64_t pause_ms;
};

const struct flag ttl_advice_options[] = {
    {"prefix", 'p', FLAG_TEXT(struct ttl_settings, prefix), "PREFIX",
     "all names that begin with PREFIX, instead of one name; of each its earliest holder"},
    {"for", 0, FLAG_DURATION_IN(struct ttl_settings, for_ms, 1000, 3600000), "DURATION",
     "how long to measure, at least four renewals of a lease (default: 30s)"},
    {"outage", 0, FLAG_DURATION_IN(struct ttl_settings, outage_ms, 0, 3600000), "DURATION",
     "longest time without a leader that a holder survives (default: 3s)"},
    {"pause", 0, FLAG_DURATION_IN(struct ttl_settings, pause_ms, 0, 3600000), "DURATION",
     "longest pause of a client that a holder survives, if it is more than twice the longest one "
     "that was seen"},
    CLI_COMMON_OPTIONS(struct ttl_settings),
    FLAGS_END,
};

struct ttl_run {
    const struct ttl_settings *o;
    struct api api;
    char session[LEASE_ID_TEXT]; /* "": none */
    int64_t kept_ms;             /* its last keep-alive */
    struct ttl_report report;
    char *names[NAMES_MAX];
    size_t name_count;
};

/* ---- the own session ---- */

static int session_call(struct ttl_run *run, const char *method, const char *target,
                        struct slice body, struct api_answer *answer)
{
    struct cli_request request = {method, target, body, API_REPEAT};
    int code = lease_call(&run->api, &request, answer);
    if (code != 0) {
        run->session[0] = '\0';
        (void)snprintf(run->report.trip_problem, sizeof(run->report.trip_problem), "%s",
                       run->api.message[0] != '\0' ? run->api.message : "no node answered in time");
    }
    return code;
}

static void open_session(struct ttl_run *run)
{
    char body[512];
    char id[33];
    char client[LEASE_CLIENT];
    struct api_answer answer;
    api_request_id(id);
    api_actor(client, sizeof(client));
    (void)snprintf(body, sizeof(body),
                   "{\"client_id\":\"ttl-advice\",\"ttl_ms\":%d,\"request_id\":\"%s\"}",
                   SESSION_TTL_MS, id);
    if (session_call(run, "POST", "/api/v1/sessions", slice_of(body), &answer) == 0) {
        struct slice text = json_tree_text(json_tree_get(answer.tree, "session_id"));
        (void)snprintf(run->session, sizeof(run->session), "%.*s", (int)text.len,
                       (const char *)text.data);
        api_answer_close(&answer);
    }
}

static void keep_alive(struct ttl_run *run)
{
    char target[128];
    struct api_answer answer;
    struct timespec from;
    struct timespec to;
    int64_t now_ms = clock_boot_ms();
    if (run->session[0] == '\0' || now_ms - run->kept_ms < KEEPALIVE_MS) {
        return;
    }
    run->kept_ms = now_ms;
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s/keepalive", run->session);
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    if (session_call(run, "POST", target, slice_make(NULL, 0), &answer) == 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, &to);
        int64_t took_us = (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
        ttl_values_add(&run->report.trips_us, (uint64_t)took_us);
        api_answer_close(&answer);
    }
}

static void close_session(struct ttl_run *run)
{
    char target[128];
    struct api_answer answer;
    if (run->session[0] != '\0') {
        (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s", run->session);
        if (session_call(run, "DELETE", target, slice_make(NULL, 0), &answer) == 0) {
            api_answer_close(&answer);
        }
    }
}

/* ---- the holders ---- */

static void note_name(struct ttl_run *run, struct slice name)
{
    for (size_t i = 0; i < run->name_count; i++) {
        if (slice_equal(slice_of(run->names[i]), name)) {
            return;
        }
    }
    if (run->name_count < NAMES_MAX) {
        char *copy = strndup((const char *)name.data, name.len);
        if (copy != NULL) {
            run->names[run->name_count++] = copy;
        }
    }
}

/* What stays the same for a holder, and differs between holders. */
static uint64_t holder_id(struct slice name, const struct json_t *holder)
{
    static const char *const keys[] = {"client_id", "owner", "since"};
    uint64_t id = XXH64(name.data, name.len, json_tree_u64(json_tree_get(holder, "slot"), 0));
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct slice text = json_tree_text(json_tree_get(holder, keys[i]));
        id = XXH64(text.data != NULL ? (const char *)text.data : "", text.len, id);
    }
    return id;
}

static void see(struct ttl_run *run, struct slice name, const struct json_t *holder)
{
    const struct json_t *left = json_tree_get(holder, "expires_in_ms");
    uint64_t wall_ms = human_wall_ms(json_tree_text(json_tree_get(holder, "expires_at")));
    if (wall_ms != 0 && left != NULL) {
        note_name(run, name);
        ttl_measure_see(&run->report.leases, holder_id(name, holder), wall_ms,
                        json_tree_u64(left, 0), clock_boot_ms());
    }
}

static int read_holders(struct ttl_run *run, const char *target)
{
    struct api_answer answer;
    int code = api_get(&run->api, target, &answer);
    if (code != 0) {
        return code;
    }
    const struct json_t *rows =
        json_tree_get(answer.tree, run->o->prefix != NULL ? "locks" : "holders");
    struct slice name = json_tree_text(json_tree_get(answer.tree, "name"));
    for (size_t i = 0; i < json_tree_count(rows); i++) {
        const struct json_t *row = json_tree_at(rows, i);
        if (run->o->prefix != NULL) {
            see(run, json_tree_text(json_tree_get(row, "name")), json_tree_get(row, "holder"));
        } else {
            see(run, name, row);
        }
    }
    bool is_cut = json_tree_get(answer.tree, "next_cursor") != NULL;
    run->report.leases.omitted += run->o->prefix != NULL && is_cut;
    api_answer_close(&answer);
    return 0;
}

static int measure(struct ttl_run *run, const char *target)
{
    int64_t began_ms = clock_boot_ms();
    int64_t end_ms = began_ms + (int64_t)run->o->for_ms;
    int64_t now_ms = began_ms;
    int code = 0;
    open_session(run);
    progress_begin("measuring", PROGRESS_SECONDS, NULL, run->o->common.json);
    while (code == 0 && now_ms < end_ms) {
        int64_t next_ms = now_ms + (int64_t)ttl_measure_pause_ms(&run->report.leases);
        run->api.is_quiet = false;
        code = read_holders(run, target);
        keep_alive(run);
        progress_update((uint64_t)(now_ms - began_ms) / 1000, run->o->for_ms / 1000);
        int64_t left_ms = (next_ms < end_ms ? next_ms : end_ms) - clock_boot_ms();
        if (code == 0 && left_ms > 0) {
            struct timespec pause = {left_ms / 1000, left_ms % 1000 * 1000000};
            (void)nanosleep(&pause, NULL);
        }
        now_ms = clock_boot_ms();
    }
    progress_end();
    close_session(run);
    run->report.measured_ms = (uint64_t)(now_ms - began_ms);
    return code;
}

/* ---- the history ---- */

static void read_history(struct ttl_run *run, const char *name)
{
    struct buffer target;
    struct api_answer answer;
    buffer_init(&target, memory_system(), API_TARGET - 64);
    buffer_append_text(&target, "/api/v1/locks/");
    http_escape(&target, slice_of(name), false);
    buffer_append_text(&target, "/history?limit=1000");
    buffer_append_byte(&target, 0);
    run->api.is_quiet = true;
    if (api_get(&run->api, (const char *)buffer_bytes(&target).data, &answer) == 0) {
        const struct json_t *holds = json_tree_get(answer.tree, "holds");
        for (size_t i = 0; i < json_tree_count(holds); i++) {
            const struct json_t *hold = json_tree_at(holds, i);
            struct slice ended = json_tree_text(json_tree_get(hold, "ended"));
            if (slice_is_word(ended, "released")) {
                ttl_values_add(&run->report.holds,
                               json_tree_u64(json_tree_get(hold, "held_ms"), 0));
            }
            run->report.expired +=
                slice_is_word(ended, "expired") || slice_is_word(ended, "session_expired");
        }
        run->report.names++;
        api_answer_close(&answer);
    }
    buffer_close(&target);
}

/* ---- the command ---- */

static int advise(struct ttl_run *run, const char *target)
{
    struct ttl_report *r = &run->report;
    int code = measure(run, target);
    if (code != 0) {
        return code;
    }
    if (r->name != NULL) {
        note_name(run, slice_of(r->name));
    }
    for (size_t i = 0; i < run->name_count; i++) {
        read_history(run, run->names[i]);
    }
    ttl_values_sort(&r->holds);
    ttl_values_sort(&r->trips_us);
    ttl_measure_sum(&r->leases, &r->gaps, &r->late, &r->kinds);
    ttl_decide(r);
    if (run->o->common.json) {
        ttl_print_json(r);
    } else {
        ttl_print(r);
    }
    return 0;
}

static void make_target(const struct ttl_settings *o, const char *name, struct buffer *target)
{
    buffer_append_text(target,
                       o->prefix != NULL ? "/api/v1/locks?limit=1000&prefix=" : "/api/v1/locks/");
    http_escape(target, slice_of(o->prefix != NULL ? o->prefix : name), false);
    buffer_append_byte(target, 0);
}

static bool read_words(struct ttl_settings *o, int count, char **arguments, const char **name)
{
    struct flag_words words;
    if (!flags_read("ttl-advice", ttl_advice_options, FLAGS_ANY_ORDER, count, arguments, o,
                    &words) ||
        !cli_words_check("ttl-advice", &words, 0, 1)) {
        return false;
    }
    if ((words.count == 1) == (o->prefix != NULL)) {
        cli_say("ttl-advice: give either the NAME of a lock or --prefix PREFIX; --prefix '' is "
                "every name");
        return false;
    }
    *name = words.count == 1 ? words.items[0] : NULL;
    return true;
}

int ttl_advice_main(int count, char **arguments)
{
    struct ttl_settings o = {.common = CLI_COMMON_DEFAULT, .for_ms = 30000, .outage_ms = 3000};
    struct ttl_run run = {.o = &o};
    struct ttl_report *r = &run.report;
    struct buffer target;
    int code = EXIT_USAGE;
    if (!read_words(&o, count, arguments, &r->name) || !api_init(&run.api, &o.common)) {
        return EXIT_USAGE;
    }
    r->prefix = o.prefix;
    r->outage_ms = o.outage_ms;
    r->pause_ms = o.pause_ms;
    buffer_init(&target, memory_system(), API_TARGET - 64);
    make_target(&o, r->name, &target);
    if (ttl_measure_init(&r->leases) && ttl_values_init(&r->gaps) && ttl_values_init(&r->late) &&
        ttl_values_init(&r->trips_us) && ttl_values_init(&r->holds)) {
        code = advise(&run, (const char *)buffer_bytes(&target).data);
    } else {
        cli_say("ttl-advice: out of memory");
        code = EXIT_OURS;
    }
    for (size_t i = 0; i < run.name_count; i++) {
        free(run.names[i]);
    }
    ttl_values_close(&r->gaps);
    ttl_values_close(&r->late);
    ttl_values_close(&r->trips_us);
    ttl_values_close(&r->holds);
    ttl_measure_close(&r->leases);
    buffer_close(&target);
    return code;
}
