package holdfast

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// The session of a client: opened with the first lock, kept alive, lost by the clock (C2, C3).

const (
	earlyLosses  = 64 // losses that are remembered for grants whose answer was not read yet
	lookEvery    = time.Second
	minKeepAlive = 500 * time.Millisecond // an attempt of a keep-alive
	whyUnknown   = "unconfirmed"
	codeExpired  = "session_expired"
	codeNotFound = "session_not_found"
	eventLost    = "lost"
	eventRevoke  = "revoke_requested"
	eventEpoch   = "epoch"
	eventReady   = "ready"
	eventReset   = "reset"
	eventDropped = "dropped"
	eventExpired = "session_expired"
	eventClosed  = "session_closed"

	codeUnknownField = "field_unknown"
	whyNotListed     = "unknown"              // a keep-alive found that it has ended, and its renewal did not report the reason
	reasonFor        = 500 * time.Millisecond // for how long renewals are sent that find reasons, and how long one may take
)

func isSessionGone(code string) bool { return code == codeExpired || code == codeNotFound }

// waiter is a call of the application that ends when the session is lost.
type waiter struct {
	ttl    int64 // that it may get at any moment; 0: none
	cancel context.CancelFunc
}

// session: after its loss it is not opened again. Its fields belong to the mutex of the engine.
type session struct {
	engine  *engine
	id      string
	life    life
	isOpen  bool
	epoch   int64
	held    map[int64]*Lock // by token
	waiting map[*waiter]bool
	early   map[int64]string // losses by token
	oldest  []int64          // of early
	every   int64            // interval of keep-alives that the service requests
	sent    int64            // sending of the last confirmed keep-alive; 0: the next one is due
	// The next keep-alive has no tokens to compare.
	mayNotCheck      bool
	isFindingReasons bool // of what was not listed
	// What the two loops sleep for; a change that is sooner wakes them.
	shortest int64
	nextLook int64

	ctx          context.Context // of its loops
	cancel       context.CancelFunc
	wakeAlive    chan struct{}
	wakeDeadline chan struct{}
}

func newSession(e *engine) *session {
	return &session{
		engine: e, held: map[int64]*Lock{}, waiting: map[*waiter]bool{}, early: map[int64]string{},
		wakeAlive: make(chan struct{}, 1), wakeDeadline: make(chan struct{}, 1),
	}
}

func (s *session) open(ctx context.Context) error {
	o := &s.engine.options
	ttl := o.SessionTTL.Milliseconds()
	body := encode(map[string]any{"client_id": o.ClientID, "ttl_ms": ttl, "request_id": newID()})
	a, err := s.engine.caller.call(ctx, &call{method: "POST", path: "/api/v1/sessions", body: body,
		timeoutMS: earlier(o.Timeout.Milliseconds(), ttl/2)})
	if err != nil {
		return err
	}
	if a.SessionID == "" {
		return newError(ErrService, "protocol", "the answer to the opening of a session has no session")
	}
	if a.TTLMS != 0 {
		ttl = a.TTLMS
	}
	s.id, s.life, s.epoch, s.sent = a.SessionID, life{a.sent, ttl}, a.LeaderEpoch, a.sent
	s.every = a.KeepaliveMS
	if s.every <= 0 {
		s.every = ttl / 3
	}
	s.shortest = ttl
	return nil
}

// begin starts its loops. Needs the mutex, as all that follows unless it says otherwise.
func (s *session) begin() {
	s.isOpen = true
	s.ctx, s.cancel = context.WithCancel(s.engine.ctx)
	if s.engine.manual {
		return
	}
	s.engine.background(func(context.Context) { s.keepAlive() })
	s.engine.background(func(context.Context) { s.watchDeadlines() })
	s.engine.background(func(context.Context) { s.listen() })
}

// --- what it holds ---

