/* Calls of this node to the leader, with the states of forward.h. */
#include "node/forward/forward_state.h"

#include <stdio.h>

enum { RETRY_MS = 20 };

static struct cookie no_cookie = {.kind = COOKIE_NONE};

void *forward_no_cookie(void)
{
    return &no_cookie;
}

uint64_t forward_now_ms(const struct forward *f)
{
    return f->options.boot_ms != NULL ? f->options.boot_ms(f->options.ctx)
                                      : f->options.now(f->options.ctx).boot_us / 1000;
}

static enum hf_error submit_here(struct forward *f, struct call *call, struct replica_time now)
{
    if (call->kind == FORWARD_BARRIER || call->kind == FORWARD_LOOK) {
        return f->paused ? HF_UNAVAILABLE : replica_barrier(f->replica, call, false, now);
    }
    struct command command;
    enum hf_error error = command_decode(call->bytes, &command);
    hf_assert(error == HF_OK);
    struct forward_taken taken = {&command, call->tier, call->is_own};
    return forward_take(f, &taken, &call->cookie, now);
}

/* The tier EFFICIENCY answers before submit_here returns: the call may then be freed. */
static bool try_here(struct forward *f, struct call *call, struct replica_time now)
{
    if (call->kind == FORWARD_CHANGE) {
        return change_here(f, call);
    }
    call->here++;
    f->settled = NULL;
    enum hf_error error = submit_here(f, call, now);
    if (error != HF_OK) {
        call->here--;
        /* The tier EFFICIENCY is also busy without a majority or token. */
        f->saturated = f->saturated || (error == HF_BUSY && call->tier == TIER_CORRECTNESS);
        return false;
    }
    if (f->settled != call) {
        call_move(f, call, CALL_HERE);
    }
    return true;
}

/* The leader's program does not support the command. */
static void refuse_not_upgraded(struct forward *f, struct call *call, enum command_type type)
{
    struct result refused = {.type = type, .error = HF_NOT_UPGRADED};
    call->here++; /* forward_on_result ends an attempt of this node */
    forward_on_result(f, &call->cookie, REPLICA_DONE, &refused);
}

/* The body of a FORWARD_CHECKED. */
static struct slice with_look(struct forward *f, struct slice look, struct slice command)
{
    uint8_t head[10];
    struct writer w = writer_make(head, sizeof(head));
    write_u64(&w, look.len);
    buffer_truncate(&f->checked, 0);
    bool fits = buffer_append(&f->checked, head, (size_t)(w.at - head)) &&
                buffer_append_slice(&f->checked, look) && buffer_append_slice(&f->checked, command);
    hf_assert(fits);
    return buffer_bytes(&f->checked);
}

static bool try_there(struct forward *f, struct call *call, uint64_t leader)
{
    if (!change_may_go_to(f, call, leader)) {
        return false;
    }
    if (f->free_count == 0) {
        f->saturated = true;
        return false;
    }
    enum forward_kind kind = call->tier == TIER_EFFICIENCY ? FORWARD_MEMORY : call->kind;
    size_t len =
        kind == FORWARD_BARRIER ? 0 : call->bytes.len; /* it may have been a FORWARD_LOOK */
    struct slice bytes = slice_make(call->bytes.data, len);
    enum command_type type;
    if (call->kind == FORWARD_COMMAND && !forward_fit(f, leader, &bytes, &type)) {
        refuse_not_upgraded(f, call, type);
        return true;
    }
    if (call->look.len > 0) {
        bytes = with_look(f, call->look, bytes);
        kind = FORWARD_CHECKED;
    }
    bool is_own = call->kind == FORWARD_CHANGE ? f->options.auth : call->is_own;
    bool says_own = is_own && forward_supports(f, leader, FORWARD_OWN_VERSION);
    uint8_t sent = (uint8_t)(kind | (says_own ? FORWARD_OWN : 0));
    call_give_number(f, call);
    if (!peers_request(f->peers, leader, call->number, sent, bytes)) {
        call_take_number(f, call);
        return false;
    }
    call->peer = leader;
    call_move(f, call, CALL_THERE);
    return true;
}

