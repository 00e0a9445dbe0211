/* See service_manager.h. */
#include "server/service_manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    STATUS_MS = 1000,   /* between two looks at the status */
    WATCHDOG_PARTS = 3, /* messages in the time of the watchdog; sd_watchdog_enabled(3) wants two */
    WATCHDOG_LEAST_MS = 10, /* between two messages */
    EXTEND_US = 60000000,   /* more time while the state is loaded */
};

/* False: not a number. */
static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        return false;
    }
    *out = number;
    return true;
}

/* A path, or "@NAME" in the abstract namespace. */
static bool read_address(struct service_manager *m, const char *path)
{
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(m->address.sun_path)) {
        return false;
    }
    m->address.sun_family = AF_UNIX;
    memcpy(m->address.sun_path, path, len + 1);
    m->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
    if (path[0] == '@') {
        m->address.sun_path[0] = '\0';
        m->address_len--; /* an abstract name has no byte 0 at its end */
    }
    return true;
}

static const char *read_watchdog(struct service_manager *m, const char *us, const char *pid)
{
    uint64_t number;
    if (us == NULL) {
        return NULL;
    }
    if (pid != NULL) {
        if (!read_number(pid, &number)) {
            return "WATCHDOG_PID is not a number, so the watchdog gets no messages";
        }
        if (number != (uint64_t)getpid()) { /* the watchdog of another process */
            return NULL;
        }
    }
    if (!read_number(us, &number) || number == 0) {
        return "WATCHDOG_USEC is not a number above 0, so the watchdog gets no messages";
    }
    m->watchdog_us = number;
    return NULL;
}

const char *service_manager_open(struct service_manager *m, const char *socket_path,
                                 const char *watchdog_us, const char *watchdog_pid)
{
    *m = (struct service_manager){.fd = -1};
    if (socket_path == NULL || socket_path[0] == '\0') {
        return NULL;
    }
    if (!read_address(m, socket_path)) {
        return "NOTIFY_SOCKET is neither a path nor @NAME of at most 107 bytes, so the service "
               "manager gets "
               "no messages";
    }
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->fd < 0) {
        return "no Unix socket can be opened, so the service manager gets no messages";
    }
    return read_watchdog(m, watchdog_us, watchdog_pid);
}

