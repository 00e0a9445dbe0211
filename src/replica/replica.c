/* See replica.h. */
#include "replica/replica.h"

#include "base/codec.h"
#include "base/panic.h"
#include "core/view.h"
#include "replica/internal.h"

/* How long a slow disk may defer applying. */
#define APPLY_AT_LEAST_US 2000

/* S1.4: while a deadline is pending, time is logged at least so often. */
#define TICK_AT_LEAST_US 10000000

/* An unapplied upgrade is proposed again after this time. */
#define UPGRADE_AGAIN_US 1000000

static uint64_t ms_of(struct replica_time now)
{
    return now.boot_us / 1000;
}

void batch_reset(struct replica *r)
{
    hf_assert(r->buffer != NULL);
    entry_writer_init(&r->writer, 1, r->buffer, BATCH_BYTES); /* batch_add sets the version */
    r->commands = (struct cookies){0};
    r->barriers = (struct cookies){0};
    r->lazy = 0;
    r->lazy_us = BATCH_LAZY_US;
    r->first_us = 0;
    r->for_peer = false;
}

static bool may_submit(const struct replica *r)
{
    return r->serving && !r->engine.installing && raft_transferee(&r->engine.raft) == 0;
}

static void batch_submit(struct replica *r, struct replica_time now)
{
    hf_assert(may_submit(r) && r->commands.count + r->barriers.count > 0);
    hf_assert(r->flight_count == 0); /* one batch is in flight at a time */
    size_t len = entry_writer_seal(&r->writer, clock_now_ms(&r->clock, now.boot_us), now.wall_ms);
    struct flight f = {.term = raft_current_term(&r->engine.raft),
                       .commands = r->commands,
                       .barriers = r->barriers,
                       .proposed_us = now.boot_us,
                       .for_peer = r->for_peer};
    if (engine_submit(&r->engine, RAFT_COMMAND, slice_make(r->buffer, len), ms_of(now)) != HF_OK) {
        fail_all(r, &f.commands, &f.barriers, REPLICA_NOT_DONE);
        batch_reset(r);
        return;
    }
    f.index = entries_last(&r->engine.log);
    hf_assert(f.index > r->applied && f.term == r->clock.term);
    r->flights[r->flight_count++] = f;
    batch_reset(r);
    r->engine.may_tell = false; /* the batch carried the commit index */
}

static uint64_t close_at_us(const struct replica *r, struct replica_time now)
{
    struct batch_situation s = {
        .in_flight = !may_submit(r) || flight_in_this_term(r),
        .waiting = r->commands.count + r->barriers.count,
        .lazy = r->lazy,
        .lazy_us = r->lazy_us,
        .expected = r->expected,
        .answered_us = r->answered_us,
        .heard_us = r->heard_us,
        .first_us = r->first_us,
        .now_us = now.boot_us,
    };
    uint64_t at_us = batch_close_at_us(&s);
    return at_us < r->first_batch_us && now.boot_us < r->first_batch_us ? r->first_batch_us : at_us;
}

static void batch_note(struct replica *r, uint32_t hash, struct replica_time now)
{
    hf_assert(r->serving);
    if (r->commands.count + r->barriers.count == 0) {
        r->first_us = now.boot_us;
    }
    return_predictor_note_request(&r->predictor, hash);
    r->heard_us = batch_heard_us(r->heard_us, now.boot_us);
}

static bool is_lazy(enum command_type type)
{
    return type == COMMAND_TICK || type == COMMAND_KEEPALIVE;
}

/* A lazy command may wait for this part of the shortest TTL in it (S4.5). */
enum { LAZY_PARTS = 20 };

static uint64_t lazy_us(const struct replica *r, const struct command *command)
{
    uint64_t wait_us = BATCH_LAZY_US;
    if (command->type != COMMAND_KEEPALIVE) {
        return wait_us;
    }
    const struct ids *ids = &command->keepalive.sessions;
    for (uint32_t i = 0; i < ids->count; i++) {
        struct session_view session;
        if (view_session(r->core, ids_at(ids, i), &session) &&
            session.ttl_ms * UINT64_C(1000) / LAZY_PARTS < wait_us) {
            wait_us = session.ttl_ms * UINT64_C(1000) / LAZY_PARTS;
        }
    }
    return wait_us;
}

