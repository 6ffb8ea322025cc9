package peek

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// outcome is what becomes of some bytes.
type outcome struct {
	requests []Request
	passed   string
	reason   Reason
	end      Reason // of the client's end behind them
}

// feed gives b to Requests in parts of a size.
func feed(b []byte, size int) (o outcome) {
	r := Requests{Check: func(q Request) error {
		o.requests = append(o.requests, q)
		return nil
	}}
	var left, passed []byte
	for part := range slices.Chunk(b, size) {
		left = append(left, part...)
		n, err := r.Next(left)
		passed = append(passed, left[:n]...)
		left = left[n:]
		if err != nil {
			o.reason = reason(err)
			break
		}
		if len(left) >= MaxHead && !r.Waiting() {
			o.reason = "kept too much"
			break
		}
	}
	o.end, o.passed = reason(r.End(left)), string(passed)
	return o
}

func same(a, b outcome) bool {
	return slices.Equal(a.requests, b.requests) && a.passed == b.passed && a.reason == b.reason && a.end == b.end
}

const evil = "GET /x HTTP/1.1\r\nHost: evil\r\n\r\n"

func TestRequestsLetThrough(t *testing.T) {
	plain := Request{Method: "GET", Target: "/", Path: "/", Host: "a.b"}
	for _, c := range []struct {
		name, in string
		want     []Request
	}{
		{"plain", "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{plain}},
		{"no space behind colons", "GET / HTTP/1.1\r\nHost:a.b\r\nA:b\r\nC: \r\n\r\n", []Request{plain}},
		{"HTTP/1.0", "GET / HTTP/1.0\r\nHost: a.b\r\n\r\n", []Request{plain}},
		{"lower case, dot and port", "GET /p?q=1?2 HTTP/1.1\r\nhOST: A.B.:8080\r\n\r\n", []Request{{"GET", "/p?q=1?2", "/p", "", "a.b", 8080}}},
		{"address", "GET / HTTP/1.1\r\nHost: 192.0.2.1:81\r\n\r\n", []Request{{"GET", "/", "/", "", "192.0.2.1", 81}}},
		{"IPv6", "GET / HTTP/1.1\r\nHost: [2001:DB8:0::1]\r\n\r\n", []Request{{"GET", "/", "/", "", "2001:db8::1", 0}}},
		{"path as it is", "GET //x/../%2e%2E/\xc3\xa4\\ HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{{"GET", "//x/../%2e%2E/\xc3\xa4\\", "//x/../%2e%2E/\xc3\xa4\\", "", "a.b", 0}}},
		{"of a proxy", "GET http://A.b/x?y HTTP/1.1\r\nHost: a.B:80\r\n\r\n", []Request{{"GET", "http://A.b/x?y", "/x", "A.b", "a.b", 80}}},
		{"of a proxy, no path", "GET HTTP://a.b?y HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{{"GET", "HTTP://a.b?y", "/", "a.b", "a.b", 0}}},
		{"whole server", "OPTIONS * HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{{"OPTIONS", "*", "*", "", "a.b", 0}}},
		{"a method of one's own", "fr-ob / HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{{"fr-ob", "/", "/", "", "a.b", 0}}},
		{"pipelined", strings.Repeat("GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", 3), []Request{plain, plain, plain}},
		{"body", "POST / HTTP/1.1\r\nHost: a.b\r\nContent-Length: " + fmt.Sprint(len(evil)) + "\r\n\r\n" + evil, []Request{{"POST", "/", "/", "", "a.b", 0}}},
		{"empty body, and another", "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 0\r\n\r\n" + "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{plain, plain}},
		{"body, and another", "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 3\r\n\r\nxyz" + "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{plain, plain}},
		{"chunks", "GET / HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0a;x=\"y\";z\r\n0\r\n\r\n0123\r\r\n00\r\n\r\n" + "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", []Request{plain, plain}},
		{"trailer", "GET / HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\nY: \r\n\r\n", []Request{plain}},
		{"expectation", "GET / HTTP/1.1\r\nHost: a.b\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", []Request{plain}},
		{"Java's offer of h2c, twice", strings.Repeat("GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nHost: a.b\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nUpgrade: h2c\r\n\r\n", 2), []Request{plain, plain}},
		{"biggest head", "GET / HTTP/1.1\r\nHost: a.b\r\nX: " + strings.Repeat("x", MaxHead-len("GET / HTTP/1.1\r\nHost: a.b\r\nX: \r\n\r\n")) + "\r\n\r\n", []Request{plain}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := feed([]byte(c.in), len(c.in))
			if o.reason != "" || o.end != "" || o.passed != c.in || !slices.Equal(o.requests, c.want) {
				t.Errorf("%+v\nwant %+v", o, c.want)
			}
			for _, size := range []int{1, 2, 7} {
				if again := feed([]byte(c.in), size); !same(o, again) {
					t.Errorf("by %d: %+v\nat once: %+v", size, again, o)
				}
			}
			if len(c.in) < 1000 {
				checkCutOff(t, []byte(c.in), len(c.want))
			}
		})
	}
}

// checkCutOff: the last byte of each request is needed for it.
func checkCutOff(t *testing.T, b []byte, requests int) {
	t.Helper()
	ends := 0
	for i := range b {
		if feed(b[:i+1], i+1).end == "" {
			ends++
		}
	}
	if ends != requests {
		t.Errorf("it can end in %d places, want %d", ends, requests)
	}
}

func TestRequestsRefused(t *testing.T) {
	field := func(f string) string { return "POST / HTTP/1.1\r\nHost: a.b\r\n" + f + "\r\n\r\n" }
	line := func(l string) string { return l + "\r\nHost: a.b\r\n\r\n" }
	host := func(h string) string { return "GET / HTTP/1.1\r\n" + h + "\r\n" }
	chunked := func(b string) string { return field("Transfer-Encoding: chunked") + b }
	for _, c := range []struct {
		name, in string
		want     Reason
	}{
		{"version 0.9", line("GET /"), BadRequestLine},
		{"version 0.9 alone", "GET /\r\n\r\n", BadRequestLine},
		{"version 1.2", line("GET / HTTP/1.2"), BadVersion},
		{"version 2.0", line("GET / HTTP/2.0"), BadVersion},
		{"version 1.10", line("GET / HTTP/1.10"), BadVersion},
		{"version in lower case", line("GET / http/1.1"), BadVersion},
		{"RTSP", line("GET / RTSP/1.0"), BadVersion},
		{"two spaces", line("GET  / HTTP/1.1"), BadRequestLine},
		{"space at the end", line("GET / HTTP/1.1 "), BadRequestLine},
		{"space in front", line(" GET / HTTP/1.1"), BadRequestLine},
		{"space in the target", line("GET / x HTTP/1.1"), BadRequestLine},
		{"tabs", line("GET\t/\tHTTP/1.1"), BadRequestLine},
		{"no method", line(" / HTTP/1.1"), BadRequestLine},
		{"no target", line("GET  HTTP/1.1"), BadTarget},
		{"odd method", line("G(T / HTTP/1.1"), BadRequestLine},
		{"BOM", line("\xef\xbb\xbfGET / HTTP/1.1"), BadRequestLine},
		{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BadVersion},
		{"preface as HTTP/1", line("PRI * HTTP/1.1"), BadRequestLine},
		{"empty line first", "\r\n" + evil, BadRequestLine},
		{"LF alone", "GET / HTTP/1.1\nHost: a.b\n\n", BadLine},
		{"LF alone at the end", "GET / HTTP/1.1\r\nHost: a.b\r\n\n", BadLine},
		{"CR alone", field("X: y\rHost: evil"), BadLine},
		{"CR CR LF", "GET / HTTP/1.1\r\nHost: a.b\r\n\r\r\n", BadLine},
		{"NUL", field("X: \x00"), BadLine},
		{"NUL in the host", host("Host: a.b\x00.evil\r\n"), BadLine},
		{"NUL in the target", line("GET /\x00 HTTP/1.1"), BadLine},

		{"fragment", line("GET /# HTTP/1.1"), BadTarget},
		{"no-break space", line("GET /\xa0x HTTP/1.1"), BadTarget},
		{"no path", line("GET x HTTP/1.1"), BadTarget},
		{"query alone", line("GET ?x HTTP/1.1"), BadTarget},
		{"asterisk of GET", line("GET * HTTP/1.1"), BadTarget},
		{"authority of GET", line("GET evil:80 HTTP/1.1"), BadTarget},
		{"https", line("GET https://a.b/ HTTP/1.1"), BadTarget},
		{"ftp", line("GET ftp://a.b/ HTTP/1.1"), BadTarget},
		{"URL without a host", line("GET http:///x HTTP/1.1"), BadTarget},
		{"URL of nothing", line("GET http:// HTTP/1.1"), BadTarget},
		{"URL of another host", line("GET http://evil/ HTTP/1.1"), HostMismatch},
		{"URL of a longer host", line("GET http://a.b.evil/ HTTP/1.1"), HostMismatch},
		{"URL of another port", line("GET http://a.b:81/ HTTP/1.1"), HostMismatch},
		{"URL with a user", line("GET http://a.b@evil/ HTTP/1.1"), BadHost},
		{"URL with backslashes", line("GET http://a.b\\@evil/ HTTP/1.1"), BadHost},
		{"tunnel", line("CONNECT evil:443 HTTP/1.1"), Tunnel},
		{"tunnel to the host", line("CONNECT a.b:443 HTTP/1.1"), Tunnel},
		{"tunnel in lower case", line("connect evil:443 HTTP/1.1"), Tunnel},
		{"tunnel without Host", "CONNECT evil:443 HTTP/1.1\r\n\r\n", Tunnel},

		{"no host", host("X: y\r\n"), NoHost},
		{"no host, 1.0", "GET / HTTP/1.0\r\n\r\n", NoHost},
		{"URL and no host", "GET http://a.b/ HTTP/1.1\r\n\r\n", NoHost},
		{"two hosts", host("Host: a.b\r\nHost: evil\r\n"), TwoHosts},
		{"the same host twice", host("Host: a.b\r\nhost: a.b\r\n"), TwoHosts},
		{"two hosts in one", host("Host: a.b, evil\r\n"), BadHost},
		{"two hosts in one, blank", host("Host: a.b evil\r\n"), BadHost},
		{"empty host", host("Host: \r\n"), BadHost},
		{"blank behind the host", host("Host: a.b \r\n"), BadHost},
		{"tab in front of the host", host("Host:\ta.b\r\n"), BadHost},
		{"host with a user", host("Host: a.b@evil\r\n"), BadHost},
		{"host with a path", host("Host: a.b/evil\r\n"), BadHost},
		{"URL as host", host("Host: http://a.b\r\n"), BadHost},
		{"host with two dots", host("Host: a.b..\r\n"), BadHost},
		{"host of a dot", host("Host: .\r\n"), BadHost},
		{"two ports", host("Host: a.b:80:81\r\n"), BadHost},
		{"empty port", host("Host: a.b:\r\n"), BadHost},
		{"port 0", host("Host: a.b:0\r\n"), BadHost},
		{"port with a zero", host("Host: a.b:080\r\n"), BadHost},
		{"port with a sign", host("Host: a.b:+80\r\n"), BadHost},
		{"port too big", host("Host: a.b:65616\r\n"), BadHost},
		{"port and more", host("Host: a.b:80@evil\r\n"), BadHost},
		{"host not ASCII", host("Host: \xc3\xa4.b\r\n"), BadHost},
		{"encoded host", host("Host: a%2eb\r\n"), BadHost},
		{"short address", host("Host: 127.1\r\n"), BadHost},
		{"octal address", host("Host: 0177.0.0.1\r\n"), BadHost},
		{"bare IPv6", host("Host: ::1\r\n"), BadHost},
		{"IPv6 with a zone", host("Host: [fe80::1%eth0]\r\n"), BadHost},
		{"IPv4 in brackets", host("Host: [1.2.3.4]\r\n"), BadHost},
		{"name in brackets", host("Host: [a.b]\r\n"), BadHost},
		{"open bracket", host("Host: [::1\r\n"), BadHost},

		{"blank before the colon", host("Host : a.b\r\n"), BadField},
		{"tab before the colon", field("Content-Length\t: 3"), BadField},
		{"folded host", host("X: y\r\n Host: a.b\r\n"), BadField},
		{"folded first", host(" Host: a.b\r\n"), BadField},
		{"folded encoding", field("Transfer-Encoding:\r\n chunked"), BadField},
		{"folded with a tab", field("X: y\r\n\tz"), BadField},
		{"no colon", field("Xy"), BadField},
		{"no name", field(": y"), BadField},
		{"odd name", field("X[y]: z"), BadField},
		{"quoted name", field("\"Host\": evil"), BadField},
		{"name with a high byte", field("Host\xa0: evil"), BadField},
		{"underscore", field("Content_Length: 3"), BadField},
		{"underscore in the other", field("transfer_encoding: chunked"), BadField},
		{"connection names host", field("Connection: close, Host"), BadField},
		{"connection names length", field("Connection: content-length"), BadField},

		{"both", field("Content-Length: 3\r\nTransfer-Encoding: chunked"), BadLength},
		{"both the other way round", field("Transfer-Encoding: chunked\r\nContent-Length: 3"), BadLength},
		{"two lengths", field("Content-Length: 3\r\nContent-Length: 4"), BadLength},
		{"the same length twice", field("Content-Length: 3\r\nContent-Length: 3"), BadLength},
		{"list of lengths", field("Content-Length: 3, 3"), BadLength},
		{"sign", field("Content-Length: +3"), BadLength},
		{"negative", field("Content-Length: -3"), BadLength},
		{"hexadecimal", field("Content-Length: 0x3"), BadLength},
		{"leading zero", field("Content-Length: 03"), BadLength},
		{"fraction", field("Content-Length: 3.0"), BadLength},
		{"underscored digits", field("Content-Length: 1_0"), BadLength},
		{"empty length", field("Content-Length: "), BadLength},
		{"blank behind", field("Content-Length: 3 "), BadLength},
		{"tab before", field("Content-Length:\t3"), BadLength},
		{"no-break space", field("Content-Length: \xa03"), BadLength},
		{"overflow", field("Content-Length: 18446744073709551619"), BadLength},
		{"near overflow", field("Content-Length: 9223372036854775808"), BadLength},

		{"identity", field("Transfer-Encoding: identity"), BadEncoding},
		{"gzip too", field("Transfer-Encoding: gzip, chunked"), BadEncoding},
		{"chunked twice", field("Transfer-Encoding: chunked, chunked"), BadEncoding},
		{"two fields", field("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), BadEncoding},
		{"two fields, one empty", field("Transfer-Encoding: chunked\r\nTransfer-Encoding:"), BadEncoding},
		{"two fields, one odd", field("Transfer-Encoding: chunked\r\nTransfer-encoding: cow"), BadEncoding},
		{"xchunked", field("Transfer-Encoding: xchunked"), BadEncoding},
		{"upper case", field("Transfer-Encoding: Chunked"), BadEncoding},
		{"tab", field("Transfer-Encoding:\tchunked"), BadEncoding},
		{"vertical tab", field("Transfer-Encoding: \vchunked"), BadLine},
		{"blank behind", field("Transfer-Encoding: chunked "), BadEncoding},
		{"two spaces", field("Transfer-Encoding:  chunked"), BadEncoding},
		{"quoted", field("Transfer-Encoding: \"chunked\""), BadEncoding},
		{"parameter", field("Transfer-Encoding: chunked;x=y"), BadEncoding},
		{"empty", field("Transfer-Encoding:"), BadEncoding},
		{"1.0", "POST / HTTP/1.0\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n", BadEncoding},

		{"no size", chunked("\r\n"), BadChunk},
		{"extension alone", chunked(";x\r\n"), BadChunk},
		{"0x", chunked("0x3\r\nabc\r\n"), BadChunk},
		{"sign of a size", chunked("+3\r\nabc\r\n"), BadChunk},
		{"negative size", chunked("-3\r\nabc\r\n"), BadChunk},
		{"blank before a size", chunked(" 3\r\nabc\r\n"), BadChunk},
		{"blank behind a size", chunked("3 \r\nabc\r\n"), BadChunk},
		{"blank before an extension", chunked("3 ;x\r\nabc\r\n"), BadChunk},
		{"underscored size", chunked("1_0\r\n"), BadChunk},
		{"size overflows", chunked("10000000000000003\r\nabc\r\n"), BadChunk},
		{"size in LF", chunked("3\nabc\r\n"), BadLine},
		{"LF in an extension", chunked("3;x\nabc\r\n"), BadLine},
		{"CR in an extension", chunked("3;x\ry\r\nabc\r\n"), BadLine},
		{"NUL in an extension", chunked("3;\x00\r\nabc\r\n"), BadLine},
		{"long extension", chunked("3;" + strings.Repeat("x", maxChunk) + "\r\n"), TooLong},
		{"data longer", chunked("3\r\nabcd\r\n0\r\n\r\n"), BadChunk},
		{"many zeros", chunked("0000000000000003\r\nabc\r\n0\r\n\r\n"), BadChunk},
		{"data behind in LF", chunked("3\r\nabc\n0\r\n\r\n"), BadLine},
		{"data behind in CR", chunked("3\r\nabc\r0\r\n"), BadLine},
		{"data without its end", chunked("3\r\nabc0\r\n\r\n"), BadChunk},
		{"trailer in LF", chunked("0\r\n\n"), BadLine},
		{"last chunk in LF", chunked("0\n\r\n"), BadLine},
		{"trailing host", chunked("0\r\nHost: evil\r\n\r\n"), BadField},
		{"trailing length", chunked("0\r\nContent-Length: 3\r\n\r\n"), BadField},
		{"trailing request", chunked("0\r\nGET / HTTP/1.1\r\nX: y\r\n\r\n"), BadField},
		{"long trailer", chunked("0\r\nX: " + strings.Repeat("x", maxTrailer) + "\r\n\r\n"), TooLong},

		{"another expectation", field("Expect: 200-ok"), BadExpect},
		{"two expectations", field("Expect: 100-continue\r\nExpect: 100-continue"), BadExpect},
		{"an expectation and more", field("Expect: y 100-continue"), BadExpect},
		{"upgrade to h2c or else", field("Upgrade: websocket, h2c"), BadUpgrade},
		{"upgrade to TLS or else", field("Upgrade: websocket\r\nUpgrade: TLS/1.2"), BadUpgrade},
		{"too long a head", field("X: " + strings.Repeat("x", MaxHead)), TooLong},
		{"too many fields", field(strings.Repeat("X: y\r\n", MaxHead/6)), TooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Behind a good one, so that it is the second that has to be refused as well.
			for _, before := range []string{"", "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n"} {
				in := []byte(before + c.in + evil)
				o := feed(in, len(in))
				if o.reason != c.want || strings.Contains(o.passed, "evil") || !strings.HasPrefix(o.passed, before) {
					t.Errorf("%+v\nwant %q", o, c.want)
				}
				if again := feed(in, 1); !same(o, again) {
					t.Errorf("byte by byte: %+v\nat once: %+v", again, o)
				}
			}
		})
	}
}

func TestCheckDecides(t *testing.T) {
	no := errors.New("no")
	r := Requests{Check: func(q Request) error {
		if q.Host != "a.b" {
			return no
		}
		return nil
	}}
	good := "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n"
	n, err := r.Next([]byte(good + evil + good))
	if n != len(good) || !errors.Is(err, no) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := r.Next([]byte(good)); n != 0 || !errors.Is(err, no) {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

func TestBodyIsSkipped(t *testing.T) {
	var r Requests
	head := "POST / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 5000000000\r\n\r\n"
	if n, err := r.Next([]byte(head + "x")); n != len(head)+1 || err != nil || r.Body() != 5000000000-1 {
		t.Fatalf("%d, %v, %d left", n, err, r.Body())
	}
	r.Skip(5000000000 - 2)
	if n, err := r.Next([]byte("x" + evil)); n != 1+len(evil) || err != nil || r.Body() != 0 {
		t.Fatalf("%d, %v, %d left", n, err, r.Body())
	}
	chunked := "POST / HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n"
	if n, err := r.Next([]byte(chunked)); n != len(chunked) || err != nil || r.Body() != 1<<20 {
		t.Fatalf("%d, %v, %d left", n, err, r.Body())
	}
	r.Skip(1 << 20)
	if n, err := r.Next([]byte("\r\n0\r\n\r\n" + evil)); n != 7+len(evil) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if err := r.End(nil); err != nil {
		t.Error(err)
	}
	r.Skip(1)
	if _, err := r.Next(nil); reason(err) != TooLong {
		t.Errorf("skipped what wasn't there: %v", err)
	}
}

func TestUpgrade(t *testing.T) {
	ask := "GET /chat HTTP/1.1\r\nHost: a.b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
	for _, c := range []struct {
		name   string
		first  string
		status int
		passed string
		raw    bool
		want   Reason
	}{
		{"agreed", ask, 101, "\x81\x00raw", true, ""},
		{"not agreed", ask, 400, "", false, BadLine},
		{"not agreed, request", ask, 200, "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", false, ""},
		{"behind a body", strings.Replace(ask, "\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc", 1), 101, "raw", true, ""},
		{"behind chunks", strings.Replace(ask, "\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 1), 101, "raw", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Requests
			next := c.passed
			if next == "" {
				next = "\x81\n"
			}
			n, err := r.Next([]byte(c.first + next))
			if n != len(c.first) || err != nil || !r.Waiting() || r.Raw() {
				t.Fatalf("%d of %d, %v", n, len(c.first), err)
			}
			if n, err := r.Next([]byte(next)); n != 0 || err != nil {
				t.Fatalf("before the answer: %d, %v", n, err)
			}
			r.Answered(c.status)
			n, err = r.Next([]byte(next))
			if n != len(c.passed) || reason(err) != c.want || r.Raw() != c.raw || r.Waiting() {
				t.Errorf("%d, %v, raw %v", n, err, r.Raw())
			}
		})
	}
	t.Run("not the first", func(t *testing.T) {
		o := feed([]byte("GET / HTTP/1.1\r\nHost: a.b\r\n\r\n"+ask), 1<<10)
		if o.reason != BadUpgrade {
			t.Errorf("%+v", o)
		}
	})
	t.Run("h2c is never followed", func(t *testing.T) {
		var r Requests
		n, err := r.Next([]byte(strings.Replace(ask, "websocket", "h2c", 1)))
		if n == 0 || err != nil || r.Waiting() {
			t.Fatalf("%d, %v", n, err)
		}
		r.Answered(101)
		if n, err := r.Next([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); n != 0 || reason(err) != BadVersion {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name, in string
		code     int
		reason   Reason
	}{
		{"agreed", "HTTP/1.1 101 Switching Protocols\r\n", 101, ""},
		{"no phrase", "HTTP/1.1 101\r\n", 101, ""},
		{"LF", "HTTP/1.1 200\n", 200, ""},
		{"HTTP/1.0", "HTTP/1.0 400 x\r\n", 400, ""},
		{"behind interim ones", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nA: HTTP/1.1 101\r\n\r\nHTTP/1.1 404 x\r\n", 404, ""},
		{"agreed behind one, LF", "HTTP/1.1 100 Continue\nX: y\n\nHTTP/1.1 101 x\r\n", 101, ""},
		{"cut short", "HTTP/1.1\r\n", 0, BadStatus},
		{"four digits", "HTTP/1.1 1010\r\n", 0, BadStatus},
		{"HTTP/2", "\x00\x00\x12\x04", 0, BadStatus},
		{"text", "220 smtp\r\n", 0, BadStatus},
		{"nothing but headers", "HTTP/1.1 100 x\r\n" + strings.Repeat("A: b\r\n", MaxHead/6), 0, TooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, more, err := Status([]byte(c.in))
			if code != c.code || more || reason(err) != c.reason {
				t.Errorf("%d, %v, %v", code, more, err)
			}
			checkSplits(t, []byte(c.in), statusOf)
		})
	}
}

// statusOf is what Status says, for checkSplits.
func statusOf(b []byte) (answer struct {
	code int
	err  Reason
}, more bool) {
	code, more, err := Status(b)
	answer.code, answer.err = code, reason(err)
	return answer, more
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 x\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) { checkSplits(t, b[:min(len(b), 1<<10)], statusOf) })
}
