package files

import (
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/denials"
)

// Rule is the one of the policy by which calls are handed on for nothing but a look.
const Rule = "watched-files"

// maxLooks is how many calls are looked at at one time. More than these go on unseen:
// nobody waits for a look at a file system that doesn't answer.
const maxLooks = 256

// Watcher looks at calls. A nil one has seen none.
type Watcher struct {
	observe Observer
	looks   chan struct{}
	all     sync.WaitGroup
	ended   atomic.Bool
	unseen  atomic.Int64
	who     identities
	peaks   peaks
	places  places
	bufs    sync.Pool
}

// New makes a watcher that tells observe.
func New(observe Observer) *Watcher {
	return &Watcher{
		observe: observe, looks: make(chan struct{}, maxLooks),
		bufs: sync.Pool{New: func() any { return new([unix.PathMax]byte) }},
	}
}

// Take looks at a call and then lets the kernel make it. It holds nobody up, and says
// whether it has answered.
func (w *Watcher) Take(a *denials.Asked) (answered bool) {
	return w.Before(a, (*denials.Asked).Continue)
}

// Before looks at a call that somebody else answers, after the look. That is at once when
// all that is asked is in the kernel's caches, as it mostly is; a file system that has to
// be waited for is waited for elsewhere.
func (w *Watcher) Before(a *denials.Asked, answer func(*denials.Asked)) (answered bool) {
	c, ok := calls()[a.Nr]
	if !ok {
		c, ok = older()[a.Nr]
	}
	if !ok || w.ended.Load() || w.look(a, &c, true) {
		answer(a)
		return true
	}
	select {
	case w.looks <- struct{}{}:
	default:
		w.unseen.Add(1)
		answer(a)
		return true
	}
	w.all.Go(func() {
		defer func() { <-w.looks }()
		defer answer(a) // whatever happens to the look
		w.look(a, &c, false)
	})
	return false
}

// look is done, or not done because it could take longer than who asks for it can wait.
func (w *Watcher) look(a *denials.Asked, c *call, hurry bool) (done bool) {
	l := look{Asked: a, places: &w.places, hurry: hurry, root: -1, proc: "/proc/" + strconv.Itoa(a.TID) + "/", buf: w.bufs.Get().(*[unix.PathMax]byte)}
	defer w.bufs.Put(l.buf)
	l.who = func() identity { return w.who.of(a.TID) }
	l.do(c)
	if l.root >= 0 {
		_ = unix.Close(l.root)
	}
	if l.later {
		return false
	}
	w.peaks.of(a.TID)
	if l.blind {
		w.unseen.Add(1)
	}
	if len(l.found) == 0 {
		return true
	}
	who := l.who()
	if !a.Waits() || w.ended.Load() {
		return true // of whom, nobody knows
	}
	for _, access := range l.found {
		access.PID, access.Comm = who.pid, who.comm
		if access.Wish == Exec {
			w.who.forget(a.TID)
		}
		w.observe(access)
	}
	return true
}

// First is for the command itself, whose execve can't be handed on: what it executes, the
// directory that it is in, and its number inside.
func (w *Watcher) First(name, dir string, pid int) {
	relative := !path.IsAbs(name)
	if relative {
		name = dir + "/" + name
	}
	comm := path.Base(name)
	if len(comm) > maxComm {
		comm = comm[:maxComm]
	}
	w.observe(Access{Path: path.Clean(name), Relative: relative, Wish: Exec, Call: "execve", PID: pid, Comm: strings.ToValidUTF8(comm, "\uFFFD"), At: time.Now(), Exists: true})
}

// maxComm is TASK_COMM_LEN without its end.
const maxComm = 15

// Unseen is how many calls were not looked at: there were too many at one time, or
// their caller can't be looked into.
func (w *Watcher) Unseen() int64 {
	if w == nil {
		return 0
	}
	return w.unseen.Load()
}

// Close waits for looks that go on, but not for ever, and tells nothing afterwards.
func (w *Watcher) Close() {
	if w == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		w.all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(endPatience):
	}
	w.ended.Store(true)
}
