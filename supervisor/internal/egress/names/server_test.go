package names

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	a, aaaa, ptr = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR
	first4       = "198.18.0.16"
	first6       = "fd63:6f6e:6669:6e65::10"
	first6Arpa   = "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.e.6.9.6.6.6.e.6.f.6.3.6.d.f.ip6.arpa."
	otherV6Arpa  = "0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.e.6.9.6.6.6.e.6.f.6.3.6.d.f.ip6.arpa."
	loopV6Arpa   = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."
	mappedFirst  = "0.1.0.0.2.1.6.c.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."
)

func TestAnswers(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	for _, c := range []struct {
		name  string
		qtype dnsmessage.Type
		want  string // an address, a name, or the code
		told  string
	}{
		{"example.org.", a, first4, ""},
		{"example.org.", aaaa, first6, ""},
		{"a.b.c.example.org.", a, first4, ""},
		{"_under-score_.example.org.", a, first4, ""},
		{"xn--mnchen-3ya.example.org.", a, first4, ""},
		{"1.2.3.4.example.org.", a, first4, ""},
		{label63 + "." + label63 + "." + label63 + "." + strings.Repeat("b", 49) + ".example.org.", aaaa, first6, ""},

		// Nothing but addresses is there, and nobody has to be asked.
		{"example.org.", dnsmessage.TypeTXT, "Success", ""}, {"example.org.", dnsmessage.TypeMX, "Success", ""},
		{"example.org.", dnsmessage.TypeSRV, "Success", ""}, {"example.org.", dnsmessage.TypeHTTPS, "Success", ""},
		{"example.org.", dnsmessage.TypeSVCB, "Success", ""}, {"example.org.", dnsmessage.TypeCNAME, "Success", ""},
		{"example.org.", dnsmessage.TypeNS, "Success", ""}, {"example.org.", dnsmessage.TypeSOA, "Success", ""},
		{"example.org.", dnsmessage.TypeALL, "Success", ""}, {"example.org.", ptr, "Success", ""},
		{"example.org.", 0, "Success", ""}, {"example.org.", 65535, "Success", ""},

		{"gone.example.org.", a, "NameError", ""}, {"gone.example.org.", aaaa, "NameError", ""},
		{"nobody-knows.example.net.", a, "ServerFailure", ""},

		{"evil.com.", a, "Refused", "evil.com not_allowed"},
		{"EVIL.com.", aaaa, "Refused", "evil.com not_allowed"},
		{"secret.evil.com.", dnsmessage.TypeTXT, "Refused", "secret.evil.com not_allowed"},
		{"evil.com.", 1234, "Refused", "evil.com not_allowed"},
		{"notexample.org.", a, "Refused", "notexample.org not_allowed"},
		{"example.org.evil.com.", a, "Refused", "example.org.evil.com not_allowed"},
		{"org.", a, "Refused", "org not_allowed"},
		{"intranet.", a, "Refused", "intranet not_allowed"},
		{".", dnsmessage.TypeNS, "Refused", ". bad_name"},
		{"evil.com.", dnsmessage.TypeAXFR, "Refused", "evil.com zone_transfer"},
		{"example.org.", dnsmessage.TypeAXFR, "Refused", "example.org zone_transfer"},
		{"example.org.", typeIXFR, "Refused", "example.org zone_transfer"},

		// No rule is asked about what isn't a name of a host.
		{"\x00.example.org.", a, "Refused", `\000.example.org bad_name`},
		{"example.org\x00.example.org.", a, "Refused", `example.org\000.example.org bad_name`},
		{"a b.example.org.", a, "Refused", `a\032b.example.org bad_name`},
		{"a\r\nb.example.org.", a, "Refused", `a\013\010b.example.org bad_name`},
		{"\x1b[2J.example.org.", a, "Refused", `\027[2j.example.org bad_name`},
		{"m\xc3\xbcnchen.example.org.", a, "Refused", `m\195\188nchen.example.org bad_name`},
		{"\xe2\x84\xaa.example.org.", a, "Refused", `\226\132\170.example.org bad_name`}, // lower case of it is "k"
		{"\xff.example.org.", a, "Refused", `\255.example.org bad_name`},
		{"*.example.org.", a, "Refused", "*.example.org bad_name"},
		{`a"\b.example.org.`, a, "Refused", `a\"\\b.example.org bad_name`},
		{"a/b.example.org.", a, "Refused", "a/b.example.org bad_name"},
		{"127.0.0.1.", a, "Refused", "127.0.0.1 bad_name"},
		{"2130706433.", a, "Refused", "2130706433 bad_name"},
		{"0x7f.0X1.", a, "Refused", "0x7f.0x1 bad_name"},

		// What is local is so whatever the rules are.
		{"localhost.", a, "127.0.0.1", ""}, {"LocalHost.", aaaa, "::1", ""}, {"x.y.localhost.", a, "127.0.0.1", ""},
		{"localhost.", dnsmessage.TypeTXT, "Success", ""}, {"notlocalhost.", a, "Refused", "notlocalhost not_allowed"},
		{"localhost.example.org.", a, first4, ""},
		{"confine.", a, "198.18.0.2", ""}, {"CONFINE.", aaaa, "fd63:6f6e:6669:6e65::2", ""},
		{"confine.", dnsmessage.TypeMX, "Success", ""}, {"x.confine.", a, "Refused", "x.confine not_allowed"},

		{"1.0.0.127.in-addr.arpa.", ptr, "localhost.", ""}, {loopV6Arpa, ptr, "localhost.", ""},
		{"2.0.18.198.in-addr.arpa.", ptr, "confine.", ""}, {"2.0.18.198.IN-ADDR.ARPA.", a, "Success", ""},
		{"16.0.18.198.in-addr.arpa.", ptr, "NameError", ""}, {first6Arpa, ptr, "NameError", ""}, // not given yet
		{"1.0.18.198.in-addr.arpa.", ptr, "NameError", ""},
		{"8.8.8.8.in-addr.arpa.", ptr, "NameError", ""}, {otherV6Arpa, ptr, "NameError", ""}, {"8.8.8.8.in-addr.arpa.", a, "NameError", ""},
		{"8.8.8.in-addr.arpa.", ptr, "Refused", "8.8.8.in-addr.arpa not_allowed"},
		{"8.8.8.8.8.in-addr.arpa.", ptr, "Refused", "8.8.8.8.8.in-addr.arpa not_allowed"},
		{"08.8.8.8.in-addr.arpa.", ptr, "Refused", "08.8.8.8.in-addr.arpa not_allowed"},
		{"256.8.8.8.in-addr.arpa.", ptr, "Refused", "256.8.8.8.in-addr.arpa not_allowed"},
		{"secret.8.8.8.in-addr.arpa.", ptr, "Refused", "secret.8.8.8.in-addr.arpa not_allowed"},
		{"b._dns-sd._udp.0.0.0.10.in-addr.arpa.", ptr, "Refused", "b._dns-sd._udp.0.0.0.10.in-addr.arpa not_allowed"},
		{"g" + first6Arpa[1:], ptr, "Refused", "g" + strings.TrimSuffix(first6Arpa[1:], ".") + " not_allowed"},
		{"00." + first6Arpa[4:], ptr, "Refused", "00." + strings.TrimSuffix(first6Arpa[4:], ".") + " not_allowed"},
		{"in-addr.arpa.", a, "Refused", "in-addr.arpa not_allowed"}, {"nobody-knows.allowed.arpa.", a, "ServerFailure", ""},
	} {
		s, log := newServer()
		m := ask(t, s, asking(t, c.name, c.qtype))
		if got := said(m); got != c.want || log.String() != c.told {
			t.Errorf("%q %v: %s, told %q; want %s, told %q", c.name, c.qtype, got, log, c.want, c.told)
		}
		if !m.Response || m.ID != 0xbeef || !m.RecursionDesired || !m.RecursionAvailable || m.Authoritative || m.Truncated {
			t.Errorf("%q: header %v", c.name, m.Header.GoString())
		}
		if len(m.Questions) != 1 || m.Questions[0].Name.String() != c.name || m.Questions[0].Type != c.qtype {
			t.Errorf("%q: the question comes back as %v", c.name, m.Questions)
		}
		if given := strings.HasPrefix(c.want, first4) || strings.HasPrefix(c.want, first6); given != (s.Pool.Len() == 1) {
			t.Errorf("%q: %d names have addresses", c.name, s.Pool.Len())
		}
		for _, r := range m.Answers {
			if r.Header.Name.String() != c.name || r.Header.TTL != ttl || r.Header.Class != dnsmessage.ClassINET {
				t.Errorf("%q: the record is %v", c.name, r.Header.GoString())
			}
		}
	}
}

