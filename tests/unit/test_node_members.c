/* Tests of whole nodes on one loop, with real folders and sockets: members are added, promoted,
 * removed, the lead moves, and what is wrong is refused with the reason, whichever node gets the request.
 */
#include "base_testing.h"

#include "node/forward/forward_state.h"
#include "node/node_state.h"
#include "temporary.h"

enum { NODES = 4 };

struct one {
    struct world *world;
    struct node *node;
    struct node_options options;
    char folder[128];
    uint64_t leader; /* as it said when it was ready */
    bool stopped;
};

struct world {
    uv_loop_t loop;
    struct journal journal;
    struct one ones[NODES + 1]; /* by id */
    struct address peers[NODES + 1];
    const char *root;
    uint32_t election_ms;
};

/* ---- a world ---- */

static bool wants(void *ctx, enum journal_level level, enum journal_subsystem subsystem)
{
    (void)ctx;
    (void)level;
    (void)subsystem;
    return getenv("HOLDFAST_TEST_JOURNAL") != NULL;
}

static void write_event(void *ctx, enum journal_level level, enum journal_subsystem subsystem,
                        const char *event, const struct journal_field *fields, size_t count)
{
    (void)ctx;
    (void)level;
    (void)subsystem;
    printf("           %s", event);
    for (size_t i = 0; i < count; i++) {
        if (fields[i].text != NULL) {
            printf(" %s=%.*s", fields[i].name, (int)fields[i].text_len, fields[i].text);
        } else {
            printf(" %s=%llu", fields[i].name, (unsigned long long)fields[i].number);
        }
    }
    printf("\n");
}

static void set_term(void *ctx, uint64_t term)
{
    (void)ctx;
    (void)term;
}

static void on_ready(void *ctx, uint64_t leader)
{
    struct one *one = ctx;
    one->leader = leader;
}

static void on_failed(void *ctx, const char *text)
{
    (void)ctx;
    fail_msg("%s", text);
}

static void on_stopped(void *ctx)
{
    struct one *one = ctx;
    one->stopped = true;
}

/* Ports that are free now: each is requested and given back. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void world_open(struct world *w)
{
    memset(w, 0, sizeof(*w));
    uv_loop_init(&w->loop);
    w->election_ms = 300;
    w->journal = (struct journal){.wants = wants, .write = write_event, .set_term = set_term};
    w->root = temporary_folder(NULL);
    for (uint64_t id = 1; id <= NODES; id++) {
        w->peers[id] = (struct address){.host = "127.0.0.1", .port = free_port()};
    }
}

/* The first `count` ids begin the cluster; a higher one joins it. */
static void start(struct world *w, uint64_t id, uint32_t count)
{
    struct one *one = &w->ones[id];
    char problem[NODE_PROBLEM] = "";
    one->world = w;
    one->leader = 0;
    snprintf(one->folder, sizeof(one->folder), "%s/%d", w->root, (int)id);
    one->options = (struct node_options){.loop = &w->loop,
                                         .memory = memory_system(),
                                         .journal = &w->journal,
                                         .id = id,
                                         .data = one->folder,
                                         .cluster_name = "test",
                                         .bootstrap = id <= count,
                                         .join = id > count,
                                         .client = {.host = "127.0.0.1"},
                                         .peer = w->peers[id],
                                         .election_ms = w->election_ms,
                                         .heartbeat_ms = 50,
                                         .request_ms = 3000,
                                         .ttl_min_ms = 1000,
                                         .snapshot_bytes = 1 << 20,
                                         .max_clients = 10,
                                         .ctx = one,
                                         .on_ready = on_ready,
                                         .on_failed = on_failed,
                                         .on_stopped = on_stopped};
    for (uint64_t i = 1; i <= count || i == id; i++) {
        one->options.members[one->options.member_count++] = (struct node_member){i, w->peers[i]};
        if (i == count && id > count) {
            i = id - 1;
        }
    }
    one->node = node_new(&one->options, problem);
    if (one->node == NULL) {
        fail_msg("%s", problem);
    }
}

#define UNTIL(w, condition)                                  \
    do {                                                     \
        uint64_t end_ = uv_hrtime() + UINT64_C(30000000000); \
        while (!(condition) && uv_hrtime() < end_) {         \
            uv_run(&(w)->loop, UV_RUN_ONCE);                 \
        }                                                    \
        assert_true(condition);                              \
    } while (0)

