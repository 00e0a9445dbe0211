/* Call objects: lists, numbers that match answers to calls, completion. */
#include "node/forward/forward_state.h"

#include "service/request/memory_page.h"

void call_lists_init(struct forward *f)
{
    for (int state = 0; state <= CALL_ANSWERED; state++) {
        list_init(&f->lists[state]);
    }
}

static struct call *call_at(const struct forward *f, enum call_state state, struct list *link)
{
    return link == &f->lists[state] ? NULL : LIST_OBJECT(link, struct call, link);
}

struct call *call_first(const struct forward *f, enum call_state state)
{
    return call_at(f, state, f->lists[state].next);
}

struct call *call_next(const struct forward *f, const struct call *call)
{
    return call_at(f, call->state, call->link.next);
}

void call_move(struct forward *f, struct call *call, enum call_state to)
{
    f->counts[call->state]--;
    turns_leave(f, call, call->state);
    call_enter(f, call, to);
}

void call_enter(struct forward *f, struct call *call, enum call_state state)
{
    call->state = state;
    list_append(&f->lists[state], &call->link);
    f->counts[state]++;
    turns_enter(f, call, state);
}

void call_free(struct forward *f, struct call *call)
{
    buffer_close(&call->page);
    call_drop_look(f, call);
    turns_release(f, call);
    if (call->bytes.len > CALL_BYTES) {
        memory_free(f->options.memory, (void *)(uintptr_t)call->bytes.data, call->bytes.len);
    }
    pool_free(&f->pool, call->self, sizeof(*call));
}

void call_free_all(struct forward *f)
{
    for (int state = 0; state <= CALL_ANSWERED; state++) {
        struct call *call = call_first(f, (enum call_state)state);
        for (struct call *next; call != NULL; call = next) {
            next = call_next(f, call);
            call_free(f, call);
        }
    }
}

struct call *call_new(struct forward *f, enum forward_kind kind, uint32_t tenant, uint64_t source)
{
    ref self = 0;
    struct call *call = pool_alloc(&f->pool, sizeof(*call), &self);
    list_init(&call->link);
    call->self = self;
    call->cookie.kind = COOKIE_CALL;
    call->kind = kind;
    turns_assign(f, call, tenant, source);
    call->arrived_ms = forward_now_ms(f);
    call->give_up_ms = call->arrived_ms + f->options.give_up_ms;
    buffer_init(&call->page, f->options.memory, MEMORY_PAGE_BYTES);
    return call;
}

void call_keep(struct forward *f, struct call *call, struct slice bytes)
{
    hf_assert(call->bytes.len == 0);
    uint8_t *copy = call->short_bytes;
    if (bytes.len > CALL_BYTES) {
        copy = memory_alloc(f->options.memory, bytes.len);
    }
    if (bytes.len > 0) {
        memcpy(copy, bytes.data, bytes.len);
    }
    call->bytes = slice_make(copy, bytes.len);
}

void call_keep_look(struct forward *f, struct call *call, struct slice look)
{
    if (look.len > 0) {
        uint8_t *copy = memory_alloc(f->options.memory, look.len);
        memcpy(copy, look.data, look.len);
        call->look = slice_make(copy, look.len);
    }
}

void call_drop_look(struct forward *f, struct call *call)
{
    if (call->look.len > 0) {
        memory_free(f->options.memory, (void *)(uintptr_t)call->look.data, call->look.len);
        call->look = slice_make(NULL, 0);
    }
}

void call_free_if_done(struct forward *f, struct call *call)
{
    if (call->state == CALL_ANSWERED && call->here == 0) {
        list_remove(&call->link);
        f->counts[CALL_ANSWERED]--;
        call_free(f, call);
    }
}

void call_give_number(struct forward *f, struct call *call)
{
    uint32_t slot = f->free_slots[--f->free_count];
    call->number = ++f->generation * FORWARD_SLOTS + slot;
    f->slots[slot] = call;
}

void call_take_number(struct forward *f, struct call *call)
{
    if (call->number != 0) {
        uint32_t slot = (uint32_t)(call->number % FORWARD_SLOTS);
        f->slots[slot] = NULL;
        f->free_slots[f->free_count++] = slot;
        call->number = 0;
    }
}

void forward_look_up(struct forward *f, struct slice look, struct buffer *out)
{
    const struct forward_options *o = &f->options;
    size_t len = buffer_len(out);
    const struct core *core = o->memory_core == NULL ? NULL : o->memory_core(o->ctx);
    bool is_answered = o->answer_query != NULL ? o->answer_query(o->ctx, look, out)
                                               : memory_page_write(core, look, out);
    if (!is_answered) {
        buffer_truncate(out, len);
    }
}

static void check_slow(struct forward *f, const struct call *call, enum hf_error error)
{
    if (f->options.slow_ms == 0 || call->arrived_us == 0 || call->is_own) {
        return;
    }
    uint64_t took_ms = forward_now_ms(f) - call->arrived_ms;
    if (took_ms >= f->options.slow_ms) {
        struct forward_slow slow = {.command = call->bytes,
                                    .took_ms = took_ms,
                                    .begun_us = call->arrived_us,
                                    .sent_us = call->sent_us,
                                    .peer = 0,
                                    .leader = call->state == CALL_THERE ? call->peer : 0,
                                    .error = error};
        f->options.on_slow(f->options.ctx, &slow);
    }
}

void call_answer(struct forward *f, struct call *call, enum hf_error error,
                 const struct result *result, const char *problem)
{
    struct gateway_call *gateway = call->gateway;
    struct gateway_change_call *change = call->change;
    hf_assert((gateway == NULL) != (change == NULL));
    if (call->cookie.begun_us != 0) {
        counts_acquired(f->options.counts, call->tier, error == HF_OK ? result : NULL,
                        forward_took_us(f, &call->cookie));
    }
    check_slow(f, call, error != HF_OK || result == NULL ? error : result->error);
    call_take_number(f, call);
    call->gateway = NULL;
    call->change = NULL;
    if (call->is_first) {
        f->held = false;
        f->changed = true;
    }
    call_move(f, call, CALL_ANSWERED);
    if (gateway != NULL) {
        gateway->in_flight = NULL;
        gateway->page = buffer_bytes(&call->page);
        gateway->done(gateway, error, result);
    } else {
        change->in_flight = NULL;
        change->done(change, error, problem);
    }
    call_free_if_done(f, call);
}

void call_give_up(struct forward *f, struct call *call)
{
    bool doubtful = call->doubts > 0 || call->state == CALL_THERE || call->here > 0;
    /* A barrier changes nothing, so its outcome is never in doubt. */
    doubtful = doubtful && call->kind != FORWARD_BARRIER && call->kind != FORWARD_LOOK;
    bool full = f->read_only && call->kind == FORWARD_COMMAND;
    /* Not "no leader": an immediate retry elsewhere would only add load. */
    bool busy =
        f->leader != 0 && (call->is_too_many || (f->saturated && call->tier == TIER_CORRECTNESS));
    enum hf_error error = doubtful ? HF_OUTCOME_UNKNOWN
                          : full   ? HF_DISK_FULL
                          : busy   ? HF_BUSY
                                   : HF_UNAVAILABLE;
    call_answer(f, call, error, NULL, hf_error_text(error));
}

void call_again(struct forward *f, struct call *call, bool doubtful)
{
    call_take_number(f, call);
    if (doubtful) {
        call->doubts++;
    }
    call_move(f, call, CALL_WAITING);
    if (doubtful && !call->is_safe) {
        call_give_up(f, call);
    }
}
