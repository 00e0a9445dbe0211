/* See dev_restart.h. */
#include "server/dev_restart.h"

bool dev_restart_plan(struct dev_restart *r, struct dev_end end, uint64_t pause_ms, int64_t now_ms)
{
    bool was_steady = now_ms - r->started_ms >= DEV_STEADY_MS;
    bool has_failed = !end.was_ready || (!was_steady && !end.was_signalled);
    r->failures = has_failed ? r->failures + 1 : 0;
    r->due_ms = 0;
    if (r->failures >= DEV_FAILURES_MAX) {
        return false;
    }
    for (unsigned i = 1; i < r->failures; i++) {
        pause_ms = pause_ms < DEV_PAUSE_MAX_MS ? pause_ms * 2 : pause_ms;
    }
    r->due_ms = now_ms + (int64_t)pause_ms;
    return true;
}
