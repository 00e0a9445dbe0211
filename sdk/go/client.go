package holdfast

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"
)

// Options of a client. Every field may be zero, which selects the default.
type Options struct {
	// Endpoints are the nodes as HOST:PORT. Default: 127.0.0.1:4653.
	Endpoints []string
	// ClientID is shown to operators and to clients that are refused. Default: host, process and a random number.
	ClientID string
	// SessionTTL is how long everything of this client outlives it; no lock outlives it longer. Default: 30 s.
	SessionTTL time.Duration
	// Timeout ends a call that is not answered, in addition to the wait for a lock. Default: 10 s.
	Timeout time.Duration
	// ConnectTimeout is for one connection to one node. Default: 1 s.
	ConnectTimeout time.Duration
	// TLS turns on TLS. The certificate and the name of the node are verified. It may have a client certificate.
	TLS *tls.Config
	// Token is sent as bearer token.
	Token string
	// TokenFile has the token instead; only its owner may read it. It is read again when a node refuses the token.
	TokenFile string
	// Tenant, if it is not the home tenant of the principal.
	Tenant string
	// Logf reports failures in the background that no call returns. Default: none.
	Logf func(format string, arguments ...any)
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Endpoints) == 0 {
		o.Endpoints = []string{"127.0.0.1:4653"}
	}
	defaults := []struct {
		field *time.Duration
		value time.Duration
		least int64
		name  string
	}{
		{&o.SessionTTL, 30 * time.Second, minTTL, "session_ttl"},
		{&o.Timeout, 10 * time.Second, 1, "timeout"},
		{&o.ConnectTimeout, time.Second, 1, "connect_timeout"},
	}
	for _, d := range defaults {
		if *d.field == 0 {
			*d.field = d.value
		}
		if _, err := milliseconds(*d.field, d.name, d.least); err != nil {
			return o, err
		}
	}
	if !isPlain(o.Tenant) {
		return o, newError(ErrInvalid, "invalid_tenant", "the tenant has characters that a header cannot have")
	}
	if o.ClientID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.ClientID = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), newID()[:8])
	}
	return o, nil
}

// Client of a cluster. One for a process is enough; many goroutines may use it.
type Client struct{ engine *engine }

// Open makes a client. It sends nothing yet: the session is opened with the first lock.
func Open(options Options) (*Client, error) {
	return open(options, systemClock())
}

func open(options Options, c clock) (*Client, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	token, err := newTokenSource(options.Token, options.TokenFile)
	if err != nil {
		return nil, err
	}
	endpoints, err := newNodes(options.Endpoints)
	if err != nil {
		return nil, err
	}
	e := &engine{options: options, clock: c, transport: newTransport(&options, token)}
	e.caller = newCaller(c, endpoints, e.transport)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return &Client{e}, nil
}

// Close closes the session: nothing is held afterwards. It is idempotent, and returns an error if no node confirmed it
// within the timeout; then everything ends by its TTL.
func (c *Client) Close() error { return c.engine.close() }

func (c *Client) acquire(ctx context.Context, r *request, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, ended("acquire", r, err)
	}
	return c.engine.acquire(ctx, r)
}

// Lock acquires a lock, and waits for it until ctx ends or the time of Wait has passed. A wait that ends leaves the queue.
func (c *Client) Lock(ctx context.Context, name string, options ...LockOption) (*Lock, error) {
	r, err := newRequest(exclusive, []string{name}, options)
	return c.acquire(ctx, r, err)
}

// TryLock does not wait. It returns an ErrNotAcquired if the lock is not free.
func (c *Client) TryLock(ctx context.Context, name string, options ...LockOption) (*Lock, error) {
	return c.Lock(ctx, name, append(options[:len(options):len(options)], Wait(0))...)
}

// Semaphore acquires permits of a semaphore with this limit.
func (c *Client) Semaphore(ctx context.Context, name string, limit int, options ...LockOption) (*Lock, error) {
	r, err := newRequest(semaphore, []string{name}, options)
	if err == nil {
		r.limit = limit
	}
	return c.acquire(ctx, r, err)
}

// MultiLock acquires all names or none, under one token.
func (c *Client) MultiLock(ctx context.Context, names []string, options ...LockOption) (*Lock, error) {
	if len(names) == 0 {
		return nil, newError(ErrInvalid, "invalid_names", "a multi-lock needs at least one name")
	}
	multi := func(r *request) error {
		r.multi = true
		return nil
	}
	r, err := newRequest(exclusive, append([]string(nil), names...), append([]LockOption{multi}, options...))
	return c.acquire(ctx, r, err)
}

// Campaign becomes the leader of an election. The token is the epoch.
func (c *Client) Campaign(ctx context.Context, name string, options ...LockOption) (*Lock, error) {
	r, err := newRequest(election, []string{name}, options)
	if err == nil && r.tier != Correctness {
		err = newError(ErrInvalid, "invalid_tier", "an election has the tier CORRECTNESS only")
	}
	return c.acquire(ctx, r, err)
}

// Do runs work while the lock is held. The context of work ends with ctx, or when the lock is lost; then work must return.
// Do releases the lock and returns the error of work, or an ErrLockLost if the lock was lost meanwhile.
func (c *Client) Do(ctx context.Context, name string, work func(ctx context.Context, lock *Lock) error, options ...LockOption) error {
	lock, err := c.Lock(ctx, name, options...)
	if err != nil {
		return err
	}
	return run(ctx, lock, work)
}

// Lead waits until it is the leader of the election, and runs work as Do does, once. Call it in a loop to lead again.
func (c *Client) Lead(ctx context.Context, name string, work func(ctx context.Context, leader *Lock) error, options ...LockOption) error {
	leader, err := c.Campaign(ctx, name, options...)
	if err != nil {
		return err
	}
	return run(ctx, leader, work)
}

func run(ctx context.Context, lock *Lock, work func(context.Context, *Lock) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-lock.Context().Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { // also if work panics
		cancel()
		<-watching
		released := lock.Unlock(context.Background())
		if err == nil || errors.Is(released, ErrLockLost) && errors.Is(err, context.Canceled) {
			err = released
		}
	}()
	return work(ctx, lock)
}

// Watch follows the events of the service.
func (c *Client) Watch(options ...WatchOption) (*Watch, error) { return c.engine.watch(options) }
