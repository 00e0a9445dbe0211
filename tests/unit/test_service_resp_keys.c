/* The commands of the Redis protocol on keys: what each means for a lock, and whose lock it is. */
#include "resp_testing.h"

static int set_up_guarded(void **state)
{
    set_up_with(&(struct service_options){.resp_del_refused = true});
    return 0;
}

static int set_up_short(void **state)
{
    set_up_with(&(struct service_options){.resp_ttl_min_ms = 250, .resp_ttl_max_ms = 60000});
    return 0;
}

/* ---- SET and GET ---- */

static void set_takes_every_option_of_redis(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v", "+OK|");
    resp_request(c, "TTL k", ":-1|");
    resp_request(c, "SET k w EX 10", "+OK|");
    resp_request(c, "PTTL k", ":10000|");
    resp_request(c, "SET k x KEEPTTL", "+OK|");
    resp_request(c, "PTTL k", ":10000|");
    resp_request(c, "SET k y XX PX 20000 GET", "$1|x|");
    resp_request(c, "GET k", "$1|y|");
    resp_request(c, "PTTL k", ":20000|");
    resp_request(c, "SET k z NX GET", "$1|y|");
    resp_request(c, "SET free z XX", "$-1|");
    resp_request(c, "SET free z XX GET", "$-1|");
    resp_request(c, "EXISTS free", ":0|");
    resp_request(c, "SET k z PXAT 1731660607123", "+OK|");
    resp_request(c, "PTTL k", ":30000|");
    resp_request(c, "SET k z EXAT 1731660587", "+OK|");
    resp_request(c, "PTTL k", ":9877|");
    resp_request(c, "SETEX k 30 v", "+OK|");
    resp_request(c, "PSETEX k 5000 v", "+OK|");
    resp_request(c, "PTTL k", ":5000|");
    resp_request(c, "SETNX k v", ":0|");
    resp_request(c, "SETNX other v", ":1|");
    resp_request(c, "SET third v NX GET", "$-1|");
    resp_request(c, "SETNX third w", ":0|");
    resp_request(c, "GET third", "$1|v|");
    resp_request(c, "INCR counter", ":1|");
    resp_request(c, "SETNX counter w", ":0|");
    resp_request(c, "STRLEN k", ":1|");
    resp_request(c, "MGET k nothing other", "*3|$1|v|$-1|$1|v|");
}

static void set_refuses_what_makes_no_lock(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v NX XX", "-ERR syntax error|");
    resp_request(c, "SET k v PX", "-ERR syntax error|");
    resp_request(c, "SET k v PX 5000 EX 5", "-ERR syntax error|");
    resp_request(c, "SET k v EX ten", "-ERR value is not an integer or out of range|");
    resp_request(c, "SET k v EX 5x", "-ERR value is not an integer or out of range|");
    static const char *const times[] = {"SET k v PX 0", "SET k v NX PX -1",
                                        "SET k v EX 9223372036854775807"};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        resp_request(c, times[i], "-ERR invalid expire time in 'set' command|");
    }
    resp_request(c, "SETEX k 0 v", "-ERR invalid expire time in 'setex' command|");
    resp_say(c, "SET k v EX 315360001");
    resp_expect_start(c,
                      "-ERR invalid expire time: a key lives for at least resp-ttl-min = 1 ms and "
                      "at most resp-ttl-max = 315360000000 ms");
    resp_say(c, "SET \"\" v NX PX 5000");
    resp_expect_start(c, "-ERR invalid key");
    resp_say(c, "GET \"\"");
    resp_expect_start(c, "-ERR invalid key");
    char large[4200] = "SET k ";
    memset(large + 6, 'v', 4097);
    resp_say(c, large);
    resp_expect_start(c, "-ERR a value is at most");
    memset(large, 0, sizeof(large));
    memcpy(large, "GET ", 4);
    memset(large + 4, 'k', 513);
    resp_say(c, large);
    resp_expect_start(c, "-ERR invalid key");
    resp_request(c, "EXISTS k", ":0|");
}

