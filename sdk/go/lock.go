package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type lockState int

const (
	held lockState = iota
	lost
	released
)

// Lock is a lock that was granted. It has the token (C5.6), and may be used by any goroutine.
type Lock struct {
	engine   *engine
	session  *session
	request  *request
	token    int64
	slot     *int
	epoch    int64
	renewing chan struct{} // has one element while no renewal is in flight (C1.7)
	ctx      context.Context
	cancel   context.CancelFunc

	// Of the mutex of the engine.
	life       lockLife
	state      lockState
	why        string
	inJeopardy bool // as reported to the application
}

// withoutDone has the values of a context, and neither its end nor its deadline: the work under a lock may take longer
// than the time that was allowed for acquiring it.
type withoutDone struct{ values context.Context }

func (withoutDone) Deadline() (time.Time, bool) { return time.Time{}, false }
func (withoutDone) Done() <-chan struct{}       { return nil }
func (withoutDone) Err() error                  { return nil }
func (w withoutDone) Value(key any) any         { return w.values.Value(key) }

// Name is the name of the lock; of a multi-lock, all names.
func (l *Lock) Name() string { return l.request.describe() }

// FenceToken belongs into every write; the resource refuses lower tokens. It stays readable after a loss (C2.8). Of an
// election it is the epoch.
func (l *Lock) FenceToken() int64 { return l.token }

// Slot of a semaphore, to fence with (resource, slot); -1 of other locks.
func (l *Lock) Slot() int {
	if l.slot == nil {
		return -1
	}
	return *l.slot
}

// Context has the values of the context of the acquire. It is cancelled when the lock is lost or released; then Err
// returns the reason.
func (l *Lock) Context() context.Context { return l.ctx }

// Check returns nil if the lock is certainly held at this moment, by the clock; otherwise an ErrLockLost or ErrNotHeld. Call
// it directly before a side effect (C2.2).
func (l *Lock) Check() error {
	l.engine.mutex.Lock()
	defer l.engine.mutex.Unlock()
	return l.standing()
}

// Err is the reason why Context ended: an ErrLockLost or ErrNotHeld, and nil while the lock is held.
func (l *Lock) Err() error { return l.Check() }

// standing needs the mutex. It declares the loss of what is overdue, so that nothing revives it (C2.4).
func (l *Lock) standing() error {
	s := l.session
	if l.state == held && s.isOpen {
		now := l.engine.clock.now()
		if now >= s.life.safeUntil() {
			s.lose(whyUnknown)
		} else if now >= l.life.safeUntil(s.life) {
			s.loseOverdue(l)
		}
	}
	switch l.state {
	case released:
		return newError(ErrNotHeld, "released", "%s was released", l.Name())
	case lost:
		return lostError(l.Name(), l.why)
	}
	return nil
}

// String has the name and the state. What a program prints by accident has no token and no id (C7.2).
func (l *Lock) String() string {
	state := "held"
	if err := l.Check(); errors.Is(err, ErrLockLost) {
		state = "lost"
	} else if err != nil {
		state = "released"
	}
	return fmt.Sprintf("Lock %q (%s)", l.Name(), state)
}

// GoString is String, for %#v.
func (l *Lock) GoString() string { return l.String() }

// SafeFor is the time for which the lock is certainly held if nothing is confirmed meanwhile; 0 if it is not.
func (l *Lock) SafeFor() time.Duration {
	l.engine.mutex.Lock()
	defer l.engine.mutex.Unlock()
	if l.standing() != nil {
		return 0
	}
	return duration(later(l.life.safeUntil(l.session.life)-l.engine.clock.now(), 0))
}

// InJeopardy: at most a third of the TTL is left, or the lock is not held.
func (l *Lock) InJeopardy() bool {
	l.engine.mutex.Lock()
	defer l.engine.mutex.Unlock()
	return l.standing() != nil || l.engine.clock.now() >= l.life.jeopardyAt(l.session.life)
}

// Unlock releases the lock. It is idempotent, and returns an ErrLockLost if the lock was lost before. From its call the lock is
// not held for this client. If ctx ends first, or no node answers in time, it returns an ErrOutcomeUnknown and the release
// is repeated in the background (C5.4).
func (l *Lock) Unlock(ctx context.Context) error { return l.engine.unlock(ctx, l) }

// Renew sets the TTL. The client keeps the lock alive by itself; this only changes how long the lock outlives its holder.
func (l *Lock) Renew(ctx context.Context, ttl time.Duration) error {
	return l.engine.renew(ctx, l, ttl)
}

// lose is final (C2.4). Needs the mutex, as what follows.
func (l *Lock) lose(why string) {
	if l.state != held {
		return
	}
	l.state, l.why = lost, why
	l.cancel()
	l.report(l.request.onLost)
}

func (l *Lock) reportJeopardy(begins bool) {
	if l.inJeopardy == begins || l.state != held {
		return
	}
	l.inJeopardy = begins
	if begins {
		l.report(l.request.onJeopardy)
	} else {
		l.report(l.request.onSafe)
	}
}

func (l *Lock) report(callback func(*Lock)) {
	if callback != nil {
		l.engine.callbacks.add(func() { callback(l) })
	}
}

func (l *Lock) reportRevocation(r Revocation) {
	if callback := l.request.onRevoke; callback != nil {
		l.engine.callbacks.add(func() { callback(l, r) })
	}
}
