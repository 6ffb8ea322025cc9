package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// helloFor is the hello of a real client, in one record.
func helloFor(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, CurvePreferences: []tls.CurveID{tls.X25519}}).Handshake()
	}()
	defer client.Close()
	defer server.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// serversHello is a message of a server's with a random, in records of so many bytes.
func serversHello(random string, size int) (all []byte) {
	body := slices.Concat([]byte{3, 3}, []byte(random), []byte{0, 0x13, 1, 0, 0, 0})
	for piece := range slices.Chunk(append([]byte{2, 0, 0, byte(len(body))}, body...), size) {
		all = append(append(all, 22, 3, 3, 0, byte(len(piece))), piece...)
	}
	return all
}

// TestSecondHelloIsHeldToTheName: the server sees the second hello of TLS 1.3 only if its name is that
// of the first, whatever stands between, and however the server's request for it is cut.
func TestSecondHelloIsHeldToTheName(t *testing.T) {
	const retry = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"
	const final = "0123456789abcdef0123456789abcdef"
	ok, evil := helloFor(t, "ok.test"), helloFor(t, "evil.test")
	ccs, data := []byte{20, 3, 3, 0, 1, 1}, []byte{23, 3, 3, 0, 3, 'x', 'y', 'z'}
	alert := []byte{21, 3, 3, 0, 2, 1, 112}
	keys := []byte{22, 3, 3, 0, 6, 16, 0, 0, 2, 1, 1} // of TLS 1.2
	for name, c := range map[string]struct {
		answer  []byte
		says    []byte // behind the first hello
		arrives []byte
		why     string
	}{
		"the same name":                     {serversHello(retry, 999), slices.Concat(ok, data), slices.Concat(ok, data), ""},
		"behind a change of cipher":         {serversHello(retry, 999), slices.Concat(ccs, ok, data), slices.Concat(ccs, ok, data), ""},
		"another":                           {serversHello(retry, 999), evil, nil, whyServerName},
		"another, after a retry in pieces":  {serversHello(retry, 1), evil, nil, whyServerName},
		"another, behind a warning":         {slices.Concat(alert, serversHello(retry, 999)), evil, nil, whyServerName},
		"another, behind data":              {serversHello(retry, 999), slices.Concat(ccs, data, evil), slices.Concat(ccs, data), whyServerName},
		"no hello":                          {serversHello(retry, 999), keys, nil, "not_hello"},
		"half a hello":                      {serversHello(retry, 999), ok[:40], nil, "unfinished"},
		"to none of TLS":                    {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ok, nil, "bad_server_hello"},
		"an alert to none of TLS":           {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), alert, alert, ""},
		"none of TLS":                       {serversHello(retry, 999), []byte("GET / HTTP/1.1\r\n\r\n"), nil, "not_hello"},
		"keys of TLS 1.2":                   {serversHello(final, 999), slices.Concat(keys, ccs, data), slices.Concat(keys, ccs, data), ""},
		"what is encrypted, and looks evil": {serversHello(final, 999), slices.Concat(ccs, evil), slices.Concat(ccs, evil), ""},
	} {
		for _, early := range []bool{true, false} { // before the server has answered
			t.Run(name, func(t *testing.T) {
				talk := conversation(t, anyone, "ok.test")
				if early {
					say(t, talk.client, string(slices.Concat(ok, c.says)))
				} else {
					say(t, talk.client, string(ok))
				}
				hear(t, talk.server, string(ok))
				// What needs no answer to be refused may be by now. A reset is told once: here, or when the server reads.
				_, reset := talk.server.Write(c.answer)
				if reset != nil && (!early || c.why == "") {
					t.Fatal(reset)
				}
				if !early {
					hear(t, talk.client, string(c.answer))
					say(t, talk.client, string(c.says))
				}
				_ = talk.client.CloseWrite()
				got, err := io.ReadAll(talk.server)
				// A reset may throw away what the server hasn't read.
				if c.why == "" && (err != nil || !slices.Equal(got, c.arrives)) || c.why != "" && (err == nil && reset == nil || len(got) > len(c.arrives) || !slices.Equal(got, c.arrives[:len(got)])) {
					t.Errorf("the server gets %x, %v; want %x, %q", got, err, c.arrives, c.why)
				}
				_ = talk.server.Close()
				<-talk.ended
				if a := <-talk.told; c.why != a.Why || c.why == whyServerName && a.Claimed != "evil.test" || c.why == "" && a.Verdict != status.AttemptAllowed {
					t.Errorf("told is %+v, want %q", a, c.why)
				}
			})
		}
	}
}

// TestRetriedHandshakesWork with a real client and a real server.
func TestRetriedHandshakesWork(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Do(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"ok.test"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Do(t, err)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		talk := conversation(t, anyone, "ok.test")
		server := tls.Server(talk.server, &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, CurvePreferences: []tls.CurveID{tls.CurveP256},
		})
		client := tls.Client(talk.client, &tls.Config{
			ServerName: "ok.test", InsecureSkipVerify: true, MaxVersion: version, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
		})
		go func() {
			_, _ = io.WriteString(client, "over TLS")
			_ = client.Close()
		}()
		got, err := io.ReadAll(server)
		if string(got) != "over TLS" || err != nil {
			t.Errorf("%#x: %q, %v", version, got, err)
		}
		if retried := server.ConnectionState().HelloRetryRequest; retried != (version == tls.VersionTLS13) {
			t.Errorf("%#x: the server asked for a second hello: %v", version, retried)
		}
		_ = server.Close()
		<-talk.ended
	}
}
