package network

import (
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What random policies are made of.
var (
	someWords = strings.Fields(`a.com b.a.com *.a.com *.com * *.*.com a*.com a.* nas.local *.local x.internal localhost localhost:80 *.localhost
		a.com:443 *.a.com:80 *:25 10.0.0.1 10.0.0.0/8 10.* 0.0.0.0/0 0.0.0.0/0:443 ::/0 127.0.0.1:80 [::1]:443 fd00::/8 169.254.169.254 169.254.0.0/16 1.1.1.1:80 64:ff9b::/96
		https://a.com/* http://a.com/* http://a.com/api/* http://b.a.com/x https://*.com:80/* http://localhost/api/* https://10.0.0.1/*`)
	someNames = strings.Fields(`a.com b.a.com c.b.a.com b.com com ab.com nas.local x.internal localhost x.localhost other.org A.com. 10.0.0.1 a..com`)
	someAddrs = strings.Fields(`1.1.1.1 8.8.8.8 10.0.0.1 10.1.0.1 192.168.1.1 127.0.0.1 127.0.0.2 0.0.0.0 169.254.169.254 169.254.1.1 198.18.0.9 224.0.0.1 100.64.0.1
		::1 :: fd00::1 fe80::1 fd63:6f6e:6669:6e65::9 2606:4700::1 64:ff9b::a00:1 64:ff9b::808:808 ::ffff:10.0.0.1 2002:a9fe:a9fe::`)
	somePorts = []uint16{25, 80, 443, 9999}
	somePaths = []string{"/", "/api/x", "/x", "/api/../x"}
)

var reasons = []Reason{ReasonAllowed, ReasonNotAllowed, ReasonDenied, ReasonPort, ReasonInternal, ReasonScheme, ReasonPath, ReasonName}

func randomPolicy(r *rand.Rand) Policy {
	p := Policy{BlockInternal: r.IntN(4) > 0}
	for range r.IntN(4) {
		p.Allow = append(p.Allow, someWords[r.IntN(len(someWords))])
	}
	for range max(0, r.IntN(4)-1) {
		p.Deny = append(p.Deny, deniable(r))
	}
	for range max(0, r.IntN(4)-2) {
		p.Ports = append(p.Ports, int(somePorts[r.IntN(len(somePorts))]))
	}
	return p
}

func deniable(r *rand.Rand) string {
	for {
		if w := someWords[r.IntN(len(someWords))]; !strings.Contains(w, "://") || strings.HasSuffix(w, "/*") && !strings.Contains(w, "api") {
			return w
		}
	}
}

// answers are all that rules allow of the probes, and nothing that isn't allowed.
func answers(t *testing.T, r *Rules) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	note := func(v Verdict, words ...string) bool {
		if v.Allowed != (v.Why == ReasonAllowed) || v.Allowed && (v.Rule == "" || v.Hint != "") || !slices.Contains(reasons, v.Why) || v.Why == ReasonDenied && !strings.HasPrefix(v.Rule, "deny ") {
			t.Fatalf("%v: %+v makes no sense", words, v)
		}
		if v.Allowed {
			got[strings.Join(words, " ")] = true
		}
		return v.Allowed
	}
	for _, port := range somePorts {
		p := netip.AddrPortFrom(netip.Addr{}, port).String()
		note(r.Localhost(port), "localhost", p)
		for _, name := range someNames {
			connects := note(r.Connect(name, port), "connect", name, p)
			reached := connects // what is said of addresses, too
			if a, err := netip.ParseAddr(name); err == nil {
				reached = r.Address(a, port).Allowed
			}
			if reached != (r.Needs(name, port) != 0) {
				t.Fatalf("%s:%d: reached %v, needs %v", name, port, reached, r.Needs(name, port))
			}
			for _, a := range someAddrs {
				if note(r.Resolved(name, netip.MustParseAddr(a), port), "resolved", name, a, p) && !connects {
					t.Fatalf("%s:%d is allowed at %s only", name, port, a)
				}
			}
			for _, path := range somePaths {
				if note(r.Path(name, port, path), "path", name, p, path) && !reached {
					t.Fatalf("%s:%d is allowed for %s only", name, port, path)
				}
			}
			for _, c := range []Protocols{TLS, HTTP, Raw} {
				if note(r.Speaks(name, port, c), "speaks", name, p, c.String()) && !reached {
					t.Fatalf("%s:%d is allowed for %v only", name, port, c)
				}
			}
		}
		for _, a := range someAddrs {
			note(r.Address(netip.MustParseAddr(a), port), "address", a, p)
		}
	}
	for _, name := range someNames {
		named := note(r.Name(name), "name", name)
		reached := slices.ContainsFunc(somePorts, func(port uint16) bool { return r.Connect(name, port).Allowed })
		if named != reached {
			t.Fatalf("%s: may be looked up: %v; a port can be reached: %v", name, named, reached)
		}
	}
	return got
}

