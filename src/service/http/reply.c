/* See reply.h. */
#include "service/http/reply.h"

#include "base/codec.h"
#include "service/state.h"

/* Eight hexadecimal digits at a time: each 4 bits of `half` become a byte. */
static void format_half(uint32_t half, char out[8])
{
    uint64_t word = half;
    word = (word << 16 | word) & UINT64_C(0x0000ffff0000ffff);
    word = (word << 8 | word) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word << 4 | word) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t is_letter = (word + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    word += UINT64_C(0x3030303030303030) + is_letter * ('a' - '0' - 10);
    word = little_endian(__builtin_bswap64(word)); /* the first digit has the highest 4 bits */
    memcpy(out, &word, sizeof(word));
}

void reply_format_id(struct id id, char out[REPLY_ID + 1])
{
    format_half((uint32_t)(id.high >> 32), out);
    format_half((uint32_t)id.high, out + 8);
    format_half((uint32_t)(id.low >> 32), out + 16);
    format_half((uint32_t)id.low, out + 24);
    out[REPLY_ID] = '\0';
}

/* 16 or more: not a lower-case hexadecimal digit. */
static unsigned digit_of(uint8_t c)
{
    unsigned number = (unsigned)c - '0';
    unsigned letter = (unsigned)c - 'a';
    return number < 10 ? number : letter < 6 ? letter + 10 : 16;
}

static bool parse_half(const uint8_t *text, uint64_t *out)
{
    uint64_t half = 0;
    unsigned all = 0;
    for (unsigned i = 0; i < REPLY_ID / 2; i++) {
        unsigned digit = digit_of(text[i]);
        all |= digit;
        half = half << 4 | (digit & 15);
    }
    *out = half;
    return all < 16;
}

bool reply_parse_id(struct slice text, struct id *out)
{
    struct id id;
    if (text.len != REPLY_ID || !parse_half(text.data, &id.high) ||
        !parse_half(text.data + REPLY_ID / 2, &id.low) || id_is_zero(id)) {
        return false;
    }
    *out = id;
    return true;
}

void reply_put_id(struct json_writer *w, const char *key, struct id id)
{
    if (id_is_zero(id)) {
        json_put_null(w, key);
        return;
    }
    char text[REPLY_ID + 1];
    reply_format_id(id, text);
    json_put_string(w, key, slice_make(text, REPLY_ID));
}

uint64_t reply_wall_ms(const struct service *s, uint64_t cluster_ms)
{
    uint64_t wall_ms = s->gateway.wall_ms(s->gateway.ctx);
    uint64_t now_ms = service_cluster_ms(s);
    if (cluster_ms >= now_ms) {
        return wall_ms + (cluster_ms - now_ms);
    }
    uint64_t ago_ms = now_ms - cluster_ms;
    return wall_ms > ago_ms ? wall_ms - ago_ms : 0;
}

uint64_t reply_left_ms(const struct service *s, uint64_t deadline_ms)
{
    uint64_t now_ms = service_cluster_ms(s);
    return deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}

void reply_put_when(struct json_writer *w, const struct service *s, const char *key,
                    uint64_t cluster_ms)
{
    if (cluster_ms == 0 || cluster_ms == UINT64_MAX) {
        json_put_null(w, key);
    } else {
        json_put_time(w, key, reply_wall_ms(s, cluster_ms));
    }
}

void reply_put_left(struct json_writer *w, const struct service *s, uint64_t deadline_ms)
{
    if (deadline_ms == UINT64_MAX) {
        json_put_null(w, "expires_in_ms");
    } else {
        json_put_u64(w, "expires_in_ms", reply_left_ms(s, deadline_ms));
    }
}

void reply_put_expiry(struct json_writer *w, const struct service *s, uint64_t deadline_ms)
{
    reply_put_when(w, s, "expires_at", deadline_ms);
    reply_put_left(w, s, deadline_ms);
}

void reply_put_metadata(struct json_writer *w, struct slice metadata)
{
    json_put_raw(w, "metadata", metadata);
}

uint64_t reply_since_ms(const struct service *s, uint64_t since_ms, uint64_t since_wall_ms)
{
    return since_wall_ms != 0 ? since_wall_ms : since_ms != 0 ? reply_wall_ms(s, since_ms) : 0;
}

void reply_put_since(struct json_writer *w, const struct service *s, const char *key,
                     uint64_t since_ms, uint64_t since_wall_ms)
{
    uint64_t wall_ms = reply_since_ms(s, since_ms, since_wall_ms);
    if (wall_ms == 0) {
        json_put_null(w, key);
    } else {
        json_put_time(w, key, wall_ms);
    }
}

void reply_put_hold(struct json_writer *w, const struct service *s, uint64_t hold_until_ms)
{
    if (hold_until_ms != 0) {
        reply_put_when(w, s, "hold_until", hold_until_ms);
    }
}

void reply_put_trace(struct json_writer *w, struct slice trace)
{
    if (trace.len > 0) {
        json_put_string(w, "trace", trace);
    }
}

void reply_holder_members(struct json_writer *w, const struct service *s,
                          const struct holder_view *holder)
{
    json_put_string(w, "client_id", holder->client);
    if (holder->owner.len > 0) {
        json_put_string(w, "owner", holder->owner);
    }
    json_put_text(w, "mode", mode_name(holder->mode));
    if (holder->mode == MODE_SEMAPHORE) {
        json_put_u64(w, "permits", holder->permits);
    }
    reply_put_since(w, s, "since", holder->since_ms, holder->since_wall_ms);
    reply_put_expiry(w, s, holder->deadline_ms);
    reply_put_metadata(w, holder->metadata);
    reply_put_trace(w, holder->trace);
}

uint64_t reply_epoch(const struct service *s)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    return status.epoch;
}

void reply_put_epoch(struct json_writer *w, const struct service *s)
{
    uint64_t epoch = reply_epoch(s);
    json_put_u64(w, "leader_epoch", epoch);
    json_put_u64(w, "epoch", epoch); /* the old name, until 1.0 */
}
