package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/holdfasttest"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func expect[T any](t *testing.T, what string, is, expected T) {
	t.Helper()
	if !reflect.DeepEqual(is, expected) {
		t.Errorf("%s: %v, expected: %v", what, is, expected)
	}
}

func expectLost(t *testing.T, lock *holdfast.Lock, code string) {
	t.Helper()
	if err := lock.Check(); !errors.Is(err, holdfast.ErrLockLost) || holdfast.CodeOf(err) != code {
		t.Errorf("%v, expected: lost by %s", err, code)
	}
	if lock.Context().Err() == nil {
		t.Error("its context has not ended")
	}
}

func fake(t *testing.T, ids ...string) (*holdfasttest.Cluster, []*holdfast.Client) {
	cluster := holdfasttest.NewCluster()
	clients := []*holdfast.Client{}
	for _, id := range ids {
		client := cluster.Client(id)
		clients = append(clients, client)
		t.Cleanup(func() { client.Close() })
	}
	return cluster, clients
}

func eventually(t *testing.T, cluster *holdfasttest.Cluster, what string, condition func() bool) {
	t.Helper()
	if !cluster.Eventually(condition) {
		t.Fatalf("not in time: %s", what)
	}
}

var ctx = context.Background()

func TestAConnectedClientKeepsItsLocks(t *testing.T) {
	cluster, clients := fake(t, "a", "b")
	lock := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n", holdfast.TTL(10*time.Second)))
	cluster.Advance(time.Hour)
	if err := lock.Check(); err != nil || lock.SafeFor() < 6*time.Second || lock.InJeopardy() {
		t.Errorf("%v, safe for %v", err, lock.SafeFor())
	}
	_, err := clients[1].TryLock(ctx, "n")
	var refusal *holdfast.Error
	if !errors.As(err, &refusal) || refusal.Code != "held" || refusal.Holder.ClientID != "a" {
		t.Errorf("%v", err)
	}
	expect(t, "holders", cluster.Holders("n"), []string{"a"})
	must[any](t)(nil, lock.Unlock(ctx))
	must[any](t)(nil, lock.Unlock(ctx))
	later := must[*holdfast.Lock](t)(clients[1].TryLock(ctx, "n"))
	if later.FenceToken() <= lock.FenceToken() {
		t.Errorf("%d after %d", later.FenceToken(), lock.FenceToken())
	}
}

func TestADisconnectedClientLosesItsLocksByTheClock(t *testing.T) {
	cluster, clients := fake(t, "a", "b")
	var reports []string
	report := func(what string) func(*holdfast.Lock) {
		return func(*holdfast.Lock) { reports = append(reports, what) }
	}
	lock := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n", holdfast.TTL(10*time.Second), holdfast.OnJeopardy(report("jeopardy")),
		holdfast.OnSafe(report("safe")), holdfast.OnLost(report("lost"))))
	cluster.Disconnect(clients[0])
	cluster.Advance(7 * time.Second)
	cluster.Connect(clients[0])
	cluster.Advance(0)
	expect(t, "a confirmation ends jeopardy", reports, []string{"jeopardy", "safe"})
	cluster.Disconnect(clients[0])
	cluster.Advance(9980 * time.Millisecond)
	if err := lock.Check(); err != nil || !lock.InJeopardy() {
		t.Errorf("%v", err)
	}
	cluster.Advance(10 * time.Millisecond)
	expectLost(t, lock, "unconfirmed")
	expect(t, "reports", reports, []string{"jeopardy", "safe", "jeopardy", "lost"})
	if _, err := clients[1].TryLock(ctx, "n"); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("%v: the service still has it, the client gave up first", err)
	}
	cluster.Advance(20 * time.Millisecond)
	cluster.Connect(clients[0])
	must[*holdfast.Lock](t)(clients[1].TryLock(ctx, "n"))
	cluster.Advance(time.Minute)
	expectLost(t, lock, "unconfirmed")
	if err := lock.Unlock(ctx); !errors.Is(err, holdfast.ErrLockLost) {
		t.Errorf("%v", err)
	}
}

