/* The steps of a client: its session, keep-alives, cycles, and its part of the locks of --held. */
#include <inttypes.h>
#include <stdio.h>

#include "bench/load_state.h"

static const struct bench_protocol *protocol_of(const struct bench_client *c)
{
    return c->load->settings->protocol;
}

static void send_request(struct bench_client *c, const struct bench_request *what, uint64_t now_ns)
{
    c->verb = what->verb;
    c->waits_for_answer = true;
    c->sent_ns = now_ns;
    c->started_ns = now_ns;
    protocol_of(c)->request(c->line->protocol, c->slot, what, &c->line->out);
}

static void send_session_request(struct bench_client *c, enum bench_verb verb, const char *id,
                                 uint64_t now_ns)
{
    struct bench_request what = {.verb = verb, .session = slice_of(id)};
    send_request(c, &what, now_ns);
}

static void send_open(struct bench_client *c, uint64_t ttl_ms, uint64_t now_ns)
{
    char client[32];
    (void)snprintf(client, sizeof(client), "bench-%08" PRIx32 "-%" PRIu32, c->load->run, c->number);
    struct bench_request what = {.verb = BENCH_OPEN, .client = slice_of(client), .ttl_ms = ttl_ms};
    send_request(c, &what, now_ns);
}

static void arrive_at_gate(struct bench_client *c)
{
    if (!c->at_gate) {
        c->at_gate = true;
        c->load->at_gate++;
    }
}

/* ---- the locks of --held ---- */

/* These sessions get no keep-alives, so their TTL covers the whole run. */
static uint64_t held_ttl_ms(const struct bench_settings *s)
{
    uint64_t ttl_ms = s->warmup_ms + s->measure_ms + 900000;
    return ttl_ms < 86400000 ? ttl_ms : 86400000;
}

static bool begin_held_session(struct bench_client *c, uint64_t now_ns)
{
    struct load *l = c->load;
    if (l->held_taken == l->held_sessions) {
        return false;
    }
    c->is_held_work = true;
    c->held_session = l->held_taken++;
    c->held_locks = 0;
    send_open(c, held_ttl_ms(l->settings), now_ns);
    return true;
}

/* The locks of this session. */
static uint64_t held_share(const struct load *l, uint32_t session)
{
    uint64_t before = (uint64_t)session * BENCH_HELD_PER_SESSION;
    uint64_t left = l->settings->held - before;
    return left < BENCH_HELD_PER_SESSION ? left : BENCH_HELD_PER_SESSION;
}

static bool continue_holding(struct bench_client *c, uint64_t now_ns)
{
    struct load *l = c->load;
    if (!c->is_held_work || c->held_locks == held_share(l, c->held_session)) {
        c->is_held_work = false;
        return begin_held_session(c, now_ns);
    }
    if (l->held[c->held_session].id[0] == '\0') {
        send_open(c, held_ttl_ms(l->settings), now_ns);
        return true;
    }
    (void)snprintf(c->name, sizeof(c->name), "bench/%08" PRIx32 "/held/%06" PRIu32 "-%04" PRIu32,
                   l->run, c->held_session, c->held_locks);
    struct bench_request what = {.verb = BENCH_ACQUIRE,
                                 .session = slice_of(l->held[c->held_session].id),
                                 .name = slice_of(c->name),
                                 .tier = slice_of(l->settings->tier)};
    send_request(c, &what, now_ns);
    return true;
}

static void on_held_answer(struct bench_client *c, const struct bench_answer *answer)
{
    struct load *l = c->load;
    if (c->verb == BENCH_OPEN) {
        (void)snprintf(l->held[c->held_session].id, BENCH_SESSION, "%.*s", (int)answer->session.len,
                       (const char *)answer->session.data);
    } else if (c->verb == BENCH_ACQUIRE) {
        c->held_locks++;
        l->held_locks++;
    }
}

static bool close_held_session(struct bench_client *c, uint64_t now_ns)
{
    struct load *l = c->load;
    while (l->held_taken > 0) {
        const char *id = l->held[--l->held_taken].id;
        if (id[0] != '\0') {
            c->is_held_work = true;
            send_session_request(c, BENCH_CLOSE, id, now_ns);
            return true;
        }
    }
    return false;
}

