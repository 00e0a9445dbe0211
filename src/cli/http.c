/* The connection of the HTTP client, see http.h; http_answer.c parses the answer. */
#include "cli/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/clock.h"
#include "cli/http_answer.h"

#define DEFAULT_PORT "4653"

static bool fail(struct http *h, const char *problem)
{
    (void)snprintf(h->problem, sizeof(h->problem), "%s", problem);
    return false;
}

static bool fail_errno(struct http *h, int error)
{
    char words[HTTP_PROBLEM];
    return fail(h, strerror_r(error, words, sizeof(words)));
}

/* Accepts HOST:PORT, [IPV6]:PORT or HOST, with an optional http:// before it and a slash after it. */
static bool split_endpoint(const char *endpoint, char host[HTTP_ENDPOINT], char port[8])
{
    if (strncmp(endpoint, "http://", 7) == 0) {
        endpoint += 7;
    }
    size_t len = strcspn(endpoint, "/");
    const char *end = endpoint + len;
    const char *colon = memrchr(endpoint, ':', len);
    const char *bracket = memrchr(endpoint, ']', len);
    if (colon != NULL && bracket != NULL && colon < bracket) {
        colon = NULL;
    }
    const char *host_end = colon != NULL ? colon : end;
    if (endpoint[0] == '[') {
        endpoint++;
        host_end = bracket != NULL ? bracket : end;
    }
    (void)snprintf(port, 8, "%.*s", colon != NULL ? (int)(end - colon - 1) : 4,
                   colon != NULL ? colon + 1 : DEFAULT_PORT);
    int made = snprintf(host, HTTP_ENDPOINT, "%.*s", (int)(host_end - endpoint), endpoint);
    return made > 0 && made < HTTP_ENDPOINT;
}

static bool wait_for(struct http *h, short events, int64_t deadline_ms)
{
    struct pollfd p = {h->fd, events, 0};
    for (;;) {
        int left = clock_left_ms(deadline_ms);
        int ready = poll(&p, 1, left);
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return fail_errno(h, errno);
        }
        if (ready == 0 && left == 0) {
            return fail(h, "no answer in time");
        }
    }
}

static bool connect_one(struct http *h, const struct addrinfo *address, int64_t deadline_ms)
{
    h->fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                   address->ai_protocol);
    if (h->fd < 0) {
        return fail_errno(h, errno);
    }
    if (connect(h->fd, address->ai_addr, address->ai_addrlen) == 0) {
        return true;
    }
    if (errno != EINPROGRESS) {
        return fail_errno(h, errno);
    }
    int error = 0;
    socklen_t size = sizeof(error);
    if (!wait_for(h, POLLOUT, deadline_ms)) {
        return false;
    }
    if (getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        return fail_errno(h, error);
    }
    return true;
}

bool http_open(struct http *h, const char *endpoint, int64_t deadline_ms)
{
    char host[HTTP_ENDPOINT];
    char port[8];
    *h = (struct http){.fd = -1};
    buffer_init(&h->in, memory_system(), HTTP_HEAD_MAX);
    if (!split_endpoint(endpoint, host, port)) {
        return fail(h, "it is not HOST:PORT");
    }
    bool is_ipv6 = strchr(host, ':') != NULL;
    (void)snprintf(h->authority, sizeof(h->authority), is_ipv6 ? "[%s]:%s" : "%s:%s", host, port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        return fail(h, gai_strerror(error));
    }
    bool is_open = false;
    for (struct addrinfo *a = found; a != NULL && !is_open; a = a->ai_next) {
        if (h->fd >= 0) {
            (void)close(h->fd);
        }
        is_open = connect_one(h, a, deadline_ms);
    }
    freeaddrinfo(found);
    if (is_open) {
        int on = 1;
        (void)setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    return is_open;
}

static bool send_all(struct http *h, struct slice bytes, int64_t deadline_ms)
{
    while (bytes.len > 0) {
        ssize_t sent = send(h->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes = slice_make(bytes.data + sent, bytes.len - (size_t)sent);
        } else if (errno != EAGAIN && errno != EINTR) {
            return fail_errno(h, errno);
        } else if (!wait_for(h, POLLOUT, deadline_ms)) {
            return false;
        }
    }
    return true;
}

bool http_send(struct http *h, const char *method, const char *target, struct slice body,
               int64_t deadline_ms)
{
    struct buffer request;
    buffer_init(&request, memory_system(), (1 << 20) + HTTP_HEAD_MAX);
    buffer_printf(&request, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: holdfast/%s\r\n", method,
                  target, h->authority, HOLDFAST_VERSION);
    if (body.len > 0) {
        buffer_printf(&request, "Content-Type: application/json\r\n");
    }
    if (strcmp(method, "GET") != 0) {
        buffer_printf(&request, "Content-Length: %zu\r\n", body.len);
    }
    buffer_append_text(&request, "Connection: close\r\n\r\n");
    buffer_append_slice(&request, body);
    bool is_sent = request.overflowed ? fail(h, "the request is too large")
                                      : send_all(h, buffer_bytes(&request), deadline_ms);
    buffer_close(&request);
    return is_sent;
}

/* Reads once. False: the end of the connection if `*is_end`, else an error. */
static bool read_some(struct http *h, int64_t deadline_ms, bool *is_end)
{
    *is_end = false;
    for (;;) {
        size_t space = buffer_space(&h->in) < 16384 ? buffer_space(&h->in) : 16384;
        uint8_t *to = space == 0 ? NULL : buffer_reserve(&h->in, space);
        if (to == NULL) {
            return fail(h, "the head of the answer is too large");
        }
        ssize_t got = recv(h->fd, to, space, 0);
        if (got >= 0) {
            buffer_commit(&h->in, (size_t)got);
            *is_end = got == 0;
            return got > 0;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return fail_errno(h, errno);
        }
        if (!wait_for(h, POLLIN, deadline_ms)) {
            return false;
        }
    }
}

bool http_read_head(struct http *h, int64_t deadline_ms)
{
    bool is_end;
    for (;;) {
        enum http_state state = http_take_head(h);
        if (state != HTTP_MORE) {
            return state == HTTP_DONE;
        }
        if (!read_some(h, deadline_ms, &is_end)) {
            return is_end ? fail(h, "it closed the connection") : false;
        }
    }
}

enum http_state http_read_body(struct http *h, struct buffer *out, int64_t deadline_ms)
{
    bool is_end;
    for (;;) {
        size_t before = buffer_len(out);
        enum http_state state = http_take_body(h, out);
        if (state != HTTP_MORE || buffer_len(out) > before) {
            return state;
        }
        if (!read_some(h, deadline_ms, &is_end)) {
            if (is_end && !h->has_length && !h->is_chunked) {
                return HTTP_DONE;
            }
            (void)(is_end && fail(h, "it closed the connection"));
            return HTTP_BROKEN;
        }
    }
}

void http_close(struct http *h)
{
    if (h->fd >= 0) {
        (void)close(h->fd);
    }
    h->fd = -1;
    buffer_close(&h->in);
}

void http_escape(struct buffer *out, struct slice text, bool is_path)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || (c != '\0' && strchr("-._~", c) != NULL) ||
                        (is_path && c == '/');
        if (is_plain) {
            buffer_append_byte(out, c);
        } else {
            buffer_printf(out, "%%%02X", c);
        }
    }
}
