package network

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestWiderComparesWhatWordsMean(t *testing.T) {
	p := func(allow, deny string, ports ...int) Policy {
		return Policy{Allow: strings.Fields(allow), Deny: strings.Fields(deny), Ports: ports, BlockInternal: true}
	}
	for _, c := range []struct {
		p, most             Policy
		allow, deny, byport bool
	}{
		{p("10.0.0.0/24", ""), p("10.0.0.0/8", ""), false, false, false},
		{p("10.*", ""), p("10.0.0.0/8", ""), false, false, false},
		{p("10.0.0.0/7", ""), p("10.0.0.0/8", ""), true, false, false},
		{p("10.0.0.0/24", ""), p("0.0.0.0/0", ""), true, false, false}, // which names no internal address
		{p("8.8.0.0/16", ""), p("0.0.0.0/0", ""), false, false, false},
		{p("8.8.8.8", ""), p("8.8.0.0/16", ""), true, false, false}, // it may be the host's own, and is named then
		{p("169.254.169.254", ""), p("169.254.0.0/16", ""), true, false, false},
		{p("169.254.1.0/24", ""), p("169.254.0.0/16", ""), false, false, false},
		{p("127.0.0.2", ""), p("127.0.0.0/8", ""), false, false, false},
		{p("127.0.0.1", ""), p("127.0.0.2", ""), true, false, false},
		{p("fd00::/64", ""), p("fd00::/8", ""), false, false, false},
		{p("::/0", ""), p("0.0.0.0/0", ""), true, false, false},
		{p("example.org:443", ""), p("example.org", ""), false, false, false},
		{p("example.org", ""), p("example.org:443", ""), true, false, false},
		{p("example.org", "", 443), p("example.org:443", ""), false, false, false},
		{p("example.org", "", 443, 80), p("example.org", "", 443), false, false, true},
		{p("example.org", ""), p("example.org", "", 443), false, false, true},
		{p("example.org:80", ""), p("example.org", "", 443), true, false, false},
		{p("example.org", "", 80, 443), p("example.org:80 *.org:443", ""), false, false, false},
		{p("a.example.org", ""), p("*.example.org", ""), false, false, false},
		{p("*.a.example.org", ""), p("*.example.org", ""), false, false, false},
		{p("a*.example.org", ""), p("*.example.org", ""), false, false, false},
		{p("*a.b.org", ""), p("*.b.org", ""), false, false, false},
		{p("example.org", ""), p("*.example.org", ""), true, false, false},
		{p("*.example.org", ""), p("a.example.org", ""), true, false, false},
		{p("*.org", ""), p("a.*.org", ""), true, false, false},
		{p("x.a.org", ""), p("x.*.org", ""), false, false, false},
		{p("a.example.org.evil.com", ""), p("*.example.org", ""), true, false, false},
		{p("aexample.org", ""), p("*.example.org", ""), true, false, false},
		{p("localhost", ""), p("*", ""), true, false, false},
		{p("localhost:80", ""), p("localhost", ""), false, false, false},
		{p("nas.local", ""), p("*", ""), true, false, false}, // it may be private there
		{p("nas.local", ""), p("*.local", ""), false, false, false},
		{p("https://a.com/*", ""), p("a.com", ""), false, false, false},
		{p("a.com", ""), p("https://a.com/*", ""), true, false, false},
		{p("a.com:443", ""), p("https://a.com/*", ""), true, false, false},
		{p("http://a.com/api/x", ""), p("http://a.com/api/*", ""), false, false, false},
		{p("http://a.com/api", ""), p("http://a.com/api/*", ""), true, false, false},
		{p("http://a.com/api/*", ""), p("http://a.com/api/x", ""), true, false, false},
		{p("http://a.com/*", ""), p("http://a.com/api/*", ""), true, false, false},
		{p("a.com", "evil.com"), p("a.com", ""), false, false, false},
		{p("a.com", ""), p("a.com", "evil.com"), false, true, false},
		{p("a.com", "*.com"), p("a.com", "evil.com"), false, false, false},
		{p("a.com", "evil.com:80"), p("a.com", "evil.com"), false, true, false},
		{p("a.com", "evil.com"), p("a.com", "evil.com:80"), false, false, false},
		{p("a.com", "10.0.0.0/8"), p("a.com", "10.1.0.0/16"), false, false, false},
		{p("a.com", "10.1.0.0/16"), p("a.com", "10.0.0.0/8"), false, true, false},
		{p("a.com", "*"), p("a.com", "10.0.0.0/8 localhost a.org"), false, false, false},
		{p("a.com", "*.*"), p("a.com", "localhost"), false, true, false},
		{p("a.com", "l*"), p("a.com", "localhost"), false, true, false},
		{p("a.com", "l*"), p("a.com", "l*"), false, false, false},
		{p("a.com", "*.*"), p("a.com", "*.localhost"), false, true, false},
		{p("", ""), p("a.com", ""), false, false, false},
		{p("a.com", ""), p("", ""), true, false, false},
	} {
		if allow, deny, ports := Wider(c.p, c.most); allow != c.allow || deny != c.deny || ports != c.byport {
			t.Errorf("%+v below %+v: allow %v, deny %v, ports %v", c.p, c.most, allow, deny, ports)
		}
	}
	open := p("nas.local 10.0.0.0/24", "")
	most := p("* 0.0.0.0/0", "")
	most.BlockInternal = false
	if allow, _, _ := Wider(open, most); allow {
		t.Error("internal addresses are open")
	}
	if allow, deny, ports := Wider(p("a..b", ""), p("*", "")); !allow || !deny || !ports {
		t.Error("what can't be read is within something")
	}
}

