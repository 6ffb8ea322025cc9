package peek

import (
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		name, in string
		want     Kind
	}{
		{"hello of TLS 1.0", "\x16\x03\x01\x02\x00\x01", TLS},
		{"hello of TLS 1.3", "\x16\x03\x03\x02\x00\x01", TLS},
		{"an alert first", "\x15\x03\x01\x00\x02\x01\x5a", TLS},
		{"change of ciphers first", "\x14\x03\x03\x00\x01\x01", TLS},
		{"heartbeat first", "\x18\x03\x03\x00\x01\x01", TLS},
		{"not version 3", "\x16\x01\x00\x00\x01\x00", Other},
		{"a hello in a record of version 4", "\x16\x04\x00\x00\x05\x01", TLS},
		{"a hello in a record of version 0", "\x16\x00\x00\x00\x01\x01", TLS},
		{"an alert of version 4 first", "\x15\x04\x00\x00\x02\x01", TLS},
		{"SSL 2", "\x80\x2e\x01\x00\x02\x00\x15", SSLv2},
		{"SSL 2 for TLS", "\x80\x2e\x01\x03\x01\x00\x15", SSLv2},
		{"SSL 2, long", "\x81\x2e\x01\x03\x03\x00\x15", SSLv2},

		{"plain request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP},
		{"known at the blank", "GET ", HTTP},
		{"tab behind the method", "GET\t/\tHTTP/1.1\r\n", HTTP},
		{"tab behind another", "POST\t/\tHTTP/1.1\r\n", HTTP},
		{"bare CR for blanks", "POST\r/\rHTTP/1.1\n", HTTP},
		{"no-break spaces", "POST\xa0/\xa0HTTP/1.1\n", HTTP},
		{"no-break spaces, no version", "GET\xa0http://evil/\n", HTTP},
		{"empty lines in front", "\r\n\n\r\nPUT /x HTTP/1.1\r\n", HTTP},
		{"blanks in front", " \t\v\f PUT /x HTTP/1.1\r\n", HTTP},
		{"unknown method", "FROB x HTTP/1.1\r\n", HTTP},
		{"odd method", "{\"} x HTTP/1.1\r\n", HTTP},
		{"no method", "/ HTTP/1.1\r\n", HTTP},
		{"no target", "HTTP/1.1\r\n", HTTP},
		{"lower case", "post / http/1.1\r\n", HTTP},
		{"BOM", "\xef\xbb\xbfPOST / HTTP/1.1\r\n", HTTP},
		{"version 0.9", "GET /\r\n", HTTP},
		{"version 0.9 of another host", "GET http://evil/\r\n", HTTP},
		{"version 0.9 and no target", "GET\r\n", HTTP},
		{"no version, Node's", "POST /\r\nHost: evil\r\n\r\n", HTTP},
		{"no version, bare CR", "POST /\rHost: evil\r\r", HTTP},
		{"no version, URL", "PUT http://evil/ x\n", HTTP},
		{"no version, options", "OPTIONS *\r\n", HTTP},
		{"no version, tunnel", "CONNECT evil:443\r\n", HTTP},
		{"NUL in the target", "POST /\x00", HTTP},
		{"control character in the target", "POST /\x01 HTTP/1.1\r\n", HTTP},
		{"RTSP, Node's", "SETUP x RTSP/1.0\r\n", HTTP},
		{"RTSP with a URL", "DESCRIBE rtsp://evil/ RTSP/1.0\r\n", HTTP},
		{"ICE, Node's", "SOURCE x ICE/1.0\r\n", HTTP},
		{"long line", "POST /" + long, HTTP},
		{"long word", long + "x", HTTP},
		{"endless blanks", strings.Repeat("\r\n", maxLine), HTTP},
		{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP2},
		{"proxy header 1", "PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n", Proxy},
		{"proxy header 2", "\r\n\r\n\x00\r\nQUIT\n\x21\x11", Proxy},
		{"SOCKS 4", "\x04\x01\x01\xbb\x01\x02\x03\x04\x00", SOCKS},
		{"SOCKS 5", "\x05\x01\x00", SOCKS},

		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", Other},
		{"SMTP", "EHLO [127.0.0.1]\r\n", Other},
		{"IMAP", "a1 LOGIN \"x\" y\r\n", Other},
		{"IMAP list", "a1 LIST \"\" *\r\n", Other},
		{"FTP", "USER anonymous\r\n", Other},
		{"IRC", "NICK x\r\nUSER x 0 * :x\r\n", Other},
		{"Redis", "*1\r\n$4\r\nPING\r\n", Other},
		{"Redis inline", "PING\r\n", Other},
		{"memcached", "get http://x/\r\n", Other},
		{"NATS", "CONNECT {\"verbose\":false}\r\n", Other},
		{"STOMP", "CONNECT\naccept-version:1.2\n", Other},
		{"SIP", "REGISTER sip:example.org SIP/2.0\r\n", Other},
		{"gopher", "/docs\r\n", Other},
		{"finger", "\r\n/W root\r\n", Other},
		{"rsync", "@RSYNCD: 31.0\n", Other},
		{"git", "003agit-upload-pack /a/b.git\x00host=x\x00", Other},
		{"PostgreSQL", "\x00\x00\x00\x08\x04\xd2\x16\x2f", Other},
		{"MQTT", "\x10\x1d\x00\x04MQTT", Other},
		{"AMQP", "AMQP\x00\x00\x09\x01", Other},
		{"MongoDB", "\x3a\x01\x00\x00\x01\x00\x00\x00", Other},
		{"Kafka", "\x00\x00\x00\x2d\x00\x12", Other},
		{"Cassandra", "\x04\x00\x00\x00\x05", Other},
		{"Cassandra 5", "\x05\x00\x00\x00\x05", Other},
		{"LDAP", "\x30\x0c\x02\x01\x01", Other},
		{"Thrift", "\x80\x01\x00\x01\x00\x00", Other},
		{"memcached binary", "\x80\x0b\x00\x00", Other},
		{"ONC RPC", "\x80\x00\x00\x28\x5e", Other},
		{"ONC RPC, 256 bytes", "\x80\x00\x01\x00\x5e\x00", Other},
		{"BitTorrent", "\x13BitTorrent protocol", Other},
		{"a proxy header that isn't", "\r\n\r\n\x00\r\nQUIX", Other},
		{"long XML", "<stream " + long, Other},
	} {
		t.Run(c.name, func(t *testing.T) {
			if kind, more := Classify([]byte(c.in)); kind != c.want || more {
				t.Fatalf("%q, %v, want %q", kind, more, c.want)
			}
			checkSplits(t, []byte(c.in), Classify)
		})
	}
}

