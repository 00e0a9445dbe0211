/* Tests of the connections between nodes: two or three tables of peers on one loop, over real
 * sockets. */
#include "base_testing.h"

#include <arpa/inet.h>
#include <unistd.h>

#include "peers_world.h"

/* ---- the tests ---- */

static void messages_arrive_in_order_once_the_greeting_is_done(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    assert_false(peers_send(w.ends[0].peers, 2, slice_of("too early")));
    let_dial(&w.ends[0], &w.ends[1]);
    assert_false(peers_send(w.ends[0].peers, 2, slice_of("too early")));
    UNTIL(&w, w.ends[0].up == 1);
    for (int i = 0; i < 10; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%d,", i);
        assert_true(peers_send(w.ends[0].peers, 2, slice_of(text)));
    }
    UNTIL(&w, buffer_len(&w.ends[1].got) == 20);
    assert_true(says(&w.ends[1].got, "0,1,2,3,4,5,6,7,8,9,"));
    /* The other direction has a connection of its own, which was not made. */
    assert_false(peers_send(w.ends[1].peers, 1, slice_of("no way back")));
    struct peer_view view;
    UNTIL(&w, peers_view(w.ends[1].peers, 1, &view));
    assert_string_equal(view.client_address, "client-1");
    assert_false(view.reachable);
    assert_true(view.silent_ms < 5000);
    world_close(&w);
}

static void requests_are_answered_on_the_connection_that_carried_them(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    assert_true(peers_request(w.ends[0].peers, 2, 77, 5, slice_of("question")));
    assert_true(peers_request(w.ends[0].peers, 2, 78, 6, slice_of("")));
    UNTIL(&w, says(&w.ends[0].answers, "77:5:question,78:6:,"));
    /* An answer for a connection that is gone goes nowhere. */
    assert_false(peers_answer(w.ends[1].peers, 1, w.ends[1].last_link + 1, 79, 1, slice_of("")));
    assert_false(peers_answer(w.ends[1].peers, 5, w.ends[1].last_link, 79, 1, slice_of("")));
    world_close(&w);
}

/* A node of the first version greets by hand: dials, sends HELLO, and BEGIN with the number that
 * WELCOME gave it. Returns the socket. */
static int greet_with_protocol_one(struct peers_world *w, const struct end *to, uint64_t store)
{
    struct peer_introduction who = {.oldest = 1,
                                    .newest = 1,
                                    .purpose = PEER_FOR_MESSAGES,
                                    .cluster = {9, 9},
                                    .node = 1,
                                    .store = {1, store},
                                    .life = 1000,
                                    .state = 2};
    struct buffer out;
    uint8_t bytes[2048];
    buffer_init(&out, memory_system(), 4096);
    size_t len = peer_introduction_encode(&who, bytes, sizeof(bytes));
    assert_true(peer_frame_append(&out, PEER_HELLO, slice_make(bytes, len)));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(peers_port(to->peers))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(write(fd, buffer_bytes(&out).data, buffer_len(&out)), buffer_len(&out));
    ssize_t got = 0;
    UNTIL(w, (got = got > 0 ? got : recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0);
    enum peer_frame type;
    struct slice payload;
    assert_true(peer_frame_parse(slice_make(bytes, (size_t)got), sizeof(bytes), &type, &payload) >
                0);
    assert_int_equal(type, PEER_WELCOME);
    assert_true(peer_introduction_decode(payload, &who));
    assert_int_equal(who.oldest, 1); /* so a node of the first version does not refuse it */
    uint8_t number[8];
    struct writer writer = writer_make(number, sizeof(number));
    write_fixed64(&writer, who.number);
    buffer_truncate(&out, 0);
    assert_true(peer_frame_append(&out, PEER_BEGIN, slice_make(number, sizeof(number))));
    assert_int_equal(write(fd, buffer_bytes(&out).data, buffer_len(&out)), buffer_len(&out));
    buffer_close(&out);
    return fd;
}

static void two_nodes_use_the_newest_protocol_that_both_announce(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    assert_int_equal(peers_protocol(w.ends[0].peers, 2, true), 0);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1 && peers_link(w.ends[1].peers, 1) != 0);
    assert_int_equal(peers_protocol(w.ends[0].peers, 2, true), PEER_PROTOCOL_NEWEST);
    assert_int_equal(peers_protocol(w.ends[1].peers, 1, false), PEER_PROTOCOL_NEWEST);
    /* The same node in a later life, with the program of an earlier version. */
    int fd = greet_with_protocol_one(&w, &w.ends[1], 11);
    UNTIL(&w, peers_protocol(w.ends[1].peers, 1, false) == 1);
    close(fd);
    world_close(&w);
}

