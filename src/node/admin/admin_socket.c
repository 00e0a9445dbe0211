/* See admin_socket.h. */
#include "node/admin/admin_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/panic.h"

#define SOCKET_NAME "admin.sock"

enum { BACKLOG = 64 }; /* in the kernel's queue */

enum admin_conn_state { CONN_FREE, CONN_READING, CONN_WORKING, CONN_CLOSING };

struct admin_conn {
    struct admin_socket *socket;
    enum admin_conn_state state;
    int fd;
    uint32_t uid;
    unsigned handles; /* not closed yet */
    uv_poll_t poll;
    uv_timer_t deadline;
    size_t len;
    uint8_t line[ADMIN_LINE_MAX];
    struct admin_request request;
};

struct admin_socket {
    struct admin_socket_options options;
    const struct gateway *gateway; /* NULL: the node does not serve yet */
    int folder;
    int fd;
    uv_poll_t poll;
    bool is_polling;
    bool is_closing;
    struct admin_conn conns[ADMIN_CONNECTIONS];
};

/* ---- connections ---- */

static void update_polling(struct admin_socket *a);

static void on_conn_closed(uv_handle_t *handle)
{
    struct admin_conn *c = handle->data;
    if (--c->handles > 0) {
        return;
    }
    close(c->fd);
    c->state = CONN_FREE;
    if (!c->socket->is_closing) {
        update_polling(c->socket);
    }
}

static void conn_close(struct admin_conn *c)
{
    c->state = CONN_CLOSING;
    uv_close((uv_handle_t *)&c->poll, on_conn_closed);
    uv_close((uv_handle_t *)&c->deadline, on_conn_closed);
}

