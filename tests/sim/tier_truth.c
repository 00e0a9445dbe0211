/* What the tier EFFICIENCY promises, and no more (S3.1, S10, TIERS.md): within one leadership it is
 * a lock service like the other; it is served only while a majority answers; a name is in one tier;
 * a session that ended in the log has nothing here; its tokens are in one rising order with all
 * others, whoever leads. What it held is lost with the lead, and two leaders may believe in a
 * holder each for a while: that is not checked. */
#include "tier.h"

#include "book.h"
#include "core/view.h"

enum { ELECTION_US = 300000 };

struct tier_truth {
    struct book *book;
    uint64_t epoch;
    uint64_t last_token;
    uint64_t last_replicated; /* token that this node saw granted in the log */
};

static uint64_t *epochs; /* of all leaders, rising */
static uint64_t epoch_count;
static uint64_t epoch_capacity;

static struct grants grants; /* nearly in the order of their tokens */
static uint64_t highest;

/* ---- life ---- */

/* S10: it begins with nothing. */
struct tier_truth *tier_truth_begin(const struct sim_node *n)
{
    const struct core *core = memory_tier_core(n->tier);
    struct core_stats stats;
    core_stats(core, &stats);
    if (stats.names != 0 || stats.sessions != 0) {
        violation("node %d leads, and its tier begins with %llu names and %llu sessions (S10)",
                  n->id, ull(stats.names), ull(stats.sessions));
    }
    struct tier_truth *t = malloc(sizeof(*t));
    *t = (struct tier_truth){.book = book_new("the tier EFFICIENCY"),
                             .epoch = core_epoch(replica_core(n->replica))};
    return t;
}

void tier_truth_end(struct tier_truth *t)
{
    if (t != NULL) {
        book_free(t->book);
        free(t);
    }
}

void tier_truth_epoch(uint64_t epoch)
{
    if (epoch_count > 0 && epoch <= epochs[epoch_count - 1]) {
        violation("epoch %llu is not above %llu (S10.2)", ull(epoch), ull(epochs[epoch_count - 1]));
    }
    if (epoch_count == epoch_capacity) {
        epoch_capacity = epoch_capacity == 0 ? 64 : epoch_capacity * 2;
        epochs = realloc(epochs, epoch_capacity * sizeof(*epochs));
    }
    epochs[epoch_count++] = epoch;
}

/* That of the leader after; 0: it is the newest. */
static uint64_t next_epoch(uint64_t epoch)
{
    uint64_t next = 0;
    for (uint64_t i = epoch_count; i > 0 && epochs[i - 1] > epoch; i--) {
        next = epochs[i - 1];
    }
    return next;
}

/* ---- grants ---- */

/* S3.1: above everything that this leader has seen; of the newest leader above everything at all,
 * of an older one below everything of the next. So no token is given twice, either. */
static void check_token(const struct sim_node *n, const struct tier_truth *t, uint64_t token)
{
    uint64_t next = next_epoch(t->epoch);
    if (tier_of_token(token) != TIER_EFFICIENCY || token / TIER_TOKENS < t->epoch) {
        violation("node %d of epoch %llu grants token %llu in the tier EFFICIENCY (S3.1)", n->id,
                  ull(t->epoch), ull(token));
    }
    if (token <= t->last_token || token <= t->last_replicated) {
        violation("node %d grants token %llu after %llu and %llu of the log (S3.1)", n->id,
                  ull(token), ull(t->last_token), ull(t->last_replicated));
    }
    if (token / TIER_TOKENS > core_counter(replica_core(n->replica))) {
        violation("node %d grants token %llu, the counter is %llu (S3.1)", n->id, ull(token),
                  ull(core_counter(replica_core(n->replica))));
    }
    world.counts.tier_of_block += token / TIER_TOKENS < core_counter(replica_core(n->replica));
    if (next == 0 && (token <= highest || token <= truth_last_token())) {
        violation("token %llu is not above %llu and %llu (S3.1)", ull(token), ull(highest),
                  ull(truth_last_token()));
    }
    if (next != 0 && token >= next * TIER_TOKENS) {
        violation("node %d of epoch %llu grants token %llu, epoch %llu has begun (S3.1)", n->id,
                  ull(t->epoch), ull(token), ull(next));
    }
}

/* S10.1. What was heard during a pause counts as heard when it ends. */
static void check_majority(const struct sim_node *n, uint64_t token)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(n->replica, members, MAX_NODES);
    uint32_t voters = 0;
    uint32_t near = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t answered_us = n->answered_us[members[i].id];
        voters += members[i].voter;
        near +=
            members[i].voter &&
            (members[i].id == (uint64_t)n->id ||
             (answered_us != 0 && world.now_us - answered_us <= ELECTION_US + ELECTION_US / 500));
    }
    if (near * 2 <= voters) {
        violation("node %d grants token %llu in the tier EFFICIENCY; %u of %u voters answered it "
                  "within an election timeout (S10.1)",
                  n->id, ull(token), near, voters);
    }
}

bool tier_truth_has_grant(uint64_t token, uint32_t name)
{
    for (uint64_t i = grants.count; i > 0; i--) { /* it was lately */
        if (grants.at[i - 1].token == token) {
            return (grants.at[i - 1].names >> name & 1) != 0;
        }
    }
    return false;
}

