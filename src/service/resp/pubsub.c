/* Subscriptions of this node, to channels, patterns and sharded channels. A message is an event of the log (PUBLISH is a transaction), so all
 * nodes deliver in the same order. A subscriber with too many unread bytes is dropped. */
#include "service/resp/conn.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "service/resp/number.h"

struct subscription {
    struct list by_conn;
    struct list by_pattern; /* in shared.patterns */
    ref next;               /* in shared.channels */
    ref self;
    struct resp_conn *conn;
    enum subscribed kind;
    uint32_t hash;
    uint32_t tenant; /* whose quota of watchers counts it */
    uint32_t len;
    uint8_t text[];
};

/* Keyed: clients cannot construct colliding channels. */
static uint32_t hash_of(const struct resp_shared *shared, struct slice text)
{
    return (uint32_t)XXH3_64bits_withSeed(text.data, text.len, shared->hash_key);
}

static uint32_t subscription_hash(const void *ctx, const void *object)
{
    (void)ctx;
    return ((const struct subscription *)object)->hash;
}

void resp_pubsub_open(struct service *s)
{
    struct resp_shared *shared = s->resp;
    list_init(&shared->patterns);
    shared->hash_key = service_random_id(s).low;
    table_init(&shared->channels, s->memory, &shared->pool, offsetof(struct subscription, next),
               subscription_hash, shared);
}

void resp_pubsub_close(struct service *s)
{
    table_close(&s->resp->channels);
}

static struct slice text_of(const struct subscription *sub)
{
    return slice_make(sub->text, sub->len);
}

static struct subscription *find_in(const struct list *head, struct slice text)
{
    for (const struct list *link = head->next; link != head; link = link->next) {
        struct subscription *sub = LIST_OBJECT(link, struct subscription, by_conn);
        if (slice_equal(text_of(sub), text)) {
            return sub;
        }
    }
    return NULL;
}

static void add(struct resp_conn *conn, struct slice text, enum subscribed kind)
{
    struct resp_shared *shared = resp_shared(conn);
    ref self = 0;
    struct subscription *sub = pool_alloc(&shared->pool, sizeof(*sub) + text.len, &self);
    sub->self = self;
    sub->conn = conn;
    sub->kind = kind;
    sub->tenant = conn->caller.id.tenant;
    sub->len = (uint32_t)text.len;
    memcpy(sub->text, text.data, text.len);
    sub->hash = hash_of(shared, text);
    list_init(&sub->by_conn);
    list_init(&sub->by_pattern);
    list_append(&conn->subscriptions[kind], &sub->by_conn);
    conn->subscription_count[kind]++;
    if (kind == SUBSCRIBED_PATTERN) {
        list_append(&shared->patterns, &sub->by_pattern);
        shared->pattern_count++;
    } else {
        table_insert(&shared->channels, sub->hash, self);
    }
}

static void drop(struct subscription *sub)
{
    struct resp_conn *conn = sub->conn;
    struct resp_shared *shared = resp_shared(conn);
    auth_watch_ended(conn->service, sub->tenant);
    list_remove(&sub->by_conn);
    conn->subscription_count[sub->kind]--;
    if (sub->kind == SUBSCRIBED_PATTERN) {
        list_remove(&sub->by_pattern);
        shared->pattern_count--;
    } else {
        table_remove(&shared->channels, sub->hash, sub->self);
    }
    pool_free(&shared->pool, sub->self, sizeof(*sub) + sub->len);
}

void resp_pubsub_leave(struct resp_conn *conn)
{
    for (int i = 0; i < SUBSCRIBED_COUNT; i++) {
        struct list *all = &conn->subscriptions[i];
        while (!list_is_empty(all)) {
            drop(LIST_OBJECT(all->next, struct subscription, by_conn));
        }
    }
}

static uint32_t count_all(const struct resp_conn *conn)
{
    uint32_t count = 0;
    for (int i = 0; i < SUBSCRIBED_COUNT; i++) {
        count += conn->subscription_count[i];
    }
    return count;
}

/* Sharded channels are counted apart from the others. */
static void confirm(struct resp_conn *conn, const char *what, enum subscribed kind,
                    struct slice text, bool is_none)
{
    const uint32_t *count = conn->subscription_count;
    struct resp_writer w = resp_conn_writer(conn);
    resp_push(&w, 3);
    resp_text(&w, what);
    if (is_none) {
        resp_null(&w);
    } else {
        resp_bulk(&w, text);
    }
    resp_integer(&w, kind == SUBSCRIBED_SHARD
                         ? count[SUBSCRIBED_SHARD]
                         : count[SUBSCRIBED_CHANNEL] + count[SUBSCRIBED_PATTERN]);
}

