/* Commands on keys of any kind: whether they are there, what they are, how long they last, and
 * their end. Reading a key's value is noted, so that a script which compared it may act on it. */
#include "service/resp_conn.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/resp_number.h"

/* ---- reading ---- */

static void put_value(struct keyspace *k, struct key *key, const struct key_sink *to)
{
    char text[sizeof("holdfast:") + LIMIT_CLIENT];
    int len;
    (void)k;
    key->is_compared = true;
    switch (key->kind) {
    case KEY_STRING:
        to->bulk(to->ctx, key->value);
        break;
    case KEY_COUNTER:
        len = snprintf(text, sizeof(text), "%" PRId64, key->number);
        to->bulk(to->ctx, slice_make(text, (size_t)len));
        break;
    case KEY_LOCK: /* of another API: it says whose it is */
        len = snprintf(text, sizeof(text), "holdfast:%.*s", (int)key->seen.client.len,
                       (const char *)key->seen.client.data);
        to->bulk(to->ctx, slice_make(text, (size_t)len));
        break;
    case KEY_HASH:
        to->error(to->ctx, "WRONGTYPE", KEY_WRONG_TYPE);
        break;
    case KEY_ABSENT:
    case KEY_RESERVED:
        to->null(to->ctx);
        break;
    }
}

void key_get(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    (void)count;
    struct key *key = keyspace_key(k, args[1], to);
    if (key != NULL) {
        put_value(k, key, to);
    }
}