static enum hf_error batch_add(struct replica *r, const struct command *command, void *cookie,
                               struct replica_time now)
{
    r->writer.version = core_version(r->core); /* versions only rise */
    if (r->commands.count == BATCH_COMMANDS || !entry_writer_add(&r->writer, command)) {
        return HF_BUSY;
    }
    batch_note(r, client_hash_of_command(command), now);
    if (is_lazy(command->type)) {
        if (r->lazy == r->commands.count + r->barriers.count && r->lazy == 0) {
            r->first_us = now.boot_us;
        }
        r->lazy++;
        uint64_t wait_us = lazy_us(r, command);
        r->lazy_us = wait_us < r->lazy_us ? wait_us : r->lazy_us;
    } else if (r->lazy == r->commands.count + r->barriers.count) {
        r->first_us = now.boot_us; /* the first command that is not lazy */
    }
    cookies_add(r, &r->commands, cookie);
    hf_assert(r->lazy <= r->commands.count + r->barriers.count);
    return HF_OK;
}

/* E11. Clients that were just answered often send their next request immediately, and that batch
 * carries the commit index. So it waits for the same pause, unless a request at another node waits
 * for it. */

static void plan_commit_send(struct replica *r, struct replica_time now)
{
    hf_assert(r->in_call);
    if (!r->leading || !r->engine.may_tell) {
        r->send_commit_us = UINT64_MAX;
        r->peer_waits = false;
        return;
    }
    uint64_t at_us = now.boot_us + (r->peer_waits ? 0 : BATCH_QUIET_US);
    r->send_commit_us = at_us < r->send_commit_us ? at_us : r->send_commit_us;
}

static void send_commit_if_due(struct replica *r, struct replica_time now)
{
    if (now.boot_us < r->send_commit_us) {
        return;
    }
    hf_assert(r->leading);
    if (r->commands.count + r->barriers.count > r->lazy && !flight_in_this_term(r) &&
        may_submit(r)) {
        r->send_commit_us = close_at_us(r, now); /* with the batch that is about to close */
        return;
    }
    replica_enter(r, now);
    engine_tell_commit(&r->engine);
    replica_leave(r, now);
}

/* Logs the time only while a deadline is pending. */
static bool tick_is_due(const struct replica *r, struct replica_time now, uint64_t *at_us)
{
    uint64_t due_ms = core_next_due_ms(r->core);
    if (!r->serving || due_ms == UINT64_MAX) {
        *at_us = UINT64_MAX;
        return false;
    }
    uint64_t due_us = clock_when_us(&r->clock, due_ms);
    uint64_t at_least_us = r->last_tick_us + TICK_AT_LEAST_US;
    *at_us = due_us < at_least_us ? due_us : at_least_us;
    return *at_us <= now.boot_us;
}

static void tick_if_due(struct replica *r, struct replica_time now)
{
    uint64_t at_us;
    if (r->commands.count == 0 && tick_is_due(r, now, &at_us)) {
        struct command tick;
        command_init(&tick, COMMAND_TICK);
        (void)batch_add(r, &tick, NULL, now);
        if (core_next_due_ms(r->core) <= core_now_ms(r->core)) {
            hf_assert(r->lazy > 0);
            r->lazy--; /* a bound left work over (S2.1): continue at once */
        }
    }
}

static void upgrade_if_all_can(struct replica *r, struct replica_time now)
{
    struct command upgrade;
    if (r->serving && now.boot_us >= r->upgrade_us && upgrade_wanted(r, &upgrade)) {
        (void)batch_add(r, &upgrade, NULL, now);
        r->upgrade_us = now.boot_us + UPGRADE_AGAIN_US;
    }
}