/* False: the error was sent. */
static bool may_add(struct resp_conn *conn, struct slice text, enum subscribed kind)
{
    bool is_pattern = kind == SUBSCRIBED_PATTERN;
    struct quota_refusal refusal;
    if (count_all(conn) == LIMIT_RESP_SUBSCRIPTIONS) {
        resp_conn_error(conn, "ERR", "a connection has at most %d subscriptions",
                        LIMIT_RESP_SUBSCRIPTIONS);
    } else if (text.len > (is_pattern ? LIMIT_RESP_PATTERN : RESP_KEY_MAX)) {
        resp_conn_error(conn, "ERR", "a channel has at most %d bytes, a pattern %d",
                        (int)RESP_KEY_MAX, LIMIT_RESP_PATTERN);
    } else if (is_pattern && resp_shared(conn)->pattern_count == LIMIT_RESP_PATTERNS) {
        /* Each message is compared with each pattern. */
        resp_conn_error(conn, "ERR", "this node has reached its limit of %d patterns",
                        LIMIT_RESP_PATTERNS);
    } else if (!auth_takes_watch(conn->service, conn->caller.id.tenant, &refusal)) {
        resp_conn_fail_quota(conn, &refusal);
    } else {
        return true;
    }
    return false;
}

static void subscribe(struct resp_conn *conn, const struct slice *args, uint32_t count,
                      enum subscribed kind)
{
    static const char *const words[] = {"subscribe", "psubscribe", "ssubscribe"};
    for (uint32_t i = 1; i < count; i++) {
        if (!resp_may_subscribe(conn, args[i], kind)) {
            return;
        }
        if (find_in(&conn->subscriptions[kind], args[i]) == NULL) {
            if (!may_add(conn, args[i], kind)) {
                return;
            }
            add(conn, args[i], kind);
        }
        confirm(conn, words[kind], kind, args[i], false);
    }
}

static void unsubscribe(struct resp_conn *conn, const struct slice *args, uint32_t count,
                        enum subscribed kind)
{
    static const char *const words[] = {"unsubscribe", "punsubscribe", "sunsubscribe"};
    struct list *all = &conn->subscriptions[kind];
    if (count == 1 && list_is_empty(all)) {
        confirm(conn, words[kind], kind, slice_make(NULL, 0), true);
    }
    while (count == 1 && !list_is_empty(all)) {
        struct subscription *sub = LIST_OBJECT(all->next, struct subscription, by_conn);
        uint8_t text[RESP_KEY_MAX];
        size_t len = sub->len;
        memcpy(text, sub->text, len);
        drop(sub);
        confirm(conn, words[kind], kind, slice_make(text, len), false);
    }
    for (uint32_t i = 1; i < count; i++) {
        struct subscription *sub = find_in(all, args[i]);
        if (sub != NULL) {
            drop(sub);
        }
        confirm(conn, words[kind], kind, args[i], false);
    }
}

void resp_subscribe(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    subscribe(conn, args, count, SUBSCRIBED_CHANNEL);
}

void resp_psubscribe(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    subscribe(conn, args, count, SUBSCRIBED_PATTERN);
}

void resp_ssubscribe(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    subscribe(conn, args, count, SUBSCRIBED_SHARD);
}

void resp_unsubscribe(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    unsubscribe(conn, args, count, SUBSCRIBED_CHANNEL);
}

void resp_punsubscribe(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    unsubscribe(conn, args, count, SUBSCRIBED_PATTERN);
}

void resp_sunsubscribe(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    unsubscribe(conn, args, count, SUBSCRIBED_SHARD);
}

/* A channel is a name of a tenant. */
static uint32_t tenant_of(const struct subscription *sub)
{
    return sub->conn->caller.id.tenant;
}

static bool is_of(const struct subscription *sub, enum subscribed kind, uint32_t tenant,
                  uint32_t hash, struct slice channel)
{
    return sub->hash == hash && sub->kind == kind && tenant_of(sub) == tenant &&
           slice_equal(text_of(sub), channel);
}