static void an_expire_time_out_of_range_gets_the_range(void **state)
{
    struct resp_client *c = client(); /* its range is 250 ms to 60 s */
    resp_request(c, "SET k v NX PX 250", "+OK|");
    resp_say(c, "SET k v PX 249");
    resp_expect_start(
        c, "-ERR invalid expire time: a key lives for at least resp-ttl-min = 250 ms and "
           "at most resp-ttl-max = 60000 ms");
    resp_say(c, "SET k v EX 61");
    resp_expect_start(c, "-ERR invalid expire time: a key lives for");
    resp_request(c, "SET k v", "+OK|"); /* with a range of its own, every key has a TTL */
    resp_request(c, "PTTL k", ":60000|");
    resp_say(c, "PERSIST k");
    resp_expect_start(c, "-ERR PERSIST is disabled");
    resp_request(c, "SET other v NX", "+OK|");
    resp_request(c, "PTTL other", ":60000|");
}

static void a_key_may_live_for_1_ms_to_10_years(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v NX PX 1", "+OK|");
    resp_request(c, "PTTL k", ":1|");
    resp_world_pass(&world, 1);
    resp_request(c, "GET k", "$-1|");
    resp_request(c, "SET k v NX EX 315360000", "+OK|");
    resp_request(c, "TTL k", ":315360000|");
    resp_request(c, "PEXPIRE k 5", ":1|");
    resp_world_pass(&world, 5);
    resp_request(c, "SET k w NX", "+OK|");
    resp_request(c, "SET old v PXAT 1", "+OK|"); /* as Redis: set, and gone at once */
    resp_world_pass(&world, 1);
    resp_request(c, "EXISTS old", ":0|");
}

static void a_key_without_ttl_lives_until_it_is_deleted(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET k v NX", "+OK|");
    resp_request(b, "TTL k", ":-1|");
    resp_request(b, "EXPIRETIME k", ":-1|");
    resp_world_pass(&world, 3000000);
    resp_request(b, "SET k w NX", "$-1|");
    resp_request(a, "PERSIST k", ":0|");
    resp_request(a, "EXPIRE k 10 XX", ":0|");
    resp_request(a, "EXPIRE k 10 GT", ":0|");
    resp_say(b, "EXPIRE k 10"); /* another connection may not shorten it */
    resp_expect_start(b, "-ERR the lock is held by another connection: its TTL can be extended");
    resp_request(a, "EXPIRE k 10 NX", ":1|");
    resp_request(a, "TTL k", ":10|");
    resp_request(b, "PERSIST k", ":1|"); /* but extend */
    resp_request(a, "TTL k", ":-1|");
    resp_request(a, "SET k x KEEPTTL", "+OK|");
    resp_request(a, "TTL k", ":-1|");
    resp_request(a, "SET k x EX 5", "+OK|");
    resp_request(a, "SET k x", "+OK|"); /* takes the TTL away */
    resp_request(a, "TTL k", ":-1|");
    resp_request(a, "DEL k", ":1|");
    resp_request(b, "SET k w NX", "+OK|");
    (void)take_elsewhere("job");
    resp_say(a, "PERSIST job");
    resp_expect_start(a, "-ERR the lock was taken through another API");
}

static void a_key_that_is_set_without_nx_is_everybodys(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET v 1 EX 10", "+OK|");
    resp_request(b, "SET v 2", "+OK|");
    resp_request(a, "EXPIRE v 5", ":1|");
    resp_request(b, "EXPIRE v 1", ":1|"); /* shorter: nobody's own */
    resp_request(b, "SET v x NX", "$-1|");
    resp_request(b, "DEL v", ":1|");
    resp_request(a, "MSET x 1 y 2", "+OK|");
    resp_request(b, "MSET x 3 y 4", "+OK|");
    resp_request(a, "SETEX z 10 1", "+OK|");
    resp_request(b, "SETEX z 10 2", "+OK|");
    assert_int_equal(audited(), 0);
    resp_request(a, "SET l 1 NX", "+OK|");
    resp_request(a, "SET l 2", "+OK|"); /* stays a lock */
    resp_say(b, "SET l 3");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_request(a, "MULTI", "+OK|");
    resp_request(a, "SET m 1 NX", "+QUEUED|");
    resp_request(a, "SET m 2", "+QUEUED|");
    resp_request(a, "EXEC", "*2|+OK|+OK|");
    resp_say(b, "SET m 3");
    resp_expect_start(b, "-ERR the lock is held by another connection");
}

