package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/status"
)

// host is a mock whose sandboxes are counted, and of which things change.
type host struct {
	confinetest.Backend
	plans, opened, closed, building, most atomic.Int64

	mu     sync.Mutex
	state  string        // part of every key
	fail   error         // of building
	slow   time.Duration // is building
	unfit  error         // of the proof
	needy  string        // a command that needs another sandbox
	boxes  []*box
	policy *config.Policy
	pools  int
}

func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

type plan struct {
	backend.Plan
	state string
}

func (p plan) Key() (k [32]byte) {
	k = p.Plan.Key()
	copy(k[:], p.state)
	return k
}

func (h *host) Plan(ctx context.Context, s *backend.Spec) (backend.Plan, error) {
	h.plans.Add(1)
	p, err := h.Backend.Plan(ctx, s)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.state
	if len(s.Argv) > 0 && s.Argv[0] == h.needy {
		state += "+" + h.needy
	}
	return plan{p, state}, nil
}

// box is a sandbox that can be ended, as by a fault of its own.
type box struct {
	backend.Sandbox
	host   *host
	number int64
	end    context.CancelFunc
	state  string
	once   sync.Once
}

func (h *host) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	h.opened.Add(1)
	n := h.building.Add(1)
	defer h.building.Add(-1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}
	h.mu.Lock()
	fail, slow := h.fail, h.slow
	h.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
	}
	if fail != nil {
		h.closed.Add(1)
		return nil, fail
	}
	ctx, end := context.WithCancel(ctx)
	inner, err := h.Backend.Build(ctx, p.(plan).Plan)
	if err != nil {
		h.closed.Add(1)
		end()
		return nil, err
	}
	b := &box{Sandbox: inner, host: h, end: end, state: p.(plan).state}
	h.mu.Lock()
	defer h.mu.Unlock()
	b.number = int64(len(h.boxes))
	h.boxes = append(h.boxes, b)
	return b, nil
}

func (b *box) Ready(context.Context) error {
	b.host.mu.Lock()
	defer b.host.mu.Unlock()
	return b.host.unfit
}

func (b *box) Close() (*status.BoxReport, error) {
	b.once.Do(func() { b.host.closed.Add(1) })
	return b.Sandbox.Close()
}

// open makes a pool of a host's sandboxes, of which nothing is left at the test's end.
func (h *host) open(t *testing.T, o Options) *Pool {
	t.Helper()
	return h.openAs(t, h, o)
}

// openAs makes one by a backend that wraps the host.
func (h *host) openAs(t *testing.T, b backend.Backend, o Options) *Pool {
	t.Helper()
	policy := config.Default()
	policy.AllowPartial = []string{"all"}
	if h.policy == nil {
		h.policy = &policy
	}
	if o.Fresh == 0 {
		o.Fresh = 20 * time.Millisecond
	}
	o.Backend = func(*config.Policy) backend.Backend { return b }
	o.Spec = func() (*backend.Spec, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		own := *h.policy
		return &backend.Spec{Policy: &own, Dir: "/"}, nil
	}
	p, err := New(context.Background(), o)
	must.Do(t, err)
	if h.pools++; h.pools == 1 { // cleaned up last
		t.Cleanup(func() {
			eventually(t, "everything that was opened is closed", func() bool { return h.opened.Load() == h.closed.Load() })
		})
	}
	t.Cleanup(p.Close)
	return p
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it never came that " + what)
		}
	}
}

func ready(t *testing.T, p *Pool, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " are ready"), func() bool { return p.Stats().Ready == n })
}

func claim(t *testing.T, p *Pool, want Path) *Claimed {
	t.Helper()
	c, err := p.Claim(t.Context(), "")
	must.Do(t, err)
	if c.Path != want {
		t.Errorf("it came %s, and not %s", c.Path, want)
	}
	return c
}

func TestAParkedSandboxIsUsedOnce(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 3, Max: 3})
	seen := map[int64]bool{}
	for range 10 {
		ready(t, p, 3)
		c := claim(t, p, Parked)
		n := c.Sandbox.(*box).number
		if seen[n] {
			t.Fatal("the same sandbox twice")
		}
		seen[n] = true
		c.Retire()
	}
	if s := p.Stats(); s.Parked.Claims != 10 || s.Cold.Claims != 0 || s.Parked.P50 <= 0 || s.Parked.P99 < s.Parked.P50 {
		t.Errorf("%+v", s)
	}
}

