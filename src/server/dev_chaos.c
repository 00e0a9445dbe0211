/* See dev_chaos.h. */
#include "server/dev_chaos.h"

#include <signal.h>
#include <string.h>

#include "base/panic.h"
#include "server/dev_print.h"

enum { RETRY_MS = 100 }; /* a due fault that is not allowed yet */

/* splitmix64: the same numbers on every machine. */
static uint64_t draw(struct dev_chaos *chaos)
{
    uint64_t z = chaos->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t draw_between(struct dev_chaos *chaos, uint64_t from, uint64_t to)
{
    hf_assert(from < to);
    return (int64_t)(from + draw(chaos) % (to - from));
}

struct dev_fault dev_chaos_draw(struct dev_chaos *chaos, unsigned nodes)
{
    uint64_t interval = chaos->interval_ms;
    struct dev_fault fault;
    fault.node = (unsigned)(draw(chaos) % nodes);
    fault.is_kill = (draw(chaos) & 1) != 0;
    fault.stop_ms = draw_between(chaos, interval / 4, interval * 3 / 4);
    fault.after_ms = draw_between(chaos, interval / 2, interval * 3 / 2);
    return fault;
}

static void plan(struct dev_chaos *chaos, const struct dev_cluster *c, int64_t now_ms)
{
    chaos->planned = dev_chaos_draw(chaos, c->count);
    chaos->due_ms = now_ms + chaos->planned.after_ms;
}

void dev_chaos_begin(struct dev_chaos *chaos, const struct dev_cluster *c, uint64_t seed,
                     uint64_t interval_ms, int64_t now_ms)
{
    *chaos = (struct dev_chaos){.interval_ms = interval_ms, .random = seed};
    if (interval_ms != 0) {
        hf_assert(c->count >= DEV_CHAOS_NODES_MIN);
        plan(chaos, c, now_ms);
    }
}

bool dev_chaos_is_away(const struct dev_chaos *chaos, const struct dev_cluster *c, unsigned node,
                       int64_t now_ms)
{
    const struct dev_node *n = &c->nodes[node];
    return n->pid == 0 || !n->ready || n->pid == chaos->killed[node] ||
           n->pid == chaos->stopped[node] || now_ms < chaos->settled_ms[node];
}

bool dev_chaos_is_allowed(const struct dev_chaos *chaos, const struct dev_cluster *c,
                          int64_t now_ms)
{
    unsigned away = 0;
    for (unsigned i = 0; i < c->count; i++) {
        away += dev_chaos_is_away(chaos, c, i, now_ms) ? 1 : 0;
    }
    return away + 1 <= (c->count - 1) / 2 &&
           !dev_chaos_is_away(chaos, c, chaos->planned.node, now_ms);
}

static int until(int64_t at_ms, int64_t now_ms)
{
    return at_ms > now_ms ? (int)(at_ms - now_ms) : 0;
}

int dev_chaos_in_ms(const struct dev_chaos *chaos, const struct dev_cluster *c, int64_t now_ms)
{
    if (chaos->interval_ms == 0) {
        return -1;
    }
    int least_ms = until(chaos->due_ms, now_ms);
    if (least_ms == 0 && !dev_chaos_is_allowed(chaos, c, now_ms)) {
        least_ms = RETRY_MS;
    }
    for (unsigned i = 0; i < c->count; i++) {
        if (chaos->stopped[i] != 0 && until(chaos->continue_ms[i], now_ms) < least_ms) {
            least_ms = until(chaos->continue_ms[i], now_ms);
        }
    }
    return least_ms;
}

static void continue_due(struct dev_chaos *chaos, const struct dev_cluster *c, int64_t now_ms)
{
    for (unsigned i = 0; i < c->count; i++) {
        if (chaos->stopped[i] == 0 || now_ms < chaos->continue_ms[i]) {
            continue;
        }
        if (chaos->stopped[i] == c->nodes[i].pid) { /* else it has ended meanwhile */
            (void)kill(chaos->stopped[i], SIGCONT);
            chaos->settled_ms[i] = now_ms + DEV_CHAOS_SETTLE_MS;
            dev_print_continued(&c->nodes[i]);
        }
        chaos->stopped[i] = 0;
    }
}

static void inject(struct dev_chaos *chaos, const struct dev_cluster *c, int64_t now_ms)
{
    const struct dev_fault *fault = &chaos->planned;
    const struct dev_node *node = &c->nodes[fault->node];
    hf_assert(node->pid > 0);
    if (fault->is_kill) {
        chaos->killed[fault->node] = node->pid; /* its end is printed by dev.c */
        (void)kill(node->pid, SIGKILL);
    } else {
        chaos->stopped[fault->node] = node->pid;
        chaos->continue_ms[fault->node] = now_ms + fault->stop_ms;
        (void)kill(node->pid, SIGSTOP);
        dev_print_stopped(node, fault->stop_ms);
    }
}

/* It failed too often and will not start again. */
static bool is_given_up(const struct dev_node *node)
{
    return node->pid == 0 && node->restart.due_ms == 0;
}

void dev_chaos_run(struct dev_chaos *chaos, const struct dev_cluster *c, int64_t now_ms)
{
    if (chaos->interval_ms == 0) {
        return;
    }
    continue_due(chaos, c, now_ms);
    if (now_ms < chaos->due_ms) {
        return;
    }
    if (dev_chaos_is_allowed(chaos, c, now_ms)) {
        inject(chaos, c, now_ms);
        plan(chaos, c, now_ms);
    } else if (is_given_up(&c->nodes[chaos->planned.node])) {
        plan(chaos, c, now_ms);
    }
}
