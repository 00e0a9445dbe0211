package holdfasttest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// The requests of the service, by the paths and messages of the real one.

func refuse(answer func(int, object), status int, code, message string) {
	answer(status, object{"error": object{"code": code, "message": message}})
}

// handle calls answer, now or when a wait has ended.
func (s *service) handle(method, path string, data []byte, now int64, answer func(status int, value object)) {
	s.sweep(now)
	b := body{Permits: 1}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &b); err != nil {
			refuse(answer, http.StatusBadRequest, "invalid_json", err.Error())
			return
		}
	}
	parts := strings.Split(path, "/")[3:]
	for i, part := range parts {
		parts[i], _ = url.PathUnescape(part)
	}
	kind, verb := parts[0], parts[len(parts)-1]
	if kind == "sessions" {
		s.handleSession(method, parts[1:], b, now, answer)
		return
	}
	one := s.sessions[b.SessionID]
	if one == nil {
		refuse(answer, http.StatusNotFound, "session_not_found", "there is no such session")
		return
	}
	names := []string{parts[1]}
	if kind == "multilock" {
		names = b.Names
	}
	switch verb {
	case "acquire", "campaign":
		s.acquire(newRequest(one, kind, names, b, answer, now), now)
	case "renew", "release", "resign":
		s.byToken(verb, one, b, now, answer)
	default:
		refuse(answer, http.StatusNotFound, "not_found", "the fake has no "+path)
	}
}

func (s *service) byToken(verb string, one *session, b body, now int64, answer func(int, object)) {
	g := s.grantOf(b.Token)
	if g != nil && g.session != one {
		g = nil
	}
	value := object{"reason": "ok", "leader_epoch": s.epoch, map[string]string{"renew": "renewed", "release": "released", "resign": "resigned"}[verb]: g != nil}
	ended, known := one.ended[b.Token]
	switch {
	case g != nil && verb == "renew":
		g.confirmed = now
		if b.TTLMS != 0 {
			g.ttl = b.TTLMS
		}
	case g != nil:
		s.end(g, "released", now)
	case !known:
		value["reason"] = "not_owner"
	case ended == "released":
		value["reason"] = "already_released"
	default:
		value["reason"], value["ended"] = "expired", ended
	}
	answer(http.StatusOK, value)
}

func (s *service) handleSession(method string, parts []string, b body, now int64, answer func(int, object)) {
	if method == http.MethodPost && len(parts) == 0 {
		one := &session{id: newID(), clientID: b.ClientID, ttl: b.TTLMS, confirmed: now, done: map[string]object{}, ended: map[int64]string{}}
		s.sessions[one.id] = one
		s.events.emit("session_opened", now, object{"client_id": one.clientID}, "", nil)
		answer(http.StatusOK, object{"session_id": one.id, "ttl_ms": one.ttl, "keepalive_ms": one.ttl / 3, "leader_epoch": s.epoch})
		return
	}
	one := s.sessions[parts[0]]
	switch {
	case one == nil:
		refuse(answer, http.StatusNotFound, "session_not_found", "there is no such session")
	case method == http.MethodDelete:
		s.endSession(one, "session_closed", now)
		answer(http.StatusOK, object{"closed": true})
	case len(parts) == 2 && parts[1] == "keepalive":
		one.confirmed = now
		value := object{"alive": true, "session_id": one.id, "leader_epoch": s.epoch}
		s.putLocks(one, b, value)
		answer(http.StatusOK, value)
	default:
		refuse(answer, http.StatusNotFound, "not_found", "the fake has no such path")
	}
}

// --- acquire ---

func (s *service) acquire(r *request, now int64) {
	var waiting *request
	var granted *grant
	for _, other := range s.queue {
		if other.session == r.session && other.RequestID == r.RequestID {
			waiting = other
		}
	}
	for _, g := range s.grants {
		if g.session == r.session && g.RequestID == r.RequestID {
			granted = g
		}
	}
	done := r.session.done[r.RequestID]
	switch {
	case r.Cancel:
		if waiting != nil {
			s.leave(waiting, "cancelled", now)
		}
		if granted != nil {
			s.end(granted, "released", now)
		}
		r.session.done[r.RequestID] = object{"acquired": false, "reason": "cancelled"}
		r.answer(http.StatusOK, r.session.done[r.RequestID])
	case granted != nil:
		s.answerGrant(granted, r.answer)
	case done != nil:
		r.answer(http.StatusOK, done)
	case waiting != nil: // it attaches again (S7.1)
		waiting.answer(http.StatusOK, object{"acquired": false, "reason": "superseded"})
		waiting.answer = r.answer
	default:
		s.enqueue(r, now)
	}
}

