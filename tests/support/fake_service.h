/* A node that the test controls: the gRPC of one, by memory, with locks as simple as can be, and with
 * every fault that a test wants. No clock: nothing expires unless the test says so. */
#ifndef HOLDFAST_TESTS_FAKE_SERVICE_H
#define HOLDFAST_TESTS_FAKE_SERVICE_H

#include "base/buffer.h"
#include "base/list.h"

enum { FAKE_MEMBERS = 4, FAKE_LOCKS = 64, FAKE_REQUESTS = 256, FAKE_TEXT = 96 };

struct fake_stream;

/* A call that came in, as far as tests look at it. */
/* Of every holder that a refusal names. */
#define FAKE_TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

struct fake_request {
    char path[FAKE_TEXT]; /* behind the last slash */
    char id[FAKE_TEXT];
    char name[FAKE_TEXT];
    char owner[FAKE_TEXT];
    char session[FAKE_TEXT];
    char trace[FAKE_TEXT];
    bool is_cancel;
};

struct fake_lock {
    char name[FAKE_TEXT]; /* "": free */
    char owner[FAKE_TEXT];
    char request_id[FAKE_TEXT];
    uint64_t token;
    int64_t alive_ms; /* when it was granted, or last renewed */
    int64_t ttl_ms;   /* as requested or renewed, 0: the session's */
};

struct fake {
    int64_t now_ms; /* of the test's time, for what is noted below */
    struct list conns;
    /* The script. */
    const char *leader;                /* the metadata holdfast-leader, NULL: none */
    const char *members[FAKE_MEMBERS]; /* addresses of all nodes, NULL: no more */
    bool is_stopped;                   /* reads nothing, says nothing: SIGSTOP */
    bool has_no_leader;                /* UNAVAILABLE to everything */
    unsigned refuse;                   /* so many calls get UNAVAILABLE */
    unsigned limit;                    /* so many calls get RESOURCE_EXHAUSTED, limit_queue */
    unsigned forget;                   /* so many calls are done and answered outcome_unknown */
    unsigned swallow;                  /* so many calls are done and never answered */
    unsigned
        break_after;   /* the connection breaks when so many calls were done, before their answer */
    bool knows_cancel; /* the field of an acquire; a service of an earlier version ignores it */
    bool is_deaf;      /* keep-alives are not answered */
    bool compares;     /* the tokens of keep-alives; a service of an earlier version ignores them */
    bool delays_lists; /* an answer with a list of tokens goes out with fake_send_list */
    unsigned page;     /* locks of one list, 0: all */
    bool has_no_sessions;    /* session_expired to everyone who resumes */
    const char *refuse_open; /* sessions are not opened: INVALID_ARGUMENT with these words */
    uint32_t max_streams;    /* 0: 100 */
    uint32_t ttl_ms;         /* of sessions, 0: as requested */
    uint64_t epoch;
    const char *ended; /* what a refused renewal says about the hold; NULL: nothing */
    /* What happened. */
    struct fake_request requests[FAKE_REQUESTS];
    unsigned request_count;
    int64_t alive_ms; /* when a session last gave a sign of life here */
    unsigned opened;
    unsigned resumed;
    unsigned keepalives;
    unsigned lists; /* answers with a list of tokens */
    unsigned closed;
    uint64_t token; /* the last one */
    struct fake_stream *late_stream;
    uint8_t *late; /* the delayed answer, NULL: none */
    size_t late_len;
    struct fake_lock locks[FAKE_LOCKS];
};

struct fake_conn;

void fake_init(struct fake *f);
void fake_close(struct fake *f); /* its connections, too */

struct fake_conn *fake_conn_new(struct fake *f);
void fake_conn_free(struct fake_conn *c);
/* False: the connection is to be closed. */
bool fake_conn_input(struct fake_conn *c, struct slice bytes);
void fake_conn_output(struct fake_conn *c, struct buffer *out);
bool fake_conn_is_broken(const struct fake_conn *c);

/* What others do. */
void fake_hold(struct fake *f, const char *name); /* somebody else takes it */
void fake_free(struct fake *f,
               const char *name); /* ... and gives it back: the first waiter has it */
/* The lock with that token, or NULL. */
const struct fake_lock *fake_by_token(struct fake *f, uint64_t token);
uint64_t fake_holder(const struct fake *f, const char *name); /* its token, 0: free */
unsigned fake_count(const struct fake *f, const char *path);  /* calls of that method */

/* On every session's stream. */
void fake_lose(struct fake *f, uint64_t token, const char *how);
void fake_revoke(struct fake *f, uint64_t token, int64_t deadline_ms, const char *reason);
void fake_jeopardy(struct fake *f);
void fake_send_list(struct fake *f); /* see delays_lists; the stream must be open */
void fake_end_sessions(struct fake *f, const char *how);
void fake_goaway(struct fake *f);
/* On every observer's. */
void fake_elect(struct fake *f, const char *client_id, const char *value);

#endif
