// The adapter of the Go client for tests/conformance, whose README has the protocol. It is a thin layer: what it does not
// find in the client, it does not have.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"holdfast"
)

var features = []string{"shared", "semaphore", "multi", "lead", "efficiency", "http", "max_hold", "lock_delay", "try_acquire", "renew", "cancel",
	"jeopardy", "safe", "revoke", "slow_callback", "threads", "watch", "fence", "tls", "client_certificate", "token", "circuit"}

var errUnsupported = errors.New("unsupported")

// The words of the protocol by the kinds of errors, the special ones first; then by code.
var byKind = []struct {
	kind error
	word string
}{
	{context.Canceled, "cancelled"}, {errUnsupported, "unsupported"}, {holdfast.ErrWaitTimeout, "timeout"}, {holdfast.ErrLockLost, "lost"},
	{holdfast.ErrNotHeld, "released"}, {holdfast.ErrUnreachable, "unreachable"}, {holdfast.ErrOutcomeUnknown, "unknown"},
	{holdfast.ErrStale, "stale"}, {holdfast.ErrDenied, "denied"}, {holdfast.ErrInvalid, "invalid"}, {holdfast.ErrLimitReached, "limit"}, {holdfast.ErrClosed, "closed"},
}

var byCode = map[string]string{"held": "held", "delayed": "delayed", "deadlock": "deadlock", "mode_mismatch": "mismatch",
	"limit_mismatch": "mismatch", "denied": "denied"}

func errorWord(err error) string {
	for _, row := range byKind {
		if errors.Is(err, row.kind) {
			return row.word
		}
	}
	if word := byCode[holdfast.CodeOf(err)]; word != "" {
		return word
	}
	return "other"
}

// command has the arguments of all commands.
type command struct {
	ID             int64    `json:"id"`
	Do             string   `json:"do"`
	Handle         string   `json:"handle"`
	Endpoints      []string `json:"endpoints"`
	SessionTTLMS   int64    `json:"session_ttl_ms"`
	TimeoutMS      int64    `json:"timeout_ms"`
	ClientID       string   `json:"client_id"`
	CA             string   `json:"ca"`
	Cert           string   `json:"cert"`
	Key            string   `json:"key"`
	ServerName     string   `json:"server_name"`
	TokenFile      string   `json:"token_file"`
	Tenant         string   `json:"tenant"`
	Name           string   `json:"name"`
	Names          []string `json:"names"`
	TTLMS          *int64   `json:"ttl_ms"`
	WaitMS         *int64   `json:"wait_ms"`
	Mode           string   `json:"mode"`
	Limit          int      `json:"limit"`
	Permits        *int     `json:"permits"`
	Tier           string   `json:"tier"`
	MaxHoldMS      *int64   `json:"max_hold_ms"`
	LockDelayMS    *int64   `json:"lock_delay_ms"`
	SlowCallbackMS int64    `json:"slow_callback_ms"`
	Value          string   `json:"value"`
	Command        int64    `json:"command"`
	Thread         bool     `json:"thread"`
	Prefix         string   `json:"prefix"`
	LastID         string   `json:"last_id"`
	Resource       string   `json:"resource"`
	Token          string   `json:"token"`
}

type fields map[string]any

var output sync.Mutex

func write(line fields) {
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(data, '\n'))
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

type adapter struct {
	mutex   sync.Mutex
	client  *holdfast.Client
	locks   map[string]*holdfast.Lock
	watches map[string]*holdfast.Watch
	running map[int64]context.CancelFunc
	fence   holdfast.MemoryFence
}

func (a *adapter) lock(handle string) (*holdfast.Lock, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	lock := a.locks[handle]
	if lock == nil {
		return nil, fmt.Errorf("there is no handle %q", handle)
	}
	return lock, nil
}

func (a *adapter) open(c *command) error {
	options := holdfast.Options{Endpoints: c.Endpoints, SessionTTL: duration(c.SessionTTLMS), Timeout: duration(c.TimeoutMS),
		ClientID: c.ClientID, TokenFile: c.TokenFile, Tenant: c.Tenant}
	if c.CA != "" {
		config, err := holdfast.TLSConfig(c.CA, c.Cert, c.Key)
		if err != nil {
			return err
		}
		config.ServerName = c.ServerName
		options.TLS = config
	}
	client, err := holdfast.Open(options)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.client = client
	return err
}

func (a *adapter) options(c *command) []holdfast.LockOption {
	report := func(line fields) {
		time.Sleep(duration(c.SlowCallbackMS))
		line["handle"] = c.Handle
		write(line)
	}
	options := []holdfast.LockOption{
		holdfast.OnLost(func(l *holdfast.Lock) { report(fields{"event": "lost", "why": holdfast.CodeOf(l.Err())}) }),
		holdfast.OnJeopardy(func(*holdfast.Lock) { report(fields{"event": "jeopardy"}) }),
		holdfast.OnSafe(func(*holdfast.Lock) { report(fields{"event": "safe"}) }),
		holdfast.OnRevoke(func(_ *holdfast.Lock, r holdfast.Revocation) {
			report(fields{"event": "revoke_requested", "deadline_ms": time.Until(r.At).Milliseconds()})
		}),
	}
	for _, row := range []struct {
		ms     *int64
		option func(time.Duration) holdfast.LockOption
	}{{c.TTLMS, holdfast.TTL}, {c.MaxHoldMS, holdfast.MaxHold}, {c.LockDelayMS, holdfast.LockDelay}} {
		if row.ms != nil {
			options = append(options, row.option(duration(*row.ms)))
		}
	}
	if c.WaitMS != nil && *c.WaitMS >= 0 {
		options = append(options, holdfast.Wait(duration(*c.WaitMS)))
	}
	if c.Tier != "" {
		options = append(options, holdfast.InTier(holdfast.Tier(c.Tier)))
	}
	if c.Permits != nil {
		options = append(options, holdfast.Permits(*c.Permits))
	}
	if c.Value != "" {
		options = append(options, holdfast.Value(c.Value))
	}
	if c.Mode == "shared" {
		options = append(options, holdfast.Shared())
	}
	return options
}

