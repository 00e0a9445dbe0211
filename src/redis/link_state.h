/* Private to redis_link.c (the connection) and redis_calls.c (what is said on it). */
#ifndef HOLDFAST_REDIS_LINK_STATE_H
#define HOLDFAST_REDIS_LINK_STATE_H

#include <hiredis/async.h>

#include "base/list.h"
#include "redis/link.h"

enum link_phase { LINK_WAITING, LINK_RESOLVING, LINK_CONNECTING, LINK_GREETING, LINK_UP };

enum { DIGEST = 40 };

/* What a reply on the connection is about. */
enum say_kind { SAY_CALL, SAY_AUTH, SAY_SELECT, SAY_LOAD, SAY_PING, SAY_TRIAL };

struct say {
    struct redis_link *link;
    struct list all; /* the order of their deadlines */
    enum say_kind kind;
    bool reloaded; /* Redis had forgotten the script, once */
    uint32_t script;
    redis_done_fn done;
    void *owner;
    uint64_t begun_us;
    uint64_t deadline_ms;
    const char *problem; /* why it will not be sent */
    size_t digest_at;    /* where in the bytes the script's digest belongs */
    size_t len;
    uint8_t bytes[];
};

struct redis_link {
    struct redis_link_options options;
    enum link_phase phase;
    bool closing;

    redisAsyncContext *context; /* NULL unless connecting or further */
    uint32_t greetings;         /* answers that the greeting still waits for */
    uint64_t attempt_ms;        /* when the next one begins; while at it: when it has failed */
    uint32_t wait_ms;
    uint32_t attempts; /* at a name that has several addresses */
    uint64_t heard_ms;
    char digests[REDIS_SCRIPTS_MAX][DIGEST];

    uv_timer_t timer;
    bool timer_open;
    uv_getaddrinfo_t resolver;
    bool resolving;

    struct breaker breaker;
    struct list unsent;  /* calls that wait for the connection */
    struct list sent;    /* everything that waits for a reply */
    struct list refused; /* calls that will not be sent, to be told so */
    struct redis_link_view view;
};

/* redis_link.c */
uint64_t link_now_ms(const struct redis_link *l);
/* The connection is no good: it is dropped, and made anew after a wait. */
void link_lost(struct redis_link *l, const char *problem);
void link_failed(struct redis_link *l, const char *problem);
void link_succeeded(struct redis_link *l);
/* One answer of the greeting less to wait for. */
void link_greeted(struct redis_link *l);
void link_set_timer(struct redis_link *l);
void link_free_if_done(struct redis_link *l);

/* redis_calls.c */
void calls_greet(struct redis_link *l);
void calls_try(struct redis_link *l);
void calls_send_waiting(struct redis_link *l);
void calls_refuse_waiting(struct redis_link *l, const char *problem);
/* What is due; may lose the link. */
void calls_on_time(struct redis_link *l);
uint64_t calls_next_ms(const struct redis_link *l);
/* For the end: nobody is told. */
void calls_forget(struct redis_link *l);

#endif
