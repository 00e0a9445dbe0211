package holdfast

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxBody       = 16 << 20
	maxHeader     = 64 << 10
	maxIdleByNode = 16
	idleFor       = 90 * time.Second
)

// reply has the fields of all answers that this client reads.
type reply struct {
	Acquired     bool   `json:"acquired"`
	Elected      bool   `json:"elected"`
	Renewed      bool   `json:"renewed"`
	Reason       string `json:"reason"`
	Ended        string `json:"ended"`
	FencingToken int64  `json:"fencing_token"`
	Slot         *int   `json:"slot"`
	LeaderEpoch  int64  `json:"leader_epoch"`
	// Of a keep-alive whose tokens differ: what the session holds; nil: they were the same.
	Locks []struct {
		Token int64 `json:"fencing_token"`
	} `json:"locks"`
	NextCursor  string  `json:"next_cursor"`
	WaitedMS    int64   `json:"waited_ms"`
	Holder      *Holder `json:"holder"`
	QueueLength int     `json:"queue_length"`
	SessionID   string  `json:"session_id"`
	TTLMS       int64   `json:"ttl_ms"`
	KeepaliveMS int64   `json:"keepalive_ms"`
	Error       *struct {
		Code         string `json:"code"`
		Message      string `json:"message"`
		RetryAfterMS int64  `json:"retry_after_ms"`
	} `json:"error"`
}

func (r *reply) errorCode() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// attemptError is an attempt without an answer.
type attemptError struct {
	sent bool // the request may have been done; false: it was certainly not
	why  string
}

func (e *attemptError) Error() string { return e.why }

// transport sends one request to one node, over HTTP/1.1.
type transport struct {
	scheme  string
	tenant  string
	token   *tokenSource
	newTrip func() http.RoundTripper
	mutex   sync.Mutex
	trips   map[*node]http.RoundTripper // one for each node, so that its connections can be closed
}

func newTransport(o *Options, token *tokenSource) *transport {
	t := &transport{scheme: "http", tenant: o.Tenant, token: token, trips: map[*node]http.RoundTripper{}}
	if o.TLS != nil {
		t.scheme = "https"
	}
	dialer := &net.Dialer{Timeout: o.ConnectTimeout}
	config := o.TLS
	t.newTrip = func() http.RoundTripper {
		return &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        config.Clone(),
			TLSHandshakeTimeout:    dialer.Timeout,
			TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1
			MaxIdleConnsPerHost:    maxIdleByNode,
			IdleConnTimeout:        idleFor,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
		}
	}
	return t
}

func (t *transport) trip(n *node) http.RoundTripper {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.trips[n] == nil {
		t.trips[n] = t.newTrip()
	}
	return t.trips[n]
}

// closeIdle closes the connections to a node that no request uses.
func (t *transport) closeIdle(n *node) {
	if trip, ok := t.trip(n).(interface{ CloseIdleConnections() }); ok {
		trip.CloseIdleConnections()
	}
}

func (t *transport) close() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, trip := range t.trips {
		if closer, ok := trip.(interface{ CloseIdleConnections() }); ok {
			closer.CloseIdleConnections()
		}
	}
}

// send returns when the headers of the answer were read. After an answer 401, a token that has changed in its file is
// tried once.
func (t *transport) send(ctx context.Context, n *node, method, path string, body []byte, header http.Header) (*http.Response, *attemptError) {
	response, err := t.sendOnce(ctx, n, method, path, body, header)
	if err == nil && response.StatusCode == http.StatusUnauthorized && t.token.reload() {
		response.Body.Close()
		return t.sendOnce(ctx, n, method, path, body, header)
	}
	return response, err
}

func (t *transport) sendOnce(ctx context.Context, n *node, method, path string, body []byte, header http.Header) (*http.Response, *attemptError) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, t.scheme+"://"+n.address+path, reader)
	if err != nil {
		return nil, &attemptError{false, err.Error()}
	}
	for key, values := range header {
		request.Header[key] = values
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "holdfast-go")
	if token := t.token.get(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if t.tenant != "" {
		request.Header.Set("Holdfast-Tenant", t.tenant)
	}
	response, err := t.trip(n).RoundTrip(request)
	if err != nil {
		return nil, &attemptError{connected.Load(), describeFailure(err)}
	}
	return response, nil
}

func describeFailure(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// do is one attempt with its whole answer.
func (t *transport) do(ctx context.Context, n *node, method, path string, body []byte) (int, *reply, *attemptError) {
	response, failed := t.send(ctx, n, method, path, body, nil)
	if failed != nil {
		return 0, nil, failed
	}
	return readReply(response)
}

func readReply(response *http.Response) (int, *reply, *attemptError) {
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return 0, nil, &attemptError{true, describeFailure(err)}
	}
	if len(data) > maxBody {
		return 0, nil, &attemptError{true, "the answer is too large"}
	}
	r := &reply{}
	if err := json.Unmarshal(data, r); err != nil && response.StatusCode == http.StatusOK {
		return 0, nil, &attemptError{true, "the answer is not JSON of Holdfast"}
	} else if err != nil {
		r = &reply{}
	}
	return response.StatusCode, r, nil
}
