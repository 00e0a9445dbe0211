/* Writes JSON into a buffer, as a stream. It adds commas and quotes; the caller is responsible for
 * a valid order, which is asserted. The caller checks the buffer's `overflowed` once, at the end.
 *
 *     json_write_open(&w, '{');
 *     json_write_key(&w, "acquired");
 *     json_write_bool(&w, true);
 *     json_put_u64(&w, "fencing_token", token);      (a key and its value in one)
 *     json_write_close(&w); */
#ifndef HOLDFAST_WIRE_JSON_WRITE_H
#define HOLDFAST_WIRE_JSON_WRITE_H

#include "base/buffer.h"
#include "base/error.h"

struct json_writer {
    struct buffer *out;
    unsigned depth;
    uint64_t objects; /* bit i: level i is an object, not an array */
    bool comma;       /* the next value needs one before it */
    bool keyed;       /* a key was written, its value was not */
};

void json_writer_init(struct json_writer *w, struct buffer *out);
/* Whether every opened bracket was closed. */
static inline bool json_writer_done(const struct json_writer *w)
{
    return w->depth == 0 && w->comma;
}

void json_write_open(struct json_writer *w, char bracket); /* '{' or '[' */
void json_write_close(struct json_writer *w);              /* the last opened one */
void json_write_key_of(struct json_writer *w, const char *key, size_t len);
/* For constants only: the key is not escaped. Inline, so that the compiler knows its length. */
static inline void json_write_key(struct json_writer *w, const char *key)
{
    json_write_key_of(w, key, strlen(key));
}

/* ---- without a buffer, for text with fixed keys ---- */

#define JSON_QUOTED_MAX(len) (2 + 6 * (size_t)(len))
/* A string with its quotes, as json_write_string, into JSON_QUOTED_MAX(text.len) bytes; returns its length. */
size_t json_quote(struct slice text, uint8_t *out);
#define JSON_TIME 26
/* With its quotes, as json_write_time. */
void json_time(uint64_t wall_ms, uint8_t out[JSON_TIME]);

/* ---- values ---- */

/* Bytes that are not UTF-8 are written as U+FFFD, so that the result is valid JSON. */
void json_write_string(struct json_writer *w, struct slice text);
void json_write_u64(struct json_writer *w, uint64_t value);
void json_write_i64(struct json_writer *w, int64_t value);
void json_write_bool(struct json_writer *w, bool value);
void json_write_null(struct json_writer *w);
/* A wall clock in ms as RFC 3339 in UTC: "2024-11-15T08:49:37.123Z". */
void json_write_time(struct json_writer *w, uint64_t wall_ms);
/* Valid JSON that was checked on input: metadata. Empty is null. */
void json_write_raw(struct json_writer *w, struct slice json);
/* The members of a valid JSON object that is not empty, into the open object, before any other. */
void json_write_members(struct json_writer *w, struct slice object);
/* {"error":{"code":"...","message":"..."}}; NULL: the message of base/error.h. */
void json_write_error(struct json_writer *w, enum hf_error error, const char *message);

static inline void json_put_string(struct json_writer *w, const char *key, struct slice text)
{
    json_write_key(w, key);
    json_write_string(w, text);
}

static inline void json_put_text(struct json_writer *w, const char *key, const char *text)
{
    json_put_string(w, key, slice_of(text));
}

static inline void json_put_u64(struct json_writer *w, const char *key, uint64_t value)
{
    json_write_key(w, key);
    json_write_u64(w, value);
}

static inline void json_put_i64(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, key);
    json_write_i64(w, value);
}

static inline void json_put_bool(struct json_writer *w, const char *key, bool value)
{
    json_write_key(w, key);
    json_write_bool(w, value);
}

static inline void json_put_null(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_write_null(w);
}

static inline void json_put_time(struct json_writer *w, const char *key, uint64_t wall_ms)
{
    json_write_key(w, key);
    json_write_time(w, wall_ms);
}

static inline void json_put_raw(struct json_writer *w, const char *key, struct slice json)
{
    json_write_key(w, key);
    json_write_raw(w, json);
}

static inline void json_put_open(struct json_writer *w, const char *key, char bracket)
{
    json_write_key(w, key);
    json_write_open(w, bracket);
}

#endif