// What isn't found to be wider allows nothing that the other doesn't, whatever is asked.
func TestWhatIsNotWiderAllowsNoMore(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 4))
	own := func(rules *Rules, got map[string]bool) map[string]bool {
		for _, port := range somePorts {
			for _, a := range someAddrs {
				if rules.Own(netip.MustParseAddr(a), port).Allowed {
					got["own "+netip.AddrPortFrom(netip.MustParseAddr(a), port).String()] = true
				}
			}
		}
		return got
	}
	patterns := []string{"*.*", "l*", "localhos*", "*.localhost", "localhost", "*.*.*", "x.*", "b.*.*"}
	within, other, refused := 0, 0, 0
	for range 60_000 {
		p, most := randomPolicy(r), randomPolicy(r)
		for _, one := range []*Policy{&p, &most} {
			if r.IntN(3) == 0 {
				one.Deny = append(one.Deny, patterns[r.IntN(len(patterns))])
			}
		}
		p.BlockInternal = p.BlockInternal || most.BlockInternal // else that is what is wider
		if r.IntN(2) == 0 {
			most.Allow = append(most.Allow, p.Allow...)
		}
		if r.IntN(2) == 0 {
			p.Deny = append(p.Deny, most.Deny...)
		}
		allow, deny, ports := Wider(p, most)
		if allow || deny || ports {
			refused++
			continue
		}
		if len(p.Allow) == 0 || within > 400 && !changed(p, most) {
			continue
		}
		within++
		if changed(p, most) {
			other++
		}
		if other > 600 {
			break
		}
		small, big := compile(t, p), compile(t, most)
		less(t, own(small, answers(t, small)), own(big, answers(t, big)), "what is not wider allows more")
	}
	if other < 300 || refused < 300 {
		t.Errorf("%d of other words were within, %d refused: hardly anything was tried", other, refused)
	}
}

// changed: some of its words are not the other's.
func changed(p, most Policy) bool {
	return slices.ContainsFunc(p.Allow, func(w string) bool { return !slices.Contains(most.Allow, w) }) ||
		slices.ContainsFunc(most.Deny, func(w string) bool { return !slices.Contains(p.Deny, w) })
}

// What is wider in fact is mostly found by what is allowed of the probes: a comparison that refuses everything would be worth nothing.
func TestEachWordIsWithinItself(t *testing.T) {
	for _, w := range someWords {
		one := Policy{Allow: []string{w}, BlockInternal: true}
		if allow, deny, ports := Wider(one, one); allow || deny || ports {
			t.Errorf("%s: %v, %v, %v", w, allow, deny, ports)
		}
	}
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		p := randomPolicy(r)
		if allow, deny, ports := Wider(p, p); allow || deny || ports {
			t.Errorf("%+v: %v, %v, %v", p, allow, deny, ports)
		}
	}
}