func wake(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// mayHurry wakes the loops if a TTL or deadline is sooner than what they sleep for.
func (s *session) mayHurry(ttl, look int64) {
	if ttl < s.shortest {
		wake(s.wakeAlive)
	}
	if look < s.nextLook {
		wake(s.wakeDeadline)
	}
}

func (s *session) add(l *Lock) {
	s.held[l.token] = l
	if why, ok := s.early[l.token]; ok {
		s.loseLock(l, why)
		return
	}
	s.mayHurry(l.life.shortestTTL(), l.life.jeopardyAt(s.life))
}

func (s *session) beginWait(w *waiter) {
	s.waiting[w] = true
	if w.ttl != 0 {
		s.mayHurry(w.ttl, never)
	}
}

// endWait needs no mutex.
func (s *session) endWait(w *waiter) {
	s.engine.mutex.Lock()
	defer s.engine.mutex.Unlock()
	delete(s.waiting, w)
}

func (s *session) lose(why string) {
	if !s.isOpen {
		return
	}
	s.isOpen = false
	s.cancel()
	for _, l := range s.held {
		l.lose(why)
	}
	s.held = map[int64]*Lock{}
	for w := range s.waiting {
		w.cancel()
	}
}

func (s *session) loseLock(l *Lock, why string) {
	delete(s.held, l.token)
	l.lose(why)
}

// loseOverdue: the clock has passed its end. The service may still have it, and the session would keep it alive (C2.6).
func (s *session) loseOverdue(l *Lock) {
	why := whyUnknown
	if l.life.endsByHold(s.life) {
		why = "max_hold"
	}
	s.loseLock(l, why)
	s.engine.operation(func(ctx context.Context) { s.engine.releaseQuietly(ctx, l) })
}

// tick declares lost what is overdue (C2.3), and reports jeopardy. It returns the next moment to look.
func (s *session) tick(now int64) int64 {
	if !s.isOpen {
		return never
	}
	if now >= s.life.safeUntil() {
		s.lose(whyUnknown)
		return never
	}
	next := s.life.safeUntil()
	for _, l := range s.held {
		ends, jeopardy := l.life.safeUntil(s.life), l.life.jeopardyAt(s.life)
		switch {
		case now >= ends:
			s.loseOverdue(l)
			continue
		case now >= jeopardy:
			l.reportJeopardy(true)
			next = earlier(next, ends)
		default:
			l.reportJeopardy(false)
			next = earlier(next, jeopardy)
		}
	}
	return next
}

// confirm: a keep-alive that was sent then was answered.
func (s *session) confirm(sent int64) {
	s.sent = later(s.sent, sent)
	s.life = s.life.confirm(sent)
	for _, l := range s.held {
		if l.inJeopardy {
			wake(s.wakeDeadline)
			return
		}
	}
}

// sawEpoch: with a new leader, all locks of the tier EFFICIENCY are lost (S10.2).
func (s *session) sawEpoch(epoch int64) {
	if epoch <= s.epoch {
		return
	}
	s.epoch = epoch
	for _, l := range s.held {
		if l.request.tier == Efficiency && l.epoch < epoch {
			s.loseLock(l, "epoch")
		}
	}
}

// --- its loops, which need no mutex ---

// pause until then, or until a wake. Timers stop in suspend, so it looks once a second.
func (s *session) pause(channel chan struct{}, until int64) {
	d := duration(until - s.engine.clock.now())
	if d > lookEvery {
		d = lookEvery
	}
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-channel:
	case <-s.ctx.Done():
	}
}

func (s *session) watchDeadlines() {
	e := s.engine
	for s.ctx.Err() == nil {
		e.mutex.Lock()
		next := s.tick(e.clock.now())
		s.nextLook = next
		e.mutex.Unlock()
		s.pause(s.wakeDeadline, next)
	}
}

