// Package testcluster runs clusters of real nodes for the tests of the Go client: the program that HOLDFAST names, on ports
// of 127.0.0.1, in folders that the test removes. Nodes die with the process that started them.
package testcluster

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience ends a test that hangs. It is no promised time.
const Patience = 60 * time.Second

const (
	firstPort = 10000 // below the ports that the kernel gives to clients
	lastPort  = 32000
)

// program is the one under test. Without it the test is skipped, and fails in CI.
func program(t testing.TB) string {
	path := os.Getenv("HOLDFAST")
	if path == "" {
		_, err := os.Stat("../../build/holdfast")
		if err != nil && os.Getenv("CI") != "true" {
			t.Skip("HOLDFAST names no program; build one with scripts/build release")
		}
		path = "../../build/holdfast"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// WaitUntil polls, since what is waited for happens in other processes.
func WaitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// reserve takes a free port by binding an abstract Unix socket named after it, as tests/cluster/harness.py does, so that
// tests that run at the same time never take the same one.
func reserve(t testing.TB) int {
	source := rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())<<32))
	for {
		port := firstPort + source.Intn(lastPort-firstPort)
		mark, err := net.Listen("unix", fmt.Sprintf("@holdfast-test-port-%d", port))
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			mark.Close()
			continue
		}
		probe.Close()
		t.Cleanup(func() { mark.Close() })
		return port
	}
}

// Node is one process of `holdfast serve`.
type Node struct {
	ID     int
	Client string
	Flags  []string
	TLS    *tls.Config // of requests of the test
	Token  string      // of requests of the test

	t       testing.TB
	program string
	folder  string
	peer    string
	members string
	process *exec.Cmd
	ready   *os.File
	paused  bool
}

// Cluster of nodes.
type Cluster struct {
	Nodes []*Node
	t     testing.TB
}

// New makes a cluster without starting it.
func New(t testing.TB, count int) *Cluster {
	c := &Cluster{t: t}
	path, folder := program(t), t.TempDir()
	var members []string
	for i := 1; i <= count; i++ {
		n := &Node{ID: i, t: t, program: path, folder: filepath.Join(folder, fmt.Sprintf("node-%d", i)),
			Client: fmt.Sprintf("127.0.0.1:%d", reserve(t)), peer: fmt.Sprintf("127.0.0.1:%d", reserve(t))}
		members = append(members, fmt.Sprintf("%d=%s", i, n.peer))
		c.Nodes = append(c.Nodes, n)
	}
	for _, n := range c.Nodes {
		n.members = strings.Join(members, ",")
	}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			n.Kill()
		}
	})
	return c
}

// Start makes a cluster and waits until it serves.
func Start(t testing.TB, count int) *Cluster {
	c := New(t, count)
	c.Start("--bootstrap")
	return c
}

// Start starts all nodes and waits until they serve.
func (c *Cluster) Start(flags ...string) {
	c.t.Helper()
	for _, n := range c.Nodes {
		n.Start(flags...)
	}
	for _, n := range c.Nodes {
		n.WaitReady()
	}
}

// Endpoints of all nodes.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, n.Client)
	}
	return all
}

// Leader is the node that a majority agrees to lead, and that is not `but`.
func (c *Cluster) Leader(but *Node) *Node {
	c.t.Helper()
	var leader *Node
	WaitUntil(c.t, "there is a leader", func() bool {
		votes := map[int]int{}
		for _, n := range c.Nodes {
			if n.process == nil || n.paused {
				continue
			}
			var view struct {
				Leader  int  `json:"leader"`
				Serving bool `json:"serving"`
			}
			if status, err := n.Try("GET", "/api/v1/cluster", nil, &view); err == nil && status == 200 && view.Serving {
				votes[view.Leader]++
			}
		}
		for id, count := range votes {
			if id > 0 && 2*count > len(c.Nodes) && c.Nodes[id-1].process != nil && c.Nodes[id-1] != but {
				leader = c.Nodes[id-1]
				return true
			}
		}
		return false
	})
	return leader
}

