/* TTLs and values of keys and counters: what a client may set, and what a key gets without one. Before version 8 of
 * the state a key has a TTL of at most 24 h, as a lock of the other APIs (S13.1). */
#include <inttypes.h>
#include <stdio.h>

#include "service/resp/conn.h"
#include "service/resp/number.h"

bool resp_is_upgraded(const struct service *s)
{
    return core_version(service_core(s)) >= 8;
}

static bool has_default_max(const struct service *s)
{
    return s->options.resp_ttl_max_ms == LIMIT_KEY_TTL_MAX_MS;
}

bool resp_ttl_may_be_none(const struct service *s)
{
    return resp_is_upgraded(s) && has_default_max(s);
}

uint64_t resp_ttl_default_ms(const struct service *s)
{
    return !resp_is_upgraded(s) ? LIMIT_TTL_MAX_MS
           : has_default_max(s) ? TTL_NONE
                                : s->options.resp_ttl_max_ms;
}

/* As Redis reports a time that cannot be one. */
static const char *not_a_time(const struct service *s, struct resp_time time)
{
    char word[16] = "";
    for (size_t i = 0; i < time.command.len && i + 1 < sizeof(word); i++) {
        uint8_t c = time.command.data[i];
        word[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    snprintf(s->resp->ttl_problem, sizeof(s->resp->ttl_problem),
             "invalid expire time in '%s' command", word);
    return s->resp->ttl_problem;
}

static const char *out_of_range(const struct service *s)
{
    if (resp_is_upgraded(s)) {
        snprintf(s->resp->ttl_problem, sizeof(s->resp->ttl_problem),
                 "invalid expire time: a key lives for at least resp-ttl-min = %" PRIu64
                 " ms and at most resp-ttl-max = %" PRIu64 " ms; do not retry with the same time",
                 s->options.resp_ttl_min_ms, s->options.resp_ttl_max_ms);
    } else {
        snprintf(s->resp->ttl_problem, sizeof(s->resp->ttl_problem),
                 "invalid expire time: a lock lives for at least ttl-min = %" PRIu32
                 " ms and at most %" PRIu32
                 " ms (24 h) until all nodes are upgraded; do not retry with the same time",
                 s->options.ttl_min_ms, LIMIT_TTL_MAX_MS);
    }
    return s->resp->ttl_problem;
}

/* A time that is over is 1 ms: Redis sets such a key and removes it at once. */
static const char *read_ms(const struct service *s, struct resp_time time, uint64_t *ms)
{
    int64_t number;
    if (!resp_parse_number(time.text, &number)) {
        return "value is not an integer or out of range";
    }
    if (number <= 0 || (uint64_t)number > (uint64_t)INT64_MAX / time.unit_ms) {
        return not_a_time(s, time);
    }
    *ms = (uint64_t)number * time.unit_ms;
    if (time.is_absolute) {
        uint64_t now_ms = s->gateway.wall_ms(s->gateway.ctx);
        *ms = *ms > now_ms ? *ms - now_ms : 1;
    }
    return NULL;
}

const char *resp_ttl_ms(const struct service *s, struct resp_time time, uint64_t *ttl_ms)
{
    bool is_upgraded = resp_is_upgraded(s);
    uint64_t min_ms = is_upgraded ? s->options.resp_ttl_min_ms : s->options.ttl_min_ms;
    uint64_t max_ms = is_upgraded ? s->options.resp_ttl_max_ms : LIMIT_TTL_MAX_MS;
    uint64_t ms = 0;
    const char *problem = read_ms(s, time, &ms);
    if (problem == NULL && (ms < min_ms || ms > max_ms)) {
        problem = out_of_range(s);
    }
    *ttl_ms = problem == NULL ? ms : *ttl_ms;
    return problem;
}

const char *resp_counter_ttl_ms(const struct service *s, struct resp_time time, uint64_t *ttl_ms)
{
    uint64_t ms = 0;
    const char *problem = read_ms(s, time, &ms);
    if (problem == NULL && resp_is_upgraded(s) && ms > LIMIT_KEY_TTL_MAX_MS) {
        problem = "invalid expire time: a counter lives for at most 315360000000 ms (10 years)";
    } else if (problem == NULL && !resp_is_upgraded(s) && ms > LIMIT_COUNTER_TTL_7_MS) {
        problem = "invalid expire time: a counter lives for at most 2678400000 ms (31 days) until "
                  "all nodes are upgraded";
    }
    *ttl_ms = problem == NULL ? ms : *ttl_ms;
    return problem;
}

size_t resp_value_max(const struct service *s)
{
    return core_version(service_core(s)) >= 9 ? s->options.resp_value_max : LIMIT_VALUE;
}

void resp_value_too_long(const struct service *s, const char *what, const struct key_sink *to)
{
    char text[128];
    snprintf(text, sizeof(text), "%s at most %zu bytes (resp-value-max)", what, resp_value_max(s));
    to->error(to->ctx, "ERR", text);
}
