/* Arbitrary bytes into connections of the Redis protocol (parties.h). Nothing crashes, every answer
 * is well-formed, and when all clients are gone nothing of theirs is left behind but locks, which
 * expire.
 *
 * Its own step: l, another node leads, or this one again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parties.h"
#include "service/resp/api.h"

/* What a script would take long to find. */
static const char *const requests[] = {
    "SET a v NX PX 5000",
    "SET a w NX PX 1000",
    "SET a w XX GET",
    "SET a w KEEPTTL",
    "SET b v",
    "GET a",
    "MGET a b c",
    "DEL a b c",
    "PEXPIRE a 2000 GT",
    "EXPIRE a 0",
    "PTTL a",
    "EXISTS a b a",
    "TYPE a",
    "INCR n",
    "DECRBY n 5",
    "DEL n",
    "HSET h f 1 g 2",
    "HINCRBY h f 3",
    "HDEL h f g",
    "HGETALL h",
    "DEL h",
    "HF.TOKEN a v",
    "SCAN 0 MATCH * COUNT 5",
    "DBSIZE",
    "HELLO 3",
    "HELLO 2 SETNAME x",
    "SUBSCRIBE a b",
    "PSUBSCRIBE *",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "PUBLISH a hello",
    "RESET",
    "CLIENT LIST",
    "COMMAND",
    "INFO",
    "QUIT",
    "MULTI",
    "EXEC",
    "DISCARD",
    "EVAL \"return redis.call('get',KEYS[1])\" 1 a",
    /* A release as libraries do it. */
    ("EVAL \"if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end\" 1 a "
     "v"),
    "HF.ACQUIRE a v PX 1000 WAIT 3000",
    "AUTH default/app t-app",
    "AUTH red/read t-read",
    "AUTH default/root t-root",
    "AUTH default/app t-none",
    "HELLO 3 AUTH default/app t-app",
    "FLUSHDB",
    "FLUSHALL SYNC",
    "CLIENT KILL TYPE normal",
    "CLIENT KILL ADDR 10.0.0.1:1 SKIPME no",
    "CLIENT UNBLOCK 1 ERROR",
    "CLIENT REPLY OFF",
    "CLIENT REPLY SKIP",
    "CLIENT REPLY ON",
    "SSUBSCRIBE a b",
    "SUNSUBSCRIBE",
    "SPUBLISH a hello",
    "PUBSUB SHARDCHANNELS",
    "RPUSH l a b",
    "LPUSH l c",
    "LPOP l",
    "RPOP l 2",
    "LREM l 0 a",
    "LRANGE l 0 -1",
    "LINSERT l BEFORE a x",
    "LMOVE l m LEFT RIGHT",
    "BLPOP l m 0",
    "BLPOP l 1",
    "BLMOVE l m RIGHT LEFT 0",
    "DEL l m z",
    "ZADD z 1 a 2 b",
    "ZINCRBY z -1.5 a",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZRANGEBYSCORE z (1 +inf LIMIT 0 1",
    "ZPOPMAX z 2",
    "ZREMRANGEBYRANK z 0 0",
};

/* ---- answers ---- */

/* The length of the value at the front, 0 when it is not all there. */
static size_t value_len(const char *text, size_t len, unsigned depth)
{
    const char *end = len == 0 ? NULL : memchr(text, '\n', len);
    if (depth > 8) {
        parties_broken("too deep", text);
    }
    if (end == NULL) {
        return 0;
    }
    size_t line = (size_t)(end - text) + 1;
    if (line < 3 || text[line - 2] != '\r' || memchr(text, '\r', line - 2) != NULL) {
        if (text[0] != '_' || line != 3) {
            parties_broken("a line does not end with CR LF", text);
        }
    }
    long count = strtol(text + 1, NULL, 10);
    switch (text[0]) {
    case '+':
    case '-':
    case ':':
    case '_':
        return line;
    case '$':
        if (count < 0) {
            return line;
        }
        if (len < line + (size_t)count + 2) {
            return 0;
        }
        if (memcmp(text + line + count, "\r\n", 2) != 0) {
            parties_broken("a bulk string does not end", text);
        }
        return line + (size_t)count + 2;
    case '*':
    case '%':
    case '>':
        break;
    default:
        parties_broken("no value", text);
    }
    count *= text[0] == '%' ? 2 : 1;
    for (long i = 0; i < count; i++) {
        size_t part = value_len(text + line, len - line, depth + 1);
        if (part == 0) {
            return 0;
        }
        line += part;
    }
    return line;
}

static size_t check_answer(struct party *p)
{
    return value_len(p->got, p->len, 0);
}

/* ---- the transport ---- */

PARTIES_CONN(resp)

static void *open_conn(struct party *p, unsigned number)
{
    char address[32];
    snprintf(address, sizeof(address), "10.0.0.%u:1", number);
    struct resp_conn_options options = {
        .owner = p, .ready = parties_ignore, .address = address, .local = "10.0.0.100:4655"};
    return resp_conn_new(parties_service, &options);
}

static void pending(struct party *p, uint8_t which)
{
    const char *line = requests[which % (sizeof(requests) / sizeof(requests[0]))];
    parties_send(p, line, strlen(line));
    parties_send(p, "\r\n", 2);
}

static bool step(uint8_t letter)
{
    struct gateway_status *status = &parties_gateway.status;
    if (letter == 'l') {
        status->leader = status->leader == 1 ? 2 : 1;
    }
    return letter == 'l';
}

/* A key may live for years, or have no TTL (S13.1). */
static void check_deadline(void *ctx, const struct lock_view *lock)
{
    uint32_t *kept = ctx;
    if (!lock->has_holder) {
        return;
    }
    if (lock->first.holder.deadline_ms <= core_now_ms(parties_gateway.core)) {
        parties_broken("something is held past its deadline", "in the core");
    }
    (*kept)++;
}

static void check_rest(const struct core_stats *core, const struct service_stats *service)
{
    if (service->resp_connections != 0 || service->waiting != 0) {
        parties_broken("something is left", "in the service");
    }
    uint32_t kept = 0;
    for (uint32_t tenant = 0; tenant < PARTIES_TENANTS; tenant++) {
        for (uint64_t at = 0; at != VIEW_END;) {
            at = view_locks(parties_gateway.core, tenant, slice_make(NULL, 0), at,
                            LIMIT_LIST_VISITS, check_deadline, &kept);
        }
    }
    if (core->grants != kept) {
        parties_broken("something is held", "under no name");
    }
}

const struct parties_transport parties_resp = {
    .name = "resp",
    .open = open_conn,
    .receive = resp_receive,
    .wants_input = resp_wants_input,
    .end = resp_end,
    .output = resp_output,
    .written = resp_written,
    .is_finished = resp_is_finished,
    .close = resp_close,
    .check = check_answer,
    .pending = pending,
    .step = step,
    .check_rest = check_rest,
    .rest_turns = 10,
    .rest_ms = 10000000,
    .set_peer = resp_set_peer,
};