func TestALockIsLostOnDemand(t *testing.T) {
	cluster, clients := fake(t, "a")
	err := clients[0].Do(ctx, "n", func(ctx context.Context, lock *holdfast.Lock) error {
		cluster.Lose(lock)
		<-ctx.Done()
		expectLost(t, lock, "forced")
		return ctx.Err()
	})
	if !errors.Is(err, holdfast.ErrLockLost) || len(cluster.Holders("n")) != 0 {
		t.Errorf("%v, held by %v", err, cluster.Holders("n"))
	}
	err = clients[0].Lead(ctx, "cron", func(ctx context.Context, leader *holdfast.Lock) error {
		expect(t, "leader", cluster.Holders("cron"), []string{"a"})
		return leader.Check()
	})
	if err != nil || len(cluster.Holders("cron")) != 0 {
		t.Errorf("%v, led by %v", err, cluster.Holders("cron"))
	}
}

func TestAPrintedLockShowsNoToken(t *testing.T) {
	cluster := holdfasttest.NewCluster()
	client := cluster.Client("a")
	defer client.Close()
	lock := must[*holdfast.Lock](t)(client.Lock(context.Background(), "job"))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		expect(t, verb, fmt.Sprintf(verb, lock), `Lock "job" (held)`)
	}
	cluster.Lose(lock)
	expect(t, "lost", lock.String(), `Lock "job" (lost)`)
	other := must[*holdfast.Lock](t)(client.Lock(context.Background(), "other"))
	if err := other.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
	expect(t, "released", other.String(), `Lock "other" (released)`)
}

func TestARevocationIsReported(t *testing.T) {
	cluster, clients := fake(t, "a")
	requests := make(chan holdfast.Revocation, 1)
	given := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "given", holdfast.OnRevoke(func(lock *holdfast.Lock, r holdfast.Revocation) {
		requests <- r
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
	})))
	kept := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "kept"))
	cluster.Revoke(given, 5*time.Second, "upgrade")
	cluster.Revoke(kept, 5*time.Second, "upgrade")
	request := <-requests
	expect(t, "request", request, holdfast.Revocation{Actor: "test", Reason: "upgrade", At: cluster.Now().Add(5 * time.Second)})
	expect(t, "holders", len(cluster.Holders("given"))+len(cluster.Holders("kept")), 1)
	cluster.Advance(5 * time.Second)
	expectLost(t, kept, "revoked")
}

func TestWaitsEndByReleaseByTheClockAndByTheirContext(t *testing.T) {
	cluster, clients := fake(t, "a", "b")
	lock := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n"))
	ends := make(chan error, 1)
	wait := func(ctx context.Context) {
		go func() {
			_, err := clients[1].Lock(ctx, "n", holdfast.Wait(5*time.Second))
			ends <- err
		}()
		eventually(t, cluster, "it waits", func() bool { return cluster.Waiters("n") == 1 })
	}
	wait(ctx)
	cluster.Advance(5 * time.Second)
	if err := <-ends; !errors.Is(err, holdfast.ErrWaitTimeout) {
		t.Errorf("%v", err)
	}
	short, cancel := context.WithCancel(ctx)
	wait(short)
	cancel()
	if err := <-ends; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	eventually(t, cluster, "it leaves the queue", func() bool { return cluster.Waiters("n") == 0 })
	wait(ctx)
	must[any](t)(nil, lock.Unlock(ctx))
	must[any](t)(nil, <-ends)
	expect(t, "holders", cluster.Holders("n"), []string{"b"})
}

func TestWhatWasNotAnsweredIsRepeated(t *testing.T) {
	cluster := holdfasttest.NewCluster()
	client := cluster.ClientWith(holdfast.Options{ClientID: "a", Timeout: 3 * time.Second})
	defer client.Close()
	lock := must[*holdfast.Lock](t)(client.Lock(ctx, "n", holdfast.TTL(20*time.Second)))
	cluster.Disconnect(client)
	ends := make(chan error, 1)
	go func() { ends <- lock.Unlock(ctx) }()
	eventually(t, cluster, "from the call on it is not held", func() bool { return errors.Is(lock.Check(), holdfast.ErrNotHeld) })
	eventually(t, cluster, "the call gives up", func() bool {
		cluster.Advance(100 * time.Millisecond)
		return len(ends) == 1
	})
	if err := <-ends; !errors.Is(err, holdfast.ErrOutcomeUnknown) {
		t.Errorf("%v", err)
	}
	cluster.Connect(client)
	eventually(t, cluster, "the release arrives", func() bool {
		cluster.Advance(100 * time.Millisecond)
		return len(cluster.Holders("n")) == 0
	})
}