func TestAClaimDoesNotWaitForTheBuilder(t *testing.T) {
	h := &host{slow: 50 * time.Millisecond}
	p := h.open(t, Options{Min: 1, Max: 1})
	eventually(t, "the builder is at it", func() bool { return h.building.Load() == 1 })
	h.set(func() { h.slow = 0 })
	began := time.Now()
	claim(t, p, Cold).Retire()
	if d := time.Since(began); d > 45*time.Millisecond && p.Stats().Built == 0 {
		t.Errorf("a cold one took %v", d)
	}
}

func TestOneIsBuiltAtATimeForAllPools(t *testing.T) {
	h := &host{slow: 3 * time.Millisecond}
	var pools []*Pool
	for range 3 {
		pools = append(pools, h.open(t, Options{Min: 5, Max: 5}))
	}
	for _, p := range pools {
		ready(t, p, 5)
	}
	if n := h.most.Load(); n != 1 {
		t.Errorf("%d were being built at once", n)
	}
}

func TestOneThatIsNotSeenReadyDoesNotCount(t *testing.T) {
	h := &host{unfit: errors.New("no answer")}
	p := h.open(t, Options{Min: 2, Max: 2})
	eventually(t, "some failed", func() bool { return p.Stats().Failed >= 2 })
	if s := p.Stats(); s.Ready != 0 || s.Built != 0 {
		t.Errorf("%+v", s)
	}
	claim(t, p, Cold).Retire()
	h.set(func() { h.unfit = nil })
	ready(t, p, 2)
}

func TestBuildingThatFailsIsTriedLessAndLess(t *testing.T) {
	h := &host{fail: errors.New("no room")}
	p := h.open(t, Options{Min: 5, Max: 5})
	time.Sleep(500 * time.Millisecond)
	if n := h.opened.Load(); n < 2 || n > 5 { // after 0, 100, 300, 700 ms
		t.Errorf("%d attempts in half a second", n)
	}
	if _, err := p.Claim(t.Context(), ""); err == nil {
		t.Error("a claim where nothing can be built")
	}
	h.set(func() { h.fail = nil })
	ready(t, p, 5)
}

func TestOneThatEndsWhileItIsParkedIsReplaced(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 2, Max: 2})
	ready(t, p, 2)
	h.set(func() { h.boxes[0].end(); h.boxes[1].end() })
	claim(t, p, Cold).Retire() // nobody is given one that has ended
	eventually(t, "both were replaced", func() bool { s := p.Stats(); return s.Died == 2 && s.Ready == 2 })
	claim(t, p, Parked).Retire()
}

func TestOneIsNotParkedForEver(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 1, Max: 1, Age: 30 * time.Millisecond})
	eventually(t, "some were too old", func() bool { return p.Stats().Aged >= 3 })
}

func TestAChangeEmptiesThePool(t *testing.T) {
	h := &host{state: "a"}
	p := h.open(t, Options{Min: 3, Max: 3})
	ready(t, p, 3)
	h.set(func() { h.state = "b" }) // of the host
	eventually(t, "those of before are thrown away", func() bool { s := p.Stats(); return s.Changed == 3 && s.Ready == 3 })
	c := claim(t, p, Parked)
	if c.Sandbox.(*box).state != "b" {
		t.Error("one of before the change")
	}
	c.Retire()
	ready(t, p, 3)
	h.set(func() { // of the policy
		other := *h.policy
		other.OutputLimit = 77
		h.policy = &other
	})
	eventually(t, "those of the old policy are thrown away", func() bool { s := p.Stats(); return s.Changed >= 6 && s.Ready == 3 })
	c = claim(t, p, Parked)
	if c.Spec.Policy.OutputLimit != 77 {
		t.Error("one of the old policy")
	}
	c.Retire()
}

// The keeper sleeps, and its plan is old: whoever claims makes another.
func TestAClaimIsNotGivenWhatAnOldPlanSays(t *testing.T) {
	h := &host{state: "a"}
	p := h.open(t, Options{Min: 2, Max: 3, Fresh: time.Hour})
	ready(t, p, 2)
	h.set(func() { h.state, h.slow = "b", time.Second })
	p.mu.Lock()
	p.now.at = p.now.at.Add(-time.Hour)
	p.mu.Unlock()
	c := claim(t, p, Cold)
	if c.Sandbox.(*box).state != "b" {
		t.Error("one of before the change")
	}
	c.Retire()
}