func TestAnAddressThatWasGivenPointsToItsName(t *testing.T) {
	s, log := newServer()
	ask(t, s, asking(t, "WWW.example.ORG.", a))
	for name, want := range map[string]string{
		"16.0.18.198.in-addr.arpa.": "www.example.org.", first6Arpa: "www.example.org.", strings.ToUpper(first6Arpa): "www.example.org.",
		mappedFirst:                 "www.example.org.",
		"17.0.18.198.in-addr.arpa.": "NameError", otherV6Arpa: "NameError",
	} {
		if got := said(ask(t, s, asking(t, name, ptr))); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if log.String() != "" {
		t.Errorf("told %q", log)
	}
}

func TestCaseMakesNoSecondName(t *testing.T) {
	s, _ := newServer()
	for i := range 1 << 10 {
		name := []byte("abcdefghij.example.org.")
		for bit := range 10 {
			if i>>bit&1 == 1 {
				name[bit] -= 'a' - 'A'
			}
		}
		m := ask(t, s, asking(t, string(name), a))
		if said(m) != first4 || m.Questions[0].Name.String() != string(name) || m.Answers[0].Header.Name.String() != string(name) {
			t.Fatalf("%s: %s for %v", name, said(m), m.Questions)
		}
	}
	if s.Pool.Len() != 1 {
		t.Errorf("%d names", s.Pool.Len())
	}
}

// Who is asked, and that nobody is about what isn't allowed or isn't an address.
func TestOnlyAddressesOfAllowedNamesAreLookedUp(t *testing.T) {
	s, _ := newServer()
	var asked []string
	s.Exists = func(_ context.Context, name string) error {
		asked = append(asked, name)
		return nil
	}
	for _, name := range []string{
		"evil.com.", "localhost.", "confine.", "8.8.8.8.in-addr.arpa.", "x y.example.org.", "127.0.0.1.", ".",
	} {
		for _, qtype := range []dnsmessage.Type{a, aaaa, ptr, dnsmessage.TypeTXT, dnsmessage.TypeALL, dnsmessage.TypeAXFR} {
			ask(t, s, asking(t, name, qtype))
		}
	}
	for i := range 1 << 16 {
		if qtype := dnsmessage.Type(i); qtype != a && qtype != aaaa {
			s.Answer(context.Background(), asking(t, "DATA.example.org.", qtype), true)
		}
	}
	if len(asked) > 0 || s.Pool.Len() > 0 {
		t.Errorf("asked about %q, %d names", asked, s.Pool.Len())
	}
	ask(t, s, asking(t, "DATA.example.org.", a))
	if fmt.Sprint(asked) != "[data.example.org]" {
		t.Errorf("asked about %q", asked)
	}
}

func TestAServerWithoutRulesAllowsNothing(t *testing.T) {
	s := &Server{Pool: new(Pool)}
	if got := said(ask(t, s, asking(t, "example.org.", a))); got != "Refused" {
		t.Error(got)
	}
	s.Allowed = allowed
	if got := said(ask(t, s, asking(t, "example.org.", a))); got != "ServerFailure" || s.Pool.Len() != 0 {
		t.Errorf("%s, %d names", got, s.Pool.Len())
	}
}

func TestAFullPoolIsTold(t *testing.T) {
	s, log := newServer()
	for i := range MaxNames {
		if got, want := said(ask(t, s, asking(t, fmt.Sprintf("n%d.example.org.", i), a))), pairAt(uint32(atNames+i)).V4.String(); got != want {
			t.Fatalf("%d: %s, want %s", i, got, want)
		}
	}
	lookups := 0
	s.Exists = func(context.Context, string) error { lookups++; return nil }
	if got := said(ask(t, s, asking(t, "More.example.org.", aaaa))); got != "ServerFailure" || log.String() != "more.example.org too_many_names" || lookups != 0 {
		t.Errorf("%s, told %q after %d lookups", got, log, lookups)
	}
	if got := said(ask(t, s, asking(t, "n7.example.org.", a))); got != "198.18.0.23" {
		t.Errorf("a name that has an address: %s", got)
	}
	if got := said(ask(t, s, asking(t, "15.16.18.198.in-addr.arpa.", ptr))); got != "n4095.example.org." {
		t.Errorf("the last address: %s", got)
	}
}

func TestNamesThatAreRefusedCostNoMemory(t *testing.T) {
	s, _ := newServer()
	told := 0
	s.Refused = func(string, Why) { told++ }
	flood := func(n int) {
		for i := range n {
			s.Answer(context.Background(), asking(t, fmt.Sprintf("n%d.%s.evil.com.", i, strings.Repeat("x", 60)), a), false)
			s.Answer(context.Background(), asking(t, fmt.Sprintf("%d.%d.9.8.in-addr.arpa.", i%256, i/256%256), ptr), false)
			s.Answer(context.Background(), asking(t, fmt.Sprintf("gone%d.example.org.", i), aaaa), false)
		}
	}
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	flood(100)
	before := heap()
	flood(20_000)
	if grown := heap() - before; grown > 512<<10 || told != 20_100 || s.Pool.Len() != 0 {
		t.Errorf("%d bytes for %d names that were refused, %d have addresses", grown, told, s.Pool.Len())
	}
	runtime.KeepAlive(s)
}

func TestAddressesOfTheReverseTree(t *testing.T) {
	for _, addr := range []string{"0.0.0.0", "1.2.3.4", "255.254.253.252", "::", "::1", "fd63:6f6e:6669:6e65::10", "2001:db8:1234:5678:9abc:def0:1122:3344"} {
		want := netip.MustParseAddr(addr)
		name := reverseName(want)
		if got, ok := addressOf(name); got != want || !ok {
			t.Errorf("%s: %v %v, want %v", name, got, ok, want)
		}
		if got, ok := addressOf(strings.Replace(name, ".", "-", 1)); ok {
			t.Errorf("another separator in %s: %v", name, got)
		}
		if got, ok := addressOf("x." + name); ok {
			t.Errorf("x.%s: %v", name, got)
		}
		if _, rest, _ := strings.Cut(name, "."); strings.Count(rest, ".") > 1 {
			if got, ok := addressOf(rest); ok {
				t.Errorf("%s: %v", rest, got)
			}
		}
	}
}

// reverseName is written without a look at the code that it is held against.
func reverseName(addr netip.Addr) string {
	b := addr.AsSlice()
	var name strings.Builder
	for i := len(b) - 1; i >= 0; i-- {
		if addr.Is4() {
			fmt.Fprintf(&name, "%d.", b[i])
		} else {
			fmt.Fprintf(&name, "%x.%x.", b[i]&0xf, b[i]>>4)
		}
	}
	if addr.Is4() {
		return name.String() + "in-addr.arpa"
	}
	return name.String() + "ip6.arpa"
}
