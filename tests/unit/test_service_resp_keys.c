/* The commands of the Redis protocol on keys: what each means for a lock, whose lock it is, and
 * what becomes of runs that meet (service/keyspace.h). */
#include "base_testing.h"

#include "core/view.h"
#include "resp_world.h"
#include "service/keyspace_state.h"
#include "service/resp_conn.h"

static struct resp_world world;
static struct counted counted;

static int set_up(void **state)
{
    counted_init(&counted);
    resp_world_open(&world, &counted.memory, NULL);
    return 0;
}

static int set_up_guarded(void **state)
{
    struct service_options options = {.resp_del_refused = true};
    counted_init(&counted);
    resp_world_open(&world, &counted.memory, &options);
    return 0;
}

static int tear_down(void **state)
{
    const char *problem = core_check_invariants(world.gateway.core);
    if (problem != NULL) {
        fail_msg("%s", problem);
    }
    resp_world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

static struct resp_client *client(void)
{
    return resp_world_client(&world);
}

/* Somebody takes a lock by another API. */
static uint64_t take_elsewhere(const char *name)
{
    struct command c;
    struct result r;
    command_init(&c, COMMAND_ACQUIRE);
    c.acquire.lease = (struct id){77, world.gateway.index};
    c.acquire.client = slice_of("curl");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    c.acquire.ttl_ms = 30000;
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_GRANTED);
    return r.token;
}

static void count_audit(void *ctx, const struct audit_view *record)
{
    (void)record;
    (*(unsigned *)ctx)++;
}

static unsigned audited(void)
{
    unsigned count = 0;
    view_audit(world.gateway.core, 0, 1000, count_audit, &count);
    return count;
}

/* ---- SET and GET ---- */

static void set_takes_every_option_of_redis(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "SET k v", "+OK|");
    resp_ask(c, "TTL k", ":86400|"); /* without one it is the longest */
    resp_ask(c, "SET k w EX 10", "+OK|");
    resp_ask(c, "PTTL k", ":10000|");
    resp_ask(c, "SET k x KEEPTTL", "+OK|");
    resp_ask(c, "PTTL k", ":10000|");
    resp_ask(c, "SET k y XX PX 20000 GET", "$1|x|");
    resp_ask(c, "GET k", "$1|y|");
    resp_ask(c, "PTTL k", ":20000|");
    resp_ask(c, "SET k z NX GET", "$1|y|");
    resp_ask(c, "SET free z XX", "$-1|");
    resp_ask(c, "SET free z XX GET", "$-1|");
    resp_ask(c, "EXISTS free", ":0|");
    resp_ask(c, "SET k z PXAT 1731660607123", "+OK|");
    resp_ask(c, "PTTL k", ":30000|");
    resp_ask(c, "SET k z EXAT 1731660587", "+OK|");
    resp_ask(c, "PTTL k", ":9877|");
    resp_ask(c, "SETEX k 30 v", "+OK|");
    resp_ask(c, "PSETEX k 5000 v", "+OK|");
    resp_ask(c, "PTTL k", ":5000|");
    resp_ask(c, "SETNX k v", ":0|");
    resp_ask(c, "SETNX other v", ":1|");
    resp_ask(c, "STRLEN k", ":1|");
    resp_ask(c, "MGET k nothing other", "*3|$1|v|$-1|$1|v|");
}

static void set_refuses_what_makes_no_lock(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "SET k v NX XX", "-ERR syntax error|");
    resp_ask(c, "SET k v PX", "-ERR syntax error|");
    resp_ask(c, "SET k v PX 5000 EX 5", "-ERR syntax error|");
    resp_ask(c, "SET k v EX ten", "-ERR value is not an integer or out of range|");
    resp_ask(c, "SET k v EX 5x", "-ERR value is not an integer or out of range|");
    static const char *const times[] = {"SET k v PX 0",
                                        "SET k v NX PX -1",
                                        "SET k v NX PX 999",
                                        "SET k v EX 86401",
                                        "SET k v EX 9223372036854775807",
                                        "SET k v PXAT 1",
                                        "SETEX k 0 v"};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        resp_say(c, times[i]);
        resp_expect_start(c, "-ERR invalid expire time");
    }
    static const char *const names[] = {"\"\"", "a//b", "\"a\\x01\"", "\"\\xff\"", "../x"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char line[64];
        snprintf(line, sizeof(line), "SET %s v NX PX 5000", names[i]);
        resp_say(c, line);
        resp_expect_start(c, "-ERR invalid key");
        snprintf(line, sizeof(line), "GET %s", names[i]);
        resp_say(c, line);
        resp_expect_start(c, "-ERR invalid key");
    }
    char large[4200] = "SET k ";
    memset(large + 6, 'v', 4097);
    resp_say(c, large);
    resp_expect_start(c, "-ERR a value is at most");
    memset(large, 0, sizeof(large));
    memcpy(large, "GET ", 4);
    memset(large + 4, 'k', 513);
    resp_say(c, large);
    resp_expect_start(c, "-ERR invalid key");
    resp_ask(c, "EXISTS k", ":0|");
}

