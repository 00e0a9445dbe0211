/* The way of a step through the core: encoded into a log entry, decoded and applied as on a node,
 * and after it everything checked that holds after any step. And snapshots. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/entry.h"
#include "core/snapshot.h"
#include "runner.h"

/* What people's clocks showed when the scenario began. */

/* Events. */

void runner_forget_events(struct runner *p)
{
    arena_clear(&p->happened);
    p->events = NULL;
    p->sentences = "";
    p->event_count = p->event_capacity = 0;
    memset(p->event_kinds, 0, sizeof(p->event_kinds));
}

static void on_event(void *ctx, const struct event *e)
{
    struct runner *p = ctx;
    if (e->index != p->index || e->ordinal != p->ordinal++) {
        runner_fail(p, "an event is numbered %" PRIu64 ".%u, not %" PRIu64 ".%u (S9.3)", e->index,
                    e->ordinal, p->index, p->ordinal - 1);
    }
    if (p->event_count == p->event_capacity) {
        p->events = arena_grow(&p->happened, p->events, p->event_count, &p->event_capacity,
                               sizeof(*p->events));
    }
    struct facts *facts = &p->events[p->event_count++];
    facts_init(facts, &p->happened);
    describe_event(p, e, facts);
    tell_event(p, e);
    p->event_kinds[e->type]++;
    const struct drawn *drawn = cast_drawn(p, e->lease);
    if (e->type == EVENT_GRANTED && drawn != NULL && drawn->hold != NULL) {
        drawn->hold->token = e->token; /* the waiting client is notified */
    }
}

void runner_begin(struct runner *p, uint32_t version)
{
    struct core_options options = {memory_system(), p->hash_key, on_event, p, version};
    core_free(p->core);
    p->core = core_new(&options);
}

void runner_open(struct runner *p)
{
    runner_begin(p, CORE_VERSION);
    p->sentences = "";
    p->entry = malloc(LIMIT_ENTRY);
    hf_assert(p->entry != NULL);
}

/* Entries. */

struct entry_run {
    struct runner *runner;
    struct request_line *request;
};

/* What the client learns from the answer to its acquire. */
static void learn(struct runner *p, struct request_line *request, const struct result *r)
{
    struct hold *hold = request->hold;
    bool is_stream = r->type == COMMAND_STREAM_UP || r->type == COMMAND_STREAM_THROUGH;
    if (is_stream && r->error == HF_OK) {
        const struct drawn *drawn = cast_drawn(p, request->command.session);
        cast_session(p, drawn->name)->stream = r->attachment;
    }
    if (hold == NULL || (r->outcome != OUTCOME_GRANTED && r->outcome != OUTCOME_QUEUED)) {
        return;
    }
    hold->lease = r->lease;
    if (r->outcome == OUTCOME_GRANTED) {
        hold->token = r->token;
    } else {
        hold->attachment = r->attachment;
    }
    cast_add_hold(p, hold);
}

/* S4.4: a refusal shows nobody else's token, lease or session. */
static void check_secrets(struct runner *p, const struct result *r)
{
    if (r->type == COMMAND_ACQUIRE && r->outcome == OUTCOME_REFUSED && !r->replayed &&
        (r->token != 0 || !id_is_zero(r->lease))) {
        runner_fail(p, "a refusal shows a token or a lease id (S4.4)");
    }
}

static void on_result(void *ctx, uint32_t number, const struct command *command,
                      const struct result *r)
{
    struct entry_run *run = ctx;
    struct runner *p = run->runner;
    struct request_line *request = &run->request[number];
    struct core_stats stats;
    core_stats(p->core, &stats);
    p->line = request->line;
    facts_init(&request->got, &p->step);
    describe_result(p, command, r, &request->got);
    fact(&request->got, "steps %u", stats.last_steps);
    if (stats.last_steps > LIMIT_COMMAND_STEPS) {
        runner_fail(p, "the command took %u steps, more than %u (S2.1)", stats.last_steps,
                    LIMIT_COMMAND_STEPS);
    }
    check_secrets(p, r);
    learn(p, request, r);
}

