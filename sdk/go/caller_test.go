package holdfast

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// stepClock moves with each look.
type stepClock struct {
	mutex    sync.Mutex
	ms, step int64
}

func (c *stepClock) now() int64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.ms += c.step
	return c.ms
}

type sending struct {
	node *node
	body string
	at   int64
}

type attempted struct {
	status int
	code   string // of an error
	failed *attemptError
}

var (
	answeredOK = attempted{status: 200}
	refused    = attempted{failed: &attemptError{false, "refused"}}
	broken     = attempted{failed: &attemptError{true, "gone"}}
)

// scripted is a caller whose attempts are answered from a list; after its end, connections are refused.
type scripted struct {
	*caller
	clock   *stepClock
	answers []attempted
	sent    []sending
	closed  int
}

func newScripted(t *testing.T, step int64, answers ...attempted) *scripted {
	s := &scripted{clock: &stepClock{ms: 1000, step: step}, answers: answers}
	s.caller = newCaller(s.clock, testNodes(t, "a:1", "b:1"), &transport{})
	s.closeIdle = func(*node) { s.closed++ }
	s.do = func(_ context.Context, n *node, _, _ string, body []byte) (int, *reply, *attemptError) {
		s.sent = append(s.sent, sending{n, string(body), s.clock.ms})
		next := refused
		if len(s.answers) > 0 {
			next, s.answers = s.answers[0], s.answers[1:]
		}
		r := &reply{Acquired: next.status == 200}
		if next.code != "" {
			r.Error = &struct {
				Code         string `json:"code"`
				Message      string `json:"message"`
				RetryAfterMS int64  `json:"retry_after_ms"`
			}{Code: next.code}
		}
		return next.status, r, next.failed
	}
	return s
}

func (s *scripted) run() (answer, error) {
	return s.call(context.Background(), &call{method: "POST", path: "/x", body: []byte("r"), timeoutMS: 400})
}

func TestARetryGoesElsewhereWithTheSameBytes(t *testing.T) {
	s := newScripted(t, 10, broken, attempted{status: 503}, answeredOK)
	a, err := s.run()
	if err != nil || !a.Acquired || len(s.sent) != 3 {
		t.Fatalf("%v, %d sendings", err, len(s.sent))
	}
	if s.sent[0].node == s.sent[1].node {
		t.Error("a retry went to the node that had failed")
	}
	for _, one := range s.sent {
		expect(t, "body", one.body, "r")
	}
	expect(t, "connections of the failed node were closed", s.closed, 1)
}

func TestTheFirstSendingThatMayHaveBeenDoneCounts(t *testing.T) {
	s := newScripted(t, 10, refused, attempted{status: 503}, broken, attempted{status: 504}, answeredOK)
	a, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if a.sent <= s.sent[1].at || a.sent > s.sent[2].at {
		t.Errorf("it counts from %d; sendings: %v", a.sent, s.sent)
	}
}

func TestOtherErrorsAreFinalAndKeepTheirCode(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		kind   error
	}{{403, "denied", ErrDenied}, {409, "wrong_tier", ErrService}, {400, "invalid_name", ErrInvalid}, {429, "quota_exceeded", ErrLimitReached}} {
		s := newScripted(t, 1, attempted{status: c.status, code: c.code})
		_, err := s.run()
		if !errors.Is(err, c.kind) || CodeOf(err) != c.code || len(s.sent) != 1 {
			t.Errorf("%d: %v, %d sendings", c.status, err, len(s.sent))
		}
	}
}

func TestNothingWasDoneOrTheOutcomeIsUnknown(t *testing.T) {
	_, err := newScripted(t, 50).run()
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	_, err = newScripted(t, 50, broken).run()
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Error(err)
	}
}

func TestOpenCircuitsFailAtOnceWithTheReasons(t *testing.T) {
	s := newScripted(t, 1)
	for _, n := range s.nodes.all {
		failTimes(s.nodes, n, 3)
		n.notBefore = never
	}
	_, err := s.run()
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "a:1 (refused)") || len(s.sent) != 0 {
		t.Errorf("%v, %d sendings", err, len(s.sent))
	}
}

func TestAPatientCallContinuesWhileAllCircuitsAreOpen(t *testing.T) {
	s := newScripted(t, 50, answeredOK)
	for _, n := range s.nodes.all {
		failTimes(s.nodes, n, 3)
		n.notBefore = s.clock.ms + 120
	}
	if _, err := s.call(context.Background(), &call{timeoutMS: 10000, patient: true}); err != nil {
		t.Error(err)
	}
}

func TestAWaitEndsWhenItsNodeFailsForAnotherRequest(t *testing.T) {
	s := newScripted(t, 1)
	begun := make(chan *node, 2)
	first := true
	s.do = func(ctx context.Context, n *node, _, _ string, _ []byte) (int, *reply, *attemptError) {
		begun <- n
		if first {
			first = false
			<-ctx.Done()
			return 0, nil, &attemptError{true, "its connection was closed"}
		}
		return 200, &reply{Acquired: true}, nil
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.call(context.Background(), &call{timeoutMS: 1 << 40, wait: waitForever})
		done <- err
	}()
	node := <-begun
	s.failed(node, "no answer in time")
	if err := <-done; err != nil {
		t.Error(err)
	}
	expect(t, "elsewhere", <-begun != node, true)
}

func TestACallEndsWithItsContext(t *testing.T) {
	s := newScripted(t, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.call(ctx, &call{timeoutMS: 1000, patient: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