/* The call that was tried last waits for others of its tenant (S15). */
static bool is_held_by_quota(const struct forward *f)
{
    return f->options.admission != NULL && f->options.admission->is_tenant_busy;
}

static bool try_once(struct forward *f, struct call *call, const struct replica_status *status,
                     struct replica_time now)
{
    if (f->options.admission != NULL) {
        f->options.admission->is_tenant_busy = false;
    }
    if (f->held && !call->is_first) {
        return false;
    }
    call->sent_us = now.boot_us; /* if it is sent now: this attempt is the last one so far */
    if (status->serving) {
        return try_here(f, call, now);
    }
    return status->leader != 0 && !status->is_leader && try_there(f, call, status->leader);
}

/* In order, the calls that take no turns; with a full disk all calls, since barriers may overtake
 * commands. False: calls for the log cannot be sent now. */
static bool send_in_order(struct forward *f, const struct replica_status *status,
                          struct replica_time now)
{
    bool all = f->read_only;
    struct call *call = all ? call_first(f, CALL_WAITING) : turns_first_without(f);
    while (call != NULL) {
        struct call *next = all ? call_next(f, call) : call->source_next;
        /* A call for one tier does not block the other. A change of members that waits for the next
         * leader blocks nothing. */
        if (!try_once(f, call, status, now) && !f->held && !f->read_only &&
            call->tier == TIER_CORRECTNESS && call->kind != FORWARD_CHANGE &&
            !is_held_by_quota(f)) {
            return false;
        }
        call = next;
    }
    return !f->held && !f->read_only;
}

/* A call that cannot be sent blocks those behind it. All arrived before the clock is read, so one
 * reading is late enough for each (S1.1). */
static void send_waiting(struct forward *f)
{
    struct replica_status status;
    struct replica_time now = f->options.now(f->options.ctx);
    replica_status(f->replica, now, &status);
    f->saturated = false;
    if (!send_in_order(f, &status, now)) {
        return;
    }
    turns_begin(f, status.is_leader);
    for (struct call *call = turns_next(f); call != NULL; call = turns_next(f)) {
        if (try_once(f, call, &status, now)) {
            continue;
        }
        if (!is_held_by_quota(f)) {
            return;
        }
        turns_hold(f, call->tenant);
    }
    f->saturated = f->turn != NULL; /* the rest waits for answers to sent calls */
}

void forward_set_read_only(struct forward *f, bool read_only, bool alone)
{
    f->read_only = read_only;
    f->alone = alone;
    f->changed = true;
}

void forward_set_reading(struct forward *f, bool reading)
{
    f->changed = f->changed || (f->reading && !reading);
    f->reading = reading;
}

void forward_set_paused(struct forward *f, bool paused)
{
    f->changed = f->changed || f->paused != paused;
    f->paused = paused;
}

uint64_t forward_took_us(const struct forward *f, const struct cookie *cookie)
{
    if (cookie->begun_us == 0) {
        return 0;
    }
    uint64_t applying_us = f->options.counts->begun_us; /* saves reading the clock */
    uint64_t now_us = applying_us != 0 ? applying_us : f->options.now(f->options.ctx).boot_us;
    return now_us > cookie->begun_us ? now_us - cookie->begun_us : 0;
}

static void on_result(struct forward *f, enum tier tier, struct cookie *head,
                      enum replica_outcome outcome, const struct result *result)
{
    if (outcome == REPLICA_DONE && f->options.counts != NULL) {
        counts_result(f->options.counts, tier, head->tenant, result, forward_took_us(f, head));
    }
    void *cookie = head;
    if (head->proposal != 0) {
        memory_tier_on_settled(f->options.tier, head->proposal);
        head->proposal = 0;
    }
    if (head->adds.bytes > 0 || head->adds.quota.is_counted) {
        admission_settle(f->options.admission, &head->adds);
    }
    if (head->kind == COOKIE_RELAY) {
        relay_on_result(f, cookie, outcome, result);
        return;
    }
    if (head->kind != COOKIE_CALL) {
        return;
    }
    struct call *call = cookie;
    hf_assert(call->here > 0);
    call->here--;
    f->settled = call;
    f->answered = true;
    f->changed = f->changed || f->counts[CALL_WAITING] > 0; /* a window may be open now */
    if (call->state == CALL_ANSWERED) {
        call_free_if_done(f, call);
    } else if (outcome == REPLICA_DONE) {
        if (call->look.len > 0) {
            forward_look_up(f, call->look, &call->page);
        }
        call_answer(f, call, HF_OK, result, NULL);
    } else if (call->state == CALL_HERE && call->here == 0) {
        call_again(f, call, outcome == REPLICA_UNKNOWN);
    } else if (outcome == REPLICA_UNKNOWN) {
        call->doubts++;
    }
}