static void a_node_of_another_cluster_is_refused_by_name_on_both_sides(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 8, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, says(&w.ends[0].journal, "refused_by_peer"));
    const char *sentence = "node 1 belongs to the cluster \"cluster-9\"";
    assert_true(says(&w.ends[0].journal, sentence));
    assert_true(says(&w.ends[1].journal, "peer_refused"));
    assert_true(says(&w.ends[1].journal, sentence));
    assert_true(says(&w.ends[1].journal, "\"cluster-8\""));
    assert_int_equal(w.ends[0].up, 0);
    world_close(&w);
}

/* S12.9: a member that does not know the version of the state could not apply what comes next. */
static void a_node_that_does_not_know_the_version_of_the_state_is_refused(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    w.ends[0].self.state = 3;
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    struct peer_view view;
    assert_true(peers_view(w.ends[0].peers, 2, &view));
    assert_int_equal(view.state, 2);
    UNTIL(&w, peers_view(w.ends[1].peers, 1, &view));
    assert_int_equal(view.state, 3);
    w.ends[0].state_version = 3; /* the cluster was upgraded */
    let_dial(&w.ends[1], &w.ends[0]);
    const char *sentence = "the cluster's state has version 3 and node 2 knows versions up to 2 "
                           "only: start it with a newer version of Holdfast";
    UNTIL(&w, says(&w.ends[0].journal, sentence) && says(&w.ends[1].journal, sentence));
    assert_int_equal(w.ends[1].up, 0);
    world_close(&w);
}

static void that_nobody_listens_where_a_peer_was_is_reported(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    assert_int_equal(w.ends[0].ended, 0);
    end_close(&w.ends[1]);
    UNTIL(&w, w.ends[0].ended > 0);
    world_close(&w);
}

static void a_node_with_another_store_lost_its_disk_and_both_sides_say_so(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    end_close(&w.ends[1]);
    /* It comes back, empty; we dial it, and it dials us. */
    end_open(&w, 1, 2, 9, 23, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    let_dial(&w.ends[1], &w.ends[0]);
    const char *sentence = "node 2 lost its disk: remove it and add it under a new id";
    UNTIL(&w, says(&w.ends[0].journal, sentence) && says(&w.ends[1].journal, sentence));
    assert_true(says(&w.ends[1].journal, "refused_by_peer"));
    assert_int_equal(w.ends[0].up, 1);
    assert_int_equal(w.ends[1].up, 0);
    world_close(&w);
}

static void nodes_tell_each_other_whose_store_they_know(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    /* The first knows node 3; the second has never met it and learns of it from the first. */
    w.ends[0].self.stores_len = peer_stores_put(w.ends[0].self.stores, 3, (struct id){1, 33});
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    UNTIL(&w, w.ends[1].first_store_of[3] == 33);
    end_open(&w, 2, 3, 9, 44, 1); /* node 3 without its disk */
    let_dial(&w.ends[2], &w.ends[1]);
    UNTIL(&w, says(&w.ends[2].journal, "node 3 lost its disk"));
    world_close(&w);
}

static void a_new_life_replaces_the_old_connection_and_an_old_life_is_refused(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 5);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    /* The same node again, in a later life, while the first connection is still there. */
    end_open(&w, 2, 1, 9, 11, 6);
    let_dial(&w.ends[2], &w.ends[1]);
    UNTIL(&w, w.ends[2].up == 1);
    struct peer_view view;
    UNTIL(&w, peers_view(w.ends[1].peers, 1, &view) && view.life == 6);
    peers_send(w.ends[2].peers, 2, slice_of("new"));
    peers_send(w.ends[0].peers, 2, slice_of("old"));
    UNTIL(&w, w.ends[0].down == 1);
    UNTIL(&w, buffer_len(&w.ends[1].got) >= 3);
    assert_true(says(&w.ends[1].got, "new"));
    assert_false(says(&w.ends[1].got, "old"));
    UNTIL(&w, says(&w.ends[0].journal, "this is an earlier life of node 1"));
    world_close(&w);
}

