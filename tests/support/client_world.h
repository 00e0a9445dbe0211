/* The client's engine among nodes that the test controls, in a time that the test makes: no socket, no
 * thread, no clock. Bytes move at once; time moves in world_run alone. */
#ifndef HOLDFAST_TESTS_CLIENT_WORLD_H
#define HOLDFAST_TESTS_CLIENT_WORLD_H

#include "client/engine.h"
#include "fake_service.h"

enum { WORLD_NODES = 3 };

struct world_socket {
    uint32_t generation;
    struct fake_conn *conn; /* NULL: none */
    int node;
};

struct client_world {
    struct client_engine client_engine;
    struct fake nodes[WORLD_NODES]; /* "n0:1", "n1:1", "n2:1" */
    bool refuses[WORLD_NODES];      /* connections */
    bool stalls_out[WORLD_NODES];   /* what the client sends is on its way */
    bool stalls_in[WORLD_NODES];    /* what it is answered is */
    unsigned dials[WORLD_NODES];
    struct world_socket sockets[ENGINE_LINKS];
    int64_t now_ms;
    struct client_engine_options options;
    bool is_begun;
};

/* `options` may be changed until world_begin. */
void world_init(struct client_world *w);
void world_begin(struct client_world *w, const char *endpoints);
void world_close(struct client_world *w);

/* Moves bytes until nobody has any. */
void world_settle(struct client_world *w);
/* Lets time pass, doing what is due when it is due. */
void world_run(struct client_world *w, int64_t ms);
/* The connections of a node break, and new ones are refused; and they are taken again. */
void world_kill(struct client_world *w, int node);
void world_start(struct client_world *w, int node);
/* The node that the engine talks to, -1: none. */
int world_current(const struct client_world *w);

/* An acquire, begun; world_done takes a finished ticket out of the notifications, or says that it is not
 * finished (NULL). Events that come before it are counted. */
struct hf_call *world_acquire(struct client_world *w, const char *name,
                              const struct hf_lock_options *o);
struct hf_call *world_release(struct client_world *w, struct hf_lock *lock);
/* Runs until it is done, at most `ms`; returns its error, -1 when it is not done. Frees the ticket;
 * *lock (may be NULL) is the caller's then. */
int world_await(struct client_world *w, struct hf_call *ticket, int64_t ms, struct hf_lock **lock);
/* Takes the next event of that type about `lock` (NULL: any) out of the notifications; false: none. Others
 * are left. `text` (may be NULL) has space for WORDS_TEXT. */
bool world_event(struct client_world *w, enum hf_event_type type, const struct hf_lock *lock,
                 char *text);

#endif
