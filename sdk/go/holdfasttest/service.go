package holdfasttest

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"
)

// The service of the fake: sessions, queues and grants in memory. Times are arguments, in ms. The cluster serialises all
// calls.

const (
	never      = int64(1) << 62
	tokenSteps = 1024 // between two grants (S3.1)
	efficiency = "EFFICIENCY"
)

// unclean ends are followed by the lock-delay (S6.5).
var unclean = map[string]bool{"expired": true, "session_expired": true, "forced": true, "revoked": true, "max_hold": true}

type object = map[string]any

func wall(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(id[:])
}

type session struct {
	id        string
	clientID  string
	ttl       int64
	confirmed int64
	done      map[string]object // outcome by request_id
	ended     map[int64]string  // how the grant of a token ended
}

func (s *session) ends() int64 { return s.confirmed + s.ttl }

// body has the fields of all requests.
type body struct {
	ClientID    string          `json:"client_id"`
	SessionID   string          `json:"session_id"`
	RequestID   string          `json:"request_id"`
	Owner       string          `json:"owner"`
	Names       []string        `json:"names"`
	Mode        string          `json:"mode"`
	Limit       int             `json:"limit"`
	Permits     int             `json:"permits"`
	Tier        string          `json:"tier"`
	Metadata    json.RawMessage `json:"metadata"`
	Value       string          `json:"value"`
	TTLMS       int64           `json:"ttl_ms"`
	WaitMS      int64           `json:"wait_timeout_ms"`
	LockDelayMS int64           `json:"lock_delay_ms"`
	MaxHoldMS   int64           `json:"max_hold_ms"`
	Cancel      bool            `json:"cancel"`
	Token       int64           `json:"fencing_token"`
	LockCount   *int            `json:"lock_count"`
	LockXOR     int64           `json:"lock_xor"`
}

// request waits, then it holds.
type request struct {
	body
	session *session
	names   []string
	since   int64
	until   int64
	answer  func(status int, value object)
}

func newRequest(s *session, kind string, names []string, b body, answer func(int, object), now int64) *request {
	r := &request{body: b, session: s, names: names, since: now, until: never, answer: answer}
	if kind == "elections" {
		r.Mode = "election"
	} else if r.Mode == "" {
		r.Mode = "exclusive"
	}
	if r.Tier == "" {
		r.Tier = "CORRECTNESS"
	}
	if r.TTLMS == 0 {
		r.TTLMS = s.ttl
	}
	if r.WaitMS >= 0 {
		r.until = now + r.WaitMS
	}
	return r
}

// class: exclusive and shared are one (S6.3).
func (r *request) class() string {
	if r.Mode == "shared" {
		return "exclusive"
	}
	return r.Mode
}

func (r *request) has(name string) bool {
	for _, own := range r.names {
		if own == name {
			return true
		}
	}
	return false
}

func (r *request) shown(name string) object {
	about := object{"name": name, "client_id": r.session.clientID, "owner": r.Owner, "mode": r.Mode, "tier": r.Tier}
	for i, own := range r.names {
		if len(r.names) > 1 && own == name {
			about["part"], about["parts"] = i+1, len(r.names)
		}
	}
	return about
}

type grant struct {
	*request
	token     int64
	granted   int64
	waited    int64
	ttl       int64
	confirmed int64
	holdUntil int64
	revokedAt int64
	slot      int
}

// ends at the service, which has no margin.
func (g *grant) ends() int64 {
	at := g.confirmed
	if g.session.confirmed > at {
		at = g.session.confirmed
	}
	at += g.ttl
	for _, other := range []int64{g.session.ends(), g.holdUntil, g.revokedAt} {
		if other < at {
			at = other
		}
	}
	return at
}

func (g *grant) why(now int64) string {
	switch {
	case now >= g.revokedAt:
		return "revoked"
	case now >= g.holdUntil:
		return "max_hold"
	case now >= g.session.ends():
		return "session_expired"
	}
	return "expired"
}

func (g *grant) holder() object {
	return object{"client_id": g.session.clientID, "owner": g.Owner, "mode": g.Mode, "since": wall(g.granted),
		"expires_at": wall(g.ends()), "metadata": g.Metadata}
}

type service struct {
	sessions map[string]*session
	grants   []*grant
	queue    []*request
	delayed  map[string]int64 // name: until when nobody gets it
	events   events
	epoch    int64
	tokens   int64
}

