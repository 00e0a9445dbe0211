package holdfast

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testcluster"
)

// The client on real clusters, also while nodes die and pause.

// shiftedClock is the clock of the machine, which a test can advance.
type shiftedClock struct {
	clock
	shift atomic.Int64
}

func (c *shiftedClock) now() int64 { return c.clock.now() + c.shift.Load() }

func newShiftedClock() *shiftedClock { return &shiftedClock{clock: systemClock()} }

func openWith(t *testing.T, c *testcluster.Cluster, o Options, k clock) *Client {
	t.Helper()
	if o.Endpoints == nil {
		o.Endpoints = c.Endpoints()
	}
	client, err := open(o, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func openClient(t *testing.T, c *testcluster.Cluster, o Options) *Client {
	t.Helper()
	return openWith(t, c, o, systemClock())
}

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testcluster.Patience)
	t.Cleanup(cancel)
	return ctx
}

func mustLock(t *testing.T, lock *Lock, err error) *Lock {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func expectKind(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, expected: %v", what, err, kind)
	}
}

func mustUnlock(t *testing.T, lock *Lock) {
	t.Helper()
	if err := lock.Unlock(patience(t)); err != nil {
		t.Error(err)
	}
}

// received waits for one element.
func received[T any](t *testing.T, what string, channel <-chan T) T {
	t.Helper()
	select {
	case value := <-channel:
		return value
	case <-time.After(testcluster.Patience):
		t.Fatalf("not within %v: %s", testcluster.Patience, what)
		panic("unreachable")
	}
}

