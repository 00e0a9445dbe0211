/* Internal state of the load, shared by load.c (phases and event loop), client.c (the
 * steps of a client) and line.c (connections; a "line" is a connection).
 *
 *     PREPARE         the clients acquire the locks of --held and open their sessions
 *     WARM, MEASURE   the clients run cycles for a fixed time
 *     CLOSE           the clients close their sessions and those of the held locks
 *
 * PREPARE and CLOSE end when every client has nothing left to do, that is, is at the gate. */
#ifndef HOLDFAST_BENCH_LOAD_STATE_H
#define HOLDFAST_BENCH_LOAD_STATE_H

#include "base/heap.h"
#include "bench/load.h"
#include "transport/transport.h"

enum bench_phase { PHASE_PREPARE, PHASE_WARM, PHASE_MEASURE, PHASE_CLOSE, PHASE_OVER };

#define MS UINT64_C(1000000) /* in ns */
#define SECOND (1000 * MS)

enum {
    SESSION_TTL_MS = 30000, /* a keep-alive is sent after a third of it; see load_ttl_ms */
    PATIENCE_MS = 20,       /* with --contended, a client holds the lock for less than this */
    ARRIVALS = 5000,        /* clients that start per second with --contended */
    ERROR_PAUSE_MS = 10,
    RECONNECT_MS = 100,
    REQUEST_MS = 10000, /* timeout of a request */
    SILENCE_MS = 15000, /* PREPARE and CLOSE end after this time without an answer */
};

struct held_session {
    char id[BENCH_SESSION];
};

struct bench_client {
    struct load *load;
    struct line *line;
    uint32_t number; /* from 0 */
    uint32_t slot;
    bool waits_for_answer;
    bool at_gate;
    bool is_held_work; /* the outstanding request is for a held session */
    bool is_in_doubt;  /* it may still be in the queue: its session must be closed */
    enum bench_verb verb;
    char session[BENCH_SESSION]; /* "": none */
    char name[48];               /* of the lock that it holds or requests */
    uint64_t token;              /* 0: holds nothing */
    uint64_t cycle;
    uint64_t sent_ns;
    uint64_t started_ns; /* start of the latency: when it was sent or, with a rate, due */
    uint64_t due_ns;     /* with a rate: when the next cycle is due */
    uint64_t keepalive_ns;
    uint32_t timer; /* its position in the heap */
    uint32_t held_session;
    uint32_t held_locks; /* of that session */
};

struct line {
    struct load *load;
    uint32_t number;
    struct transport transport;
    bool waits_to_write;
    unsigned target;
    uint32_t first_client;
    uint32_t clients;
    uint32_t timer;
    void *protocol;
    struct buffer in;
    struct buffer out;
};

struct load {
    const struct bench_settings *settings;
    const struct bench_targets *targets;
    struct bench_result *result;
    bench_progress_fn *on_progress;
    char *problem;
    bool failed; /* in PREPARE */
    enum bench_phase phase;
    uint64_t phase_ns; /* when it began */
    uint64_t progress_ns;
    uint64_t answer_ns; /* time of the last answer */
    uint32_t run;       /* random: each run uses new lock names */
    int epoll;
    int timer_fd;
    uint64_t timer_ns;
    struct heap timers; /* refs: clients from 1, then lines */
    struct bench_client *clients;
    struct line *lines;
    uint32_t at_gate;
    struct held_session *held;
    uint32_t held_sessions;
    uint32_t held_taken; /* sessions assigned to a client */
    uint64_t held_locks;
    uint64_t released_ns; /* --contended: when the release was sent; 0: the lock is held */
};

uint64_t bench_now_ns(void);

/* The TTL of a client's session and the timeout of its acquire. A client has one outstanding
 * request, so it sends no keep-alive while it waits in a long queue. */
static inline uint64_t load_ttl_ms(const struct bench_settings *s)
{
    uint64_t queue_ms = s->contended ? s->clients * PATIENCE_MS : 0;
    return queue_ms > SESSION_TTL_MS ? queue_ms : SESSION_TTL_MS;
}

/* load.c */
void load_error(struct load *l, const char *code, const char *message);
void load_set_timer(struct load *l, uint32_t *position, ref who, uint64_t at_ns);

/* client.c */
void client_next(struct bench_client *c);
void client_on_answer(struct bench_client *c, const struct bench_answer *answer);
/* The connection, and with it the outstanding request, is lost. */
void client_on_loss(struct bench_client *c);

/* line.c */
bool line_open(struct line *s);
static inline bool line_is_up(const struct line *s)
{
    return s->transport.state == TRANSPORT_UP;
}
void line_close(struct line *s);
void line_on_event(struct line *s, uint32_t events);
void line_connect(struct line *s);
void line_give_up(struct line *s, const char *code, const char *message);
void line_flush(struct line *s);

#endif
