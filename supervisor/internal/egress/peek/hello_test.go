package peek

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// realHello is what crypto/tls says first.
func realHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan []byte)
	go func() {
		header := make([]byte, recordHeader)
		io.ReadFull(server, header)
		body := make([]byte, binary.BigEndian.Uint16(header[3:]))
		io.ReadFull(server, body)
		server.Close()
		done <- append(header, body...)
	}()
	tls.Client(client, config).Handshake()
	client.Close()
	return <-done
}

// records spreads a message over records of a size.
func records(message []byte, size int) (b []byte) {
	for part := range slices.Chunk(message, size) {
		b = append(b, recordHandshake, 3, 1, byte(len(part)>>8), byte(len(part)))
		b = append(b, part...)
	}
	return b
}

// ext is an extension; sni one of names, each with its type in front.
func ext(typ int, data []byte) []byte {
	return append([]byte{byte(typ >> 8), byte(typ), byte(len(data) >> 8), byte(len(data))}, data...)
}

func sni(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, n[0], byte((len(n)-1)>>8), byte(len(n)-1))
		list = append(list, n[1:]...)
	}
	return ext(extServerName, append([]byte{byte(len(list) >> 8), byte(len(list))}, list...))
}

// message is a hello with these extensions; without any, if nil is the only one.
func message(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 0x01, 1, 0)
	if all := slices.Concat(extensions...); len(extensions) != 1 || extensions[0] != nil {
		body = append(body, byte(len(all)>>8), byte(len(all)))
		body = append(body, all...)
	}
	return append([]byte{messageHello, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

func reason(err error) Reason {
	if r, ok := errors.AsType[Reason](err); ok {
		return r
	}
	if err != nil {
		return Reason("not ours: " + err.Error())
	}
	return ""
}

func TestRealHellos(t *testing.T) {
	many := make([]string, 200)
	for i := range many {
		many[i] = strings.Repeat("p", 60)
	}
	for _, c := range []struct {
		name   string
		config *tls.Config
		want   string
		reason Reason
	}{
		{"plain", &tls.Config{ServerName: "api.github.com"}, "api.github.com", ""},
		{"upper case", &tls.Config{ServerName: "API.GitHub.com"}, "api.github.com", ""},
		{"with ALPN", &tls.Config{ServerName: "a.b", NextProtos: []string{"h2", "http/1.1"}}, "a.b", ""},
		{"big", &tls.Config{ServerName: "a.b", NextProtos: many}, "a.b", ""},
		{"TLS 1.2", &tls.Config{ServerName: "a.b", MaxVersion: tls.VersionTLS12}, "a.b", ""},
		{"none", &tls.Config{InsecureSkipVerify: true}, "", NoServerName},
		{"of an address", &tls.Config{ServerName: "127.0.0.1"}, "", NoServerName}, // it leaves it out
	} {
		t.Run(c.name, func(t *testing.T) {
			hello := realHello(t, c.config)
			if kind, _ := Classify(hello); kind != TLS {
				t.Errorf("kind %q", kind)
			}
			name, _, more, err := ServerName(hello)
			if name != c.want || more || reason(err) != c.reason {
				t.Fatalf("%q, %v, %v; want %q, %q", name, more, err, c.want, c.reason)
			}
			for _, size := range []int{1, 3, 4, 100} {
				if len(hello)*6 > MaxHello && size < 100 {
					continue
				}
				split := records(hello[recordHeader:], size)
				if name, _, more, err := ServerName(split); name != c.want || more || reason(err) != c.reason {
					t.Errorf("in records of %d: %q, %v, %v", size, name, more, err)
				}
				checkHelloSplits(t, split)
			}
		})
	}
}

func TestHellos(t *testing.T) {
	good := message(sni("\x00a.b"))
	for _, c := range []struct {
		name   string
		in     []byte
		want   string
		reason Reason
	}{
		{"good", records(good, 999), "a.b", ""},
		{"with what follows", append(records(good, 999), 0x14, 3, 3, 0, 1, 1), "a.b", ""},
		{"the outer one of an encrypted hello", records(message(sni("\x00a.b"), ext(0xfe0d, []byte{0})), 999), "a.b", ""},
		{"underscore and digits", records(message(sni("\x00_x1.b-2.c3")), 999), "_x1.b-2.c3", ""},
		{"no extensions", records(message(nil), 999), "", NoServerName},
		{"other extensions", records(message(ext(10, []byte{1})), 999), "", NoServerName},
		{"empty list", records(message(ext(0, []byte{0, 0})), 999), "", NoServerName},
		{"empty extension", records(message(ext(0, nil)), 999), "", Malformed},
		{"empty name", records(message(sni("\x00")), 999), "", EmptyName},
		{"two names", records(message(sni("\x00a.b", "\x00c.d")), 999), "", TwoServerNames},
		{"the same twice", records(message(sni("\x00a.b", "\x00a.b")), 999), "", TwoServerNames},
		{"a name and of another type", records(message(sni("\x00a.b", "\x01c.d")), 999), "", TwoServerNames},
		{"of another type", records(message(sni("\x01a.b")), 999), "", BadName},
		{"two extensions", records(message(sni("\x00a.b"), sni("\x00c.d")), 999), "", TwoServerNames},
		{"another extension twice", records(message(sni("\x00a.b"), ext(10, nil), ext(10, nil)), 999), "", Malformed},
		{"behind the list", records(message(ext(0, []byte{0, 4, 0, 0, 1, 'a', 9})), 999), "", Malformed},
		{"NUL", records(message(sni("\x00a.b\x00.evil")), 999), "", BadName},
		{"CR LF", records(message(sni("\x00a.b\r\n")), 999), "", BadName},
		{"blank", records(message(sni("\x00a.b ")), 999), "", BadName},
		{"not ASCII", records(message(sni("\x00\xc3\xa4.b")), 999), "", BadName},
		{"IDN", records(message(sni("\x00XN--4ca.b")), 999), "xn--4ca.b", ""},
		{"trailing dot", records(message(sni("\x00a.b.")), 999), "", TrailingDot},
		{"empty label", records(message(sni("\x00a..b")), 999), "", BadName},
		{"leading dot", records(message(sni("\x00.a.b")), 999), "", BadName},
		{"long label", records(message(sni("\x00"+strings.Repeat("a", 64))), 999), "", BadName},
		{"long name", records(message(sni("\x00"+strings.Repeat("a.", 127)+"a")), 999), "", BadName},
		{"IPv4", records(message(sni("\x00192.0.2.1")), 999), "", AddressName},
		{"IPv6", records(message(sni("\x002001:db8::1")), 999), "", AddressName},
		{"mapped", records(message(sni("\x00::ffff:1.2.3.4")), 999), "", AddressName},
		{"short IPv4", records(message(sni("\x00127.1")), 999), "", AddressName},
		{"decimal IPv4", records(message(sni("\x002130706433")), 999), "", AddressName},
		{"hexadecimal IPv4", records(message(sni("\x000x7f.1.1.0x1")), 999), "", AddressName},
		{"too long by its header", records([]byte{1, 0, 0x40, 0, 3, 3}, 999), "", TooLong},
		{"too long by its records", records(append([]byte{1, 0, 0x38, 0}, make([]byte, 3000)...), 1), "", TooLong},
		{"no hello", records([]byte{2, 0, 0, 1, 0}, 999), "", NotHello},
		{"no bytes in a record", append([]byte{22, 3, 1, 0, 0}, records(good, 999)...), "", Malformed},
		{"huge record", []byte{22, 3, 1, 0x40, 1, 1}, "", Malformed},
		{"two hellos in a record", records(append(good[:len(good):len(good)], good...), 999), "", NotHello},
		{"an alert first", append([]byte{21, 3, 1, 0, 2, 1, 90}, records(good, 999)...), "", NotHello},
		{"an alert between", slices.Concat(records(good[:9], 999), []byte{21, 3, 1, 0, 2, 1, 90}, records(good[9:], 999)), "", NotHello},
		{"version 2 of the record", []byte{22, 2, 0}, "", NotHello},
		{"version of DTLS", records(slices.Concat(good[:4], []byte{0xfe, 0xfd}, good[6:]), 999), "", Malformed},
		{"short body", records([]byte{1, 0, 0, 3, 3, 3, 0}, 999), "", Malformed},
		{"empty body", records([]byte{1, 0, 0, 0}, 999), "", Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, _, more, err := ServerName(c.in)
			if name != c.want || more || reason(err) != c.reason {
				t.Errorf("%q, %v, %v; want %q, %q", name, more, err, c.want, c.reason)
			}
			checkHelloSplits(t, c.in)
		})
	}
}

// Each byte of a real hello cut off, or another: never a panic, never another name than one that is in it.
func TestHelloDamaged(t *testing.T) {
	hello := realHello(t, &tls.Config{ServerName: "api.github.com"})
	for i := range hello {
		if name, _, more, err := ServerName(hello[:i]); name != "" || !more || err != nil {
			t.Fatalf("the first %d bytes: %q, %v, %v", i, name, more, err)
		}
	}
	for i := range hello {
		for _, d := range []byte{1, 0x80, 0xff} {
			damaged := slices.Clone(hello)
			damaged[i] ^= d
			name, _, _, err := ServerName(damaged)
			if err == nil && name != "" && !strings.Contains(strings.ToLower(string(damaged)), name) {
				t.Errorf("byte %d: %q isn't in it", i, name)
			}
		}
	}
}

// checkHelloSplits: there is one answer, wherever the bytes are split.
func checkHelloSplits(t *testing.T, b []byte) {
	t.Helper()
	type answer struct {
		name string
		err  Reason
	}
	decided := false
	checkSplits(t, b, func(b []byte) (answer, bool) {
		name, _, more, err := ServerName(b)
		if more && (err != nil || name != "") {
			t.Fatalf("%d bytes: more, and %q, %v", len(b), name, err)
		}
		decided = !more
		return answer{name, reason(err)}, more
	})
	if !decided && len(b) >= MaxHello {
		t.Fatalf("%d bytes, and undecided", len(b))
	}
}

func FuzzServerName(f *testing.F) {
	f.Add(records(message(sni("\x00a.b")), 999))
	f.Add(records(message(sni("\x00a.b"), ext(10, nil)), 7))
	f.Add(records(message(sni("\x00a.b", "\x00c.d")), 5))
	f.Add(realHello(f, &tls.Config{ServerName: "api.github.com"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 2<<10 {
			b = b[:2<<10]
		}
		checkHelloSplits(t, b)
		name, _, more, err := ServerName(b)
		if more || err != nil {
			return
		}
		if again, err := hostName([]byte(name)); err != nil || again != name {
			t.Errorf("%q isn't canonical: %q, %v", name, again, err)
		}
		if got := serverSees(b); got != "" && !strings.EqualFold(got, name) {
			t.Errorf("%q, but a server sees %q", name, got)
		}
	})
}

// serverSees is the name for which crypto/tls would serve a hello; empty: for none.
func serverSees(b []byte) (name string) {
	client, server := net.Pipe()
	go func() {
		client.Write(b)
		client.Close()
	}()
	tls.Server(server, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, io.ErrUnexpectedEOF
	}}).Handshake()
	server.Close()
	return name
}