static void a_value_may_be_any_bytes(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "SET k \"\\x00\\xff\\r\\n\" NX PX 5000", "+OK|");
    resp_say(c, "GET k");
    assert_int_equal(c->got_len, 10);
    assert_memory_equal(c->got, "$4\r\n\0\xff\r\n\r\n", 10);
    c->got_len = 0;
    resp_ask(c, "SET e \"\" NX PX 5000", "+OK|");
    resp_ask(c, "GET e", "$0||");
}

/* ---- whose lock it is ---- */

static void another_connections_lock_is_not_overwritten(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_ask(a, "SET k mine NX PX 30000", "+OK|");
    resp_say(b, "SET k yours");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_say(b, "SET k yours XX PX 5000");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_ask(b, "SET k yours NX GET", "$4|mine|");
    resp_ask(a, "SET k still-mine KEEPTTL", "+OK|");
    resp_ask(b, "GET k", "$10|still-mine|");
    resp_ask(b, "PEXPIRE k 40000", ":1|"); /* longer harms nobody's exclusion ... */
    resp_say(b, "PEXPIRE k 1000");         /* ... shorter would be a hidden force-unlock */
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_ask(a, "PEXPIRE k 1000", ":1|");
    assert_int_equal(audited(), 0);
}

static void del_of_ones_own_lock_is_a_release(void **state)
{
    struct resp_client *a = client();
    resp_ask(a, "SET k v NX PX 30000", "+OK|");
    resp_ask(a, "DEL k nothing", ":1|");
    resp_ask(a, "UNLINK k", ":0|");
    assert_int_equal(audited(), 0);
}

static void del_of_a_foreign_lock_is_an_audited_force_unlock(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_ask(a, "SET k v NX PX 30000", "+OK|");
    resp_ask(b, "DEL k", ":1|");
    assert_int_equal(audited(), 1);
    resp_ask(a, "SET k v NX PX 30000", "+OK|");
    resp_ask(b, "PEXPIRE k 0", ":1|");
    assert_int_equal(audited(), 2);
    take_elsewhere("k");
    resp_ask(b, "DEL k", ":1|");
    assert_int_equal(audited(), 3);
}

static void del_of_a_foreign_lock_can_be_switched_off(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_ask(a, "SET k v NX PX 30000", "+OK|");
    resp_ask(b, "SET own v NX PX 30000", "+OK|");
    resp_say(b, "DEL own k");
    resp_expect_start(b, "-NOPERM ");
    resp_ask(b, "EXISTS own k", ":2|"); /* all or nothing */
    resp_say(b, "EXPIRE k 0");
    resp_expect_start(b, "-NOPERM ");
    resp_ask(b, "DEL own", ":1|");
    resp_ask(a, "DEL k", ":1|");
    assert_int_equal(audited(), 0);
}

static void a_lock_of_another_api_is_a_key(void **state)
{
    struct resp_client *c = client();
    uint64_t token = take_elsewhere("k");
    char expected[64];
    snprintf(expected, sizeof(expected), ":%llu|", (unsigned long long)token);
    resp_ask(c, "SET k v NX PX 5000", "$-1|");
    resp_ask(c, "GET k", "$13|holdfast:curl|");
    resp_ask(c, "TYPE k", "+string|");
    resp_ask(c, "PTTL k", ":30000|");
    resp_ask(c, "HF.TOKEN k", expected);
    resp_say(c, "SET k v");
    resp_expect_start(c, "-ERR the lock is held");
    resp_say(c, "EXPIRE k 60");
    resp_expect_start(c, "-ERR the lock was taken through another API");
    resp_say(c, "HSET k f v");
    resp_expect_start(c, "-WRONGTYPE ");
    resp_say(c, "INCR k");
    resp_expect_start(c, "-WRONGTYPE ");
}