static void a_node_that_joins_learns_its_cluster(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 6, 0, 66, 1);
    let_dial(&w.ends[1], &w.ends[0]);
    UNTIL(&w, w.ends[1].up == 1);
    assert_int_equal(w.ends[1].self.cluster.low, 9);
    world_close(&w);
}

static void the_wrong_node_behind_an_address_is_refused(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    struct address address = {.host = "127.0.0.1", .port = peers_port(w.ends[1].peers)};
    peers_set(w.ends[0].peers, 3, &address);
    UNTIL(&w, says(&w.ends[0].journal, "this is node 2, not node 3"));
    world_close(&w);
}

/* Both sides say why, and it is not tried again at once. */
static void a_message_that_cannot_be_true_ends_the_connection(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    peers_send(w.ends[0].peers, 2, slice_of("a lie"));
    peers_send(w.ends[0].peers, 2, slice_of("never read"));
    UNTIL(&w, w.ends[0].down == 1);
    assert_true(says(&w.ends[0].journal, "refused_by_peer:that cannot be true"));
    assert_true(says(&w.ends[1].journal, "peer_refused:that cannot be true"));
    assert_int_equal(buffer_len(&w.ends[1].got), 0);
    uint64_t start = uv_hrtime();
    UNTIL(&w, w.ends[0].up == 2);
    assert_true(uv_hrtime() - start > 1000000000);
    assert_true(peers_send(w.ends[0].peers, 2, slice_of("again")));
    UNTIL(&w, buffer_len(&w.ends[1].got) > 0);
    assert_true(says(&w.ends[1].got, "again"));
    world_close(&w);
}

/* ---- who is heard (S12.10) ---- */

static void who_is_no_member_is_refused_and_leaves_no_trace(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 7, 0, 77, 1); /* it does not even know the cluster */
    end_open(&w, 1, 2, 9, 22, 1);
    w.ends[1].is_no_member[7] = true;
    w.ends[0].self.stores_len = peer_stores_put(w.ends[0].self.stores, 3, (struct id){1, 33});
    let_dial_unknown(&w.ends[0], &w.ends[1]);
    UNTIL(&w, says(&w.ends[0].journal, "refused_by_peer:node 7 is no member"));
    assert_true(says(&w.ends[1].journal, "peer_refused:node 7 is no member"));
    assert_int_equal(w.ends[0].up, 0);
    assert_int_equal(w.ends[0].self.cluster.low, 0); /* it received nothing */
    assert_int_equal(w.ends[1].first_store_of[7], 0);
    assert_int_equal(w.ends[1].first_store_of[3], 0);
    struct peer_view view;
    assert_false(peers_view(w.ends[1].peers, 7, &view));
    world_close(&w);
}