// conflict is why a request cannot even wait: another class or limit of the name (S6.3).
func (s *service) conflict(r *request, name string) string {
	others := s.waitersOf(name)
	for _, g := range s.grantsOf(name) {
		others = append(others, g.request)
	}
	for _, other := range others {
		switch {
		case other.Tier != r.Tier:
			return "wrong_tier"
		case other.class() != r.class():
			return "mode_mismatch"
		case other.Limit != r.Limit:
			return "limit_mismatch"
		}
	}
	if r.Mode == "semaphore" && r.Permits > r.Limit {
		return "permits_exceed_limit"
	}
	return ""
}

func (s *service) enqueue(r *request, now int64) {
	for _, name := range r.names {
		switch why := s.conflict(r, name); why {
		case "":
		case "wrong_tier":
			refuse(r.answer, http.StatusConflict, why, name+" is in use in the other tier")
			return
		default:
			s.refuse(r, why)
			return
		}
	}
	s.queue = append(s.queue, r)
	s.grantNext(now)
	if s.grantOfRequest(r) != nil {
		return
	}
	if r.WaitMS == 0 {
		why := "held"
		for _, name := range r.names {
			if _, isDelayed := s.delayed[name]; isDelayed {
				why = "delayed"
			}
		}
		s.removeWaiter(r)
		s.refuse(r, why)
		return
	}
	for _, name := range r.names {
		s.events.emit("queued", now, r.shown(name), "", nil)
	}
}

func (s *service) grantOfRequest(r *request) *grant {
	for _, g := range s.grants {
		if g.request == r {
			return g
		}
	}
	return nil
}

func (s *service) refuse(r *request, reason string) {
	value := object{"acquired": false, "reason": reason, "holder": nil, "queue_length": len(s.waitersOf(r.names[0]))}
	for _, name := range r.names {
		if holders := s.grantsOf(name); len(holders) > 0 {
			value["holder"] = holders[0].holder()
		}
	}
	r.answer(http.StatusOK, value)
}

func (s *service) leave(r *request, reason string, now int64) {
	s.removeWaiter(r)
	s.refuse(r, reason)
	for _, name := range r.names {
		s.events.emit("wait_ended", now, r.shown(name), "", object{"reason": reason})
	}
	s.grantNext(now)
}

// grantNext has strict queues (S6.1): it grants what is first in all of its queues and fits.
func (s *service) grantNext(now int64) {
	blocked := map[string]bool{}
	for name, until := range s.delayed {
		blocked[name] = now < until
	}
	for _, r := range append([]*request(nil), s.queue...) {
		fits := true
		for _, name := range r.names {
			fits = fits && !blocked[name] && s.fits(r, name)
		}
		if fits {
			s.removeWaiter(r)
			s.grant(r, now)
			continue
		}
		for _, name := range r.names {
			blocked[name] = true
		}
	}
}

func (s *service) fits(r *request, name string) bool {
	held, permits, allShared := s.grantsOf(name), r.Permits, true
	for _, g := range held {
		permits += g.Permits
		allShared = allShared && g.Mode == "shared"
	}
	switch r.Mode {
	case "shared":
		return allShared
	case "semaphore":
		return permits <= r.Limit
	}
	return len(held) == 0
}

func (s *service) grant(r *request, now int64) {
	s.tokens += tokenSteps
	g := &grant{request: r, token: s.tokens, granted: now, waited: now - r.since, ttl: r.TTLMS, confirmed: now, holdUntil: never, revokedAt: never}
	if r.MaxHoldMS != 0 {
		g.holdUntil = now + r.MaxHoldMS
	}
	used := map[int]bool{}
	for _, other := range s.grantsOf(r.names[0]) {
		used[other.slot] = true
	}
	for r.Mode == "semaphore" && used[g.slot] {
		g.slot++
	}
	s.grants = append(s.grants, g)
	for _, name := range r.names {
		s.events.emit("granted", now, r.shown(name), "", nil)
		if r.Mode == "election" {
			s.events.emit("leader_changed", now, r.shown(name), "", object{"value": r.Value, "vacant": false})
		}
	}
	s.answerGrant(g, r.answer)
}

func (s *service) answerGrant(g *grant, answer func(int, object)) {
	value := object{"acquired": true, "fencing_token": g.token, "leader_epoch": s.epoch, "tier": g.Tier, "waited_ms": g.waited}
	if g.Mode == "election" {
		value["elected"] = true
	}
	if g.Mode == "semaphore" {
		value["slot"] = g.slot
	}
	answer(http.StatusOK, value)
}

// putLocks lists what a session holds, if a keep-alive named other tokens.
func (s *service) putLocks(one *session, b body, value object) {
	locks, count, xor := []object{}, 0, int64(0)
	for _, g := range s.grants {
		if g.session != one {
			continue
		}
		count, xor = count+1, xor^g.token
		for _, name := range g.names {
			locks = append(locks, object{"name": name, "tier": g.Tier, "fencing_token": g.token})
		}
	}
	if b.LockCount != nil && (*b.LockCount != count || b.LockXOR != xor) {
		value["locks"], value["next_cursor"] = locks, nil
	}
}
