package names

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Time in these tests is that of a bubble: it passes when everybody waits, so that
// deadlines are exact and nobody sleeps.

var somewhere = []netip.Addr{netip.MustParseAddr("203.0.113.7")}

// outside is a lookup that counts.
type outside struct {
	mu    sync.Mutex
	asked []string
	say   func(ctx context.Context, name string) ([]netip.Addr, error)
}

func (o *outside) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	o.mu.Lock()
	o.asked = append(o.asked, name)
	o.mu.Unlock()
	if o.say == nil {
		return somewhere, nil
	}
	return o.say(ctx, name)
}

func (o *outside) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

func TestNamesAreAskedAsRooted(t *testing.T) {
	o := new(outside)
	r := Resolver{Lookup: o.lookup}
	if got, err := r.Addresses(t.Context(), "example.org"); err != nil || !slices.Equal(got, somewhere) || fmt.Sprint(o.asked) != "[example.org.]" {
		t.Errorf("%v %v, asked %q", got, err, o.asked)
	}
	for _, name := range []string{"", ".", "Example.org", "example.org.", "127.0.0.1", "127.1", "0x7f000001", "::1", "a b", "a..b", "e\u0301.org"} {
		if got, err := r.Addresses(t.Context(), name); !errors.Is(err, ErrNotFound) || got != nil {
			t.Errorf("%q: %v %v", name, got, err)
		}
	}
	if o.count() != 1 {
		t.Errorf("asked %q", o.asked)
	}
}

func TestAddressesComeAsRulesCompareThem(t *testing.T) {
	for what, c := range map[string]struct{ found, want string }{
		"mapped":     {"::ffff:10.0.0.1 10.0.0.1", "10.0.0.1"},
		"with zones": {"fe80::1%eth0 fe80::1 ::1", "fe80::1 ::1"},
		"both":       {"203.0.113.7 2001:db8::7", "203.0.113.7 2001:db8::7"},
	} {
		r := Resolver{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			found := []netip.Addr{{}}
			for _, word := range strings.Fields(c.found) {
				found = append(found, netip.MustParseAddr(word))
			}
			return found, nil
		}}
		got, err := r.Addresses(t.Context(), "example.org")
		if text := strings.Trim(fmt.Sprint(got), "[]"); err != nil || text != c.want {
			t.Errorf("%s: %s %v, want %s", what, text, err, c.want)
		}
	}
}

func TestAHostileZoneGivesABoundedNumberOfAddresses(t *testing.T) {
	r := Resolver{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		found := make([]netip.Addr, 4000)
		for i := range found {
			found[i] = netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
		}
		return found, nil
	}}
	if got, err := r.Addresses(t.Context(), "example.org"); len(got) != maxAddresses || err != nil {
		t.Errorf("%d addresses, %v", len(got), err)
	}
}

func TestWhatIsFoundIsHandedOutAsACopy(t *testing.T) {
	r := Resolver{Lookup: new(outside).lookup}
	for range 3 {
		got, err := r.Addresses(t.Context(), "example.org")
		if err != nil || got[0] != somewhere[0] {
			t.Fatalf("%v %v", got, err)
		}
		got[0] = netip.Addr{}
	}
}

func TestHowLongAnswersAreKept(t *testing.T) {
	for what, c := range map[string]struct {
		found []netip.Addr
		err   error
		want  error
		keep  time.Duration
	}{
		"found":      {somewhere, nil, nil, keepFound},
		"not found":  {nil, &net.DNSError{IsNotFound: true}, ErrNotFound, keepNotFound},
		"no address": {nil, nil, ErrNotFound, keepNotFound},
		"failed":     {nil, &net.DNSError{IsTemporary: true, Err: "server misbehaving"}, nil, keepFailure},
		"both":       {somewhere, errors.New("half of it failed"), nil, keepFailure},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &outside{say: func(context.Context, string) ([]netip.Addr, error) { return c.found, c.err }}
			r := Resolver{Lookup: o.lookup}
			check := func(lookups int) {
				t.Helper()
				got, err := r.Addresses(t.Context(), "example.org")
				if (err == nil) != (what == "found") || (len(got) > 0) != (err == nil) || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("%s: %v %v", what, got, err)
				}
				if o.count() != lookups {
					t.Errorf("%s: %d lookups, want %d", what, o.count(), lookups)
				}
			}
			check(1)
			time.Sleep(c.keep - 1)
			check(1)
			time.Sleep(time.Nanosecond)
			check(2)
		})
	}
}

func TestOneLookupForAllWhoWaitForTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		o := &outside{say: func(context.Context, string) ([]netip.Addr, error) { <-answer; return somewhere, nil }}
		r := Resolver{Lookup: o.lookup}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if got, err := r.Addresses(t.Context(), "example.org"); err != nil || !slices.Equal(got, somewhere) {
					t.Errorf("%v %v", got, err)
				}
			})
		}
		synctest.Wait()
		if o.count() != 1 {
			t.Errorf("%d lookups", o.count())
		}
		close(answer)
		wg.Wait()
		if o.count() != 1 {
			t.Errorf("%d lookups in the end", o.count())
		}
	})
}