// What was planned for a command is known no longer than what the pool keeps.
func TestAClaimForACommandIsNotGivenWhatAnOldPlanSays(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 1, Max: 1, Fresh: time.Hour})
	ready(t, p, 1)
	for _, want := range []int64{77, 78} {
		h.set(func() {
			other := *h.policy
			other.OutputLimit = want
			h.policy = &other
		})
		p.mu.Lock()
		p.now.at = p.now.at.Add(-time.Hour) // the keeper makes another
		p.mu.Unlock()
		c, err := p.Claim(t.Context(), "sh")
		must.Do(t, err)
		if got := c.Spec.Policy.OutputLimit; got != want {
			t.Errorf("%d, and it is %d by now", got, want)
		}
		c.Retire()
	}
}

func TestACommandThatNeedsMoreGetsASandboxOfItsOwn(t *testing.T) {
	h := &host{needy: "/opt/tool"}
	p := h.open(t, Options{Min: 2, Max: 2, Fresh: time.Hour})
	ready(t, p, 2)
	for name, want := range map[string]Path{"sh": Parked, "/opt/tool": Cold, "true": Parked} {
		ready(t, p, 2)
		c, err := p.Claim(t.Context(), name)
		if err != nil || c.Path != want {
			t.Fatalf("%s: %v, %v", name, c.Path, err)
		}
		c.Retire()
	}
	before := h.plans.Load()
	for range 5 {
		c, err := p.Claim(t.Context(), "sh")
		must.Do(t, err)
		c.Retire()
	}
	if n := h.plans.Load() - before; n > 5 { // those built cold make one each
		t.Errorf("%d plans for a command that is known", n)
	}
}

func TestAPoolGrowsAndShrinksWithDemand(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 1, Max: 4})
	ready(t, p, 1)
	for range 10 {
		c, err := p.Claim(t.Context(), "")
		must.Do(t, err)
		c.Retire()
	}
	eventually(t, "it has grown", func() bool { return p.Stats().Ready > 1 })
	if s := p.Stats(); s.Want > 4 || s.Ready > 4 {
		t.Errorf("%+v", s)
	}
	for range 4 {
		p.mu.Lock()
		p.demand.since = time.Now().Add(-span)
		p.mu.Unlock()
		p.poke()
		time.Sleep(30 * time.Millisecond)
	}
	ready(t, p, 1)
}

func TestManyClaimsAtOnceAllSucceed(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 10, Max: 50})
	ready(t, p, 10)
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			process, err := p.Run(context.Background(), &backend.Exec{Argv: []string{"true"}})
			if err != nil {
				t.Error(err)
				return
			}
			if r := process.Wait(); r.Status != status.OK {
				t.Error(r.Status)
			}
		})
	}
	group.Wait()
	if s := p.Stats(); s.Parked.Claims+s.Cold.Claims != 200 || s.Parked.Claims < 10 {
		t.Errorf("%+v", s)
	}
}

// What one claim brings is not in the sandbox of the next.
func TestNothingOfOneClaimIsInTheNext(t *testing.T) {
	const secret = "hunter2"
	h := &host{}
	h.Handle = func(c *confinetest.Call) confinetest.Result {
		in, _ := io.ReadAll(c.Stdin)
		all := strings.Join(c.Args, " ") + strings.Join(c.Env, " ") + string(in)
		if f, err := c.Files.Open("/tmp/f"); err == nil {
			b, _ := io.ReadAll(f)
			all += string(b)
		}
		_, _ = io.WriteString(c.Stdout, all)
		if w, err := c.Files.Create("/tmp/f", 0o600); err == nil {
			_, _ = io.WriteString(w, secret)
			_ = w.Close()
		}
		return confinetest.Result{}
	}
	p := h.open(t, Options{Min: 2, Max: 2})
	for i, e := range []*backend.Exec{
		{Argv: []string{"a", secret}, Env: []string{"S=" + secret}, Stdin: strings.NewReader(secret)}, {Argv: []string{"b"}}, {Argv: []string{"c"}},
	} {
		ready(t, p, 2)
		var out strings.Builder
		e.Stdout = &out
		process, err := p.Run(t.Context(), e)
		must.Do(t, err)
		process.Wait()
		if got := strings.Count(out.String(), secret); got != []int{3, 0, 0}[i] {
			t.Errorf("claim %d sees %q", i, out.String())
		}
	}
}