// nextKeepAlive is the shortest TTL of its locks and waits, and when to send (C3.1).
func (s *session) nextKeepAlive() (ttl, due int64) {
	e := s.engine
	e.mutex.Lock()
	defer e.mutex.Unlock()
	shortest := s.life.ttl
	for _, l := range s.held {
		shortest = earlier(shortest, l.life.shortestTTL())
	}
	for w := range s.waiting {
		if w.ttl != 0 {
			shortest = earlier(shortest, w.ttl)
		}
	}
	s.shortest = shortest
	return shortest, s.sent + earlier(s.every, shortest/3)
}

func (s *session) keepAlive() {
	e := s.engine
	pause := int64(retryMS)
	var avoid *node
	for s.ctx.Err() == nil {
		ttl, due := s.nextKeepAlive()
		if e.clock.now() < due {
			s.pause(s.wakeAlive, due)
			continue
		}
		n := e.caller.nodes.pick(e.clock.now(), avoid)
		if n != nil && s.keepAliveAt(n, ttl) {
			avoid, pause = nil, retryMS
			continue
		}
		if n != nil {
			avoid = n
		}
		sleep(s.ctx, s.engine.clock, duration(jitter(pause)))
		pause = earlier(pause*2, later(retryMS, earlier(retryMaxMS, ttl/20)))
	}
}

// keepAliveAt is one keep-alive, with the tokens that are held now (C3.6); more if the list of locks has several pages. Each
// message is new and counts from its own sending (C1.6).
func (s *session) keepAliveAt(n *node, ttl int64) bool {
	timeout := duration(ttl / 6)
	if timeout < minKeepAlive {
		timeout = minKeepAlive
	} else if timeout > attemptFor {
		timeout = attemptFor
	}
	believed, body := s.believed()
	listed := map[int64]bool{}
	cursor, isConfirmed := "", false
	for {
		page, ok := s.keepAliveOnce(n, cursor, body, timeout)
		isConfirmed = isConfirmed || ok
		if !ok || page.Locks == nil {
			return isConfirmed
		}
		for _, row := range page.Locks {
			listed[row.Token] = true
		}
		if page.NextCursor == "" {
			s.compare(n, believed, listed)
			return true
		}
		cursor = "?cursor=" + page.NextCursor
	}
}

// believed are the locks that are held now, and the body of a keep-alive with their tokens.
func (s *session) believed() ([]*Lock, []byte) {
	s.engine.mutex.Lock()
	defer s.engine.mutex.Unlock()
	if s.mayNotCheck { // after a refusal by a node of an earlier version (C3.9)
		s.mayNotCheck = false
		return nil, nil
	}
	all := make([]*Lock, 0, len(s.held))
	xor := int64(0)
	for token, l := range s.held {
		all = append(all, l)
		xor ^= token
	}
	return all, encode(map[string]any{"lock_count": len(all), "lock_xor": xor})
}

func (s *session) keepAliveOnce(n *node, cursor string, body []byte, timeout time.Duration) (*reply, bool) {
	e := s.engine
	sent := e.clock.now()
	status, answered, err := e.caller.attempt(s.ctx, n,
		&call{method: "POST", path: "/api/v1/sessions/" + s.id + "/keepalive" + cursor, body: body}, timeout)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	s.tick(e.clock.now())
	if !s.isOpen || err != nil {
		return answered, false
	}
	if status != http.StatusOK {
		if isSessionGone(answered.errorCode()) {
			s.lose(codeExpired)
		}
		s.mayNotCheck = answered.errorCode() == codeUnknownField
		return answered, false
	}
	s.confirm(sent)
	s.sawEpoch(answered.LeaderEpoch)
	return answered, true
}

// compare: what was held at the sending, is not listed, and is not being released, has ended (C3.7).
func (s *session) compare(n *node, believed []*Lock, listed map[int64]bool) {
	s.engine.mutex.Lock()
	defer s.engine.mutex.Unlock()
	var gone []*Lock
	for _, l := range believed {
		if !listed[l.token] && s.holds(l) {
			gone = append(gone, l)
		}
	}
	if len(gone) == 0 || s.isFindingReasons { // then the next keep-alive finds it
		return
	}
	s.isFindingReasons = true
	if s.engine.manual {
		s.engine.mutex.Unlock()
		s.loseAll(n, gone)
		s.engine.mutex.Lock()
	} else {
		s.engine.background(func(context.Context) { s.loseAll(n, gone) })
	}
}

