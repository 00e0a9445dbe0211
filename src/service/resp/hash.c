/* Small hashes as the value of a lock, for Redisson: a holder and its depth.
 *
 * A field is two lengths of two bytes, its name and its value. A hash has at most resp_value_max
 * bytes, so lookup is linear. */
#include "service/resp/conn.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/resp/number.h"

enum { FIELD_HEAD = 4 };

struct hash_field {
    struct slice name;
    struct slice value;
    size_t at;  /* where the field begins */
    size_t end; /* where the next field begins */
};

static size_t length_at(const uint8_t *at)
{
    return (size_t)at[0] | (size_t)at[1] << 8;
}

/* False: end of the hash, or malformed bytes. */
static bool next_field(struct slice hash, size_t at, struct hash_field *out)
{
    if (at > hash.len || hash.len - at < FIELD_HEAD) {
        return false;
    }
    size_t name_len = length_at(hash.data + at);
    size_t value_len = length_at(hash.data + at + 2);
    if (hash.len - at - FIELD_HEAD < name_len + value_len) {
        return false;
    }
    const uint8_t *bytes = hash.data + at + FIELD_HEAD;
    *out = (struct hash_field){slice_make(bytes, name_len), slice_make(bytes + name_len, value_len),
                               at, at + FIELD_HEAD + name_len + value_len};
    return true;
}

static bool find_field(struct slice hash, struct slice name, struct hash_field *out)
{
    for (size_t at = 0; next_field(hash, at, out); at = out->end) {
        if (slice_equal(out->name, name)) {
            return true;
        }
    }
    return false;
}

bool resp_hash_has(struct slice hash, struct slice field)
{
    struct hash_field f;
    return find_field(hash, field, &f);
}

static uint32_t count_fields(struct slice hash)
{
    struct hash_field f;
    uint32_t count = 0;
    for (size_t at = 0; next_field(hash, at, &f); at = f.end) {
        count++;
    }
    return count;
}

/* False: another type; the error was sent. */
static bool open_hash(struct keyspace *k, struct slice name, const struct key_sink *to,
                      struct key **key, struct slice *hash)
{
    *key = keyspace_typed(k, name, KEY_HASH, to, hash);
    return *key != NULL;
}

void key_hget(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    struct key *key;
    struct slice hash;
    struct hash_field f;
    if (!open_hash(k, args[1], to, &key, &hash)) {
        return;
    }
    key->is_compared = true;
    if (find_field(hash, args[2], &f)) {
        to->bulk(to->ctx, f.value);
    } else {
        to->null(to->ctx);
    }
}

void key_hmget(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    struct key *key;
    struct slice hash;
    struct hash_field f;
    if (!open_hash(k, args[1], to, &key, &hash)) {
        return;
    }
    key->is_compared = true;
    to->array(to->ctx, count - 2);
    for (uint32_t i = 2; i < count; i++) {
        if (find_field(hash, args[i], &f)) {
            to->bulk(to->ctx, f.value);
        } else {
            to->null(to->ctx);
        }
    }
}

/* HGETALL, HKEYS, HVALS. */
void key_hgetall(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    struct key *key;
    struct slice hash;
    struct hash_field f;
    if (!open_hash(k, args[1], to, &key, &hash)) {
        return;
    }
    key->is_compared = true;
    bool has_names = !resp_is_word(args[0], "HVALS");
    bool has_values = !resp_is_word(args[0], "HKEYS");
    if (has_names && has_values) {
        to->map(to->ctx, count_fields(hash));
    } else {
        to->array(to->ctx, count_fields(hash));
    }
    for (size_t at = 0; next_field(hash, at, &f); at = f.end) {
        if (has_names) {
            to->bulk(to->ctx, f.name);
        }
        if (has_values) {
            to->bulk(to->ctx, f.value);
        }
    }
}

void key_hexists(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    struct key *key;
    struct slice hash;
    struct hash_field f;
    if (open_hash(k, args[1], to, &key, &hash)) {
        key->is_compared = true;
        to->integer(to->ctx, find_field(hash, args[2], &f));
    }
}

void key_hlen(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    struct key *key;
    struct slice hash;
    if (open_hash(k, args[1], to, &key, &hash)) {
        to->integer(to->ctx, count_fields(hash));
    }
}

/* A copy with space for `more` bytes, in memory of the run. NULL: the error was sent. */
static uint8_t *copy_of(struct keyspace *k, struct slice hash, size_t more,
                        const struct key_sink *to)
{
    uint8_t *bytes = bump_take(&k->arena, hash.len + more);
    if (bytes == NULL) {
        to->error(to->ctx, "ERR", "the transaction takes too much memory");
    } else if (hash.len > 0) {
        memcpy(bytes, hash.data, hash.len);
    }
    return bytes;
}

/* Sets a field in such a copy, in place of `present`; NULL: at the end. False: too long; the error was
 * sent. */