void service_manager_open_environment(struct service_manager *m, const struct journal *journal)
{
    const char *wrong = service_manager_open(m, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"),
                                             getenv("WATCHDOG_PID"));
    if (wrong != NULL) {
        journal_note(journal, WARN, NODE, "service_manager_unknown", JOURNAL_TEXT("reason", wrong));
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

/* With the address each time: a service manager that starts again binds its socket anew. */
bool service_manager_send(const struct service_manager *m, const char *text)
{
    ssize_t sent;
    if (m->fd < 0) {
        return false;
    }
    do {
        sent = sendto(m->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
                      (const struct sockaddr *)&m->address, m->address_len);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

static void describe_leader(const struct node_pulse *p, char out[SERVICE_MANAGER_TEXT])
{
    if (p->leads) {
        (void)snprintf(out, SERVICE_MANAGER_TEXT,
                       "Leader in term %" PRIu64 ", %u of %u voters reached", p->term,
                       p->voters_reached, p->voters);
    } else {
        (void)snprintf(out, SERVICE_MANAGER_TEXT, "Follows node %" PRIu64 " in term %" PRIu64,
                       p->leader, p->term);
    }
}

void service_manager_describe(const struct node_pulse *p, char out[SERVICE_MANAGER_TEXT])
{
    if (p->is_stopping) {
        (void)snprintf(out, SERVICE_MANAGER_TEXT,
                       "Stopping: transfers leadership, lets clients finish");
    } else if (p->is_joining) {
        (void)snprintf(
            out, SERVICE_MANAGER_TEXT,
            "Waits to be added to a cluster: run `holdfast member add` at one of its nodes");
    } else if (p->leader == 0) {
        (void)snprintf(out, SERVICE_MANAGER_TEXT,
                       "No leader: %u of %u voters reached, %u are needed", p->voters_reached,
                       p->voters, p->voters / 2 + 1);
    } else if (!p->serving && p->leads) {
        (void)snprintf(out, SERVICE_MANAGER_TEXT, "Leader in term %" PRIu64 ", does not serve yet",
                       p->term);
    } else if (!p->serving) {
        (void)snprintf(out, SERVICE_MANAGER_TEXT, "Does not reach the leader, node %" PRIu64,
                       p->leader);
    } else {
        describe_leader(p, out);
    }
    if (p->disk_full) {
        size_t len = strlen(out);
        (void)snprintf(out + len, SERVICE_MANAGER_TEXT - len, "; the disk is full");
    }
}

static bool send_status(struct service_manager *m, const struct node_pulse *pulse,
                        const char *prefix)
{
    char status[SERVICE_MANAGER_TEXT];
    char text[SERVICE_MANAGER_TEXT + 64];
    service_manager_describe(pulse, status);
    if (prefix[0] == '\0' && strcmp(status, m->status) == 0) {
        return true;
    }
    (void)snprintf(text, sizeof(text), "%sSTATUS=%s\n", prefix, status);
    if (!service_manager_send(m, text)) {
        return false;
    }
    (void)snprintf(m->status, sizeof(m->status), "%s", status);
    return true;
}

/* No turn since the last message, or one that only reads what a stalled loop left: no message. */
static void feed_watchdog(struct service_manager *m, const struct node_pulse *pulse)
{
    if (m->watchdog_us != 0 && !pulse->is_stalled && pulse->turn_us != m->turn_us &&
        service_manager_send(m, "WATCHDOG=1\n")) {
        m->turn_us = pulse->turn_us;
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct service_manager *m = timer->data;
    struct node_pulse pulse;
    node_pulse(m->node, &pulse);
    if (!m->is_ready && !m->is_stopping) {
        m->is_ready = send_status(m, &pulse, "READY=1\n");
    } else {
        (void)send_status(m, &pulse, "");
    }
    feed_watchdog(m, &pulse);
}

static uint64_t period_ms(const struct service_manager *m)
{
    uint64_t ms = m->watchdog_us / WATCHDOG_PARTS / 1000;
    ms = m->watchdog_us == 0 || ms > STATUS_MS ? STATUS_MS : ms;
    return ms < WATCHDOG_LEAST_MS ? WATCHDOG_LEAST_MS : ms;
}

void service_manager_start(struct service_manager *m, uv_loop_t *loop, struct node *node)
{
    if (m->fd < 0) {
        return;
    }
    struct node_pulse pulse;
    m->node = node;
    m->has_timer = true;
    (void)uv_timer_init(loop, &m->timer);
    m->timer.data = m;
    (void)uv_timer_start(&m->timer, on_timer, period_ms(m), period_ms(m));
    node_pulse(node, &pulse);
    m->is_ready = send_status(m, &pulse, "READY=1\n");
}

static uint64_t monotonic_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void service_manager_loading(struct service_manager *m, const char *step, uint64_t done,
                             uint64_t total)
{
    char text[SERVICE_MANAGER_TEXT];
    uint64_t now_ms = m->fd < 0 ? 0 : monotonic_us() / 1000;
    if (m->fd < 0 || now_ms < m->loading_ms) {
        return;
    }
    m->loading_ms = now_ms + STATUS_MS;
    (void)snprintf(text, sizeof(text), "STATUS=Loading: %s, %.0f %%\nEXTEND_TIMEOUT_USEC=%d\n",
                   step, total == 0 ? 0.0 : 100.0 * (double)done / (double)total, EXTEND_US);
    (void)service_manager_send(m, text);
}

void service_manager_reloading(struct service_manager *m)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n", monotonic_us());
    (void)service_manager_send(m, text);
}

void service_manager_reloaded(struct service_manager *m)
{
    struct node_pulse pulse;
    if (m->has_timer) {
        node_pulse(m->node, &pulse);
        m->is_ready = send_status(m, &pulse, "READY=1\n"); /* else the timer sends it again */
    }
}

void service_manager_stopping(struct service_manager *m)
{
    m->is_stopping = true;
    (void)service_manager_send(m, "STOPPING=1\n");
}

void service_manager_close(struct service_manager *m)
{
    if (m->has_timer) {
        m->has_timer = false;
        uv_close((uv_handle_t *)&m->timer, NULL);
    }
    if (m->fd >= 0) {
        (void)close(m->fd);
        m->fd = -1;
    }
}