func TestMaxHoldAndRenewal(t *testing.T) {
	cluster, clients := fake(t, "a")
	lock := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n", holdfast.MaxHold(time.Minute)))
	cluster.Advance(59 * time.Second)
	must[any](t)(nil, lock.Check())
	cluster.Advance(time.Second)
	expectLost(t, lock, "max_hold")
	renewed := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n", holdfast.TTL(2*time.Second)))
	must[any](t)(nil, renewed.Renew(ctx, 20*time.Second))
	if safe := renewed.SafeFor(); safe < 19*time.Second {
		t.Errorf("safe for %v", safe)
	}
}

func TestAFailoverLosesTheLocksOfTheTierEfficiency(t *testing.T) {
	cluster, clients := fake(t, "a")
	kept := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "kept"))
	lost := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "fast", holdfast.InTier(holdfast.Efficiency)))
	cluster.ChangeLeader()
	expectLost(t, lost, "epoch")
	must[any](t)(nil, kept.Check())
	must[*holdfast.Lock](t)(clients[0].TryLock(ctx, "fast", holdfast.InTier(holdfast.Efficiency)))
}

func TestAClientCanBeClosedWhileItsNodeRests(t *testing.T) {
	for i := 0; i < 20; i++ {
		cluster, clients := fake(t, "a")
		lock := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n"))
		cluster.Disconnect(clients[0])
		go lock.Unlock(ctx) // refused, and repeated when time passes
		cluster.Eventually(func() bool { return lock.Check() != nil })
		must[any](t)(nil, clients[0].Close())
		expect(t, "holders", len(cluster.Holders("n")), 0)
	}
}

func TestANewSessionFollowsALostOneAndCloseHoldsNothing(t *testing.T) {
	cluster, clients := fake(t, "a")
	lost := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n"))
	cluster.Disconnect(clients[0])
	cluster.Advance(40 * time.Second)
	cluster.Connect(clients[0])
	again := must[*holdfast.Lock](t)(clients[0].Lock(ctx, "n"))
	expectLost(t, lost, "unconfirmed")
	cluster.Disconnect(clients[0])
	must[any](t)(nil, clients[0].Close())
	expectLost(t, again, "closed")
	expect(t, "holders", len(cluster.Holders("n")), 0)
	if _, err := clients[0].Lock(ctx, "n"); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("%v", err)
	}
	cluster.Advance(time.Minute)
}

func TestAWatchResumes(t *testing.T) {
	cluster, clients := fake(t, "a")
	use := func(name string) {
		must[any](t)(nil, must[*holdfast.Lock](t)(clients[0].Lock(ctx, name)).Unlock(ctx))
	}
	watch := must[*holdfast.Watch](t)(clients[0].Watch(holdfast.Prefix("w/")))
	eventually(t, cluster, "it begins", func() bool { return watch.LastID() != "" })
	for _, name := range []string{"w/1", "other", "w/2"} {
		use(name)
	}
	read := func(watch *holdfast.Watch, count int) (seen []string) {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		for i := 0; i < count; i++ {
			event := must[holdfast.Event](t)(watch.Next(limited))
			seen = append(seen, event.Type+" "+event.Name)
		}
		return seen
	}
	expect(t, "events", read(watch, 4), []string{"granted w/1", "released w/1", "granted w/2", "released w/2"})
	watch.Close()
	use("w/3")
	resumed := must[*holdfast.Watch](t)(clients[0].Watch(holdfast.Prefix("w/"), holdfast.After(watch.LastID())))
	defer resumed.Close()
	expect(t, "events", read(resumed, 2), []string{"granted w/3", "released w/3"})
}

func TestManyGoroutinesUseACluster(t *testing.T) {
	cluster, clients := fake(t, "a", "b", "c")
	var group sync.WaitGroup
	counter := 0
	for i := 0; i < 12; i++ {
		client := clients[i%3]
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 10; j++ {
				err := client.Do(ctx, "n", func(context.Context, *holdfast.Lock) error {
					counter++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	isDone := cluster.Eventually(func() bool {
		cluster.Advance(time.Minute)
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	expect(t, "done", isDone, true)
	expect(t, "counter", counter, 120)
}

func ExampleCluster() {
	cluster := holdfasttest.NewCluster()
	client := cluster.Client("worker-1")
	defer client.Close()
	err := client.Do(context.Background(), "job", func(ctx context.Context, lock *holdfast.Lock) error {
		cluster.Disconnect(client)
		cluster.Advance(31 * time.Second) // no keep-alive arrives
		<-ctx.Done()
		return lock.Check()
	})
	fmt.Println("lost:", errors.Is(err, holdfast.ErrLockLost))
	// Output:
	// lost: true
}