static void world_close(struct world *w)
{
    for (uint64_t id = 1; id <= NODES; id++) {
        if (w->ones[id].node != NULL) {
            node_stop(w->ones[id].node);
        }
    }
    for (uint64_t id = 1; id <= NODES; id++) {
        if (w->ones[id].node != NULL) {
            UNTIL(w, w->ones[id].stopped);
        }
    }
    uv_run(&w->loop, UV_RUN_DEFAULT);
    for (uint64_t id = 1; id <= NODES; id++) {
        node_free(w->ones[id].node);
    }
    assert_int_equal(uv_loop_close(&w->loop), 0);
    temporary_remove(w->root);
}

/* ---- requests ---- */

struct change_call {
    struct gateway_change_call call;
    int answers;
    enum hf_error error;
    char problem[256];
};

static void on_done(struct gateway_change_call *call, enum hf_error error, const char *problem)
{
    struct change_call *made = call->owner;
    made->answers++;
    made->error = error;
    snprintf(made->problem, sizeof(made->problem), "%s", problem != NULL ? problem : "");
}

static struct change_call change(struct world *w, uint64_t through, enum gateway_change what,
                                 uint64_t id, const char *address)
{
    static struct change_call made;
    struct gateway gateway = node_gateway(w->ones[through].node);
    made = (struct change_call){.call = {.done = on_done, .owner = &made}};
    gateway.change_member(gateway.ctx, what, id, address, &made.call);
    assert_int_equal(made.answers, 0);
    UNTIL(w, made.answers == 1);
    return made;
}

/* Rules like "a voter does not have the current membership yet" are over in a moment. */
static void change_until_done(struct world *w, uint64_t through, enum gateway_change what,
                              uint64_t id, const char *address)
{
    uint64_t end = uv_hrtime() + UINT64_C(20000000000);
    struct change_call made;
    do {
        made = change(w, through, what, id, address);
        for (int i = 0; i < 5 && made.error != HF_OK; i++) {
            uv_run(&w->loop, UV_RUN_ONCE);
        }
    } while (made.error != HF_OK && uv_hrtime() < end);
    if (made.error != HF_OK) {
        fail_msg("change %d of node %d: %s", what, (int)id, made.problem);
    }
}

/* Refused for this reason, once those that pass by themselves (another change is under way) are
 * over. */
static void assert_refused(struct world *w, uint64_t through, enum gateway_change what, uint64_t id,
                           const char *address, const char *why)
{
    uint64_t end = uv_hrtime() + UINT64_C(20000000000);
    struct change_call made;
    do {
        made = change(w, through, what, id, address);
        assert_int_equal(made.error, HF_MEMBERSHIP);
        uv_run(&w->loop, UV_RUN_ONCE);
    } while (strstr(made.problem, why) == NULL && uv_hrtime() < end);
    if (strstr(made.problem, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", made.problem, why);
    }
}

static uint64_t leader_of(struct world *w, uint64_t through)
{
    struct gateway_status status;
    struct gateway gateway = node_gateway(w->ones[through].node);
    gateway.status(gateway.ctx, &status);
    return status.serving ? status.leader : 0;
}

/* 0: no member, 1: a member, 2: a voter; as that node sees it. */
static int standing(struct world *w, uint64_t through, uint64_t id)
{
    struct gateway_member members[LIMIT_NODES];
    struct gateway gateway = node_gateway(w->ones[through].node);
    uint32_t count = gateway.members(gateway.ctx, members, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].id == id) {
            return members[i].voter ? 2 : 1;
        }
    }
    return 0;
}

static bool is_changing(struct world *w, uint64_t through)
{
    struct gateway_status status;
    struct gateway gateway = node_gateway(w->ones[through].node);
    gateway.status(gateway.ctx, &status);
    return status.members_change;
}

static void start_three_with(struct world *w, uint32_t election_ms)
{
    world_open(w);
    w->election_ms = election_ms;
    for (uint64_t id = 1; id <= 3; id++) {
        start(w, id, 3);
    }
    UNTIL(w, w->ones[1].leader != 0 && w->ones[2].leader != 0 && w->ones[3].leader != 0);
}

