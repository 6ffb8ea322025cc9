package names

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/confine-run/confine/internal/netns"
)

func TestAddressesAreGivenInOrderAndKept(t *testing.T) {
	var p Pool
	for round := range 2 {
		for i, want := range []string{"198.18.0.16 fd63:6f6e:6669:6e65::10", "198.18.0.17 fd63:6f6e:6669:6e65::11"} {
			name := fmt.Sprintf("n%d.example.org", i)
			pair, err := p.Give(name)
			if got := pair.V4.String() + " " + pair.V6.String(); err != nil || got != want {
				t.Errorf("round %d: %s: %s %v, want %s", round, name, got, err, want)
			}
			for _, addr := range []netip.Addr{pair.V4, pair.V6, netip.AddrFrom16(pair.V4.As16())} {
				if got, ok := p.Name(addr); got != name || !ok {
					t.Errorf("%v: %q %v, want %q", addr, got, ok, name)
				}
			}
		}
	}
	if p.Len() != 2 {
		t.Errorf("%d names", p.Len())
	}
}

func TestAddressesThatWereNotGivenHaveNoName(t *testing.T) {
	var p Pool
	if _, err := p.Give("example.org"); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{
		"198.18.0.0", "198.18.0.1", "198.18.0.2", "198.18.0.15", "198.18.0.17", "198.17.255.255", "198.20.0.16", "0.0.0.16",
		"fd63:6f6e:6669:6e65::", "fd63:6f6e:6669:6e65::1", "fd63:6f6e:6669:6e65::f", "fd63:6f6e:6669:6e65::11",
		"fd63:6f6e:6669:6e65:8000::10", "fd63:6f6e:6669:6e65::1:0:10", "fd63:6f6e:6669:6e66::10", "::10",
		"fd63:6f6e:6669:6e65::10%eth0", "::198.18.0.16", "64:ff9b::198.18.0.16",
	} {
		if name, ok := p.Name(netip.MustParseAddr(addr)); ok {
			t.Errorf("%s is %q", addr, name)
		}
	}
	if name, ok := p.Name(netip.Addr{}); ok {
		t.Errorf("no address is %q", name)
	}
	if _, ok := p.Name(netip.MustParseAddr("fd63:6f6e:6669:6e65::10")); !ok {
		t.Error("the one that was given has none either")
	}
}

// The messages of package netns and the resolver speak of the same addresses.
func TestRangesHoldWhatIsGiven(t *testing.T) {
	v4, v6 := netip.MustParsePrefix(netns.Range4), netip.MustParsePrefix(netns.Range6)
	if own := HostAddresses(); own.V4.String() != netns.Own4 || own.V6.String() != netns.Own6 || Host != netns.Hostname {
		t.Errorf("%v, %s", own, Host)
	}
	last := pairAt(atNames + MaxNames - 1)
	for addr, want := range map[netip.Addr]bool{
		last.V4: true, last.V6: true, netip.MustParseAddr("198.19.255.255"): true, netip.MustParseAddr("::ffff:198.18.0.0"): true,
		netip.MustParseAddr("198.20.0.0"): false, netip.MustParseAddr("198.17.255.255"): false, netip.MustParseAddr("::1"): false,
	} {
		if got := Synthetic(addr); got != want || (v4.Contains(addr.Unmap()) || v6.Contains(addr)) != want {
			t.Errorf("%v: %v, want %v", addr, got, want)
		}
	}
}

func TestOneNameInAnotherSpellingHasNoAddress(t *testing.T) {
	var p Pool
	for _, name := range []string{"", ".", "Example.org", "example.org.", "example..org", "exa mple.org", "1.2.3.4", "\u212aelvin.org", strings.Repeat("a", 64) + ".org"} {
		if pair, err := p.Give(name); err == nil || pair.V4.IsValid() || p.Len() != 0 {
			t.Errorf("%q: %v %v", name, pair, err)
		}
	}
}

func TestThePoolIsBounded(t *testing.T) {
	var p Pool
	name := func(i int) string { return fmt.Sprintf("n%d.example.org", i) }
	for i := range MaxNames {
		if _, err := p.Give(name(i)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	for range 2 {
		if pair, err := p.Give("one-more.example.org"); !errors.Is(err, ErrTooManyNames) || pair.V4.IsValid() {
			t.Errorf("one more: %v %v", pair, err)
		}
	}
	for _, i := range []int{0, MaxNames - 1} {
		if pair, err := p.Give(name(i)); err != nil || pair != pairAt(uint32(atNames+i)) {
			t.Errorf("%s no longer has its own: %v %v", name(i), pair, err)
		}
	}
	if p.Len() != MaxNames || len(p.number) != MaxNames {
		t.Errorf("%d names, %d numbers", p.Len(), len(p.number))
	}
}

// Many ask for the same names in different orders, and more of them than there is room for: no name has two pairs, and
// no pair two names.
func TestEveryNameHasOnePairWhoeverAsksFirst(t *testing.T) {
	const askers, names = 16, MaxNames + 512
	var p Pool
	var all sync.WaitGroup
	var got sync.Map // pairs by name, and names by pair
	for asker := range askers {
		all.Go(func() {
			for k := range names {
				i := (k + asker*7) % names
				if asker%2 == 1 {
					i = names - 1 - i
				}
				name := fmt.Sprintf("n%d.example.org", i)
				pair, err := p.Give(name)
				if err != nil {
					continue
				}
				if other, _ := got.LoadOrStore(name, pair); other != pair {
					t.Errorf("%s has %v and %v", name, pair, other)
				}
				if other, _ := got.LoadOrStore(pair, name); other != name {
					t.Errorf("%v is of %s and %s", pair, name, other)
				}
				if back, ok := p.Name(pair.V6); !ok || back != name {
					t.Errorf("%v is %q, and was given to %q", pair.V6, back, name)
				}
			}
		})
	}
	all.Wait()
	if p.Len() != MaxNames {
		t.Errorf("%d given", p.Len())
	}
}
