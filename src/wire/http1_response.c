/* Encodes responses. Lines are appended piece by piece, since printf would dominate the cost. */
#include "wire/http1_response.h"

#include "base/panic.h"
#include "wire/civil.h"
#include "wire/http1_head.h"

struct status_line {
    int status;
    const char *line;
};

/* Other statuses get a line without a reason, which is legal. */
static const struct status_line reasons[] = {
#define R(status, reason)                             \
    {                                                 \
        status, "HTTP/1.1 " #status " " reason "\r\n" \
    }
    R(200, "OK"),
    R(201, "Created"),
    R(204, "No Content"),
    R(304, "Not Modified"),
    R(400, "Bad Request"),
    R(401, "Unauthorized"),
    R(403, "Forbidden"),
    R(404, "Not Found"),
    R(405, "Method Not Allowed"),
    R(408, "Request Timeout"),
    R(409, "Conflict"),
    R(410, "Gone"),
    R(411, "Length Required"),
    R(413, "Content Too Large"),
    R(414, "URI Too Long"),
    R(415, "Unsupported Media Type"),
    R(417, "Expectation Failed"),
    R(421, "Misdirected Request"),
    R(429, "Too Many Requests"),
    R(431, "Request Header Fields Too Large"),
    R(500, "Internal Server Error"),
    R(501, "Not Implemented"),
    R(503, "Service Unavailable"),
    R(504, "Gateway Timeout"),
    R(505, "HTTP Version Not Supported"),
#undef R
};

static void add_status(struct buffer *out, int status)
{
    hf_assert(status >= 200 && status <= 599);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].status == status) {
            buffer_append_text(out, reasons[i].line);
            return;
        }
    }
    buffer_printf(out, "HTTP/1.1 %d \r\n", status);
}

static void add_header(struct buffer *out, const char *name, struct slice value)
{
    hf_assert(head_check_text(value) == HF_OK);
    buffer_append_text(out, name);
    buffer_append_text(out, ": ");
    buffer_append_slice(out, value);
    buffer_append_text(out, "\r\n");
}

static void add_number(struct buffer *out, const char *name, uint64_t value)
{
    uint8_t digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    add_header(out, name, slice_make(digits + at, sizeof(digits) - at));
}

/* Without the headers that delimit the body, and the empty line. */
static void add_head(struct buffer *out, const struct http1_response *response)
{
    add_status(out, response->status);
    if (response->date.len > 0) {
        add_header(out, "Date", response->date);
    }
    if (response->content_type != NULL) {
        add_header(out, "Content-Type", slice_of(response->content_type));
    }
    if (response->leader.len > 0) {
        add_header(out, "Holdfast-Leader", response->leader);
    }
    if (response->retry_after_s > 0) {
        add_number(out, "Retry-After", response->retry_after_s);
    }
    for (size_t i = 0; i < response->extra_count; i++) {
        add_header(out, response->extra[i].name, response->extra[i].value);
    }
    if (response->close) {
        buffer_append_text(out, "Connection: close\r\n");
    } else if (response->http10) {
        buffer_append_text(out, "Connection: keep-alive\r\n");
    }
}

static bool whole_or_nothing(struct buffer *out, size_t before, bool overflowed_before)
{
    bool whole = !out->overflowed;
    if (!whole) {
        buffer_truncate(out, before);
        out->overflowed = overflowed_before;
    }
    return whole;
}

struct http1_response http1_response_to(int status, const struct http1_request *request)
{
    return (struct http1_response){
        .status = status,
        .head_only = request != NULL && request->method == HTTP_HEAD,
        .http10 = request != NULL && request->minor == 0,
        .close = request == NULL || !request->keep_alive,
    };
}

bool http1_response_write(struct buffer *out, const struct http1_response *response,
                          struct slice body)
{
    bool bodiless = response->status == 204 || response->status == 304;
    hf_assert(!bodiless || body.len == 0);
    size_t before = buffer_len(out);
    bool overflowed = out->overflowed;
    add_head(out, response);
    if (!bodiless) {
        add_number(out, "Content-Length", body.len);
    }
    buffer_append_text(out, "\r\n");
    if (!response->head_only) {
        buffer_append_slice(out, body);
    }
    return whole_or_nothing(out, before, overflowed);
}

bool http1_response_head(struct buffer *out, const struct http1_response *response, uint64_t length)
{
    size_t before = buffer_len(out);
    bool overflowed = out->overflowed;
    add_head(out, response);
    add_number(out, "Content-Length", length);
    buffer_append_text(out, "\r\n");
    return whole_or_nothing(out, before, overflowed);
}

bool http1_response_continue(struct buffer *out)
{
    return buffer_append_text(out, "HTTP/1.1 100 Continue\r\n\r\n");
}

bool http1_response_stream(struct buffer *out, const struct http1_response *response)
{
    hf_assert(response->close || !response->http10);
    size_t before = buffer_len(out);
    bool overflowed = out->overflowed;
    add_head(out, response);
    if (response->content_type != NULL &&
        strcmp(response->content_type, "text/event-stream") == 0) {
        buffer_append_text(out, "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
    }
    buffer_append_text(out, response->http10 ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n");
    return whole_or_nothing(out, before, overflowed);
}

bool http1_response_piece(struct buffer *out, const struct http1_response *response,
                          struct slice piece)
{
    if (piece.len == 0 || response->head_only) {
        return true;
    }
    if (response->http10) {
        return buffer_append_slice(out, piece);
    }
    size_t before = buffer_len(out);
    bool overflowed = out->overflowed;
    buffer_printf(out, "%zx\r\n", piece.len);
    buffer_append_slice(out, piece);
    buffer_append_text(out, "\r\n");
    return whole_or_nothing(out, before, overflowed);
}

bool http1_response_end(struct buffer *out, const struct http1_response *response)
{
    return response->http10 || response->head_only || buffer_append_text(out, "0\r\n\r\n");
}

void http1_date(uint64_t wall_s, char out[HTTP1_DATE_LEN + 1])
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct civil c = civil_from_seconds(wall_s);
    memcpy(out, "ddd, 00 mmm 0000 00:00:00 GMT", HTTP1_DATE_LEN + 1);
    memcpy(out, days + (size_t)3 * c.weekday, 3);
    civil_digits(out + 5, 2, c.day);
    memcpy(out + 8, months + (size_t)3 * (c.month - 1), 3);
    civil_digits(out + 12, 4, c.year);
    civil_digits(out + 17, 2, c.hour);
    civil_digits(out + 20, 2, c.minute);
    civil_digits(out + 23, 2, c.second);
}
