/* GET /api/v1/hot: the busiest prefixes of lock names, from the leader's memory (node/counts/hot.h). */
#include <stdio.h>

#include "service/http/api.h"
#include "service/request/leader_hot.h"

static void put_number(struct json_writer *w, const char *key, double value)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.6f", value);
    json_put_raw(w, key, slice_of(text));
}

static void put_row(struct api_request *x, struct json_writer *w, const struct leader_hot *hot,
                    const struct hot_row *row)
{
    char tenant[HOT_TENANT_TEXT];
    json_write_open(w, '{');
    json_put_string(w, "tenant", hot_tenant(service_policy(x->service), row, tenant));
    json_put_string(w, "prefix", slice_make(row->prefix, row->prefix_len));
    put_number(w, "per_second", hot_per_second(hot, row->weight));
    put_number(w, "error", hot_per_second(hot, row->error));
    put_number(w, "share", hot_share(hot, row));
    json_write_close(w);
}

static void render_hot(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct leader_hot hot;
    if (!leader_hot_read(x->service->looked, &hot)) {
        x->refused = HF_NOT_UPGRADED;
        return;
    }
    json_put_u64(w, "node", x->service->node);
    json_put_u64(w, "leader", hot.node);
    json_put_u64(w, "term", hot.term);
    json_put_text(w, "by", hot_by_name((enum hot_by)hot.by));
    json_put_time(w, "since", hot.since_wall_ms);
    json_put_u64(w, "window_ms", hot.window_us / 1000);
    put_number(w, "total_per_second", hot_per_second(&hot, hot.total));
    json_put_open(w, "prefixes", '[');
    for (uint32_t i = 0; i < hot.count; i++) {
        put_row(x, w, &hot, &hot.rows[i]);
    }
    json_write_close(w);
}

void api_hot(struct api_request *x)
{
    struct slice text;
    enum hot_by by = HOT_CONTENTION;
    if (uri_query_text(x->parameters, "by", &text)) {
        unsigned i = 0;
        while (i < HOT_BY_COUNT && !slice_is_word(text, hot_by_name((enum hot_by)i))) {
            i++;
        }
        if (i == HOT_BY_COUNT) {
            api_request_fail(x, HF_FIELD_RANGE, "by: must be contention, hold, wait or rate");
            return;
        }
        by = (enum hot_by)i;
    }
    uint8_t query[LEADER_HOT_QUERY];
    uint32_t limit = x->page.limit < HOT_ROWS_MAX ? (uint32_t)x->page.limit : HOT_ROWS_MAX;
    size_t len = leader_hot_query(by, limit, query);
    api_request_query(x, slice_make(query, len), render_hot);
}
