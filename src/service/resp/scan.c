/* SCAN and DBSIZE, over the paged list of names (S9.2): locks, then counters. One more bit of the
 * cursor selects which. */
#include "service/resp/conn.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/resp/number.h"

#define SCAN_COUNTERS (UINT64_C(1) << 40)

enum { DBSIZE_PAGES = 64, KEYS_PAGES = 64, KEYS_MAX = 10000 };

struct found {
    struct found *next;
    struct slice name;
};

enum scan_type {
    SCAN_ANY,
    SCAN_STRING,
    SCAN_HASH,
    SCAN_LIST,
    SCAN_SORTED_SET,
    SCAN_SET,
    SCAN_OTHER
};

struct scan {
    struct keyspace *k;
    struct slice match; /* empty: everything */
    enum scan_type type;
    uint32_t limit;
    uint32_t count;
    bool is_full; /* out of memory: the client gets an error */
    struct found *first;
    struct found **last;
};

/* False: not in the client's database. */
static bool key_of(const struct keyspace *k, struct slice name, uint8_t out[RESP_KEY_MAX],
                   struct slice *key)
{
    *key = name;
    return !resp_is_upgraded(k->service) || resp_key_of_name(k->database, name, out, key);
}

static void add(struct scan *scan, struct slice name)
{
    uint8_t bytes[RESP_KEY_MAX];
    struct slice key;
    if (!key_of(scan->k, name, bytes, &key) ||
        (scan->match.len > 0 && !resp_matches(scan->match, key)) ||
        !caller_may(service_policy(scan->k->service), scan->k->who, RIGHT_READ, name)) {
        return;
    }
    struct found *found = bump_take(&scan->k->arena, sizeof(*found));
    uint8_t *copy = found == NULL || key.data != bytes ? NULL : bump_take(&scan->k->arena, key.len);
    if (found == NULL || (key.data == bytes && copy == NULL)) {
        scan->is_full = true;
        return;
    }
    if (copy != NULL) {
        memcpy(copy, key.data, key.len);
        key.data = copy;
    }
    *found = (struct found){NULL, key};
    *scan->last = found;
    scan->last = &found->next;
    scan->count++;
}

/* As TYPE answers: whatever is no other type is a string. */
static enum scan_type type_of(enum key_kind kind)
{
    return kind == KEY_HASH         ? SCAN_HASH
           : kind == KEY_LIST       ? SCAN_LIST
           : kind == KEY_SORTED_SET ? SCAN_SORTED_SET
           : kind == KEY_SET        ? SCAN_SET
                                    : SCAN_STRING;
}

static void on_lock(void *ctx, const struct lock_view *lock)
{
    struct scan *scan = ctx;
    if (!lock->has_holder) {
        return; /* has waiters or a lock-delay only: not a key */
    }
    if (scan->type != SCAN_ANY) {
        struct key_view view;
        view_key(scan->k->core, scan->k->who.tenant, lock->name, &view);
        if (type_of(view.kind) != scan->type) {
            return;
        }
    }
    add(scan, lock->name);
}

static void on_counter(void *ctx, struct slice name, int64_t number)
{
    (void)number;
    struct scan *scan = ctx;
    if (scan->type == SCAN_ANY || scan->type == SCAN_STRING) {
        add(scan, name);
    }
}

static const char *read_options(const struct slice *args, uint32_t count, struct scan *scan)
{
    for (uint32_t i = 2; i < count; i += 2) {
        int64_t number;
        if (i + 1 == count) {
            return "syntax error";
        }
        if (resp_is_word(args[i], "MATCH")) {
            scan->match = args[i + 1];
        } else if (resp_is_word(args[i], "COUNT")) {
            if (!resp_parse_number(args[i + 1], &number)) {
                return "value is not an integer or out of range";
            }
            if (number < 1) {
                return "syntax error";
            }
            scan->limit = number < LIMIT_PAGE_MAX ? (uint32_t)number : LIMIT_PAGE_MAX;
        } else if (resp_is_word(args[i], "TYPE")) {
            scan->type = resp_is_word(args[i + 1], "STRING") ? SCAN_STRING
                         : resp_is_word(args[i + 1], "HASH") ? SCAN_HASH
                         : resp_is_word(args[i + 1], "LIST") ? SCAN_LIST
                         : resp_is_word(args[i + 1], "ZSET") ? SCAN_SORTED_SET
                         : resp_is_word(args[i + 1], "SET")  ? SCAN_SET
                                                             : SCAN_OTHER;
        } else {
            return "syntax error";
        }
    }
    return NULL;
}

