/* How long a snapshot is waited for: node/snapshot/snapshot_patience.h, with a clock and a link that the test
 * controls. */
#include "base_testing.h"

#include "node/snapshot/snapshot_patience.h"

enum { ELECTION_MS = 300, SILENCE_MS = 4 * ELECTION_MS, START_MS = 5000 };

static void begin(struct snapshot_patience *p, struct peer_link *link)
{
    memset(link, 0, sizeof(*link));
    snapshot_patience_begin(p, ELECTION_MS, START_MS);
    link->received_ms = START_MS + 100; /* when it was connected */
    snapshot_patience_connected(p, link);
}

static uint64_t end_after_bytes(struct snapshot_patience *p, struct peer_link *link, uint64_t at_ms)
{
    link->received_ms = at_ms;
    snapshot_patience_note_bytes(p, link);
    return snapshot_patience_end_ms(p);
}

static void a_sender_that_is_silent_is_waited_for_four_election_timeouts(void **state)
{
    (void)state;
    struct snapshot_patience p;
    struct peer_link link;
    begin(&p, &link);
    snapshot_patience_note_bytes(&p, &link);
    assert_int_equal(snapshot_patience_end_ms(&p), START_MS + SILENCE_MS);
}

/* A piece of 1 MiB that takes ten seconds. */
static void a_slow_sender_is_waited_for_as_long_as_bytes_come(void **state)
{
    (void)state;
    struct snapshot_patience p;
    struct peer_link link;
    begin(&p, &link);
    for (uint64_t at_ms = START_MS + 1000; at_ms < START_MS + 11000; at_ms += 1000) {
        assert_true(snapshot_patience_end_ms(&p) > at_ms);
        assert_int_equal(end_after_bytes(&p, &link, at_ms), at_ms + SILENCE_MS);
    }
}

static void a_connection_alone_is_no_sign_of_life(void **state)
{
    (void)state;
    struct snapshot_patience p;
    struct peer_link link;
    begin(&p, &link);
    link.received_ms = START_MS + 900; /* a second link */
    snapshot_patience_connected(&p, &link);
    snapshot_patience_note_bytes(&p, &link);
    assert_int_equal(snapshot_patience_end_ms(&p), START_MS + SILENCE_MS);
}

static void what_an_earlier_link_received_counts(void **state)
{
    (void)state;
    struct snapshot_patience p;
    struct peer_link link;
    begin(&p, &link);
    end_after_bytes(&p, &link, START_MS + 800);
    link.received_ms = START_MS + 900;
    snapshot_patience_connected(&p, &link);
    snapshot_patience_note_bytes(&p, &link);
    assert_int_equal(snapshot_patience_end_ms(&p), START_MS + 800 + SILENCE_MS);
}

static void a_sender_without_a_whole_piece_is_waited_for_one_minute(void **state)
{
    (void)state;
    struct snapshot_patience p;
    struct peer_link link;
    begin(&p, &link);
    snapshot_patience_piece(&p, START_MS + 2000);
    uint64_t end_ms = START_MS + 2000 + SNAPSHOT_PIECE_MS;
    assert_int_equal(end_after_bytes(&p, &link, end_ms - 1), end_ms);
    snapshot_patience_piece(&p, end_ms - 1);
    assert_int_equal(snapshot_patience_end_ms(&p), end_ms - 1 + SILENCE_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_that_is_silent_is_waited_for_four_election_timeouts),
        cmocka_unit_test(a_slow_sender_is_waited_for_as_long_as_bytes_come),
        cmocka_unit_test(a_connection_alone_is_no_sign_of_life),
        cmocka_unit_test(what_an_earlier_link_received_counts),
        cmocka_unit_test(a_sender_without_a_whole_piece_is_waited_for_one_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
