// Package holdfasttest is a fake for tests of applications: the real client on a cluster in memory, with a manual clock.
//
//	cluster := holdfasttest.NewCluster()
//	client := cluster.Client("a")
//	defer client.Close()
//	lock, err := client.Lock(ctx, "job", holdfast.TTL(10*time.Second))
//	cluster.Advance(time.Minute) // keep-alives arrive: still held
//	cluster.Lose(lock)           // or: cluster.Disconnect(client); cluster.Advance(31 * time.Second)
//	if !errors.Is(lock.Check(), holdfast.ErrLockLost) { ... }
//
// Time moves only by Advance, also for timeouts and the end of a wait: a call of a client that is disconnected returns when
// another goroutine advances the time. Not part of the fake: deadlock detection, TLS and credentials.
package holdfasttest

import (
	"fmt"
	"sync"
	"time"

	"holdfast"
	"holdfast/internal/hook"
)

const (
	start    = int64(1_000_000)
	patience = 10 * time.Second // for callbacks and conditions
)

// Cluster is the service, its clock and its clients. Many goroutines may use it.
type Cluster struct {
	advancing sync.Mutex // one goroutine moves the time
	mutex     sync.Mutex // all below
	service   *service
	now       int64
	timers    map[*timer]bool
	members   []*member
	working   int   // operations of clients that neither wait for an answer nor sleep
	resumed   int64 // how often one of them began to work
}

// member is a client of the cluster.
type member struct {
	cluster   *Cluster
	client    *holdfast.Client
	driver    hook.Driver
	connected bool
	backlog   []func() // answers that did not arrive
	seen      int64    // the last event that its session got
}

// NewCluster has no clients yet. Its clock stands.
func NewCluster() *Cluster {
	return &Cluster{service: newService(), now: start, timers: map[*timer]bool{}}
}

// Client of this cluster. Close it.
func (c *Cluster) Client(id string) *holdfast.Client {
	return c.ClientWith(holdfast.Options{ClientID: id})
}

// ClientWith is a client with other options. Endpoints, TLS and credentials mean nothing here.
func (c *Cluster) ClientWith(options holdfast.Options) *holdfast.Client {
	options.Endpoints, options.TLS, options.Token, options.TokenFile = []string{"fake:1"}, nil, "", ""
	m := &member{cluster: c, connected: true}
	client, driver, err := hook.Open(options, hook.Parts{Now: c.nowMS, WithTimeout: c.withTimeout, Sleep: c.sleep, Begin: c.begin, Transport: m})
	if err != nil {
		panic(err)
	}
	m.client, m.driver = client.(*holdfast.Client), driver
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.members = append(c.members, m)
	return m.client
}

// Now is the time of the cluster.
func (c *Cluster) Now() time.Time { return time.UnixMilli(c.nowMS()).UTC() }

func (c *Cluster) nowMS() int64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

// Advance lets time pass: with keep-alives for connected clients, without for others. Then contexts of lost locks are
// cancelled, and callbacks have run. A callback must not call it.
func (c *Cluster) Advance(d time.Duration) {
	if d < 0 {
		panic("holdfasttest: time does not go back")
	}
	c.advancing.Lock()
	defer c.advancing.Unlock()
	target := c.nowMS() + d.Milliseconds()
	for isOver := false; !isOver; {
		resumed := c.waitForAnswers()
		next := c.next()
		isOver = next > target
		if isOver {
			next = target
		}
		isOver = c.step(next, resumed) && isOver
	}
	c.waitForAnswers()
	c.report()
}

// next is when something happens.
func (c *Cluster) next() int64 {
	c.mutex.Lock()
	at := c.service.next()
	for t := range c.timers {
		if t.at < at {
			at = t.at
		}
	}
	now := c.now
	c.mutex.Unlock()
	for _, m := range c.all() {
		if due, isOpen := m.driver.NextKeepAlive(); isOpen && m.isConnected() && due < at {
			at = due
		}
		if look := m.driver.Tick(); look < at {
			at = look
		}
	}
	if at < now {
		at = now
	}
	return at
}