static void a_name_that_no_key_can_have_does_not_exist(void **state)
{
    struct resp_client *c = client();
    char line[600] = "DEL ";
    memset(line + 4, 'k', 513);
    resp_request(c, line, ":0|");
    memcpy(line, "EXISTS k ", 9);
    memset(line + 9, 'k', 513);
    resp_request(c, "SET k v", "+OK|");
    resp_request(c, line, ":1|");
}

static void a_key_may_be_any_bytes(void **state)
{
    struct resp_client *c = client();
    static const char *const keys[] = {"a//b", "\"a\\x01\"", "\"\\xff\"",
                                       "../x", "redis:3/x",  "a%FF"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char line[64];
        snprintf(line, sizeof(line), "SET %s v%zu NX PX 5000", keys[i], i);
        resp_request(c, line, "+OK|");
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char line[64];
        char expected[16];
        snprintf(line, sizeof(line), "GET %s", keys[i]);
        snprintf(expected, sizeof(expected), "$2|v%zu|", i);
        resp_request(c, line, expected);
    }
    resp_request(c, "MGET \"\\xff\" a//b", "*2|$2|v2|$2|v0|");
    resp_request(c, "DEL \"\\xff\" redis:3/x", ":2|");
    resp_request(c, "SCAN 0 COUNT 100 MATCH a//*", "*2|$13|1099511627776|*1|$4|a//b|");
    struct lock_view lock;
    assert_true(view_lock(world.gateway.core, 0, slice_of("redis:0/a/%2Fb"), &lock));
    assert_true(view_lock(world.gateway.core, 0, slice_of("a%FF"), &lock));
}

static void databases_are_separate(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(b, "SELECT 3", "+OK|");
    resp_request(a, "SET k zero NX", "+OK|");
    resp_request(b, "GET k", "$-1|");
    resp_request(b, "SET k three NX", "+OK|");
    resp_request(a, "GET k", "$4|zero|");
    resp_request(b, "EVAL \"return redis.call('GET', KEYS[1])\" 1 k", "$5|three|");
    resp_request(b, "SCAN 0 COUNT 100", "*2|$13|1099511627776|*1|$1|k|");
    resp_request(b, "DBSIZE", ":1|");
    resp_request(a, "GET redis:3/k", "$-1|");
    resp_request(a, "DEL k", ":1|");
    resp_request(b, "EXISTS k", ":1|");
    struct key_view key;
    view_key(world.gateway.core, 0, slice_of("redis:3/k"), &key);
    assert_int_equal(key.kind, KEY_STRING);
    resp_request(a, "SELECT 15", "+OK|");
    resp_request(a, "SELECT 16", "-ERR DB index is out of range|");
    resp_request(a, "SELECT -1", "-ERR DB index is out of range|");
    resp_request(b, "RESET", "+RESET|");
    resp_request(b, "EXISTS k", ":0|");
}

static void before_version_8_a_key_has_the_ttl_of_other_locks(void **state)
{
    struct resp_client *c = client();
    fake_gateway_start_over(&world.gateway, 7);
    resp_say(c, "GET a//b");
    resp_expect_start(c, "-ERR invalid key: until all nodes are upgraded");
    resp_say(c, "SELECT 1");
    resp_expect_start(c, "-ERR DB index is out of range: until all nodes are upgraded");
    resp_request(c, "SET k v", "+OK|");
    resp_request(c, "TTL k", ":86400|");
    resp_request(c, "SET other v NX", "+OK|");
    resp_request(c, "TTL other", ":86400|");
    resp_request(c, "HSET h f v", ":1|");
    resp_request(c, "TTL h", ":86400|");
    resp_say(c, "SET k v PX 999");
    resp_expect_start(
        c, "-ERR invalid expire time: a lock lives for at least ttl-min = 1000 ms and at "
           "most 86400000 ms (24 h) until all nodes are upgraded");
    resp_say(c, "PEXPIRE k 86400001");
    resp_expect_start(c, "-ERR invalid expire time: a lock lives");
    resp_say(c, "PERSIST k");
    resp_expect_start(c, "-ERR PERSIST works on counters only");
    resp_request(c, "INCR n", ":1|");
    resp_say(c, "EXPIRE n 2678401");
    resp_expect_start(c, "-ERR invalid expire time: a counter lives for at most 2678400000 ms");
}