// Whoever began a lookup may go away, and the others must not fail for it.
func TestALookupThatIsGivenUpIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		o := &outside{say: func(ctx context.Context, _ string) ([]netip.Addr, error) {
			select {
			case <-answer:
				return somewhere, nil
			case <-ctx.Done():
				return nil, &net.DNSError{IsTimeout: true, Err: ctx.Err().Error()}
			}
		}}
		r := Resolver{Lookup: o.lookup}
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := r.Addresses(first, "example.org"); !errors.Is(err, context.Canceled) {
				t.Errorf("who went away: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			wg.Go(func() {
				if got, err := r.Addresses(t.Context(), "example.org"); err != nil || !slices.Equal(got, somewhere) {
					t.Errorf("who stayed: %v %v", got, err)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(answer)
		wg.Wait()
		if o.count() != 2 {
			t.Errorf("%d lookups", o.count())
		}
	})
}

func TestNobodyWaitsLongerThanTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{say: func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }}
		r := Resolver{Lookup: o.lookup}
		start := time.Now()
		var wg sync.WaitGroup
		// Twice as many names as there are slots, and two who want each.
		for i := range 4 * maxLookups {
			wg.Go(func() {
				name := fmt.Sprintf("n%d.example.org", i/2)
				if got, err := r.Addresses(t.Context(), name); err == nil || errors.Is(err, ErrNotFound) {
					t.Errorf("%s: %v %v", name, got, err)
				}
				if waited := time.Since(start); waited != maxWait {
					t.Errorf("%s: waited %v", name, waited)
				}
			})
		}
		synctest.Wait()
		if o.count() != maxLookups {
			t.Errorf("%d lookups at a time", o.count())
		}
		wg.Wait()
		if len(r.slots) != 0 {
			t.Errorf("%d slots are still taken", len(r.slots))
		}
		o.say = nil
		time.Sleep(keepFailure)
		if got, err := r.Addresses(t.Context(), "n0.example.org"); err != nil || len(got) != 1 {
			t.Errorf("after that: %v %v", got, err)
		}
	})
}

func TestTheCallersOwnDeadlineHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Resolver{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := r.Addresses(ctx, "example.org"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if len(r.entries) != 0 {
			t.Errorf("kept: %v", r.entries)
		}
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(outside)
		r := Resolver{Lookup: o.lookup}
		for i := range 5 * maxEntries {
			if _, err := r.Addresses(t.Context(), fmt.Sprintf("n%d.example.org", i)); err != nil {
				t.Fatal(err)
			}
			if len(r.entries) > maxEntries {
				t.Fatalf("%d entries", len(r.entries))
			}
		}
		time.Sleep(keepFound)
		if _, err := r.Addresses(t.Context(), "another.example.org"); err != nil || len(r.entries) != 1 {
			t.Errorf("%d entries after their time, %v", len(r.entries), err)
		}
	})
}

func TestMoreNamesThanAreKeptAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		r := Resolver{Lookup: func(context.Context, string) ([]netip.Addr, error) { <-answer; return somewhere, nil }}
		var wg sync.WaitGroup
		for i := range maxEntries {
			wg.Go(func() {
				if _, err := r.Addresses(t.Context(), fmt.Sprintf("n%d.example.org", i)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := r.Addresses(t.Context(), "another.example.org"); !errors.Is(err, ErrBusy) {
			t.Errorf("%v", err)
		}
		close(answer)
		wg.Wait()
		if _, err := r.Addresses(t.Context(), "another.example.org"); err != nil || len(r.entries) > maxEntries {
			t.Errorf("%v, %d entries", err, len(r.entries))
		}
	})
}

// A lookup that panics takes nobody else with it, wherever the panic is caught.
func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	o := &outside{say: func(context.Context, string) ([]netip.Addr, error) { panic("a bug") }}
	r := Resolver{Lookup: o.lookup}
	func() {
		defer func() { _ = recover() }()
		_, _ = r.Addresses(t.Context(), "example.org")
	}()
	o.say = nil
	if got, err := r.Addresses(t.Context(), "example.org"); err != nil || len(got) != 1 || len(r.slots) != 0 {
		t.Errorf("%v %v, %d slots", got, err, len(r.slots))
	}
}

// Many ask for few names while answers expire: nobody may get another name's answer.
func TestManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		address := func(name string) netip.Addr {
			var i int
			fmt.Sscanf(name, "n%d.", &i)
			return netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
		}
		o := &outside{say: func(_ context.Context, name string) ([]netip.Addr, error) {
			time.Sleep(time.Second)
			return []netip.Addr{address(name)}, nil
		}}
		r := Resolver{Lookup: o.lookup}
		var wg sync.WaitGroup
		for asker := range 50 {
			wg.Go(func() {
				for i := range 40 {
					name := fmt.Sprintf("n%d.example.org", (i*7+asker)%20)
					if got, err := r.Addresses(t.Context(), name); err != nil || len(got) != 1 || got[0] != address(name) {
						t.Errorf("%s: %v %v", name, got, err)
					}
				}
			})
		}
		wg.Wait()
		// 2,000 questions in well under a minute; each name is good for ten seconds.
		if n := o.count(); n < 20 || n > 100 {
			t.Errorf("%d lookups", n)
		}
	})
}