// TestOneCluster has the tests that leave the cluster as it was.
func TestOneCluster(t *testing.T) {
	c := testcluster.Start(t, 3)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *testcluster.Cluster)
	}{
		{"two clients exclude each other", twoClientsExclude},
		{"two handles of a client exclude each other", twoHandlesExclude},
		{"a waiter gets the lock when it is released", waiterGetsLock},
		{"a cancelled wait leaves the queue", cancelLeavesQueue},
		{"a grant of a cancelled wait is released", cancelReleasesGrant},
		{"shared, semaphore, multi-lock, election, tier", modes},
		{"a renewal sets the TTL", renewal},
		{"Do and Lead hold the lock while work runs", doAndLead},
		{"a force-unlock and a revocation are reported", forcedAndRevoked},
		{"a loss before the stream of the session is found", lossBeforeStream},
		{"max_hold ends a lock", maxHold},
		{"a watch is resumed at another node", watchResumes},
		{"a closed client holds nothing and refuses", closedClient},
		{"many goroutines share a client", manyGoroutines},
		{"nothing is left after Close", noLeaks},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

func twoClientsExclude(t *testing.T, c *testcluster.Cluster) {
	ctx := patience(t)
	first, second := openClient(t, c, Options{ClientID: "first"}), openClient(t, c, Options{})
	lock, err := first.Lock(ctx, "wallet:user_123", TTL(30*time.Second), Metadata(map[string]int{"pid": 1}))
	mustLock(t, lock, err)
	if safe := lock.SafeFor(); lock.Check() != nil || safe <= 0 || safe >= 30*time.Second || lock.InJeopardy() || lock.Context().Err() != nil {
		t.Errorf("%v, safe for %v", lock.Check(), safe)
	}
	_, err = second.TryLock(ctx, "wallet:user_123")
	expectKind(t, "the second", err, ErrNotAcquired)
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Code != "held" || refusal.Holder.ClientID != "first" || string(refusal.Holder.Metadata) != `{"pid":1}` {
		t.Errorf("%+v", refusal)
	}
	mustUnlock(t, lock)
	mustUnlock(t, lock) // idempotent
	expectKind(t, "after the release", lock.Check(), ErrNotHeld)
	expect(t, "its context has ended", lock.Context().Err(), context.Canceled)
	next, err := second.TryLock(ctx, "wallet:user_123")
	mustLock(t, next, err)
	if next.FenceToken() <= lock.FenceToken() {
		t.Errorf("token %d after %d", next.FenceToken(), lock.FenceToken())
	}
	mustUnlock(t, next)
}

func twoHandlesExclude(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	lock, err := client.Lock(patience(t), "own")
	mustLock(t, lock, err)
	_, err = client.Lock(patience(t), "own", Wait(200*time.Millisecond))
	expectKind(t, "the second", err, ErrWaitTimeout)
	expectKind(t, "a timeout is", err, ErrNotAcquired)
	mustUnlock(t, lock)
}

type acquired struct {
	lock *Lock
	err  error
}

func lockLater(ctx context.Context, client *Client, name string, options ...LockOption) <-chan acquired {
	done := make(chan acquired, 1)
	go func() {
		lock, err := client.Lock(ctx, name, options...)
		done <- acquired{lock, err}
	}()
	return done
}

func waiterGetsLock(t *testing.T, c *testcluster.Cluster) {
	first, second := openClient(t, c, Options{}), openClient(t, c, Options{})
	lock, err := first.Lock(patience(t), "handed")
	mustLock(t, lock, err)
	done := lockLater(patience(t), second, "handed")
	testcluster.WaitUntil(t, "it waits", func() bool { return c.Nodes[0].Show("handed").QueueLength == 1 })
	mustUnlock(t, lock)
	got := received(t, "the grant", done)
	mustLock(t, got.lock, got.err)
	expect(t, "its token is higher", got.lock.FenceToken() > lock.FenceToken(), true)
}

func cancelLeavesQueue(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	lock, err := client.Lock(patience(t), "left")
	mustLock(t, lock, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := lockLater(ctx, client, "left")
	testcluster.WaitUntil(t, "it waits", func() bool { return c.Nodes[0].Show("left").QueueLength == 1 })
	cancel()
	expectKind(t, "the wait", received(t, "the end of the wait", done).err, context.Canceled)
	testcluster.WaitUntil(t, "it left", func() bool { return c.Nodes[0].Show("left").QueueLength == 0 })
	if err := lock.Check(); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = client.Lock(short, "left")
	expectKind(t, "with a deadline", err, context.DeadlineExceeded)
	testcluster.WaitUntil(t, "it left", func() bool { return c.Nodes[0].Show("left").QueueLength == 0 })
}

// cancelReleasesGrant cancels at many moments around the grant: nothing must stay held.
func cancelReleasesGrant(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	keep, err := client.Lock(patience(t), "keeps the session open")
	mustLock(t, keep, err)
	for i := 0; i < 40; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		if lock, err := client.Lock(ctx, "raced"); err == nil {
			mustUnlock(t, lock)
		} else {
			expectKind(t, "the call", err, context.DeadlineExceeded)
		}
		cancel()
	}
	testcluster.WaitUntil(t, "nothing is held", func() bool {
		view := c.Nodes[0].Show("raced")
		return !view.Held && view.QueueLength == 0
	})
	mustUnlock(t, keep)
}

func modes(t *testing.T, c *testcluster.Cluster) {
	ctx := patience(t)
	first, second := openClient(t, c, Options{}), openClient(t, c, Options{})
	is := func(lock *Lock, err error) *Lock { t.Helper(); return mustLock(t, lock, err) }
	no := func(what string) func(*Lock, error) {
		return func(_ *Lock, err error) { t.Helper(); expectKind(t, what, err, ErrNotAcquired) }
	}
	is(first.Lock(ctx, "s", Shared()))
	is(second.TryLock(ctx, "s", Shared()))
	no("exclusive beside shared")(second.TryLock(ctx, "s"))
	one, two := is(first.Semaphore(ctx, "pool", 2)), is(second.Semaphore(ctx, "pool", 2, Wait(0)))
	expect(t, "slots", one.Slot()+two.Slot() == 1 && one.Slot() != two.Slot(), true)
	no("a third permit")(second.Semaphore(ctx, "pool", 2, Wait(0)))
	both := is(first.MultiLock(ctx, []string{"m1", "m2"}))
	expect(t, "name", both.Name(), "m1, m2")
	expect(t, "no slot", both.Slot(), -1)
	no("a part of a multi-lock")(second.TryLock(ctx, "m2"))
	if err := both.Renew(ctx, 20*time.Second); err != nil {
		t.Error(err)
	}
	mustUnlock(t, both)
	is(second.TryLock(ctx, "m2"))
	leader := is(first.Campaign(ctx, "modes/cron", Value("host-1")))
	no("a second leader")(second.Campaign(ctx, "modes/cron", Wait(0)))
	if err := leader.Renew(ctx, 20*time.Second); err != nil {
		t.Error(err)
	}
	mustUnlock(t, leader)
	is(second.Campaign(ctx, "modes/cron", Wait(0)))
	fast := is(first.TryLock(ctx, "fast", InTier(Efficiency)))
	_, err := second.TryLock(ctx, "fast")
	expect(t, "another tier", CodeOf(err), "wrong_tier")
	mustUnlock(t, fast)
	_, err = first.TryLock(ctx, "a//b")
	expectKind(t, "a wrong name", err, ErrInvalid)
}

func renewal(t *testing.T, c *testcluster.Cluster) {
	lock, err := openClient(t, c, Options{}).Lock(patience(t), "renewed", TTL(2*time.Second))
	mustLock(t, lock, err)
	if err := lock.Renew(patience(t), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	expect(t, "safe for more than 10 s", lock.SafeFor() > 10*time.Second, true)
	expectKind(t, "a short TTL", lock.Renew(patience(t), time.Millisecond), ErrInvalid)
	mustUnlock(t, lock)
	expectKind(t, "after the release", lock.Renew(patience(t), 20*time.Second), ErrNotHeld)
}

func doAndLead(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	failed := errors.New("of the work")
	calls := 0
	work := func(name string) func(context.Context, *Lock) error {
		return func(ctx context.Context, lock *Lock) error {
			calls++
			expect(t, "held by the service", c.Nodes[0].Show(name).Held, true)
			expect(t, "no end", ctx.Err(), nil)
			return failed
		}
	}
	expect(t, "error", client.Do(patience(t), "do", work("do")), failed)
	expect(t, "error", client.Lead(patience(t), "lead", work("lead")), failed)
	expect(t, "calls", calls, 2)
	expect(t, "released", c.Nodes[0].Show("do").Held || c.Nodes[0].Show("lead").Held, false)
	err := client.Do(patience(t), "do", func(ctx context.Context, lock *Lock) error {
		c.Nodes[0].ForceUnlock("do")
		<-ctx.Done()
		return ctx.Err()
	})
	expectKind(t, "a lost lock ends the work", err, ErrLockLost)
	expect(t, "code", CodeOf(err), "forced")
	ctx, cancel := context.WithCancel(context.Background())
	err = client.Do(ctx, "do", func(ctx context.Context, lock *Lock) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	expectKind(t, "the caller ends the work", err, context.Canceled)
}

func forcedAndRevoked(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	lostOnes, revocations := make(chan *Lock, 4), make(chan Revocation, 4)
	lock, err := client.Lock(patience(t), "forced", OnLost(func(l *Lock) { lostOnes <- l }))
	mustLock(t, lock, err)
	c.Nodes[1].ForceUnlock("forced")
	expect(t, "lost", received(t, "the loss", lostOnes), lock)
	expect(t, "code", CodeOf(lock.Check()), "forced")
	expect(t, "its context has ended", lock.Context().Err(), context.Canceled)
	expectKind(t, "release", lock.Unlock(patience(t)), ErrLockLost)
	expect(t, "the token stays readable", lock.FenceToken() > 0, true)

	revoked, err := client.Lock(patience(t), "revoked", OnLost(func(l *Lock) { lostOnes <- l }),
		OnRevoke(func(_ *Lock, r Revocation) { revocations <- r }))
	mustLock(t, revoked, err)
	c.Nodes[1].Request("POST", "/api/v1/locks/revoked/revoke", map[string]any{"actor_id": "operator", "reason": "r", "deadline_ms": 300}, nil)
	r := received(t, "the request", revocations)
	if r.Actor != "operator" || r.Reason != "r" || time.Until(r.At) > 2*time.Second {
		t.Errorf("%+v", r)
	}
	expect(t, "lost", received(t, "the loss", lostOnes), revoked)
	expect(t, "code", CodeOf(revoked.Check()), "revoked")
	expect(t, "each loss is reported once", len(lostOnes), 0)
}

// lossBeforeStream: the loss comes before the first stream of the session, so that no event reports it.
func lossBeforeStream(t *testing.T, c *testcluster.Cluster) {
	expect(t, "code", lossFoundByKeepAlive(t, c, "before", true), "forced")
	expect(t, "code", lossFoundByKeepAlive(t, c, "before-unanswered", false), "unknown")
}

// lossFoundByKeepAlive returns its code.
func lossFoundByKeepAlive(t *testing.T, c *testcluster.Cluster, name string, answersRenewals bool) string {
	leader := c.Leader(nil) // it has done the force-unlock before its stream begins, so the stream does not report it
	client := openClient(t, c, Options{Endpoints: []string{leader.Client}})
	streams := make(chan struct{})
	do := client.engine.caller.do
	client.engine.caller.do = func(ctx context.Context, n *node, method, path string, body []byte) (int, *reply, *attemptError) {
		if strings.HasSuffix(path, "/renew") && !answersRenewals {
			return 0, nil, &attemptError{sent: true, why: "not answered"}
		}
		status, r, failed := do(ctx, n, method, path, body)
		if strings.HasSuffix(path, "/sessions") {
			client.engine.transport.token.mutex.Lock() // requests of streams wait here
			go func() {
				<-streams
				client.engine.transport.token.mutex.Unlock()
			}()
		}
		return status, r, failed
	}
	s, err := client.engine.needSession(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	var grant reply
	leader.Request("POST", "/api/v1/locks/"+name+"/acquire", map[string]any{"session_id": s.id, "owner": "h0", "request_id": newID()}, &grant)
	r, _ := newRequest(exclusive, []string{name}, nil)
	lock, err := client.engine.granted(context.Background(), s, r, answer{&grant, client.engine.clock.now()}, 30000)
	mustLock(t, lock, err)
	leader.ForceUnlock(name)
	close(streams)
	received(t, "the loss", lock.Context().Done())
	return CodeOf(lock.Check())
}

func maxHold(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	began := time.Now()
	lock, err := client.Lock(patience(t), "max-hold", MaxHold(400*time.Millisecond))
	mustLock(t, lock, err)
	received(t, "its end", lock.Context().Done())
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("it ended after %v", took)
	}
	expect(t, "code", CodeOf(lock.Check()), "max_hold")
}

func watchResumes(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	watcher := openClient(t, c, Options{Endpoints: []string{c.Nodes[0].Client}})
	watch, err := watcher.Watch(Prefix("w/"))
	if err != nil {
		t.Fatal(err)
	}
	once := func(name string) {
		lock, err := client.Lock(patience(t), name)
		mustLock(t, lock, err)
		mustUnlock(t, lock)
	}
	next := func(w *Watch) Event {
		t.Helper()
		event, err := w.Next(patience(t))
		if err != nil {
			t.Fatal(err)
		}
		return event
	}
	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = watch.Next(short)
	expectKind(t, "no event yet", err, context.DeadlineExceeded)
	testcluster.WaitUntil(t, "the stream has begun", func() bool { return watch.LastID() != "" })
	once("w/1")
	once("other")
	expect(t, "first", next(watch).Type, "granted")
	second := next(watch)
	expect(t, "second", second.Type+" "+second.Name, "released w/1")
	testcluster.WaitUntil(t, "the position", func() bool { return watch.LastID() == second.ID })
	once("w/2")
	watch.Close()
	watch.Close()
	_, err = watch.Next(patience(t))
	expectKind(t, "after Close", err, ErrClosed)
	resumed, err := openClient(t, c, Options{Endpoints: []string{c.Nodes[2].Client}}).Watch(Prefix("w/"), After(second.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	for _, kind := range []string{"granted", "released"} {
		event := next(resumed)
		expect(t, "after the resumption", event.Type+" "+event.Name, kind+" w/2")
	}
}

func closedClient(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	lock, err := client.Lock(patience(t), "closed")
	mustLock(t, lock, err)
	waiting := lockLater(context.Background(), client, "closed")
	testcluster.WaitUntil(t, "it waits", func() bool { return c.Nodes[0].Show("closed").QueueLength == 1 })
	for i := 0; i < 2; i++ {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	view := c.Nodes[1].Show("closed")
	expect(t, "held or waited for", view.Held || view.QueueLength > 0, false)
	expectKind(t, "the lock", lock.Check(), ErrLockLost)
	expectKind(t, "the wait", received(t, "its end", waiting).err, ErrClosed)
	_, err = client.Lock(patience(t), "closed")
	expectKind(t, "a new call", err, ErrClosed)
	_, err = client.Watch()
	expectKind(t, "a watch", err, ErrClosed)
}

func manyGoroutines(t *testing.T, c *testcluster.Cluster) {
	client := openClient(t, c, Options{})
	var inside, most atomic.Int64
	errs := make(chan error, 16)
	for i := 0; i < cap(errs); i++ {
		go func() {
			errs <- client.Do(context.Background(), "counted", func(context.Context, *Lock) error {
				if now := inside.Add(1); now > most.Load() {
					most.Store(now)
				}
				runtime.Gosched()
				inside.Add(-1)
				return nil
			})
		}()
	}
	for i := 0; i < cap(errs); i++ {
		if err := received(t, "a turn", errs); err != nil {
			t.Error(err)
		}
	}
	expect(t, "holders at a time", most.Load(), 1)
}

// ownGoroutines are those of this package, and their connections.
func ownGoroutines() int {
	buffer := make([]byte, 1<<20)
	count := 0
	for _, one := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(one, "(*engine)") || strings.Contains(one, "(*session)") || strings.Contains(one, "(*dispatcher)") ||
			strings.Contains(one, "persistConn") {
			count++
		}
	}
	return count
}

func noLeaks(t *testing.T, c *testcluster.Cluster) {
	testcluster.WaitUntil(t, "earlier tests have ended", func() bool { return ownGoroutines() == 0 })
	client := openClient(t, c, Options{})
	lock, err := client.Lock(patience(t), "leak", OnLost(func(*Lock) {}))
	mustLock(t, lock, err)
	if _, err := client.Watch(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	waiting := lockLater(ctx, client, "leak")
	testcluster.WaitUntil(t, "it waits", func() bool { return c.Nodes[0].Show("leak").QueueLength == 1 })
	cancel()
	received(t, "the end of the wait", waiting)
	if ownGoroutines() == 0 {
		t.Error("goroutines of the client are not recognized")
	}
	client.Close()
	testcluster.WaitUntil(t, "its goroutines have ended", func() bool { return ownGoroutines() == 0 })
}

// --- while nodes die and pause ---

func TestALockAndAWaitSurviveTheDeathOfTheLeader(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 3)
	client, other := openClient(t, c, Options{SessionTTL: 9 * time.Second}), openClient(t, c, Options{})
	lock, err := client.Lock(patience(t), "kept", OnLost(func(l *Lock) { t.Errorf("lost: %v", l.Err()) }))
	mustLock(t, lock, err)
	waiting := lockLater(patience(t), other, "kept")
	leader := c.Leader(nil)
	testcluster.WaitUntil(t, "it waits", func() bool { return leader.Show("kept").QueueLength == 1 })
	leader.Kill()
	next := c.Leader(leader)
	end := time.Now().Add(lock.SafeFor())
	testcluster.WaitUntil(t, "the new leader confirms a keep-alive", func() bool { return time.Now().Add(lock.SafeFor()).After(end.Add(time.Second)) })
	expect(t, "it still waits", next.Show("kept").QueueLength, 1)
	expect(t, "nothing was granted", len(waiting), 0)
	mustUnlock(t, lock)
	got := received(t, "the grant", waiting)
	mustLock(t, got.lock, got.err)
	expect(t, "its token is higher", got.lock.FenceToken() > lock.FenceToken(), true)
}

func TestKeepAlivesLeaveAPausedNode(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 3)
	client := openClient(t, c, Options{SessionTTL: 3 * time.Second})
	lock, err := client.Lock(patience(t), "moved")
	mustLock(t, lock, err)
	used := client.engine.caller.nodes.pick(client.engine.clock.now(), nil) // the one used last
	for _, n := range c.Nodes {
		if n.Client == used.address {
			n.Signal(syscall.SIGSTOP)
			defer n.Signal(syscall.SIGCONT)
		}
	}
	sleep(lock.Context(), systemClock(), 4*time.Second) // more than the TTL
	if err := lock.Check(); err != nil {
		t.Error(err)
	}
}

func TestWithoutTheClusterALockIsLostInTimeAndForGood(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 3)
	client := openClient(t, c, Options{SessionTTL: 2 * time.Second, Timeout: 2 * time.Second})
	events := make(chan string, 4)
	lock, err := client.Lock(patience(t), "paused", OnLost(func(*Lock) { events <- "lost" }), OnJeopardy(func(*Lock) { events <- "jeopardy" }))
	mustLock(t, lock, err)
	c.Signal(syscall.SIGSTOP)
	began := time.Now()
	safe := lock.SafeFor()
	if safe <= 0 || safe > 2*time.Second {
		t.Errorf("safe for %v", safe)
	}
	expect(t, "first", received(t, "jeopardy", events), "jeopardy")
	expect(t, "in jeopardy", lock.InJeopardy(), true)
	received(t, "the loss", lock.Context().Done())
	if took := time.Since(began); took < safe-20*time.Millisecond {
		t.Errorf("lost after %v, it was safe for %v", took, safe)
	}
	expect(t, "then", received(t, "the loss", events), "lost")
	expect(t, "code", CodeOf(lock.Check()), "unconfirmed")
	_, err = client.Lock(patience(t), "other")
	if !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("a call while all nodes are paused: %v", err)
	}
	c.Signal(syscall.SIGCONT)
	c.Leader(nil)
	testcluster.WaitUntil(t, "the client recovers", func() bool {
		other, err := client.Lock(patience(t), "other")
		return err == nil && other.Check() == nil
	})
	expectKind(t, "final", lock.Check(), ErrLockLost)
	expectKind(t, "release", lock.Unlock(patience(t)), ErrLockLost)
}

func TestCheckNeedsNoTimer(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 1)
	clock := newShiftedClock()
	client := openWith(t, c, Options{SessionTTL: 30 * time.Second}, clock)
	lock, err := client.Lock(patience(t), "jumped")
	mustLock(t, lock, err)
	clock.shift.Store(31000) // as after a pause of this process
	expectKind(t, "at once", lock.Check(), ErrLockLost)
	expect(t, "its context has ended", lock.Context().Err(), context.Canceled)
	expectKind(t, "release", lock.Unlock(patience(t)), ErrLockLost)
	next, err := client.Lock(patience(t), "of the next session")
	mustLock(t, next, err)
	expectKind(t, "final", lock.Check(), ErrLockLost)
}

func TestALockThatIsLostAloneIsGivenBack(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 1)
	clock := newShiftedClock()
	client := openWith(t, c, Options{SessionTTL: 15 * time.Second}, clock)
	other := openClient(t, c, Options{})
	stays, err := client.Lock(patience(t), "stays")
	mustLock(t, stays, err)
	short, err := client.Lock(patience(t), "short", TTL(8*time.Second))
	mustLock(t, short, err)
	clock.shift.Store(8000)
	expectKind(t, "the short one", short.Check(), ErrLockLost)
	next, err := other.Lock(patience(t), "short") // keep-alives of the session would keep it
	mustLock(t, next, err)
	if err := stays.Check(); err != nil {
		t.Error(err)
	}
}