func TestServerSeesTheSame(t *testing.T) {
	for _, name := range []string{"a.b", "API.github.com"} {
		hello := realHello(t, &tls.Config{ServerName: name})
		if got := serverSees(hello); got != name {
			t.Errorf("a server sees %q of %q", got, name)
		}
	}
}

// serverHello is the message, with a random.
func serverHello(random string) []byte {
	body := slices.Concat([]byte{3, 3}, []byte(random), []byte{0, 0x13, 1, 0, 0, 0})
	return append([]byte{messageServerHello, 0, 0, byte(len(body))}, body...)
}

func TestServersHello(t *testing.T) {
	retry, final := serverHello(retryRandom), serverHello("0123456789abcdef0123456789abcdef")
	alert := []byte{recordAlert, 3, 3, 0, 2, 1, 112}
	for name, c := range map[string]struct {
		in   []byte
		want ServerHello
	}{
		"a retry":                      {records(retry, 999), RetryHello},
		"a retry over records":         {records(retry, 1), RetryHello},
		"with more in the record":      {records(slices.Concat(retry, final), 999), RetryHello},
		"final":                        {records(final, 999), FinalHello},
		"final over records":           {records(final, 7), FinalHello},
		"one byte off":                 {records(bytes.Replace(retry, []byte{0x9c}, []byte{0x9d}, 1), 999), FinalHello},
		"final, then the random":       {records(slices.Concat(final, retry), 999), FinalHello},
		"behind a warning":             {slices.Concat(alert, records(retry, 999)), RetryHello},
		"an alert in the middle of it": {slices.Concat(records(retry[:9], 999), alert, records(retry[9:], 999)), NoHello},
		"a client's":                   {records(message(sni("\x00a.b")), 999), NoHello},
		"the random in another":        {records(append([]byte{11}, retry[1:]...), 999), NoHello},
		"too short for a random":       {records(append([]byte{2, 0, 0, 33, 3, 3}, retryRandom...), 999), NoHello},
		"data":                         {[]byte{recordData, 3, 3, 0, 1, 0}, NoHello},
		"none of TLS":                  {[]byte("HTTP/1.1 400 Bad Request\r\n"), NoHello},
		"alerts without end":           {bytes.Repeat(alert, MaxHello/len(alert)+1), NoHello},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ServersHello(c.in); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			checkSplits(t, c.in, serversHello)
		})
	}
}

