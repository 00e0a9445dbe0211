package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Acquire, renew, release, withdraw: the operations on locks (C4, C5).

// ended is the error of a call that its context ended.
func ended(what string, r *request, err error) error {
	return fmt.Errorf("holdfast: %s %s: %w", what, r.describe(), err)
}

func (e *engine) timeoutMS() int64 { return e.options.Timeout.Milliseconds() }

// --- acquire ---

func (e *engine) acquire(ctx context.Context, r *request) (*Lock, error) {
	s, err := e.needSession(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = ended("acquire", r, err)
		}
		return nil, err
	}
	operation, end := begin(ctx, e.clock)
	defer end()
	e.mutex.Lock()
	e.owners++
	body := r.acquireBody(s.id, fmt.Sprintf("h%d", e.owners), newID())
	ttl := r.ttl
	if ttl == 0 {
		ttl = s.life.ttl
	}
	callCtx, cancel := context.WithCancel(operation)
	defer cancel()
	w := &waiter{ttl: ttl, cancel: cancel}
	s.beginWait(w)
	if !s.isOpen {
		cancel()
	}
	e.mutex.Unlock()
	a, err := e.caller.call(callCtx, &call{method: "POST", path: r.path("acquire"), body: encode(body), timeoutMS: e.timeoutMS(), wait: r.wait})
	s.endWait(w)
	if err != nil {
		return nil, e.acquireFailed(ctx, s, r, body, a, err)
	}
	if !a.Acquired && !a.Elected {
		return nil, notAcquiredError(r.describe(), a.reply)
	}
	return e.granted(ctx, s, r, a, ttl)
}

// acquireFailed undoes what may have been done (C4.4).
func (e *engine) acquireFailed(ctx context.Context, s *session, r *request, body map[string]any, a answer, err error) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if isSessionGone(CodeOf(err)) {
		s.lose(codeExpired)
	}
	if !s.isOpen {
		if e.isClosed {
			return closedError()
		}
		return newError(ErrLockLost, "session_lost", "the session was lost while %s was requested", r.describe())
	}
	if a.sent != never && (ctx.Err() != nil || errors.Is(err, ErrOutcomeUnknown)) {
		e.operation(func(ctx context.Context) { e.withdraw(ctx, s, r, body) })
	}
	if ctx.Err() != nil {
		return ended("acquire", r, ctx.Err())
	}
	return err
}

func (e *engine) granted(ctx context.Context, s *session, r *request, a answer, ttl int64) (*Lock, error) {
	l := &Lock{engine: e, session: s, request: r, token: a.FencingToken, slot: a.Slot, epoch: a.LeaderEpoch,
		life: lockLife{known: life{a.sent, ttl}}, renewing: make(chan struct{}, 1)}
	l.renewing <- struct{}{}
	l.ctx, l.cancel = context.WithCancel(withoutDone{ctx})
	if r.maxHold != 0 {
		l.life.hold = life{a.sent + a.WaitedMS, r.maxHold}
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	now := e.clock.now()
	s.tick(now)
	if !s.isOpen {
		l.cancel()
		if e.isClosed {
			return nil, closedError()
		}
		return nil, newError(ErrLockLost, "session_lost", "the session was lost before %s was acquired", l.Name())
	}
	if now >= l.life.safeUntil(s.life) {
		l.cancel()
		e.operation(func(ctx context.Context) { e.releaseQuietly(ctx, l) })
		return nil, newError(ErrLockLost, whyUnknown, "the answer that granted %s arrived after its TTL", l.Name())
	}
	if r.tier == Efficiency && l.epoch < s.epoch {
		l.cancel()
		return nil, lostError(l.Name(), "epoch")
	}
	s.add(l)
	return l, nil
}

// withdraw until it is answered or the session has ended (C5.2). A grant that came first is released.
func (e *engine) withdraw(ctx context.Context, s *session, r *request, body map[string]any) {
	body["cancel"] = true
	if _, _, err := e.untilAnswered(ctx, s, r.path("acquire"), body); err != nil {
		e.logf("the wait for %s was not withdrawn: %v", r.describe(), err)
	}
}

// untilAnswered: false if the session ended first, and with it what the request was about.
func (e *engine) untilAnswered(ctx context.Context, s *session, path string, body map[string]any) (answer, bool, error) {
	data := encode(body)
	isLost := func() bool {
		e.mutex.Lock()
		defer e.mutex.Unlock()
		s.tick(e.clock.now())
		return !s.isOpen
	}
	for ctx.Err() == nil && !isLost() {
		a, err := e.caller.call(ctx, &call{method: "POST", path: path, body: data, timeoutMS: e.timeoutMS(), patient: true, givenUp: isLost})
		if isSessionGone(CodeOf(err)) {
			e.loseSession(s)
			break
		}
		if errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrLimitReached) {
			continue
		}
		return a, true, err
	}
	return answer{}, false, nil
}

func (e *engine) loseSession(s *session) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	s.lose(codeExpired)
}

func (e *engine) logf(format string, arguments ...any) {
	if e.options.Logf != nil {
		e.options.Logf("holdfast: "+format, arguments...)
	}
}

