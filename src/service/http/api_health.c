/* The probes /livez and /readyz, in the form of Kubernetes' own: "ok", with `verbose` one line for each
 * check, with `format=json` an object. They need no credentials, so reasons have numbers and no addresses. */
#include <stdarg.h>
#include <stdio.h>

#include "service/http/api.h"

enum { CHECKS_MAX = 4, REASON = 128, LINES_MAX = 1024, VOTERS_MAX = 64 };

struct probe_check {
    const char *name;
    bool is_good;
    char reason[REASON]; /* of a failed one */
};

struct probe {
    const char *name;
    const char *bad; /* the answer without `verbose` */
    struct probe_check checks[CHECKS_MAX];
    unsigned count;
    bool is_good;
};

__attribute__((format(printf, 4, 5))) static void add_check(struct probe *p, const char *name,
                                                            bool is_good, const char *format, ...)
{
    hf_assert(p->count < CHECKS_MAX);
    struct probe_check *check = &p->checks[p->count++];
    *check = (struct probe_check){.name = name, .is_good = is_good};
    p->is_good = p->is_good && is_good;
    if (!is_good) {
        va_list list;
        va_start(list, format);
        (void)vsnprintf(check->reason, sizeof(check->reason), format, list);
        va_end(list);
    }
}

static struct probe live(void)
{
    struct probe p = {.name = "livez", .bad = "not live\n", .is_good = true};
    add_check(&p, "loop", true, "-"); /* it answers */
    return p;
}

static void count_voters(struct service *s, unsigned *voters, unsigned *reached)
{
    const struct gateway *g = &s->gateway;
    struct gateway_member members[VOTERS_MAX];
    uint32_t count = g->members == NULL ? 0 : g->members(g->ctx, members, VOTERS_MAX);
    *voters = 0;
    *reached = 0;
    for (uint32_t i = 0; i < count && i < VOTERS_MAX; i++) {
        *voters += members[i].voter ? 1 : 0;
        *reached += members[i].voter && members[i].healthy ? 1 : 0;
    }
}

static struct probe ready(struct service *s)
{
    struct probe p = {.name = "readyz", .bad = "not ready\n", .is_good = true};
    struct gateway_status status;
    unsigned voters;
    unsigned reached;
    s->gateway.status(s->gateway.ctx, &status);
    count_voters(s, &voters, &reached);
    add_check(&p, "leader", status.leader != 0,
              "no leader is known; this node reaches %u of %u voters, %u are needed", reached,
              voters, voters / 2 + 1);
    if (status.leader == status.node) {
        add_check(&p, "serving", status.serving, "this node was elected and does not serve yet");
    } else if (status.leader != 0) {
        add_check(&p, "serving", status.serving, "this node does not reach the leader, node %llu",
                  (unsigned long long)status.leader);
    } else {
        add_check(&p, "serving", status.serving, "there is no leader that serves");
    }
    add_check(&p, "draining", !s->draining, "this node is stopping; use another node");
    return p;
}

static struct slice write_lines(const struct probe *p, char out[LINES_MAX])
{
    int len = 0;
    for (unsigned i = 0; i < p->count; i++) {
        const struct probe_check *check = &p->checks[i];
        len += snprintf(out + len, (size_t)(LINES_MAX - len), "[%c]%s %s%s\n",
                        check->is_good ? '+' : '-', check->name,
                        check->is_good ? "ok" : "failed: ", check->reason);
        hf_assert(len < LINES_MAX);
    }
    len += snprintf(out + len, (size_t)(LINES_MAX - len), "%s check %s\n", p->name,
                    p->is_good ? "passed" : "failed");
    hf_assert(len < LINES_MAX);
    return slice_make(out, (size_t)len);
}

static void write_json(const struct probe *p, struct json_writer *w)
{
    json_put_text(w, "status", p->is_good ? "ok" : "failed");
    json_put_open(w, "checks", '[');
    for (unsigned i = 0; i < p->count; i++) {
        json_write_open(w, '{');
        json_put_text(w, "name", p->checks[i].name);
        json_put_bool(w, "ok", p->checks[i].is_good);
        if (!p->checks[i].is_good) {
            json_put_text(w, "reason", p->checks[i].reason);
        }
        json_write_close(w);
    }
    json_write_close(w);
}

static void render_live(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct probe p = live();
    write_json(&p, w);
}

static void render_ready(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct probe p = ready(x->service);
    write_json(&p, w);
}

static void answer(struct api_request *x, const struct probe *p, render_fn render)
{
    char lines[LINES_MAX];
    struct slice format = slice_of("text");
    struct slice ignored;
    int status = p->is_good ? 200 : 503;
    (void)uri_query_text(x->parameters, "format", &format);
    if (slice_equal(format, slice_of("json"))) {
        api_request_answer_json(x, status, render);
    } else if (!slice_equal(format, slice_of("text"))) {
        api_request_fail(x, HF_FIELD_RANGE, "format: must be text or json");
    } else {
        bool is_verbose = uri_query_text(x->parameters, "verbose", &ignored);
        api_request_answer_text(x, status, "text/plain; charset=utf-8",
                                is_verbose   ? write_lines(p, lines)
                                : p->is_good ? slice_of("ok\n")
                                             : slice_of(p->bad));
    }
}

void api_livez(struct api_request *x)
{
    struct probe p = live();
    answer(x, &p, render_live);
}

void api_readyz(struct api_request *x)
{
    struct probe p = ready(x->service);
    answer(x, &p, render_ready);
}
