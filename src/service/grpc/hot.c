/* AdminService: the busiest prefixes of lock names, as http/api_hot.c shows them. */
#include <holdfast/v1/admin.pb-c.h>

#include "service/grpc/rpc.h"
#include "service/request/leader_hot.h"

_Static_assert((int)HOLDFAST__V1__HOT_BY__HOT_BY_CONTENTION == (int)HOT_CONTENTION + 1 &&
                   (int)HOLDFAST__V1__HOT_BY__HOT_BY_HOLD == (int)HOT_HOLD + 1 &&
                   (int)HOLDFAST__V1__HOT_BY__HOT_BY_WAIT == (int)HOT_WAIT + 1 &&
                   (int)HOLDFAST__V1__HOT_BY__HOT_BY_RATE == (int)HOT_RATE + 1,
               "the message has the same measures, after none");

static Holdfast__V1__HotPrefix *put_row(const struct service *s, const struct leader_hot *hot,
                                        const struct hot_row *row)
{
    char tenant[HOT_TENANT_TEXT];
    Holdfast__V1__HotPrefix *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__hot_prefix__init(out);
    out->tenant = rpc_string(s, hot_tenant(service_policy(s), row, tenant));
    out->prefix = rpc_string(s, slice_make(row->prefix, row->prefix_len));
    out->per_second = hot_per_second(hot, row->weight);
    out->error = hot_per_second(hot, row->error);
    out->share = hot_share(hot, row);
    return out;
}

static void render_hot(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct service *s = x->service;
    struct leader_hot hot;
    Holdfast__V1__HotResponse out = HOLDFAST__V1__HOT_RESPONSE__INIT;
    if (!leader_hot_read(s->looked, &hot)) {
        x->refused = HF_NOT_UPGRADED;
        return;
    }
    rpc_render_begin(x->service);
    out.node = s->node;
    out.leader = hot.node;
    out.term = hot.term;
    out.by = (Holdfast__V1__HotBy)(hot.by + 1);
    out.since = rpc_time(s, hot.since_wall_ms);
    out.window = rpc_ms(s, hot.window_us / 1000);
    out.total_per_second = hot_per_second(&hot, hot.total);
    out.prefixes = rpc_alloc(s, HOT_ROWS_MAX * sizeof(*out.prefixes));
    for (uint32_t i = 0; i < hot.count; i++) {
        out.prefixes[out.n_prefixes++] = put_row(s, &hot, &hot.rows[i]);
    }
    rpc_put(x, &out.base);
}

void rpc_hot(struct api_request *x, const void *message)
{
    const Holdfast__V1__HotRequest *m = message;
    int by = m->by == HOLDFAST__V1__HOT_BY__HOT_BY_UNSPECIFIED ? HOT_CONTENTION : (int)m->by - 1;
    uint8_t query[LEADER_HOT_QUERY];
    if (by < 0 || by >= (int)HOT_BY_COUNT) {
        api_request_fail(x, HF_FIELD_RANGE, "by: there is no such measure");
    } else if (m->limit > HOT_ROWS_MAX) {
        api_request_fail(x, HF_FIELD_RANGE, "limit: must be at most 100");
    } else {
        size_t len =
            leader_hot_query((enum hot_by)by, m->limit == 0 ? HOT_ROWS_MAX : m->limit, query);
        api_request_query(x, slice_make(query, len), render_hot);
    }
}
