package names

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os/exec"
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

// Resolver asks through the library what a server of this package answers.
func TestAResolverAsksAServer(t *testing.T) {
	s, _ := newServer()
	address := serve(t, s, "127.0.0.1:0")
	lib := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	r := Resolver{Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
		return lib.LookupNetIP(ctx, "ip", name)
	}}
	got, err := r.Addresses(t.Context(), "www.example.org")
	slices.SortFunc(got, netip.Addr.Compare)
	if want := (Pair{netip.MustParseAddr(first4), netip.MustParseAddr(first6)}); err != nil || !slices.Equal(got, []netip.Addr{want.V4, want.V6}) {
		t.Errorf("%v %v", got, err)
	}
	for name, want := range map[string]Existence{"www.example.org": Yes, "gone.example.org": No, "x.example.net": Unknown, "evil.com": Unknown} {
		if exists := r.Exists(t.Context(), name); exists != want {
			t.Errorf("%s: %v, want %v", name, exists, want)
		}
	}
}

func TestDigUnderstands(t *testing.T) {
	dig, err := exec.LookPath("dig")
	if err != nil {
		t.Skip(err)
	}
	s, _ := newServer()
	host, port, _ := net.SplitHostPort(serve(t, s, "127.0.0.1:0"))
	for _, c := range []struct{ args, want string }{
		{"example.org A", first4}, {"example.org AAAA", first6}, {"+noedns example.org A", first4}, {"+tcp example.org AAAA", first6},
		{"+dnssec +cookie +nsid +padding=128 +subnet=10.0.0.0/8 EXAMPLE.org A", first4},
		{"+short -x " + first4, "example.org."}, {"-x " + first6, "example.org."}, {"-x 8.8.8.8", "status: NXDOMAIN"},
		{"gone.example.org A", "status: NXDOMAIN"}, {"x.example.net A", "status: SERVFAIL"}, {"evil.com A", "status: REFUSED"},
		{"example.org TXT", "status: NOERROR"}, {"example.org HTTPS", "ANSWER: 0"}, {"example.org ANY", "ANSWER: 0"},
		{"+edns=1 +noednsneg example.org A", "status: BADVERS"}, {"+noedns +opcode=update example.org A", "status: NOTIMP"},
		{"+tcp example.org AXFR", "Transfer failed"}, {"CH TXT version.bind", "status: REFUSED"},
	} {
		args := append([]string{"@" + host, "-p", port, "+tries=1"}, strings.Fields(c.args)...)
		out, err := exec.Command(dig, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "WARNING") || strings.Contains(string(out), "MISMATCH") {
			t.Errorf("dig %s: %v\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
}
