/* Commands on keys of any type. Reading a value is recorded: a script that compared it may change
 * the key. */
#include "service/resp/conn.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/resp/number.h"

enum { KEY_TEXT_MAX = sizeof("holdfast:") + LIMIT_CLIENT };

/* The value as a string; `text` stores numbers. False: no value; if the key has another type, the
 * error was sent. */
static bool read_value(struct key *key, char text[KEY_TEXT_MAX], struct slice *out,
                       const struct key_sink *to)
{
    int len;
    key->is_compared = true;
    switch (key->kind) {
    case KEY_STRING:
        *out = key->value;
        return true;
    case KEY_COUNTER:
        len = snprintf(text, KEY_TEXT_MAX, "%" PRId64, key->number);
        *out = slice_make(text, (size_t)len);
        return true;
    case KEY_LOCK: /* of another API: its value is the holder */
        len = snprintf(text, KEY_TEXT_MAX, "holdfast:%.*s", (int)key->seen.client.len,
                       (const char *)key->seen.client.data);
        *out = slice_make(text, (size_t)len);
        return true;
    case KEY_HASH:
    case KEY_LIST:
    case KEY_SORTED_SET:
    case KEY_SET:
        to->error(to->ctx, "WRONGTYPE", KEY_WRONG_TYPE);
        return false;
    case KEY_ABSENT:
    case KEY_RESERVED:
        break;
    }
    return false;
}

static void put_value(struct key *key, const struct key_sink *to)
{
    char text[KEY_TEXT_MAX];
    struct slice value;
    if (read_value(key, text, &value, to)) {
        to->bulk(to->ctx, value);
    } else if (!key_is_present(key)) {
        to->null(to->ctx);
    }
}

void key_get(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    (void)count;
    struct key *key = keyspace_key(k, args[1], to);
    if (key != NULL) {
        put_value(key, to);
    }
}

/* Both positions included; negative ones count from the end. */
void key_getrange(struct keyspace *k, const struct slice *args, uint32_t count,
                  const struct key_sink *to)
{
    (void)count;
    char text[KEY_TEXT_MAX];
    int64_t start;
    int64_t end;
    struct slice value = slice_make("", 0);
    if (!resp_parse_number(args[2], &start) || !resp_parse_number(args[3], &end)) {
        to->error(to->ctx, "ERR", "value is not an integer or out of range");
        return;
    }
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL || (!read_value(key, text, &value, to) && key_is_present(key))) {
        return;
    }
    int64_t len = (int64_t)value.len;
    start = start >= 0 ? start : start < -len ? 0 : start + len;
    end = end >= len ? len - 1 : end >= 0 ? end : end < -len ? -1 : end + len;
    bool is_empty = start > end;
    to->bulk(to->ctx, is_empty ? slice_make("", 0)
                               : slice_make(value.data + start, (size_t)(end - start + 1)));
}

/* A key that is not a string yields nil, as in Redis. */
void key_mget(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    for (uint32_t i = 1; i < count; i++) { /* find errors first: an array cannot be withdrawn */
        if (keyspace_key(k, args[i], to) == NULL) {
            return;
        }
    }
    to->array(to->ctx, count - 1);
    for (uint32_t i = 1; i < count; i++) {
        struct key *key = keyspace_key(k, args[i], to);
        if (key_kind_has_value(key->kind) && key->kind != KEY_STRING) {
            to->null(to->ctx);
        } else {
            put_value(key, to);
        }
    }
}

void key_strlen(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)count;
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    if (key->kind == KEY_STRING || !key_is_present(key)) {
        to->integer(to->ctx, key->kind == KEY_STRING ? (int64_t)key->value.len : 0);
    } else {
        to->error(to->ctx, "WRONGTYPE", KEY_WRONG_TYPE);
    }
}

void key_exists(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    int64_t found = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (!keyspace_can_exist(k, args[i])) {
            continue;
        }
        struct key *key = keyspace_key(k, args[i], to);
        if (key == NULL) {
            return;
        }
        key->is_examined = true;
        found += key_is_present(key);
    }
    to->integer(to->ctx, found);
}

void key_type(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    struct key *key = keyspace_key(k, args[1], to);
    if (key != NULL) {
        key->is_examined = true;
        to->status(to->ctx, !key_is_present(key)          ? "none"
                            : key->kind == KEY_HASH       ? "hash"
                            : key->kind == KEY_LIST       ? "list"
                            : key->kind == KEY_SORTED_SET ? "zset"
                            : key->kind == KEY_SET        ? "set"
                                                          : "string");
    }
}