func (a *adapter) acquire(ctx context.Context, c *command) (*holdfast.Lock, error) {
	options := a.options(c)
	switch {
	case c.Do == "lead":
		return a.client.Campaign(ctx, c.Name, options...)
	case c.Names != nil:
		return a.client.MultiLock(ctx, c.Names, options...)
	case c.Mode == "semaphore":
		return a.client.Semaphore(ctx, c.Name, c.Limit, options...)
	case c.Do == "try_acquire":
		return a.client.TryLock(ctx, c.Name, options...)
	}
	return a.client.Lock(ctx, c.Name, options...)
}

func (a *adapter) granted(c *command, lock *holdfast.Lock) fields {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.locks[c.Handle] = lock
	answer := fields{"token": strconv.FormatInt(lock.FenceToken(), 10), "safe_for_ms": lock.SafeFor().Milliseconds()}
	if lock.Slot() >= 0 {
		answer["slot"] = lock.Slot()
	}
	return answer
}

func (a *adapter) tryAcquire(ctx context.Context, c *command) (fields, error) {
	if c.Mode == "semaphore" || c.Names != nil {
		zero := int64(0)
		c.WaitMS = &zero
	}
	lock, err := a.acquire(ctx, c)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return fields{"acquired": false}, nil
	}
	if err != nil {
		return nil, err
	}
	answer := a.granted(c, lock)
	answer["acquired"] = true
	return answer, nil
}

func (a *adapter) watch(c *command) error {
	options := []holdfast.WatchOption{holdfast.Prefix(c.Prefix)}
	if c.LastID != "" {
		options = append(options, holdfast.After(c.LastID))
	}
	watch, err := a.client.Watch(options...)
	if err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.watches[c.Handle] = watch
	go func() {
		for {
			event, err := watch.Next(context.Background())
			if err != nil {
				return
			}
			line := fields{"event": "watch", "handle": c.Handle, "type": event.Type}
			if event.ID != "" {
				line["id"] = event.ID
			}
			if event.Name != "" {
				line["name"] = event.Name
			}
			write(line)
		}
	}()
	return nil
}

// ofLock are the commands for a lock that was acquired.
func (a *adapter) ofLock(ctx context.Context, c *command) (fields, error) {
	lock, err := a.lock(c.Handle)
	if err != nil {
		return nil, err
	}
	switch c.Do {
	case "token":
		return fields{"token": strconv.FormatInt(lock.FenceToken(), 10)}, nil
	case "release":
		return nil, lock.Unlock(ctx)
	case "renew":
		err = lock.Renew(ctx, duration(*c.TTLMS))
	default:
		err = lock.Check()
	}
	return fields{"safe_for_ms": lock.SafeFor().Milliseconds()}, err
}

func (a *adapter) run(ctx context.Context, c *command) (fields, error) {
	switch c.Do {
	case "open":
		return nil, a.open(c)
	case "acquire", "lead":
		lock, err := a.acquire(ctx, c)
		if err != nil {
			return nil, err
		}
		return a.granted(c, lock), nil
	case "try_acquire":
		return a.tryAcquire(ctx, c)
	case "check", "token", "renew", "release":
		return a.ofLock(ctx, c)
	case "cancel":
		a.mutex.Lock()
		defer a.mutex.Unlock()
		if cancel := a.running[c.Command]; cancel != nil {
			cancel()
		}
		return nil, nil
	case "watch":
		return nil, a.watch(c)
	case "unwatch":
		a.mutex.Lock()
		watch := a.watches[c.Handle]
		a.mutex.Unlock()
		watch.Close()
		return nil, nil
	case "fence_check":
		token, err := strconv.ParseInt(c.Token, 10, 64)
		if err != nil {
			return nil, err
		}
		return nil, a.fence.Guard(c.Resource, token)
	case "close":
		_ = a.client.Close() // that no node confirmed it is no result of this command
		return nil, nil
	}
	return nil, fmt.Errorf("%w: %s", errUnsupported, c.Do)
}

// start runs a command without waiting for earlier ones.
func (a *adapter) start(line []byte) {
	c := &command{}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(c)
	if err != nil {
		err = fmt.Errorf("%w: %v", errUnsupported, err)
		_ = json.Unmarshal(line, c) // its id
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.mutex.Lock()
	a.running[c.ID] = cancel
	a.mutex.Unlock()
	go func() {
		var answer fields
		if err == nil {
			answer, err = a.run(ctx, c)
		}
		if err != nil {
			code := holdfast.CodeOf(err)
			if code == "" {
				code = errorWord(err)
			}
			answer = fields{"ok": false, "error": errorWord(err), "code": code, "message": err.Error()}
		} else {
			if answer == nil {
				answer = fields{}
			}
			answer["ok"] = true
		}
		answer["id"] = c.ID
		a.mutex.Lock()
		delete(a.running, c.ID)
		a.mutex.Unlock()
		cancel()
		write(answer)
	}()
}

func main() {
	write(fields{"hello": 1, "client": "go", "clock": holdfast.ClockName(), "features": features})
	a := &adapter{locks: map[string]*holdfast.Lock{}, watches: map[string]*holdfast.Watch{}, running: map[int64]context.CancelFunc{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		a.start(append([]byte(nil), lines.Bytes()...))
	}
}