static void granted(const struct sim_node *n, struct tier_truth *t, int k, const struct event *e)
{
    struct lock_view lock;
    if (e->part == 1) {
        check_token(n, t, e->token);
        check_majority(n, e->token);
        t->last_token = e->token;
        highest = e->token > highest ? e->token : highest;
        world.counts.tier_granted++;
    }
    if (view_lock(replica_core(n->replica), 0, e->name, &lock)) {
        violation("n%d is granted in the tier EFFICIENCY and in use in the other (S10.2)", k);
    }
    grants_add(&grants, e->token, k);
}

void tier_truth_event(const struct sim_node *n, const struct event *e)
{
    struct tier_truth *t = n->tier_truth;
    int k = book_number(e->name);
    trace("tier of node %d at %llu: %s %.*s token %llu lease %llx-%llx", n->id, ull(e->at_ms),
          event_name(e->type), (int)e->name.len, (const char *)e->name.data, ull(e->token),
          ull(e->lease.high), ull(e->lease.low));
    if (t == NULL) {
        violation("node %d does not lead, and its tier tells of %s", n->id, event_name(e->type));
    }
    book_event(t->book, e);
    if (k >= 0 && e->type == EVENT_GRANTED) {
        granted(n, t, k, e);
    }
}

uint64_t tier_truth_highest(void)
{
    return highest;
}

/* ---- what happens in the log ---- */

void tier_truth_replicated(const struct sim_node *n, const struct event *e)
{
    struct tier_truth *t = n->tier_truth;
    int k = book_number(e->name);
    if (t == NULL) {
        return;
    }
    if (e->type == EVENT_GRANTED) {
        t->last_replicated = e->token;
    }
    if (k >= 0 && (e->type == EVENT_GRANTED || e->type == EVENT_QUEUED) &&
        book_is_used(t->book, (uint32_t)k)) {
        violation("n%d is %s in the log and in use in the tier EFFICIENCY of node %d (S10.2)", k,
                  event_name(e->type), n->id);
    }
    if ((e->type == EVENT_SESSION_CLOSED || e->type == EVENT_SESSION_EXPIRED) &&
        book_knows_session(t->book, e->session)) {
        violation("a session ended, and is in use in the tier EFFICIENCY of node %d (S10.1)",
                  n->id);
    }
}

/* ---- answers ---- */

static uint64_t token_of(const struct command *command)
{
    return command->type == COMMAND_RELEASE ? command->release.token
           : command->type == COMMAND_RENEW ? command->renew.token
                                            : 0;
}

bool tier_truth_holds(const struct sim_node *n, const struct command *command)
{
    uint64_t token = token_of(command);
    return token != 0 && n->tier_truth != NULL && book_has_token(n->tier_truth->book, token);
}

static bool is_used(const struct core *core, const struct names *names)
{
    struct lock_view lock;
    for (uint32_t i = 0; i < names->count; i++) {
        if (view_lock(core, 0, names->at[i], &lock)) {
            return true;
        }
    }
    return false;
}

static void check_acquire(const struct sim_node *n, enum tier requested,
                          const struct command *command, const struct result *r)
{
    const struct names *names = &command->acquire.names;
    const struct core *other =
        requested == TIER_EFFICIENCY ? replica_core(n->replica) : memory_tier_core(n->tier);
    if (r->error == HF_WRONG_TIER) {
        world.counts.tier_wrong++;
        if (!is_used(other, names)) {
            violation("node %d refuses %.*s, which is not in use in the other tier (S10.2)", n->id,
                      (int)names->at[0].len, (const char *)names->at[0].data);
        }
        return;
    }
    bool granted_now = r->error == HF_OK && r->outcome == OUTCOME_GRANTED && r->ended == ENDED_NOT;
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t k = (uint32_t)book_number(names->at[i]);
        if (granted_now && !book_holds(n->tier_truth->book, k, r->token)) {
            violation("node %d tells of token %llu on n%u, which is not held", n->id, ull(r->token),
                      k);
        }
        if (names->count == 1 && r->error == HF_OK && r->outcome == OUTCOME_REFUSED &&
            r->reason == REASON_HELD && !r->replayed && !book_is_used(n->tier_truth->book, k)) {
            violation("node %d refuses n%u, which nobody holds in the tier EFFICIENCY", n->id, k);
        }
    }
}

void tier_truth_result(const struct sim_node *n, enum tier requested, const struct command *command,
                       bool held, const struct result *r)
{
    uint64_t token = token_of(command);
    if (command->type == COMMAND_ACQUIRE) {
        check_acquire(n, requested, command, r);
        return;
    }
    if (token == 0 || r->error != HF_OK || r->replayed) {
        return;
    }
    bool done = r->outcome != OUTCOME_REFUSED;
    bool holds = book_has_token(n->tier_truth->book, token);
    bool should = command->type == COMMAND_RENEW && done; /* be held now */
    if ((done && !held) || holds != should) {
        violation("node %d: the %s of token %llu of the tier EFFICIENCY is %s; held before: %d, "
                  "after: %d",
                  n->id, command->type == COMMAND_RENEW ? "renewal" : "release", ull(token),
                  done ? "done" : "refused", held, holds);
    }
}

void tier_truth_forget(void)
{
    free(epochs);
    epochs = NULL;
    epoch_count = epoch_capacity = 0;
    grants_free(&grants);
    highest = 0;
}