void forward_on_result(struct forward *f, void *cookie, enum replica_outcome outcome,
                       const struct result *result)
{
    on_result(f, TIER_CORRECTNESS, cookie, outcome, result);
}

void forward_on_tier_result(struct forward *f, void *cookie, const struct result *result)
{
    on_result(f, TIER_EFFICIENCY, cookie, result == NULL ? REPLICA_UNKNOWN : REPLICA_DONE, result);
}

bool forward_has_answered(struct forward *f)
{
    bool answered = f->answered;
    f->answered = false;
    return answered;
}

void forward_on_barrier(struct forward *f, void *cookie, bool reached)
{
    struct cookie *head = cookie;
    if (reached && f->options.counts != NULL) {
        f->options.counts->requests++;
    }
    if (head->kind == COOKIE_RELAY) {
        relay_on_barrier(f, cookie, reached);
        return;
    }
    struct call *call = cookie;
    hf_assert(call->cookie.kind == COOKIE_CALL && call->here > 0);
    call->here--;
    if (call->state == CALL_ANSWERED) {
        call_free_if_done(f, call);
    } else if (reached) {
        if (call->kind == FORWARD_LOOK) {
            forward_look_up(f, call->bytes, &call->page);
        }
        call_answer(f, call, HF_OK, NULL, NULL);
    } else if (call->state == CALL_HERE && call->here == 0) {
        call_again(f, call, false);
    }
}

void forward_on_change(struct forward *f)
{
    f->changed = true;
}

/* The leader's epoch at the front of the body (put_epoch in relay.c); for the tier EFFICIENCY also
 * its time. False: missing. */
static bool take_epoch(struct forward *f, const struct call *call, struct slice *body)
{
    bool is_memory = call->tier == TIER_EFFICIENCY;
    if (!is_memory && peers_protocol(f->peers, call->peer, true) < PEER_PROTOCOL_EPOCH) {
        return true;
    }
    struct reader r = reader_make(*body);
    uint64_t epoch = read_fixed64(&r);
    uint64_t cluster_ms = is_memory ? read_fixed64(&r) : 0;
    if (r.bad) {
        return false;
    }
    f->epoch = epoch > f->epoch ? epoch : f->epoch;
    forward_note_leader_ms(f, cluster_ms);
    *body = slice_make(r.at, reader_left(&r));
    return true;
}

/* The answer to the query of a FORWARD_CHECKED. False: malformed. */
static bool take_page(struct call *call, struct slice *body)
{
    struct reader r = reader_make(*body);
    struct slice page = read_slice(&r, FORWARD_CHECK_BYTES);
    if (r.bad) {
        return false;
    }
    buffer_truncate(&call->page, 0);
    (void)buffer_append_slice(&call->page, page);
    *body = slice_make(r.at, reader_left(&r));
    return true;
}

static void on_done_there(struct forward *f, struct call *call, struct slice body)
{
    struct result result;
    struct result_scratch scratch;
    struct reader r = reader_make(body);
    if (call->kind == FORWARD_CHANGE) {
        call_answer(f, call, HF_OK, NULL, "");
    } else if (call->kind == FORWARD_BARRIER || call->kind == FORWARD_LOOK) {
        call->index = read_fixed64(&r);
        (void)buffer_append(&call->page, r.at, reader_left(&r));
        call_take_number(f, call);
        call_move(f, call, CALL_CATCHING_UP);
        f->changed = true;
    } else if (result_decode(body, &scratch, &result)) {
        call_answer(f, call, HF_OK, &result, NULL);
    } else {
        /* Done, but we cannot decode the result: a newer leader during an upgrade. */
        call->doubts++;
        call_give_up(f, call);
    }
}

