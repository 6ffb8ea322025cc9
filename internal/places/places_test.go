package places

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

const long = time.Minute

func take(t *testing.T, p *Places) *Place {
	t.Helper()
	l, err := p.Take(t.Context(), "", 0)
	must.Do(t, err)
	return l
}

// wait has somebody wait, and tells of the place.
func wait(ctx context.Context, p *Places, who string, got chan<- string) {
	before := p.Waiting()
	go func() {
		l, err := p.Take(ctx, who, long)
		if err == nil {
			got <- who
			l.Free()
		}
	}()
	for p.Waiting() == before {
		time.Sleep(100 * time.Microsecond)
	}
}

// Of two of whom one has asked for much, the other waits for one more and not for all.
func TestThoseWhoWaitTakeTurns(t *testing.T) {
	p := New(1)
	held := take(t, p)
	got := make(chan string, 10)
	for _, who := range []string{"a", "a", "a", "a", "b", "c", "c"} {
		wait(t.Context(), p, who, got)
	}
	held.Free()
	var order []string
	for range 7 {
		order = append(order, <-got)
	}
	if want := []string{"a", "b", "c", "a", "c", "a", "a"}; !slices.Equal(order, want) {
		t.Errorf("%v, and not %v", order, want)
	}
}

func TestWhoHasWaitedTooLongIsRefused(t *testing.T) {
	p := New(1)
	held := take(t, p)
	if _, err := p.Take(t.Context(), "", time.Millisecond); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	held.Free()
	held.Free() // once
	first := take(t, p)
	if _, err := p.Take(t.Context(), "", 0); !errors.Is(err, ErrFull) {
		t.Errorf("one place is two: %v", err)
	}
	first.Free()
}

func TestAWaiterThatIsCancelledLeavesNothing(t *testing.T) {
	p := New(1)
	held := take(t, p)
	got := make(chan string, 2)
	ctx, cancel := context.WithCancel(t.Context())
	for _, who := range []string{"a", "b", "a"} {
		wait(ctx, p, who, make(chan string, 1))
	}
	wait(t.Context(), p, "a", got)
	cancel()
	for p.Waiting() != 1 {
		time.Sleep(100 * time.Microsecond)
	}
	held.Free()
	if who := <-got; who != "a" {
		t.Error(who)
	}
	take(t, p).Free()
	if p.waiting != 0 || p.taken != 0 || len(p.lines) != 0 || len(p.turns) != 0 {
		t.Errorf("%+v", p)
	}
}

func TestWhatNobodyAskedForTakesHalf(t *testing.T) {
	p := New(5)
	a, b := p.Spare(), p.Spare()
	if a == nil || b == nil || p.Spare() != nil {
		t.Fatalf("%+v", p)
	}
	a.Used()
	c := p.Spare()
	if c == nil || p.Spare() != nil {
		t.Errorf("one that is used counts as spare: %+v", p)
	}
	if p.Try(3) != nil {
		t.Error("more than there are")
	}
	two := p.Try(2)
	if len(two) != 2 || p.Spare() != nil {
		t.Errorf("%+v", p)
	}
	for _, l := range append(two, a, b, c) {
		l.Free()
	}
	if p.taken != 0 || p.spare != 0 {
		t.Errorf("%+v", p)
	}
}

// Whatever happens at once, there are never more, and nothing is left.
func TestPlacesAreNeverTooMany(t *testing.T) {
	p := New(3)
	var mu sync.Mutex
	now, most, served := 0, 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		now += by
		if most = max(most, now); by > 0 {
			served++
		}
	}
	var group sync.WaitGroup
	for i := range 300 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%5 == 0 {
				time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			}
			l, err := p.Take(ctx, fmt.Sprint(i%7), long)
			if err != nil {
				return
			}
			count(1)
			time.Sleep(100 * time.Microsecond)
			count(-1)
			l.Free()
		})
	}
	group.Wait()
	if most > 3 || served < 240 || p.taken != 0 || p.waiting != 0 || len(p.lines) != 0 {
		t.Errorf("%d at once, %d served: %+v", most, served, p)
	}
}

func TestPlacesByDescriptors(t *testing.T) {
	for limit, want := range map[int]int{0: 1 << 20, 30: 1, 256: 4, 1024: 19, 4096: 76, 1 << 20: 19660} {
		if n := byDescriptors(limit); n != want {
			t.Errorf("%d descriptors: %d, and not %d", limit, n, want)
		}
	}
}