static void tokens_rise_with_each_grant(void **state)
{
    struct resp_client *c = client();
    resp_say(c, "SET k v NX PX 5000");
    c->got_len = 0;
    resp_say(c, "HF.TOKEN k");
    long first = strtol(c->got + 1, NULL, 10);
    c->got_len = 0;
    resp_say(c, "DEL k\r\nSET k v NX PX 5000");
    c->got_len = 0;
    resp_say(c, "HF.TOKEN k");
    assert_true(strtol(c->got + 1, NULL, 10) > first);
    c->got_len = 0;
    resp_ask(c, "HF.TOKEN nothing", "$-1|");
}

/* ---- time ---- */

static void expire_renews_with_every_rule(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "SET k v NX PX 10000", "+OK|");
    resp_ask(c, "EXPIRE k 20", ":1|");
    resp_ask(c, "PTTL k", ":20000|");
    resp_ask(c, "PEXPIRE k 15000 GT", ":0|");
    resp_ask(c, "PEXPIRE k 15000 LT", ":1|");
    resp_ask(c, "PEXPIRE k 16000 NX", ":0|"); /* a lock always has one */
    resp_ask(c, "PEXPIRE k 16000 XX", ":1|");
    resp_ask(c, "PEXPIRE k 17000 XX GT", ":1|");
    resp_ask(c, "PTTL k", ":17000|");
    resp_ask(c, "PEXPIREAT k 1731660607123", ":1|");
    resp_ask(c, "PTTL k", ":30000|");
    resp_ask(c, "PEXPIRETIME k", ":1731660607123|");
    resp_ask(c, "EXPIRE nothing 10", ":0|");
    resp_ask(c, "TTL nothing", ":-2|");
    resp_say(c, "PEXPIRE k 16000 NX GT");
    resp_expect_start(c, "-ERR NX and XX, GT or LT");
    resp_say(c, "EXPIRE k 90000");
    resp_expect_start(c, "-ERR invalid expire time");
    resp_say(c, "PERSIST k");
    resp_expect_start(c, "-ERR a lock without a TTL");
    resp_ask(c, "EXPIRE k -1", ":1|");
    resp_ask(c, "EXISTS k", ":0|");
}

static void a_lock_expires(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "SET k v NX PX 5000", "+OK|");
    resp_world_pass(&world, 4000);
    resp_ask(c, "PTTL k", ":1000|");
    resp_world_pass(&world, 1001);
    resp_ask(c, "GET k", "$-1|");
    resp_ask(c, "SET k w NX PX 5000", "+OK|");
}

/* ---- counters, hashes, lists ---- */

static void counters_are_apart_from_locks(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "INCR n", ":1|");
    resp_ask(c, "INCRBY n 41", ":42|");
    resp_ask(c, "DECR n", ":41|");
    resp_ask(c, "DECRBY n 50", ":-9|");
    resp_ask(c, "GET n", "$2|-9|");
    resp_ask(c, "TTL n", ":-1|");
    resp_ask(c, "TYPE n", "+string|");
    resp_ask(c, "INCRBY n 9223372036854775807", ":9223372036854775798|");
    resp_ask(c, "INCRBY n 10", "-ERR increment or decrement would overflow|");
    resp_say(c, "SET n v");
    resp_expect_start(c, "-WRONGTYPE ");
    resp_say(c, "EXPIRE n 10");
    resp_expect_start(c, "-ERR a counter has no TTL");
    resp_ask(c, "SET n v NX PX 5000", "$-1|");
    resp_ask(c, "DEL n", ":1|");
    resp_ask(c, "EXISTS n", ":0|");
}

