/* See client_table.h. */
#include "node/clients/client_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/pool.h"
#include "base/table.h"

/* With at least one connection. */
struct client_host {
    ref self;
    ref next; /* in the table of hosts */
    uint32_t hash;
    uint32_t count;
    struct ip_address ip;
    struct list idle; /* its idle connections, oldest first */
};

enum origin { REMOTE, LOOPBACK, ORIGINS };

struct client_table {
    const struct memory *memory;
    struct client_limits limits;
    uint64_t hash_key;
    struct pool pool; /* hosts */
    struct table hosts;
    uint32_t count[ORIGINS];
    struct list idle[ORIGINS]; /* oldest first */
    uint64_t idle_numbers;
    uint64_t refused;
    uint64_t evicted;
};

static uint32_t host_hash(const void *ctx, const void *object)
{
    (void)ctx;
    return ((const struct client_host *)object)->hash;
}

struct client_table *client_table_new(const struct memory *memory,
                                      const struct client_limits *limits, uint64_t hash_key)
{
    hf_assert(limits->max >= 1 && limits->reserved < limits->max);
    struct client_table *t = memory_alloc(memory, sizeof(*t));
    memset(t, 0, sizeof(*t));
    t->memory = memory;
    t->limits = *limits;
    t->hash_key = hash_key;
    pool_init(&t->pool, memory);
    table_init(&t->hosts, memory, &t->pool, offsetof(struct client_host, next), host_hash, NULL);
    for (int i = 0; i < ORIGINS; i++) {
        list_init(&t->idle[i]);
    }
    return t;
}

void client_table_free(struct client_table *t)
{
    if (t == NULL) {
        return;
    }
    hf_assert(t->count[REMOTE] == 0 && t->count[LOOPBACK] == 0);
    table_close(&t->hosts);
    pool_close(&t->pool);
    memory_free(t->memory, t, sizeof(*t));
}

/* Keyed: an attacker cannot choose addresses whose hashes collide. */
static uint32_t hash_of(const struct client_table *t, const struct ip_address *ip)
{
    return (uint32_t)XXH3_64bits_withSeed(ip->bytes, sizeof(ip->bytes), t->hash_key);
}

static struct client_host *find_host(const struct client_table *t, const struct ip_address *ip)
{
    ref at = table_first(&t->hosts, hash_of(t, ip));
    while (at != 0) {
        struct client_host *host = pool_at(&t->pool, at);
        if (memcmp(&host->ip, ip, sizeof(*ip)) == 0) {
            return host;
        }
        at = host->next;
    }
    return NULL;
}

static struct client_host *add_host(struct client_table *t, const struct ip_address *ip)
{
    ref self;
    struct client_host *host = pool_alloc(&t->pool, sizeof(*host), &self);
    host->self = self;
    host->hash = hash_of(t, ip);
    host->ip = *ip;
    list_init(&host->idle);
    table_insert(&t->hosts, host->hash, self);
    return host;
}

static enum origin origin_of(const struct client_entry *entry)
{
    return entry->is_loopback ? LOOPBACK : REMOTE;
}

void client_table_remove(struct client_table *t, struct client_entry *entry)
{
    struct client_host *host = entry->host;
    if (host == NULL) {
        return;
    }
    entry->host = NULL;
    entry->is_idle = false;
    list_remove(&entry->idle);
    list_remove(&entry->idle_there);
    t->count[origin_of(entry)]--;
    if (--host->count == 0) {
        table_remove(&t->hosts, host->hash, host->self);
        pool_free(&t->pool, host->self, sizeof(*host));
    }
}

void client_table_set_idle(struct client_table *t, struct client_entry *entry, bool is_idle)
{
    if (entry->host == NULL || entry->is_idle == is_idle) {
        return;
    }
    entry->is_idle = is_idle;
    if (is_idle) {
        entry->idle_number = ++t->idle_numbers;
        list_append(&t->idle[origin_of(entry)], &entry->idle);
        list_append(&entry->host->idle, &entry->idle_there);
    } else {
        list_remove(&entry->idle);
        list_remove(&entry->idle_there);
    }
}

static struct client_entry *oldest_of(const struct client_table *t, enum origin origin)
{
    const struct list *head = &t->idle[origin];
    return list_is_empty(head) ? NULL : LIST_OBJECT(head->next, struct client_entry, idle);
}

static struct client_entry *oldest_of_all(const struct client_table *t)
{
    struct client_entry *remote = oldest_of(t, REMOTE);
    struct client_entry *local = oldest_of(t, LOOPBACK);
    if (remote == NULL || local == NULL) {
        return remote == NULL ? local : remote;
    }
    return remote->idle_number < local->idle_number ? remote : local;
}

static struct client_entry *oldest_at_address(const struct client_host *host)
{
    return list_is_empty(&host->idle)
               ? NULL
               : LIST_OBJECT(host->idle.next, struct client_entry, idle_there);
}

static uint32_t count_all(const struct client_table *t)
{
    return t->count[REMOTE] + t->count[LOOPBACK];
}

static bool evict_one(struct client_table *t, struct client_entry *entry, client_evict_fn evict)
{
    if (entry == NULL) {
        return false;
    }
    hf_assert(entry->is_idle);
    client_table_remove(t, entry);
    t->evicted++;
    evict(entry);
    return true;
}

static bool evict_at_address(struct client_table *t, const struct ip_address *ip,
                             client_evict_fn evict)
{
    const struct client_host *host = t->limits.per_address == 0 ? NULL : find_host(t, ip);
    return host == NULL || host->count < t->limits.per_address ||
           evict_one(t, oldest_at_address(host), evict);
}

static bool evict_to_limit(struct client_table *t, bool is_loopback, client_evict_fn evict)
{
    if (!is_loopback && t->count[REMOTE] >= t->limits.max - t->limits.reserved &&
        !evict_one(t, oldest_of(t, REMOTE), evict)) {
        return false;
    }
    return count_all(t) < t->limits.max || evict_one(t, oldest_of_all(t), evict);
}

enum client_verdict client_table_admit(struct client_table *t, struct client_entry *entry,
                                       const struct ip_address *ip, client_evict_fn evict)
{
    bool is_loopback = ip_is_loopback(ip);
    if (!evict_at_address(t, ip, evict)) {
        t->refused++;
        return CLIENT_OVER_PER_ADDRESS;
    }
    if (!evict_to_limit(t, is_loopback, evict)) {
        t->refused++;
        return CLIENT_OVER_MAX;
    }
    struct client_host *host = find_host(t, ip);
    *entry = (struct client_entry){.host = host != NULL ? host : add_host(t, ip),
                                   .is_loopback = is_loopback};
    list_init(&entry->idle);
    list_init(&entry->idle_there);
    entry->host->count++;
    t->count[origin_of(entry)]++;
    return CLIENT_ADMITTED;
}

void client_table_set_max(struct client_table *t, uint32_t max, client_evict_fn evict)
{
    hf_assert(max > t->limits.reserved);
    t->limits.max = max;
    while (t->count[REMOTE] > max - t->limits.reserved &&
           evict_one(t, oldest_of(t, REMOTE), evict)) {
    }
    while (count_all(t) > max && evict_one(t, oldest_of_all(t), evict)) {
    }
}

void client_table_stats(const struct client_table *t, struct client_table_stats *out)
{
    *out = (struct client_table_stats){
        .count = count_all(t), .max = t->limits.max, .refused = t->refused, .evicted = t->evicted};
}
