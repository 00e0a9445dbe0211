/* The client's engine among nodes that do what the input says, in a time that the input makes.
 *
 * The first byte chooses. Honest nodes fail in every way that nodes and networks do (refuse, stop,
 * break, stall, forget, drain) but say nothing that is not so; then the client must not overstate:
 * what it holds for certain is held by the service at least that long (S5). Hostile ones also send
 * bytes of the input as messages; then nothing may crash. In both, every call ends in its time, and
 * what is lost stays lost. */
#include <stdio.h>
#include <stdlib.h>

#include "client_world.h"
#include "fake_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CALLS = 16,
    LOCKS = 16,
    NAMES = 4,
    STEPS = 200,
    TTL_MS = 3000,
    CALL_MS = 2000,
    CONNECT_MS = 300,
};

struct fuzz_call {
    struct hf_call *ticket;
    int64_t until_ms;
};

struct fuzz_run {
    struct client_world w;
    const uint8_t *at;
    const uint8_t *end;
    bool is_hostile;
    struct fuzz_call calls[CALLS];
    struct hf_lock *locks[LOCKS];
    bool was_lost[LOCKS];
};

static uint8_t next(struct fuzz_run *p)
{
    return p->at < p->end ? *p->at++ : 0;
}

static struct slice next_bytes(struct fuzz_run *p)
{
    size_t len = next(p);
    size_t left = (size_t)(p->end - p->at);
    struct slice bytes = slice_make(p->at, len < left ? len : left);
    p->at += bytes.len;
    return bytes;
}

/* ---- what must hold ---- */

/* How long the service holds a lock at least: S4.2, with no sweep and no failover on its side. */
static int64_t served_until(struct fuzz_run *p, const struct hf_lock *lock)
{
    int64_t session_ms = 0;
    int64_t lock_ms = 0;
    int64_t ttl_ms = TTL_MS;
    for (int i = 0; i < WORLD_NODES; i++) {
        struct fake *f = &p->w.nodes[i];
        const struct fake_lock *served = fake_by_token(f, lock->token);
        session_ms = f->alive_ms > session_ms ? f->alive_ms : session_ms;
        if (served != NULL && served->alive_ms > lock_ms) {
            lock_ms = served->alive_ms;
            ttl_ms = served->ttl_ms != 0 ? served->ttl_ms : TTL_MS;
        }
    }
    lock_ms = (session_ms > lock_ms ? session_ms : lock_ms) + ttl_ms;
    session_ms += TTL_MS;
    return lock_ms < session_ms ? lock_ms : session_ms;
}

static void check_lock(struct fuzz_run *p, unsigned i)
{
    struct hf_lock *lock = p->locks[i];
    if (lock == NULL) {
        return;
    }
    hf_assert(!p->was_lost[i] || lock->state == LOCK_LOST);
    p->was_lost[i] = lock->state == LOCK_LOST;
    if (lock->state == LOCK_HELD) {
        hf_assert(lock_safe_until(lock) > p->w.now_ms);
        hf_assert(p->is_hostile || lock_safe_until(lock) < served_until(p, lock));
    } else {
        hf_assert(lock_safe_until(lock) == 0);
    }
}

static void drain_notifications(struct fuzz_run *p)
{
    /* Tickets are taken by their calls; the rest is read and forgotten. */
    struct list *next_link;
    struct list *head = &p->w.client_engine.notifications;
    for (struct list *at = head->next; at != head; at = next_link) {
        struct notification *notification = LIST_OBJECT(at, struct notification, link);
        next_link = at->next;
        if (notification->kind != NOTIFICATION_DONE) {
            list_remove(at);
            notification_free(notification);
        }
    }
}

static void check(struct fuzz_run *p)
{
    for (unsigned i = 0; i < CALLS; i++) {
        struct fuzz_call *a = &p->calls[i];
        if (a->ticket == NULL) {
            continue;
        }
        if (!a->ticket->is_done) {
            hf_assert(p->w.now_ms < a->until_ms);
            continue;
        }
        struct hf_lock *lock = a->ticket->lock;
        hf_assert((lock != NULL) <= (a->ticket->error == 0));
        if (lock != NULL) {
            unsigned place = 0;
            while (place < LOCKS && p->locks[place] != NULL) {
                place++;
            }
            if (place < LOCKS) {
                a->ticket->lock = NULL;
                p->locks[place] = lock;
                p->was_lost[place] = false;
            } else {
                lock_gone(lock);
            }
        }
        ticket_free(a->ticket);
        a->ticket = NULL;
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        check_lock(p, i);
    }
    drain_notifications(p);
}

/* ---- what the input may do ---- */

static struct fuzz_call *free_call(struct fuzz_run *p)
{
    for (unsigned i = 0; i < CALLS; i++) {
        if (p->calls[i].ticket == NULL) {
            return &p->calls[i];
        }
    }
    return NULL;
}

static void begin_acquire(struct fuzz_run *p)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct fuzz_call *a = free_call(p);
    uint8_t how = next(p);
    char name[2] = {(char)('a' + how % NAMES), '\0'};
    if (a == NULL) {
        return;
    }
    options.wait_ms = (how & 0x10) != 0 ? 1000 : 0;
    options.ttl_ms = (how & 0x20) != 0 ? 700 : 0;
    options.tier = (how & 0x40) != 0 ? HF_EFFICIENCY : HF_CORRECTNESS;
    a->until_ms = p->w.now_ms + CALL_MS + options.wait_ms + 1;
    a->ticket = world_acquire(&p->w, name, &options);
}

