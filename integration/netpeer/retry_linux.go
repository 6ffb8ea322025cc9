package main

import (
	"crypto/tls"
	"io"
	"net"
	"slices"

	"github.com/confine-run/confine/internal/attempts"
)

// portRetry asks for a second hello of TLS 1.3, and serves whatever name that one has.
const portRetry = 1008

var retryWords = []attempts.Try{
	{Name: "retry", Args: 3, Do: talk(retry)}, // ADDRESS NAME NAME: a hello for each; prints the name of the certificate
}

// retryRequest is a HelloRetryRequest (RFC 8446, section 4.1.4).
var retryRequest = slices.Concat([]byte{22, 3, 3, 0, 44, 2, 0, 0, 40, 3, 3},
	[]byte("\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"),
	[]byte{0, 0x13, 1, 0, 0, 0})

// retries begins with the second hello as if there had been no first one: the client, which
// wrote both, does the same.
func (a *authority) retries(c *net.TCPConn) {
	if _, err := tlsRecord(c); err == nil {
		_, _ = c.Write(retryRequest)
		_ = tls.Server(c, &tls.Config{GetCertificate: a.certificate}).Handshake()
	}
}

// tlsRecord reads one of TLS.
func tlsRecord(from io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	_, err := io.ReadFull(from, body)
	return append(head, body...), err
}

// firstHello is a real client's.
func firstHello(name string) ([]byte, error) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: name}).Handshake() }()
	return tlsRecord(server)
}

func retry(c *net.TCPConn, args []string) error {
	first, err := firstHello(args[1])
	if err != nil {
		return err
	}
	if _, err := c.Write(first); err != nil {
		return err
	}
	if _, err := tlsRecord(c); err != nil {
		return err
	}
	return handshake(c, args[2])
}
