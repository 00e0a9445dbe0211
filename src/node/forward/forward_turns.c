/* Connections take turns when calls are sent to the log.
 *
 * A client that pipelines has up to a thousand calls outstanding. In one batch, they would delay
 * every other client. So a connection has at most FORWARD_WINDOW calls sent and unanswered, and a
 * node FORWARD_NODE_WINDOW, its share of the leader's batches. One batch is in flight and one is
 * open, so these also bound a batch. The rest waits here, in order, and the connections send
 * FORWARD_TURN calls each in turn.
 *
 * With long batches a small window makes a pipeline slow. So the only connection that sends has a
 * larger one. Only the leader applies this: other nodes see only their own connections. */
#include "node/forward/forward_state.h"

void turns_open(struct forward *f)
{
    f->sources = memory_alloc(f->options.memory, FORWARD_SOURCES * sizeof(f->sources[0]));
    memset(f->sources, 0, FORWARD_SOURCES * sizeof(f->sources[0]));
}

void turns_close(struct forward *f)
{
    memory_free(f->options.memory, f->sources, FORWARD_SOURCES * sizeof(f->sources[0]));
}

uint32_t turns_source(uint64_t source)
{
    return source == 0 ? 0 : 1 + (uint32_t)(source % (FORWARD_SOURCES - 1));
}

void turns_note(struct forward *f, uint64_t sender)
{
    uint64_t now_ms = forward_now_ms(f);
    if (sender != f->sender) {
        if (f->sender != 0 && now_ms <= f->sender_ms + FORWARD_SHARED_MS) {
            f->shared_ms = now_ms + FORWARD_SHARED_MS;
        }
        f->sender = sender;
    }
    f->sender_ms = now_ms;
}

void turns_begin(struct forward *f, bool leads)
{
    bool is_alone = leads && forward_now_ms(f) >= f->shared_ms;
    f->window = is_alone ? FORWARD_ALONE : FORWARD_WINDOW;
}

/* A source that begins to wait has its turn last. Calls sent before count as part of that turn
 * (turns_may_send_now). */
static void ring_add(struct forward *f, uint32_t number)
{
    struct source *s = &f->sources[number];
    s->taken = s->sent < FORWARD_TURN ? s->sent : FORWARD_TURN;
    if (f->turn == 0) {
        f->turn = number;
        s->next = s->prev = number;
        return;
    }
    struct source *first = &f->sources[f->turn];
    s->next = f->turn;
    s->prev = first->prev;
    f->sources[first->prev].next = number;
    first->prev = number;
}

static void ring_remove(struct forward *f, uint32_t number)
{
    struct source *s = &f->sources[number];
    f->sources[s->prev].next = s->next;
    f->sources[s->next].prev = s->prev;
    if (f->turn == number) {
        f->turn = s->next == number ? 0 : s->next;
    }
    s->next = s->prev = 0;
}

static bool is_sent(enum call_state state)
{
    return state == CALL_HERE || state == CALL_THERE;
}

void turns_enter(struct forward *f, struct call *call, enum call_state state)
{
    struct source *s = &f->sources[call->source];
    if (is_sent(state) && call->source != 0) {
        s->sent++;
        f->sent++;
    }
    if (state != CALL_WAITING) {
        return;
    }
    call->source_next = NULL;
    call->source_prev = s->last;
    if (s->last != NULL) {
        s->last->source_next = call;
    } else {
        s->first = call;
    }
    s->last = call;
    if (call->source != 0 && s->next == 0) {
        ring_add(f, call->source);
    }
}

void turns_leave(struct forward *f, struct call *call, enum call_state state)
{
    struct source *s = &f->sources[call->source];
    if (is_sent(state) && call->source != 0) {
        hf_assert(s->sent > 0 && f->sent > 0);
        s->sent--;
        f->sent--;
        f->changed = f->changed || f->turn != 0; /* a window is open again */
    }
    if (state != CALL_WAITING) {
        return;
    }
    if (call->source_prev != NULL) {
        call->source_prev->source_next = call->source_next;
    } else {
        s->first = call->source_next;
    }
    if (call->source_next != NULL) {
        call->source_next->source_prev = call->source_prev;
    } else {
        s->last = call->source_prev;
    }
    call->source_next = call->source_prev = NULL;
    if (call->source != 0 && s->first == NULL) {
        ring_remove(f, call->source);
    }
}

bool turns_may_send_now(const struct forward *f, uint32_t source)
{
    return source == 0 || (f->sources[source].sent < FORWARD_TURN && f->sent < FORWARD_NODE_WINDOW);
}

struct call *turns_next(struct forward *f)
{
    if (f->turn == 0 || f->sent >= FORWARD_NODE_WINDOW) {
        return NULL;
    }
    uint32_t begun = f->turn;
    do {
        struct source *s = &f->sources[f->turn];
        if (s->sent < f->window && s->taken < FORWARD_TURN) {
            s->taken++;
            return s->first;
        }
        s->taken = 0;
        f->turn = s->next;
    } while (f->turn != begun);
    /* No other source may send. */
    struct source *s = &f->sources[begun];
    if (s->sent >= f->window) {
        return NULL;
    }
    s->taken = 1;
    return s->first;
}