static uint64_t count_channel(struct service *s, enum subscribed kind, uint32_t tenant,
                              struct slice channel)
{
    const struct resp_shared *shared = s->resp;
    uint64_t count = 0;
    uint32_t hash = hash_of(shared, channel);
    for (ref at = table_first(&shared->channels, hash); at != 0;) {
        const struct subscription *sub = pool_at(&shared->pool, at);
        count += is_of(sub, kind, tenant, hash, channel);
        at = sub->next;
    }
    return count;
}

static uint64_t count_patterns(const struct resp_shared *shared, uint32_t tenant)
{
    uint64_t count = 0;
    const struct list *head = &shared->patterns;
    for (const struct list *link = head->next; link != head; link = link->next) {
        count += tenant_of(LIST_OBJECT(link, struct subscription, by_pattern)) == tenant;
    }
    return count;
}

/* Whether it is the first of its tenant's subscriptions of this channel: one is listed for all. */
static bool is_listed(const struct resp_conn *conn, const struct subscription *sub,
                      struct slice pattern)
{
    const struct resp_shared *shared = resp_shared(conn);
    uint32_t tenant = conn->caller.id.tenant;
    struct slice channel = text_of(sub);
    if (tenant_of(sub) != tenant || !resp_may_receive(conn, channel, sub->kind) ||
        (pattern.len > 0 && !resp_matches(pattern, channel))) {
        return false;
    }
    for (ref at = table_first(&shared->channels, sub->hash); at != 0;) {
        const struct subscription *other = pool_at(&shared->pool, at);
        if (is_of(other, sub->kind, tenant, sub->hash, channel)) {
            return other == sub;
        }
        at = other->next;
    }
    return false;
}

/* Counts the channels of the caller's tenant on this node, and writes them. NULL: counts only. */
static uint32_t put_channels(struct resp_conn *conn, enum subscribed kind, struct slice pattern,
                             struct resp_writer *w)
{
    uint32_t count = 0;
    struct list *conns = &resp_shared(conn)->conns;
    for (struct list *link = conns->next; link != conns; link = link->next) {
        const struct list *all = &LIST_OBJECT(link, struct resp_conn, link)->subscriptions[kind];
        for (const struct list *at = all->next; at != all; at = at->next) {
            const struct subscription *sub = LIST_OBJECT(at, struct subscription, by_conn);
            if (!is_listed(conn, sub, pattern)) {
                continue;
            }
            if (w != NULL) {
                resp_bulk(w, text_of(sub));
            }
            count++;
        }
    }
    return count;
}

static void pubsub_channels(struct resp_conn *conn, const struct slice *args, uint32_t count,
                            enum subscribed kind)
{
    struct resp_writer w = resp_conn_writer(conn);
    struct slice pattern = count == 3 ? args[2] : slice_make("", 0);
    resp_array(&w, put_channels(conn, kind, pattern, NULL));
    put_channels(conn, kind, pattern, &w);
}

/* A flat list also in RESP3, as in Redis. */
static void pubsub_numsub(struct resp_conn *conn, const struct slice *args, uint32_t count,
                          enum subscribed kind)
{
    struct resp_writer w = resp_conn_writer(conn);
    uint32_t tenant = conn->caller.id.tenant;
    resp_array(&w, 2 * (count - 2));
    for (uint32_t i = 2; i < count; i++) {
        resp_bulk(&w, args[i]);
        resp_integer(&w, resp_may_receive(conn, args[i], kind)
                             ? (int64_t)count_channel(conn->service, kind, tenant, args[i])
                             : 0);
    }
}

static void pubsub_numpat(struct resp_conn *conn, const struct slice *args, uint32_t count,
                          enum subscribed kind)
{
    (void)args;
    (void)count;
    (void)kind;
    struct resp_writer w = resp_conn_writer(conn);
    resp_integer(&w, (int64_t)count_patterns(resp_shared(conn), conn->caller.id.tenant));
}

/* most: words, including PUBSUB and the subcommand. */
static const struct {
    const char *word;
    const char *name;
    enum subscribed kind;
    uint32_t most;
    void (*run)(struct resp_conn *conn, const struct slice *args, uint32_t count,
                enum subscribed kind);
} subcommands[] = {
    {"CHANNELS", "channels", SUBSCRIBED_CHANNEL, 3, pubsub_channels},
    {"NUMPAT", "numpat", SUBSCRIBED_PATTERN, 2, pubsub_numpat},
    {"NUMSUB", "numsub", SUBSCRIBED_CHANNEL, UINT32_MAX, pubsub_numsub},
    {"SHARDCHANNELS", "shardchannels", SUBSCRIBED_SHARD, 3, pubsub_channels},
    {"SHARDNUMSUB", "shardnumsub", SUBSCRIBED_SHARD, UINT32_MAX, pubsub_numsub},
};