/* A name that cannot be one has no value; what is no string has none either, as in Redis. */
void key_mget(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    for (uint32_t i = 1; i < count; i++) { /* errors first: an array cannot be taken back */
        if (keyspace_key(k, args[i], to) == NULL) {
            return;
        }
    }
    to->array(to->ctx, count - 1);
    for (uint32_t i = 1; i < count; i++) {
        struct key *key = keyspace_key(k, args[i], to);
        if (key->kind == KEY_HASH) {
            to->null(to->ctx);
        } else {
            put_value(k, key, to);
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
        const struct key *key = keyspace_key(k, args[i], to);
        if (key == NULL) {
            return;
        }
        found += key_is_present(key);
    }
    to->integer(to->ctx, found);
}

void key_type(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    const struct key *key = keyspace_key(k, args[1], to);
    if (key != NULL) {
        to->status(to->ctx, !key_is_present(key)    ? "none"
                            : key->kind == KEY_HASH ? "hash"
                                                    : "string");
    }
}

/* TTL, PTTL, EXPIRETIME, PEXPIRETIME. */
void key_ttl(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    (void)count;
    const struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    if (!key_is_present(key)) {
        to->integer(to->ctx, -2);
        return;
    }
    if (key->kind == KEY_COUNTER || key->deadline_ms == 0) {
        to->integer(to->ctx, -1);
        return;
    }
    bool is_ms = args[0].data[0] == 'p' || args[0].data[0] == 'P';
    bool is_when = args[0].len > 4;
    const struct service *s = k->service;
    /* What the state still has is there, even if its last moment is just passing. */
    uint64_t left_ms = key->deadline_ms > k->now_ms ? key->deadline_ms - k->now_ms : 1;
    uint64_t ms = is_when ? s->gateway.wall_ms(s->gateway.ctx) + left_ms : left_ms;
    to->integer(to->ctx, (int64_t)(is_ms ? ms : (ms + 500) / 1000));
}

/* The fencing token of the lock, which rises with each grant (S3). */
void key_token(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    const struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    bool is_lock = key->kind == KEY_STRING || key->kind == KEY_HASH || key->kind == KEY_LOCK;
    if (is_lock && key->seen.token == 0) {
        to->error(to->ctx, "ERR", "the token is given when the script is done: ask for it then");
    } else if (is_lock) {
        to->integer(to->ctx, (int64_t)key->seen.token);
    } else {
        to->null(to->ctx);
    }
}

/* ---- the end ---- */

void key_del(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    int64_t dropped = 0;
    for (uint32_t i = 1; i < count; i++) { /* all or nothing */
        struct key *key = keyspace_key(k, args[i], to);
        if (key == NULL || (key_is_present(key) && !key_may_drop(k, key, to))) {
            return;
        }
    }
    for (uint32_t i = 1; i < count; i++) {
        struct key *key = keyspace_key(k, args[i], to);
        if (key_is_present(key)) {
            key_drop(k, key);
            dropped++;
        }
    }
    to->integer(to->ctx, dropped);
}

/* ---- time ---- */

enum expire_rule { EXPIRE_ALWAYS, EXPIRE_NX, EXPIRE_XX, EXPIRE_GT, EXPIRE_LT };

static bool read_rule(const struct slice *args, uint32_t count, enum expire_rule *rule)
{
    static const char *const words[] = {"", "NX", "XX", "GT", "LT"};
    *rule = EXPIRE_ALWAYS;
    for (uint32_t i = 3; i < count; i++) {
        unsigned found = EXPIRE_NX;
        while (found <= EXPIRE_LT && !resp_is_word(args[i], words[found])) {
            found++;
        }
        bool is_doubled = *rule != EXPIRE_ALWAYS &&
                          !(*rule == EXPIRE_XX && (found == EXPIRE_GT || found == EXPIRE_LT));
        if (found > EXPIRE_LT || is_doubled) {
            return false;
        }
        *rule = (enum expire_rule)found;
    }
    return true;
}

/* Every lock has a TTL, so NX never holds and XX always does. */
static bool rule_holds(enum expire_rule rule, const struct key *key, uint64_t deadline_ms)
{
    switch (rule) {
    case EXPIRE_NX:
        return false;
    case EXPIRE_GT:
        return deadline_ms > key->deadline_ms;
    case EXPIRE_LT:
        return deadline_ms < key->deadline_ms;
    case EXPIRE_ALWAYS:
    case EXPIRE_XX:
        break;
    }
    return true;
}

static bool is_past(const struct service *s, struct slice text, uint64_t unit_ms, bool is_absolute)
{
    int64_t number;
    if (!resp_parse_number(text, &number)) {
        return false;
    }
    return number <= 0 || (is_absolute && (uint64_t)number <= UINT64_MAX / unit_ms &&
                           (uint64_t)number * unit_ms <= s->gateway.wall_ms(s->gateway.ctx));
}

static void set_deadline(struct keyspace *k, struct key *key, uint32_t ttl_ms,
                         const struct key_sink *to)
{
    if (key->kind == KEY_LOCK) {
        to->error(to->ctx, "ERR",
                  "the lock was taken through another API: only its holder may renew it, there");
    } else if (!key_is_own(k, key) && k->now_ms + ttl_ms < key->deadline_ms) {
        to->error(
            to->ctx, "ERR",
            "the lock is held by another connection: its life may be made longer, not shorter, "
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
    enum expire_rule rule;
    uint32_t ttl_ms = 0;
    uint64_t unit_ms = args[0].data[0] == 'p' || args[0].data[0] == 'P' ? 1 : 1000;
    bool is_absolute = args[0].data[args[0].len - 1] == 't' || args[0].data[args[0].len - 1] == 'T';
    if (!read_rule(args, count, &rule)) {
        to->error(to->ctx, "ERR",
                  "NX and XX, GT or LT options at the same time are not compatible");
        return;
    }
    bool ends_it = is_past(k->service, args[2], unit_ms, is_absolute);
    const char *problem =
        ends_it ? NULL : resp_ttl_ms(k->service, args[2], unit_ms, is_absolute, &ttl_ms);
    if (problem != NULL) {
        to->error(to->ctx, "ERR", problem);
        return;
    }
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    if (key->kind == KEY_COUNTER) {
        to->error(to->ctx, "ERR", "a counter has no TTL here; DEL it when it is not needed");
    } else if (!key_is_present(key) || !rule_holds(rule, key, k->now_ms + ttl_ms)) {
        to->integer(to->ctx, 0);
    } else if (!ends_it) {
        set_deadline(k, key, ttl_ms, to);
    } else if (key_may_drop(k, key, to)) {
        key_drop(k, key);
        to->integer(to->ctx, 1);
    }
}

void key_persist(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)k;
    (void)args;
    (void)count;
    to->error(to->ctx, "ERR", "a lock without a TTL could be held for ever: PERSIST is refused");
}

/* ---- counters ---- */

/* INCR, DECR, INCRBY, DECRBY: counters are apart from the locks, and have no TTL. */
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
    if (key->kind != KEY_ABSENT && key->kind != KEY_COUNTER) {
        to->error(to->ctx, "WRONGTYPE", "the key is a lock; INCR counts in keys of its own");
        return;
    }
    int64_t number = key->kind == KEY_COUNTER ? key->number : 0;
    bool overflows = is_down ? __builtin_sub_overflow(number, by, &number)
                             : __builtin_add_overflow(number, by, &number);
    if (overflows) {
        to->error(to->ctx, "ERR", "increment or decrement would overflow");
        return;
    }
    key_set_number(key, number);
    to->integer(to->ctx, number);
}

void key_publish(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    if (keyspace_publish(k, args[1], args[2], to)) {
        to->integer(to->ctx, (int64_t)resp_pubsub_receivers(k->service, args[1]));
    }
}
