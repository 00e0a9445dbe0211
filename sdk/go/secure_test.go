package holdfast

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testcluster"
)

// TLS, tokens, client certificates and tenants against real nodes (docs/CLIENTS.md, C7).

type grant struct {
	Tenant string   `json:"tenant"`
	Prefix string   `json:"prefix"`
	Rights []string `json:"rights"`
}

type principal struct {
	Tenant string  `json:"tenant"`
	Name   string  `json:"name"`
	Grants []grant `json:"grants"`
}

func TestTLSTokensCertificatesAndTenants(t *testing.T) {
	t.Parallel()
	authority := testcluster.NewAuthority(t)
	c := testcluster.New(t, 3)
	for _, n := range c.Nodes {
		authority.Secure(n)
	}
	c.Start("--bootstrap")
	node := c.Nodes[0]
	all := []string{"lock", "read", "operate", "admin"}
	policy := map[string]any{
		"tenants": []map[string]string{{"name": "default"}, {"name": "red"}, {"name": "blue"}},
		"principals": []principal{
			{"default", "root", []grant{{"*", "*", all}}},
			{"red", "app", []grant{{"red", "app/", []string{"lock"}}}},
		},
	}
	node.Request("PUT", "/api/v1/auth/policy", policy, nil)
	newToken := func(principal string) string {
		var made struct {
			Token string `json:"token"`
		}
		node.Request("POST", "/api/v1/auth/tokens", map[string]string{"principal": principal, "description": "test"}, &made)
		return made.Token
	}
	root, red := newToken("default/root"), newToken("red/app")
	for _, n := range c.Nodes {
		n.Stop()
		n.Flags = append(n.Flags, "--auth", "on")
		n.Token = root
	}
	c.Start()

	verified := &tls.Config{RootCAs: authority.Pool}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(red+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := openClient(t, c, Options{TLS: verified, TokenFile: file})
	lock, err := fromFile.TryLock(patience(t), "app/one")
	mustLock(t, lock, err)
	_, err = fromFile.TryLock(patience(t), "other")
	expectKind(t, "without the right", err, ErrDenied)
	expect(t, "code", CodeOf(err), "denied")
	for _, secret := range []string{red, lock.session.id} {
		if strings.Contains(err.Error(), secret) {
			t.Error("the text of the error has a secret") // C7.2
		}
	}

	withCertificate := verified.Clone()
	withCertificate.Certificates = []tls.Certificate{authority.Client("red", "app")}
	_, err = openClient(t, c, Options{TLS: withCertificate}).TryLock(patience(t), "app/one")
	expectKind(t, "the same lock by a certificate of the tenant", err, ErrNotAcquired)
	blue, err := openClient(t, c, Options{TLS: verified, Token: root, Tenant: "blue"}).TryLock(patience(t), "app/one")
	mustLock(t, blue, err)

	// A token that was replaced: the file is read again when a node refuses the old one.
	fresh := newToken("red/app")
	fromFile.engine.transport.token.mutex.Lock()
	fromFile.engine.transport.token.token = "hf_unknown"
	fromFile.engine.transport.token.mutex.Unlock()
	if err := os.WriteFile(file, []byte(fresh), 0o600); err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, lock)

	_, err = openClient(t, c, Options{TLS: verified}).TryLock(patience(t), "app/one")
	expect(t, "without credentials", CodeOf(err), "unauthenticated")
	unverified := openClient(t, c, Options{TLS: &tls.Config{}, Token: red, Timeout: time.Second})
	_, err = unverified.TryLock(patience(t), "app/one")
	expectKind(t, "an unknown authority", err, ErrUnreachable)
	if !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	otherName := verified.Clone()
	otherName.ServerName = "elsewhere"
	_, err = openClient(t, c, Options{TLS: otherName, Token: red, Timeout: time.Second}).TryLock(patience(t), "app/one")
	expectKind(t, "another name", err, ErrUnreachable)
}