func less(t *testing.T, small, big map[string]bool, what string) {
	t.Helper()
	for k := range small {
		if !big[k] {
			t.Fatalf("%s: %s", what, k)
		}
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	allowedEver := map[string]bool{}
	for range 100 {
		p := randomPolicy(r)
		base := answers(t, compile(t, p))
		for k := range base {
			allowedEver[k] = true
		}
		q := p
		q.Deny = append(slices.Clone(p.Deny), deniable(r))
		less(t, answers(t, compile(t, q)), base, "a denied word allows")
		q = p
		q.Allow = append(slices.Clone(p.Allow), someWords[r.IntN(len(someWords))])
		less(t, base, answers(t, compile(t, q)), "an allowed word forbids")
		q = p
		q.BlockInternal = true
		less(t, answers(t, compile(t, q)), base, "blocking internal addresses allows")
		q = p
		q.Allow = nil
		less(t, answers(t, compile(t, q)), nil, "an empty allowlist allows")
		q = p
		slices.Reverse(q.Allow)
		slices.Reverse(q.Deny)
		again := answers(t, compile(t, q))
		less(t, again, base, "the order of words matters")
		less(t, base, again, "the order of words matters")
	}
	if len(allowedEver) < 300 {
		t.Errorf("hardly anything was ever allowed: %d", len(allowedEver))
	}
	less(t, answers(t, &Rules{}), nil, "the zero value allows")
}

// No internal address is reached by words that name none.
func TestInternalAddressesNeedAName(t *testing.T) {
	r := compile(t, policy("* *.com a.* *.* 0.0.0.0/0 ::/0 8.0.0.0/6 128.0.0.0/1 2000::/3 a.local:1 https://*.com:9/* localhost *.localhost"))
	rng := rand.New(rand.NewPCG(7, 7))
	public := 0
	for range 60_000 {
		var b [16]byte
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		a := netip.AddrFrom4([4]byte(b[:4]))
		if n := rng.IntN(len(internal4) + len(internal6) + len(embedding6) + 2); n < len(internal6)+len(embedding6) {
			e := &embedding6[n%len(embedding6)].range6
			if n < len(internal6) {
				e = &internal6[n]
			}
			a = mix(netip.AddrFrom16(e.ip), e.bits, b[:])
		} else if n -= len(internal6) + len(embedding6); n < len(internal4) {
			a = mix(netip.AddrFrom4(internal4[n].ip), internal4[n].bits, b[:])
		} else if n == len(internal4) {
			a = netip.AddrFrom16(b)
		}
		_, internal := Internal(a)
		for _, v := range []Verdict{r.Address(a, 80), r.Resolved("a.com", a, 80), r.Resolved("nas.local", a, 80)} {
			if v.Allowed == internal {
				t.Fatalf("%v: internal is %v, and %+v", a, internal, v)
			}
			if internal && v.Why != ReasonInternal {
				t.Fatalf("%v: %+v", a, v)
			}
		}
		if !internal {
			public++
		}
	}
	if public < 500 {
		t.Errorf("only %d public addresses were tried", public)
	}
}

// mix keeps the first bits of an address and takes the others of b.
func mix(a netip.Addr, bits int, b []byte) netip.Addr {
	s := a.AsSlice()
	for i := range s {
		keep := min(max(bits-8*i, 0), 8)
		mask := byte(0xff << (8 - keep))
		s[i] = s[i]&mask | b[i]&^mask
	}
	a, _ = netip.AddrFromSlice(s)
	return a
}

// Patterns match what the regular expressions match that they stand for.
func TestPatternsAgreeWithRegexp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	word := func(letters string, most int) string {
		labels := make([]string, 1+rng.IntN(4))
		for i := range labels {
			for range 1 + rng.IntN(most) {
				labels[i] += string(letters[rng.IntN(len(letters))])
			}
		}
		return strings.Join(labels, ".")
	}
	hits := 0
	for range 20_000 {
		pattern := word("ab*", 4)
		one, err := parse(pattern)
		if err != nil || one.labels == nil {
			continue
		}
		expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, "*")
		labels := strings.Split(expr, `\.`)
		for i, l := range labels {
			switch {
			case l == "*" && i == 0:
				labels[i] = `[ab]+(?:\.[ab]+)*`
			case l == "*":
				labels[i] = `[ab]+`
			default:
				labels[i] = strings.ReplaceAll(l, "*", `[ab]*`)
			}
		}
		re := regexp.MustCompile("^" + strings.Join(labels, `\.`) + "$")
		for range 20 {
			name := word("ab", 3)
			if got := matchName(one.labels, name); got != re.MatchString(name) {
				t.Fatalf("%q and %q: %v, %s", pattern, name, got, re)
			} else if got {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d matches", hits)
	}
}
