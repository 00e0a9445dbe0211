/* Clients of the service that a fuzzer's input controls, with a cluster behind it that fails, holds
 * back and forgets as the input says; the same for each protocol.
 *
 * The input is a script. Each step is a letter and what it needs; the parties are numbered 0 to 3:
 *   q PARTY WHICH         one of the requests that the transport knows
 *   s PARTY LENGTH bytes  bytes as they are
 *   t PARTY MOST          it reads so many bytes          c, e PARTY  it goes, it says that it ends
 *   p _ TIME              time passes, TIME squared       h           the gateway holds, or no more
 *   f _ ERROR             the gateway fails               d           the node drains
 * and what the transport adds. Any other letter is a turn of all of it. */
#ifndef HOLDFAST_TESTS_PARTIES_H
#define HOLDFAST_TESTS_PARTIES_H

#include "core/view.h"
#include "fake_gateway.h"

enum { PARTIES_TENANTS = 2 }; /* default, red (parties_auth.c) */

struct party {
    void *conn;  /* NULL: none yet, or gone */
    bool is_odd; /* sent bytes that may be any request, so its answers tell less */
    char *got;   /* and not understood yet, with a NUL */
    size_t len;
    size_t size;
};

struct parties_transport {
    const char *name; /* of the target */
    void *(*open)(struct party *p, unsigned number);
    void (*receive)(void *conn, struct slice bytes);
    bool (*wants_input)(void *conn);
    void (*end)(void *conn);
    struct slice (*output)(const void *conn);
    void (*written)(void *conn, size_t len);
    bool (*is_finished)(const void *conn);
    void (*close)(void *conn);
    void (*set_peer)(void *conn, const struct peer_identity *peer); /* before it receives */
    /* The length of the complete answer at the front, which is well-formed; 0: there is none. */
    size_t (*check)(struct party *p);
    void (*pending)(struct party *p, uint8_t which);
    bool (*step)(uint8_t letter); /* false: it is not one of its own */
    /* When all are gone and `rest_turns` times `rest_ms` have passed, nothing of theirs is left. */
    void (*check_rest)(const struct core_stats *core, const struct service_stats *service);
    unsigned rest_turns;
    uint64_t rest_ms;
};

/* The functions of a transport that are called alike in all of them. */
#define PARTIES_CONN(name)                                                    \
    static void name##_receive(void *conn, struct slice b)                    \
    {                                                                         \
        name##_conn_receive(conn, b);                                         \
    }                                                                         \
    static bool name##_wants_input(void *conn)                                \
    {                                                                         \
        return name##_conn_wants_input(conn);                                 \
    }                                                                         \
    static void name##_end(void *conn)                                        \
    {                                                                         \
        name##_conn_end(conn);                                                \
    }                                                                         \
    static struct slice name##_output(const void *conn)                       \
    {                                                                         \
        return name##_conn_output(conn);                                      \
    }                                                                         \
    static void name##_written(void *conn, size_t len)                        \
    {                                                                         \
        name##_conn_written(conn, len);                                       \
    }                                                                         \
    static bool name##_is_finished(const void *conn)                          \
    {                                                                         \
        return name##_conn_is_finished(conn);                                 \
    }                                                                         \
    static void name##_close(void *conn)                                      \
    {                                                                         \
        name##_conn_close(conn);                                              \
    }                                                                         \
    static void name##_set_peer(void *conn, const struct peer_identity *peer) \
    {                                                                         \
        name##_conn_set_peer(conn, peer);                                     \
    }

extern const struct parties_transport parties_http; /* and HTTP/2, after its preface */
extern const struct parties_transport parties_resp;

extern struct fake_gateway parties_gateway;
extern struct service *parties_service;

/* The same clients behind TLS (parties_tls.c); of those, every second has a certificate. Its own
 * step: k, records are cut into as many bytes as the next letter says. Copies *inner. */
const struct parties_transport *parties_secured(const struct parties_transport *inner);

/* Authentication, if `parties_auth` was set before parties_run (parties_auth.c): the principal
 * default/app may lock, red/read may read, default/root may do all; tokens t-app, t-read, t-root.
 * Certificates name default/app. Two more steps: R removes it, P puts it back. Each command of a
 * client has a principal. */
extern bool parties_auth;
void parties_put_policy(void);
bool parties_auth_step(uint8_t letter);
void parties_watch_submits(struct gateway *gateway);

/* Runs the input from nothing to the end. */
void parties_run(const struct parties_transport *transport, const uint8_t *data, size_t size);
void parties_send(struct party *p, const void *data, size_t len);
/* For `ready` of a connection: nothing waits for it. */
void parties_ignore(void *owner);
/* A finding: ends the program. */
_Noreturn void parties_broken(const char *what, const char *text);

#endif
