"""The arithmetic of S5 (docs/CLIENTS.md, C1), with the times as arguments."""

from holdfast.deadline import Life, LockLife


def test_a_life_counts_from_the_sending_less_drift_and_margin():
    assert Life(1000, 30000).safe_until() == 1000 + 30000 - 30 - 5
    assert Life(0, 1001).safe_until() == 1001 - 2 - 5, "the drift is rounded up"


def test_jeopardy_begins_when_a_third_is_left():
    assert Life(0, 3000).jeopardy_at() == 3000 - 3 - 5 - 1000


def test_an_older_confirmation_changes_nothing():
    assert Life(500, 1000).confirm(400) == Life(500, 1000)
    assert Life(500, 1000).confirm(600) == Life(600, 1000)


def test_a_keep_alive_of_the_session_confirms_its_locks():
    assert LockLife(Life(0, 2000)).safe_until(Life(1500, 30000)) == Life(1500, 2000).safe_until()


def test_no_lock_outlives_its_session():
    assert LockLife(Life(0, 60000)).safe_until(Life(0, 10000)) == Life(0, 10000).safe_until()


def test_a_renewal_in_flight_counts_if_it_is_shorter():
    session = Life(0, 60000)
    lock = LockLife(Life(0, 10000)).renewal_sent(2000, 1000)
    assert lock.safe_until(session) == Life(1000, 2000).safe_until()
    assert lock.ttl_ms() == 2000
    longer = LockLife(Life(0, 2000)).renewal_sent(10000, 1000)
    assert longer.safe_until(session) == Life(0, 2000).safe_until(), "a longer TTL counts when it is confirmed"
    assert longer.renewal_applied().safe_until(session) == Life(1000, 10000).safe_until()


def test_an_unanswered_shorter_renewal_counts_as_long_as_the_lock_is_held():
    session = Life(0, 60000)
    lock = LockLife(Life(0, 10000)).renewal_sent(2000, 1000).renewal_unanswered()
    lock = lock.renewal_sent(20000, 1500).renewal_applied()
    assert lock.safe_until(session) == Life(1500, 2000).safe_until()
    assert lock.ttl_ms() == 2000


def test_of_unanswered_renewals_the_earliest_and_shortest_count():
    lock = LockLife(Life(0, 9000)).renewal_sent(5000, 100).renewal_unanswered()
    lock = lock.renewal_sent(3000, 200).renewal_unanswered()
    assert lock.unanswered == Life(100, 3000)


def test_a_refused_renewal_leaves_nothing():
    lock = LockLife(Life(0, 9000))
    assert lock.renewal_sent(1000, 50).renewal_refused() == lock


def test_max_hold_ends_it_whatever_is_confirmed():
    lock = LockLife(Life(0, 2000), hold=Life(0, 5000)).confirm(4500)
    assert lock.safe_until(Life(4500, 30000)) == Life(0, 5000).safe_until()