static void getrange_is_a_part_of_the_value(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k abcdef NX PX 5000", "+OK|");
    resp_request(c, "GETRANGE k 0 2", "$3|abc|");
    resp_request(c, "GETRANGE k 2 100", "$4|cdef|");
    resp_request(c, "GETRANGE k -2 -1", "$2|ef|");
    resp_request(c, "GETRANGE k -100 0", "$1|a|");
    resp_request(c, "GETRANGE k 3 1", "$0||");
    resp_request(c, "GETRANGE k 6 9223372036854775807", "$0||");
    resp_request(c, "GETRANGE k -9223372036854775808 -9223372036854775808", "$0||");
    resp_request(c, "GETRANGE nothing 0 -1", "$0||");
    resp_request(c, "GETRANGE k 0 x", "-ERR value is not an integer or out of range|");
    resp_request(c, "INCRBY n 120", ":120|");
    resp_request(c, "GETRANGE n 1 1", "$1|2|");
    take_elsewhere("l");
    resp_request(c, "GETRANGE l 9 -1", "$4|curl|");
    resp_request(c, "HSET h f 1", ":1|");
    resp_say(c, "GETRANGE h 0 1");
    resp_expect_start(c, "-WRONGTYPE ");
}

static void several_locks_are_taken_together(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "MSETNX x 1 y 2", ":1|");
    resp_request(a, "TTL y", ":-1|");
    resp_request(b, "MSETNX z 1 y 2", ":0|");
    resp_request(b, "EXISTS z", ":0|");
    resp_say(b, "MSET z 1 y 2");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_request(b, "EXISTS z", ":0|");
    resp_request(a, "MSET y 3 z 4 y 5", "+OK|");
    resp_request(b, "MGET x y z", "*3|$1|1|$1|5|$1|4|");
    resp_request(a, "MSET y", "-ERR wrong number of arguments for 'mset' command|");
    resp_request(a, "MSET y 1 z", "-ERR wrong number of arguments for 'mset' command|");
    resp_request(a, "MSETNX y 1 z", "-ERR wrong number of arguments for 'msetnx' command|");
    resp_say(a, "MSETNX \"\" 1");
    resp_expect_start(a, "-ERR invalid key");
    resp_request(a, "COMMAND GETKEYS MSET y 1 z 2", "*2|$1|y|$1|z|");
    resp_request(a, "COMMAND GETKEYS DEL y z", "*2|$1|y|$1|z|");
}

static void a_value_may_be_any_bytes(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k \"\\x00\\xff\\r\\n\" NX PX 5000", "+OK|");
    resp_say(c, "GET k");
    assert_int_equal(c->got_len, 10);
    assert_memory_equal(c->got, "$4\r\n\0\xff\r\n\r\n", 10);
    c->got_len = 0;
    resp_request(c, "SET e \"\" NX PX 5000", "+OK|");
    resp_request(c, "GET e", "$0||");
}

/* ---- whose lock it is ---- */

static void another_connections_lock_is_not_overwritten(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET k mine NX PX 30000", "+OK|");
    resp_say(b, "SET k yours");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_say(b, "SET k yours XX PX 5000");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_request(b, "SET k yours NX GET", "$4|mine|");
    resp_request(a, "SET k still-mine KEEPTTL", "+OK|");
    resp_request(b, "GET k", "$10|still-mine|");
    resp_request(b, "PEXPIRE k 40000", ":1|"); /* longer harms nobody's exclusion ... */
    resp_say(b, "PEXPIRE k 1000");             /* ... shorter would be a hidden force-unlock */
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_request(a, "PEXPIRE k 1000", ":1|");
    assert_int_equal(audited(), 0);
}