// step: false if an operation began to work meanwhile: it happens before.
func (c *Cluster) step(now, resumed int64) bool {
	c.mutex.Lock()
	if c.resumed != resumed {
		c.mutex.Unlock()
		return false
	}
	c.now = now
	c.service.sweep(now)
	for t := range c.timers {
		if t.at <= now {
			delete(c.timers, t)
			t.fire()
		}
	}
	c.mutex.Unlock()
	for _, m := range c.all() {
		if due, isOpen := m.driver.NextKeepAlive(); isOpen && m.isConnected() && due <= now {
			m.driver.KeepAlive()
		}
		m.driver.Tick()
	}
	c.deliver()
	return true
}

// waitForAnswers returns when all operations of clients wait for time to pass, or for what other clients do, with `resumed` of then.
func (c *Cluster) waitForAnswers() (resumed int64) {
	isResting := func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		resumed = c.resumed
		return c.working == 0
	}
	if !c.Eventually(isResting) {
		panic(fmt.Sprintf("holdfasttest: a call of a client has not come to rest for %v; is this machine overloaded?", patience))
	}
	return resumed
}

func (c *Cluster) all() []*member {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return append([]*member(nil), c.members...)
}

// deliver passes on what the service reports to the sessions of connected clients.
func (c *Cluster) deliver() {
	for _, m := range c.all() {
		id := m.driver.SessionID()
		c.mutex.Lock()
		var reported []*event
		if m.connected && id != "" {
			reported = c.service.events.ofSession(id, m.seen)
			m.seen = c.service.events.number
		}
		c.mutex.Unlock()
		for _, one := range reported {
			m.driver.Event(one.kind, one.data)
		}
	}
}

// report returns when all callbacks have run.
func (c *Cluster) report() {
	c.deliver()
	isOver := c.Eventually(func() bool {
		for _, m := range c.all() {
			if !m.driver.Idle() {
				return false
			}
		}
		return true
	})
	if !isOver {
		panic(fmt.Sprintf("holdfasttest: a callback has not returned for %v; it must not call the cluster, nor wait for its time to pass", patience))
	}
}

// Eventually reports whether the condition becomes true, within 10 s of real time: for what other goroutines do.
func (c *Cluster) Eventually(condition func() bool) bool {
	for end := time.Now().Add(patience); !condition(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func (c *Cluster) memberOf(client *holdfast.Client) *member {
	for _, m := range c.all() {
		if m.client == client {
			return m
		}
	}
	panic("holdfasttest: this client is not of this cluster")
}

// Disconnect: nothing arrives from or at the client any longer. Its Close connects it.
func (c *Cluster) Disconnect(client *holdfast.Client) {
	m := c.memberOf(client)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	m.connected = false
}

// Connect ends that. What the client repeats in the background arrives when time passes.
func (c *Cluster) Connect(client *holdfast.Client) {
	m := c.memberOf(client)
	m.connect()
	m.driver.Tick() // what is lost stays lost
	c.report()
}

// Lose loses this lock now: the service ends it, as after a force-unlock, and a connected client is notified.
func (c *Cluster) Lose(lock *holdfast.Lock) {
	c.withGrant(lock, func(g *grant) { c.service.end(g, "forced", c.now) })
}

// Revoke: an operator requests the lock and takes it after d.
func (c *Cluster) Revoke(lock *holdfast.Lock, d time.Duration, reason string) {
	c.withGrant(lock, func(g *grant) { c.service.requestRevocation(g, c.now+d.Milliseconds(), "test", reason, c.now) })
}

func (c *Cluster) withGrant(lock *holdfast.Lock, work func(*grant)) {
	c.mutex.Lock()
	if g := c.service.grantOf(lock.FenceToken()); g != nil {
		work(g)
	}
	c.mutex.Unlock()
	c.report()
}

// ChangeLeader is a failover: locks of the tier EFFICIENCY are lost, others are not.
func (c *Cluster) ChangeLeader() {
	c.mutex.Lock()
	c.service.changeLeader(c.now)
	c.mutex.Unlock()
	for _, m := range c.all() {
		if m.isConnected() {
			m.driver.KeepAlive() // its answer has the epoch
		}
	}
	c.report()
}

// Holders are the ids of the clients that hold the name.
func (c *Cluster) Holders(name string) []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	ids := []string{}
	for _, g := range c.service.grantsOf(name) {
		ids = append(ids, g.session.clientID)
	}
	return ids
}

// Waiters is the length of the queue.
func (c *Cluster) Waiters(name string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.service.waitersOf(name))
}
