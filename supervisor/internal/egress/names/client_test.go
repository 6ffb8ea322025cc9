package names

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// serve has a server answer on UDP and TCP at one address until the test ends, and says which.
func serve(t *testing.T, s *Server, address string) string {
	t.Helper()
	stream, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	address = stream.Addr().String()
	datagrams, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = datagrams.Close() })
	go func() {
		for {
			buf := make([]byte, sizeTCP)
			n, from, err := datagrams.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.Answer(context.Background(), buf[:n], false); reply != nil {
				_, _ = datagrams.WriteTo(reply, from)
			}
		}
	}()
	go func() {
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			go serveStream(s, conn)
		}
	}()
	return address
}

func serveStream(s *Server, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		msg := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, msg); err != nil {
			return
		}
		reply := s.Answer(context.Background(), msg, true)
		if reply == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

func TestGoAsksAndUnderstands(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		s, log := newServer()
		address := serve(t, s, "127.0.0.1:0")
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
		lookup := func(name string) (string, *net.DNSError) {
			found, err := r.LookupNetIP(t.Context(), "ip", name)
			var dns *net.DNSError
			if err != nil && !errors.As(err, &dns) {
				t.Fatal(err)
			}
			texts := []string{}
			for _, addr := range found {
				texts = append(texts, addr.Unmap().String())
			}
			slices.Sort(texts)
			return strings.Join(texts, " "), dns
		}
		if got, err := lookup("WWW.Example.org."); got != first4+" "+first6 || err != nil {
			t.Errorf("%s: %s %v", network, got, err)
		}
		if got, err := lookup("gone.example.org."); got != "" || !err.IsNotFound {
			t.Errorf("%s: a name that doesn't exist: %s %v", network, got, err)
		}
		if got, err := lookup("x.example.net."); got != "" || err.IsNotFound {
			t.Errorf("%s: a lookup that failed: %s %v", network, got, err)
		}
		if log.String() != "" {
			t.Errorf("%s: told %q", network, log)
		}
		if got, err := lookup("evil.com."); got != "" || err.IsNotFound || !strings.Contains(log.String(), "evil.com not_allowed") {
			t.Errorf("%s: a name that isn't allowed: %s %v, told %q", network, got, err, log)
		}
		if back, err := r.LookupAddr(t.Context(), first6); err != nil || !slices.Equal(back, []string{"www.example.org."}) {
			t.Errorf("%s: %s is %v %v", network, first6, back, err)
		}
		var dns *net.DNSError
		if back, err := r.LookupAddr(t.Context(), "203.0.113.7"); !errors.As(err, &dns) || !dns.IsNotFound {
			t.Errorf("%s: a real address is %v %v", network, back, err)
		}
		if texts, err := r.LookupTXT(t.Context(), "www.example.org."); !errors.As(err, &dns) || !dns.IsNotFound {
			t.Errorf("%s: texts: %v %v", network, texts, err)
		}
	}
}