func TestUndecided(t *testing.T) {
	for _, c := range []struct {
		in  string
		end Kind // once nothing follows
	}{
		{"", Other}, {"\x16", Other}, {"\x80\x2e", Other}, {"\r\n", Other}, {"\r\n\r\n\x00\r\n", Other}, {"hello", Other}, {"GET", Other},
		{"<stream:stream to='x'>", Other}, {"POST /x", HTTP}, {"PUT http://evil/ ", HTTP}, {"CONNECT evil:1", HTTP},
	} {
		if kind, more := Classify([]byte(c.in)); kind != Undecided || !more {
			t.Errorf("%q: %q, %v", c.in, kind, more)
		}
		if kind := ClassifyAll([]byte(c.in)); kind != c.end {
			t.Errorf("%q and the end: %q, want %q", c.in, kind, c.end)
		}
	}
}

// Nothing is held for longer than the bounds say, whatever it is.
func TestClassifyEnds(t *testing.T) {
	for _, s := range []string{" ", "\n", "x", "<", "A B", "\r\n", "\x80", "A\r", "\xa0x"} {
		b := []byte(strings.Repeat(s, 2*maxLine+2))
		if kind, more := Classify(b); more {
			t.Errorf("%q over and over: %q, %v", s, kind, more)
		}
	}
}

// splits are lengths up to n: all for a while, and then some.
func splits(n int) (at []int) {
	for i := 0; i < n; i += 1 + max(0, i-1024)/8 {
		at = append(at, i)
	}
	return append(at, n)
}

// checkSplits: once there is an answer, there is no other for more bytes.
func checkSplits[T comparable](t *testing.T, b []byte, ask func([]byte) (answer T, more bool)) {
	t.Helper()
	var first T
	decided := false
	for _, i := range splits(len(b)) {
		got, more := ask(b[:i])
		if decided && (more || got != first) {
			t.Fatalf("%q: %v, more %v; for less %v", b[:i], got, more, first)
		}
		decided, first = !more, got
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", "\x16\x03\x01", "\x80\x2e\x01\x03", "PRI * HTTP/2.0\r\n", "\r\n\r\n\x00\r\nQUIT\n", "a b\rc http/", "\x05\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<10 {
			b = b[:1<<10]
		}
		checkSplits(t, b, Classify)
		// Whatever has HTTP/ in its first line, and no control characters in front.
		at := strings.Index(strings.ToUpper(string(b)), "HTTP/")
		if at >= 0 && strings.IndexFunc(string(b[:at]), func(r rune) bool { return r < ' ' || r >= 0x7f }) < 0 {
			if kind, _ := Classify(b); kind != HTTP && kind != HTTP2 && kind != Proxy {
				t.Errorf("%q: %q", b, kind)
			}
		}
	})
}
