package names

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/confine-run/confine/internal/network"
)

// MaxNames is how many names a run can have addresses for. Ordinary programs ask for
// tens; the bound is there for those that enumerate a wildcard.
const MaxNames = 4096

// The two ranges, as package netns has them, and what is where in them.
const (
	range4  = 198<<24 | 18<<16 // /15
	range6  = 0xfd63_6f6e_6669_6e65
	atHost  = 2
	atNames = 16
)

// Pair is the two addresses that stand for the same thing.
type Pair struct{ V4, V6 netip.Addr }

// pairAt is the addresses with a number in the ranges.
func pairAt(n uint32) Pair {
	var v4 [4]byte
	var v6 [16]byte
	binary.BigEndian.PutUint32(v4[:], range4+n)
	binary.BigEndian.PutUint64(v6[:8], range6)
	binary.BigEndian.PutUint64(v6[8:], uint64(n))
	return Pair{netip.AddrFrom4(v4), netip.AddrFrom16(v6)}
}

// HostAddresses are the sandbox's own.
func HostAddresses() Pair { return pairAt(atHost) }

func loopback() Pair {
	return Pair{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
}

// numberOf is an address's number in its range. An address with a zone is in none.
func numberOf(addr netip.Addr) (n uint64, ok bool) {
	if addr.Zone() != "" {
		return 0, false
	}
	if addr = addr.Unmap(); addr.Is4() {
		v4 := addr.As4()
		n = uint64(binary.BigEndian.Uint32(v4[:])) - range4 // wraps to something large below the range
		return n, n < 1<<17
	}
	if !addr.Is6() {
		return 0, false
	}
	v6 := addr.As16()
	return binary.BigEndian.Uint64(v6[8:]), binary.BigEndian.Uint64(v6[:8]) == range6
}

// Synthetic tells whether an address is from the ranges, given or not.
func Synthetic(addr netip.Addr) bool {
	_, ok := numberOf(addr)
	return ok
}

// addressOf is the address that a name of the reverse tree stands for. Only whole
// addresses have one: anything else below in-addr.arpa is a name like any other.
func addressOf(name string) (netip.Addr, bool) {
	if octets, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		addr, err := netip.ParseAddr(strings.Join(reversed(octets), "."))
		return addr, err == nil && addr.Is4()
	}
	if nibbles, ok := strings.CutSuffix(name, ".ip6.arpa"); ok && len(nibbles) == 63 {
		digits := reversed(nibbles)
		b, err := hex.DecodeString(strings.Join(digits, ""))
		if err == nil && len(digits) == 32 && len(b) == 16 {
			return netip.AddrFrom16([16]byte(b)), true
		}
	}
	return netip.Addr{}, false
}

func reversed(labels string) []string {
	all := strings.Split(labels, ".")
	slices.Reverse(all)
	return all
}

// Host is the sandbox's own name.
const Host = "confine"

// under tells whether a name is another one or below it.
func under(name, top string) bool {
	rest, ok := strings.CutSuffix(name, top)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// printable is a name from the wire for a log: lower case and without the dot at its
// end, so that neither makes two of one, and what isn't plain as \DDD, the way zone files
// have it. A log is read by people and programs that a newline or an escape could deceive.
func printable(wire string) string {
	if wire == "." {
		return wire
	}
	wire = strings.TrimSuffix(wire, ".")
	b := make([]byte, 0, len(wire))
	for i := range len(wire) {
		switch c := wire[i]; {
		case c == '\\' || c == '"':
			b = append(b, '\\', c)
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		case '!' <= c && c <= '~':
			b = append(b, c)
		default:
			b = append(b, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
		}
	}
	return string(b)
}

// ErrTooManyNames is that a name is new and all [MaxNames] pairs are given.
var ErrTooManyNames = errors.New("no address is left for another name")

// errNotCanonical is a mistake of whoever asks: a name in two spellings would get two pairs.
var errNotCanonical = errors.New("not a name in canonical form")

// isCanonical tells whether a name is in the one form in which the rules compare names, and so is one of a host.
func isCanonical(name string) bool {
	canonical, ok := network.CanonicalName(name)
	return ok && canonical == name
}

// Pool is the synthetic addresses of a run and the names that they stand for. The
// zero value has given none. All methods can be called at the same time.
type Pool struct {
	mu     sync.Mutex
	number map[string]uint32 // from 0
	names  []string          // by number
}

// Give is the pair of a name, a new one when it has none yet. The name is canonical.
func (p *Pool) Give(name string) (Pair, error) {
	if !isCanonical(name) {
		return Pair{}, errNotCanonical
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.number[name]
	if !ok {
		if len(p.names) >= MaxNames {
			return Pair{}, ErrTooManyNames
		}
		if p.number == nil {
			p.number = map[string]uint32{}
		}
		n = uint32(len(p.names))
		p.number[name] = n
		p.names = append(p.names, name)
	}
	return pairAt(atNames + n), nil
}

// Given is the pair of a name that has one.
func (p *Pool) Given(name string) (Pair, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.number[name]
	if !ok {
		return Pair{}, false
	}
	return pairAt(atNames + n), true
}

// Name is the name that an address stands for. An IPv4 address may come mapped into IPv6.
func (p *Pool) Name(addr netip.Addr) (string, bool) {
	n, ok := numberOf(addr)
	if !ok || n < atNames {
		return "", false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n -= atNames; n >= uint64(len(p.names)) {
		return "", false
	}
	return p.names[n], true
}

// Len is how many names have a pair.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.names)
}
