package holdfast

import (
	"context"
	"sync"
)

// engine is what a client consists of: its nodes, its session, its background goroutines.
type engine struct {
	options   Options
	clock     clock
	transport *transport
	caller    *caller
	callbacks dispatcher
	manual    bool // the clock is one of a test, which also moves deadlines (holdfasttest)

	// Of everything that runs in the background. Close cancels it and waits for all of it.
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mutex    sync.Mutex // all below, and the fields of sessions and locks
	session  *session
	opening  *opening
	owners   int64
	isClosed bool
}

// opening is a session that is being opened. `done` is closed when the other fields are set.
type opening struct {
	done    chan struct{}
	session *session
	err     error
}

// background runs work until it ends or the client is closed. False: the client is closed already. Needs the mutex.
func (e *engine) background(work func(ctx context.Context)) bool {
	if e.ctx.Err() != nil {
		return false
	}
	e.group.Add(1)
	go func() {
		defer e.group.Done()
		work(e.ctx)
	}()
	return true
}

// operation is background for what sends requests until they are answered. Needs the mutex.
func (e *engine) operation(work func(ctx context.Context)) {
	ctx, end := begin(e.ctx, e.clock)
	isBegun := e.background(func(context.Context) {
		defer end()
		work(ctx)
	})
	if !isBegun {
		end()
	}
}

func (e *engine) inBackground(work func(ctx context.Context)) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.background(work)
}

// needSession returns the session, and opens one if there is none that lives.
func (e *engine) needSession(ctx context.Context) (*session, error) {
	e.mutex.Lock()
	if e.isClosed {
		e.mutex.Unlock()
		return nil, closedError()
	}
	if e.session != nil {
		e.session.tick(e.clock.now())
		if e.session.isOpen {
			defer e.mutex.Unlock()
			return e.session, nil
		}
	}
	if e.opening == nil {
		o := &opening{done: make(chan struct{})}
		e.opening = o
		e.operation(func(ctx context.Context) { e.openSession(ctx, o) })
	}
	o := e.opening
	e.mutex.Unlock()
	select {
	case <-o.done:
		return o.session, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *engine) openSession(ctx context.Context, o *opening) {
	s := newSession(e)
	err := s.open(ctx)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.opening = nil
	if err == nil {
		e.session = s
		s.begin()
		o.session = s
	} else if ctx.Err() != nil {
		o.err = closedError()
	} else {
		o.err = err
	}
	close(o.done)
}

func (e *engine) close() error {
	e.mutex.Lock()
	if e.isClosed {
		e.mutex.Unlock()
		return nil
	}
	e.isClosed = true
	if e.manual {
		e.caller.nodes.neverRest()
	}
	o := e.opening
	e.mutex.Unlock()
	if o != nil {
		<-o.done // within the deadline of its call
	}
	e.mutex.Lock()
	s := e.session
	wasOpen := s != nil && s.isOpen
	if wasOpen {
		s.lose("closed")
	}
	e.mutex.Unlock()
	var err error
	if wasOpen {
		_, err = e.caller.call(e.ctx, &call{method: "DELETE", path: "/api/v1/sessions/" + s.id,
			timeoutMS: e.options.Timeout.Milliseconds(), patient: true})
		if isSessionGone(CodeOf(err)) {
			err = nil
		}
	}
	e.mutex.Lock()
	e.cancel()
	e.mutex.Unlock()
	e.group.Wait()
	e.transport.close()
	return err
}

// dispatcher runs the callbacks of the application, one after the other, on a goroutine that exists while there are some.
// So a callback that blocks delays other callbacks and nothing else (C2.7).
type dispatcher struct {
	mutex   sync.Mutex
	queue   []func()
	running bool
}

func (d *dispatcher) add(callback func()) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.queue = append(d.queue, callback)
	if !d.running {
		d.running = true
		go d.run()
	}
}

func (d *dispatcher) run() {
	for {
		d.mutex.Lock()
		if len(d.queue) == 0 {
			d.running = false
			d.mutex.Unlock()
			return
		}
		callback := d.queue[0]
		d.queue = d.queue[1:]
		d.mutex.Unlock()
		callback()
	}
}
