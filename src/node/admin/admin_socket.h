/* The Unix socket `admin.sock` in the data folder: one line in, one line out (admin_request.h).
 *
 * Who may enter the folder may become an administrator: the folder has mode 0700, the socket 0600,
 * and the kernel names the user of each client, which must be that of the node, or root.
 *
 *     FREE ──accept──▶ READING ──line──▶ WORKING ──answered──▶ CLOSING ──▶ FREE
 *                         └──ADMIN_DEADLINE_MS, end, too long──▶ CLOSING */
#ifndef HOLDFAST_NODE_ADMIN_ADMIN_SOCKET_H
#define HOLDFAST_NODE_ADMIN_ADMIN_SOCKET_H

#include <uv.h>

#include "base/journal.h"
#include "node/admin/admin_request.h"

struct admin_socket;

enum {
    ADMIN_CONNECTIONS = 4, /* others wait in the kernel's queue */
    ADMIN_DEADLINE_MS = 10000,
    ADMIN_PROBLEM = 512,
};

struct admin_socket_options {
    uv_loop_t *loop;
    const struct memory *memory;
    const struct journal *journal;
    const char *data;
};

/* Replaces a socket of a node that ended. NULL, and a text in `problem`. */
struct admin_socket *admin_socket_new(const struct admin_socket_options *options,
                                      char problem[ADMIN_PROBLEM]);
/* Before this call requests are refused. `gateway` must stay valid. */
void admin_socket_serve(struct admin_socket *a, const struct gateway *gateway);
/* Once per turn, outside of the gateway's callbacks. */
void admin_socket_run(struct admin_socket *a);
/* Boot time is not needed: 0 while admin_socket_run is due, else UINT64_MAX. */
uint64_t admin_socket_next_ms(const struct admin_socket *a);
/* Once a second: accepts again after a failure. */
void admin_socket_resume(struct admin_socket *a);

/* Closes everything and removes the file; the loop closes the handles. The gateway must call no
 * `done` afterwards. NULL: nothing. */
void admin_socket_close(struct admin_socket *a);
/* After that, when the loop is idle. */
void admin_socket_free(struct admin_socket *a);

#endif
