package holdfast

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// Tier of a lock. CORRECTNESS is replicated and survives failovers. EFFICIENCY is in the memory of the leader: faster, and
// lost with the leader.
type Tier string

const (
	Correctness Tier = "CORRECTNESS"
	Efficiency  Tier = "EFFICIENCY"
)

const (
	exclusive = "exclusive"
	shared    = "shared"
	semaphore = "semaphore"
	election  = "election"
)

const (
	noWait      = int64(0)
	waitForever = int64(-1)
	minTTL      = 1000
	minHold     = 100
	maxMS       = int64(1)<<53 - 1
)

// request is what an acquire requests.
type request struct {
	names      []string
	mode       string
	multi      bool
	ttl        int64 // 0: that of the session
	wait       int64
	limit      int
	permits    int
	tier       Tier
	metadata   json.RawMessage
	maxHold    int64
	lockDelay  int64
	deadlock   bool
	value      string
	trace      string
	onLost     func(*Lock)
	onJeopardy func(*Lock)
	onSafe     func(*Lock)
	onRevoke   func(*Lock, Revocation)
}

// LockOption changes one argument of an acquire.
type LockOption func(*request) error

func milliseconds(d time.Duration, what string, least int64) (int64, error) {
	ms := d.Milliseconds()
	if d < 0 || ms < least || ms > maxMS {
		return 0, newError(ErrInvalid, "invalid_"+what, "%s is %v, and must be at least %v", what, d,
			time.Duration(least)*time.Millisecond)
	}
	return ms, nil
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func setMS(field func(*request) *int64, d time.Duration, what string, least int64) LockOption {
	return func(r *request) (err error) {
		*field(r), err = milliseconds(d, what, least)
		return err
	}
}

// TTL is how long the lock outlives the last sign of life of this client, at least 1 s. Default: the TTL of the session,
// which also limits it.
func TTL(ttl time.Duration) LockOption {
	return setMS(func(r *request) *int64 { return &r.ttl }, ttl, "ttl", minTTL)
}

// Wait limits the wait for the lock at the service; 0 does not wait. Default: until the context of the call ends.
func Wait(wait time.Duration) LockOption {
	return setMS(func(r *request) *int64 { return &r.wait }, wait, "wait", 0)
}

// MaxHold ends the hold that long after the grant, whatever is confirmed.
func MaxHold(limit time.Duration) LockOption {
	return setMS(func(r *request) *int64 { return &r.maxHold }, limit, "max_hold", minHold)
}

// LockDelay is the time for which nobody gets the lock after an unclean end.
func LockDelay(delay time.Duration) LockOption {
	return setMS(func(r *request) *int64 { return &r.lockDelay }, delay, "lock_delay", 0)
}

// Shared requests a shared lock: others may have it too, but nobody has it exclusively.
func Shared() LockOption {
	return func(r *request) error {
		if r.mode != exclusive || r.multi {
			return newError(ErrInvalid, "invalid_mode", "only a lock of one name can be shared")
		}
		r.mode = shared
		return nil
	}
}

// Permits of a semaphore that this request needs. Default: 1.
func Permits(count int) LockOption {
	return func(r *request) error {
		r.permits = count
		return nil
	}
}

// InTier selects the tier. Default: Correctness.
func InTier(tier Tier) LockOption {
	return func(r *request) error {
		r.tier = tier
		return nil
	}
}

// Metadata is a JSON value of at most 4,096 bytes. Clients whose request is refused can see it.
func Metadata(value any) LockOption {
	return func(r *request) error {
		data, err := json.Marshal(value)
		if err != nil {
			return newError(ErrInvalid, "invalid_metadata", "the metadata cannot be encoded as JSON: %v", err)
		}
		r.metadata = data
		return nil
	}
}

// Value is what the leader of an election proclaims.
func Value(value string) LockOption {
	return func(r *request) error {
		r.value = value
		return nil
	}
}

// Trace is a W3C traceparent. Listings, events and the audit trail show it.
func Trace(traceparent string) LockOption {
	return func(r *request) error {
		r.trace = traceparent
		return nil
	}
}

// DetectDeadlock refuses the request with the code "deadlock" if its wait would never end.
func DetectDeadlock() LockOption {
	return func(r *request) error {
		r.deadlock = true
		return nil
	}
}

// OnLost is called once when the lock is lost, on a goroutine for callbacks. It is not called after Unlock.
func OnLost(callback func(*Lock)) LockOption {
	return func(r *request) error {
		r.onLost = callback
		return nil
	}
}

// OnJeopardy is called when nothing was confirmed for so long that a third of the TTL is left (C2.1).
func OnJeopardy(callback func(*Lock)) LockOption {
	return func(r *request) error {
		r.onJeopardy = callback
		return nil
	}
}

// OnSafe is called when the lock is confirmed again after jeopardy.
func OnSafe(callback func(*Lock)) LockOption {
	return func(r *request) error {
		r.onSafe = callback
		return nil
	}
}

// Revocation is the request of an operator to release a lock.
type Revocation struct {
	Actor  string
	Reason string
	At     time.Time // when the service ends the hold, by its wall clock
}

// OnRevoke is called when an operator requests the lock. The service ends the hold at Revocation.At.
func OnRevoke(callback func(*Lock, Revocation)) LockOption {
	return func(r *request) error {
		r.onRevoke = callback
		return nil
	}
}

func newRequest(mode string, names []string, options []LockOption) (*request, error) {
	r := &request{names: names, mode: mode, wait: waitForever, permits: 1, tier: Correctness}
	for _, option := range options {
		if err := option(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *request) describe() string { return strings.Join(r.names, ", ") }

func (r *request) path(verb string) string {
	if r.multi {
		return "/api/v1/multilock/" + verb
	}
	name := url.PathEscape(r.names[0])
	if r.mode == election && verb != "renew" {
		return "/api/v1/elections/" + name + "/" + map[string]string{"acquire": "campaign", "release": "resign"}[verb]
	}
	return "/api/v1/locks/" + name + "/" + verb
}

func (r *request) acquireBody(sessionID, owner, id string) map[string]any {
	body := map[string]any{"session_id": sessionID, "owner": owner, "request_id": id, "wait_timeout_ms": r.wait}
	if r.multi {
		body["names"] = r.names
	} else if r.mode != election {
		body["mode"] = r.mode
	}
	if r.mode == semaphore {
		body["limit"], body["permits"] = r.limit, r.permits
	}
	if r.mode == election {
		body["value"] = r.value
	} else if r.tier != Correctness {
		body["tier"] = r.tier
	}
	optional := map[string]int64{"ttl_ms": r.ttl, "max_hold_ms": r.maxHold, "lock_delay_ms": r.lockDelay}
	for key, ms := range optional {
		if ms != 0 {
			body[key] = ms
		}
	}
	if r.metadata != nil {
		body["metadata"] = r.metadata
	}
	if r.trace != "" {
		body["trace"] = r.trace
	}
	if r.deadlock {
		body["detect_deadlock"] = true
	}
	return body
}

func (r *request) tokenBody(sessionID string, token int64) map[string]any {
	body := map[string]any{"session_id": sessionID, "fencing_token": token}
	if r.multi {
		body["names"] = r.names
	}
	return body
}

// newID is the request_id of a call, random and never used again (C4.1).
func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic("holdfast: the system has no random numbers: " + err.Error())
	}
	return hex.EncodeToString(id[:])
}

func encode(body map[string]any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		panic("holdfast: " + err.Error()) // all values were encoded or checked before
	}
	return data
}
