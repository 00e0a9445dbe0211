/* SET and its variants: do_set with other options. NX acquires a lock; acquire.c submits it as an
 * acquire where only the lock decides the reply. Without NX, SET changes the value of the caller's
 * lock, or acquires a free one. */
#include "service/resp/conn.h"

#include "service/resp/number.h"

struct set_options {
    bool nx;
    bool xx;
    bool get;
    bool is_number; /* replies 1 or 0, as SETNX does */
    bool keep_ttl;
    bool has_ttl;
    uint64_t ttl_ms;
    const char *problem; /* NULL: none */
};

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
        struct resp_time time = {value, is_seconds ? 1000 : 1, is_absolute, slice_of("set")};
        o->problem = resp_ttl_ms(s, time, &o->ttl_ms);
    }
    return true;
}

/* After the value. */
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

bool resp_set_is_acquire(const struct service *s, const struct slice *args, uint32_t count,
                         struct resp_set *out)
{
    struct set_options o;
    if (count < 4 || args[2].len > LIMIT_VALUE) {
        return false;
    }
    read_options(s, args, count, &o);
    if (o.problem != NULL || !o.nx || o.get || o.keep_ttl) {
        return false;
    }
    *out = (struct resp_set){.value = args[2],
                             .ttl_ms = o.has_ttl ? o.ttl_ms : resp_ttl_default_ms(s)};
    return true;
}

/* `old`: the key before the command; GET always replies with its value. */
static void reply(const struct set_options *o, bool is_set, const struct key *old,
                  const struct key_sink *to)
{
    if (o->is_number) {
        to->integer(to->ctx, is_set);
    } else if (o->get && old->kind == KEY_STRING) {
        to->bulk(to->ctx, old->value);
    } else if (o->get || !is_set) {
        to->null(to->ctx);
    } else {
        to->status(to->ctx, "OK");
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
            "the lock is free, but a lock-delay or a queue prevents acquiring it; try again later");
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

/* SET without NX requests no lock: the key that it makes is a value, which has no owner (S13.9).
 * Except in a script that has looked first: that is how some libraries acquire a lock. */
static bool makes_value(const struct keyspace *k, const struct key *key,
                        const struct set_options *o)
{
    bool has_looked = k->is_script && (key->is_examined || key->is_compared);
    return !o->nx && !has_looked && resp_is_upgraded(k->service);
}

static void do_set(struct keyspace *k, struct slice name, struct slice value,
                   const struct set_options *o, const struct key_sink *to)
{
    if (value.len > resp_value_max(k->service)) {
        resp_value_too_long(k->service, "a value is", to);
        return;
    }
    struct key *key = keyspace_key(k, name, to);
    if (key == NULL) {
        return;
    }
    if (o->get && key_is_present(key) && key->kind != KEY_STRING) {
        to->error(to->ctx, "WRONGTYPE", KEY_WRONG_TYPE);
        return;
    }
    bool is_there = key_is_present(key);
    if ((o->nx && (is_there || key->kind == KEY_RESERVED)) || (o->xx && !is_there)) {
        reply(o, false, key, to);
        return;
    }
    if (!may_replace(k, key, to) || !keyspace_copy(k, &value, to)) {
        return;
    }
    struct key old = *key;
    uint64_t ttl_ms = o->keep_ttl && is_there ? 0
                      : o->has_ttl            ? o->ttl_ms
                                              : resp_ttl_default_ms(k->service);
    key->is_value = key->kind == KEY_ABSENT ? makes_value(k, key, o) : key->is_value;
    key_put(k, key, KEY_STRING, value, ttl_ms);
    reply(o, true, &old, to);
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
    do_set(k, args[1], args[2], &(struct set_options){.nx = true, .is_number = true}, to);
}

/* SETEX and PSETEX: key, time, value. */
void key_setex(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    struct set_options o = {.has_ttl = true};
    struct resp_time time = {args[2], resp_is_word(args[0], "SETEX") ? 1000 : 1, false, args[0]};
    o.problem = resp_ttl_ms(k->service, time, &o.ttl_ms);
    if (o.problem != NULL) {
        to->error(to->ctx, "ERR", o.problem);
        return;
    }
    do_set(k, args[1], args[3], &o, to);
}

/* Pairs of valid keys and values, after the name. */
static bool are_pairs(const struct keyspace *k, const struct slice *args, uint32_t count,
                      const struct key_sink *to)
{
    if (count % 2 == 0) {
        to->error(to->ctx, "ERR",
                  resp_is_word(args[0], "MSET") ? "wrong number of arguments for 'mset' command"
                                                : "wrong number of arguments for 'msetnx' command");
        return false;
    }
    for (uint32_t i = 2; i < count; i += 2) {
        if (args[i].len > resp_value_max(k->service)) {
            resp_value_too_long(k->service, "a value is", to);
            return false;
        }
    }
    return true;
}

static bool put_pairs(struct keyspace *k, const struct slice *args, uint32_t count, bool are_values,
                      const struct key_sink *to)
{
    for (uint32_t i = 1; i < count; i += 2) {
        struct key *key = keyspace_key(k, args[i], to);
        struct slice value = args[i + 1];
        if (!keyspace_copy(k, &value, to)) {
            return false;
        }
        key->is_value = are_values;
        key_put(k, key, KEY_STRING, value, resp_ttl_default_ms(k->service));
    }
    return true;
}

void key_mset(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    if (!are_pairs(k, args, count, to)) {
        return;
    }
    for (uint32_t i = 1; i < count; i += 2) { /* all or nothing */
        struct key *key = keyspace_key(k, args[i], to);
        if (key == NULL || !may_replace(k, key, to)) {
            return;
        }
    }
    if (put_pairs(k, args, count, resp_is_upgraded(k->service), to)) {
        to->status(to->ctx, "OK");
    }
}

void key_msetnx(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    if (!are_pairs(k, args, count, to)) {
        return;
    }
    bool is_free = true;
    for (uint32_t i = 1; i < count; i += 2) {
        const struct key *key = keyspace_key(k, args[i], to);
        if (key == NULL) {
            return;
        }
        is_free = is_free && key->kind == KEY_ABSENT;
    }
    if (!is_free) {
        to->integer(to->ctx, 0);
    } else if (put_pairs(k, args, count, false, to)) {
        to->integer(to->ctx, 1);
    }
}
