package holdfast

import (
	"testing"
	"time"
)

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if any(got) != any(want) {
		t.Errorf("%s: %v, expected %v", what, got, want)
	}
}

func TestALifeCountsFromTheSendingLessDriftAndMargin(t *testing.T) {
	expect(t, "30 s", life{1000, 30000}.safeUntil(), 1000+30000-30-5)
	expect(t, "the drift is rounded up", life{0, 1001}.safeUntil(), 1001-2-5)
	expect(t, "a third is left", life{0, 3000}.jeopardyAt(), 3000-3-5-1000)
	expect(t, "an older confirmation changes nothing", life{500, 1000}.confirm(400), life{500, 1000})
	expect(t, "a newer one counts", life{500, 1000}.confirm(600), life{600, 1000})
}

func TestALockLivesWithItsSession(t *testing.T) {
	expect(t, "a keep-alive confirms its locks", lockLife{known: life{0, 2000}}.safeUntil(life{1500, 30000}), life{1500, 2000}.safeUntil())
	expect(t, "no lock outlives its session", lockLife{known: life{0, 60000}}.safeUntil(life{0, 10000}), life{0, 10000}.safeUntil())
}

func TestARenewalInFlightCountsIfItIsShorter(t *testing.T) {
	session := life{0, 60000}
	l := lockLife{known: life{0, 10000}}.renewalSent(2000, 1000)
	expect(t, "from its sending", l.safeUntil(session), life{1000, 2000}.safeUntil())
	expect(t, "TTL", l.shortestTTL(), 2000)
	longer := lockLife{known: life{0, 2000}}.renewalSent(10000, 1000)
	expect(t, "a longer TTL counts when it is confirmed", longer.safeUntil(session), life{0, 2000}.safeUntil())
	expect(t, "and then", longer.renewalApplied().safeUntil(session), life{1000, 10000}.safeUntil())
	expect(t, "a refused one leaves nothing", longer.renewalRefused(), lockLife{known: life{0, 2000}})
}

func TestAnUnansweredShorterRenewalCountsAsLongAsTheLockIsHeld(t *testing.T) {
	l := lockLife{known: life{0, 10000}}.renewalSent(2000, 1000).renewalUnanswered()
	l = l.renewalSent(20000, 1500).renewalApplied()
	expect(t, "end", l.safeUntil(life{0, 60000}), life{1500, 2000}.safeUntil())
	expect(t, "TTL", l.shortestTTL(), 2000)
	l = lockLife{known: life{0, 9000}}.renewalSent(5000, 100).renewalUnanswered().renewalSent(3000, 200).renewalUnanswered()
	expect(t, "the earliest and shortest count", l.unanswered, life{100, 3000})
}

func TestMaxHoldEndsALockWhateverIsConfirmed(t *testing.T) {
	l := lockLife{known: life{0, 2000}, hold: life{0, 5000}}.confirm(4500)
	session := life{4500, 30000}
	expect(t, "end", l.safeUntil(session), life{0, 5000}.safeUntil())
	expect(t, "by max_hold", l.endsByHold(session), true)
}

func TestTheElapsedClockIsTheLargerOfMonotonicAndWallTime(t *testing.T) {
	monotonic, wall := 5*time.Second, 3*time.Second
	c := &elapsedClock{func() time.Duration { return monotonic }, func() time.Duration { return wall }}
	expect(t, "the wall clock was set back", c.now(), 5000)
	wall = time.Hour
	expect(t, "the machine was suspended", c.now(), 3600000)
}

func TestTheSystemClockRuns(t *testing.T) {
	for _, c := range []clock{systemClock(), newElapsedClock()} {
		began, base := time.Now(), c.now()
		for c.now() < base+20 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took < 15*time.Millisecond {
			t.Errorf("20 ms of %T took %v", c, took)
		}
	}
}