/* In loops not after each step, as it takes time in proportion to the state. */
void runner_check(struct runner *p)
{
    if (p->variable_count > 0) {
        uint64_t n = ++p->loop_steps;
        if ((n & (n - 1)) != 0 && n > 50 && n % 5000 != 0) {
            return;
        }
    }
    const char *broken = core_check_invariants(p->core);
    if (broken != NULL) {
        runner_fail(p, "an invariant is broken: %s", broken);
    }
}

void runner_entry(struct runner *p, struct request_line *request, uint32_t count)
{
    struct entry_writer w;
    entry_writer_init(&w, CORE_VERSION, p->entry, LIMIT_ENTRY);
    for (uint32_t i = 0; i < count; i++) {
        if (!entry_writer_add(&w, &request[i].command)) {
            runner_fail(p, "the entry is full");
        }
    }
    size_t len = entry_writer_seal(&w, p->clock_ms, WALL_MS + p->clock_ms + p->wall_ahead_ms);
    struct entry_run run = {p, request};
    p->index++;
    p->ordinal = 0;
    enum hf_error error =
        entry_apply(p->core, p->index, slice_make(p->entry, len), on_result, &run);
    if (error != HF_OK) { /* too long a name, for example: no node would log such an entry */
        p->index--;
        for (uint32_t i = 0; i < count; i++) {
            facts_init(&request[i].got, &p->step);
            fact(&request[i].got, "error %s", hf_error_code(error));
        }
    }
    runner_check(p);
}

/* Snapshots. */

struct sink {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
};

static bool sink_write(void *ctx, const void *data, size_t len)
{
    struct sink *sink = ctx;
    if (sink->capacity - sink->len < len) {
        sink->capacity = (sink->len + len) * 2;
        sink->bytes = realloc(sink->bytes, sink->capacity);
        hf_assert(sink->bytes != NULL);
    }
    memcpy(sink->bytes + sink->len, data, len);
    sink->len += len;
    return true;
}

static uint8_t *snapshot_of(const struct core *core, size_t *len)
{
    struct sink sink = {NULL, 0, 0};
    bool written = snapshot_write(core, sink_write, &sink);
    hf_assert(written && sink.len > 0);
    *len = sink.len;
    return sink.bytes;
}

uint8_t *runner_snapshot(struct runner *p, size_t *len)
{
    return snapshot_of(p->core, len);
}

/* In pieces of an odd size, since the bytes come over a connection. */
static enum hf_error restore(struct runner *p, const uint8_t *bytes, size_t len, uint64_t hash_key,
                             struct core **core, struct snapshot_problem *problem)
{
    struct core_options options = {memory_system(), hash_key, on_event, p, 0};
    struct snapshot_reader *reader = snapshot_reader_new(&options);
    for (size_t at = 0; at < len; at += 1021) {
        size_t piece = len - at < 1021 ? len - at : 1021;
        if (snapshot_reader_feed(reader, bytes + at, piece) != HF_OK) {
            break; /* finish tells what it was */
        }
    }
    return snapshot_reader_finish(reader, core, problem);
}

enum hf_error runner_restore_fails(struct runner *p, const uint8_t *bytes, size_t len)
{
    struct core *core = NULL;
    enum hf_error error = restore(p, bytes, len, 1, &core, NULL);
    core_free(core);
    return error;
}

void runner_restart(struct runner *p)
{
    size_t len = 0;
    size_t again_len = 0;
    uint8_t *bytes = snapshot_of(p->core, &len);
    struct core *core = NULL;
    struct snapshot_problem problem = {""};
    uint64_t hash_key = p->hash_key * 31 + 7;
    enum hf_error error = restore(p, bytes, len, hash_key, &core, &problem);
    uint8_t *again = error == HF_OK ? snapshot_of(core, &again_len) : NULL;
    bool same = again != NULL && len == again_len && memcmp(bytes, again, len) == 0;
    free(bytes);
    free(again);
    if (error == HF_OK) {
        core_free(p->core);
        p->core = core;
        p->hash_key = hash_key;
    }
    if (error != HF_OK) {
        runner_fail(p, "the snapshot cannot be restored: %s: %s", hf_error_code(error),
                    problem.text);
    }
    if (!same) {
        runner_fail(p, "the restored state does not write the same snapshot");
    }
    runner_check(p);
}
