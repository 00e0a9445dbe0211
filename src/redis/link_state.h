/* Private to link.c (connection) and calls.c (commands). */
#ifndef HOLDFAST_REDIS_LINK_STATE_H
#define HOLDFAST_REDIS_LINK_STATE_H

#include <hiredis/async.h>

#include "base/list.h"
#include "redis/link.h"

enum link_phase { LINK_WAITING, LINK_RESOLVING, LINK_CONNECTING, LINK_GREETING, LINK_UP };

enum { DIGEST = 40 };

enum link_command_kind {
    LINK_COMMAND_CALL,
    LINK_COMMAND_AUTH,
    LINK_COMMAND_SELECT,
    LINK_COMMAND_LOAD,
    LINK_COMMAND_PING,
    LINK_COMMAND_TRIAL
};

struct link_command {
    struct redis_link *link;
    struct list all; /* in a list ordered by deadline */
    enum link_command_kind kind;
    bool reloaded; /* the script was loaded again */
    uint32_t script;
    redis_done_fn done;
    void *owner;
    uint64_t begun_us;
    uint64_t deadline_ms;
    const char *problem; /* why it will not be sent */
    size_t digest_at;    /* position of the script's digest */
    size_t len;
    uint8_t bytes[];
};

struct redis_link {
    struct redis_link_options options;
    enum link_phase phase;
    bool closing;

    redisAsyncContext *context; /* NULL unless connecting or further */
    uint32_t greetings;         /* replies still awaited */
    uint64_t attempt_ms;        /* next attempt; during an attempt: its deadline */
    uint32_t wait_ms;
    uint32_t attempts; /* selects one of a name's addresses */
    uint64_t reply_ms;
    char digests[REDIS_SCRIPTS_MAX][DIGEST];

    uv_timer_t timer;
    bool timer_open;
    uv_getaddrinfo_t resolver;
    bool resolving;

    struct breaker breaker;
    struct list unsent;  /* wait for the connection */
    struct list sent;    /* wait for a reply */
    struct list refused; /* will not be sent; to be reported */
    struct redis_link_view view;
};

/* link.c */
uint64_t link_now_ms(const struct redis_link *l);
/* Reconnects after a wait. */
void link_lost(struct redis_link *l, const char *problem);
void link_failed(struct redis_link *l, const char *problem);
void link_succeeded(struct redis_link *l);
void link_greeted(struct redis_link *l);
void link_set_timer(struct redis_link *l);
void link_free_if_done(struct redis_link *l);

/* calls.c */
void calls_greet(struct redis_link *l);
void calls_try(struct redis_link *l);
void calls_send_waiting(struct redis_link *l);
void calls_refuse_waiting(struct redis_link *l, const char *problem);
/* May lose the link. */
void calls_on_time(struct redis_link *l);
uint64_t calls_next_ms(const struct redis_link *l);
/* Without calling back. */
void calls_forget(struct redis_link *l);

#endif
