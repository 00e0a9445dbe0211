package holdfast

// How long a lock or session is certainly held: the arithmetic of S5 (docs/CLIENTS.md, C1). Times are arguments, in ms of
// one clock. The same rules as src/client/deadline.h.

const (
	never    = int64(1) << 62
	marginMS = 5
	rate     = 1000 // clocks of two machines differ by at most 1/rate
)

func earlier(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func later(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// life of a session or lock. A life with the TTL 0 does not exist.
type life struct {
	confirmed int64 // sending of the last confirmed message
	ttl       int64
}

func (l life) safeUntil() int64 {
	drift := (l.ttl + rate - 1) / rate
	return l.confirmed + l.ttl - drift - marginMS
}

func (l life) jeopardyAt() int64 { return l.safeUntil() - l.ttl/3 }

// confirm: an older confirmation changes nothing.
func (l life) confirm(sent int64) life {
	l.confirmed = later(l.confirmed, sent)
	return l
}

// lockLife has the deadlines that a lock may have at the service while renewals that set a TTL are unanswered (C1.7).
type lockLife struct {
	known      life // newest answer
	inFlight   life // the renewal that may still be answered
	unanswered life // earlier ones: earliest sending, shortest TTL
	hold       life // max_hold as the TTL; nothing confirms it
}

// soonest is the earliest moment over all lives that the service may apply, and that of the session.
func (l lockLife) soonest(session life, moment func(life) int64) int64 {
	at := moment(session)
	for _, own := range []life{l.known, l.inFlight, l.unanswered} {
		if own.ttl != 0 {
			at = earlier(at, moment(own.confirm(session.confirmed)))
		}
	}
	return at
}

func (l lockLife) safeUntil(session life) int64 {
	at := l.soonest(session, life.safeUntil)
	if l.hold.ttl != 0 {
		at = earlier(at, l.hold.safeUntil())
	}
	return at
}

func (l lockLife) jeopardyAt(session life) int64 {
	at := l.soonest(session, life.jeopardyAt)
	if l.hold.ttl != 0 {
		at = earlier(at, l.hold.safeUntil()-l.known.ttl/2)
	}
	return at
}

// endsByHold: max_hold, and not a missing confirmation, is what ends it.
func (l lockLife) endsByHold(session life) bool {
	return l.hold.ttl != 0 && l.safeUntil(session) == l.hold.safeUntil()
}

// shortestTTL that the service may apply.
func (l lockLife) shortestTTL() int64 {
	ttl := l.known.ttl
	for _, other := range []life{l.inFlight, l.unanswered} {
		if other.ttl != 0 {
			ttl = earlier(ttl, other.ttl)
		}
	}
	return ttl
}

// confirm counts for whichever TTL the service has.
func (l lockLife) confirm(sent int64) lockLife {
	l.known = l.known.confirm(sent)
	l.inFlight = l.inFlight.confirm(sent)
	l.unanswered = l.unanswered.confirm(sent)
	return l
}

func (l lockLife) renewalSent(ttl, sent int64) lockLife {
	l.inFlight = life{sent, ttl}
	return l
}

func (l lockLife) renewalApplied() lockLife {
	sent := l.inFlight
	l.inFlight = life{}
	l.known.ttl = sent.ttl
	return l.confirm(sent.confirmed)
}

func (l lockLife) renewalRefused() lockLife {
	l.inFlight = life{}
	return l
}

// renewalUnanswered: it may be applied at any later time.
func (l lockLife) renewalUnanswered() lockLife {
	sent := l.inFlight
	l.inFlight = life{}
	if l.unanswered.ttl == 0 {
		l.unanswered = sent
	} else {
		l.unanswered.ttl = earlier(l.unanswered.ttl, sent.ttl)
		l.unanswered.confirmed = earlier(l.unanswered.confirmed, sent.confirmed)
	}
	return l
}
