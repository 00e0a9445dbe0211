/* The command table of the Redis protocol, its lookup, and COMMAND. */
#include "service/resp/conn.h"

#include <stdio.h>

#include "service/resp/number.h"

#define LOCAL(handler) RESP_LOCAL, .local = (handler)
#define LOCAL_OR_RUN(handler, of_run) RESP_LOCAL, .local = (handler), .run = (of_run)
#define READ(handler) RESP_READ, .run = (handler)
#define CHANGE(handler) RESP_CHANGE, .run = (handler)
#define CONNECTION "connection"
#define RW (RESP_WRITE | RESP_FAST)
#define RO (RESP_READONLY | RESP_FAST)

/* clang-format off */
/* name, arity, flags, first key, last key, step, group, summary, need, kind and handler */
#define ROW(name, arity, flags, first, last, step, group, summary, need, how) \
    {name, arity, flags, first, last, step, group, summary, need, how}

static const struct resp_command commands[] = {
    ROW("auth", -2, RESP_FAST | RESP_NO_SCRIPT | RESP_NO_AUTH, 0, 0, 0, CONNECTION, "Authenticates the connection.", NEED_NOTHING, LOCAL(resp_auth)),
    ROW("blmove", 6, RESP_WRITE | RESP_NO_SCRIPT, 1, 2, 1, "list", "LMOVE; waits until the source has an element.", NEED_LOCK, CHANGE(key_blmove)),
    ROW("blpop", -3, RESP_WRITE | RESP_NO_SCRIPT, 1, -2, 1, "list", "LPOP of the first list that has an element; waits for one.", NEED_LOCK, CHANGE(key_blpop)),
    ROW("brpop", -3, RESP_WRITE | RESP_NO_SCRIPT, 1, -2, 1, "list", "RPOP of the first list that has an element; waits for one.", NEED_LOCK, CHANGE(key_blpop)),
    ROW("brpoplpush", 4, RESP_WRITE | RESP_NO_SCRIPT, 1, 2, 1, "list", "RPOPLPUSH; waits until the source has an element.", NEED_LOCK, CHANGE(key_blmove)),
    ROW("client", -2, RESP_NO_SCRIPT, 0, 0, 0, CONNECTION, "Reports and configures connections.", NEED_CALLER, LOCAL(resp_client)),
    ROW("command", -1, 0, 0, 0, 0, "server", "Describes the supported commands.", NEED_CALLER, LOCAL(resp_command)),
    ROW("config", -2, RESP_ADMIN | RESP_NO_SCRIPT, 0, 0, 0, "server", "CONFIG GET only: settings that some clients read.", NEED_CALLER, LOCAL(resp_config)),
    ROW("dbsize", 1, RO | RESP_NO_SCRIPT, 0, 0, 0, "server", "Counts names that are held, have waiters or a lock-delay.", NEED_ROWS, READ(key_dbsize)),
    ROW("decr", 2, RW, 1, 1, 1, "string", "Decrements a counter by one.", NEED_LOCK, CHANGE(key_incr)),
    ROW("decrby", 3, RW, 1, 1, 1, "string", "Decrements a counter.", NEED_LOCK, CHANGE(key_incr)),
    ROW("del", -2, RESP_WRITE, 1, -1, 1, "generic", "Releases a lock of this connection; force-unlocks any other.", NEED_LOCK, CHANGE(key_del)),
    ROW("discard", 1, RESP_FAST | RESP_NO_SCRIPT, 0, 0, 0, "transactions", "Discards the commands since MULTI.", NEED_CALLER, LOCAL(resp_discard)),
    ROW("echo", 2, RESP_FAST, 0, 0, 0, CONNECTION, "Returns its argument.", NEED_CALLER, LOCAL(resp_echo)),
    ROW("eval", -3, RESP_NO_SCRIPT, 0, 0, 0, "scripting", "Runs a script.", NEED_CALLER, CHANGE(key_eval)),
    ROW("eval_ro", -3, RESP_NO_SCRIPT, 0, 0, 0, "scripting", "Runs a read-only script.", NEED_CALLER, CHANGE(key_eval)),
    ROW("evalsha", -3, RESP_NO_SCRIPT, 0, 0, 0, "scripting", "Runs a script stored on this node.", NEED_CALLER, CHANGE(key_eval)),
    ROW("evalsha_ro", -3, RESP_NO_SCRIPT, 0, 0, 0, "scripting", "Runs a read-only script stored on this node.", NEED_CALLER, CHANGE(key_eval)),
    ROW("exec", 1, RESP_NO_SCRIPT, 0, 0, 0, "transactions", "Executes the commands since MULTI atomically.", NEED_CALLER, CHANGE(key_exec)),
    ROW("exists", -2, RO, 1, -1, 1, "generic", "Counts the keys that exist.", NEED_READ, READ(key_exists)),
    ROW("expire", -3, RW, 1, 1, 1, "generic", "Renews a lock, or sets the TTL of a counter, in seconds.", NEED_LOCK, CHANGE(key_expire)),
    ROW("expireat", -3, RW, 1, 1, 1, "generic", "Sets the expiry time of a lock or counter, in seconds.", NEED_LOCK, CHANGE(key_expire)),
    ROW("expiretime", 2, RO, 1, 1, 1, "generic", "Returns the expiry time of a key, in seconds.", NEED_READ, READ(key_ttl)),
    ROW("flushall", -1, RESP_WRITE | RESP_NO_SCRIPT, 0, 0, 0, "server", "Removes the keys of all databases.", NEED_OPERATE, CHANGE(key_flush)),
    ROW("flushdb", -1, RESP_WRITE | RESP_NO_SCRIPT, 0, 0, 0, "server", "Removes the keys of the database.", NEED_OPERATE, CHANGE(key_flush)),
    ROW("get", 2, RO, 1, 1, 1, "string", "Returns the value of a key.", NEED_READ, READ(key_get)),
    ROW("getdel", 2, RW, 1, 1, 1, "string", "Returns the value of a key and deletes it, as DEL.", NEED_LOCK, CHANGE(key_getdel)),
    ROW("getex", -2, RW, 1, 1, 1, "string", "Returns the value of a key and sets its TTL, as EXPIRE.", NEED_LOCK, CHANGE(key_getex)),
    ROW("getrange", 4, RESP_READONLY, 1, 1, 1, "string", "Returns a part of the value.", NEED_READ, READ(key_getrange)),
    ROW("getset", 3, RW, 1, 1, 1, "string", "SET with GET.", NEED_LOCK, CHANGE(key_getset)),
    ROW("hdel", -3, RW, 1, 1, 1, "hash", "Removes fields; the last one releases the lock.", NEED_LOCK, CHANGE(key_hdel)),
    ROW("hello", -1, RESP_FAST | RESP_NO_SCRIPT | RESP_NO_AUTH | RESP_WHEN_SUBSCRIBED, 0, 0, 0, CONNECTION, "Chooses RESP2 or RESP3.", NEED_NOTHING, LOCAL(resp_hello)),
    ROW("hexists", 3, RO, 1, 1, 1, "hash", "Reports whether a field exists.", NEED_READ, READ(key_hexists)),
    ROW("hf.acquire", -3, RESP_WRITE | RESP_NO_SCRIPT, 1, 1, 1, "holdfast", "Acquires a lock, optionally waits for it, and returns its fencing token.", NEED_LOCK, CHANGE(key_acquire)),
    ROW("hf.token", -2, RO, 1, 1, 1, "holdfast", "Returns the fencing token of a lock, given its value.", NEED_READ, READ(key_token)),
    ROW("hget", 3, RO, 1, 1, 1, "hash", "Returns the value of a field.", NEED_READ, READ(key_hget)),
    ROW("hgetall", 2, RESP_READONLY, 1, 1, 1, "hash", "Returns all fields and values.", NEED_READ, READ(key_hgetall)),
    ROW("hincrby", 4, RW, 1, 1, 1, "hash", "Increments a field.", NEED_LOCK, CHANGE(key_hincrby)),
    ROW("hkeys", 2, RESP_READONLY, 1, 1, 1, "hash", "Returns all fields.", NEED_READ, READ(key_hgetall)),
    ROW("hlen", 2, RO, 1, 1, 1, "hash", "Counts the fields.", NEED_READ, READ(key_hlen)),
    ROW("hmget", -3, RO, 1, 1, 1, "hash", "Returns the values of several fields.", NEED_READ, READ(key_hmget)),
    ROW("hmset", -4, RW, 1, 1, 1, "hash", "Sets fields.", NEED_LOCK, CHANGE(key_hset)),
    ROW("hset", -4, RW, 1, 1, 1, "hash", "Sets fields.", NEED_LOCK, CHANGE(key_hset)),
    ROW("hsetnx", 4, RW, 1, 1, 1, "hash", "Sets a field that does not exist.", NEED_LOCK, CHANGE(key_hsetnx)),
    ROW("hvals", 2, RESP_READONLY, 1, 1, 1, "hash", "Returns all values.", NEED_READ, READ(key_hgetall)),
    ROW("incr", 2, RW, 1, 1, 1, "string", "Increments a counter by one.", NEED_LOCK, CHANGE(key_incr)),
    ROW("incrby", 3, RW, 1, 1, 1, "string", "Increments a counter.", NEED_LOCK, CHANGE(key_incr)),
    ROW("info", -1, 0, 0, 0, 0, "server", "Describes this node.", NEED_CALLER, LOCAL(resp_info)),
    ROW("keys", 2, RESP_READONLY | RESP_NO_SCRIPT, 0, 0, 0, "generic", "Lists the keys that match a pattern, at most 10,000.", NEED_ROWS, READ(key_keys)),
    ROW("lindex", 3, RESP_READONLY, 1, 1, 1, "list", "Returns the element at a position.", NEED_READ, READ(key_lindex)),
    ROW("linsert", 5, RESP_WRITE, 1, 1, 1, "list", "Inserts an element before or after another one.", NEED_LOCK, CHANGE(key_linsert)),
    ROW("llen", 2, RO, 1, 1, 1, "list", "Counts the elements of a list.", NEED_READ, READ(key_llen)),
    ROW("lmove", 5, RESP_WRITE, 1, 2, 1, "list", "Moves an element from one list to another.", NEED_LOCK, CHANGE(key_lmove)),
    ROW("lpop", -2, RW, 1, 1, 1, "list", "Removes and returns the first elements.", NEED_LOCK, CHANGE(key_pop)),
    ROW("lpush", -3, RW, 1, 1, 1, "list", "Adds elements in front.", NEED_LOCK, CHANGE(key_push)),
    ROW("lpushx", -3, RW, 1, 1, 1, "list", "LPUSH if the list exists.", NEED_LOCK, CHANGE(key_push)),
    ROW("lrange", 4, RESP_READONLY, 1, 1, 1, "list", "Returns some elements of a list.", NEED_READ, READ(key_lrange)),
    ROW("lrem", 4, RESP_WRITE, 1, 1, 1, "list", "Removes elements that are equal to the argument.", NEED_LOCK, CHANGE(key_lrem)),
    ROW("lset", 4, RESP_WRITE, 1, 1, 1, "list", "Replaces the element at a position.", NEED_LOCK, CHANGE(key_lset)),
    ROW("ltrim", 4, RESP_WRITE, 1, 1, 1, "list", "Removes all elements but some.", NEED_LOCK, CHANGE(key_ltrim)),
    ROW("mget", -2, RO, 1, -1, 1, "string", "Returns the values of several keys.", NEED_READ, READ(key_mget)),
    ROW("monitor", 1, RESP_ADMIN | RESP_NO_SCRIPT, 0, 0, 0, "server", "Not supported; `holdfast watch` shows all changes.", NEED_CALLER, LOCAL(resp_monitor)),
    ROW("mset", -3, RESP_WRITE, 1, -1, 2, "string", "SET of several keys.", NEED_LOCK, CHANGE(key_mset)),
    ROW("msetnx", -3, RESP_WRITE, 1, -1, 2, "string", "Acquires several locks, all or none.", NEED_LOCK, CHANGE(key_msetnx)),
    ROW("multi", 1, RESP_FAST | RESP_NO_SCRIPT, 0, 0, 0, "transactions", "Queues commands until EXEC.", NEED_CALLER, LOCAL(resp_multi)),
    ROW("persist", 2, RW, 1, 1, 1, "generic", "Removes the TTL of a key.", NEED_LOCK, CHANGE(key_persist)),
    ROW("pexpire", -3, RW, 1, 1, 1, "generic", "Renews a lock, or sets the TTL of a counter, in milliseconds.", NEED_LOCK, CHANGE(key_expire)),
    ROW("pexpireat", -3, RW, 1, 1, 1, "generic", "Sets the expiry time of a lock or counter, in milliseconds.", NEED_LOCK, CHANGE(key_expire)),
    ROW("pexpiretime", 2, RO, 1, 1, 1, "generic", "Returns the expiry time of a key, in milliseconds.", NEED_READ, READ(key_ttl)),
    ROW("ping", -1, RESP_FAST | RESP_WHEN_SUBSCRIBED, 0, 0, 0, CONNECTION, "Returns PONG.", NEED_CALLER, LOCAL(resp_ping)),
    ROW("psetex", 4, RESP_WRITE, 1, 1, 1, "string", "SET with a TTL in milliseconds.", NEED_LOCK, CHANGE(key_setex)),
    ROW("psubscribe", -2, RESP_PUBSUB | RESP_NO_SCRIPT | RESP_WHEN_SUBSCRIBED, 0, 0, 0, "pubsub", "Subscribes to channels that match a pattern.", NEED_ROWS, LOCAL(resp_psubscribe)),
    ROW("pttl", 2, RO, 1, 1, 1, "generic", "Returns the remaining TTL of a key, in milliseconds.", NEED_READ, READ(key_ttl)),
    ROW("publish", 3, RESP_PUBSUB | RESP_FAST, 0, 0, 0, "pubsub", "Publishes a message to a channel on every node.", NEED_LOCK, CHANGE(key_publish)),
    ROW("pubsub", -2, RESP_PUBSUB | RESP_NO_SCRIPT, 0, 0, 0, "pubsub", "Lists and counts the subscriptions of this node.", NEED_CALLER, LOCAL(resp_pubsub)),
    ROW("punsubscribe", -1, RESP_PUBSUB | RESP_NO_SCRIPT | RESP_WHEN_SUBSCRIBED, 0, 0, 0, "pubsub", "Unsubscribes from patterns.", NEED_CALLER, LOCAL(resp_punsubscribe)),
    ROW("quit", -1, RESP_FAST | RESP_NO_SCRIPT | RESP_NO_AUTH | RESP_WHEN_SUBSCRIBED, 0, 0, 0, CONNECTION, "Closes the connection.", NEED_NOTHING, LOCAL(resp_quit)),
    ROW("reset", 1, RESP_FAST | RESP_NO_SCRIPT | RESP_NO_AUTH | RESP_WHEN_SUBSCRIBED, 0, 0, 0, CONNECTION, "Resets the state of the connection.", NEED_NOTHING, LOCAL(resp_reset)),
    ROW("role", 1, RESP_FAST | RESP_NO_SCRIPT, 0, 0, 0, "server", "Replies master: every node accepts every command.", NEED_CALLER, LOCAL(resp_role)),
    ROW("rpop", -2, RW, 1, 1, 1, "list", "Removes and returns the last elements.", NEED_LOCK, CHANGE(key_pop)),
    ROW("rpoplpush", 3, RESP_WRITE, 1, 2, 1, "list", "Moves the last element of a list to the front of another.", NEED_LOCK, CHANGE(key_rpoplpush)),
    ROW("rpush", -3, RW, 1, 1, 1, "list", "Adds elements at the end.", NEED_LOCK, CHANGE(key_push)),
    ROW("rpushx", -3, RW, 1, 1, 1, "list", "RPUSH if the list exists.", NEED_LOCK, CHANGE(key_push)),
    ROW("sadd", -3, RW, 1, 1, 1, "set", "Adds members.", NEED_LOCK, CHANGE(key_sadd)),
    ROW("scan", -2, RESP_READONLY | RESP_NO_SCRIPT, 0, 0, 0, "generic", "Lists keys, page by page.", NEED_ROWS, READ(key_scan)),
    ROW("scard", 2, RO, 1, 1, 1, "set", "Counts the members of a set.", NEED_READ, READ(key_scard)),
    ROW("script", -2, RESP_NO_SCRIPT, 0, 0, 0, "scripting", "Manages the scripts stored on this node.", NEED_CALLER, LOCAL(resp_script)),
    ROW("select", 2, RESP_FAST | RESP_NO_SCRIPT, 0, 0, 0, CONNECTION, "Selects one of 16 databases.", NEED_CALLER, LOCAL(resp_select)),
    ROW("set", -3, RESP_WRITE, 1, 1, 1, "string", "With NX acquires a lock; otherwise changes the caller's lock.", NEED_LOCK, CHANGE(key_set)),
    ROW("setex", 4, RESP_WRITE, 1, 1, 1, "string", "SET with a TTL in seconds.", NEED_LOCK, CHANGE(key_setex)),
    ROW("setnx", 3, RW, 1, 1, 1, "string", "SET with NX.", NEED_LOCK, CHANGE(key_setnx)),
    ROW("sismember", 3, RO, 1, 1, 1, "set", "Reports whether a member is in a set.", NEED_READ, READ(key_sismember)),
    ROW("smembers", 2, RESP_READONLY, 1, 1, 1, "set", "Returns all members of a set.", NEED_READ, READ(key_smembers)),
    ROW("smismember", -3, RO, 1, 1, 1, "set", "Reports which of several members are in a set.", NEED_READ, READ(key_sismember)),
    ROW("spublish", 3, RESP_PUBSUB | RESP_FAST, 1, 1, 1, "pubsub", "Publishes a message to a sharded channel on every node.", NEED_LOCK, CHANGE(key_publish)),
    ROW("srem", -3, RW, 1, 1, 1, "set", "Removes members.", NEED_LOCK, CHANGE(key_srem)),
    ROW("sscan", -3, RESP_READONLY, 1, 1, 1, "set", "Returns all members of a set, as one page.", NEED_READ, READ(key_sscan)),
    ROW("ssubscribe", -2, RESP_PUBSUB | RESP_NO_SCRIPT | RESP_WHEN_SUBSCRIBED, 1, -1, 1, "pubsub", "Subscribes to sharded channels.", NEED_READ, LOCAL(resp_ssubscribe)),
    ROW("strlen", 2, RO, 1, 1, 1, "string", "Returns the length of the value.", NEED_READ, READ(key_strlen)),
    ROW("subscribe", -2, RESP_PUBSUB | RESP_NO_SCRIPT | RESP_WHEN_SUBSCRIBED, 0, 0, 0, "pubsub", "Subscribes to channels.", NEED_READ, LOCAL(resp_subscribe)),
    ROW("sunsubscribe", -1, RESP_PUBSUB | RESP_NO_SCRIPT | RESP_WHEN_SUBSCRIBED, 1, -1, 1, "pubsub", "Unsubscribes from sharded channels.", NEED_CALLER, LOCAL(resp_sunsubscribe)),
    ROW("time", 1, RESP_FAST, 0, 0, 0, "server", "Returns the wall-clock time of this node.", NEED_CALLER, LOCAL_OR_RUN(resp_time, key_time)),
    ROW("ttl", 2, RO, 1, 1, 1, "generic", "Returns the remaining TTL of a key, in seconds.", NEED_READ, READ(key_ttl)),
    ROW("type", 2, RO, 1, 1, 1, "generic", "Returns string, hash, list, set, zset or none.", NEED_READ, READ(key_type)),
    ROW("unlink", -2, RW, 1, -1, 1, "generic", "Same as DEL.", NEED_LOCK, CHANGE(key_del)),
    ROW("unsubscribe", -1, RESP_PUBSUB | RESP_NO_SCRIPT | RESP_WHEN_SUBSCRIBED, 0, 0, 0, "pubsub", "Unsubscribes from channels.", NEED_CALLER, LOCAL(resp_unsubscribe)),
    ROW("unwatch", 1, RESP_FAST | RESP_NO_SCRIPT, 0, 0, 0, "transactions", "Forgets the watched keys.", NEED_CALLER, LOCAL(resp_unwatch)),
    ROW("wait", 3, RESP_NO_SCRIPT, 0, 0, 0, "generic", "Returns how many other nodes have all answered changes.", NEED_CALLER, LOCAL(resp_wait)),
    ROW("watch", -2, RESP_FAST | RESP_NO_SCRIPT, 1, -1, 1, "transactions", "EXEC does nothing if one of the keys changes before.", NEED_READ, READ(key_watch)),
    ROW("zadd", -4, RW, 1, 1, 1, "sorted-set", "Adds members, or changes their scores.", NEED_LOCK, CHANGE(key_zadd)),
    ROW("zcard", 2, RO, 1, 1, 1, "sorted-set", "Counts the members of a sorted set.", NEED_READ, READ(key_zcard)),
    ROW("zcount", 4, RO, 1, 1, 1, "sorted-set", "Counts the members with scores in a range.", NEED_READ, READ(key_zcount)),
    ROW("zincrby", 4, RW, 1, 1, 1, "sorted-set", "Increments the score of a member.", NEED_LOCK, CHANGE(key_zincrby)),
    ROW("zmscore", -3, RO, 1, 1, 1, "sorted-set", "Returns the scores of several members.", NEED_READ, READ(key_zscore)),
    ROW("zpopmax", -2, RW, 1, 1, 1, "sorted-set", "Removes and returns the members with the highest scores.", NEED_LOCK, CHANGE(key_zpop)),
    ROW("zpopmin", -2, RW, 1, 1, 1, "sorted-set", "Removes and returns the members with the lowest scores.", NEED_LOCK, CHANGE(key_zpop)),
    ROW("zrange", -4, RESP_READONLY, 1, 1, 1, "sorted-set", "Returns members in a range of ranks, scores or names.", NEED_READ, READ(key_zrange)),
    ROW("zrangebyscore", -4, RESP_READONLY, 1, 1, 1, "sorted-set", "Returns members in a range of scores.", NEED_READ, READ(key_zrange)),
    ROW("zrank", 3, RO, 1, 1, 1, "sorted-set", "Returns the rank of a member.", NEED_READ, READ(key_zrank)),
    ROW("zrem", -3, RW, 1, 1, 1, "sorted-set", "Removes members.", NEED_LOCK, CHANGE(key_zrem)),
    ROW("zremrangebyrank", 4, RESP_WRITE, 1, 1, 1, "sorted-set", "Removes members in a range of ranks.", NEED_LOCK, CHANGE(key_zremrange)),
    ROW("zremrangebyscore", 4, RESP_WRITE, 1, 1, 1, "sorted-set", "Removes members in a range of scores.", NEED_LOCK, CHANGE(key_zremrange)),
    ROW("zrevrange", -4, RESP_READONLY, 1, 1, 1, "sorted-set", "ZRANGE with REV.", NEED_READ, READ(key_zrange)),
    ROW("zrevrangebyscore", -4, RESP_READONLY, 1, 1, 1, "sorted-set", "ZRANGEBYSCORE from the highest score on.", NEED_READ, READ(key_zrange)),
    ROW("zrevrank", 3, RO, 1, 1, 1, "sorted-set", "Returns the rank of a member, counted from the end.", NEED_READ, READ(key_zrank)),
    ROW("zscore", 3, RO, 1, 1, 1, "sorted-set", "Returns the score of a member.", NEED_READ, READ(key_zscore)),
};
/* clang-format on */

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]), LONGEST = 20 };