/* ---- cycles ---- */

static void make_name(struct bench_client *c)
{
    if (c->load->settings->contended) {
        (void)snprintf(c->name, sizeof(c->name), "bench/%08" PRIx32 "/contended", c->load->run);
        return;
    }
    (void)snprintf(c->name, sizeof(c->name), "bench/%08" PRIx32 "/%" PRIu32 "/%" PRIu64,
                   c->load->run, c->number, c->cycle++);
}

static void begin_cycle(struct bench_client *c, uint64_t now_ns)
{
    const struct bench_settings *s = c->load->settings;
    if (c->due_ns > now_ns) {
        load_set_timer(c->load, &c->timer, c->number + 1, c->due_ns);
        return;
    }
    make_name(c);
    struct bench_request what = {.verb = BENCH_ACQUIRE,
                                 .session = slice_of(c->session),
                                 .name = slice_of(c->name),
                                 .tier = slice_of(s->tier),
                                 .wait_ms = s->contended ? load_ttl_ms(s) / 2 : 0};
    send_request(c, &what, now_ns);
    if (s->rate > 0) {
        c->started_ns = c->due_ns; /* a late start counts as latency */
        c->due_ns += SECOND * s->clients / s->rate;
    }
}

static void release(struct bench_client *c, uint64_t now_ns)
{
    struct bench_request what = {.verb = BENCH_RELEASE,
                                 .session = slice_of(c->session),
                                 .name = slice_of(c->name),
                                 .token = c->token};
    send_request(c, &what, now_ns);
    c->load->released_ns = now_ns;
}

static void add_sample(struct bench_result *r, uint64_t began_ns, uint64_t took_ns)
{
    if (r->sample_count < r->sample_capacity) {
        r->samples[r->sample_count++] = (struct bench_sample){began_ns, took_ns};
    }
}

/* With --contended, a grant follows the release of the previous holder. */
static void measure_handover(struct load *l, uint64_t now_ns)
{
    if (l->settings->contended && l->released_ns != 0) {
        histogram_add(&l->result->handover, now_ns - l->released_ns);
    }
}

static void measure(struct bench_client *c, const struct bench_answer *answer, uint64_t now_ns)
{
    struct bench_result *r = c->load->result;
    if (c->load->phase != PHASE_MEASURE || !answer->fine) {
        return;
    }
    uint64_t took_ns = now_ns - c->started_ns;
    if (c->verb == BENCH_ACQUIRE) {
        histogram_add(&r->acquire, took_ns);
        measure_handover(c->load, now_ns);
        add_sample(r, c->started_ns, took_ns);
    } else if (c->verb == BENCH_RELEASE) {
        histogram_add(&r->release, took_ns);
        r->cycles++;
    }
}

/* ---- steps ---- */

static void next_cycle_step(struct bench_client *c, uint64_t now_ns)
{
    if (c->session[0] == '\0') {
        send_open(c, load_ttl_ms(c->load->settings), now_ns);
    } else if (c->is_in_doubt) {
        c->is_in_doubt = false;
        send_session_request(c, BENCH_CLOSE, c->session, now_ns);
    } else if (c->token != 0) {
        release(c, now_ns);
    } else if (now_ns >= c->keepalive_ns) {
        send_session_request(c, BENCH_KEEPALIVE, c->session, now_ns);
    } else {
        begin_cycle(c, now_ns);
    }
}

/* Acquires the held locks first and opens the client's session last, because it gets no keep-alives
 * until then. Very many clients start at ARRIVALS per second. */
static void prepare(struct bench_client *c, uint64_t now_ns)
{
    uint64_t due_ns = c->load->phase_ns + c->number * SECOND / ARRIVALS;
    if (c->number > ARRIVALS && due_ns > now_ns) {
        load_set_timer(c->load, &c->timer, c->number + 1, due_ns);
        return;
    }
    if (!continue_holding(c, now_ns)) {
        if (c->session[0] == '\0') {
            send_open(c, load_ttl_ms(c->load->settings), now_ns);
        } else {
            arrive_at_gate(c);
        }
    }
}