/* S1.3: the first entry of a leader. No other is submitted until it is applied. */
static void submit_lead(struct replica *r, struct replica_time now)
{
    struct command lead;
    hf_assert(r->leading && !r->serving && r->lead_index == 0);
    command_init(&lead, COMMAND_LEAD);
    lead.lead.node = (uint32_t)r->options.id;
    uint8_t buffer[256];
    struct entry_writer w;
    entry_writer_init(&w, core_version(r->core), buffer, sizeof(buffer));
    struct command upgrade;
    bool fits = entry_writer_add(&w, &lead);
    fits = fits && (!upgrade_wanted(r, &upgrade) || entry_writer_add(&w, &upgrade));
    hf_assert(fits);
    size_t len = entry_writer_seal(&w, clock_now_ms(&r->clock, now.boot_us), now.wall_ms);
    if (engine_submit(&r->engine, RAFT_COMMAND, slice_make(buffer, len), ms_of(now)) == HF_OK) {
        r->lead_index = entries_last(&r->engine.log);
        r->lead_term = raft_current_term(&r->engine.raft);
    }
}

/* The highest in the log, applied or not (S1.3). */
static uint64_t log_stamp_ms(struct replica *r)
{
    uint64_t highest_ms = core_now_ms(r->core);
    for (uint64_t i = r->applied + 1; i <= entries_last(&r->engine.log); i++) {
        struct replica_entry entry;
        if (engine_entry(&r->engine, i, &entry) && entry.type == RAFT_COMMAND &&
            entry_stamp_ms(entry.bytes) > highest_ms) {
            highest_ms = entry_stamp_ms(entry.bytes);
        }
    }
    return highest_ms;
}

static void leader_begin(struct replica *r, struct replica_time now)
{
    hf_assert(!r->leading && r->commands.count == 0 && r->barriers.count == 0);
    hf_assert(raft_voted_for(&r->engine.raft) == r->options.id);
    r->leading = true;
    r->serving = false;
    r->lead_index = 0;
    contact_reset(&r->contact);
    clock_start(&r->clock, raft_current_term(&r->engine.raft), log_stamp_ms(r), now.boot_us);
    r->engine.cluster_ms = clock_now_ms(&r->clock, now.boot_us);
    submit_lead(r, now);
}

/* The open batch was not done. A batch in flight may still be committed. on_change comes first: it
 * ends the tier EFFICIENCY, which expects outcomes in the order of submission while this node
 * leads. */
static void leader_end(struct replica *r, struct replica_time now)
{
    hf_assert(r->leading);
    r->leading = false;
    r->serving = false;
    clock_stop(&r->clock, now.boot_us);
    struct cookies commands = r->commands;
    struct cookies barriers = r->barriers;
    batch_reset(r);
    r->options.ports.on_change(r->options.ports.ctx);
    fail_all(r, &commands, &barriers, REPLICA_NOT_DONE);
}

static uint64_t leader_id(const struct replica *r)
{
    raft_id id = 0;
    const char *address = NULL;
    raft_leader((struct raft *)(uintptr_t)&r->engine.raft, &id, &address);
    return id;
}

/* Also of entries that are not applied yet (S1.3). */
static void note_entry_times(struct replica *r, uint64_t from)
{
    for (uint64_t i = from; i <= entries_last(&r->engine.log); i++) {
        struct replica_entry entry;
        if (engine_entry(&r->engine, i, &entry) && entry.type == RAFT_COMMAND) {
            clock_hear(&r->clock, entry.term, entry_stamp_ms(entry.bytes));
        }
    }
}

void replica_enter(struct replica *r, struct replica_time now)
{
    hf_assert(!r->in_call);
    r->in_call = true;
    r->engine.cluster_ms = clock_now_ms(&r->clock, now.boot_us);
}

/* A follower defers applying while it writes or acknowledges: the leader and its clients wait only
 * for the acknowledgement (decision 0014). */
