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
	c.service.handle(request.Method, request.URL.EscapedPath(), data, c.now, func(status int, value object) {
		encoded, err := json.Marshal(value) // now: the service goes on with the same objects
		if err != nil {
			panic(err)
		}
		arrive := func() { answered <- reply{status, encoded} }
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

// timer of the manual clock.
type timer struct {
	at   int64
	fire context.CancelFunc
}

func (c *Cluster) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	t := &timer{c.now + later(d.Milliseconds(), 1), cancel}
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
