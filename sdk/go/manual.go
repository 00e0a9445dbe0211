package holdfast

import (
	"context"
	"net/http"
	"time"

	"holdfast/internal/hook"
)

// What holdfasttest needs: a client whose clock, timers and transport are those of a test.

func init() {
	hook.Open = openManual
}

type manualClock struct{ parts hook.Parts }

func (c manualClock) now() int64 { return c.parts.Now() }

func (c manualClock) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.parts.WithTimeout(ctx, d)
}

func (c manualClock) sleep(ctx context.Context, d time.Duration) { c.parts.Sleep(ctx, d) }

func (c manualClock) begin(ctx context.Context) (context.Context, func()) { return c.parts.Begin(ctx) }

func openManual(options any, parts hook.Parts) (any, hook.Driver, error) {
	client, err := open(options.(Options), manualClock{parts})
	if err != nil {
		return nil, nil, err
	}
	client.engine.manual = true
	client.engine.transport.newTrip = func() http.RoundTripper { return parts.Transport }
	return client, driver{client.engine}, nil
}

type driver struct{ engine *engine }

func (d driver) session() *session {
	d.engine.mutex.Lock()
	defer d.engine.mutex.Unlock()
	if s := d.engine.session; s != nil && s.isOpen {
		return s
	}
	return nil
}

func (d driver) NextKeepAlive() (int64, bool) {
	s := d.session()
	if s == nil {
		return 0, false
	}
	_, due := s.nextKeepAlive()
	return due, true
}

func (d driver) KeepAlive() {
	if s := d.session(); s != nil {
		s.keepAliveAt(d.engine.caller.nodes.all[0], s.life.ttl)
	}
}

func (d driver) Tick() int64 {
	s := d.session()
	if s == nil {
		return never
	}
	d.engine.mutex.Lock()
	defer d.engine.mutex.Unlock()
	return s.tick(d.engine.clock.now())
}

func (d driver) SessionID() string {
	if s := d.session(); s != nil {
		return s.id
	}
	return ""
}

func (d driver) Event(kind string, data []byte) {
	if s := d.session(); s != nil {
		s.sawEvent(Event{Type: kind, Data: data})
	}
}

func (d driver) Idle() bool {
	callbacks := &d.engine.callbacks
	callbacks.mutex.Lock()
	defer callbacks.mutex.Unlock()
	return !callbacks.running
}