func TestEfficiencyLocksAreLostWithTheLeader(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 3)
	client := openClient(t, c, Options{SessionTTL: 30 * time.Second})
	fast, err := client.Lock(patience(t), "fast", InTier(Efficiency))
	mustLock(t, fast, err)
	safe, err := client.Lock(patience(t), "safe")
	mustLock(t, safe, err)
	leader := c.Leader(nil)
	leader.Kill()
	received(t, "the loss", fast.Context().Done())
	expect(t, "code", CodeOf(fast.Check()), "epoch")
	if err := safe.Check(); err != nil {
		t.Error(err)
	}
}

func TestWithoutANodeACallFailsWithTheReason(t *testing.T) {
	client, err := Open(Options{Endpoints: []string{"127.0.0.1:1"}, Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Lock(patience(t), "x")
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

func TestAKeepAliveFindsALossThatNoStreamReported(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 3)
	client := openClient(t, c, Options{})
	client.engine.manual = true // no stream, and no keep-alive but those of the test
	ctx := patience(t)
	take := func(name string, tier Tier) *Lock {
		lock, err := client.Lock(ctx, name, InTier(tier))
		return mustLock(t, lock, err)
	}
	kept := []*Lock{take("kept/c", Correctness), take("kept/e", Efficiency)}
	keepAlive := func() {
		s := client.engine.session
		if !s.keepAliveAt(client.engine.caller.nodes.all[1], s.life.ttl) {
			t.Fatal("the keep-alive was not confirmed")
		}
		for _, lock := range kept {
			if err := lock.Check(); err != nil {
				t.Fatalf("%s: %v", lock.Name(), err)
			}
		}
	}
	keepAlive()
	for _, tier := range []Tier{Correctness, Efficiency} {
		gone := take("gone", tier)
		c.Nodes[1].ForceUnlock("gone")
		if err := gone.Check(); err != nil {
			t.Fatalf("the client cannot know yet: %v", err)
		}
		keepAlive()
		expectKind(t, "the loss", gone.Check(), ErrLockLost)
	}
	released := take("released", Correctness)
	mustUnlock(t, released)
	keepAlive()
	expectKind(t, "a released lock is not lost", released.Check(), ErrNotHeld)
}