const struct resp_command *resp_command_all(uint32_t *count)
{
    *count = COMMANDS;
    return commands;
}

static uint8_t small_letter(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

static bool is_name_of(const struct resp_command *command, struct slice name)
{
    const char *other = command->name;
    for (size_t i = 0; i < name.len; i++, other++) {
        if (*other == '\0' || small_letter(name.data[i]) != (uint8_t)*other) {
            return false;
        }
    }
    return *other == '\0';
}

/* The rows are sorted by name. */
const struct resp_command *resp_command_find(struct slice name)
{
    char small[LONGEST];
    if (name.len == 0 || name.len >= sizeof(small)) {
        return NULL;
    }
    for (size_t i = 0; i < name.len; i++) {
        small[i] = (char)small_letter(name.data[i]);
    }
    small[name.len] = '\0';
    size_t low = 0;
    size_t high = COMMANDS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(small, commands[middle].name);
        if (order == 0) {
            return &commands[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const struct resp_command *resp_command_again(const struct resp_command *last, struct slice name)
{
    return last != NULL && is_name_of(last, name) ? last : resp_command_find(name);
}

bool resp_command_takes(const struct resp_command *command, uint32_t count)
{
    return command->arity >= 0 ? count == (uint32_t)command->arity
                               : count >= (uint32_t)-command->arity;
}

static void put_flags(struct resp_writer *w, uint32_t flags)
{
    static const struct {
        uint32_t flag;
        const char *word;
    } words[] = {{RESP_WRITE, "write"},    {RESP_READONLY, "readonly"},
                 {RESP_FAST, "fast"},      {RESP_ADMIN, "admin"},
                 {RESP_PUBSUB, "pubsub"},  {RESP_NO_SCRIPT, "noscript"},
                 {RESP_NO_AUTH, "no_auth"}};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        count += (flags & words[i].flag) != 0;
    }
    resp_array(w, count);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (flags & words[i].flag) {
            resp_simple(w, words[i].word);
        }
    }
}

/* Format of Redis 7, without ACL categories, tips, key specifications and subcommands. */
static void put_info(struct resp_writer *w, const struct resp_command *c)
{
    resp_array(w, 10);
    resp_text(w, c->name);
    resp_integer(w, c->arity);
    put_flags(w, c->flags);
    resp_integer(w, c->first_key);
    resp_integer(w, c->last_key);
    resp_integer(w, c->key_step);
    for (int i = 0; i < 4; i++) {
        resp_array(w, 0);
    }
}

static void put_docs(struct resp_writer *w, const struct resp_command *c)
{
    resp_text(w, c->name);
    resp_map(w, 3);
    resp_text(w, "summary");
    resp_text(w, c->summary);
    resp_text(w, "since");
    resp_text(w, "1.0.0");
    resp_text(w, "group");
    resp_text(w, c->group);
}

static void put_all(struct resp_writer *w)
{
    resp_array(w, COMMANDS);
    for (size_t i = 0; i < COMMANDS; i++) {
        put_info(w, &commands[i]);
    }
}

static void put_all_docs(struct resp_writer *w)
{
    resp_map(w, COMMANDS);
    for (size_t i = 0; i < COMMANDS; i++) {
        put_docs(w, &commands[i]);
    }
}

static void put_some_docs(struct resp_writer *w, const struct slice *names, uint32_t count)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++) {
        known += resp_command_find(names[i]) != NULL;
    }
    resp_map(w, known);
    for (uint32_t i = 0; i < count; i++) {
        const struct resp_command *c = resp_command_find(names[i]);
        if (c != NULL) {
            put_docs(w, c);
        }
    }
}

