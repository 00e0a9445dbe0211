/* SET and its older relatives. SET with NX is the acquire of a lock; resp_acquire.c sends it as
 * such where nothing but the lock decides about the answer. SET without NX changes the value of a
 * lock that is the caller's own, or takes a free one. */
#include "service/resp_conn.h"

#include "base/text.h"
#include "service/resp_number.h"

struct set_options {
    bool nx;
    bool xx;
    bool get;
    bool keep_ttl;
    bool has_ttl;
    uint32_t ttl_ms;
    const char *problem; /* NULL: none */
};

static const char expire_problem[] = "invalid expire time: a lock lives for at least ttl-min (1 s "
                                     "unless it is set otherwise) and at "
                                     "most 24 h";

const char *resp_ttl_ms(const struct service *s, struct slice text, uint64_t unit_ms,
                        bool is_absolute, uint32_t *ttl_ms)
{
    int64_t number;
    if (!resp_parse_number(text, &number)) {
        return "value is not an integer or out of range";
    }
    int64_t most = INT64_MAX / 1000;
    if (number <= 0 || number > most) {
        return expire_problem;
    }
    uint64_t ms = (uint64_t)number * unit_ms;
    if (is_absolute) {
        uint64_t now_ms = s->gateway.wall_ms(s->gateway.ctx);
        ms = ms > now_ms ? ms - now_ms : 0;
    }
    if (ms < s->options.ttl_min_ms || ms > LIMIT_TTL_MAX_MS) {
        return expire_problem;
    }
    *ttl_ms = (uint32_t)ms;
    return NULL;
}

static bool take_ttl(const struct service *s, struct set_options *o, struct slice word,
                     struct slice value)
{
    bool is_seconds = resp_is_word(word, "EX") || resp_is_word(word, "EXAT");
    bool is_absolute = resp_is_word(word, "EXAT") || resp_is_word(word, "PXAT");
    if (!is_seconds && !is_absolute && !resp_is_word(word, "PX")) {
        return false;
    }
    if (o->has_ttl || o->keep_ttl) {
        o->problem = "syntax error";
    } else {
        o->has_ttl = true;
        o->problem = resp_ttl_ms(s, value, is_seconds ? 1000 : 1, is_absolute, &o->ttl_ms);
    }
    return true;
}

/* What stands behind the value. */
static void read_options(const struct service *s, const struct slice *args, uint32_t count,
                         struct set_options *o)
{
    *o = (struct set_options){.problem = NULL};
    for (uint32_t i = 3; i < count && o->problem == NULL; i++) {
        struct slice word = args[i];
        if (resp_is_word(word, "NX") && !o->xx) {
            o->nx = true;
        } else if (resp_is_word(word, "XX") && !o->nx) {
            o->xx = true;
        } else if (resp_is_word(word, "GET")) {
            o->get = true;
        } else if (resp_is_word(word, "KEEPTTL") && !o->has_ttl) {
            o->keep_ttl = true;
        } else if (i + 1 < count && take_ttl(s, o, word, args[i + 1])) {
            i++;
        } else {
            o->problem = "syntax error";
        }
    }
}

bool resp_set_is_acquire(struct service *s, const struct slice *args, uint32_t count,
                         struct resp_set *out)
{
    struct set_options o;
    if (count < 4 || args[2].len > LIMIT_VALUE || !text_is_name(args[1])) {
        return false;
    }
    read_options(s, args, count, &o);
    if (o.problem != NULL || !o.nx || o.get || o.keep_ttl) {
        return false;
    }
    out->name = args[1];
    out->value = args[2];
    out->ttl_ms = o.has_ttl ? o.ttl_ms : LIMIT_TTL_MAX_MS;
    return true;
}

/* ---- over a keyspace ---- */

static void put_old(const struct key *key, const struct key_sink *to)
{
    if (key->kind == KEY_STRING) {
        to->bulk(to->ctx, key->value);
    } else {
        to->null(to->ctx);
    }
}

static bool may_replace(const struct keyspace *k, const struct key *key, const struct key_sink *to)
{
    if (key->kind == KEY_COUNTER) {
        to->error(to->ctx, "WRONGTYPE", "the key is a counter (INCR), not a lock");
        return false;
    }
    if (key->kind == KEY_RESERVED) {
        to->error(
            to->ctx, "ERR",
            "the lock is free and not to be had now: a lock-delay runs, or others wait for it");
        return false;
    }
    if (!key_is_own(k, key)) {
        to->error(to->ctx, "ERR",
                  "the lock is held by another connection: SET it with NX, or compare its value in "
                  "a script");
        return false;
    }
    return true;
}

static void do_set(struct keyspace *k, struct slice name, struct slice value,
                   const struct set_options *o, const struct key_sink *to)
{
    if (value.len > LIMIT_VALUE) {
        to->error(to->ctx, "ERR", "a value is at most 4,096 bytes");
        return;
    }
    struct key *key = keyspace_key(k, name, to);
    if (key == NULL) {
        return;
    }
    if (o->get && (key->kind == KEY_HASH || key->kind == KEY_LOCK || key->kind == KEY_COUNTER)) {
        to->error(to->ctx, "WRONGTYPE", KEY_WRONG_TYPE);
        return;
    }
    bool is_there = key_is_present(key);
    if ((o->nx && (is_there || key->kind == KEY_RESERVED)) || (o->xx && !is_there)) {
        if (o->get) {
            put_old(key, to);
        } else {
            to->null(to->ctx);
        }
        return;
    }
    if (!may_replace(k, key, to) || !keyspace_copy(k, &value, to)) {
        return;
    }
    struct key old = *key;
    uint32_t ttl_ms = o->keep_ttl && is_there ? 0 : o->has_ttl ? o->ttl_ms : LIMIT_TTL_MAX_MS;
    key_put(k, key, KEY_STRING, value, ttl_ms);
    if (o->get) {
        put_old(&old, to);
    } else {
        to->status(to->ctx, "OK");
    }
}

void key_set(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    struct set_options o;
    read_options(k->service, args, count, &o);
    if (o.problem != NULL) {
        to->error(to->ctx, "ERR", o.problem);
        return;
    }
    do_set(k, args[1], args[2], &o, to);
}

void key_setnx(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    struct key *key = keyspace_key(k, args[1], to);
    struct slice value = args[2];
    if (key == NULL) {
        return;
    }
    if (key_is_present(key) || key->kind == KEY_RESERVED) {
        to->integer(to->ctx, 0);
    } else if (value.len > LIMIT_VALUE) {
        to->error(to->ctx, "ERR", "a value is at most 4,096 bytes");
    } else if (keyspace_copy(k, &value, to)) {
        key_put(k, key, KEY_STRING, value, LIMIT_TTL_MAX_MS);
        to->integer(to->ctx, 1);
    }
}

/* SETEX and PSETEX: key, time, value. */
void key_setex(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    struct set_options o = {.has_ttl = true};
    o.problem = resp_ttl_ms(k->service, args[2], resp_is_word(args[0], "SETEX") ? 1000 : 1, false,
                            &o.ttl_ms);
    if (o.problem != NULL) {
        to->error(to->ctx, "ERR", o.problem);
        return;
    }
    do_set(k, args[1], args[3], &o, to);
}