static void close_sessions(struct bench_client *c, uint64_t now_ns)
{
    c->is_held_work = false;
    if (c->session[0] != '\0') {
        send_session_request(c, BENCH_CLOSE, c->session, now_ns);
    } else if (!close_held_session(c, now_ns)) {
        arrive_at_gate(c);
    }
}

void client_next(struct bench_client *c)
{
    uint64_t now_ns = bench_now_ns();
    if (!line_is_up(c->line) && c->load->phase == PHASE_CLOSE) {
        arrive_at_gate(c); /* its session expires */
    }
    if (c->waits_for_answer || !line_is_up(c->line)) {
        return;
    }
    load_set_timer(c->load, &c->timer, c->number + 1, UINT64_MAX);
    switch (c->load->phase) {
    case PHASE_PREPARE:
        prepare(c, now_ns);
        break;
    case PHASE_WARM:
    case PHASE_MEASURE:
        next_cycle_step(c, now_ns);
        break;
    case PHASE_CLOSE:
        close_sessions(c, now_ns);
        break;
    case PHASE_OVER:
        break;
    }
}

static void on_own_answer(struct bench_client *c, const struct bench_answer *answer,
                          uint64_t now_ns)
{
    switch (c->verb) {
    case BENCH_OPEN:
        (void)snprintf(c->session, sizeof(c->session), "%.*s", (int)answer->session.len,
                       (const char *)answer->session.data);
        c->keepalive_ns = now_ns + load_ttl_ms(c->load->settings) / 3 * MS;
        break;
    case BENCH_KEEPALIVE:
        c->keepalive_ns = now_ns + load_ttl_ms(c->load->settings) / 3 * MS;
        break;
    case BENCH_ACQUIRE:
        c->token = answer->token;
        c->load->released_ns = 0;
        break;
    case BENCH_RELEASE:
        c->token = 0;
        break;
    case BENCH_CLOSE:
        c->session[0] = '\0';
        break;
    }
}

/* The server did nothing, for example because more requests arrived at once than fit into a
 * batch. */
static bool may_be_repeated(const struct bench_answer *answer)
{
    return !answer->fine &&
           (strcmp(answer->code, "unavailable") == 0 || strcmp(answer->code, "busy") == 0);
}

/* If the request may be repeated, the client keeps its lock and repeats it. Else a lock whose
 * release failed remains until the session ends, and a lost session is opened again. A session that
 * fails to close may have ended already. */
static void on_refusal(struct bench_client *c, const struct bench_answer *answer, uint64_t now_ns)
{
    bool repeats = may_be_repeated(answer);
    if (!repeats || c->load->phase != PHASE_PREPARE) {
        load_error(c->load, answer->code, answer->message);
    }
    c->token = repeats ? c->token : 0;
    /* The waiter may still be in the queue and would delay the others. */
    c->is_in_doubt = c->load->settings->contended && !repeats;
    if (c->verb == BENCH_CLOSE || strncmp(answer->code, "session_", 8) == 0) {
        c->session[0] = '\0';
    }
    load_set_timer(c->load, &c->timer, c->number + 1, now_ns + ERROR_PAUSE_MS * MS);
}

void client_on_answer(struct bench_client *c, const struct bench_answer *answer)
{
    uint64_t now_ns = bench_now_ns();
    if (!c->waits_for_answer) {
        return;
    }
    c->waits_for_answer = false;
    if (!may_be_repeated(answer)) {
        c->load->answer_ns = now_ns; /* PREPARE fails after SILENCE_MS without such an answer */
    }
    if (!answer->fine) {
        on_refusal(c, answer, now_ns);
        return;
    }
    if (c->is_held_work) {
        on_held_answer(c, answer);
    } else {
        measure(c, answer, now_ns);
        on_own_answer(c, answer, now_ns);
    }
    client_next(c);
}

void client_on_loss(struct bench_client *c)
{
    c->waits_for_answer = false;
    c->token = 0;
    if (protocol_of(c)->sessions_follow) {
        c->session[0] = '\0'; /* the session ends with the connection */
    }
    load_set_timer(c->load, &c->timer, c->number + 1, UINT64_MAX);
    if (c->load->phase == PHASE_CLOSE) {
        arrive_at_gate(c);
    }
}