// --- release ---

func (e *engine) unlock(ctx context.Context, l *Lock) error {
	done := make(chan error, 1)
	e.mutex.Lock()
	if l.state == released {
		e.mutex.Unlock()
		return nil
	}
	if err := l.standing(); err != nil {
		e.mutex.Unlock()
		return err
	}
	l.state = released // from here nothing renews it (C5.5)
	delete(l.session.held, l.token)
	l.cancel()
	e.operation(func(ctx context.Context) { done <- e.release(ctx, l) })
	e.mutex.Unlock()
	limited, cancel := withTimeout(ctx, e.clock, e.options.Timeout)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-limited.Done():
	}
	select {
	case err := <-done: // both were ready
		return err
	default:
	}
	return newError(ErrOutcomeUnknown, "outcome_unknown", "the release of %s is not answered yet; it is repeated in the background", l.Name())
}

func (e *engine) release(ctx context.Context, l *Lock) error {
	body := l.request.tokenBody(l.session.id, l.token)
	body["request_id"] = newID()
	a, answered, err := e.untilAnswered(ctx, l.session, l.request.path("release"), body)
	if err != nil || !answered {
		return err
	}
	if a.Reason == "expired" || a.Reason == "not_owner" {
		why := a.Ended
		if why == "" {
			why = a.Reason
		}
		return lostError(l.Name(), why)
	}
	return nil
}

func (e *engine) releaseQuietly(ctx context.Context, l *Lock) {
	if err := e.release(ctx, l); err != nil && !errors.Is(err, ErrLockLost) {
		e.logf("%s was not released: %v", l.Name(), err)
	}
}

// --- renew ---

func (e *engine) renew(ctx context.Context, l *Lock, ttl time.Duration) error {
	ttlMS, err := milliseconds(ttl, "ttl", minTTL)
	if err != nil {
		return err
	}
	select {
	case <-l.renewing:
		defer func() { l.renewing <- struct{}{} }()
	case <-ctx.Done():
		return ended("renew", l.request, ctx.Err())
	}
	operation, end := begin(ctx, e.clock)
	defer end()
	callCtx, cancel := context.WithCancel(operation)
	defer cancel()
	w := &waiter{cancel: cancel}
	e.mutex.Lock()
	l.session.beginWait(w)
	e.mutex.Unlock()
	defer l.session.endWait(w)
	until := e.clock.now() + e.timeoutMS()
	pause := int64(retryMS)
	var avoid *node
	for e.clock.now() < until && ctx.Err() == nil {
		n := e.caller.nodes.pick(e.clock.now(), avoid)
		isDone, err := e.renewAt(callCtx, n, l, ttlMS)
		if isDone {
			return err
		}
		avoid = n
		sleep(callCtx, e.clock, duration(jitter(pause)))
		pause = earlier(pause*2, retryMaxMS)
	}
	if err := l.Check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ended("renew", l.request, ctx.Err())
	}
	return newError(ErrOutcomeUnknown, "outcome_unknown", "the renewal of %s was not answered: %s", l.Name(), e.caller.nodes.describe())
}

// renewAt is one attempt, which is a new message (C1.6). False: try again elsewhere.
func (e *engine) renewAt(ctx context.Context, n *node, l *Lock, ttl int64) (bool, error) {
	s := l.session
	e.mutex.Lock()
	if err := l.standing(); err != nil || n == nil {
		e.mutex.Unlock()
		return err != nil, err
	}
	body := l.request.tokenBody(s.id, l.token)
	body["ttl_ms"] = ttl
	l.life = l.life.renewalSent(ttl, e.clock.now())
	s.mayHurry(l.life.shortestTTL(), l.life.jeopardyAt(s.life))
	e.mutex.Unlock()
	status, r, failed := e.caller.attempt(ctx, n, &call{method: "POST", path: l.request.path("renew"), body: encode(body)}, attemptFor)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	err := l.standing() // what is overdue is lost before the answer counts (C2.3)
	if failed == nil && s.isOpen {
		s.sawEpoch(r.LeaderEpoch)
		err = l.standing()
	}
	switch {
	case failed != nil && !failed.sent:
		l.life = l.life.renewalRefused()
	case failed != nil || status == http.StatusGatewayTimeout:
		l.life = l.life.renewalUnanswered()
	case status == http.StatusOK && r.Renewed:
		l.life = l.life.renewalApplied()
		s.mayHurry(l.life.shortestTTL(), l.life.jeopardyAt(s.life))
		return true, err
	default:
		l.life = l.life.renewalRefused()
		return e.renewRefused(l, status, r)
	}
	return err != nil, err
}

func (e *engine) renewRefused(l *Lock, status int, r *reply) (bool, error) {
	switch {
	case status == http.StatusServiceUnavailable:
	case isSessionGone(r.errorCode()):
		l.session.lose(codeExpired)
	case status != http.StatusOK:
		return true, refusedError(status, r)
	case l.state == held:
		why := r.Ended
		if why == "" {
			why = "expired"
		}
		l.session.loseLock(l, why)
	}
	err := l.standing()
	return err != nil, err
}
