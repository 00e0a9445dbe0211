/* Batches in flight, their waiting requests, and applying committed entries. */
#include <stdio.h>

#include "base/panic.h"
#include "replica/internal.h"

void cookies_add(const struct replica *r, struct cookies *c, void *cookie)
{
    hf_assert(c->count <= c->capacity && c->count < BATCH_COMMANDS);
    if (c->count == c->capacity) {
        uint32_t capacity = c->capacity == 0 ? 64 : c->capacity * 2;
        c->at = memory_grow(r->options.memory, c->at, c->capacity * sizeof(*c->at),
                            capacity * sizeof(*c->at));
        c->capacity = capacity;
    }
    c->at[c->count++] = cookie;
}

void cookies_free(const struct replica *r, struct cookies *c)
{
    if (c->capacity > 0) {
        memory_free(r->options.memory, c->at, c->capacity * sizeof(*c->at));
    }
    *c = (struct cookies){0};
}

void fail_all(struct replica *r, struct cookies *commands, struct cookies *barriers,
              enum replica_outcome outcome)
{
    const struct replica_ports *p = &r->options.ports;
    hf_assert(outcome != REPLICA_DONE);
    for (uint32_t i = 0; i < commands->count; i++) {
        if (commands->at[i] != NULL) {
            p->on_result(p->ctx, commands->at[i], outcome, NULL, NULL);
        }
    }
    for (uint32_t i = 0; i < barriers->count; i++) {
        p->on_barrier(p->ctx, barriers->at[i], false);
    }
    cookies_free(r, commands);
    cookies_free(r, barriers);
}

bool flight_in_this_term(const struct replica *r)
{
    for (uint32_t i = 0; i < r->flight_count; i++) {
        if (r->flights[i].term == raft_current_term(&r->engine.raft)) {
            return true;
        }
    }
    return false;
}

void flight_drop(struct replica *r, uint32_t i)
{
    hf_assert(i < r->flight_count);
    cookies_free(r, &r->flights[i].commands);
    cookies_free(r, &r->flights[i].barriers);
    r->flight_count--;
    memmove(r->flights + i, r->flights + i + 1, (r->flight_count - i) * sizeof(*r->flights));
}

void flight_fail(struct replica *r, uint32_t i, enum replica_outcome outcome)
{
    hf_assert(i < r->flight_count);
    fail_all(r, &r->flights[i].commands, &r->flights[i].barriers, outcome);
    flight_drop(r, i);
}

static void on_result(void *ctx, uint32_t number, const struct command *command,
                      const struct result *result)
{
    struct replica *r = ctx;
    if (r->applying != NULL) {
        hf_assert(number < r->applying->commands.count);
        void *cookie = r->applying->commands.at[number];
        if (cookie != NULL) {
            bool is_answered = result->outcome != OUTCOME_QUEUED;    /* else an event answers it */
            if (is_answered && command->type != COMMAND_KEEPALIVE) { /* those follow a timer */
                return_predictor_note_answer(&r->predictor, client_hash_of_command(command));
            }
            r->options.ports.on_result(r->options.ports.ctx, cookie, REPLICA_DONE, command, result);
        }
    }
}

/* A snapshot replaced the entries of these batches. */
void flights_lost_up_to(struct replica *r, uint64_t index)
{
    for (uint32_t i = 0; i < r->flight_count;) {
        if (r->flights[i].index <= index) {
            flight_fail(r, i, REPLICA_UNKNOWN);
        } else {
            i++;
        }
    }
}

/* The batch that was submitted for this index and is the committed entry, or NULL. Others of this
 * index were not done. An entry's removal from our own log would not prove that: another node may
 * have it and be elected. */
static struct flight *flight_of(struct replica *r, uint64_t index, uint64_t term)
{
    for (uint32_t i = 0; i < r->flight_count;) {
        if (r->flights[i].index == index && r->flights[i].term != term) {
            flight_fail(r, i, REPLICA_NOT_DONE);
        } else {
            i++;
        }
    }
    for (uint32_t i = 0; i < r->flight_count; i++) {
        if (r->flights[i].index == index) {
            return &r->flights[i];
        }
    }
    return NULL;
}

/* No two nodes have an entry of one term in flight, and a deposed leader applies its own, too. */
static void begin_entry(const struct replica *r, uint64_t index, const struct replica_entry *entry,
                        const struct flight *mine, struct replica_time now)
{
    struct replica_applying about = {
        .is_own = mine != NULL || (index == r->lead_index && entry->term == r->lead_term),
        .core = r->core};
    if (mine != NULL) {
        about.commands = mine->commands.count;
        about.proposed_us = mine->proposed_us;
        about.committed_us = now.boot_us;
        about.bytes = entry->bytes.len;
    }
    r->options.ports.on_entry(r->options.ports.ctx, &about);
}

