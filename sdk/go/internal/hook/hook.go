// Package hook gives holdfasttest a client with a clock and a transport of its own, without making that part of the API.
package hook

import (
	"context"
	"net/http"
	"time"
)

// Parts replace those of a real client.
type Parts struct {
	Now         func() int64 // ms
	WithTimeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	Sleep       func(context.Context, time.Duration) // returns early when the context ends
	// Begin marks the context of an operation. Time passes only while each operation that has begun and not ended waits for an
	// answer or sleeps.
	Begin     func(context.Context) (operation context.Context, end func())
	Transport http.RoundTripper
}

// Driver does what the loops of a session do in a real client.
type Driver interface {
	// NextKeepAlive is when one is due; false: there is no session.
	NextKeepAlive() (int64, bool)
	// KeepAlive sends one.
	KeepAlive()
	// Tick declares lost what is overdue, and returns the next moment to look.
	Tick() int64
	// SessionID of the session that is open, or "".
	SessionID() string
	// Event passes on what the service reports to the session.
	Event(kind string, data []byte)
	// Idle: no callback is running or waiting.
	Idle() bool
}

// Open is set by the package holdfast. options is a holdfast.Options; the result is a *holdfast.Client.
var Open func(options any, parts Parts) (client any, driver Driver, err error)
