/* Commands of the Redis protocol that concern many keys or other connections: FLUSHDB, CLIENT,
 * sharded channels. */
#include "resp_testing.h"

#include "service/resp/conn.h"

static void make_keys(struct resp_client *c, int count)
{
    for (int i = 0; i < count; i++) {
        char line[64];
        snprintf(line, sizeof(line), "SET key/%d v NX PX 600000", i);
        resp_request(c, line, "+OK|");
    }
}

static uint64_t names_left(void)
{
    return core_names(world.gateway.core);
}

/* ---- FLUSHDB ---- */

static void a_flush_is_a_series_of_transactions(void **state)
{
    struct resp_client *c = client();
    make_keys(c, 200);
    resp_request(c, "INCR n", ":1|");
    take_elsewhere("of another API");
    uint64_t before = submitted(COMMAND_TRANSACT);
    resp_request(c, "FLUSHDB", "+OK|");
    uint64_t used = submitted(COMMAND_TRANSACT) - before;
    assert_true(used >= 201 / LIMIT_EFFECTS + 1 && used <= 201 / (LIMIT_EFFECTS / 2) + 2);
    assert_int_equal(names_left(), 1);
    assert_int_equal(core_counters(world.gateway.core), 0);
    resp_request(c, "GET of\\x20another", "$-1|");
    assert_int_equal(audited(), 200);
}

static void a_flush_without_keys_changes_nothing(void **state)
{
    struct resp_client *c = client();
    uint64_t before = submitted(COMMAND_TRANSACT);
    resp_request(c, "FLUSHDB", "+OK|");
    resp_request(c, "FLUSHALL", "+OK|");
    assert_int_equal(submitted(COMMAND_TRANSACT), before);
}

/* Other clients delete and renew its keys before its transaction is applied. */
static void a_flush_meets_other_changes(void **state)
{
    struct resp_client *flusher = client();
    struct resp_client *other = client();
    make_keys(other, 40);
    world.gateway.is_held = true;
    resp_send_only(other, "DEL key/7\r\nPEXPIRE key/8 700000\r\nINCR n\r\n");
    resp_send_only(flusher, "FLUSHDB\r\n");
    resp_world_run(&world);
    world.gateway.is_held = false;
    resp_world_run(&world);
    resp_expect(other, ":1|:0|:1|"); /* the flush comes between the first two */
    resp_expect(flusher, "+OK|");
    resp_request(other, "EXISTS key/7 key/8 key/9", ":0|");
}

static void a_client_that_is_gone_flushes_no_further(void **state)
{
    struct resp_client *c = client();
    make_keys(c, 200);
    world.gateway.is_held = true;
    resp_send_only(c, "FLUSHDB\r\n");
    resp_world_run(&world);
    resp_client_close(c);
    world.gateway.is_held = false;
    resp_world_run(&world);
    assert_true(names_left() > 100);
}

static void a_flush_that_fails_says_so(void **state)
{
    struct resp_client *c = client();
    make_keys(c, 10);
    world.gateway.fails = HF_UNAVAILABLE;
    resp_say(c, "FLUSHDB");
    resp_expect_start(c, "-CLUSTERDOWN ");
    world.gateway.fails = HF_OK;
    resp_request(c, "FLUSHDB", "+OK|");
    assert_int_equal(names_left(), 0);
}

/* ---- CLIENT ---- */

static void who_waits_is_killed_and_unblocked(void **state)
{
    struct resp_client *holder = client();
    struct resp_client *first = client();
    struct resp_client *second = client();
    struct resp_client *third = client();
    struct lock_view lock;
    resp_request(holder, "SET a v NX PX 600000", "+OK|");
    resp_say(first, "HF.ACQUIRE a 1 PX 1000 WAIT 60000");
    resp_say(second, "HF.ACQUIRE a 2 PX 1000 WAIT 60000");
    resp_say(third, "HF.ACQUIRE a 3 PX 1000 WAIT 60000\r\nPING");
    resp_request(holder, "CLIENT KILL ID 2", ":1|");
    assert_null(first->conn);
    resp_request(holder, "CLIENT UNBLOCK 3 TIMEOUT", ":1|");
    resp_expect(second, "$-1|");
    resp_request(holder, "CLIENT UNBLOCK 3", ":0|");
    resp_request(holder, "CLIENT UNBLOCK 4 ERROR", ":1|");
    resp_expect(third, "-UNBLOCKED client unblocked via CLIENT UNBLOCK|+PONG|");
    assert_true(view_lock(world.gateway.core, 0, slice_of("a"), &lock));
    assert_int_equal(lock.queue_length, 0);
    resp_request(second, "GET a", "$1|v|");
}

static void a_silent_grant_is_no_lost_one(void **state)
{
    struct resp_client *c = client();
    resp_say(c, "CLIENT REPLY OFF\r\nSET a v NX PX 600000");
    resp_expect(c, "");
    resp_client_close(c);
    resp_world_run(&world);
    resp_request(client(), "GET a", "$1|v|");
}

static void a_killed_transaction_is_not_answered(void **state)
{
    struct resp_client *c = client();
    struct resp_client *killer = client();
    world.gateway.is_held = true;
    resp_send_only(c, "INCR n\r\n");
    resp_world_run(&world);
    resp_request(killer, "CLIENT KILL ADDR 10.0.0.1:4000", ":1|");
    assert_null(c->conn);
    world.gateway.is_held = false;
    resp_world_run(&world);
    resp_request(killer, "GET n", "$1|1|"); /* it was submitted */
}

/* ---- sharded channels ---- */

static void a_sharded_channel_is_not_the_ordinary_one(void **state)
{
    struct resp_client *c = client();
    struct resp_client *sender = client();
    resp_request(c, "HELLO 3 SETNAME x",
                 "%7|$6|server|$5|redis|$7|version|$5|7.0.0|$5|proto|:3|$2|id|:1|"
                 "$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|");
    resp_request(c, "SSUBSCRIBE a", ">3|$10|ssubscribe|$1|a|:1|");
    resp_request(c, "PSUBSCRIBE *", ">3|$10|psubscribe|$1|*|:1|");
    resp_request(sender, "SPUBLISH a 1", ":1|");
    resp_expect(c, ">3|$8|smessage|$1|a|$1|1|");
    resp_request(sender, "PUBLISH a 2", ":1|");
    resp_expect(c, ">4|$8|pmessage|$1|*|$1|a|$1|2|");
    resp_request(sender, "PUBLISH redis:0/%shard/a 3", ":1|");
    resp_expect(c, ">4|$8|pmessage|$1|*|$16|redis:0/%shard/a|$1|3|");
    resp_request(c, "SUNSUBSCRIBE", ">3|$12|sunsubscribe|$1|a|:0|");
    resp_request(sender, "SPUBLISH a 4", ":0|");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_flush_is_a_series_of_transactions),
        T(a_flush_without_keys_changes_nothing),
        T(a_flush_meets_other_changes),
        T(a_client_that_is_gone_flushes_no_further),
        T(a_flush_that_fails_says_so),
        T(who_waits_is_killed_and_unblocked),
        T(a_silent_grant_is_no_lost_one),
        T(a_killed_transaction_is_not_answered),
        T(a_sharded_channel_is_not_the_ordinary_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
