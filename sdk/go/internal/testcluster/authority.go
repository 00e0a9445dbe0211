package testcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority in a folder.
type Authority struct {
	t      testing.TB
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	Pool   *x509.CertPool
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	a := &Authority{t: t, folder: t.TempDir(), Pool: x509.NewCertPool()}
	template := a.template("ca")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	a.check(err)
	a.cert, err = x509.ParseCertificate(der)
	a.check(err)
	a.Pool.AddCert(a.cert)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *Authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	return key
}

func (a *Authority) template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	a.check(err)
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

func (a *Authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.folder, name)
	a.check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// issue returns the files of a certificate and its key.
func (a *Authority) issue(name, uri string, hosts bool) (string, string) {
	template := a.template(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	identity, err := url.Parse(uri)
	a.check(err)
	template.URIs = []*url.URL{identity}
	if hosts {
		template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	}
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.check(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	a.check(err)
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+"-key.pem", "EC PRIVATE KEY", keyDER)
}

// Secure gives a node a certificate.
func (a *Authority) Secure(n *Node) {
	cert, key := a.issue(fmt.Sprintf("node-%d", n.ID), fmt.Sprintf("holdfast-node:test/%d", n.ID), true)
	n.Flags = append(n.Flags, "--tls-cert", cert, "--tls-key", key, "--tls-ca", filepath.Join(a.folder, "ca.pem"))
	n.TLS = &tls.Config{RootCAs: a.Pool}
}

// Client is the certificate of a principal, TENANT/NAME.
func (a *Authority) Client(tenant, name string) tls.Certificate {
	cert, key := a.issue(tenant+"-"+name, "holdfast:"+tenant+"/"+name, false)
	pair, err := tls.LoadX509KeyPair(cert, key)
	a.check(err)
	return pair
}