/* Of the names that can match. An encoded name does not begin as its key does. */
static struct slice prefix_of(const struct keyspace *k, struct slice match)
{
    size_t len = 0;
    if (resp_is_upgraded(k->service)) {
        return resp_name_prefix(k->database);
    }
    while (len < match.len && memchr("*?[\\", match.data[len], 4) == NULL) {
        len++;
    }
    return slice_make(match.data, len);
}

static uint64_t scan_page(struct scan *scan, uint64_t cursor)
{
    const struct core *core = scan->k->core;
    uint32_t tenant = scan->k->who.tenant;
    if (scan->type == SCAN_OTHER) {
        return 0;
    }
    if (cursor < SCAN_COUNTERS) {
        uint64_t next = view_locks(core, tenant, prefix_of(scan->k, scan->match), cursor,
                                   scan->limit, on_lock, scan);
        return next == VIEW_END ? SCAN_COUNTERS : next;
    }
    uint64_t next =
        view_counters(core, tenant, cursor - SCAN_COUNTERS, scan->limit, on_counter, scan);
    return next == VIEW_END ? 0 : next + SCAN_COUNTERS;
}

/* False: the error was sent. The caller may read some name; others are left out. */
static bool may_list(struct keyspace *k, const struct key_sink *to)
{
    const struct policy *p = service_policy(k->service);
    if (k->who.principal == 0 ||
        policy_allows_some(p, k->who.principal, k->who.tenant, RIGHT_READ)) {
        return true;
    }
    keyspace_deny(k, RIGHT_READ, slice_make(NULL, 0), to);
    return false;
}

void key_scan(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct scan scan = {.k = k, .limit = 10, .last = &scan.first};
    int64_t cursor;
    if (!resp_parse_number(args[1], &cursor) || cursor < 0 ||
        (uint64_t)cursor > SCAN_COUNTERS + VIEW_END || cursor == VIEW_END) {
        to->error(to->ctx, "ERR", "invalid cursor");
        return;
    }
    const char *problem = read_options(args, count, &scan);
    if (problem != NULL) {
        to->error(to->ctx, "ERR", problem);
        return;
    }
    if (!may_list(k, to)) {
        return;
    }
    uint64_t next = scan_page(&scan, (uint64_t)cursor);
    if (scan.is_full) {
        to->error(to->ctx, "ERR", "the page is too large: use a lower COUNT");
        return;
    }
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRIu64, next);
    to->array(to->ctx, 2);
    to->bulk(to->ctx, slice_make(text, (size_t)len));
    to->array(to->ctx, scan.count);
    for (const struct found *found = scan.first; found != NULL; found = found->next) {
        to->bulk(to->ctx, found->name);
    }
}

/* All names that match, if they are not too many for one reply. */
void key_keys(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    struct scan scan = {.k = k, .limit = LIMIT_PAGE_MAX, .match = args[1], .last = &scan.first};
    uint64_t cursor = 0;
    if (!may_list(k, to)) {
        return;
    }
    for (uint32_t i = 0; i < KEYS_PAGES; i++) {
        cursor = scan_page(&scan, cursor);
        if (cursor == 0 || scan.count > KEYS_MAX || scan.is_full) {
            break;
        }
    }
    if (cursor != 0 || scan.count > KEYS_MAX || scan.is_full) {
        to->error(to->ctx, "ERR", "KEYS finds at most 10,000 keys: use SCAN with MATCH");
        return;
    }
    to->array(to->ctx, scan.count);
    for (const struct found *found = scan.first; found != NULL; found = found->next) {
        to->bulk(to->ctx, found->name);
    }
}

static void count_lock(void *ctx, const struct lock_view *lock)
{
    struct scan *scan = ctx;
    uint8_t bytes[RESP_KEY_MAX];
    struct slice key;
    scan->count +=
        key_of(scan->k, lock->name, bytes, &key) &&
        caller_may(service_policy(scan->k->service), scan->k->who, RIGHT_READ, lock->name);
}

/* Of one tenant, as far as the caller may read them and one page reaches. */
static void count_own(struct keyspace *k, const struct key_sink *to)
{
    struct scan scan = {.k = k};
    uint64_t next = 0;
    for (uint32_t i = 0; i < DBSIZE_PAGES && next != VIEW_END; i++) {
        next = view_locks(k->core, k->who.tenant, resp_name_prefix(k->database), next,
                          LIMIT_PAGE_MAX, count_lock, &scan);
    }
    to->integer(to->ctx, scan.count);
}

/* Names held, with waiters or with a lock-delay, like `holdfast ls`. Without rights, database 0 counts
 * those of all databases: they need no walk. */
void key_dbsize(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)args;
    (void)count;
    struct core_stats stats;
    if (!may_list(k, to)) {
        return;
    }
    if (k->who.principal != 0 || k->database != 0) {
        count_own(k, to);
        return;
    }
    core_stats(k->core, &stats);
    to->integer(to->ctx, (int64_t)stats.names);
}
