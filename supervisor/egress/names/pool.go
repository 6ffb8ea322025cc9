package names

import (
	"errors"
	"net/netip"
	"sync"
)

// ErrTooManyNames is that a name is new and all [MaxNames] pairs are given.
var ErrTooManyNames = errors.New("no address is left for another name")

// errNotCanonical is a mistake of whoever asks: a name in two spellings would get two pairs.
var errNotCanonical = errors.New("not a name in canonical form")

// Pool is the synthetic addresses of a run and the names that they stand for. The
// zero value has given none. All methods can be called at the same time.
type Pool struct {
	mu     sync.RWMutex
	number map[string]uint32 // from 0
	names  []string          // by number
}

// Give is the pair of a name, a new one when it has none yet. The name is canonical.
func (p *Pool) Give(name string) (Pair, error) {
	if pair, ok := p.Given(name); ok {
		return pair, nil
	}
	if !IsCanonical(name) {
		return Pair{}, errNotCanonical
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.number[name] // somebody may have been faster
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
	p.mu.RLock()
	defer p.mu.RUnlock()
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
	p.mu.RLock()
	defer p.mu.RUnlock()
	if n -= atNames; n >= uint64(len(p.names)) {
		return "", false
	}
	return p.names[n], true
}

// Len is how many names have a pair.
func (p *Pool) Len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.names)
}