static void del_of_ones_own_lock_is_a_release(void **state)
{
    struct resp_client *a = client();
    resp_request(a, "SET k v NX PX 30000", "+OK|");
    resp_request(a, "DEL k nothing", ":1|");
    resp_request(a, "UNLINK k", ":0|");
    assert_int_equal(audited(), 0);
}

static void del_of_a_foreign_lock_is_an_audited_force_unlock(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET k v NX PX 30000", "+OK|");
    resp_request(b, "DEL k", ":1|");
    assert_int_equal(audited(), 1);
    resp_request(a, "SET k v NX PX 30000", "+OK|");
    resp_request(b, "PEXPIRE k 0", ":1|");
    assert_int_equal(audited(), 2);
    take_elsewhere("k");
    resp_request(b, "DEL k", ":1|");
    assert_int_equal(audited(), 3);
}

static void del_of_a_foreign_lock_can_be_switched_off(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET k v NX PX 30000", "+OK|");
    resp_request(b, "SET own v NX PX 30000", "+OK|");
    resp_say(b, "DEL own k");
    resp_expect_start(b, "-NOPERM ");
    resp_request(b, "EXISTS own k", ":2|"); /* all or nothing */
    resp_say(b, "EXPIRE k 0");
    resp_expect_start(b, "-NOPERM ");
    resp_request(b, "DEL own", ":1|");
    resp_request(a, "DEL k", ":1|");
    assert_int_equal(audited(), 0);
}

static void a_lock_of_another_api_is_a_key(void **state)
{
    struct resp_client *c = client();
    take_elsewhere("k");
    resp_request(c, "SET k v NX PX 5000", "$-1|");
    resp_request(c, "GET k", "$13|holdfast:curl|");
    resp_request(c, "TYPE k", "+string|");
    resp_request(c, "PTTL k", ":30000|");
    resp_say(c, "SET k v");
    resp_expect_start(c, "-ERR the lock is held");
    resp_say(c, "EXPIRE k 60");
    resp_expect_start(c, "-ERR the lock was taken through another API");
    resp_say(c, "HSET k f v");
    resp_expect_start(c, "-WRONGTYPE ");
    resp_say(c, "INCR k");
    resp_expect_start(c, "-WRONGTYPE ");
}

/* ---- time ---- */

static void expire_renews_with_every_rule(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v NX PX 10000", "+OK|");
    resp_request(c, "EXPIRE k 20", ":1|");
    resp_request(c, "PTTL k", ":20000|");
    resp_request(c, "PEXPIRE k 15000 GT", ":0|");
    resp_request(c, "PEXPIRE k 15000 LT", ":1|");
    resp_request(c, "PEXPIRE k 16000 NX", ":0|"); /* it has one */
    resp_request(c, "PEXPIRE k 16000 XX", ":1|");
    resp_request(c, "PEXPIRE k 17000 XX GT", ":1|");
    resp_request(c, "PTTL k", ":17000|");
    resp_request(c, "PEXPIREAT k 1731660607123", ":1|");
    resp_request(c, "PTTL k", ":30000|");
    resp_request(c, "PEXPIRETIME k", ":1731660607123|");
    resp_request(c, "EXPIRE nothing 10", ":0|");
    resp_request(c, "TTL nothing", ":-2|");
    resp_say(c, "PEXPIRE k 16000 NX GT");
    resp_expect_start(c, "-ERR NX and XX, GT or LT");
    resp_say(c, "EXPIRE k 315360001");
    resp_expect_start(c, "-ERR invalid expire time: a key lives");
    resp_request(c, "EXPIRE k 9223372036854775807",
                 "-ERR invalid expire time in 'expire' command|");
    resp_request(c, "PERSIST k", ":1|");
    resp_request(c, "EXPIRE k -1", ":1|");
    resp_request(c, "EXISTS k", ":0|");
}