static void start_three(struct world *w)
{
    start_three_with(w, 300);
}

/* ---- the tests ---- */

static void a_node_joins_catches_up_is_promoted_leads_and_is_removed(void **state)
{
    (void)state;
    struct world w;
    start_three(&w);
    uint64_t leader = leader_of(&w, 1);
    uint64_t follower = leader % 3 + 1;
    char address[ADDRESS_TEXT];
    address_format(&w.peers[4], address, sizeof(address));

    start(&w, 4, 3);
    change_until_done(&w, follower, GATEWAY_ADD, 4, address);
    UNTIL(&w, standing(&w, follower, 4) == 1);
    for (uint64_t id = 1; id <= 3; id++) { /* now they let it in */
        struct peer_view view;
        UNTIL(&w, peers_view(w.ones[4].node->peers, id, &view) && view.reachable);
    }
    assert_refused(&w, leader, GATEWAY_TRANSFER, 4, "", "no voter has this id");
    change_until_done(&w, leader, GATEWAY_PROMOTE, 4, "");
    UNTIL(&w, w.ones[4].leader != 0);
    UNTIL(&w, standing(&w, 4, 4) == 2);
    assert_refused(&w, leader, GATEWAY_ADD, 4, address, "this id is a member already");

    change_until_done(&w, follower, GATEWAY_TRANSFER, 4, "");
    UNTIL(&w, leader_of(&w, 1) == 4 && leader_of(&w, 4) == 4);
    assert_refused(&w, 4, GATEWAY_TRANSFER, 4, "", "it leads already");

    change_until_done(&w, 4, GATEWAY_REMOVE, follower, "");
    UNTIL(&w, standing(&w, 4, follower) == 0);
    uint64_t other = leader;
    UNTIL(&w, standing(&w, other, follower) == 0);
    address_format(&w.peers[follower], address, sizeof(address));
    assert_refused(&w, other, GATEWAY_ADD, follower, address, "never used again");
    world_close(&w);
}

static void wrong_steps_are_refused_with_the_reason(void **state)
{
    (void)state;
    struct world w;
    start_three(&w);
    for (uint64_t through = 1; through <= 3; through++) {
        assert_refused(&w, through, GATEWAY_ADD, 9, "nonsense", "HOST:PORT");
        assert_refused(&w, through, GATEWAY_ADD, 9, "", "HOST:PORT");
        assert_refused(&w, through, GATEWAY_ADD, 0, "127.0.0.1:1", "an id is 1 to");
        assert_refused(&w, through, GATEWAY_REMOVE, 77, "", "no member has this id");
        assert_refused(&w, through, GATEWAY_PROMOTE, through, "", "voter already");
        assert_refused(&w, through, GATEWAY_TRANSFER, 77, "", "no voter has this id");
    }
    world_close(&w);
}

/* Nobody must be elected but the node that the test chose: so the nodes are more patient than a busy machine
 * is slow. */
static void the_lead_goes_round(void **state)
{
    (void)state;
    struct world w;
    start_three_with(&w, 3000);
    uint64_t led[NODES + 1] = {0};
    for (int i = 0; i < 6; i++) {
        UNTIL(&w, leader_of(&w, 1) != 0 && leader_of(&w, leader_of(&w, 1)) == leader_of(&w, 1));
        uint64_t to = leader_of(&w, 1) % 3 + 1;
        change_until_done(&w, (uint64_t)i % 3 + 1, GATEWAY_TRANSFER, to, "");
        UNTIL(&w, leader_of(&w, 1) == to && leader_of(&w, to) == to);
        led[to]++;
    }
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(led[id], 2);
    }
    world_close(&w);
}

/* Whichever node has the request: the leader transfers the leadership, the next one makes the
 * change (E16). */