static void a_member_is_heard_once_it_was_reached_at_its_address(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    end_open(&w, 2, 1, 9, 12, 1); /* says that it is node 1, too, and is somewhere else */
    struct address nobody = {.host = "127.0.0.1", .port = 1};
    peers_set(w.ends[1].peers, 1, &nobody);
    let_dial_unknown(&w.ends[2], &w.ends[1]);
    UNTIL(&w, w.ends[2].up == 1);
    assert_true(peers_send(w.ends[2].peers, 2, slice_of("false")));
    let_dial_unknown(&w.ends[0], &w.ends[1]); /* its link takes the place of the other */
    UNTIL(&w, w.ends[2].down == 1 && w.ends[0].up == 1);
    assert_true(peers_send(w.ends[0].peers, 2, slice_of("early,")));
    struct peer_view view;
    assert_true(peers_view(w.ends[1].peers, 1, &view));
    assert_int_equal(view.life, 0); /* nothing is believed yet */
    assert_int_equal(w.ends[1].first_store_of[1], 0);
    let_dial_unknown(&w.ends[1], &w.ends[0]);
    UNTIL(&w, w.ends[1].up == 1);
    assert_int_equal(w.ends[1].first_store_of[1], 11);
    UNTIL(&w, buffer_len(&w.ends[1].got) > 0 ||
                  (peers_send(w.ends[0].peers, 2, slice_of("true")) && false));
    assert_true(says(&w.ends[1].got, "true"));
    assert_false(says(&w.ends[1].got, "false"));
    UNTIL(&w, says(&w.ends[2].journal, "node 1 lost its disk"));
    world_close(&w);
}

/* Its connections end, also one that was made only to answer it. */
static void who_is_no_member_any_more_is_notified(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    UNTIL(&w, peers_send(w.ends[1].peers, 1, slice_of("answer")));
    UNTIL(&w, says(&w.ends[0].got, "answer"));
    w.ends[1].is_no_member[1] = true; /* it was removed */
    peers_review(w.ends[1].peers);
    UNTIL(&w, w.ends[0].down == 1 && w.ends[1].down == 1);
    assert_true(says(&w.ends[0].journal, "refused_by_peer:node 1 is no member"));
    assert_null(peers_address(w.ends[1].peers, 1));
    world_close(&w);
}

/* A greeting whose sender does not answer to it may be a copy of an old one. */
static void what_a_greeting_says_is_kept_only_after_its_sender_has_begun(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 5);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    struct peer_introduction who = {.oldest = 1,
                                    .newest = 1,
                                    .purpose = PEER_FOR_MESSAGES,
                                    .cluster = {9, 9},
                                    .node = 1,
                                    .store = {1, 11},
                                    .life = 1000,
                                    .state = 2};
    struct buffer hello;
    uint8_t bytes[512];
    buffer_init(&hello, memory_system(), 1024);
    size_t len = peer_introduction_encode(&who, bytes, sizeof(bytes));
    assert_true(peer_frame_append(&hello, PEER_HELLO, slice_make(bytes, len)));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(peers_port(w.ends[1].peers))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(write(fd, buffer_bytes(&hello).data, buffer_len(&hello)), buffer_len(&hello));
    ssize_t got = 0;
    UNTIL(&w, (got = got > 0 ? got : recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0);
    assert_int_equal(bytes[4], PEER_WELCOME);
    struct peer_view view;
    assert_true(peers_view(w.ends[1].peers, 1, &view));
    assert_int_equal(view.life, 5);
    assert_true(peers_send(w.ends[0].peers, 2, slice_of("still heard")));
    UNTIL(&w, says(&w.ends[1].got, "still heard"));
    assert_int_equal(w.ends[0].down, 0);
    close(fd);
    buffer_close(&hello);
    world_close(&w);
}

static void a_peer_that_is_forgotten_is_not_dialled_any_more(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 11, 1);
    end_open(&w, 1, 2, 9, 22, 1);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    peers_forget(w.ends[0].peers, 2);
    UNTIL(&w, w.ends[0].down == 1);
    uint64_t start = uv_hrtime();
    UNTIL(&w, uv_hrtime() - start > 300000000);
    assert_int_equal(w.ends[0].up, 1);
    assert_null(peers_address(w.ends[0].peers, 2));
    world_close(&w);
}