// Signal sends a signal to all running nodes.
func (c *Cluster) Signal(signal syscall.Signal) {
	for _, n := range c.Nodes {
		n.Signal(signal)
	}
}

// Start starts the process. WaitReady waits until it serves.
func (n *Node) Start(flags ...string) {
	n.t.Helper()
	ours, theirs, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	log, err := os.OpenFile(n.folder+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	arguments := []string{"serve", "--id", strconv.Itoa(n.ID), "--data", n.folder, "--client", n.Client, "--peer", n.peer,
		"--resp", "off", "--cluster", n.members, "--cluster-name", "test", "--ready-fd", "3"}
	arguments = append(append(arguments, n.Flags...), flags...)
	n.process = exec.Command("setpriv", append([]string{"--pdeathsig", "KILL", n.program}, arguments...)...)
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "HOLDFAST") {
			n.process.Env = append(n.process.Env, setting)
		}
	}
	n.process.Stdout, n.process.Stderr = log, log
	n.process.ExtraFiles = []*os.File{theirs}
	err = n.process.Start()
	theirs.Close()
	if err != nil {
		n.t.Fatal(err)
	}
	n.ready, n.paused = ours, false
}

// WaitReady returns when the node reports that it serves.
func (n *Node) WaitReady() {
	n.t.Helper()
	defer n.ready.Close()
	n.ready.SetReadDeadline(time.Now().Add(Patience))
	if count, err := n.ready.Read(make([]byte, 64)); err != nil || count == 0 {
		log, _ := os.ReadFile(n.folder + ".log")
		n.t.Fatalf("node %d is not ready (%v):\n%s", n.ID, err, log)
	}
}

// Kill ends the process at once.
func (n *Node) Kill() {
	if n.process != nil {
		n.process.Process.Kill()
		n.process.Wait()
		n.process = nil
	}
}

// Stop ends the process in order.
func (n *Node) Stop() {
	n.t.Helper()
	n.Signal(syscall.SIGTERM)
	if err := n.process.Wait(); err != nil {
		n.t.Fatalf("node %d: %v", n.ID, err)
	}
	n.process = nil
}

// Signal sends a signal to the process.
func (n *Node) Signal(signal syscall.Signal) {
	if n.process == nil {
		return
	}
	n.process.Process.Signal(signal)
	if signal == syscall.SIGSTOP || signal == syscall.SIGCONT {
		n.paused = signal == syscall.SIGSTOP
	}
}

// Try is one request of the test, past the client under test. The answer is decoded into `into`, if it is not nil.
func (n *Node) Try(method, path string, body, into any) (int, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	scheme := "http"
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: n.TLS}
	if n.TLS != nil {
		scheme = "https"
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, scheme+"://"+n.Client+path, reader)
	if err != nil {
		return 0, err
	}
	if n.Token != "" {
		request.Header.Set("Authorization", "Bearer "+n.Token)
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	return response.StatusCode, err
}

// Request is a request that must be answered 200, soon.
func (n *Node) Request(method, path string, body, into any) {
	n.t.Helper()
	WaitUntil(n.t, method+" "+path, func() bool {
		status, err := n.Try(method, path, body, into)
		return err == nil && status == 200
	})
}

// View is what the service shows of a name.
type View struct {
	Held        bool `json:"held"`
	QueueLength int  `json:"queue_length"`
	Holders     []struct {
		ClientID string `json:"client_id"`
	} `json:"holders"`
}

// Show reads a lock.
func (n *Node) Show(name string) View {
	n.t.Helper()
	var view View
	n.Request("GET", "/api/v1/locks/"+url.PathEscape(name), nil, &view)
	return view
}

// ForceUnlock ends the hold on a name, as an operator.
func (n *Node) ForceUnlock(name string) {
	n.t.Helper()
	n.Request("POST", "/api/v1/locks/"+url.PathEscape(name)+"/force-unlock", map[string]any{"actor_id": "operator", "reason": "a test"}, nil)
}
