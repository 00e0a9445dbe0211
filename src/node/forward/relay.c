/* Requests forwarded by other nodes: submitted if this node leads. The sender handles every status
 * but DONE. */
#include "node/forward/forward_state.h"

#include "service/request/memory_page.h"

static struct relay *relay_new(struct forward *f, uint64_t peer, uint64_t link, uint64_t number,
                               struct slice look)
{
    struct relay *relay = memory_alloc(f->options.memory, sizeof(*relay) + look.len);
    *relay = (struct relay){.cookie = {.kind = COOKIE_RELAY},
                            .peer = peer,
                            .link = link,
                            .number = number,
                            .next = f->relays};
    if (f->relays != NULL) {
        f->relays->prev = relay;
    }
    f->relays = relay;
    relay->look_len = look.len;
    if (look.len > 0) {
        memcpy(relay->look, look.data, look.len);
    }
    return relay;
}

static void relay_free(struct forward *f, struct relay *relay)
{
    if (relay->prev != NULL) {
        relay->prev->next = relay->next;
    } else {
        f->relays = relay->next;
    }
    if (relay->next != NULL) {
        relay->next->prev = relay->prev;
    }
    memory_free(f->options.memory, relay, sizeof(*relay) + relay->look_len);
}

void relay_free_all(struct forward *f)
{
    while (f->relays != NULL) {
        relay_free(f, f->relays);
    }
}

static void answer(struct forward *f, const struct relay *relay, enum forward_status status,
                   struct slice body)
{
    peers_answer(f->peers, relay->peer, relay->link, relay->number, (uint8_t)status, body);
}

/* At the front of the body of a DONE: a node that has not applied this leader's `lead` reports the
 * current epoch to its clients (S10.2). Nodes with protocol 1 expect it only in answers of the tier
 * EFFICIENCY. */
static bool put_epoch(struct forward *f, const struct relay *relay, struct buffer *out)
{
    if (relay->kind != FORWARD_MEMORY &&
        peers_protocol(f->peers, relay->peer, false) < PEER_PROTOCOL_EPOCH) {
        return true;
    }
    uint8_t epoch[8];
    struct writer w = writer_make(epoch, sizeof(epoch));
    write_fixed64(&w, core_epoch(replica_core(f->replica)));
    return buffer_append(out, epoch, sizeof(epoch));
}

/* The right to change members is checked where the client is known. */
static void on_change_request(struct forward *f, const struct relay *relay, bool is_own,
                              struct slice body)
{
    struct change change;
    const char *problem = "";
    enum forward_status status = FORWARD_MALFORMED;
    if (!is_own && forward_needs_principals(f)) {
        status = FORWARD_REFUSED;
        problem =
            "this node runs without auth = on, so the leader takes no change from it; nothing "
            "was done; use another node, or set auth = on here";
    } else if (change_decode(body, &change)) {
        enum hf_error error =
            f->options.change(f->options.ctx, change.change, change.id, change.address, &problem);
        status = error == HF_OK            ? FORWARD_DONE
                 : error == HF_UNAVAILABLE ? FORWARD_NOT_DONE
                 : error == HF_BUSY        ? FORWARD_BUSY
                                           : FORWARD_REFUSED;
    }
    buffer_truncate(&f->encoded, 0);
    bool fits = status != FORWARD_DONE || put_epoch(f, relay, &f->encoded);
    hf_assert(fits);
    answer(f, relay, status,
           status == FORWARD_REFUSED ? slice_of(problem) : buffer_bytes(&f->encoded));
}

/* Of a FORWARD_CHECKED: the query in front of the command. A malformed body becomes empty, which is no
 * command. */
static void take_query(struct slice *body, struct slice *query)
{
    struct reader r = reader_make(*body);
    *query = read_slice(&r, FORWARD_CHECK_BYTES);
    *body = r.bad ? slice_make(NULL, 0) : slice_make(r.at, reader_left(&r));
    *query = r.bad ? slice_make(NULL, 0) : *query;
}

bool forward_on_request(struct forward *f, uint64_t peer, uint64_t link, uint64_t number,
                        uint8_t kind, struct slice body)
{
    if (kind == FORWARD_INTEREST) {
        if (f->options.on_interest != NULL && body.len == 1) {
            f->options.on_interest(f->options.ctx, peer, link, body.data[0]);
        }
        return body.len == 1;
    }
    uint8_t plain = kind & (uint8_t)~FORWARD_OWN;
    bool is_own = kind != plain &&
                  (plain == FORWARD_COMMAND || plain == FORWARD_MEMORY || plain == FORWARD_CHANGE);
    kind = is_own ? plain : kind;
    struct slice look = kind == FORWARD_LOOK ? body : slice_make(NULL, 0);
    if (kind == FORWARD_CHECKED) {
        take_query(&body, &look);
    }
    struct relay *relay = relay_new(f, peer, link, number, look);
    relay->kind = kind;
    turns_note(f, UINT64_MAX - peer, 0); /* no connection has such a number */
    enum forward_status refusal = FORWARD_NOT_DONE;
    enum hf_error error = HF_MALFORMED;
    if (kind == FORWARD_CHANGE) {
        on_change_request(f, relay, is_own, body);
        relay_free(f, relay);
        return true;
    }
    if (f->paused) {
        error = HF_UNAVAILABLE;
    } else if (kind == FORWARD_COMMAND || kind == FORWARD_MEMORY || kind == FORWARD_CHECKED) {
        struct command command;
        error = command_decode(body, &command);
        if (error == HF_OK && command_check(&command) == HF_MALFORMED) {
            error = HF_MALFORMED;
        }
        if (error == HF_OK) {
            struct forward_taken taken = {
                &command, kind == FORWARD_MEMORY ? TIER_EFFICIENCY : TIER_CORRECTNESS, is_own};
            struct replica_time now = f->options.now(f->options.ctx);
            bool is_timed = command.type == COMMAND_ACQUIRE && f->options.counts != NULL;
            relay->cookie.begun_us = is_timed ? now.boot_us : 0;
            relay->cookie.tenant = command.tenant;
            relay->arrived_us = now.boot_us;
            relay->arrived_ms = forward_now_ms(f);
            error = forward_take(f, &taken, &relay->cookie, now);
        }
    } else if ((kind == FORWARD_BARRIER && body.len == 0) ||
               (kind == FORWARD_LOOK && body.len > 0 && body.len <= MEMORY_REQUEST_BYTES)) {
        error = replica_barrier(f->replica, relay, true, f->options.now(f->options.ctx));
    }
    if (error == HF_OK) {
        return true; /* the replica reports the outcome */
    }
    if (error == HF_BUSY) {
        refusal = FORWARD_BUSY;
    } else if (error != HF_UNAVAILABLE) {
        refusal = FORWARD_MALFORMED;
    }
    answer(f, relay, refusal, slice_make(NULL, 0));
    relay_free(f, relay);
    return true;
}