/* It fits into the empty buffer of the socket. A client that is gone repeats its request. */
static void conn_answer(struct admin_conn *c)
{
    struct buffer out;
    buffer_init(&out, c->socket->options.memory, ADMIN_ANSWER_MAX);
    admin_request_answer(&c->request, &out);
    struct slice bytes = buffer_bytes(&out);
    ssize_t sent = send(c->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
    (void)sent;
    buffer_close(&out);
    if (c->request.fault.code == HF_OK) {
        journal_note(c->socket->options.journal, WARN, NODE, "administrator_made",
                     JOURNAL_TEXT("principal", c->request.principal),
                     JOURNAL_TEXT("by", c->request.origin == POLICY_BOOTSTRAP ? "auth bootstrap"
                                                                              : "auth rescue"),
                     JOURNAL_NUMBER("user", c->uid));
    } else {
        journal_note(c->socket->options.journal, WARN, NODE, "administrator_refused",
                     JOURNAL_TEXT("reason", c->request.fault.text), JOURNAL_NUMBER("user", c->uid));
    }
    conn_close(c);
}

static void conn_refuse(struct admin_conn *c, enum hf_error error, const char *text)
{
    c->request = (struct admin_request){.state = ADMIN_ANSWERED};
    (void)fault_set(&c->request.fault, error, "%s", text);
    conn_answer(c);
}

static void on_deadline(uv_timer_t *timer)
{
    struct admin_conn *c = timer->data;
    if (c->state == CONN_READING) {
        conn_refuse(c, HF_JSON_MALFORMED, "no complete line within 10 s; nothing was done");
    }
}

static void on_line(struct admin_conn *c, size_t len)
{
    c->state = CONN_WORKING;
    uv_poll_stop(&c->poll);
    admin_request_begin(&c->request, c->socket->gateway, slice_make(c->line, len), c->uid);
    if (c->request.state == ADMIN_ANSWERED) {
        conn_answer(c);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct admin_conn *c = poll->data;
    (void)events;
    ssize_t got =
        status < 0 ? 0 : recv(c->fd, c->line + c->len, sizeof(c->line) - c->len, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) {
        conn_close(c);
        return;
    }
    const uint8_t *end = memchr(c->line + c->len, '\n', (size_t)got);
    c->len += (size_t)got;
    if (end != NULL) {
        on_line(c, (size_t)(end - c->line));
    } else if (c->len == sizeof(c->line)) {
        conn_refuse(c, HF_JSON_MALFORMED, "the line is longer than 8 KiB; nothing was done");
    }
}

/* ---- the socket ---- */

static struct admin_conn *free_conn(struct admin_socket *a)
{
    for (unsigned i = 0; i < ADMIN_CONNECTIONS; i++) {
        if (a->conns[i].state == CONN_FREE) {
            return &a->conns[i];
        }
    }
    return NULL;
}

static void take(struct admin_socket *a, int fd)
{
    struct admin_conn *c = free_conn(a);
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t len = sizeof(who);
    hf_assert(c != NULL);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0 ||
        uv_poll_init(a->options.loop, &c->poll, fd) != 0) {
        close(fd);
        return;
    }
    uv_timer_init(a->options.loop, &c->deadline);
    c->socket = a;
    c->state = CONN_READING;
    c->fd = fd;
    c->uid = who.uid;
    c->handles = 2;
    c->len = 0;
    c->poll.data = c->deadline.data = c;
    if (who.uid != geteuid() && who.uid != 0) {
        conn_refuse(c, HF_DENIED, "only the user of the node, or root, may do this");
        return;
    }
    uv_poll_start(&c->poll, UV_READABLE, on_readable);
    uv_timer_start(&c->deadline, on_deadline, ADMIN_DEADLINE_MS, 0);
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct admin_socket *a = poll->data;
    (void)events;
    int fd = status < 0 ? -1 : accept4(a->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        take(a, fd);
    } else if (status >= 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) {
        return;
    } else {
        a->is_polling = false; /* until admin_socket_resume */
        uv_poll_stop(&a->poll);
        return;
    }
    update_polling(a);
}

static void update_polling(struct admin_socket *a)
{
    bool polls = free_conn(a) != NULL;
    if (polls && !a->is_polling) {
        uv_poll_start(&a->poll, UV_READABLE, on_acceptable);
    } else if (!polls && a->is_polling) {
        uv_poll_stop(&a->poll);
    }
    a->is_polling = polls;
}

static bool failed(char problem[ADMIN_PROBLEM], const char *data, const char *what)
{
    snprintf(problem, ADMIN_PROBLEM, "%s/" SOCKET_NAME ": %s: %s", data, what, strerror(errno));
    return false;
}

/* The path of a socket has at most 107 bytes, that of a folder may have more. So it is bound below
 * the descriptor of the folder. */
static bool bind_in(struct admin_socket *a, char problem[ADMIN_PROBLEM])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat is;
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SOCKET_NAME,
             a->folder);
    /* The store is open: the node that left a socket here has ended. */
    if (fstatat(a->folder, SOCKET_NAME, &is, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(is.st_mode)) {
        (void)unlinkat(a->folder, SOCKET_NAME, 0);
    }
    /* The file gets the mode of the descriptor. */
    if (fchmod(a->fd, S_IRUSR | S_IWUSR) != 0 ||
        bind(a->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return failed(problem, a->options.data, "cannot be made");
    }
    if (fstatat(a->folder, SOCKET_NAME, &is, AT_SYMLINK_NOFOLLOW) != 0 ||
        (is.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        errno = EPERM;
        return failed(problem, a->options.data, "other users can reach it");
    }
    return listen(a->fd, BACKLOG) == 0 || failed(problem, a->options.data, "cannot be listened on");
}

static bool open_all(struct admin_socket *a, char problem[ADMIN_PROBLEM])
{
    a->folder = open(a->options.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (a->folder < 0) {
        return failed(problem, a->options.data, "cannot open the folder");
    }
    a->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->fd < 0) {
        return failed(problem, a->options.data, "cannot be made");
    }
    return bind_in(a, problem);
}

static void close_all(struct admin_socket *a)
{
    if (a->fd >= 0) {
        close(a->fd);
        (void)unlinkat(a->folder, SOCKET_NAME, 0);
    }
    if (a->folder >= 0) {
        close(a->folder);
    }
    a->fd = a->folder = -1;
}

struct admin_socket *admin_socket_new(const struct admin_socket_options *options,
                                      char problem[ADMIN_PROBLEM])
{
    struct admin_socket *a = memory_alloc(options->memory, sizeof(*a));
    memset(a, 0, sizeof(*a));
    a->options = *options;
    a->fd = a->folder = -1;
    if (!open_all(a, problem)) {
        close_all(a);
        memory_free(options->memory, a, sizeof(*a));
        return NULL;
    }
    uv_poll_init(options->loop, &a->poll, a->fd);
    a->poll.data = a;
    update_polling(a);
    return a;
}

void admin_socket_serve(struct admin_socket *a, const struct gateway *gateway)
{
    a->gateway = gateway;
}

void admin_socket_run(struct admin_socket *a)
{
    for (unsigned i = 0; i < ADMIN_CONNECTIONS; i++) {
        struct admin_conn *c = &a->conns[i];
        if (c->state == CONN_WORKING && admin_request_is_due(&c->request)) {
            admin_request_run(&c->request);
            if (c->request.state == ADMIN_ANSWERED) {
                conn_answer(c);
            }
        }
    }
}

uint64_t admin_socket_next_ms(const struct admin_socket *a)
{
    for (unsigned i = 0; i < ADMIN_CONNECTIONS; i++) {
        if (a->conns[i].state == CONN_WORKING && admin_request_is_due(&a->conns[i].request)) {
            return 0;
        }
    }
    return UINT64_MAX;
}

void admin_socket_resume(struct admin_socket *a)
{
    if (!a->is_closing) {
        update_polling(a);
    }
}

static void on_socket_closed(uv_handle_t *handle)
{
    close_all(handle->data);
}

void admin_socket_close(struct admin_socket *a)
{
    if (a == NULL || a->is_closing) {
        return;
    }
    a->is_closing = true;
    for (unsigned i = 0; i < ADMIN_CONNECTIONS; i++) {
        if (a->conns[i].state == CONN_READING || a->conns[i].state == CONN_WORKING) {
            conn_close(&a->conns[i]);
        }
    }
    uv_close((uv_handle_t *)&a->poll, on_socket_closed);
}

void admin_socket_free(struct admin_socket *a)
{
    if (a != NULL) {
        hf_assert(a->fd < 0);
        memory_free(a->options.memory, a, sizeof(*a));
    }
}
