package holdfast

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The kinds of errors, for errors.Is.
var (
	// ErrNotAcquired: the lock was not granted. The *Error has the present holder, if the service named it.
	ErrNotAcquired = errors.New("not acquired")
	// ErrWaitTimeout: it was not free within the time of the wait. It is also an ErrNotAcquired.
	ErrWaitTimeout = errors.New("not free in time")
	// ErrLockLost: the lock is no longer held, or not certainly. Stop the work that it protects.
	ErrLockLost = errors.New("lost")
	// ErrNotHeld: the lock was released by this client.
	ErrNotHeld = errors.New("released")
	// ErrUnreachable: no node answered in time. Nothing was done.
	ErrUnreachable = errors.New("unreachable")
	// ErrOutcomeUnknown: no node answered in time. The request may have been done.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrDenied: the credentials are missing, wrong, or lack the right.
	ErrDenied = errors.New("denied")
	// ErrInvalid: an argument is wrong.
	ErrInvalid = errors.New("invalid")
	// ErrLimitReached: a limit or quota of the service was reached. Nothing was done.
	ErrLimitReached = errors.New("limit reached")
	// ErrClosed: the client or watch was closed.
	ErrClosed = errors.New("closed")
	// ErrService: any other refusal of the service.
	ErrService = errors.New("refused by the service")
)

// Holder describes the present holder of a lock that was not granted.
type Holder struct {
	ClientID  string          `json:"client_id"`
	Owner     string          `json:"owner"`
	Mode      string          `json:"mode"`
	Since     time.Time       `json:"since"`
	ExpiresAt time.Time       `json:"expires_at"`
	Metadata  json.RawMessage `json:"metadata"`
}

// Error is an error of this package. A call that its context ended returns an error for which errors.Is reports that of
// the context instead.
type Error struct {
	Kind        error  // one of the kinds above
	Code        string // stable; an error of the service keeps the code of the service
	Message     string
	Holder      *Holder       // of ErrNotAcquired, if the service named it
	QueueLength int           // of ErrNotAcquired
	RetryAfter  time.Duration // of ErrLimitReached, if the service named it
}

func (e *Error) Error() string { return "holdfast: " + e.Message }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Is reports that an ErrWaitTimeout is an ErrNotAcquired, too.
func (e *Error) Is(target error) bool {
	return target == ErrNotAcquired && e.Kind == ErrWaitTimeout
}

// CodeOf is the stable code of an error of this package, "" of others.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func newError(kind error, code, format string, arguments ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, arguments...)}
}

func lostError(names, why string) *Error {
	if why == "" {
		why = "unconfirmed"
	}
	return newError(ErrLockLost, why, "%s was lost: %s", names, why)
}

func closedError() *Error { return newError(ErrClosed, "closed", "the client was closed") }

var kindByStatus = map[int]error{400: ErrInvalid, 401: ErrDenied, 403: ErrDenied, 414: ErrInvalid, 429: ErrLimitReached}

// refusedError is the error for an answer with an error status.
func refusedError(status int, r *reply) *Error {
	if r.Error == nil {
		return newError(ErrService, "protocol", "the endpoint answered %d without an error of Holdfast", status)
	}
	kind := kindByStatus[status]
	if kind == nil {
		kind = ErrService
	}
	e := newError(kind, r.Error.Code, "%s", r.Error.Message)
	e.RetryAfter = time.Duration(r.Error.RetryAfterMS) * time.Millisecond
	return e
}

// notAcquiredError is the error for an answer that did not grant.
func notAcquiredError(names string, r *reply) *Error {
	kind, reason := ErrNotAcquired, r.Reason
	if reason == "timeout" {
		kind = ErrWaitTimeout
	}
	e := newError(kind, reason, "%s was not acquired: %s", names, reason)
	if r.Holder != nil {
		e.Holder = r.Holder
		e.Message += "; " + r.Holder.ClientID + " holds it"
	}
	e.QueueLength = r.QueueLength
	return e
}