static void hashes_are_locks_with_fields(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_ask(a, "HSET h f 1 g two f 3", ":2|");
    resp_ask(a, "HGETALL h", "*4|$1|f|$1|3|$1|g|$3|two|");
    resp_ask(a, "TYPE h", "+hash|");
    resp_ask(a, "TTL h", ":86400|");
    resp_ask(a, "HINCRBY h f 4", ":7|");
    resp_ask(a, "HINCRBY h new -2", ":-2|");
    resp_ask(a, "HINCRBY h g 1", "-ERR hash value is not an integer|");
    resp_ask(a, "HEXISTS h g", ":1|");
    resp_ask(a, "HEXISTS h x", ":0|");
    resp_ask(a, "HMGET h g x f", "*3|$3|two|$-1|$1|7|");
    resp_ask(a, "HKEYS h", "*3|$1|f|$1|g|$3|new|");
    resp_ask(a, "HLEN h", ":3|");
    resp_say(a, "GET h");
    resp_expect_start(a, "-WRONGTYPE ");
    resp_say(b, "HSET h f 9");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_say(b, "HDEL h f");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_ask(b, "HGET h f", "$1|7|");
    resp_ask(a, "HDEL h f g nothing", ":2|");
    resp_ask(a, "HGETALL h", "*2|$3|new|$2|-2|");
    resp_ask(a, "HDEL h new", ":1|");
    resp_ask(b, "SET h v NX PX 5000", "+OK|"); /* the last field was the lock's end */
    resp_say(a, "HGET h f");
    resp_expect_start(a, "-WRONGTYPE ");
    resp_say(a, "HSET x f");
    resp_expect_start(a, "-ERR wrong number");
    resp_say(a, "HSET x f v g");
    resp_expect_start(a, "-ERR wrong number");
}

static void a_hash_has_a_limit(void **state)
{
    struct resp_client *c = client();
    char line[2100] = "HSET h a";
    resp_ask(c, "HSET h f 1", ":1|");
    memset(line + 8, 'x', 2000);
    memcpy(line + 2008, " 1", 3);
    resp_ask(c, line, ":1|");
    line[7] = 'b';
    resp_ask(c, line, ":1|");
    line[7] = 'c';
    resp_say(c, line);
    resp_expect_start(c, "-ERR the fields of a hash take at most");
    resp_ask(c, "HLEN h", ":3|");
}

static void scan_finds_every_key_once(void **state)
{
    struct resp_client *c = client();
    for (int i = 0; i < 100; i++) {
        char line[64];
        snprintf(line, sizeof(line), i % 10 == 0 ? "HSET job:%d f v" : "SET job:%d v NX PX 50000",
                 i);
        resp_say(c, line);
        c->got_len = 0;
    }
    resp_say(c, "SET other v NX PX 50000\r\nINCR job:n");
    c->got_len = 0;
    unsigned seen = 0;
    unsigned pages = 0;
    char cursor[32] = "0";
    do {
        char line[80];
        snprintf(line, sizeof(line), "SCAN %s MATCH job:?* COUNT 7", cursor);
        resp_say(c, line);
        assert_int_equal(sscanf(c->got, "*2\r\n$%*d\r\n%31s", cursor), 1);
        for (const char *at = strstr(c->got, "job:"); at != NULL; at = strstr(at + 1, "job:")) {
            seen++;
        }
        assert_null(strstr(c->got, "other"));
        c->got_len = 0;
        assert_true(++pages < 1000);
    } while (strcmp(cursor, "0") != 0);
    assert_int_equal(seen, 101);
    resp_say(c, "SCAN 0 TYPE hash COUNT 1000");
    seen = 0;
    for (const char *at = strstr(c->got, "job:"); at != NULL; at = strstr(at + 1, "job:")) {
        seen++;
    }
    assert_int_equal(seen, 10);
    c->got_len = 0;
    resp_ask(c, "DBSIZE", ":101|");
    resp_say(c, "SCAN 0 COUNT 1000 MATCH *[0-9]9");
    assert_non_null(strstr(c->got, "job:19\r\n"));
    assert_null(strstr(c->got, "job:9\r\n"));
    assert_null(strstr(c->got, "job:18\r\n"));
    c->got_len = 0;
    resp_ask(c, "SCAN x", "-ERR invalid cursor|");
    resp_ask(c, "SCAN 4294967296", "-ERR invalid cursor|");
    resp_ask(c, "SCAN 0 COUNT 0", "-ERR syntax error|");
}