func TestASandboxEndsWithItsClaim(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 1, Max: 1})
	ready(t, p, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := p.Claim(ctx, "")
	if err != nil || c.Path != Parked {
		t.Fatal(c, err)
	}
	cancel()
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Error("it stands although whoever claimed it has gone")
	}
	c.Retire()
	ready(t, p, 1)
	if _, err := p.Claim(ctx, ""); !errors.Is(err, context.Canceled) || p.Stats().Ready != 1 {
		t.Errorf("whoever has gone claims one: %v", err)
	}
}

func TestAClosedPoolGivesNothing(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 2, Max: 2})
	ready(t, p, 2)
	kept := claim(t, p, Parked)
	p.Close()
	if _, err := p.Claim(t.Context(), ""); !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
	select {
	case <-kept.Done():
		t.Error("what was claimed before ended with the pool")
	default:
	}
	kept.Retire()
}

func TestAPoolOfNothingIsRefused(t *testing.T) {
	for _, size := range [][2]int{{-1, 1}, {0, 0}, {3, 2}} {
		var usage *config.UsageError
		if _, err := New(t.Context(), Options{Min: size[0], Max: size[1]}); !errors.As(err, &usage) {
			t.Error(size, err)
		}
	}
}

func TestNamesOfCommandsAreBounded(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Min: 1, Max: 1, Fresh: time.Hour})
	ready(t, p, 1)
	for i := range maxCommands + 10 {
		if now := p.plan(fmt.Sprint("c", i), time.Hour); now.err != nil {
			t.Fatal(now.err)
		}
	}
	p.plan(strings.Repeat("x", maxCommand+1), time.Hour)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fits) > maxCommands || p.fits[strings.Repeat("x", maxCommand+1)].spec != nil {
		t.Errorf("%d names", len(p.fits))
	}
}

// A thousand claims at once have so many sandboxes at one time as there are places, those that end and those that are parked too; all
// have their turn, and what is left is what was parked before.
func TestClaimsBeyondThePlacesWaitForTheirTurn(t *testing.T) {
	const most = 8
	h := &host{}
	p := h.open(t, Options{Min: 2, Max: 4, Places: places.New(most), Patience: time.Minute})
	ready(t, p, 2)
	var group sync.WaitGroup
	for range 1000 {
		group.Go(func() {
			process, err := p.Run(t.Context(), &backend.Exec{Argv: []string{"true"}})
			if err != nil {
				t.Error(err)
				return
			}
			process.Wait()
			if n := h.opened.Load() - h.closed.Load(); n > most {
				t.Errorf("%d sandboxes stand", n)
			}
		})
	}
	group.Wait()
	eventually(t, "it has parked some again", func() bool { s := p.Stats(); return s.Ready >= 2 && s.Waiting == 0 })
}

func TestAClaimThatHasWaitedTooLongIsRefused(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Max: 1, Places: places.New(1), Patience: 20 * time.Millisecond})
	held := claim(t, p, Cold)
	if _, err := p.Claim(t.Context(), ""); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.opts.Patience = time.Minute
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := p.Claim(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	got := make(chan error, 1)
	go func() {
		c, err := p.Claim(t.Context(), "")
		if err == nil {
			c.Retire()
		}
		got <- err
	}()
	eventually(t, "one waits", func() bool { return p.Stats().Waiting == 1 })
	held.Retire()
	must.Do(t, <-got)
	if s := p.Stats(); s.Refused != 1 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// A pool that is closed has nobody wait for it.
func TestAClosedPoolLetsGoOfThoseWhoWait(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Max: 1, Places: places.New(1), Patience: time.Minute})
	held := claim(t, p, Cold)
	defer held.Retire()
	got := make(chan error, 1)
	go func() {
		_, err := p.Claim(t.Context(), "")
		got <- err
	}()
	eventually(t, "one waits", func() bool { return p.Stats().Waiting == 1 })
	p.Close()
	if err := <-got; !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
}

// Whoever's time is over has no place any more, whether it says so or not.
func TestAClaimThatIsForgottenGivesItsPlaceBack(t *testing.T) {
	h := &host{}
	p := h.open(t, Options{Max: 1, Places: places.New(1), Patience: 20 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Claim(ctx, "")
	must.Do(t, err)
	cancel()
	claim(t, p, Cold).Retire()
}
