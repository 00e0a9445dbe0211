/* Call objects: the list of each state, the numbers that match answers to calls, and their
 * completion. */
#include "node/forward/forward_state.h"

#include "service/request/memory_page.h"

/* ---- lists and numbers ---- */

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

static void enter(struct forward *f, struct call *call, enum call_state state)
{
    call->state = state;
    list_append(&f->lists[state], &call->link);
    f->counts[state]++;
    turns_enter(f, call, state);
}

void call_move(struct forward *f, struct call *call, enum call_state to)
{
    f->counts[call->state]--;
    turns_leave(f, call, call->state);
    enter(f, call, to);
}

/* Hundreds are allocated in a turn: calls of usual length come from the pool. */
static struct call *call_alloc(struct forward *f, size_t len)
{
    struct call *call;
    ref self = 0;
    if (len <= CALL_BYTES) {
        call = pool_alloc(&f->pool, sizeof(*call) + CALL_BYTES, &self);
    } else {
        call = memory_alloc(f->options.memory, sizeof(*call) + len);
        memset(call, 0, sizeof(*call));
    }
    list_init(&call->link);
    call->self = self;
    call->len = len;
    return call;
}

static void call_free(struct forward *f, struct call *call)
{
    buffer_close(&call->page);
    if (call->self != 0) {
        pool_free(&f->pool, call->self, sizeof(*call) + CALL_BYTES);
    } else {
        memory_free(f->options.memory, call, sizeof(*call) + call->len);
    }
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

struct call *call_new(struct forward *f, enum forward_kind kind, uint32_t source,
                      struct slice bytes)
{
    struct call *call = call_alloc(f, bytes.len);
    call->cookie.kind = COOKIE_CALL;
    call->kind = kind;
    call->source = source;
    call->give_up_ms = forward_now_ms(f) + f->options.give_up_ms;
    if (bytes.len > 0) {
        memcpy(call->bytes, bytes.data, bytes.len);
    }
    buffer_init(&call->page, f->options.memory, MEMORY_PAGE_BYTES);
    enter(f, call, CALL_WAITING);
    return call;
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
    const struct core *core =
        f->options.memory_core == NULL ? NULL : f->options.memory_core(f->options.ctx);
    size_t len = buffer_len(out);
    if (!memory_page_write(core, look, out)) {
        buffer_truncate(out, len);
    }
}

/* ---- completion ---- */

void call_answer(struct forward *f, struct call *call, enum hf_error error,
                 const struct result *result, const char *problem)
{
    struct gateway_call *gateway = call->gateway;
    struct gateway_change_call *change = call->change;
    hf_assert((gateway == NULL) != (change == NULL));
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
    /* Not "no leader": an immediate retry on another node would only add load. */
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