static void a_lock_expires(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v NX PX 5000", "+OK|");
    resp_world_pass(&world, 4000);
    resp_request(c, "PTTL k", ":1000|");
    resp_world_pass(&world, 1001);
    resp_request(c, "GET k", "$-1|");
    resp_request(c, "SET k w NX PX 5000", "+OK|");
}

/* ---- counters, hashes, lists ---- */

static void counters_are_apart_from_locks(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "INCR n", ":1|");
    resp_request(c, "INCRBY n 41", ":42|");
    resp_request(c, "DECR n", ":41|");
    resp_request(c, "DECRBY n 50", ":-9|");
    resp_request(c, "GET n", "$2|-9|");
    resp_request(c, "TTL n", ":-1|");
    resp_request(c, "TYPE n", "+string|");
    resp_request(c, "INCRBY n 9223372036854775807", ":9223372036854775798|");
    resp_request(c, "INCRBY n 10", "-ERR increment or decrement would overflow|");
    resp_say(c, "SET n v");
    resp_expect_start(c, "-WRONGTYPE ");
    resp_request(c, "SET n v NX PX 5000", "$-1|");
    resp_request(c, "DEL n", ":1|");
    resp_request(c, "EXISTS n", ":0|");
}

static void a_counter_may_have_a_ttl(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "INCR n", ":1|");
    resp_request(a, "PERSIST n", ":0|");
    resp_request(a, "EXPIRE n 10", ":1|");
    resp_request(b, "PTTL n", ":10000|");
    resp_request(b, "PEXPIRETIME n", ":1731660587123|");
    resp_world_pass(&world, 4000);
    resp_request(b, "INCR n", ":2|"); /* keeps it */
    resp_request(a, "TTL n", ":6|");
    resp_request(b, "PEXPIRE n 1", ":1|"); /* nobody's own: it may be made shorter, below ttl-min */
    resp_request(b, "PEXPIRE n 3000", ":1|");
    resp_world_pass(&world, 3000);
    resp_request(a, "GET n", "$-1|");
    resp_request(a, "TTL n", ":-2|");
    resp_request(a, "EXPIRE n 10", ":0|");
    resp_request(a, "PERSIST n", ":0|");
    resp_request(a, "INCR n", ":1|"); /* a new window, without an end */
    resp_request(a, "TTL n", ":-1|");
    resp_request(a, "EXPIRE n 2678400", ":1|");
    resp_request(a, "EXPIRE n 60", ":1|");
    resp_request(a, "PERSIST n", ":1|");
    resp_world_pass(&world, 100000);
    resp_request(a, "GET n", "$1|1|");
    resp_request(a, "TTL n", ":-1|");
    resp_request(a, "EXPIRE n 0", ":1|");
    resp_request(a, "EXISTS n", ":0|");
    assert_int_equal(audited(), 0);
}

static void the_ttl_of_a_counter_takes_every_rule(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "INCR n", ":1|");
    resp_request(c, "EXPIRE n 10 XX", ":0|");
    resp_request(c, "EXPIRE n 10 GT", ":0|"); /* none is the longest */
    resp_request(c, "EXPIRE n 10 XX LT", ":0|");
    resp_request(c, "TTL n", ":-1|");
    resp_request(c, "EXPIRE n 20 LT", ":1|");
    resp_request(c, "EXPIRE n 10 NX", ":0|");
    resp_request(c, "EXPIRE n 10 GT", ":0|");
    resp_request(c, "EXPIRE n 10 XX LT", ":1|");
    resp_request(c, "EXPIRE n 30 XX GT", ":1|");
    resp_request(c, "TTL n", ":30|");
    resp_request(c, "PERSIST n", ":1|");
    resp_request(c, "EXPIRE n 40 NX", ":1|");
    resp_request(c, "PEXPIREAT n 1731660607123", ":1|");
    resp_request(c, "PTTL n", ":30000|");
    resp_say(c, "EXPIRE n 315360001");
    resp_expect_start(c, "-ERR invalid expire time: a counter lives for at most 315360000000 ms");
    resp_request(c, "EXPIRE n ten", "-ERR value is not an integer or out of range|");
    resp_request(c, "TTL n", ":30|");
    resp_request(c, "EXPIREAT n 1", ":1|");
    resp_request(c, "EXISTS n", ":0|");
}

