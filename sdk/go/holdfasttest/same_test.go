package holdfasttest_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"holdfast"
	"holdfast/holdfasttest"
	"holdfast/internal/testcluster"
)

// The fake behaves as the service does: one script runs on both, and refusals, grants and events are compared.

type outcome struct {
	Code  string
	Slot  int
	Queue int
}

type seen struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	ClientID string `json:"client_id"`
	Mode     string `json:"mode"`
	Part     int    `json:"part"`
	Ended    string `json:"ended"`
	Value    string `json:"value"`
	Vacant   bool   `json:"vacant"`
}

type script struct {
	t             *testing.T
	first, second *holdfast.Client
	outcomes      []outcome
}

// note the outcome of a call. A grant is released.
func (s *script) note(lock *holdfast.Lock, err error) {
	s.t.Helper()
	if err != nil {
		s.outcomes = append(s.outcomes, outcome{Code: holdfast.CodeOf(err), Slot: -1})
		return
	}
	s.outcomes = append(s.outcomes, outcome{Slot: lock.Slot()})
	s.release(lock)
}

func (s *script) release(lock *holdfast.Lock) {
	s.t.Helper()
	if err := lock.Unlock(ctx); err != nil {
		s.t.Error(err)
	}
}

func (s *script) run(forceUnlock func(*holdfast.Lock)) []seen {
	acquired := must[*holdfast.Lock](s.t)
	watch := must[*holdfast.Watch](s.t)(s.first.Watch(holdfast.Prefix("s/")))
	defer watch.Close()
	testcluster.WaitUntil(s.t, "the watch begins", func() bool { return watch.LastID() != "" })
	noWait := holdfast.Wait(0)
	lock := acquired(s.first.Lock(ctx, "s/n", holdfast.LockDelay(time.Minute)))
	s.note(s.second.Lock(ctx, "s/n", noWait))
	s.note(s.second.Lock(ctx, "s/n", noWait, holdfast.Shared()))
	s.note(s.second.Semaphore(ctx, "s/n", 2, noWait))
	s.note(s.second.Campaign(ctx, "s/n", noWait))
	s.note(s.second.MultiLock(ctx, []string{"s/free", "s/n"}, noWait))
	s.note(s.second.Lock(ctx, "s/n", noWait, holdfast.InTier(holdfast.Efficiency)))
	s.note(s.second.Semaphore(ctx, "s/p", 2, holdfast.Permits(3), noWait))
	permit := acquired(s.first.Semaphore(ctx, "s/p", 2))
	s.note(s.second.Semaphore(ctx, "s/p", 2, noWait))
	s.note(s.second.Semaphore(ctx, "s/p", 3, noWait))
	s.note(s.second.Semaphore(ctx, "s/p", 2, holdfast.Permits(2), noWait))
	s.release(permit)
	both := acquired(s.first.MultiLock(ctx, []string{"s/x", "s/y"}))
	s.note(s.second.Lock(ctx, "s/y", noWait))
	s.release(both)
	leader := acquired(s.first.Campaign(ctx, "s/e", holdfast.Value("v1")))
	s.note(s.second.Campaign(ctx, "s/e", noWait))
	s.release(leader)
	reader, other := acquired(s.first.Lock(ctx, "s/r", holdfast.Shared())), acquired(s.second.Lock(ctx, "s/r", holdfast.Shared()))
	s.note(s.first.Lock(ctx, "s/r", noWait))
	s.release(reader)
	s.release(other)
	forceUnlock(lock)
	s.note(s.second.Lock(ctx, "s/n", noWait))
	testcluster.WaitUntil(s.t, "the loss is reported", func() bool { return lock.Check() != nil })
	s.note(nil, lock.Check())
	s.release(acquired(s.second.Lock(ctx, "s/last")))
	limited, cancel := context.WithTimeout(ctx, testcluster.Patience)
	defer cancel()
	var all []seen
	for {
		event := must[holdfast.Event](s.t)(watch.Next(limited))
		one := seen{}
		if err := json.Unmarshal(event.Data, &one); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, one)
		if one.Type == "released" && one.Name == "s/last" {
			return all
		}
	}
}

func TestTheFakeAnswersAndReportsAsTheServiceDoes(t *testing.T) {
	t.Parallel()
	cluster := holdfasttest.NewCluster()
	ofTheFake := &script{t: t, first: cluster.Client("first"), second: cluster.Client("second")}
	defer ofTheFake.first.Close()
	defer ofTheFake.second.Close()
	expected := ofTheFake.run(cluster.Lose)

	nodes := testcluster.Start(t, 1)
	open := func(id string) *holdfast.Client {
		client := must[*holdfast.Client](t)(holdfast.Open(holdfast.Options{Endpoints: nodes.Endpoints(), ClientID: id}))
		t.Cleanup(func() { client.Close() })
		return client
	}
	ofTheService := &script{t: t, first: open("first"), second: open("second")}
	real := ofTheService.run(func(*holdfast.Lock) { nodes.Leader(nil).ForceUnlock("s/n") })
	if !reflect.DeepEqual(ofTheFake.outcomes, ofTheService.outcomes) {
		t.Errorf("the fake: %v\nthe service: %v", ofTheFake.outcomes, ofTheService.outcomes)
	}
	if !reflect.DeepEqual(expected, real) {
		t.Errorf("the fake: %+v\nthe service: %+v", expected, real)
	}
}
