package holdfast

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Requests that are repeated with the same bytes until they are answered (C4).

const (
	retryMS    = 20
	retryMaxMS = 500
	attemptFor = 2 * time.Second
	// A wait that receives nothing for so long is repeated: its node may be gone.
	waitSlice = 15 * time.Second
)

type call struct {
	method    string
	path      string
	body      []byte
	timeoutMS int64
	wait      int64
	// patient: it is also tried while the circuits of all nodes are open (C6.3).
	patient bool
	givenUp func() bool
}

type answer struct {
	*reply
	sent int64 // first sending that may have been done (C1.6)
}

type caller struct {
	clock clock
	nodes *nodes
	// A test replaces do.
	do        func(ctx context.Context, n *node, method, path string, body []byte) (int, *reply, *attemptError)
	closeIdle func(n *node)
	mutex     sync.Mutex
	waits     map[*node]map[*context.CancelFunc]bool
}

func newCaller(c clock, n *nodes, t *transport) *caller {
	return &caller{clock: c, nodes: n, do: t.do, closeIdle: t.closeIdle, waits: map[*node]map[*context.CancelFunc]bool{}}
}

// failed notes a failure. The connections of the node, and the waits on them, are not trusted any longer.
func (c *caller) failed(n *node, why string) {
	c.nodes.failed(n, why, c.clock.now())
	c.closeIdle(n)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for cancel := range c.waits[n] {
		(*cancel)()
	}
}

func (c *caller) noteWait(n *node, cancel *context.CancelFunc) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.waits[n] == nil {
		c.waits[n] = map[*context.CancelFunc]bool{}
	}
	c.waits[n][cancel] = true
}

func (c *caller) forgetWait(n *node, cancel *context.CancelFunc) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.waits[n], cancel)
}

// attempt is one sending to one node; its circuit is noted.
func (c *caller) attempt(ctx context.Context, n *node, r *call, timeout time.Duration) (int, *reply, *attemptError) {
	waits := r.wait != noWait
	c.nodes.begun(n, waits)
	limited, cancel := withTimeout(ctx, c.clock, timeout)
	defer cancel()
	if waits {
		c.noteWait(n, &cancel)
		defer c.forgetWait(n, &cancel)
	}
	status, body, err := c.do(limited, n, r.method, r.path, r.body)
	switch {
	case err == nil:
		c.nodes.succeeded(n)
	case ctx.Err() != nil, waits && err.sent:
		c.nodes.learnedNothing(n)
	default:
		c.failed(n, err.why)
	}
	return status, body, err
}

// call repeats a request until it is answered, its time has passed, ctx ends, or givenUp reports true.
func (c *caller) call(ctx context.Context, r *call) (answer, error) {
	until := never
	if r.wait >= 0 {
		until = earlier(c.clock.now()+r.timeoutMS+r.wait, never)
	}
	a := answer{sent: never}
	pause := int64(retryMS)
	var avoid *node
	for {
		now := c.clock.now()
		if err := ctx.Err(); err != nil {
			return a, err
		}
		if now >= until || r.givenUp != nil && r.givenUp() {
			break
		}
		if !r.patient && a.sent == never && c.nodes.allOpen(now) {
			break
		}
		if n := c.nodes.pick(now, avoid); n != nil {
			slice := attemptFor
			if r.wait != noWait {
				slice = waitSlice
			}
			if left := until - now; left < slice.Milliseconds() {
				slice = duration(left)
			}
			status, body, err := c.attempt(ctx, n, r, slice)
			if err == nil && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
				a.reply, a.sent = body, earlier(a.sent, now)
				if status != http.StatusOK {
					return a, refusedError(status, body)
				}
				return a, nil
			}
			if err == nil && status == http.StatusGatewayTimeout || err != nil && err.sent {
				a.sent = earlier(a.sent, now)
			}
			avoid = n
		}
		sleep(ctx, c.clock, duration(jitter(pause)))
		pause = earlier(pause*2, retryMaxMS)
	}
	if a.sent == never {
		return a, newError(ErrUnreachable, "unreachable", "no node answered: %s", c.nodes.describe())
	}
	return a, newError(ErrOutcomeUnknown, "outcome_unknown", "no node answered, and the request may have been done: %s", c.nodes.describe())
}