static bool set_field(struct keyspace *k, uint8_t *bytes, size_t *len,
                      const struct hash_field *present, struct slice name, struct slice value,
                      const struct key_sink *to)
{
    size_t at = present != NULL ? present->at : *len;
    size_t end = present != NULL ? present->end : *len;
    size_t size = FIELD_HEAD + name.len + value.len;
    size_t after = *len - (end - at) + size;
    if (after > resp_value_max(k->service) && after > *len) {
        resp_value_too_long(k->service, "the fields of a hash take", to);
        return false;
    }
    memmove(bytes + at + size, bytes + end, *len - end);
    uint8_t *head = bytes + at;
    head[0] = (uint8_t)name.len;
    head[1] = (uint8_t)(name.len >> 8);
    head[2] = (uint8_t)value.len;
    head[3] = (uint8_t)(value.len >> 8);
    memcpy(head + FIELD_HEAD, name.data, name.len);
    memcpy(head + FIELD_HEAD + name.len, value.data, value.len);
    *len = after;
    return true;
}

/* The same for one field of a hash that is not copied yet. */
static bool make_hash(struct keyspace *k, struct slice hash, const struct hash_field *present,
                      struct slice name, struct slice value, struct slice *out,
                      const struct key_sink *to)
{
    size_t len = hash.len;
    uint8_t *bytes = copy_of(k, hash, FIELD_HEAD + name.len + value.len, to);
    if (bytes == NULL || !set_field(k, bytes, &len, present, name, value, to)) {
        return false;
    }
    *out = slice_make(bytes, len);
    return true;
}

static void put_hash(struct keyspace *k, struct key *key, struct slice hash)
{
    bool is_new = !key_is_present(key);
    key_put(k, key, KEY_HASH, hash, is_new ? resp_ttl_default_ms(k->service) : 0);
}

void key_hset(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct key *key;
    struct slice hash;
    int64_t added = 0;
    if (count % 2 != 0) {
        to->error(to->ctx, "ERR", "wrong number of arguments for 'hset' command");
        return;
    }
    if (!open_hash(k, args[1], to, &key, &hash) || !key_may_change(k, key, to)) {
        return;
    }
    size_t more = 0;
    for (uint32_t i = 2; i < count; i += 2) {
        more += FIELD_HEAD + args[i].len + args[i + 1].len;
    }
    uint8_t *bytes = copy_of(k, hash, more, to);
    size_t len = hash.len;
    for (uint32_t i = 2; bytes != NULL && i < count; i += 2) {
        struct hash_field f;
        bool is_there = find_field(slice_make(bytes, len), args[i], &f);
        if (!set_field(k, bytes, &len, is_there ? &f : NULL, args[i], args[i + 1], to)) {
            return;
        }
        added += !is_there;
    }
    if (bytes == NULL) {
        return;
    }
    put_hash(k, key, slice_make(bytes, len));
    if (resp_is_word(args[0], "HMSET")) {
        to->status(to->ctx, "OK");
    } else {
        to->integer(to->ctx, added);
    }
}

void key_hsetnx(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)count;
    struct key *key;
    struct slice hash;
    struct hash_field f;
    if (!open_hash(k, args[1], to, &key, &hash)) {
        return;
    }
    key->is_compared = true;
    if (find_field(hash, args[2], &f)) {
        to->integer(to->ctx, 0);
    } else if (key_may_change(k, key, to) &&
               make_hash(k, hash, NULL, args[2], args[3], &hash, to)) {
        put_hash(k, key, hash);
        to->integer(to->ctx, 1);
    }
}

void key_hincrby(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    struct key *key;
    struct slice hash;
    struct hash_field f;
    int64_t by;
    int64_t number = 0;
    char text[24];
    if (!resp_parse_number(args[3], &by)) {
        to->error(to->ctx, "ERR", "value is not an integer or out of range");
        return;
    }
    if (!open_hash(k, args[1], to, &key, &hash) || !key_may_change(k, key, to)) {
        return;
    }
    bool is_there = find_field(hash, args[2], &f);
    if (is_there && !resp_parse_number(f.value, &number)) {
        to->error(to->ctx, "ERR", "hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(number, by, &number)) {
        to->error(to->ctx, "ERR", "increment or decrement would overflow");
        return;
    }
    int len = snprintf(text, sizeof(text), "%" PRId64, number);
    if (make_hash(k, hash, is_there ? &f : NULL, args[2], slice_make(text, (size_t)len), &hash,
                  to)) {
        put_hash(k, key, hash);
        to->integer(to->ctx, number);
    }
}

void key_hdel(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct key *key;
    struct slice hash;
    int64_t gone = 0;
    if (!open_hash(k, args[1], to, &key, &hash)) {
        return;
    }
    for (uint32_t i = 2; i < count; i++) {
        struct hash_field f;
        if (!find_field(hash, args[i], &f)) {
            continue;
        }
        if (gone == 0 && !key_may_change(k, key, to)) {
            return;
        }
        uint8_t *bytes = bump_take(&k->arena, hash.len);
        if (bytes == NULL) {
            to->error(to->ctx, "ERR", "the transaction takes too much memory");
            return;
        }
        memcpy(bytes, hash.data, f.at);
        memcpy(bytes + f.at, hash.data + f.end, hash.len - f.end);
        hash = slice_make(bytes, hash.len - (f.end - f.at));
        gone++;
    }
    if (gone > 0 && hash.len > 0) {
        put_hash(k, key, hash);
    } else if (gone > 0) {
        key_drop(k, key); /* the change was allowed, so the key is its own */
    }
    to->integer(to->ctx, gone);
}