static void put_keys(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    const struct resp_command *c = resp_command_find(args[0]);
    if (c == NULL || !resp_command_takes(c, count)) {
        resp_conn_error(conn, "ERR", "Invalid command specified");
        return;
    }
    if (c->first_key == 0) {
        resp_conn_error(conn, "ERR", "The command has no key arguments");
        return;
    }
    uint32_t last = c->last_key < 0 ? count - (uint32_t)-c->last_key : (uint32_t)c->last_key;
    uint32_t step = (uint32_t)c->key_step;
    resp_array(&w, (last - (uint32_t)c->first_key) / step + 1);
    for (uint32_t i = (uint32_t)c->first_key; i <= last; i += step) {
        resp_bulk(&w, args[i]);
    }
}

void resp_command(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    if (count == 1) {
        put_all(&w);
    } else if (resp_is_word(args[1], "COUNT") && count == 2) {
        resp_integer(&w, COMMANDS);
    } else if (resp_is_word(args[1], "LIST") && count == 2) {
        resp_array(&w, COMMANDS);
        for (size_t i = 0; i < COMMANDS; i++) {
            resp_text(&w, commands[i].name);
        }
    } else if (resp_is_word(args[1], "INFO") && count == 2) {
        put_all(&w);
    } else if (resp_is_word(args[1], "INFO")) {
        resp_array(&w, count - 2);
        for (uint32_t i = 2; i < count; i++) {
            const struct resp_command *c = resp_command_find(args[i]);
            if (c == NULL) {
                resp_null_array(&w);
            } else {
                put_info(&w, c);
            }
        }
    } else if (resp_is_word(args[1], "DOCS")) {
        if (count == 2) {
            put_all_docs(&w);
        } else {
            put_some_docs(&w, args + 2, count - 2);
        }
    } else if (resp_is_word(args[1], "GETKEYS") && count > 2) {
        put_keys(conn, args + 2, count - 2);
    } else {
        resp_conn_error(conn, "ERR", "unknown subcommand or wrong number of arguments for '%.*s'",
                        (int)(args[1].len < 64 ? args[1].len : 64), (const char *)args[1].data);
    }
}
