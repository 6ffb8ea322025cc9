package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// What the cache in front of the caller's resolver holds, and for how long.
const (
	// keepFound lets a query and the connections after it share one lookup. Short,
	// since the lifetime that the zone gave isn't told by the library.
	keepFound    = 10 * time.Second
	keepNotFound = 2 * time.Second
	keepFailure  = time.Second

	maxEntries   = 1024 // names
	maxAddresses = 64   // of a name; whoever serves a zone can send thousands
	maxLookups   = 64   // at a time
	maxWait      = 10 * time.Second
)

// ErrNotFound is that a name doesn't exist, or has no address.
var ErrNotFound = errors.New("no such host")

// ErrBusy is that more names are being looked up than are kept.
var ErrBusy = errors.New("too many lookups at a time")

// System asks the caller's resolver: /etc/hosts and the name servers of
// /etc/resolv.conf, by Go's own code. Other sources of nsswitch.conf, multicast DNS
// among them, are not asked.
func System(ctx context.Context, name string) ([]netip.Addr, error) {
	// Go doesn't find a name of one label in /etc/hosts when a dot is behind it.
	if label := strings.TrimSuffix(name, "."); !strings.Contains(label, ".") {
		r := net.Resolver{PreferGo: true, Dial: noServer}
		if found, err := r.LookupNetIP(ctx, "ip", label); err == nil {
			return found, nil
		}
	}
	r := net.Resolver{PreferGo: true}
	return r.LookupNetIP(ctx, "ip", name)
}

// noServer leaves files to be asked, and no name with a search domain behind it.
func noServer(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("files alone")
}

// Resolver asks for the addresses of names, in the caller's network. It remembers for seconds, asks
// once for all who want the same name at the same time, and asks for a bounded number of names at
// a time. All methods can be called at the same time. A lookup is done by one of those who
// want it; there is no goroutine of its own.
type Resolver struct {
	// Lookup is asked for a name with a dot at its end, so that no search domain is
	// ever put behind it. See [System].
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

	mu      sync.Mutex
	entries map[string]*entry
	slots   chan struct{}
}

// entry is a name that is being looked up, or was.
type entry struct {
	done      chan struct{} // closed when what follows is there
	abandoned bool          // by whoever looked it up: somebody else has to
	addresses []netip.Addr
	err       error
	until     time.Time
}

func (e *entry) finished() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// Addresses are a name's real ones, without zones, IPv4 never mapped into IPv6. The name is
// canonical; anything else, an address among them, is [ErrNotFound] without a question.
func (r *Resolver) Addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	if !isCanonical(name) {
		return nil, ErrNotFound
	}
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		e, mine, err := r.entry(name)
		if err != nil {
			return nil, err
		}
		if mine {
			r.look(ctx, waiting, name, e)
			return slices.Clone(e.addresses), e.err
		}
		select {
		case <-e.done:
		case <-waiting.Done():
			return nil, waiting.Err()
		}
		if !e.abandoned {
			return slices.Clone(e.addresses), e.err
		}
	}
}

// entry is the one of a name; mine says that it is new, and the caller has to fill it.
func (r *Resolver) entry(name string) (e *entry, mine bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if e = r.entries[name]; e != nil && (!e.finished() || now.Before(e.until)) {
		return e, false, nil
	}
	if r.entries == nil {
		r.entries = map[string]*entry{}
		r.slots = make(chan struct{}, maxLookups)
	}
	if e == nil && !r.room(now) {
		return nil, false, ErrBusy
	}
	e = &entry{done: make(chan struct{})}
	r.entries[name] = e
	return e, true, nil
}

// room makes place for an entry: of those that are over, or else of any that isn't
// being filled, which a map gives in no order that anybody could choose.
func (r *Resolver) room(now time.Time) bool {
	if len(r.entries) < maxEntries {
		return true
	}
	victim := ""
	for name, e := range r.entries {
		if !e.finished() {
			continue
		}
		if victim = name; !now.Before(e.until) {
			delete(r.entries, name)
		}
	}
	if len(r.entries) >= maxEntries {
		delete(r.entries, victim)
	}
	return len(r.entries) < maxEntries
}

// look fills an entry. What came of a lookup that the caller gave up, or that never began, says
// nothing about the name: it is not kept, and the next of those who wait asks again.
func (r *Resolver) look(ctx, waiting context.Context, name string, e *entry) {
	e.abandoned, e.err = true, ErrBusy // unless it is otherwise in the end, even by a panic
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.abandoned && r.entries[name] == e {
			delete(r.entries, name)
		}
		close(e.done)
	}()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-waiting.Done():
		e.err = waiting.Err()
		return
	}
	found, err := r.Lookup(waiting, name+".")
	if err != nil && ctx.Err() != nil {
		e.err = ctx.Err()
		return
	}
	e.addresses, e.err = clean(found), err
	keep := keepFound
	var dns *net.DNSError
	switch {
	case err == nil && len(e.addresses) > 0:
	case err == nil || errors.As(err, &dns) && dns.IsNotFound || errors.Is(err, ErrNotFound):
		e.addresses, e.err, keep = nil, ErrNotFound, keepNotFound
	default:
		e.addresses, keep = nil, keepFailure
	}
	e.until, e.abandoned = time.Now().Add(keep), false
}

// clean is addresses in the form in which rules compare them: a prefix contains neither
// an address with a zone nor an IPv4 address that is mapped into IPv6.
func clean(found []netip.Addr) []netip.Addr {
	var addresses []netip.Addr
	for _, addr := range found {
		addr = addr.Unmap().WithZone("")
		if addr.IsValid() && !slices.Contains(addresses, addr) {
			addresses = append(addresses, addr)
		}
		if len(addresses) == maxAddresses {
			break
		}
	}
	return addresses
}