func newService() *service {
	return &service{sessions: map[string]*session{}, delayed: map[string]int64{}, epoch: 1}
}

func (s *service) grantsOf(name string) (found []*grant) {
	for _, g := range s.grants {
		if g.has(name) {
			found = append(found, g)
		}
	}
	return found
}

func (s *service) waitersOf(name string) (found []*request) {
	for _, r := range s.queue {
		if r.has(name) {
			found = append(found, r)
		}
	}
	return found
}

func (s *service) grantOf(token int64) *grant {
	for _, g := range s.grants {
		if g.token == token {
			return g
		}
	}
	return nil
}

func (s *service) requestRevocation(g *grant, at int64, actor, reason string, now int64) {
	g.revokedAt = at
	for _, name := range g.names {
		s.events.emit("revoke_requested", now, g.shown(name), g.session.id,
			object{"fencing_token": g.token, "actor_id": actor, "text": reason, "revoked_at": wall(at)})
	}
}

// changeLeader: the locks of the tier EFFICIENCY are gone (S10.2).
func (s *service) changeLeader(now int64) {
	s.epoch++
	kept := []*grant{}
	for _, g := range s.grants {
		if g.Tier != efficiency {
			kept = append(kept, g)
		}
	}
	s.grants = kept
	s.grantNext(now)
}

// --- time ---

// next moment at which something ends.
func (s *service) next() int64 {
	at := never
	earlier := func(other int64) {
		if other < at {
			at = other
		}
	}
	for _, one := range s.sessions {
		earlier(one.ends())
	}
	for _, g := range s.grants {
		earlier(g.ends())
	}
	for _, r := range s.queue {
		earlier(r.until)
	}
	for _, until := range s.delayed {
		earlier(until)
	}
	return at
}

func (s *service) sweep(now int64) {
	for _, g := range append([]*grant(nil), s.grants...) {
		if now >= g.ends() {
			s.end(g, g.why(now), now)
		}
	}
	for _, one := range s.sessions {
		if now >= one.ends() {
			s.endSession(one, "session_expired", now)
		}
	}
	for _, r := range append([]*request(nil), s.queue...) {
		if now >= r.until {
			s.leave(r, "timeout", now)
		}
	}
	for name, until := range s.delayed {
		if now >= until {
			delete(s.delayed, name)
		}
	}
	s.grantNext(now)
}

func (s *service) removeGrant(g *grant) bool {
	for i, other := range s.grants {
		if other == g {
			s.grants = append(s.grants[:i:i], s.grants[i+1:]...)
			return true
		}
	}
	return false
}

func (s *service) removeWaiter(r *request) bool {
	for i, other := range s.queue {
		if other == r {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (s *service) end(g *grant, ended string, now int64) {
	if !s.removeGrant(g) {
		return
	}
	g.session.ended[g.token] = ended
	reason, kind := "expired", "released"
	if ended == "released" {
		reason = "already_released"
	}
	g.session.done[g.RequestID] = object{"acquired": false, "reason": reason, "ended": ended}
	if ended == "forced" || ended == "revoked" {
		kind = ended
	} else if unclean[ended] {
		kind = "expired"
	}
	for _, name := range g.names {
		s.events.emit(kind, now, g.shown(name), "", object{"ended": ended})
		if ended != "released" {
			s.events.emit("lost", now, g.shown(name), g.session.id, object{"fencing_token": g.token, "ended": ended})
		}
		if g.Mode == "election" {
			s.events.emit("leader_changed", now, object{"name": name, "mode": "election", "tier": g.Tier}, "", object{"value": "", "vacant": true})
		}
		if unclean[ended] && g.LockDelayMS > 0 {
			s.delayed[name] = now + g.LockDelayMS
			s.events.emit("delayed", now, object{"name": name, "mode": g.Mode, "tier": g.Tier}, "", object{"delayed_until": wall(s.delayed[name])})
		}
	}
	s.grantNext(now)
}

func (s *service) endSession(one *session, why string, now int64) {
	delete(s.sessions, one.id)
	for _, r := range append([]*request(nil), s.queue...) {
		if r.session == one {
			s.leave(r, "cancelled", now)
		}
	}
	for _, g := range append([]*grant(nil), s.grants...) {
		if g.session == one {
			s.end(g, why, now)
		}
	}
	s.events.emit(why, now, object{"client_id": one.clientID}, "", nil)
}