static void apply_command(struct replica *r, uint64_t index, const struct replica_entry *entry,
                          struct flight *mine, struct replica_time now)
{
    hf_assert(r->applying == NULL);
    if (mine != NULL) {
        hf_assert(mine->index == index && mine->term == entry->term);
        return_predictor_begin_batch(&r->predictor);
    }
    r->applying = mine;
    bool is_noted = r->options.ports.on_entry != NULL;
    if (is_noted) {
        begin_entry(r, index, entry, mine, now);
    }
    enum hf_error error = entry_apply(r->core, index, entry->bytes, on_result, r);
    if (is_noted) {
        r->options.ports.on_entry(r->options.ports.ctx, NULL);
    }
    r->applying = NULL;
    if (error == HF_VERSION) {
        hf_stop(
            "unsupported_version: the log has entries of a newer version of Holdfast, which "
            "this one does not support; nothing was changed; start this node with that version");
    }
    if (error != HF_OK) {
        char text[256];
        snprintf(text, sizeof(text),
                 "entry %llu is committed and cannot be decoded: this node's log is damaged. Keep "
                 "its folder for analysis, remove this node from the cluster and add it under a "
                 "new id",
                 (unsigned long long)index);
        hf_panic(__FILE__, __LINE__, text);
    }
    if (mine != NULL) {
        r->answered_us = now.boot_us;
        r->heard_us = now.boot_us;
        r->answering = true;
        r->peer_waits = r->peer_waits || mine->for_peer;
        for (uint32_t i = 0; i < mine->barriers.count; i++) {
            return_predictor_note_answer(&r->predictor, 0);
            r->options.ports.on_barrier(r->options.ports.ctx, mine->barriers.at[i], true);
        }
        r->expected = return_predictor_expected(&r->predictor) + r->commands.count +
                      r->barriers.count - r->lazy;
        flight_drop(r, (uint32_t)(mine - r->flights));
    }
}

void remember_members(struct replica *r, uint64_t index, struct slice members)
{
    hf_assert(index != 0 && members.len > 0);
    hf_assert(members.data != r->members.data); /* the old copy is freed first */
    if (r->members.len > 0) {
        memory_free(r->options.memory, (void *)(uintptr_t)r->members.data, r->members.len);
    }
    uint8_t *copy = memory_alloc(r->options.memory, members.len);
    memcpy(copy, members.data, members.len);
    r->members = slice_make(copy, members.len);
    r->members_index = index;
}

/* An entry of `term` is applied. No log has an entry of an earlier term behind it, so the batches
 * of earlier terms in flight were not done. */
static void flights_fail_before(struct replica *r, uint64_t term)
{
    while (r->flight_count > 0) {
        hf_assert(r->flights[0].term < term && r->flights[0].index > r->applied);
        flight_fail(r, 0, REPLICA_NOT_DONE);
    }
}

static void apply_one(struct replica *r, uint64_t index, struct replica_time now)
{
    struct replica_entry entry;
    hf_assert(index == r->applied + 1 && index > r->engine.snapshot.index);
    if (!engine_entry(&r->engine, index, &entry)) {
        hf_panic(__FILE__, __LINE__, "a committed entry is not in the log");
    }
    struct flight *mine = flight_of(r, index, entry.term);
    r->applied = index;
    r->log_bytes += entry.bytes.len + 32;
    if (entry.type == RAFT_COMMAND) {
        apply_command(r, index, &entry, mine, now);
        r->last_tick_us = now.boot_us;
        if (r->leading && index == r->lead_index) {
            hf_assert(entry.term == r->clock.term);
            flights_fail_before(r, entry.term);
            r->serving = true;
            r->first_batch_us = clock_when_us(&r->clock, core_now_ms(r->core) + 1);
            r->options.ports.on_change(r->options.ports.ctx);
        }
    } else if (entry.type == RAFT_CHANGE) {
        remember_members(r, index, entry.bytes);
        engine_configuration(&r->engine, index, r->members, now.boot_us / 1000); /* E8 */
        r->options.ports.on_change(r->options.ports.ctx);
    }
}

void apply_committed(struct replica *r, struct replica_time now)
{
    hf_assert(r->in_call);
    while (!r->engine.installing && r->applied < raft_commit_index(&r->engine.raft)) {
        apply_one(r, r->applied + 1, now);
    }
}