/* ---- runs that meet ---- */

static void runs_on_one_key_take_turns(void **state)
{
    struct resp_client *clients[10];
    world.gateway.is_held = true;
    for (size_t i = 0; i < 10; i++) {
        clients[i] = client();
        resp_send_only(clients[i], "INCR n\r\n");
    }
    resp_world_run(&world);
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT], 1); /* the rest would be in vain */
    world.gateway.is_held = false;
    resp_world_run(&world);
    for (size_t i = 0; i < 10; i++) {
        char expected[16];
        snprintf(expected, sizeof(expected), ":%zu|", i + 1);
        resp_expect(clients[i], expected);
    }
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT], 10);
}

static void a_run_that_met_a_conflict_is_made_again(void **state)
{
    struct resp_client *c = client();
    for (unsigned times = 1; times <= 8; times++) {
        char name[16];
        char line[32];
        char expected[16];
        snprintf(name, sizeof(name), "k%u", times);
        snprintf(line, sizeof(line), "SETNX %s v\r\n", name);
        snprintf(expected, sizeof(expected), "%s", times % 2 == 1 ? ":0|" : ":1|");
        world.gateway.is_held = true;
        resp_send_only(c, line);
        resp_world_run(&world);
        if (times % 2 == 1) {
            take_elsewhere(name); /* while it is on its way */
        }
        world.gateway.is_held = false;
        resp_world_run(&world);
        resp_expect(c, expected);
    }
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.resp_conflicts, 4);
}

static void after_eight_conflicts_the_client_is_told_to_try_again(void **state)
{
    struct resp_client *c = client();
    struct resp_client *own = client();
    uint64_t before = world.gateway.submitted[COMMAND_TRANSACT];
    resp_ask(own, "SET k v NX PX 5000", "+OK|");
    resp_send_only(c, "SET k w XX GET\r\n");
    for (unsigned i = 0; i < 8; i++) {
        world.gateway.is_held = true;
        service_run(world.service);
        struct command renew; /* changes what was read: its deadline */
        struct result r;
        struct key_view view;
        view_key(world.gateway.core, 0, slice_of("k"), &view);
        command_init(&renew, COMMAND_RENEW);
        renew.renew.name = slice_of("k");
        renew.renew.token = view.token;
        renew.renew.client = view.client;
        fake_gateway_pass(&world.gateway, 10);
        fake_gateway_apply(&world.gateway, &renew, &r);
        assert_int_equal(r.outcome, OUTCOME_DONE);
        world.gateway.is_held = false;
        fake_gateway_deliver(&world.gateway);
    }
    resp_world_run(&world);
    resp_expect_start(c, "-TRYAGAIN ");
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT] - before, 8);
    resp_ask(c, "GET k", "$1|v|");
}

static bool is_never_settled(void *ctx)
{
    (void)ctx;
    return false;
}

static void a_run_that_never_gets_its_turn_is_given_up(void **state)
{
    struct resp_client *c = client();
    world.service->gateway.is_settled = is_never_settled;
    resp_say(c, "INCR n");
    resp_world_pass(&world, 4000);
    resp_expect(c, "");
    resp_world_pass(&world, 1500);
    resp_expect_start(c, "-CLUSTERDOWN ");
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT], 0);
}