/* For this node and the tenant of the caller, and the channels that the caller may read. */
void resp_pubsub(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++) {
        if (!resp_is_word(args[1], subcommands[i].word)) {
            continue;
        }
        if (count > subcommands[i].most && subcommands[i].run == pubsub_channels) {
            resp_conn_error(
                conn, "ERR",
                "unknown subcommand or wrong number of arguments for '%.*s'. Try PUBSUB HELP.",
                (int)args[1].len, (const char *)args[1].data);
        } else if (count > subcommands[i].most) {
            resp_conn_error(conn, "ERR", "wrong number of arguments for 'pubsub|%s' command",
                            subcommands[i].name);
        } else {
            subcommands[i].run(conn, args, count, subcommands[i].kind);
        }
        return;
    }
    resp_conn_error(conn, "ERR", "unknown subcommand '%.*s'. Try PUBSUB HELP.",
                    (int)(args[1].len < 64 ? args[1].len : 64), (const char *)args[1].data);
}

/* The complete message, or drops a slow subscriber. */
static void push(struct subscription *sub, struct slice channel, struct slice message)
{
    static const char *const words[] = {"message", "pmessage", "smessage"};
    bool is_pattern = sub->kind == SUBSCRIBED_PATTERN;
    enum subscribed kind = is_pattern ? SUBSCRIBED_CHANNEL : sub->kind;
    struct resp_conn *conn = sub->conn;
    struct resp_writer w = resp_conn_writer(conn);
    if (conn->is_closing || !resp_may_receive(conn, channel, kind)) {
        return;
    }
    resp_push(&w, is_pattern ? 4 : 3);
    resp_text(&w, words[sub->kind]);
    if (is_pattern) {
        resp_bulk(&w, text_of(sub));
    }
    resp_bulk(&w, channel);
    resp_bulk(&w, message);
    if (buffer_len(&conn->out) > RESP_PUSH_MAX || conn->out.overflowed) {
        resp_shared(conn)->dropped++;
        buffer_truncate(&conn->out, 0);
        resp_conn_shut(conn);
        return;
    }
    resp_conn_mark_ready(conn);
}

void resp_pubsub_deliver(struct service *s, uint32_t tenant, struct slice name,
                         struct slice message)
{
    struct resp_shared *shared = s->resp;
    uint8_t bytes[RESP_KEY_MAX];
    struct slice channel;
    bool is_shard = resp_shard_of_name(name, bytes, &channel);
    if (!is_shard) {
        channel = resp_channel_of_name(name, bytes);
    }
    enum subscribed kind = is_shard ? SUBSCRIBED_SHARD : SUBSCRIBED_CHANNEL;
    uint32_t hash = hash_of(shared, channel);
    shared->published++;
    for (ref at = table_first(&shared->channels, hash); at != 0;) {
        struct subscription *sub = pool_at(&shared->pool, at);
        at = sub->next;
        if (is_of(sub, kind, tenant, hash, channel)) {
            push(sub, channel, message);
        }
    }
    const struct list *head = &shared->patterns;
    for (struct list *link = head->next; link != head && !is_shard; link = link->next) {
        struct subscription *sub = LIST_OBJECT(link, struct subscription, by_pattern);
        if (tenant_of(sub) == tenant && resp_matches(text_of(sub), channel)) {
            push(sub, channel, message);
        }
    }
}

uint64_t resp_pubsub_receivers(struct service *s, uint32_t tenant, struct slice channel,
                               bool is_shard)
{
    if (is_shard) {
        return count_channel(s, SUBSCRIBED_SHARD, tenant, channel);
    }
    uint64_t count = count_channel(s, SUBSCRIBED_CHANNEL, tenant, channel);
    const struct list *head = &s->resp->patterns;
    for (const struct list *link = head->next; link != head; link = link->next) {
        const struct subscription *sub = LIST_OBJECT(link, struct subscription, by_pattern);
        count += tenant_of(sub) == tenant && resp_matches(text_of(sub), channel);
    }
    return count;
}

bool resp_has_subscribers(const struct service *s)
{
    return table_count(&s->resp->channels) > 0 || s->resp->pattern_count > 0 ||
           s->resp->wait_count > 0;
}