/* A peer that sent no state limit does not support state_full, and would treat the outcome as
 * unknown. It gets an error of the same kind. */
static void translate(const struct forward *f, uint64_t peer, struct result *result)
{
    struct peer_view view = {0};
    if (result->error == HF_STATE_FULL && peers_view(f->peers, peer, &view) &&
        view.state_max == 0) {
        result->error = HF_TOO_MANY_SESSIONS;
    }
}

/* Its command is the one that is being applied. */
static void check_slow(struct forward *f, const struct relay *relay, enum hf_error error)
{
    uint64_t took_ms = f->options.slow_ms == 0 ? 0 : forward_now_ms(f) - relay->arrived_ms;
    if (relay->arrived_us != 0 && f->options.slow_ms != 0 && took_ms >= f->options.slow_ms) {
        struct forward_slow slow = {.command = slice_make(NULL, 0),
                                    .took_ms = took_ms,
                                    .begun_us = relay->arrived_us,
                                    .sent_us = relay->arrived_us,
                                    .peer = relay->peer,
                                    .leader = 0,
                                    .error = error};
        f->options.on_slow(f->options.ctx, &slow);
    }
}

/* The answer to the query of a FORWARD_CHECKED, with its length. */
static bool put_page(struct forward *f, const struct relay *relay, struct buffer *out)
{
    struct buffer page;
    uint8_t head[10];
    struct writer w = writer_make(head, sizeof(head));
    buffer_init(&page, f->options.memory, FORWARD_CHECK_BYTES);
    forward_look_up(f, slice_make(relay->look, relay->look_len), &page);
    write_u64(&w, buffer_len(&page));
    bool fits = buffer_append(out, head, (size_t)(w.at - head)) &&
                buffer_append_slice(out, buffer_bytes(&page));
    buffer_close(&page);
    return fits;
}

void relay_on_result(struct forward *f, struct relay *relay, enum replica_outcome outcome,
                     const struct result *result)
{
    if (outcome == REPLICA_DONE) {
        check_slow(f, relay, result->error);
        buffer_truncate(&f->encoded, 0);
        bool fits = put_epoch(f, relay, &f->encoded);
        if (relay->kind == FORWARD_MEMORY) {
            uint8_t time[8];
            struct writer w = writer_make(time, sizeof(time));
            write_fixed64(&w, replica_cluster_ms(f->replica, f->options.now(f->options.ctx)));
            fits = fits && buffer_append(&f->encoded, time, sizeof(time));
        }
        if (relay->kind == FORWARD_CHECKED) {
            fits = fits && put_page(f, relay, &f->encoded);
        }
        struct result sent = *result;
        translate(f, relay->peer, &sent);
        fits = fits && result_encode(&sent, core_version(replica_core(f->replica)), &f->encoded);
        hf_assert(fits);
        answer(f, relay, FORWARD_DONE, buffer_bytes(&f->encoded));
    } else {
        answer(f, relay, outcome == REPLICA_NOT_DONE ? FORWARD_NOT_DONE : FORWARD_UNKNOWN,
               slice_make(NULL, 0));
    }
    relay_free(f, relay);
}

void relay_on_barrier(struct forward *f, struct relay *relay, bool reached)
{
    if (reached) {
        uint8_t index[8];
        struct writer w = writer_make(index, sizeof(index));
        write_fixed64(&w, core_index(replica_core(f->replica)));
        struct buffer body;
        buffer_init(&body, f->options.memory, MEMORY_PAGE_BYTES + 2 * sizeof(index));
        (void)put_epoch(f, relay, &body);
        (void)buffer_append(&body, index, sizeof(index));
        if (relay->kind == FORWARD_LOOK) {
            forward_look_up(f, slice_make(relay->look, relay->look_len), &body);
        }
        answer(f, relay, FORWARD_DONE, buffer_bytes(&body));
        buffer_close(&body);
    } else {
        answer(f, relay, FORWARD_NOT_DONE, slice_make(NULL, 0));
    }
    relay_free(f, relay);
}
