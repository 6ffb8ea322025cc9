package peek

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// seen is a request as some server sees it.
type seen struct {
	at, body int // where it begins, and how long its body is without chunks' framing
	method   string
	host     string
}

// ours is what Requests checked of b, how much of it was let through, and whether a request is
// over there. It gets b byte by byte, so that it is known where each request begins.
func ours(b []byte) (all []seen, passed int, over bool) {
	r := Requests{Check: func(q Request) error {
		all = append(all, seen{passed, 0, q.Method, fmt.Sprint(q.Host, " ", plain(q.Port))})
		return nil
	}}
	for i := range b {
		body := r.state == inBody || r.state == inChunk
		n, err := r.Next(b[passed : i+1])
		passed += n
		if n > 0 && body {
			all[len(all)-1].body += n
		}
		if err != nil || r.Waiting() {
			break
		}
	}
	return all, passed, r.state == atHead || r.state == upgrading
}

func canonical(host string) string {
	h, port, err := parseHost(host)
	if err != nil {
		return host
	}
	return fmt.Sprint(h, " ", plain(port))
}

// refused stands for a request that net/http doesn't want.
const refused = "refused"

// goSees is what net/http reads of b.
func goSees(b []byte) (all []seen) {
	rest := bytes.NewReader(b)
	br := bufio.NewReader(rest)
	for {
		at := len(b) - rest.Len() - br.Buffered()
		if at == len(b) {
			return all
		}
		q, err := http.ReadRequest(br)
		if err != nil {
			return append(all, seen{at: at, method: refused})
		}
		body, err := io.ReadAll(q.Body)
		all = append(all, seen{at, len(body), q.Method, canonical(q.Host)})
		if err != nil {
			return all
		}
	}
}

// lenient is a server that understands whatever it can, in one of the ways known of
// real ones. Each bit is one of them.
type lenient uint

const (
	bareCR       lenient = 1 << iota // ends a line too
	folds                            // a line with a blank in front continues the one before; else it is one of its own
	lastWins                         // of fields that are there twice; else the first
	underscores                      // are hyphens
	blankNames                       // blanks before a colon don't matter; else the field is ignored
	blanksTrim                       // all kinds of, around values; else spaces and tabs alone
	lengthWins                       // over chunks
	numberPrefix                     // 3, 4 is 3 and 0x3 is 0
	skipsEmpty                       // lines before a request
	chunkLF                          // ends the line of a chunk, wherever it stands
	ways         = iota
)

func (s lenient) has(bit lenient) bool { return s&bit != 0 }