// holds needs the mutex.
func (s *session) holds(l *Lock) bool { return s.held[l.token] == l && l.state == held }

// loseAll loses each with the reason that its renewal reports, or `unknown` after reasonFor.
func (s *session) loseAll(n *node, gone []*Lock) {
	e := s.engine
	until := e.clock.now() + reasonFor.Milliseconds()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	answers := true
	for _, l := range gone {
		why := whyNotListed
		if answers && s.holds(l) && e.clock.now() < until {
			e.mutex.Unlock()
			status, r, failed := e.caller.attempt(s.ctx, n, &call{method: "POST", path: l.request.path("renew"),
				body: encode(l.request.tokenBody(s.id, l.token))}, reasonFor)
			e.mutex.Lock()
			answers = failed == nil
			if answers {
				why = s.reasonOf(status, r)
			}
		}
		if why != "" && s.holds(l) {
			s.loseLock(l, why)
		}
	}
	s.isFindingReasons = false
}

// reasonOf the answer to a renewal; empty: the service has the lock.
func (s *session) reasonOf(status int, r *reply) string {
	s.tick(s.engine.clock.now())
	if isSessionGone(r.errorCode()) {
		s.lose(codeExpired)
	}
	if status != http.StatusOK {
		return whyNotListed
	}
	s.sawEpoch(r.LeaderEpoch)
	if r.Renewed || r.Ended != "" {
		return r.Ended
	}
	return whyNotListed
}

// listen follows the stream of the session: losses that the service reports, revocations (C2.5).
func (s *session) listen() {
	stream := newEventStream(s.engine, "/api/v1/sessions/"+s.id+"/events", "")
	for s.ctx.Err() == nil {
		// A refusal: a node that does not know the session yet, or the session has gone, which a keep-alive finds out.
		_ = stream.follow(s.ctx, func(event Event) bool {
			s.sawEvent(event)
			return true
		})
		sleep(s.ctx, s.engine.clock, duration(retryMaxMS))
	}
}

type sessionEvent struct {
	Token  int64     `json:"fencing_token"`
	Ended  string    `json:"ended"`
	Actor  string    `json:"actor_id"`
	Reason string    `json:"text"`
	At     time.Time `json:"revoked_at"`
	Epoch  int64     `json:"leader_epoch"`
}

func (s *session) sawEvent(event Event) {
	var data sessionEvent
	if json.Unmarshal(event.Data, &data) != nil {
		return
	}
	e := s.engine
	e.mutex.Lock()
	defer e.mutex.Unlock()
	s.tick(e.clock.now())
	if !s.isOpen {
		return
	}
	switch event.Type {
	case eventReady: // a keep-alive at once finds what no stream reported (C3.8)
		s.sent = 0
		wake(s.wakeAlive)
	case eventLost:
		s.reportedLost(data.Token, data.Ended)
	case eventRevoke:
		if l := s.held[data.Token]; l != nil {
			l.reportRevocation(Revocation{Actor: data.Actor, Reason: data.Reason, At: data.At})
		}
	case eventEpoch:
		s.sawEpoch(data.Epoch)
	case eventExpired, eventClosed:
		s.lose(event.Type)
	}
}

func (s *session) reportedLost(token int64, why string) {
	if why == "" {
		why = "lost"
	}
	if l := s.held[token]; l != nil {
		s.loseLock(l, why)
		return
	}
	if len(s.oldest) >= earlyLosses {
		delete(s.early, s.oldest[0])
		s.oldest = s.oldest[1:]
	}
	s.early[token] = why
	s.oldest = append(s.oldest, token)
}
