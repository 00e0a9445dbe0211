package holdfasttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"
)

// The transport and the timers of a client of the fake.

var errDisconnected = errors.New("connecting timed out")

func (m *member) isConnected() bool {
	m.cluster.mutex.Lock()
	defer m.cluster.mutex.Unlock()
	return m.connected
}

func (m *member) connect() {
	m.cluster.mutex.Lock()
	defer m.cluster.mutex.Unlock()
	m.connected = true
	for _, arrive := range m.backlog {
		arrive()
	}
	m.backlog = nil
}

type reply struct {
	status int
	data   []byte
}

// RoundTrip makes it an http.RoundTripper. While it is disconnected, requests do not leave and answers do not arrive.
func (m *member) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodDelete { // the end of the client
		m.connect()
	}
	var data []byte
	if request.Body != nil {
		data, _ = io.ReadAll(request.Body)
		request.Body.Close()
	}
	c := m.cluster
	c.mutex.Lock()
	if !m.connected {
		c.mutex.Unlock()
		return nil, errDisconnected
	}
	if trace := httptrace.ContextClientTrace(request.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if strings.HasPrefix(request.URL.Path, "/api/v1/watch") {
		defer c.mutex.Unlock()
		return m.watch(request), nil
	}
	answered := make(chan reply, 1)
	o, isAwaited := operationOf(request.Context()), true
	o.rest()
	c.service.handle(request.Method, request.URL.EscapedPath(), data, c.now, func(status int, value object) {
		encoded, err := json.Marshal(value) // now: the service goes on with the same objects
		if err != nil {
			panic(err)
		}
		arrive := func() {
			if isAwaited {
				o.work()
			}
			answered <- reply{status, encoded}
		}
		if m.connected {
			arrive()
		} else {
			m.backlog = append(m.backlog, arrive)
		}
	})
	c.mutex.Unlock()
	select {
	case r := <-answered:
		return response(request, r.status, io.NopCloser(bytes.NewReader(r.data))), nil
	case <-request.Context().Done():
	}
	c.mutex.Lock()
	isAwaited = false
	o.work()
	c.mutex.Unlock()
	select {
	case r := <-answered: // both were ready
		return response(request, r.status, io.NopCloser(bytes.NewReader(r.data))), nil
	default:
		return nil, request.Context().Err()
	}
}

func response(request *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: body, Request: request}
}

// watch needs the mutex of the cluster.
func (m *member) watch(request *http.Request) *http.Response {
	c := m.cluster
	s := c.service.events.subscribe(request.URL.Query(), request.Header.Get("Last-Event-ID"))
	go func() {
		<-request.Context().Done()
		s.Close()
		c.mutex.Lock()
		defer c.mutex.Unlock()
		delete(c.service.events.streams, s)
	}()
	return response(request, http.StatusOK, s)
}

// operation of a client, in the context of its requests. It works unless it waits for an answer or sleeps; what ends that makes it
// work again, before its goroutine runs. Nil: that of a keep-alive or a stream, which count as resting.
type operation struct {
	cluster   *Cluster
	isWorking bool
}

type operationKey struct{}

func operationOf(ctx context.Context) *operation {
	o, _ := ctx.Value(operationKey{}).(*operation)
	return o
}

func (c *Cluster) begin(ctx context.Context) (context.Context, func()) {
	o := &operation{cluster: c}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	o.work()
	return context.WithValue(ctx, operationKey{}, o), func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		o.rest()
		o.cluster = nil // what arrives later has no effect
	}
}

// work needs the mutex of the cluster, as rest does.
func (o *operation) work() {
	if o != nil && o.cluster != nil && !o.isWorking {
		o.isWorking = true
		o.cluster.working++
		o.cluster.resumed++
	}
}

func (o *operation) rest() {
	if o != nil && o.cluster != nil && o.isWorking {
		o.isWorking = false
		o.cluster.working--
	}
}

// timer of the manual clock.
type timer struct {
	at        int64
	operation *operation
	cancel    context.CancelFunc
}

// fire needs the mutex of the cluster.
func (t *timer) fire() {
	t.operation.work()
	t.cancel()
}

func (c *Cluster) sleep(ctx context.Context, d time.Duration) {
	timer, cancel := c.withTimeout(ctx, d)
	defer cancel()
	o := operationOf(ctx)
	c.mutex.Lock()
	if timer.Err() == nil {
		o.rest()
	}
	c.mutex.Unlock()
	<-timer.Done()
	c.mutex.Lock()
	o.work()
	c.mutex.Unlock()
}

func (c *Cluster) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	t := &timer{c.now + later(d.Milliseconds(), 1), operationOf(ctx), cancel}
	c.timers[t] = true
	return limited, func() {
		c.mutex.Lock()
		delete(c.timers, t)
		c.mutex.Unlock()
		cancel()
	}
}

func later(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
