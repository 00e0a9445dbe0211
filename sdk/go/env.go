package holdfast

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
)

// OptionsFromEnv has the settings of the environment that libholdfast and the command line use, too: HOLDFAST_ENDPOINTS
// (HOST:PORT,...), HOLDFAST_CA (a PEM file; "system": the CAs of the machine), HOLDFAST_CERT and HOLDFAST_KEY (the client
// certificate), HOLDFAST_SERVER_NAME, HOLDFAST_TOKEN_FILE and HOLDFAST_TENANT. TLS is on if one of the four settings of TLS
// is there.
func OptionsFromEnv() (Options, error) {
	o := Options{TokenFile: os.Getenv("HOLDFAST_TOKEN_FILE"), Tenant: os.Getenv("HOLDFAST_TENANT")}
	if endpoints := os.Getenv("HOLDFAST_ENDPOINTS"); endpoints != "" {
		o.Endpoints = strings.Split(endpoints, ",")
	}
	ca, cert, key := os.Getenv("HOLDFAST_CA"), os.Getenv("HOLDFAST_CERT"), os.Getenv("HOLDFAST_KEY")
	name := os.Getenv("HOLDFAST_SERVER_NAME")
	if ca+cert+key+name == "" {
		return o, nil
	}
	config, err := TLSConfig(ca, cert, key)
	if err != nil {
		return o, err
	}
	config.ServerName = name
	o.TLS = config
	return o, nil
}

// TLSConfig reads PEM files. `ca` verifies the nodes; "" and "system" are the CAs of the machine. `cert` and `key` are the
// client certificate, or both "".
func TLSConfig(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" && ca != "system" {
		data, err := os.ReadFile(ca)
		if err != nil {
			return nil, newError(ErrInvalid, "invalid_ca", "the file of CAs cannot be read: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, newError(ErrInvalid, "invalid_ca", "the file %s has no certificate in PEM form", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, newError(ErrInvalid, "invalid_certificate", "the client certificate cannot be used: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
