package vm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/backend/vm/internal/wire"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// A machine that is written down is a snapshot of the outer sandbox, in which the keeper has put the memory, the state of the devices
// and what the guest holds of files (package keeper). Processes are in it: they go on where they were. Who was connected to them isn't.

// format is that of what a keeper writes.
const format = "3"

// about is what a machine is, as it is written down with it. All of it has to fit where it is to go on.
type about struct {
	Format  string
	QEMU    string // its version
	Type    string
	CPU     string
	Accel   string
	Memory  int64
	CPUs    int
	Network bool
	Kernel  string // digest
	Init    string // digest of the program that is init
	Policy  string // digest, but for what is kept at the end, and for what is denied: the sandbox in the guest goes on to deny what it did, and the one around QEMU what it is told here
	User    string
	Nonce   []byte // that is in the memory, too
	Guest   status.Ledger
}

// describe is a machine of this plan, with a version of QEMU.
func (p plan) describe(qemu string) (*about, error) {
	kernel, err := digestOf(p.kernel.path)
	if err != nil {
		return nil, err
	}
	own, err := digestOf("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	policy := *p.spec.Policy
	policy.Filesystem.Deny, policy.Filesystem.Keep = nil, false
	uid, gid := identity(&policy)
	return &about{
		Format: format, QEMU: qemu, Type: machineType, CPU: p.accel.cpu(), Accel: p.accel.mechanism(), Memory: ramOf(&policy), CPUs: max(1, policy.CPUs),
		Network: hasNetwork(&policy), Kernel: kernel, Init: own, Policy: policy.Digest(), User: fmt.Sprint(uid, ":", gid),
	}, nil
}

// misfit names the first thing that is other.
func (a *about) misfit(here *about) error {
	for _, f := range []struct {
		name        string
		there, here any
	}{
		{"format", a.Format, here.Format}, {"version of QEMU", a.QEMU, here.QEMU}, {"machine type", a.Type, here.Type}, {"CPU", a.CPU, here.CPU},
		{"accelerator", a.Accel, here.Accel}, {"size of memory", a.Memory, here.Memory}, {"number of CPUs", a.CPUs, here.CPUs},
		{"network card", a.Network, here.Network}, {"kernel", a.Kernel, here.Kernel}, {"version of confine", a.Init, here.Init},
		{"policy", a.Policy, here.Policy}, {"user", a.User, here.User},
	} {
		if f.there != f.here {
			return &config.UsageError{Msg: fmt.Sprintf("the machine that was written down has another %s: %.100q, and here it is %.100q", f.name, fmt.Sprint(f.there), fmt.Sprint(f.here)),
				Hint: "restore it where all of that is the same"}
		}
	}
	return nil
}

// digests of files that were read before, by what tells that they are the same.
var digests sync.Map

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	key := path + keyOf(st)
	if known, ok := digests.Load(key); ok {
		return known.(string), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	d := hex.EncodeToString(h.Sum(nil))
	digests.Store(key, d)
	return d, nil
}

// keyOf tells a file from what it was before.
func keyOf(st os.FileInfo) string { return fmt.Sprint(" ", st.Size(), " ", st.ModTime().UnixNano()) }

// versionOf is QEMU's.
func versionOf(s *sandbox) (string, error) {
	if known := s.plan.knownVersion(); known != "" {
		return known, nil
	}
	<-s.confirmation()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.qemu == "" {
		return "", errors.New("QEMU doesn't say its version")
	}
	if st, err := os.Stat(s.plan.qemu); err == nil {
		versions.Store(s.plan.qemu+keyOf(st), s.qemu)
	}
	return s.qemu, nil
}

// knownVersion is what a QEMU that is the same has said of itself; empty: none has.
func (p *plan) knownVersion() string {
	st, err := os.Stat(p.qemu)
	if err != nil {
		return ""
	}
	known, _ := versions.Load(p.qemu + keyOf(st))
	version, _ := known.(string)
	return version
}

// versions of QEMUs, by what tells that they are the same.
var versions sync.Map

// maxAbout is how long an about is at most.
const maxAbout = 64 << 10

// fitting is what is written down in the outer sandbox, if it is of a machine like this one.
func fitting(s *sandbox) (*about, error) {
	version, err := versionOf(s)
	if err != nil {
		return nil, err
	}
	f, err := s.outer.Files().Open(keeper.About)
	if err != nil {
		return nil, &config.UsageError{Msg: "there is no machine in the snapshot", Err: err}
	}
	defer f.Close()
	var a about
	if err := json.NewDecoder(io.LimitReader(f, maxAbout)).Decode(&a); err != nil {
		return nil, &config.UsageError{Msg: "the machine in the snapshot is none", Err: err}
	}
	s.plan.accel = s.plan.accel.restored(a.Accel)
	here, err := s.plan.describe(version)
	if err != nil {
		return nil, err
	}
	return &a, a.misfit(here)
}

// errNoRestore is a machine that is another than the one that was written down.
var errNoRestore = errors.New("the guest doesn't go on from where it was: it doesn't know the number that was left in its memory")

// wake has a machine go on that was written down: as another one than it was, with a clock and random numbers of its own.
func (m *machine) wake(ctx context.Context, s *sandbox, known *about, from origin) error {
	if from.give != nil {
		if err := errors.Join(from.give(), m.orders.give(&keeper.Order{Load: true})); err != nil {
			return m.cause(err)
		}
	} else if err := m.begun(ctx); err != nil {
		return err
	}
	s.confirmation()
	m.conn.greeted = true // it did, when it booted
	m.release = s.plan.kernel.release
	number, err := m.conn.wake(ctx, &wire.Wake{Other: true, Now: time.Now().UnixNano(), Seed: random(64)})
	switch {
	case errors.Is(err, backend.ErrClosed):
		return m.conn.why()
	case err != nil:
		return err
	case len(known.Nonce) != nonceSize || !bytes.Equal(number, known.Nonce):
		return errNoRestore
	}
	<-s.confirmation()
	s.setLedger(m, known.Guest)
	return nil
}

const nonceSize = 32

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// written has the machine written down in the outer sandbox, do done, and the machine go on.
func written(ctx context.Context, s *sandbox, do func() error) error {
	back, err := stand(ctx, s)
	if err == nil {
		err = do()
	}
	if back != nil {
		err = errors.Join(err, back())
	}
	return err
}

// stand has the machine written down in the outer sandbox, and stand still until back is called. back is nil if it doesn't stand.
func stand(ctx context.Context, s *sandbox) (back func() error, err error) {
	m := s.now()
	version, err := versionOf(s)
	if err != nil {
		return nil, err
	}
	a, err := s.plan.describe(version)
	if err != nil {
		return nil, err
	}
	a.Nonce, a.Guest = random(nonceSize), guestOf(s)
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	held, err := m.conn.hold(ctx, a.Nonce)
	if err != nil {
		return nil, err
	}
	back = func() error {
		if err := m.orders.give(&keeper.Order{Go: true}); err != nil {
			held.Release()
			m.conn.fail(err)
			return err
		}
		return m.conn.resume(held)
	}
	err = m.orders.give(&keeper.Order{Save: text})
	if err != nil && !errors.Is(err, errKeeper) && !errors.Is(err, errGone) {
		err = &config.UsageError{Msg: "the machine can't be written down: " + err.Error()}
	}
	return back, err
}

// Depart writes the machine down, and has it stand still.
func (s *sandbox) Depart(ctx context.Context) (made backend.Snapshot, back func() error, err error) {
	err = s.alter(func() (err error) {
		if back, err = stand(ctx, s); err == nil {
			made, err = s.outer.Snapshot(ctx)
		}
		if err != nil && back != nil {
			err, back = errors.Join(err, back()), nil
		}
		if err == nil {
			m, on := s.now(), back
			m.conn.still.Store(true)
			back = func() error {
				m.conn.still.Store(false)
				return on()
			}
		}
		return err
	})
	return made, back, err
}

// alter has one at a time change what the sandbox is.
func (s *sandbox) alter(do func() error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	select {
	case <-s.closed:
		return backend.ErrClosed
	case <-s.over:
		return backend.ErrClosed
	default:
		return do()
	}
}

// Snapshot writes the machine down: its memory, its devices, and what is in overlays. It stands still meanwhile.
func (s *sandbox) Snapshot(ctx context.Context) (made backend.Snapshot, err error) {
	err = s.alter(func() error {
		return written(ctx, s, func() (err error) {
			made, err = s.outer.Snapshot(ctx)
			return err
		})
	})
	if err != nil && made != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, err
}

// errReplaced is the end of a machine in whose place another goes on.
var errReplaced = errors.New("the sandbox was restored")

// Restore makes the machine the one that was written down. Those of its processes that run go on where they were then; those that
// run now end.
func (s *sandbox) Restore(ctx context.Context, from backend.Snapshot) error {
	return s.alter(func() error {
		m := s.now()
		s.mu.Lock()
		s.replacing = true
		s.mu.Unlock()
		err := s.outer.Restore(ctx, from)
		if err == nil {
			m.conn.fail(errReplaced)
			<-m.over
			var failed any
			if r, beginErr := s.begin(ctx, origin{restore: true}); r != nil {
				failed, err = r, &backend.BuildError{Report: r}
			} else if err = beginErr; err != nil {
				failed = err
			}
			if failed == nil {
				return nil
			}
		}
		s.mu.Lock()
		s.replacing = false
		s.mu.Unlock()
		select {
		case <-m.over: // there is no machine any more
			s.ended.Do(func() { close(s.over) })
		default:
		}
		return err
	})
}

// Fork makes another machine that is as this one is now, with its processes. This one goes on as soon as its memory was copied.
func (s *sandbox) Fork(life context.Context) (backend.Sandbox, error) {
	var f *sandbox
	err := s.alter(func() error {
		back, err := stand(life, s)
		if back == nil {
			return err
		}
		gone := make(chan error, 1)
		goOn := sync.OnceFunc(func() {
			go func() { gone <- back() }()
		})
		if err == nil {
			f, err = beside(life, s, goOn)
		}
		goOn()
		return errors.Join(err, <-gone)
	})
	if err != nil {
		if f != nil {
			_, _ = f.Close()
		}
		return nil, err
	}
	return f, nil
}

// beside makes the other machine. copied is called when nothing of this one is needed any more.
func beside(life context.Context, s *sandbox, copied func()) (*sandbox, error) {
	o, ok := backend.As[interface {
		ForkWithout(life context.Context, place string) (backend.Sandbox, error)
	}](s.outer)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	outer, err := o.ForkWithout(context.WithoutCancel(life), keeper.MemoryPlace)
	if err != nil {
		return nil, err
	}
	p := s.plan
	p.spec = s.asked()
	give, err := memoryOf(s.outer, outer, ramOf(p.spec.Policy))
	if err != nil {
		_, _ = outer.Close()
		return nil, err
	}
	f, failed, err := openIn(life, p, outer, origin{restore: true, give: func() error {
		defer copied()
		return give()
	}})
	if failed != nil {
		err = &backend.BuildError{Report: failed}
	}
	return f, err
}

// memoryOf has a file for the memory of another machine, of which give makes what this one's is.
func memoryOf(this, other backend.Sandbox, size int64) (give func() error, err error) {
	from, err := this.Files().Open(keeper.Memory)
	if err != nil {
		return nil, err
	}
	to, err := other.Files().Create(keeper.Memory, 0o600)
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	source, ok := from.(*os.File)
	target, both := to.(keeper.Target)
	if !ok || !both {
		return nil, errors.Join(errors.ErrUnsupported, from.Close(), to.Close())
	}
	return sync.OnceValue(func() error {
		return errors.Join(keeper.Copy(target, source, size), to.Close(), source.Close())
	}), target.Truncate(size)
}
