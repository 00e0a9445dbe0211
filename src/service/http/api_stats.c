/* GET /api/v1/stats: the leader's figures, from any node. Totals begin at 0 when a node starts and
 * are those of one node: a reader that makes rates of them begins again when the leader changes. */
#include <inttypes.h>
#include <stdio.h>

#include "service/http/api.h"
#include "service/request/leader_stats.h"

/* Milliseconds with their fraction; null: nothing was measured. */
static void put_us(struct json_writer *w, const char *key, uint64_t us)
{
    char text[32];
    if (us == UINT64_MAX) {
        json_put_null(w, key);
        return;
    }
    (void)snprintf(text, sizeof(text), "%" PRIu64 ".%03" PRIu64, us / 1000, us % 1000);
    json_put_raw(w, key, slice_of(text));
}

static void put_pair(struct json_writer *w, const char *key, const struct latency_pair *latency)
{
    json_put_open(w, key, '{');
    put_us(w, "p50", latency->p50_us);
    put_us(w, "p99", latency->p99_us);
    json_write_close(w);
}

#define PUT_TOTAL(role, since, type, name, limit) json_put_u64(w, #name, stats.name);
#define PUT_LATENCY(role, since, type, name, limit) put_pair(w, #name, &stats.name);

static void render_stats(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct leader_stats stats;
    if (!leader_stats_read(x->service->looked, &stats)) {
        x->refused = HF_NOT_UPGRADED;
        return;
    }
    json_put_u64(w, "node", x->service->node);
    json_put_u64(w, "leader", stats.node);
    json_put_u64(w, "term", stats.term);
    json_put_bool(w, "serving", stats.serving);
    json_put_u64(w, "uptime_ms", stats.uptime_ms);
    json_put_u64(w, "locks", stats.locks);
    json_put_u64(w, "holders", stats.holders);
    json_put_u64(w, "waiters", stats.waiters);
    json_put_u64(w, "sessions", stats.sessions);
    json_put_u64(w, "long_held", stats.long_held);
    json_put_u64(w, "oldest_hold_ms", stats.oldest_hold_ms);
    json_put_open(w, "totals", '{');
    LEADER_TOTALS(PUT_TOTAL)
    json_write_close(w);
    json_put_open(w, "latency_ms", '{');
    LEADER_LATENCIES(PUT_LATENCY)
    json_write_close(w);
}

void api_stats(struct api_request *x)
{
    uint8_t query[LEADER_QUERY_HEAD];
    size_t len = leader_stats_query(query);
    api_request_query(x, slice_make(query, len), render_stats);
}