static void refuse(struct forward *f, struct call *call, struct slice why)
{
    char problem[PEER_SENTENCE_MAX];
    snprintf(problem, sizeof(problem), "%.*s", (int)why.len, (const char *)why.data);
    call_answer(f, call, HF_MEMBERSHIP, NULL, problem);
}

bool forward_on_answer(struct forward *f, uint64_t peer, uint64_t number, uint8_t status,
                       struct slice body)
{
    if (status == FORWARD_EVENT) {
        return f->options.on_event == NULL || f->options.on_event(f->options.ctx, peer, body);
    }
    struct call *call = f->slots[number % FORWARD_SLOTS];
    if (call == NULL || call->number != number || call->peer != peer) {
        return true; /* timed out, or sent to another leader meanwhile */
    }
    hf_assert(call->state == CALL_THERE);
    switch (status) {
    case FORWARD_DONE:
        if (!take_epoch(f, call, &body) || (call->look.len > 0 && !take_page(call, &body)) ||
            (call->kind == FORWARD_BARRIER && body.len != 8) ||
            (call->kind == FORWARD_LOOK && body.len < 8)) {
            return false;
        }
        on_done_there(f, call, body);
        return true;
    case FORWARD_NOT_DONE:
        change_declined(f, call);
        call_again(f, call, false);
        return true;
    case FORWARD_BUSY:
        call->is_too_many = call->tier == TIER_CORRECTNESS;
        call_again(f, call, false);
        return true;
    case FORWARD_UNKNOWN:
        call_again(f, call, true);
        return true;
    case FORWARD_REFUSED:
        if (call->kind != FORWARD_CHANGE) {
            return false;
        }
        refuse(f, call, body);
        return true;
    case FORWARD_MALFORMED:
        if (call->kind == FORWARD_LOOK) { /* an older leader during an upgrade, without that tier */
            call->kind = FORWARD_BARRIER;
            call_again(f, call, false);
            f->changed = true;
            return true;
        }
        if (call->look.len > 0) { /* likewise: without the query */
            call_drop_look(f, call);
            call_again(f, call, false);
            f->changed = true;
            return true;
        }
        call_move(f, call, CALL_WAITING); /* it was not done, and will not be */
        call_give_up(f, call);
        return true;
    default:
        return false;
    }
}

static void doubt_all_there(struct forward *f, uint64_t except)
{
    struct call *call = call_first(f, CALL_THERE);
    while (call != NULL) {
        struct call *next = call_next(f, call);
        if (call->peer != except) {
            call_again(f, call, true);
        }
        call = next;
    }
}

void forward_on_down(struct forward *f, uint64_t peer)
{
    struct call *call = call_first(f, CALL_THERE);
    while (call != NULL) {
        struct call *next = call_next(f, call);
        if (call->peer == peer) {
            call_again(f, call, true);
        }
        call = next;
    }
    f->changed = true;
}

static void follow_leader(struct forward *f)
{
    struct replica_status status;
    replica_status(f->replica, f->options.now(f->options.ctx), &status);
    if (!status.is_leader) {
        /* In flight when we lost the lead: the new leader may answer before our replica does. */
        struct call *call = status.leader != 0 ? call_first(f, CALL_HERE) : NULL;
        while (call != NULL) {
            struct call *next = call_next(f, call);
            if (call->is_safe) {
                call_move(f, call, CALL_WAITING);
            }
            call = next;
        }
    }
    if (status.leader != 0 && status.leader != f->leader) {
        doubt_all_there(f, status.leader);
        f->leader_ms = 0;
    }
    if (status.leader == 0 && f->leader != 0) {
        f->leaderless_ms = forward_now_ms(f);
    }
    f->leader = status.leader;
}