static void a_leader_that_is_demoted_or_removed_leads_no_more_before_it(void **state)
{
    (void)state;
    struct world w;
    start_three_with(&w, 3000);
    uint64_t first = leader_of(&w, 1);
    uint64_t follower = first % 3 + 1;
    struct change_call made = change(&w, follower, GATEWAY_DEMOTE, first, "");
    assert_int_equal(made.error, HF_OK);
    UNTIL(&w, standing(&w, follower, first) == 1 && standing(&w, first, first) == 1);
    uint64_t second = leader_of(&w, follower);
    assert_int_not_equal(second, first);
    assert_false(w.ones[first].node->transferring);

    UNTIL(&w, !is_changing(&w, second));
    made = change(&w, second, GATEWAY_REMOVE, second, "");
    assert_int_equal(made.error, HF_OK);
    uint64_t third = 6 - first - second;
    UNTIL(&w, leader_of(&w, third) == third && standing(&w, third, second) == 0);
    UNTIL(&w, !is_changing(&w, third));
    assert_refused(&w, third, GATEWAY_REMOVE, third, "", "it is the only voter");
    assert_refused(&w, third, GATEWAY_DEMOTE, third, "", "it is the only voter");
    world_close(&w);
}

/* Both come in one turn of the loop, so nothing is committed between them. */
static void the_lead_is_not_given_away_while_a_change_is_uncommitted(void **state)
{
    (void)state;
    struct world w;
    start_three_with(&w, 3000);
    uint64_t leader = leader_of(&w, 1);
    struct gateway gateway = node_gateway(w.ones[leader].node);
    struct change_call add = {.call = {.done = on_done, .owner = &add}};
    struct change_call transfer = {.call = {.done = on_done, .owner = &transfer}};
    gateway.change_member(gateway.ctx, GATEWAY_ADD, 4, "127.0.0.1:1", &add.call);
    gateway.change_member(gateway.ctx, GATEWAY_TRANSFER, 0, "", &transfer.call);
    UNTIL(&w, add.answers == 1 && transfer.answers == 1);
    assert_int_equal(add.error, HF_OK);
    assert_int_equal(transfer.error, HF_MEMBERSHIP);
    assert_non_null(strstr(transfer.problem, "a membership change is under way"));
    UNTIL(&w, !is_changing(&w, leader));
    assert_int_equal(leader_of(&w, leader), leader);
    world_close(&w);
}

/* A node that stops transfers the lead without a request: it waits for the change first. */
static void a_transfer_that_has_begun_waits_for_the_change_to_be_committed(void **state)
{
    (void)state;
    struct world w;
    start_three_with(&w, 3000);
    uint64_t leader = leader_of(&w, 1);
    struct node *n = w.ones[leader].node;
    struct gateway gateway = node_gateway(n);
    struct change_call add = {.call = {.done = on_done, .owner = &add}};
    gateway.change_member(gateway.ctx, GATEWAY_ADD, 4, "127.0.0.1:1", &add.call);
    UNTIL(&w, add.answers == 1);
    assert_true(is_changing(&w, leader));
    node_transfer(n, 0);
    node_step_transfer(n, node_now(n));
    assert_true(n->transferring && !n->transfer_begun);
    UNTIL(&w, leader_of(&w, leader) != 0 && leader_of(&w, leader) != leader);
    UNTIL(&w, standing(&w, leader_of(&w, leader), 4) == 1);
    world_close(&w);
}

/* ---- a pause for a promotion ---- */

/* Node 1 leads, node 2 is a learner that has everything. */
static struct node *start_with_learner(struct world *w)
{
    char address[ADDRESS_TEXT];
    world_open(w);
    w->election_ms = 3000;
    start(w, 1, 1);
    UNTIL(w, w->ones[1].leader == 1);
    start(w, 2, 1);
    address_format(&w->peers[2], address, sizeof(address));
    change_until_done(w, 1, GATEWAY_ADD, 2, address);
    struct node *n = w->ones[1].node;
    struct peer_view view;
    UNTIL(w, !is_changing(w, 1) && peers_view(n->peers, 2, &view) && view.reachable &&
                 replica_match_index(n->replica, 2) > 0);
    return n;
}

/* The status of the leader as if it had committed `lag` entries that node 2 does not have. */
static struct replica_status status_with_lag(struct node *n, uint64_t lag)
{
    struct replica_status status;
    replica_status(n->replica, node_now(n), &status);
    status.commit_index = replica_match_index(n->replica, 2) + lag;
    return status;
}

static bool pauses(struct node *n, uint64_t id, uint64_t lag)
{
    struct replica_status status = status_with_lag(n, lag);
    return node_promote_pauses(n, id, &status);
}

