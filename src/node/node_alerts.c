/* Grants past their long-held rule (S16.2). The leader looks for them, a page of names in each step, and
 * reports each once: in the tier CORRECTNESS by a command of the log, which marks the grant on all
 * nodes; in the tier EFFICIENCY by a mark in its own memory. Without a rule nothing is examined. */
#include "core/view.h"
#include "node/node_state.h"

enum {
    ALERT_SINCE = 7,      /* version of the state */
    SCAN_US = 1000000,    /* from the begin of one scan to the begin of the next */
    VISITS_A_STEP = 4000, /* names and holders in one step, approximately */
    REPORTS_A_STEP = 64,  /* grants */
};

/* Copies: an entry of the tier EFFICIENCY changes the state that the page was read from. */
struct alert_report {
    uint32_t tenant;
    uint32_t name_len;
    uint64_t token;
    uint8_t name[LIMIT_NAME];
};

struct alert_page {
    struct alert_report reports[REPORTS_A_STEP];
    uint32_t count;
    bool is_full; /* there may be more */
};

static void on_grant(void *ctx, uint32_t tenant, struct slice name, uint64_t token)
{
    struct alert_page *page = ctx;
    if (page->count == REPORTS_A_STEP) {
        page->is_full = true;
        return;
    }
    struct alert_report *report = &page->reports[page->count++];
    hf_assert(name.len <= LIMIT_NAME);
    report->tenant = tenant;
    report->name_len = (uint32_t)name.len;
    report->token = token;
    memcpy(report->name, name.data, name.len);
}

static bool submit(struct node *n, const struct alert_report *report, struct replica_time now)
{
    struct command c;
    command_init(&c, COMMAND_LONG_HELD);
    c.tenant = report->tenant;
    c.long_held.name = slice_make(report->name, report->name_len);
    c.long_held.token = report->token;
    return n->alerts.in_tier ? memory_tier_report_long_held(n->tier, &c, node_tier_now(n))
                             : replica_submit(n->replica, &c, forward_no_cookie(), now) == HF_OK;
}

/* The page that was read is done: goes on behind it, then in the other tier. */
static void turn_page(struct node *n, uint64_t next)
{
    struct node_alerts *a = &n->alerts;
    a->cursor = next;
    if (next == VIEW_END) {
        a->cursor = 0;
        a->scanning = !a->in_tier && memory_tier_is_on(n->tier);
        a->in_tier = a->scanning;
    }
}

/* A page that is full, or that was refused, is read again: reporting a grant twice is harmless. */
static void read_page(struct node *n, struct replica_time now)
{
    struct node_alerts *a = &n->alerts;
    const struct core *core = a->in_tier ? memory_tier_core(n->tier) : replica_core(n->replica);
    struct alert_page page;
    page.count = 0;
    page.is_full = false;
    uint64_t next = view_long_held(core, replica_cluster_ms(n->replica, now), a->cursor,
                                   VISITS_A_STEP, on_grant, &page);
    bool is_done = !page.is_full;
    for (uint32_t i = 0; i < page.count; i++) {
        if (!submit(n, &page.reports[i], now)) {
            is_done = false;
            break;
        }
    }
    if (is_done) {
        turn_page(n, next);
    }
}

void node_step_alerts(struct node *n, struct replica_time now)
{
    struct node_alerts *a = &n->alerts;
    const struct core *core = replica_core(n->replica);
    if (!n->serving || core_version(core) < ALERT_SINCE || !replica_has_majority(n->replica, now)) {
        a->scanning = false; /* without a majority nothing can be reported (S10.1) */
        return;
    }
    if (a->scanning && a->in_tier && !memory_tier_is_on(n->tier)) {
        a->scanning = false;
    }
    if (!a->scanning) {
        if (now.boot_us < a->next_us) {
            return;
        }
        a->next_us = now.boot_us + SCAN_US;
        a->scanning = view_has_alerts(core);
        a->in_tier = false;
        a->cursor = 0;
    }
    if (a->scanning) {
        read_page(n, now);
    }
}
