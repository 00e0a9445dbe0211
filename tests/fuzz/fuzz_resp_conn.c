/* Arbitrary bytes into connections of the Redis protocol, with a cluster behind them that fails,
 * holds back and forgets as the input says. Nothing crashes, every answer is well-formed, there are
 * no more answers than requests could ask for, and when all clients are gone nothing of theirs is
 * left behind but locks, which expire.
 *
 * The input is a script. Each step is a letter and what it needs; connections are numbered 0 to 3.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/view.h"
#include "fake_gateway.h"
#include "service/resp_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTIONS = 4, STEPS_MAX = 400 };

struct party {
    struct resp_conn *conn;
    char *got;
    size_t len;
    size_t size;
};

static struct fake_gateway gateway;
static struct service *service;
static struct party parties[CONNECTIONS];

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
    "HF.TOKEN a",
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
};

static void broken(const char *what, const char *text)
{
    fprintf(stderr, "fuzz_resp_conn: %s: %.200s\n", what, text);
    abort();
}

/* ---- answers ---- */

/* The length of the value at the front, 0 when it is not all there. */
static size_t value_len(const char *text, size_t len, unsigned depth)
{
    const char *end = len == 0 ? NULL : memchr(text, '\n', len);
    if (depth > 8) {
        broken("too deep", text);
    }
    if (end == NULL) {
        return 0;
    }
    size_t line = (size_t)(end - text) + 1;
    if (line < 3 || text[line - 2] != '\r' || memchr(text, '\r', line - 2) != NULL) {
        if (text[0] != '_' || line != 3) {
            broken("a line does not end with CR LF", text);
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
            broken("a bulk string does not end", text);
        }
        return line + (size_t)count + 2;
    case '*':
    case '%':
    case '>':
        break;
    default:
        broken("no value", text);
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

static void take(struct party *p, size_t max)
{
    struct slice out = resp_conn_output(p->conn);
    size_t now = out.len < max ? out.len : max;
    if (now == 0) {
        return;
    }
    if (p->len + now + 1 > p->size) {
        p->size = (p->len + now + 1) * 2;
        p->got = realloc(p->got, p->size);
    }
    memcpy(p->got + p->len, out.data, now);
    p->len += now;
    p->got[p->len] = '\0';
    resp_conn_written(p->conn, now);
    for (size_t used = value_len(p->got, p->len, 0); used > 0;
         used = value_len(p->got, p->len, 0)) {
        p->len -= used;
        memmove(p->got, p->got + used, p->len + 1);
    }
}

/* ---- steps ---- */

static void on_ready(void *owner)
{
    (void)owner;
}

static void open_party(struct party *p)
{
    char address[32];
    snprintf(address, sizeof(address), "10.0.0.%d:1", (int)(p - parties));
    struct resp_conn_options options = {.owner = p, .ready = on_ready, .address = address};
    p->conn = resp_conn_new(service, &options);
    p->len = 0;
}

static void close_party(struct party *p)
{
    if (p->conn != NULL) {
        resp_conn_close(p->conn);
        p->conn = NULL;
    }
}

static void send_to(struct party *p, const void *data, size_t len)
{
    if (p->conn == NULL) {
        open_party(p);
    }
    if (resp_conn_wants_input(p->conn)) {
        resp_conn_receive(p->conn, slice_make(data, len));
    }
}

static void run(void)
{
    (void)fake_gateway_deliver(&gateway);
    service_run(service);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        if (parties[i].conn != NULL && resp_conn_is_finished(parties[i].conn)) {
            close_party(&parties[i]);
        }
    }
}

/* Returns how many bytes the step took. */
static size_t step(const uint8_t *data, size_t size)
{
    struct party *p = &parties[size > 1 ? data[1] % CONNECTIONS : 0];
    uint8_t argument = size > 2 ? data[2] : 0;
    switch (data[0]) {
    case 'q': {
        const char *line = requests[argument % (sizeof(requests) / sizeof(requests[0]))];
        send_to(p, line, strlen(line));
        send_to(p, "\r\n", 2);
        return 3;
    }
    case 's': {
        size_t len = size > 3 && argument < size - 3 ? argument : (size > 3 ? size - 3 : 0);
        send_to(p, data + (len > 0 ? 3 : 0), len);
        return 3 + len;
    }
    case 't':
        if (p->conn != NULL) {
            take(p, argument < 200 ? argument : SIZE_MAX);
        }
        return 3;
    case 'c':
        close_party(p);
        return 2;
    case 'e':
        if (p->conn != NULL) {
            resp_conn_end(p->conn);
        }
        return 2;
    case 'p':
        if (!gateway.is_late) {
            fake_gateway_pass(&gateway, (uint64_t)argument * argument);
        }
        return 3;
    case 'h':
        gateway.is_held = !gateway.is_held;
        return 1;
    case 'l':
        gateway.status.leader = gateway.status.leader == 1 ? 2 : 1;
        return 1;
    case 'f':
        gateway.fails = argument % 4 == 0   ? HF_OK
                        : argument % 4 == 1 ? HF_UNAVAILABLE
                        : argument % 4 == 2 ? HF_OUTCOME_UNKNOWN
                                            : HF_BUSY;
        gateway.does_before = gateway.fails == HF_OUTCOME_UNKNOWN && argument % 8 > 3;
        return 3;
    case 'd':
        service_drain(service);
        return 1;
    default:
        run();
        return 1;
    }
}

static void settle(void)
{
    gateway.is_held = false;
    gateway.fails = HF_OK;
    gateway.does_before = false;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        close_party(&parties[i]);
    }
    for (int i = 0; i < 10; i++) {
        run();
        run();
        fake_gateway_pass(&gateway, 10000000);
    }
    run();
    struct core_stats stats;
    struct service_stats left;
    core_stats(gateway.core, &stats);
    service_stats(service, &left);
    if (left.resp_connections != 0 || left.waiting != 0) {
        broken("something is left", "in the service");
    }
    if (stats.grants != 0) { /* the longest TTL has passed */
        broken("something is held", "in the core");
    }
    const char *problem = core_check_invariants(gateway.core);
    if (problem != NULL) {
        broken("the core is broken", problem);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fake_gateway_open(&gateway);
    struct service_options options = {
        .memory = memory_system(), .gateway = gateway.gateway, .event_bytes = 64 << 10};
    service = service_new(&options);
    gateway.service = service;
    for (int steps = 0; size > 0 && steps < STEPS_MAX; steps++) {
        size_t used = step(data, size);
        used = used < size ? used : size;
        data += used;
        size -= used;
    }
    settle();
    for (size_t i = 0; i < CONNECTIONS; i++) {
        free(parties[i].got);
        parties[i] = (struct party){.conn = NULL};
    }
    service_free(service);
    fake_gateway_close(&gateway);
    return 0;
}