static struct replica_time after_ms(struct node *n, uint64_t ms)
{
    struct replica_time now = node_now(n);
    now.boot_us += ms * 1000;
    return now;
}

static void submission_pauses_for_a_learner_that_is_a_little_behind(void **state)
{
    (void)state;
    struct world w;
    struct node *n = start_with_learner(&w);
    assert_false(pauses(n, 2, 0)); /* it has everything */
    assert_false(pauses(n, 2, 65));
    assert_false(pauses(n, 1, 1)); /* a voter */
    assert_false(pauses(n, 9, 1));
    assert_false(n->forward->paused);
    assert_true(pauses(n, 2, 64));
    assert_true(n->forward->paused);
    assert_true(pauses(n, 2, 1)); /* it is sent again and waits */
    node_step_promote(n, after_ms(n, 100));
    assert_true(n->forward->paused);
    /* It has everything: it is made, and that ends the pause. */
    struct change_call made = change(&w, 1, GATEWAY_PROMOTE, 2, "");
    assert_int_equal(made.error, HF_OK);
    assert_false(n->forward->paused);
    UNTIL(&w, standing(&w, 1, 2) == 2);
    world_close(&w);
}

static void a_learner_that_does_not_catch_up_stops_clients_once_in_seconds(void **state)
{
    (void)state;
    struct world w;
    struct node *n = start_with_learner(&w);
    assert_true(pauses(n, 2, 1));
    node_step_promote(n, after_ms(n, 250));
    assert_false(n->forward->paused);
    assert_false(pauses(n, 2, 1));
    assert_false(n->forward->paused);
    n->promotion.not_before_us -= 4000000;
    assert_false(pauses(n, 2, 1));
    n->promotion.not_before_us -= 2000000;
    assert_true(pauses(n, 2, 1));
    world_close(&w); /* a node that stops does not wait for it */
}

static void a_pause_ends_with_the_leadership_and_a_transfer_takes_it_over(void **state)
{
    (void)state;
    struct world w;
    struct node *n = start_with_learner(&w);
    change_until_done(&w, 1, GATEWAY_PROMOTE, 2, "");
    UNTIL(&w, standing(&w, 2, 2) == 2 && !is_changing(&w, 1));
    change_until_done(&w, 1, GATEWAY_DEMOTE, 2, "");
    UNTIL(&w, standing(&w, 1, 2) == 1 && !is_changing(&w, 1));
    assert_true(pauses(n, 2, 1));
    node_transfer(n, 2);
    assert_true(n->forward->paused && n->promotion.id == 0);
    struct replica_status status = status_with_lag(n, 1);
    const char *problem = "";
    assert_true(status.serving);
    assert_int_equal(node_change_member(n, GATEWAY_PROMOTE, 2, "", &problem), HF_UNAVAILABLE);
    assert_int_equal(n->promotion.id, 0); /* no pause while a transfer runs */
    node_step_transfer(n, after_ms(n, 1001));
    assert_false(n->forward->paused);
    /* As if it began before the leadership ended: node 2 follows. */
    struct node *other = w.ones[2].node;
    UNTIL(&w, other->forward != NULL && other->replica != NULL);
    other->promotion = (struct node_promotion){.id = 3, .until_us = after_ms(other, 250).boot_us};
    forward_set_paused(other->forward, true);
    node_step_promote(other, node_now(other));
    assert_false(other->forward->paused);
    assert_int_equal(other->promotion.not_before_us, 0);
    world_close(&w);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_joins_catches_up_is_promoted_leads_and_is_removed),
        cmocka_unit_test(wrong_steps_are_refused_with_the_reason),
        cmocka_unit_test(the_lead_goes_round),
        cmocka_unit_test(a_leader_that_is_demoted_or_removed_leads_no_more_before_it),
        cmocka_unit_test(the_lead_is_not_given_away_while_a_change_is_uncommitted),
        cmocka_unit_test(a_transfer_that_has_begun_waits_for_the_change_to_be_committed),
        cmocka_unit_test(submission_pauses_for_a_learner_that_is_a_little_behind),
        cmocka_unit_test(a_learner_that_does_not_catch_up_stops_clients_once_in_seconds),
        cmocka_unit_test(a_pause_ends_with_the_leadership_and_a_transfer_takes_it_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