static void multi_and_exec_are_one_transaction(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_ask(a, "MULTI", "+OK|");
    resp_ask(a, "SET k \"a b\" NX PX 5000", "+QUEUED|");
    resp_ask(a, "INCR n", "+QUEUED|");
    resp_ask(a, "GET k", "+QUEUED|");
    resp_ask(a, "HGET k f", "+QUEUED|");
    resp_ask(b, "EXISTS k n", ":0|");
    resp_ask(a, "EXEC", "*4|+OK|:1|$3|a b|-WRONGTYPE " KEY_WRONG_TYPE "|");
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT], 1);
    resp_ask(b, "GET k", "$3|a b|");
    resp_ask(a, "EXEC", "-ERR EXEC without MULTI|");
    resp_ask(a, "MULTI", "+OK|");
    resp_ask(a, "EXEC", "*0|");
    resp_ask(a, "MULTI", "+OK|");
    resp_ask(a, "INCR n", "+QUEUED|");
    resp_ask(a, "MULTI", "-ERR MULTI calls can not be nested|");
    resp_ask(a, "DISCARD", "+OK|");
    resp_ask(a, "DISCARD", "-ERR DISCARD without MULTI|");
    resp_ask(a, "MULTI", "+OK|");
    resp_ask(a, "INCR n", "+QUEUED|");
    resp_say(a, "NONSENSE");
    resp_expect_start(a, "-ERR unknown command");
    resp_ask(a, "EXEC", "-EXECABORT Transaction discarded because of previous errors.|");
    resp_ask(a, "MULTI", "+OK|");
    resp_say(a, "SUBSCRIBE c");
    resp_expect_start(a, "-ERR 'subscribe' is not possible");
    resp_ask(a, "EXEC", "-EXECABORT Transaction discarded because of previous errors.|");
    resp_ask(a, "GET n", "$1|1|");
}

/* S10: the leader's memory is read without a barrier, and by nobody else. */
static void keys_of_the_tier_efficiency_are_in_the_memory_of_the_leader(void **state)
{
    struct resp_client *c = client();
    world.service->options.resp_tier = TIER_EFFICIENCY;
    world.service->gateway.memory_core = world.gateway.gateway.core; /* there is one core here */
    resp_ask(c, "SET k v NX PX 5000", "+OK|");
    resp_ask(c, "GET k", "$1|v|");
    resp_ask(c, "PEXPIRE k 10000", ":1|");
    resp_ask(c, "DEL k", ":1|");
    assert_int_equal(world.gateway.barriers, 0);
    world.service->gateway.memory_core = NULL;
    resp_say(c, "GET k");
    resp_expect_start(c, "-CLUSTERDOWN ");
    world.gateway.status.leader = 2;
    resp_say(c, "GET k");
    resp_expect_start(c, "-READONLY ");
    resp_say(c, "INCR n");
    resp_expect_start(c, "-READONLY ");
    resp_say(c, "SET k v NX PX 5000"); /* it could not be given back here */
    resp_expect_start(c, "-READONLY ");
}

/* ---- as a script sees it ---- */

struct heard {
    char text[256];
};

static void hear(void *ctx, const char *text)
{
    struct heard *h = ctx;
    strncat(h->text, text, sizeof(h->text) - strlen(h->text) - 1);
    strncat(h->text, " ", sizeof(h->text) - strlen(h->text) - 1);
}

static void hear_error(void *ctx, const char *code, const char *text)
{
    hear(ctx, code);
    (void)text;
}

static void hear_integer(void *ctx, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    hear(ctx, text);
}

static void hear_bulk(void *ctx, struct slice bytes)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)bytes.len, (const char *)bytes.data);
    hear(ctx, text);
}

static void hear_null(void *ctx)
{
    hear(ctx, "nil");
}

static void hear_count(void *ctx, uint32_t count)
{
    hear_integer(ctx, count);
}

static void call(struct keyspace *k, const char *line, const char *expected)
{
    struct heard h = {""};
    struct key_sink sink = {&h,        hear,      hear_error, hear_integer,
                            hear_bulk, hear_null, hear_count, hear_count};
    struct slice args[8];
    uint32_t count = 0;
    while (*line != '\0') {
        size_t len = strcspn(line, " ");
        args[count++] = slice_make(line, len);
        line += len + (line[len] == ' ');
    }
    keyspace_call(k, args, count, &sink);
    if (strlen(h.text) > 0) {
        h.text[strlen(h.text) - 1] = '\0';
    }
    assert_string_equal(h.text, expected);
}

static struct keyspace *script(const char *client_name)
{
    struct keyspace *k = &world.service->resp->keyspace;
    keyspace_begin(k, 0, slice_of(client_name), false);
    keyspace_enter_script(k);
    return k;
}

static void submit(struct keyspace *k, enum outcome expected)
{
    struct command c;
    struct result r;
    assert_int_equal(keyspace_build(k, &c), HF_OK);
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.error, HF_OK);
    assert_int_equal(r.outcome, expected);
}