static void apply_or_defer(struct replica *r, struct replica_time now)
{
    bool is_due = now.boot_us >= r->apply_us;
    if (!r->may_defer_apply || is_due || r->leading || r->engine.installing ||
        r->applied == raft_commit_index(&r->engine.raft)) {
        r->apply_us = UINT64_MAX;
        apply_committed(r, now);
        return;
    }
    uint64_t at_us = now.boot_us + (r->engine.write_count > 0 ? APPLY_AT_LEAST_US : 0);
    r->apply_us = at_us < r->apply_us ? at_us : r->apply_us;
}

void replica_leave(struct replica *r, struct replica_time now)
{
    hf_assert(r->in_call);
    bool leads = engine_is_leader(&r->engine);
    if (r->leading && !leads) {
        leader_end(r, now);
    } else if (!r->leading && leads) {
        leader_begin(r, now);
        r->options.ports.on_change(r->options.ports.ctx);
    } else if (r->leading && r->lead_index == 0) {
        submit_lead(r, now);
    }
    apply_or_defer(r, now);
    r->may_defer_apply = false;
    if (r->leading && !engine_is_leader(&r->engine)) { /* applying ended its leadership */
        leader_end(r, now);
    }
    if (leader_id(r) != r->known_leader) {
        r->known_leader = leader_id(r);
        r->options.ports.on_change(r->options.ports.ctx);
    }
    plan_commit_send(r, now);
    snapshot_if_due(r);
    uint64_t keep_from = r->applied < r->engine.reported ? r->applied : r->engine.reported;
    entries_evict(&r->engine.log, keep_from);
    hf_assert(r->leading || !r->serving);
    r->in_call = false;
}

void replica_on_event(void *ctx, const struct event *event)
{
    struct replica *r = ctx;
    bool answers_a_waiter = event->type == EVENT_GRANTED || event->type == EVENT_WAIT_ENDED ||
                            event->type == EVENT_SUPERSEDED;
    if (answers_a_waiter && event->attachment != 0 && event->node != r->options.id) {
        r->peer_waits = true; /* the node of the waiter's attachment */
    }
    if (answers_a_waiter && event->attachment != 0 && event->part <= 1) { /* once for all parts */
        return_predictor_note_answer(&r->predictor, client_hash(event->session, event->client));
    }
    r->options.ports.on_event(r->options.ports.ctx, event);
}

uint64_t replica_next_us(const struct replica *r)
{
    struct replica_time now = {0, 0};
    uint64_t engine_us = raft_timeout(&r->engine.raft) * 1000; /* E2 */
    uint64_t batch_us = close_at_us(r, now);
    uint64_t tick_us = UINT64_MAX;
    if (r->commands.count == 0) {
        (void)tick_is_due(r, now, &tick_us);
    }
    uint64_t next = engine_us < batch_us ? engine_us : batch_us;
    next = next < tick_us ? next : tick_us;
    if (!r->unwatched || r->engine.write_count == 0) {
        next = next < r->apply_us ? next : r->apply_us;
    }
    return next < r->send_commit_us ? next : r->send_commit_us;
}

void replica_on_timer(struct replica *r, struct replica_time now)
{
    replica_enter(r, now);
    if (raft_timeout(&r->engine.raft) <= ms_of(now)) {
        engine_timeout(&r->engine, ms_of(now));
    }
    replica_leave(r, now);
    replica_flush(r, now);
}

void replica_peer_ended(struct replica *r, uint64_t peer, struct replica_time now)
{
    replica_enter(r, now);
    engine_peer_ended(&r->engine, peer, ms_of(now));
    replica_leave(r, now);
}

