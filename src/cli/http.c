/* Requests, see http.h; http_answer.c parses the answer. */
#include "cli/http.h"

#include <stdio.h>

#include "cli/http_answer.h"
#include "cli/say.h"
#include "tls/digest.h"
#include "transport/wait.h"

#define DEFAULT_PORT "4653"

enum { READ_SIZE = 16 << 10 };

/* NULL: http_secure was not called; clear text without a token. */
static struct security *shared;

bool http_secure(const struct security_files *files)
{
    static const char *const protocols[] = {"http/1.1", NULL};
    char problem[SECURITY_PROBLEM];
    if (shared == NULL) {
        shared = security_load(files, protocols, problem);
    }
    if (shared == NULL) {
        cli_say("%s", problem);
    }
    return shared != NULL;
}

static bool fail(struct http *h, const char *problem)
{
    (void)snprintf(h->problem, sizeof(h->problem), "%s", problem);
    return false;
}

static bool fail_transport(struct http *h)
{
    return fail(h, h->transport.problem);
}

/* An endpoint may be a URL without a path. */
static const char *skip_scheme(const char *endpoint, bool *is_https)
{
    *is_https = strncmp(endpoint, "https://", 8) == 0;
    return *is_https                              ? endpoint + 8
           : strncmp(endpoint, "http://", 7) == 0 ? endpoint + 7
                                                  : endpoint;
}

bool http_open(struct http *h, const char *endpoint, int64_t deadline_ms)
{
    struct host_port address;
    bool is_https = false;
    *h = (struct http){.status = 0};
    transport_init(&h->transport);
    buffer_init(&h->in, memory_system(), HTTP_HEAD_MAX);
    endpoint = skip_scheme(endpoint, &is_https);
    if (is_https && (shared == NULL || security_context(shared) == NULL)) {
        return fail(h, "https needs --ca FILE, or --ca system");
    }
    if (!host_port_parse(endpoint, strcspn(endpoint, "/"), DEFAULT_PORT, &address)) {
        return fail(h, "it is not HOST:PORT");
    }
    host_port_format(&address, h->authority, sizeof(h->authority));
    transport_secure(&h->transport, shared, address.host);
    return transport_open(&h->transport, &address, deadline_ms) || fail_transport(h);
}

static void put_identity(struct buffer *request)
{
    if (shared != NULL && security_token(shared)[0] != '\0') {
        buffer_printf(request, "Authorization: Bearer %s\r\n", security_token(shared));
    }
    if (shared != NULL && security_tenant(shared)[0] != '\0') {
        buffer_printf(request, "Holdfast-Tenant: %s\r\n", security_tenant(shared));
    }
}

bool http_send(struct http *h, const char *method, const char *target, struct slice body,
               int64_t deadline_ms)
{
    struct buffer request;
    buffer_init(&request, memory_system(), (1 << 20) + HTTP_HEAD_MAX);
    buffer_printf(&request, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: holdfast/%s\r\n", method,
                  target, h->authority, HOLDFAST_VERSION);
    put_identity(&request);
    if (body.len > 0) {
        buffer_printf(&request, "Content-Type: application/json\r\n");
    }
    if (strcmp(method, "GET") != 0) {
        buffer_printf(&request, "Content-Length: %zu\r\n", body.len);
    }
    buffer_append_text(&request, "Connection: close\r\n\r\n");
    buffer_append_slice(&request, body);
    bool is_sent = request.overflowed
                       ? fail(h, "the request is too large")
                       : transport_put(&h->transport, buffer_bytes(&request), deadline_ms) ||
                             fail_transport(h);
    digest_wipe(request.data, request.capacity);
    buffer_close(&request);
    return is_sent;
}

/* Reads once. False: the end if `*is_end`, else an error. */
static bool read_some(struct http *h, int64_t deadline_ms, bool *is_end)
{
    size_t space = buffer_space(&h->in) < READ_SIZE ? buffer_space(&h->in) : READ_SIZE;
    uint8_t *to = space == 0 ? NULL : buffer_reserve(&h->in, space);
    *is_end = false;
    if (to == NULL) {
        return fail(h, "the head of the answer is too large");
    }
    size_t got;
    enum transport_io io = transport_get(&h->transport, to, space, &got, deadline_ms);
    *is_end = io == TRANSPORT_END;
    if (io == TRANSPORT_OK) {
        buffer_commit(&h->in, got);
    } else if (io == TRANSPORT_FAILED) {
        (void)fail_transport(h);
    }
    return io == TRANSPORT_OK;
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
    transport_close(&h->transport);
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