static void a_script_sees_what_it_has_done(void **state)
{
    struct keyspace *k = script("a");
    call(k, "GET k", "nil");
    call(k, "SET k v PX 5000", "OK");
    call(k, "GET k", "v");
    call(k, "PTTL k", "5000");
    call(k, "INCR n", "1");
    call(k, "INCR n", "2");
    call(k, "HSET h f 1", "1");
    call(k, "HINCRBY h f 2", "3");
    call(k, "DEL h", "1");
    call(k, "EXISTS h k n", "2");
    call(k, "PUBLISH c m", "0");
    call(k, "PING", "ERR");
    call(k, "SUBSCRIBE c", "ERR");
    call(k, "SCAN 0", "ERR");
    call(k, "NONSENSE", "ERR");
    call(k, "GET", "ERR");
    call(k, "HF.TOKEN k", "ERR"); /* it has none before it is done */
    submit(k, OUTCOME_DONE);
    struct resp_client *c = client();
    resp_ask(c, "MGET k n h", "*3|$1|v|$1|2|$-1|");
}

static void a_script_that_compared_may_delete(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "SET k v NX PX 30000", "+OK|");
    struct keyspace *k = script("b");
    call(k, "EXISTS k", "1"); /* that it is there says nothing about whose it is */
    call(k, "SET k w", "ERR");
    call(k, "GET k", "v");
    call(k, "DEL k", "1");
    submit(k, OUTCOME_DONE);
    assert_int_equal(audited(), 0);
    resp_ask(c, "SET k v NX PX 30000", "+OK|");
    k = script("b");
    call(k, "DEL k", "1"); /* Redisson's forceUnlock */
    submit(k, OUTCOME_DONE);
    assert_int_equal(audited(), 1);
}

static void a_script_is_done_only_if_nothing_it_read_has_changed(void **state)
{
    struct resp_client *c = client();
    resp_ask(c, "SET k v NX PX 30000", "+OK|");
    struct keyspace *k = script("b");
    call(k, "GET k", "v");
    call(k, "SET other w", "OK");
    struct command command;
    struct result r;
    assert_int_equal(keyspace_build(k, &command), HF_OK);
    take_elsewhere("unrelated");
    fake_gateway_apply(&world.gateway, &command, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
    k = script("b");
    call(k, "GET k", "v");
    call(k, "GET free", "nil");
    call(k, "SET third w", "OK");
    assert_int_equal(keyspace_build(k, &command), HF_OK);
    take_elsewhere("free");
    fake_gateway_apply(&world.gateway, &command, &r);
    assert_int_equal(r.outcome, OUTCOME_REFUSED);
    assert_int_equal(r.reason, REASON_CONFLICT);
    resp_ask(c, "EXISTS other third", ":1|");
}

static void a_script_has_bounds(void **state)
{
    struct keyspace *k = script("a");
    char line[64];
    for (int i = 0; i < LIMIT_CHECKS; i++) {
        snprintf(line, sizeof(line), "EXISTS k%d", i);
        call(k, line, "0");
    }
    call(k, "EXISTS more", "ERR");
    call(k, "EXISTS k1", "0");
    for (int i = 0; i < LIMIT_EFFECTS; i++) {
        call(k, "PUBLISH c m", "0");
    }
    call(k, "PUBLISH c m", "ERR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(set_takes_every_option_of_redis, set_up, tear_down),
        cmocka_unit_test_setup_teardown(set_refuses_what_makes_no_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_may_be_any_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_connections_lock_is_not_overwritten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(del_of_ones_own_lock_is_a_release, set_up, tear_down),
        cmocka_unit_test_setup_teardown(del_of_a_foreign_lock_is_an_audited_force_unlock, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(del_of_a_foreign_lock_can_be_switched_off, set_up_guarded,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lock_of_another_api_is_a_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tokens_rise_with_each_grant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expire_renews_with_every_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_expires, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counters_are_apart_from_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hashes_are_locks_with_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hash_has_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scan_finds_every_key_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_on_one_key_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_met_a_conflict_is_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_eight_conflicts_the_client_is_told_to_try_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_never_gets_its_turn_is_given_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(multi_and_exec_are_one_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_of_the_tier_efficiency_are_in_the_memory_of_the_leader,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_sees_what_it_has_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_that_compared_may_delete, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_is_done_only_if_nothing_it_read_has_changed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_has_bounds, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
