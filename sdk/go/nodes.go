package holdfast

import (
	"fmt"
	"math/rand"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The nodes, in rotation, with a circuit breaker for each (C6). No socket, no clock: the same rules as
// src/client/endpoints.h.

const (
	opensAfter   = 3 // failures in a row
	nodeRetryMS  = 25
	openMS       = 250
	openMaxMS    = 2000
	maxEndpoints = 64
)

var (
	jitterMutex  sync.Mutex
	jitterSource = rand.New(rand.NewSource(time.Now().UnixNano()))
)

// jitter is half of it to all of it.
func jitter(ms int64) int64 {
	jitterMutex.Lock()
	defer jitterMutex.Unlock()
	return ms/2 + jitterSource.Int63n(ms-ms/2+1)
}

// node is one endpoint. Its fields belong to nodes.mutex; address does not change.
type node struct {
	address   string
	failures  int // in a row
	notBefore int64
	tried     int64 // number of its last attempt
	probing   bool
	why       string
}

func (n *node) isOpen() bool { return n.failures >= opensAfter }

func (n *node) mayTry(now int64) bool { return !n.probing && now >= n.notBefore }

type nodes struct {
	mutex    sync.Mutex
	all      []*node
	attempts int64
	// isRestless: a node is tried at once after a failure. For the close of a client whose time does not pass (holdfasttest).
	isRestless bool
}

// parseEndpoint checks HOST:PORT or [IPV6]:PORT.
func parseEndpoint(text string) (string, error) {
	text = strings.TrimSpace(text)
	host, port, err := net.SplitHostPort(text)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	if err != nil || numberErr != nil || host == "" || number == 0 {
		return "", newError(ErrInvalid, "invalid_endpoint", "the endpoint %q is not HOST:PORT or [IPV6]:PORT", text)
	}
	return text, nil
}

func newNodes(endpoints []string) (*nodes, error) {
	n := &nodes{}
	for _, text := range endpoints {
		for _, one := range strings.Split(text, ",") {
			address, err := parseEndpoint(one)
			if err != nil {
				return nil, err
			}
			n.all = append(n.all, &node{address: address})
		}
	}
	if len(n.all) > maxEndpoints {
		return nil, newError(ErrInvalid, "invalid_endpoint", "%d endpoints were given, at most %d are possible", len(n.all), maxEndpoints)
	}
	return n, nil
}

// pick returns the node to try now: the fewest failures in a row, then the one used last, so that its connections serve
// again. Never `avoid` unless it is the only one. Nil: none may be tried yet.
func (n *nodes) pick(now int64, avoid *node) *node {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var best, avoided *node
	for _, one := range n.all {
		switch {
		case !one.mayTry(now) && !n.isRestless:
		case one == avoid:
			avoided = one
		case best == nil, one.failures < best.failures, one.failures == best.failures && one.tried > best.tried:
			best = one
		}
	}
	if best == nil {
		return avoided
	}
	return best
}

// begun notes an attempt. A wait may be silent for long, so it does not keep others from probing.
func (n *nodes) begun(one *node, waits bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.attempts++
	one.tried = n.attempts
	if !waits {
		one.probing = one.isOpen()
	}
}

func (n *nodes) succeeded(one *node) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	one.failures, one.notBefore, one.probing, one.why = 0, 0, false, ""
}

// learnedNothing ends an attempt that was cancelled.
func (n *nodes) learnedNothing(one *node) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	one.probing = false
}

func (n *nodes) failed(one *node, why string, now int64) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	one.failures++
	one.why = why
	one.probing = false
	rest := int64(nodeRetryMS)
	if one.isOpen() {
		rest = openMaxMS
		if doublings := one.failures - opensAfter; doublings < 8 {
			rest = earlier(openMS<<doublings, openMaxMS)
		}
	}
	one.notBefore = now + jitter(rest)
}

func (n *nodes) neverRest() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.isRestless = true
}

// allOpen: no circuit is closed and none may be probed, so a call fails at once (C6.3).
func (n *nodes) allOpen(now int64) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, one := range n.all {
		if !one.isOpen() || one.mayTry(now) {
			return false
		}
	}
	return true
}

func (n *nodes) describe() string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	texts := make([]string, len(n.all))
	for i, one := range n.all {
		texts[i] = one.address
		if one.why != "" {
			texts[i] = fmt.Sprintf("%s (%s)", one.address, one.why)
		}
	}
	return strings.Join(texts, ", ")
}
