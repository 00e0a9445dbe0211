/* Messages, timeouts and status texts of gRPC (see grpc.h). */
#include "wire/grpc.h"

#include <inttypes.h>
#include <stdio.h>

const char *grpc_status_name(enum grpc_status status)
{
    static const char *const names[GRPC_STATUS_COUNT] = {
#define X(symbol) [GRPC_##symbol] = #symbol,
        GRPC_STATUS_LIST(X)
#undef X
    };
    return (unsigned)status < GRPC_STATUS_COUNT ? names[status] : names[GRPC_UNKNOWN];
}

/* ---- messages ---- */

void grpc_write_prefix(uint8_t out[GRPC_PREFIX], uint32_t len)
{
    out[0] = 0;
    out[1] = (uint8_t)(len >> 24);
    out[2] = (uint8_t)(len >> 16);
    out[3] = (uint8_t)(len >> 8);
    out[4] = (uint8_t)len;
}

void grpc_reader_init(struct grpc_reader *r, const struct memory *memory, size_t max)
{
    *r = (struct grpc_reader){.status = GRPC_OK};
    buffer_init(&r->body, memory, max);
}

void grpc_reader_close(struct grpc_reader *r)
{
    buffer_close(&r->body);
}

bool grpc_reader_is_between(const struct grpc_reader *r)
{
    return r->prefix_len == 0 && r->problem == NULL;
}

static struct grpc_result fail(struct grpc_reader *r, size_t consumed, enum grpc_status status,
                               const char *problem)
{
    r->status = status;
    r->problem = problem;
    return (struct grpc_result){GRPC_ERROR, consumed, {NULL, 0}, status, problem};
}

static struct grpc_result check_prefix(struct grpc_reader *r, size_t consumed)
{
    const uint8_t *p = r->prefix;
    r->len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
    if (p[0] == 1) {
        return fail(r, consumed, GRPC_UNIMPLEMENTED,
                    "the message is compressed; only the encoding 'identity' is supported");
    }
    if (p[0] != 0) {
        return fail(r, consumed, GRPC_INTERNAL, "the prefix of a message begins with 0 or 1");
    }
    if (r->len > r->body.max) {
        return fail(r, consumed, GRPC_RESOURCE_EXHAUSTED, "the message is too long");
    }
    return (struct grpc_result){.event = GRPC_MORE, .consumed = consumed};
}

static size_t take_prefix(struct grpc_reader *r, struct slice bytes)
{
    size_t used = 0;
    while (r->prefix_len < GRPC_PREFIX && used < bytes.len) {
        r->prefix[r->prefix_len++] = bytes.data[used++];
    }
    return used;
}

struct grpc_result grpc_reader_feed(struct grpc_reader *r, struct slice bytes)
{
    if (r->problem != NULL) {
        return fail(r, 0, r->status, r->problem);
    }
    if (r->is_given) {
        r->is_given = false;
        buffer_truncate(&r->body, 0);
        buffer_release(&r->body);
    }
    size_t used = 0;
    if (r->prefix_len < GRPC_PREFIX) {
        used = take_prefix(r, bytes);
        if (r->prefix_len < GRPC_PREFIX) {
            return (struct grpc_result){.event = GRPC_MORE, .consumed = used};
        }
        struct grpc_result checked = check_prefix(r, used);
        if (checked.event == GRPC_ERROR) {
            return checked;
        }
    }
    size_t held = buffer_len(&r->body);
    size_t missing = r->len - held;
    size_t left = bytes.len - used;
    if (held == 0 && left >= missing) { /* complete and contiguous in the input */
        r->prefix_len = 0;
        return (struct grpc_result){.event = GRPC_MESSAGE,
                                    .consumed = used + missing,
                                    .message = slice_make(bytes.data + used, missing)};
    }
    size_t taken = left < missing ? left : missing;
    bool is_kept = buffer_append(&r->body, bytes.data + used, taken);
    hf_assert(is_kept); /* the length was checked */
    if (taken < missing) {
        return (struct grpc_result){.event = GRPC_MORE, .consumed = used + taken};
    }
    r->prefix_len = 0;
    r->is_given = true;
    return (struct grpc_result){
        .event = GRPC_MESSAGE, .consumed = used + taken, .message = buffer_bytes(&r->body)};
}

/* ---- grpc-timeout ---- */

/* One to eight digits and a unit: no overflow. */
bool grpc_parse_timeout(struct slice text, uint64_t *timeout_ms)
{
    const uint64_t most_ms = UINT64_C(31556952000) * 1000;
    uint64_t value = 0;
    if (text.len < 2 || text.len > 9) {
        return false;
    }
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    switch (text.data[text.len - 1]) {
    case 'H':
        value *= 3600000;
        break;
    case 'M':
        value *= 60000;
        break;
    case 'S':
        value *= 1000;
        break;
    case 'm':
        break;
    case 'u':
        value = (value + 999) / 1000;
        break;
    case 'n':
        value = (value + 999999) / 1000000;
        break;
    default:
        return false;
    }
    *timeout_ms = value < most_ms ? value : most_ms;
    return true;
}

void grpc_format_timeout(uint64_t timeout_ms, char out[GRPC_TIMEOUT])
{
    static const struct {
        uint64_t ms;
        char unit;
    } units[] = {{1, 'm'}, {1000, 'S'}, {60000, 'M'}, {3600000, 'H'}};
    const uint64_t most = 99999999;
    size_t i = 0;
    while (i < 3 && timeout_ms / units[i].ms > most) {
        i++;
    }
    uint64_t value = timeout_ms / units[i].ms;
    (void)snprintf(out, GRPC_TIMEOUT, "%" PRIu32 "%c", (uint32_t)(value > most ? most : value),
                   units[i].unit);
}

/* ---- grpc-message ---- */

size_t grpc_encode_message(struct slice text, char *out, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool is_plain = c >= 0x20 && c <= 0x7e && c != '%';
        if (len + (is_plain ? 1 : 3) > size) {
            break;
        }
        if (is_plain) {
            out[len++] = (char)c;
        } else {
            out[len++] = '%';
            out[len++] = digits[c >> 4];
            out[len++] = digits[c & 15];
        }
    }
    return len;
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    uint8_t letter = c | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

size_t grpc_decode_message(struct slice text, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == '%' && i + 2 < text.len) {
            int high = hex_value(text.data[i + 1]);
            int low = hex_value(text.data[i + 2]);
            if (high >= 0 && low >= 0) {
                c = (uint8_t)(high << 4 | low);
                i += 2;
            }
        }
        out[len++] = (char)c;
    }
    return len;
}
