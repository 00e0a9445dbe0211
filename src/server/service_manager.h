/* Tells the service manager how this process does, by the protocol of sd_notify(3): datagrams of lines
 * NAME=VALUE to the Unix socket that NOTIFY_SOCKET names. No systemd library is needed.
 *
 * All of it happens on the event loop, and no message blocks: one that does not fit is sent again later.
 * WATCHDOG=1 is sent by a timer of the loop, and only if the node has made turns since the last one, so
 * that a loop that hangs is noticed. */
#ifndef HOLDFAST_SERVER_SERVICE_MANAGER_H
#define HOLDFAST_SERVER_SERVICE_MANAGER_H

#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

#include "base/journal.h"
#include "node/node.h"

enum { SERVICE_MANAGER_TEXT = 256 };

struct service_manager {
    int fd; /* -1: there is no service manager */
    struct sockaddr_un address;
    socklen_t address_len;
    uint64_t watchdog_us; /* 0: no watchdog */

    struct node *node;
    uv_timer_t timer;
    bool has_timer;
    bool is_ready; /* READY=1 was sent */
    bool is_stopping;
    uint64_t loading_ms; /* monotonic time before which service_manager_loading sends nothing */
    uint64_t turn_us;    /* of the last turn that a WATCHDOG=1 was sent for */
    char status[SERVICE_MANAGER_TEXT];
};

/* `socket`, `watchdog_us` and `watchdog_pid`: the variables NOTIFY_SOCKET, WATCHDOG_USEC and
 * WATCHDOG_PID; NULL: not set. Returns NULL, or a sentence about the value that is wrong; then nothing is
 * sent. */
const char *service_manager_open(struct service_manager *m, const char *socket,
                                 const char *watchdog_us, const char *watchdog_pid);
/* The same with the variables of this process, which it removes: programs started later must not answer
 * for this one. What is wrong is logged. */
void service_manager_open_environment(struct service_manager *m, const struct journal *journal);
/* False: not sent. */
bool service_manager_send(const struct service_manager *m, const char *text);

/* While the state is loaded, which may take longer than the manager waits: requests more time from it, at most
 * once a second. */
void service_manager_loading(struct service_manager *m, const char *step, uint64_t done,
                             uint64_t total);
/* READY=1 now: the state is loaded and the ports are open. From here on STATUS and WATCHDOG. */
void service_manager_start(struct service_manager *m, uv_loop_t *loop, struct node *node);
/* Around a reload. */
void service_manager_reloading(struct service_manager *m);
void service_manager_reloaded(struct service_manager *m);
void service_manager_stopping(struct service_manager *m);
/* Closes the timer and the socket. */
void service_manager_close(struct service_manager *m);

/* What `systemctl status` shows. */
void service_manager_describe(const struct node_pulse *pulse, char out[SERVICE_MANAGER_TEXT]);

#endif