func TestBetweenHellos(t *testing.T) {
	ccs, data := []byte{recordCCS, 3, 3, 0, 1, 1}, append([]byte{recordData, 3, 3, 0x40, 0x11}, make([]byte, 0x4011)...)
	second := records(message(sni("\x00a.b")), 999)
	for name, c := range map[string]struct {
		in     []byte
		n      int
		more   bool
		reason Reason
	}{
		"nothing":             {nil, 0, false, ""},
		"a change of cipher":  {ccs, 6, false, ""},
		"early data":          {slices.Concat(data, ccs, second), len(data) + 6, false, ""},
		"half a record":       {slices.Concat(ccs, data[:9]), 6, true, ""},
		"half a header":       {slices.Concat(ccs, data[:3]), 6, true, ""},
		"a hello":             {second, 0, false, ""},
		"none of TLS":         {slices.Concat(ccs, []byte("GET / HTTP/1.1\r\n")), 6, false, NotHello},
		"another version":     {[]byte{recordCCS, 2}, 0, false, NotHello},
		"longer than can be":  {[]byte{recordData, 3, 3, 0x48, 1}, 0, false, Malformed},
		"unknown to TLS, too": {[]byte{recordHeartbeat + 1, 3, 3, 0, 1}, 0, false, NotHello},
	} {
		t.Run(name, func(t *testing.T) {
			if n, more, err := Between(c.in); n != c.n || more != c.more || reason(err) != c.reason {
				t.Errorf("%d, %v, %v; want %d, %v, %q", n, more, err, c.n, c.more, c.reason)
			}
		})
	}
}

// FuzzServersHello: what is decided stays so, however much more comes.
func FuzzServersHello(f *testing.F) {
	f.Add(records(serverHello(retryRandom), 5))
	f.Add(records(serverHello("0123456789abcdef0123456789abcdef"), 999))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), 2<<10)]
		checkSplits(t, b, serversHello)
		for i := range b {
			if n, _, err := Between(b[:i]); n > i || err != nil && reason(err) == "" {
				t.Fatalf("%d of %d bytes, %v", n, i, err)
			}
		}
	})
}

// serversHello is what ServersHello says, for checkSplits.
func serversHello(b []byte) (answer ServerHello, more bool) {
	answer = ServersHello(b)
	return answer, answer == Unknown
}
