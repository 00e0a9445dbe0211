/* FLUSHDB and FLUSHALL: removes keys of this protocol, each as by a force-unlock. Locks of other APIs
 * are no keys and stay.
 *
 * A transaction removes at most LIMIT_EFFECTS keys, so the command is a series of transactions along
 * one walk over the names (S9.2): locks and values, then counters. It is not atomic. It does not
 * compare versions, so clients that change the keys meanwhile do not hold it up. The walk ends: what
 * is made behind its position stays. */
#include "service/resp/conn.h"
#include "service/resp/number.h"

/* One more bit of the position selects the counters. */
#define FLUSH_COUNTERS (UINT64_C(1) << 40)
#define FLUSH_END UINT64_MAX

enum {
    FLUSH_PAGES = 8, /* of the list of names, in one run */
    FLUSH_PAGE = LIMIT_EFFECTS / 2
};

struct flush {
    struct keyspace *k;
    bool is_all;
    bool is_full; /* some keys of the page did not fit */
};

static void take(struct flush *f, struct slice name)
{
    uint8_t bytes[RESP_KEY_MAX];
    struct slice key;
    bool is_in = f->is_all || !resp_is_upgraded(f->k->service) ||
                 resp_key_of_name(f->k->database, name, bytes, &key);
    if (is_in && !keyspace_flush(f->k, name)) {
        f->is_full = true;
    }
}

static void on_lock(void *ctx, const struct lock_view *lock)
{
    if (lock->has_holder && lock->first.is_key) {
        take(ctx, lock->name);
    }
}

static void on_counter(void *ctx, struct slice name, int64_t number)
{
    (void)number;
    take(ctx, name);
}

static struct slice prefix_of(const struct flush *f)
{
    return f->is_all ? slice_make("", 0) : resp_name_prefix(f->k->database);
}

static uint64_t walk_page(struct flush *f, uint64_t at)
{
    const struct core *core = f->k->core;
    uint32_t tenant = f->k->who.tenant;
    if (at < FLUSH_COUNTERS) {
        uint64_t next = view_locks(core, tenant, prefix_of(f), at, FLUSH_PAGE, on_lock, f);
        return next == VIEW_END ? FLUSH_COUNTERS : next;
    }
    uint64_t next = view_counters(core, tenant, at - FLUSH_COUNTERS, FLUSH_PAGE, on_counter, f);
    return next == VIEW_END ? FLUSH_END : next + FLUSH_COUNTERS;
}

/* Every name of the database: names of database 0 have no prefix. */
static bool may_flush(const struct flush *f)
{
    const struct policy *p = service_policy(f->k->service);
    struct caller_id who = f->k->who;
    struct slice prefix = prefix_of(f);
    return who.principal == 0 ||
           (prefix.len == 0 ? policy_allows_tenant(p, who.principal, who.tenant, RIGHT_OPERATE)
                            : policy_allows(p, who.principal, who.tenant, RIGHT_OPERATE, prefix));
}

void key_flush(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    struct resp_conn *conn = k->conn;
    struct flush f = {.k = k, .is_all = args[0].len == sizeof("flushall") - 1};
    conn->flush.is_more = false;
    if (count > 2 ||
        (count == 2 && !resp_is_word(args[1], "ASYNC") && !resp_is_word(args[1], "SYNC"))) {
        to->error(to->ctx, "ERR", "syntax error");
        return;
    }
    if (k->service->options.resp_del_refused) {
        to->error(to->ctx, "NOPERM",
                  "FLUSHDB and FLUSHALL delete keys of other connections, which is disabled "
                  "(resp-del = refuse); delete them one by one with force-unlock");
        return;
    }
    if (!may_flush(&f)) {
        keyspace_deny(k, RIGHT_OPERATE, prefix_of(&f), to);
        return;
    }
    k->is_flush = true;
    uint64_t at = conn->flush.cursor;
    for (uint32_t i = 0; i < FLUSH_PAGES && at != FLUSH_END && k->count < LIMIT_EFFECTS; i++) {
        uint64_t next = walk_page(&f, at);
        if (f.is_full) {
            break; /* the rest of this page follows in the next transaction */
        }
        at = next;
    }
    conn->flush.next = at;
    conn->flush.is_more = at != FLUSH_END;
    to->status(to->ctx, "OK");
}