bool replica_receive(struct replica *r, uint64_t peer, struct slice message,
                     struct replica_time now)
{
    replica_enter(r, now);
    uint64_t last = entries_last(&r->engine.log);
    struct engine_heard heard = {0};
    bool fine = engine_receive(&r->engine, peer, message, ms_of(now), &heard);
    clock_hear(&r->clock, heard.term, heard.ms);
    if (fine && heard.is_answer && r->leading) {
        /* The answer may have waited in our socket: the send time of the answered message
         * counts. */
        uint64_t sent_us = clock_when_us(&r->clock, heard.answer_ms);
        contact_note(&r->contact, peer, sent_us < now.boot_us ? sent_us : now.boot_us);
        contact_hear(&r->contact, peer, now.boot_us);
    }
    note_entry_times(r, last + 1);
    r->may_defer_apply = r->engine.write_count > 0;
    replica_leave(r, now);
    r->refusal = heard.refusal;
    return fine;
}

void replica_written(struct replica *r, uint64_t last, struct replica_time now)
{
    replica_enter(r, now);
    engine_written(&r->engine, last, ms_of(now));
    snapshot_abandon_if_possible(r, now);
    r->may_defer_apply = true;
    replica_leave(r, now);
}

bool replica_may_catch_up(const struct replica *r)
{
    return r->apply_us != UINT64_MAX && r->engine.write_count == 0;
}

void replica_catch_up(struct replica *r, struct replica_time now)
{
    replica_enter(r, now);
    replica_leave(r, now);
}

void replica_set_unwatched(struct replica *r, bool unwatched)
{
    r->unwatched = unwatched;
}

void replica_note_refused(struct replica *r, const struct command *command)
{
    if (return_predictor_forget(&r->predictor, client_hash_of_command(command)) &&
        r->expected > 0) {
        r->expected--;
    }
}

enum hf_error replica_submit(struct replica *r, const struct command *command, void *cookie,
                             struct replica_time now)
{
    hf_assert(cookie != NULL);
    if (!r->serving) {
        return HF_UNAVAILABLE;
    }
    if (command_since(command) > core_version(r->core)) {
        return HF_NOT_UPGRADED;
    }
    return batch_add(r, command, cookie, now);
}

enum hf_error replica_barrier(struct replica *r, void *cookie, bool for_peer,
                              struct replica_time now)
{
    hf_assert(cookie != NULL);
    if (!r->serving) {
        return HF_UNAVAILABLE;
    }
    if (r->barriers.count == BATCH_COMMANDS) {
        return HF_BUSY;
    }
    batch_note(r, 0, now);
    cookies_add(r, &r->barriers, cookie);
    r->for_peer = r->for_peer || for_peer;
    return HF_OK;
}

void replica_flush(struct replica *r, struct replica_time now)
{
    upgrade_if_all_can(r, now);
    tick_if_due(r, now);
    if (close_at_us(r, now) == 0) {
        replica_enter(r, now);
        batch_submit(r, now);
        replica_leave(r, now);
    }
    send_commit_if_due(r, now);
}

/* A client can return only when its answer is written. Writing 64 answers takes longer than
 * BATCH_QUIET_US: the pause begins now. */
void replica_answers_left(struct replica *r, struct replica_time now)
{
    r->answering = false;
    r->answered_us = now.boot_us;
    r->heard_us = now.boot_us;
    if (r->send_commit_us != UINT64_MAX && !r->peer_waits) {
        r->send_commit_us = now.boot_us + BATCH_QUIET_US;
    }
}

bool replica_is_answering(const struct replica *r)
{
    return r->answering;
}

enum hf_error replica_transfer(struct replica *r, uint64_t to, struct replica_time now,
                               const char **problem)
{
    hf_assert(problem != NULL);
    if (!r->serving) {
        *problem = "this node does not lead";
        return HF_UNAVAILABLE;
    }
    if (flight_in_this_term(r)) { /* E9 */
        *problem = "a batch is in flight; try again";
        return HF_BUSY;
    }
    if (r->engine.raft.configuration_uncommitted_index != 0) { /* E13 */
        *problem = "a membership change is under way; try again when it is done";
        return HF_BUSY;
    }
    replica_enter(r, now);
    enum hf_error error = engine_transfer(&r->engine, to, ms_of(now));
    if (error != HF_OK) {
        *problem = "there is no such voter to transfer to";
    }
    replica_leave(r, now);
    return error;
}