/* TTL, PTTL, EXPIRETIME, PEXPIRETIME. */
void key_ttl(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    (void)count;
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    key->is_examined = true;
    if (!key_is_present(key)) {
        to->integer(to->ctx, -2);
        return;
    }
    if (key->deadline_ms == 0) {
        to->integer(to->ctx, -1);
        return;
    }
    bool is_ms = args[0].data[0] == 'p' || args[0].data[0] == 'P';
    bool is_when = args[0].len > 4;
    const struct service *s = k->service;
    /* A key in the state exists, even if its deadline is passing. */
    uint64_t left_ms = key->deadline_ms > k->now_ms ? key->deadline_ms - k->now_ms : 1;
    uint64_t ms = is_when ? s->gateway.wall_ms(s->gateway.ctx) + left_ms : left_ms;
    to->integer(to->ctx, (int64_t)(is_ms ? ms : (ms + 500) / 1000));
}

void key_del(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    struct key nothing = {.kind = KEY_ABSENT};
    int64_t dropped = 0;
    for (uint32_t i = 1; i < count; i++) { /* all or nothing */
        struct key *key = keyspace_can_exist(k, args[i]) ? keyspace_key(k, args[i], to) : &nothing;
        if (key == NULL || (key_is_present(key) && !key_may_drop(k, key, to))) {
            return;
        }
    }
    for (uint32_t i = 1; i < count; i++) {
        struct key *key = keyspace_can_exist(k, args[i]) ? keyspace_key(k, args[i], to) : &nothing;
        if (key_is_present(key)) {
            key_drop(k, key);
            dropped++;
        }
    }
    to->integer(to->ctx, dropped);
}

enum expire_rule { EXPIRE_ALWAYS, EXPIRE_NX, EXPIRE_XX, EXPIRE_GT, EXPIRE_LT };

struct expire_request {
    enum expire_rule rule;
    bool needs_ttl; /* XX, also together with GT or LT */
    bool ends_it;   /* the requested time is in the past: delete */
    struct resp_time time;
};

static bool read_rule(const struct slice *args, uint32_t count, struct expire_request *out)
{
    static const char *const words[] = {"", "NX", "XX", "GT", "LT"};
    for (uint32_t i = 3; i < count; i++) {
        unsigned found = EXPIRE_NX;
        while (found <= EXPIRE_LT && !resp_is_word(args[i], words[found])) {
            found++;
        }
        bool is_doubled = out->rule != EXPIRE_ALWAYS &&
                          !(out->rule == EXPIRE_XX && (found == EXPIRE_GT || found == EXPIRE_LT));
        if (found > EXPIRE_LT || is_doubled) {
            return false;
        }
        out->rule = (enum expire_rule)found;
        out->needs_ttl = out->needs_ttl || found == EXPIRE_XX;
    }
    return true;
}

/* No TTL counts as infinite. */
static bool rule_holds(const struct expire_request *request, const struct key *key,
                       uint64_t deadline_ms)
{
    bool has_ttl = key->deadline_ms != 0;
    if (request->needs_ttl && !has_ttl) {
        return false;
    }
    switch (request->rule) {
    case EXPIRE_NX:
        return !has_ttl;
    case EXPIRE_GT:
        return has_ttl && deadline_ms > key->deadline_ms;
    case EXPIRE_LT:
        return !has_ttl || deadline_ms < key->deadline_ms;
    case EXPIRE_ALWAYS:
    case EXPIRE_XX:
        break;
    }
    return true;
}

static bool is_past(const struct service *s, struct resp_time time)
{
    int64_t number;
    if (!resp_parse_number(time.text, &number)) {
        return false;
    }
    return number <= 0 || (time.is_absolute && (uint64_t)number <= UINT64_MAX / time.unit_ms &&
                           (uint64_t)number * time.unit_ms <= s->gateway.wall_ms(s->gateway.ctx));
}

static const char not_through_this_port[] =
    "the lock was taken through another API: only its holder can renew it, through that API";

static void set_deadline(struct keyspace *k, struct key *key, uint64_t ttl_ms,
                         const struct key_sink *to)
{
    if (key->kind == KEY_LOCK) {
        to->error(to->ctx, "ERR", not_through_this_port);
    } else if (!key_is_own(k, key) &&
               (key->deadline_ms == 0 || k->now_ms + ttl_ms < key->deadline_ms)) {
        to->error(to->ctx, "ERR",
                  "the lock is held by another connection: its TTL can be extended, not shortened, "
                  "unless a script compares its value");
    } else {
        key_set_ttl(k, key, ttl_ms);
        to->integer(to->ctx, 1);
    }
}

/* EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT. */
void key_expire(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    uint64_t ttl_ms = 0;
    uint8_t last = args[0].data[args[0].len - 1];
    bool is_ms = args[0].data[0] == 'p' || args[0].data[0] == 'P';
    struct expire_request request = {
        .time = {args[2], is_ms ? 1 : 1000, last == 't' || last == 'T', args[0]}};
    if (!read_rule(args, count, &request)) {
        to->error(to->ctx, "ERR",
                  "NX and XX, GT or LT options at the same time are not compatible");
        return;
    }
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    request.ends_it = is_past(k->service, request.time);
    const char *problem = request.ends_it ? NULL
                          : key->kind == KEY_COUNTER
                              ? resp_counter_ttl_ms(k->service, request.time, &ttl_ms)
                              : resp_ttl_ms(k->service, request.time, &ttl_ms);
    if (problem != NULL) {
        to->error(to->ctx, "ERR", problem);
    } else if (!key_is_present(key) || !rule_holds(&request, key, k->now_ms + ttl_ms)) {
        to->integer(to->ctx, 0);
    } else if (!request.ends_it) {
        set_deadline(k, key, ttl_ms, to);
    } else if (key_may_drop(k, key, to)) {
        key_drop(k, key);
        to->integer(to->ctx, 1);
    }
}

void key_persist(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    if (!key_is_present(key)) {
        to->integer(to->ctx, 0);
    } else if (key->kind == KEY_COUNTER) {
        to->integer(to->ctx, key->deadline_ms != 0);
        key_persist_counter(key);
    } else if (!resp_is_upgraded(k->service)) {
        to->error(
            to->ctx, "ERR",
            "PERSIST works on counters only, until all nodes are upgraded: a lock must have a TTL");
    } else if (key->deadline_ms == 0) {
        to->integer(to->ctx, 0);
    } else if (key->kind == KEY_LOCK) {
        to->error(to->ctx, "ERR", not_through_this_port);
    } else if (!resp_ttl_may_be_none(k->service)) {
        to->error(to->ctx, "ERR", "PERSIST is disabled: a key lives for at most resp-ttl-max here");
    } else {
        key_set_ttl(k, key, TTL_NONE);
        to->integer(to->ctx, 1);
    }
}

/* Of a counter, or of a SET key whose value is a number. False: neither; the error was sent. */
static bool read_number(const struct keyspace *k, struct key *key, int64_t *out,
                        const struct key_sink *to)
{
    *out = 0;
    switch (key->kind) {
    case KEY_ABSENT:
        return true;
    case KEY_COUNTER:
        *out = key->number;
        return true;
    case KEY_STRING:
        if (!key_is_own(k, key)) {
            to->error(
                to->ctx, "ERR",
                "the lock is held by another connection: compare its value in a script before "
                "it is changed");
            return false;
        }
        if (!resp_parse_number(key->value, out)) {
            to->error(to->ctx, "ERR", "value is not an integer or out of range");
            return false;
        }
        return true;
    case KEY_LIST:
    case KEY_SORTED_SET:
    case KEY_SET:
        to->error(to->ctx, "WRONGTYPE", KEY_WRONG_TYPE);
        return false;
    case KEY_HASH:
    case KEY_LOCK:
    case KEY_RESERVED:
        break;
    }
    to->error(to->ctx, "WRONGTYPE",
              "the key is a lock; INCR and DECR work on counters and numbers only");
    return false;
}

/* INCR, DECR, INCRBY, DECRBY, which keep the TTL. A new key is a counter, not a lock. */
void key_incr(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    int64_t by = 1;
    if (count > 2 && !resp_parse_number(args[2], &by)) {
        to->error(to->ctx, "ERR", "value is not an integer or out of range");
        return;
    }
    bool is_down = args[0].data[0] == 'd' || args[0].data[0] == 'D';
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    int64_t number;
    if (!read_number(k, key, &number, to)) {
        return;
    }
    bool overflows = is_down ? __builtin_sub_overflow(number, by, &number)
                             : __builtin_add_overflow(number, by, &number);
    if (overflows) {
        to->error(to->ctx, "ERR", "increment or decrement would overflow");
        return;
    }
    if (key->kind == KEY_STRING) {
        char text[24];
        int len = snprintf(text, sizeof(text), "%" PRId64, number);
        struct slice value = slice_make(text, (size_t)len);
        if (!keyspace_copy(k, &value, to)) {
            return;
        }
        key_put(k, key, KEY_STRING, value, 0);
    } else {
        key_set_number(key, number);
    }
    to->integer(to->ctx, number);
}

/* PUBLISH, SPUBLISH. */
void key_publish(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    bool is_shard = args[0].data[0] == 's' || args[0].data[0] == 'S';
    if (keyspace_publish(k, args[1], is_shard, args[2], to)) {
        to->integer(to->ctx,
                    (int64_t)resp_pubsub_receivers(k->service, k->who.tenant, args[1], is_shard));
    }
}