// line cuts the first line off.
func (s lenient) line(b []byte) (l, rest []byte) {
	for i, c := range b {
		if c == '\n' {
			return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:]
		}
		if c == '\r' && s.has(bareCR) && i+1 < len(b) && b[i+1] != '\n' {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

func (s lenient) number(v string, base int) int {
	digits := v
	if s.has(numberPrefix) {
		digits = v[:len(v)-len(strings.TrimLeft(v, map[int]string{10: "0123456789", 16: "0123456789abcdefABCDEF"}[base]))]
	}
	n, err := strconv.ParseInt(digits, base, 32)
	if err != nil {
		return -1
	}
	return int(n)
}

// fields reads a head behind its first line.
func (s lenient) fields(b []byte) (f map[string]string, rest []byte) {
	f = map[string]string{}
	last := ""
	for {
		var l []byte
		if l, b = s.line(b); len(l) == 0 {
			return f, b
		}
		if s.has(folds) && (l[0] == ' ' || l[0] == '\t') {
			f[last] += " " + strings.TrimSpace(string(l))
			continue
		}
		n, v, ok := bytes.Cut(l, []byte(":"))
		name, value := strings.ToLower(string(n)), strings.Trim(string(v), " \t")
		if s.has(blankNames) {
			name = strings.TrimSpace(name)
		}
		if s.has(underscores) {
			name = strings.ReplaceAll(name, "_", "-")
		}
		if s.has(blanksTrim) {
			for len(value) > 0 && blank(value[0]) {
				value = value[1:]
			}
			for len(value) > 0 && blank(value[len(value)-1]) {
				value = value[:len(value)-1]
			}
		}
		if _, twice := f[name]; ok && (!twice || s.has(lastWins)) {
			f[name], last = value, name
		}
	}
}

// sees is what such a server takes b for. It gives up, and closes, where it must.
func (s lenient) sees(whole []byte) (all []seen) {
	for b := whole; len(b) > 0; {
		q := seen{at: len(whole) - len(b)}
		var l []byte
		if l, b = s.line(b); len(l) == 0 {
			if s.has(skipsEmpty) {
				continue
			}
			return all
		}
		words := strings.Fields(string(l))
		if len(words) < 2 {
			return all
		}
		q.method = words[0]
		var f map[string]string
		f, b = s.fields(b)
		q.host = canonical(f["host"])
		chunked := strings.Contains(strings.ToLower(f["transfer-encoding"]), "chunked")
		length, sized := f["content-length"]
		switch {
		case sized && (!chunked || s.has(lengthWins)):
			if q.body = s.number(length, 10); q.body < 0 || q.body > len(b) {
				return append(all, q)
			}
			b = b[q.body:]
		case chunked:
			if q.body, b = s.chunks(b); b == nil {
				return append(all, q)
			}
		}
		all = append(all, q)
	}
	return all
}

func (s lenient) chunks(b []byte) (body int, rest []byte) {
	for {
		l, rest := s.line(b)
		if i := bytes.IndexByte(b, '\n'); s.has(chunkLF) && i >= 0 {
			l, rest = b[:i], b[i+1:]
		}
		size, _, _ := strings.Cut(string(l), ";")
		n := s.number(strings.TrimSpace(size), 16)
		if n < 0 || n > len(rest) {
			return body, nil
		}
		if n == 0 {
			_, rest = s.fields(rest)
			return body, rest
		}
		body += n
		if _, b = s.line(rest[n:]); b == nil {
			return body, nil
		}
	}
}

// checkServers: whatever was let through, every server sees the requests that were checked.
func checkServers(t *testing.T, b []byte) {
	t.Helper()
	want, passed, over := ours(b)
	b = b[:passed]
	compare := func(server string, got []seen) {
		t.Helper()
		if !over && len(got) == len(want) && len(got) > 0 {
			got[len(got)-1].body = want[len(want)-1].body // it isn't all there yet
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s sees %+v\nchecked %+v\nof %q", server, got, want, b)
		}
	}
	got := goSees(b)
	if n := len(got); n > 0 && n <= len(want) && got[n-1].method == refused && got[n-1].at == want[n-1].at {
		// It is stricter about URLs, and closes. Up to there it has to see the same.
		compare("net/http", slices.Concat(got[:n-1], want[n-1:]))
	} else {
		compare("net/http", got)
	}
	for s := range lenient(1 << ways) {
		compare(fmt.Sprintf("a lenient server (%b)", s), s.sees(b))
	}
}

// pipeline makes some requests that are right.
func pipeline(r *rand.Rand) (b []byte, n int) {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	n = 1 + r.IntN(4)
	for range n {
		host := pick("a.b", "A.B", "a.b:80", "c.d:8080", "[::1]", "1.2.3.4:81")
		target := pick("/", "/x?y", "/%2e%2e/x", "http://"+host+"/x", "http://"+host, "//x")
		lines := []string{"Host: " + host, pick("X: y", "X-Y:z", "Expect: 100-continue", "Cookie: a=b; c=d", "User_Agent: x")}
		body := ""
		switch r.IntN(3) {
		case 0:
			body = pick("", "x", "0\r\n\r\n", evil, evil+evil)
			lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
		case 1:
			lines = append(lines, "Transfer-Encoding: chunked")
			for range r.IntN(3) {
				data := pick("x", "\r\n", "0\r\n\r\n", evil)
				body += fmt.Sprintf(pick("%x", "%X", "0%x"), len(data)) + pick("", ";x=y", ";") + "\r\n" + data + "\r\n"
			}
			body += "0\r\n" + pick("", "", "X-Sum: y\r\n") + "\r\n"
		}
		r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		b = append(b, pick("GET", "POST", "PUT", "DELETE", "PROPFIND")+" "+target+" HTTP/1.1\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\n"+body...)
	}
	return b, n
}

// mutate damages b as somebody would who wants two servers to disagree.
func mutate(r *rand.Rand, b []byte) []byte {
	bits := []string{"\r", "\n", "\r\n", " ", "\t", "\v", "\x00", "\x85", "\xa0", ":", ";", ",", "_", "-", "+", "0", "3", "0x", "\r\n\r\n", "\r\n ",
		"Content-Length: 3\r\n", "Content-Length : 5\r\n", "Content_Length: 7\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: x\r\n",
		"Transfer-Encoding:\tchunked\r\n", "Host: evil\r\n", "X: y\r\n", "0\r\n\r\n", evil, "HTTP/1.1", "http://evil/"}
	for range 1 + r.IntN(2) {
		at := r.IntN(len(b) + 1)
		// Mostly where lines and words begin.
		if i := bytes.IndexAny(b[at:], "\r\n: "); i >= 0 && r.IntN(4) > 0 {
			at += i
			if r.IntN(2) == 0 {
				at = min(at+1+r.IntN(2), len(b))
			}
		}
		end := at
		if r.IntN(2) == 0 {
			end = min(len(b), at+1+r.IntN(3))
		}
		b = slices.Replace(slices.Clone(b), at, end, []byte(bits[r.IntN(len(bits))])...)
	}
	return b
}

func TestServersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	accepted, mutated := 0, 600
	for range mutated / 3 {
		b, n := pipeline(r)
		all, passed, _ := ours(b)
		if len(all) != n || passed != len(b) {
			t.Fatalf("%d requests of %d, %d bytes of %d: %q", len(all), n, passed, len(b), b)
		}
		checkServers(t, b)
		for range 3 {
			damaged := mutate(r, b)
			if _, passed, _ := ours(damaged); passed == len(damaged) {
				accepted++
			}
			checkServers(t, damaged)
		}
	}
	// Or else nothing was compared.
	if accepted < mutated/40 || accepted > mutated/2 {
		t.Errorf("%d of %d damaged pipelines were let through", accepted, mutated)
	}
}

// The lenient servers do see what is behind the tricks, or else they prove nothing.
func TestLenientServersAreFooled(t *testing.T) {
	for _, trick := range []string{
		"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Content-Length: 0\r\nContent-Length: 34\r\n\r\n",
		"Transfer-Encoding : chunked\r\nContent-Length: 39\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: \vchunked\r\nContent-Length: 39\r\n\r\n0\r\n\r\n",
		"Content_Length: 34\r\n\r\n",
		"X: y\rContent-Length: 34\r\n\r\n",
		"X: y\r\n Content-Length: 34\r\n\r\n",
		"Content-Length: 0x22\r\n\r\n",
		"X: y\r\nContent-Length: 2\r\n\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n1;\r2\nx\r\n0\r\n\r\n",
	} {
		b := []byte("POST / HTTP/1.1\r\nHost: a.b\r\n" + trick + evil)
		views := map[string]bool{}
		for s := range lenient(1 << ways) {
			views[fmt.Sprint(s.sees(b))] = true
		}
		_, passed, _ := ours(b)
		if len(views) < 2 && !strings.Contains(trick, "\r\n\r\n\r\n") {
			t.Errorf("all see the same in %q", trick)
		}
		if passed == len(b) && len(views) > 1 {
			t.Errorf("let through: %q", trick)
		}
	}
}

func FuzzRequests(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		b, _ := pipeline(r)
		f.Add(b, byte(3))
		f.Add(mutate(r, b), byte(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, size byte) {
		if len(b) > 1<<10 {
			b = b[:1<<10]
		}
		whole := feed(b, max(1, len(b)))
		for _, part := range []int{1, 1 + int(size)} {
			if again := feed(b, part); !same(whole, again) {
				t.Fatalf("by %d: %+v\nat once: %+v", part, again, whole)
			}
		}
		checkServers(t, b)
	})
}