/* A member that is removed while our connection to it greets: there is nothing to keep it for. */
static void a_peer_that_is_forgotten_while_it_greets_is_not_connected(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 101, 1);
    end_open(&w, 1, 2, 9, 102, 1);
    w.ends[0].forgets = true;
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, peers_address(w.ends[0].peers, 2) == NULL);
    for (int i = 0; i < 50; i++) {
        uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    struct peer_view view;
    assert_true(peers_view(w.ends[0].peers, 2, &view));
    assert_false(view.reachable);
    assert_int_equal(w.ends[0].up, 0);
    assert_int_equal(w.ends[0].down, 0);
    /* It may be a member again. */
    w.ends[0].forgets = false;
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].up == 1);
    world_close(&w);
}

/* A node whose log is behind does not know the leader as a member, and must answer it. */
static void who_has_a_connection_to_us_is_dialled_when_there_is_something_to_send(void **state)
{
    (void)state;
    struct peers_world w;
    world_open(&w);
    end_open(&w, 0, 1, 9, 101, 1);
    end_open(&w, 1, 2, 9, 102, 1);
    struct end *leader = &w.ends[0];
    struct end *behind = &w.ends[1];
    let_dial(leader, behind);
    UNTIL(&w, leader->up == 1);
    assert_true(peers_send(leader->peers, 2, slice_of("entries")));
    UNTIL(&w, says(&behind->got, "entries"));
    assert_int_equal(behind->up, 0);
    assert_false(peers_send(behind->peers, 1, slice_of("answer"))); /* it is dialled now */
    UNTIL(&w, behind->up == 1);
    assert_true(peers_send(behind->peers, 1, slice_of("answer")));
    UNTIL(&w, says(&leader->got, "answer"));
    assert_non_null(peers_address(behind->peers, 1));
    /* Not longer than it is there. */
    peers_forget(leader->peers, 2);
    UNTIL(&w, behind->down == 1);
    assert_null(peers_address(behind->peers, 1));
    assert_false(peers_send(behind->peers, 1, slice_of("answer")));
    assert_null(peers_address(behind->peers, 1));
    /* One that has become a member meanwhile stays. */
    let_dial(leader, behind);
    UNTIL(&w, leader->up == 2);
    UNTIL(&w, peers_send(behind->peers, 1, slice_of("x")) && behind->up == 2);
    let_dial(behind, leader);
    peers_forget(leader->peers, 2);
    UNTIL(&w, leader->down == 2);
    for (int i = 0; i < 50; i++) {
        uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    assert_non_null(peers_address(behind->peers, 1));
    world_close(&w);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_in_order_once_the_greeting_is_done),
        cmocka_unit_test(requests_are_answered_on_the_connection_that_carried_them),
        cmocka_unit_test(two_nodes_use_the_newest_protocol_that_both_announce),
        cmocka_unit_test(a_node_of_another_cluster_is_refused_by_name_on_both_sides),
        cmocka_unit_test(a_node_that_does_not_know_the_version_of_the_state_is_refused),
        cmocka_unit_test(that_nobody_listens_where_a_peer_was_is_reported),
        cmocka_unit_test(a_node_with_another_store_lost_its_disk_and_both_sides_say_so),
        cmocka_unit_test(nodes_tell_each_other_whose_store_they_know),
        cmocka_unit_test(a_new_life_replaces_the_old_connection_and_an_old_life_is_refused),
        cmocka_unit_test(a_node_that_joins_learns_its_cluster),
        cmocka_unit_test(the_wrong_node_behind_an_address_is_refused),
        cmocka_unit_test(a_message_that_cannot_be_true_ends_the_connection),
        cmocka_unit_test(who_is_no_member_is_refused_and_leaves_no_trace),
        cmocka_unit_test(a_member_is_heard_once_it_was_reached_at_its_address),
        cmocka_unit_test(who_is_no_member_any_more_is_notified),
        cmocka_unit_test(what_a_greeting_says_is_kept_only_after_its_sender_has_begun),
        cmocka_unit_test(a_peer_that_is_forgotten_is_not_dialled_any_more),
        cmocka_unit_test(a_peer_that_is_forgotten_while_it_greets_is_not_connected),
        cmocka_unit_test(who_has_a_connection_to_us_is_dialled_when_there_is_something_to_send),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