static void hashes_are_locks_with_fields(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "HSET h f 1 g two f 3", ":2|");
    resp_request(a, "HGETALL h", "*4|$1|f|$1|3|$1|g|$3|two|");
    resp_request(a, "TYPE h", "+hash|");
    resp_request(a, "TTL h", ":-1|");
    resp_request(a, "HINCRBY h f 4", ":7|");
    resp_request(a, "HINCRBY h new -2", ":-2|");
    resp_request(a, "HINCRBY h g 1", "-ERR hash value is not an integer|");
    resp_request(a, "HEXISTS h g", ":1|");
    resp_request(a, "HEXISTS h x", ":0|");
    resp_request(a, "HMGET h g x f", "*3|$3|two|$-1|$1|7|");
    resp_request(a, "HKEYS h", "*3|$1|f|$1|g|$3|new|");
    resp_request(a, "HLEN h", ":3|");
    resp_say(a, "GET h");
    resp_expect_start(a, "-WRONGTYPE ");
    resp_say(b, "HSET h f 9");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_say(b, "HDEL h f");
    resp_expect_start(b, "-ERR the lock is held by another connection");
    resp_request(b, "HGET h f", "$1|7|");
    resp_request(a, "HDEL h f g nothing", ":2|");
    resp_request(a, "HGETALL h", "*2|$3|new|$2|-2|");
    resp_request(a, "HDEL h new", ":1|");
    resp_request(b, "SET h v NX PX 5000", "+OK|"); /* the last field was the lock's end */
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
    resp_request(c, "HSET h f 1", ":1|");
    memset(line + 8, 'x', 2000);
    memcpy(line + 2008, " 1", 3);
    resp_request(c, line, ":1|");
    line[7] = 'b';
    resp_request(c, line, ":1|");
    line[7] = 'c';
    resp_say(c, line);
    resp_expect_start(c, "-ERR the fields of a hash take at most");
    resp_request(c, "HLEN h", ":3|");
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
    resp_request(c, "DBSIZE", ":101|");
    resp_say(c, "SCAN 0 COUNT 1000 MATCH *[0-9]9");
    assert_non_null(strstr(c->got, "job:19\r\n"));
    assert_null(strstr(c->got, "job:9\r\n"));
    assert_null(strstr(c->got, "job:18\r\n"));
    c->got_len = 0;
    resp_request(c, "SCAN x", "-ERR invalid cursor|");
    resp_request(c, "SCAN 4294967296", "-ERR invalid cursor|");
    resp_request(c, "SCAN 0 COUNT 0", "-ERR syntax error|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(set_takes_every_option_of_redis, set_up, tear_down),
        cmocka_unit_test_setup_teardown(set_refuses_what_makes_no_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expire_time_out_of_range_gets_the_range, set_up_short,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_key_may_live_for_1_ms_to_10_years, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_key_without_ttl_lives_until_it_is_deleted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_key_that_is_set_without_nx_is_everybodys, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_no_key_can_have_does_not_exist, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_key_may_be_any_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(databases_are_separate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(before_version_8_a_key_has_the_ttl_of_other_locks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(getrange_is_a_part_of_the_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_locks_are_taken_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_may_be_any_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_connections_lock_is_not_overwritten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(del_of_ones_own_lock_is_a_release, set_up, tear_down),
        cmocka_unit_test_setup_teardown(del_of_a_foreign_lock_is_an_audited_force_unlock, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(del_of_a_foreign_lock_can_be_switched_off, set_up_guarded,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lock_of_another_api_is_a_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expire_renews_with_every_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_expires, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counters_are_apart_from_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_counter_may_have_a_ttl, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_ttl_of_a_counter_takes_every_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hashes_are_locks_with_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hash_has_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scan_finds_every_key_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
