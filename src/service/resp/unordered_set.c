/* Small sets as the value of a key without an owner (S13.11). (set.c has the command SET.)
 *
 * A member is its length (base/codec.h) and its bytes. Members are distinct and sorted by their bytes,
 * so a set has one encoding. It has at most resp_value_max bytes: every search is linear. */
#include "service/resp/conn.h"

#include "base/codec.h"
#include "service/resp/number.h"

/* The member at `at`; *end: where the next one begins. */
static bool next_member(struct slice set, size_t at, struct slice *name, size_t *end)
{
    if (at >= set.len) {
        return false;
    }
    struct reader r = reader_make(slice_make(set.data + at, set.len - at));
    *name = read_slice(&r, SIZE_MAX);
    *end = set.len - reader_left(&r);
    return !r.bad;
}

static int compare(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* *at: where the member begins or belongs; *end: where it ends, if it is there. */
static bool find_member(struct slice set, struct slice name, size_t *at, size_t *end)
{
    struct slice other;
    for (*at = 0; next_member(set, *at, &other, end); *at = *end) {
        int order = compare(other, name);
        if (order >= 0) {
            return order == 0;
        }
    }
    return false;
}

static uint32_t count_members(struct slice set)
{
    struct slice name;
    uint32_t count = 0;
    for (size_t at = 0; next_member(set, at, &name, &at);) {
        count++;
    }
    return count;
}

static struct key *open_set(struct keyspace *k, struct slice name, const struct key_sink *to,
                            struct slice *set)
{
    return keyspace_typed(k, name, KEY_SET, to, set);
}

enum { MEMBER_HEAD = 10 }; /* the most before the name */

/* A copy that can be changed, in memory of the run. */
struct set_copy {
    const struct service *service;
    uint8_t *bytes;
    size_t len;
    size_t size;
};

static struct slice copied_set(const struct set_copy *d)
{
    return slice_make(d->bytes, d->len);
}

/* With space for `more` bytes, if a value can have them. False: the error was sent. */
static bool copy_begin(struct keyspace *k, struct slice set, size_t more, struct set_copy *d,
                       const struct key_sink *to)
{
    size_t max = resp_value_max(k->service);
    size_t size = set.len + more < max ? set.len + more : max;
    d->service = k->service;
    d->size = size > set.len ? size : set.len;
    d->len = set.len;
    d->bytes = bump_take(&k->arena, d->size > 0 ? d->size : 1);
    if (d->bytes == NULL) {
        to->error(to->ctx, "ERR", "the transaction takes too much memory");
        return false;
    }
    if (set.len > 0) {
        memcpy(d->bytes, set.data, set.len);
    }
    return true;
}

/* False: too long; the error was sent. */
static bool copy_insert(struct set_copy *d, size_t at, struct slice name, const struct key_sink *to)
{
    uint8_t head[MEMBER_HEAD];
    struct writer w = writer_make(head, sizeof(head));
    write_u64(&w, name.len);
    size_t head_len = (size_t)(w.at - head);
    if (head_len + name.len > d->size - d->len) {
        resp_value_too_long(d->service, "limit_value: the members of a set take", to);
        return false;
    }
    memmove(d->bytes + at + head_len + name.len, d->bytes + at, d->len - at);
    memcpy(d->bytes + at, head, head_len);
    if (name.len > 0) {
        memcpy(d->bytes + at + head_len, name.data, name.len);
    }
    d->len += head_len + name.len;
    return true;
}

void key_sadd(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct slice set;
    int64_t added = 0;
    struct key *key = open_set(k, args[1], to, &set);
    if (key == NULL || !key_may_change(k, key, to)) {
        return;
    }
    struct set_copy d;
    size_t more = 0;
    for (uint32_t i = 2; i < count; i++) {
        more += MEMBER_HEAD + args[i].len;
    }
    if (!copy_begin(k, set, more, &d, to)) {
        return;
    }
    for (uint32_t i = 2; i < count; i++) {
        size_t at;
        size_t end;
        if (find_member(copied_set(&d), args[i], &at, &end)) {
            continue;
        }
        if (!copy_insert(&d, at, args[i], to)) {
            return;
        }
        added++;
    }
    if (added > 0) {
        key_put_shared(k, key, KEY_SET, copied_set(&d));
    }
    to->integer(to->ctx, added);
}

void key_srem(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct slice set;
    int64_t removed = 0;
    struct key *key = open_set(k, args[1], to, &set);
    if (key == NULL) {
        return;
    }
    struct set_copy d;
    if (!copy_begin(k, set, 0, &d, to)) {
        return;
    }
    for (uint32_t i = 2; i < count; i++) {
        size_t at;
        size_t end;
        if (find_member(copied_set(&d), args[i], &at, &end)) {
            memmove(d.bytes + at, d.bytes + end, d.len - end);
            d.len -= end - at;
            removed++;
        }
    }
    if (removed > 0) {
        key_put_shared(k, key, KEY_SET, copied_set(&d));
    }
    to->integer(to->ctx, removed);
}

void key_scard(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    struct slice set;
    if (open_set(k, args[1], to, &set) != NULL) {
        to->integer(to->ctx, count_members(set));
    }
}

/* SISMEMBER, SMISMEMBER */
void key_sismember(struct keyspace *k, const struct slice *args, uint32_t count,
                   const struct key_sink *to)
{
    struct slice set;
    if (open_set(k, args[1], to, &set) == NULL) {
        return;
    }
    if (resp_is_word(args[0], "SMISMEMBER")) {
        to->array(to->ctx, count - 2);
    }
    for (uint32_t i = 2; i < count; i++) {
        size_t at;
        size_t end;
        to->integer(to->ctx, find_member(set, args[i], &at, &end) ? 1 : 0);
    }
}

/* In the order of their bytes; Redis has no order. */
void key_smembers(struct keyspace *k, const struct slice *args, uint32_t count,
                  const struct key_sink *to)
{
    (void)count;
    struct slice set;
    struct slice name;
    if (open_set(k, args[1], to, &set) == NULL) {
        return;
    }
    resp_set(resp_sink_writer(to), count_members(set));
    for (size_t at = 0; next_member(set, at, &name, &at);) {
        to->bulk(to->ctx, name);
    }
}

static const char *read_options(const struct slice *args, uint32_t count, struct slice *match)
{
    for (uint32_t i = 3; i < count; i += 2) {
        int64_t number;
        if (i + 1 == count) {
            return "syntax error";
        }
        if (resp_is_word(args[i], "MATCH")) {
            *match = args[i + 1];
        } else if (!resp_is_word(args[i], "COUNT")) {
            return "syntax error";
        } else if (!resp_parse_number(args[i + 1], &number)) {
            return "value is not an integer or out of range";
        } else if (number < 1) {
            return "syntax error";
        }
    }
    return NULL;
}

/* key cursor [MATCH pattern] [COUNT n]: all members are one page, as of a small set of Redis. */
void key_sscan(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    struct slice set;
    struct slice name;
    struct slice match = slice_make(NULL, 0);
    int64_t cursor;
    uint32_t found = 0;
    if (!resp_parse_number(args[2], &cursor) || cursor < 0) {
        to->error(to->ctx, "ERR", "invalid cursor");
        return;
    }
    if (open_set(k, args[1], to, &set) == NULL) {
        return;
    }
    const char *problem = read_options(args, count, &match);
    if (problem != NULL) {
        to->error(to->ctx, "ERR", problem);
        return;
    }
    bool all = match.data == NULL;
    for (size_t at = 0; next_member(set, at, &name, &at);) {
        found += all || resp_matches(match, name) ? 1 : 0;
    }
    to->array(to->ctx, 2);
    to->bulk(to->ctx, slice_of("0"));
    to->array(to->ctx, found);
    for (size_t at = 0; next_member(set, at, &name, &at);) {
        if (all || resp_matches(match, name)) {
            to->bulk(to->ctx, name);
        }
    }
}
