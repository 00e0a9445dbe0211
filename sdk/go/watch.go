package holdfast

import (
	"context"
	"net/url"
	"sync"
)

// WatchOption changes one argument of a watch.
type WatchOption func(*watchRequest) error

type watchRequest struct{ prefix, lastID string }

// Prefix limits a watch to names with this prefix.
func Prefix(prefix string) WatchOption {
	return func(r *watchRequest) error {
		r.prefix = prefix
		return nil
	}
}

// After resumes after the event with this id, at any node. Default: from now on.
func After(id string) WatchOption {
	return func(r *watchRequest) error {
		if !eventID.MatchString(id) {
			return newError(ErrInvalid, "invalid_event_id", "%q is not the id of an event", id)
		}
		r.lastID = id
		return nil
	}
}

// Watch delivers events, each once and in order, through any node (C8). An event of type "reset" means that some are
// missing: events "lock" of a full listing follow, then "listed". Close it.
type Watch struct {
	cancel context.CancelFunc
	ended  chan struct{}
	events chan Event
	mutex  sync.Mutex
	lastID string
	err    error // before ended is closed
}

func (e *engine) watch(options []WatchOption) (*Watch, error) {
	r := &watchRequest{}
	for _, option := range options {
		if err := option(r); err != nil {
			return nil, err
		}
	}
	path := "/api/v1/watch"
	if r.prefix != "" {
		path += "?prefix=" + url.QueryEscape(r.prefix)
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.isClosed {
		return nil, closedError()
	}
	ctx, cancel := context.WithCancel(e.ctx)
	w := &Watch{cancel: cancel, ended: make(chan struct{}), events: make(chan Event), lastID: r.lastID}
	stream := newEventStream(e, path, r.lastID)
	e.background(func(context.Context) {
		defer cancel()
		w.err = stream.follow(ctx, func(event Event) bool { return w.deliver(ctx, event, stream) })
		close(w.ended)
	})
	return w, nil
}

func (w *Watch) deliver(ctx context.Context, event Event, stream *eventStream) bool {
	if event.Type != eventReady && event.Type != eventDropped {
		select {
		case w.events <- event:
		case <-ctx.Done():
			return false
		}
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if stream.lastID != "" {
		w.lastID = stream.lastID
	}
	return true
}

// Next waits for the next event. When ctx ends, the watch continues and loses nothing. It returns an ErrClosed after Close,
// and the refusal of the service, if there was one.
func (w *Watch) Next(ctx context.Context) (Event, error) {
	select {
	case event := <-w.events:
		return event, nil
	case <-ctx.Done():
		return Event{}, ctx.Err()
	case <-w.ended:
		if w.err != nil {
			return Event{}, w.err
		}
		return Event{}, newError(ErrClosed, "closed", "the watch was closed")
	}
}

// LastID is the id after which another watch resumes.
func (w *Watch) LastID() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.lastID
}

// Close ends the watch. It is idempotent.
func (w *Watch) Close() {
	w.cancel()
	<-w.ended
}