static void begin_release(struct fuzz_run *p)
{
    struct fuzz_call *a = free_call(p);
    unsigned i = next(p) % LOCKS;
    if (a == NULL || p->locks[i] == NULL) {
        return;
    }
    a->until_ms = p->w.now_ms + CALL_MS + 1;
    a->ticket = world_release(&p->w, p->locks[i]);
    p->locks[i] = NULL;
}

static void begin_renew(struct fuzz_run *p)
{
    struct fuzz_call *a = free_call(p);
    static const uint32_t ttls_ms[] = {0, 300, 900, TTL_MS};
    uint8_t how = next(p);
    unsigned i = how % LOCKS;
    if (a == NULL || p->locks[i] == NULL) {
        return;
    }
    struct hf_call *ticket = ticket_new(NULL);
    if (client_engine_renew(&p->w.client_engine, p->locks[i], ttls_ms[how / LOCKS % 4], ticket,
                            p->w.now_ms) != 0) {
        ticket_free(ticket);
        return;
    }
    a->ticket = ticket;
    a->until_ms = p->w.now_ms + CALL_MS + 1;
    world_settle(&p->w);
}

static void script_node(struct fuzz_run *p)
{
    static const char *const leaders[] = {NULL, "n0:1", "n1:1", "n2:1"};
    struct fake *f = &p->w.nodes[next(p) % WORLD_NODES];
    uint8_t how = next(p);
    int node = (int)(f - p->w.nodes);
    switch (how % 14) {
    case 0:
        f->refuse = how / 14;
        break;
    case 1:
        f->forget = how / 14;
        break;
    case 2:
        f->swallow = how / 14;
        break;
    case 3:
        f->break_after = how / 14;
        break;
    case 4:
        f->is_deaf = !f->is_deaf;
        break;
    case 5:
        f->is_stopped = !f->is_stopped;
        break;
    case 6:
        f->has_no_leader = !f->has_no_leader;
        break;
    case 7:
        f->leader = leaders[how / 14 % 4];
        break;
    case 8:
        f->epoch++;
        break;
    case 9:
        f->has_no_sessions = !f->has_no_sessions;
        break;
    case 10:
        p->w.stalls_out[node] = !p->w.stalls_out[node];
        break;
    case 11:
        p->w.stalls_in[node] = !p->w.stalls_in[node];
        break;
    case 12:
        fake_goaway(f);
        break;
    default:
        fake_end_sessions(f, how / 14 % 2 == 0 ? "draining" : "session_expired");
        break;
    }
    world_settle(&p->w);
}

static void lie(struct fuzz_run *p)
{
    struct fake *f = &p->w.nodes[next(p) % WORLD_NODES];
    uint8_t how = next(p);
    struct slice bytes = next_bytes(p);
    unsigned skip = how % 4;
    for (struct fake_stream *s = fake_next_stream(f, NULL); s != NULL; s = fake_next_stream(f, s)) {
        if (s->is_ended || skip-- > 0) {
            continue;
        }
        fake_stream_send(s, bytes);
        if ((how & 0x80) != 0) {
            s->is_waiting = false;
            fake_stream_end(s, (enum grpc_status)(how / 4 % 17), NULL, NULL);
        }
        break;
    }
    world_settle(&p->w);
}

static void step(struct fuzz_run *p)
{
    uint8_t op = next(p);
    char name[2] = {(char)('a' + op / 16 % NAMES), '\0'};
    switch (op % 12) {
    case 0:
    case 1:
        begin_acquire(p);
        break;
    case 2:
        begin_release(p);
        break;
    case 3:
        begin_renew(p);
        break;
    case 4:
    case 5:
        world_run(&p->w, next(p) * 2);
        break;
    case 6:
        world_run(&p->w, next(p) * 16);
        break;
    case 7:
        script_node(p);
        break;
    case 8:
        world_kill(&p->w, op / 16 % WORLD_NODES);
        break;
    case 9:
        world_start(&p->w, op / 16 % WORLD_NODES);
        break;
    case 10:
        if (fake_holder(&p->w.nodes[0], name) == 0) {
            fake_hold(&p->w.nodes[0], name);
        }
        break;
    default:
        if (p->is_hostile) {
            lie(p);
        } else if (p->calls[op / 16 % CALLS].ticket != NULL) {
            client_engine_cancel(&p->w.client_engine, p->calls[op / 16 % CALLS].ticket,
                                 p->w.now_ms);
            world_settle(&p->w);
        }
        break;
    }
    check(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_run *p = calloc(1, sizeof(*p));
    p->at = data;
    p->end = data + size;
    p->is_hostile = next(p) % 2 == 1;
    world_init(&p->w);
    p->w.options.session_ttl_ms = TTL_MS;
    p->w.options.call_timeout_ms = CALL_MS;
    p->w.options.connect_timeout_ms = CONNECT_MS;
    world_begin(&p->w, "n0:1,n1:1,n2:1");
    for (unsigned steps = 0; steps < STEPS && p->at < p->end; steps++) {
        step(p);
    }
    world_run(&p->w, CALL_MS + 1000); /* all calls end */
    check(p);
    for (unsigned i = 0; i < CALLS; i++) {
        hf_assert(p->calls[i].ticket == NULL);
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        if (p->locks[i] != NULL) {
            lock_unref(p->locks[i]);
        }
    }
    world_close(&p->w);
    free(p);
    return 0;
}