static void catch_up(struct forward *f)
{
    if (call_first(f, CALL_CATCHING_UP) == NULL) {
        return;
    }
    uint64_t applied = core_index(replica_core(f->replica));
    struct call *call = call_first(f, CALL_CATCHING_UP);
    while (call != NULL) {
        struct call *next = call_next(f, call);
        if (call->index <= applied) {
            call_answer(f, call, HF_OK, NULL, NULL);
        }
        call = next;
    }
}

static void fail_overdue(struct forward *f, uint64_t now)
{
    static const enum call_state states[] = {CALL_WAITING, CALL_HERE, CALL_THERE, CALL_CATCHING_UP};
    for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        struct call *call = call_first(f, states[i]);
        while (call != NULL) {
            struct call *next = call_next(f, call);
            if (call->give_up_ms <= now) {
                call_give_up(f, call);
            }
            call = next;
        }
    }
}

void forward_run(struct forward *f)
{
    uint64_t now = forward_now_ms(f);
    bool due = now >= f->retry_ms;
    if (f->changed || due) {
        f->changed = false;
        follow_leader(f);
        send_waiting(f);
    }
    if (f->overdue || due) {
        f->overdue = false;
        fail_overdue(f, now);
        f->retry_ms = now + RETRY_MS;
    }
    catch_up(f);
}

uint64_t forward_next_ms(const struct forward *f)
{
    return f->changed || f->overdue ? 0 : forward_outstanding(f) > 0 ? f->retry_ms : UINT64_MAX;
}

uint32_t forward_outstanding(const struct forward *f)
{
    return f->counts[CALL_WAITING] + f->counts[CALL_HERE] + f->counts[CALL_THERE] +
           f->counts[CALL_CATCHING_UP];
}

uint32_t forward_queued(const struct forward *f)
{
    return f->counts[CALL_WAITING];
}

uint64_t forward_epoch(const struct forward *f)
{
    return f->epoch;
}

uint64_t forward_leader_ms(const struct forward *f)
{
    return f->leader_ms;
}

void forward_note_leader_ms(struct forward *f, uint64_t cluster_ms)
{
    f->leader_ms = cluster_ms > f->leader_ms ? cluster_ms : f->leader_ms;
}

struct forward *forward_new(const struct forward_options *options)
{
    const struct memory *memory = options->memory;
    struct forward *f = memory_alloc(memory, sizeof(*f));
    memset(f, 0, sizeof(*f));
    f->options = *options;
    pool_init(&f->pool, memory);
    f->scratch = memory_alloc(memory, FORWARD_SCRATCH);
    buffer_init(&f->encoded, memory, RESULT_BYTES_MAX + FORWARD_CHECK_BYTES + 64);
    buffer_init(&f->checked, memory, FORWARD_SCRATCH + FORWARD_CHECK_BYTES + 64);
    f->slots = memory_alloc(memory, FORWARD_SLOTS * sizeof(f->slots[0]));
    memset(f->slots, 0, FORWARD_SLOTS * sizeof(f->slots[0]));
    f->free_slots = memory_alloc(memory, FORWARD_SLOTS * sizeof(f->free_slots[0]));
    for (uint32_t i = 0; i < FORWARD_SLOTS; i++) {
        f->free_slots[f->free_count++] = FORWARD_SLOTS - 1 - i;
    }
    turns_open(f);
    call_lists_init(f);
    f->leaderless_ms = forward_now_ms(f);
    return f;
}

void forward_connect(struct forward *f, struct replica *replica, struct peers *peers)
{
    f->replica = replica;
    f->peers = peers;
}

void forward_free(struct forward *f)
{
    if (f == NULL) {
        return;
    }
    const struct memory *memory = f->options.memory;
    call_free_all(f);
    pool_close(&f->pool);
    relay_free_all(f);
    turns_close(f);
    buffer_close(&f->checked);
    buffer_close(&f->encoded);
    memory_free(memory, f->free_slots, FORWARD_SLOTS * sizeof(f->free_slots[0]));
    memory_free(memory, f->slots, FORWARD_SLOTS * sizeof(f->slots[0]));
    memory_free(memory, f->scratch, FORWARD_SCRATCH);
    memory_free(memory, f, sizeof(*f));
}
