package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
	"github.com/confine-run/confine/supervisor/internal/audit"
	"github.com/confine-run/confine/supervisor/internal/watch"
	"github.com/confine-run/confine/supervisor/outcome"
)

// refusals is what is heard of the calls and files that are denied to a process, by the filter, by the rules of files and by
// Landlock, and of those that are only looked at.
type refusals struct {
	box     *box
	ledger  plan.Ledger // the process's
	opts    *Options
	exec    *handoff.Exec
	started time.Time // the target

	judge      denials.Judge
	listener   *denials.Listener
	noListener unix.Errno // why there is none although the plan wants one

	refuses files.Judge // or nil
	watcher *files.Watcher
	files   *files.Log

	audit   *audit.Reader
	heard   bool  // the audit is read
	noAudit error // why there is none where there could be one
}

// heed begins to answer the calls that the filter denies. Those of the first moments
// have waited for it. gone is closed at the end of the target.
func (r *refusals) heed(t *started, at time.Time, gone <-chan struct{}) {
	r.started = at
	r.keepFiles()
	if t.NoListener != 0 {
		r.unheard(unix.Errno(t.NoListener))
	}
	over, target := t.listener >= 0 && !r.box.plan.Files.Any() && nobodyUnder(t.listener), 0
	if r.audit != nil || !over && t.listener >= 0 { // else nobody asks for its number, which takes a fortieth of a short process's time
		target = linux.PIDOf(t.pidfd)
	}
	r.readAudit(target)
	if over {
		_ = unix.Close(t.listener)
		return
	}
	if t.listener < 0 {
		return
	}
	var err error
	var told func(*denials.Denial)
	if r.opts.Denied != nil {
		told = func(d *denials.Denial) { r.opts.Denied(r.violation(d)) }
	}
	if !r.exec.Last { // whom it has made may outlive it
		r.box.last = append(r.box.last, r.close)
	}
	r.watchFiles(t)
	if r.listener, err = denials.Listen(t.listener, r.judge, target, r.take(target), told); err != nil {
		r.box.broken(fmt.Errorf("the listener of the system call filter: %w", err))
		return
	}
	go func() {
		select {
		case err := <-r.listener.Broken():
			r.box.do(func() { r.box.broken(err) })
		case <-gone:
		}
	}()
}

// nobodyUnder says whether all who were under a filter have ended already, as short processes have: nothing can come.
func nobodyUnder(listener int) bool {
	fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil && fds[0].Revents&(unix.POLLIN|unix.POLLHUP) == unix.POLLHUP
}

// close stops listening to the calls of the target and of those that it has made.
func (r *refusals) close() {
	r.listener.Close()
	r.watcher.Close()
	if r.heard {
		r.audit.Close()
	} else {
		r.audit.Discard()
	}
	r.files.Close()
}

// count takes over what was denied, once nobody is left who could be.
func (r *refusals) count(o *outcome.Outcome) {
	if r.exec.Last {
		r.close()
	}
	all, others := r.listener.List()
	for i := range all {
		o.Denied += all[i].Count
	}
	o.Denied += others
	o.Files += r.countFiles()
	if r.opts.Passed != nil {
		r.opts.Passed(r.listener.Passed())
	}
	if d := r.listener.Killed(); d != nil {
		o.Forbidden = d.What + by(d.By)
	}
}

// by is " by pid 4 (gdb)".
func by(p denials.Process) string {
	switch {
	case p.PID == 0:
		return ""
	case p.Comm == "":
		return fmt.Sprintf(" by pid %d", p.PID)
	}
	return fmt.Sprintf(" by pid %d (%s)", p.PID, p.Comm)
}

// deniedCalls are the violations that the filter has seen, that which ended the
// target first.
func (r *refusals) deniedCalls() (list []status.Violation) {
	all, others := r.listener.List()
	killed := r.listener.Killed()
	for i := range all {
		d := &all[i]
		if killed != nil && d.Kill && d.What == killed.What && d.Rule == killed.Rule {
			d.By = killed.By // the one that mattered
			list = append([]status.Violation{r.violation(d)}, list...)
			killed = nil
			continue
		}
		list = append(list, r.violation(d))
	}
	if killed != nil && others > 0 { // it is among these
		killed.Count, others = 1, others-1
		list = append([]status.Violation{r.violation(killed)}, list...)
	}
	if others > 0 {
		list = append(list, status.Violation{
			Kind: "syscall", What: "other calls", Count: others,
			Hint: "they are of more kinds than are told apart",
		})
	}
	return list
}

// violation is a denial as the report tells it.
func (r *refusals) violation(d *denials.Denial) status.Violation {
	return status.Violation{
		Kind: "syscall", What: d.What, Count: max(d.Count, 1), FirstMS: r.since(d.At), LastMS: r.since(d.Last),
		PID: d.By.PID, Comm: d.By.Comm, Rule: d.Rule, Hint: r.judge.Hint(&d.Call),
	}
}

// since is when that was, in milliseconds after the target's start.
func (r *refusals) since(t time.Time) int64 { return max(0, t.Sub(r.started).Milliseconds()) }

// unheard: there is no listener although the plan wants one, so that denials are not told.
func (r *refusals) unheard(errno unix.Errno) {
	l, why := r.ledger, status.NotifyUnsupported
	if r.noListener = errno; errno == unix.EBUSY {
		why = status.ListenerTaken
	}
	l.Fallback(status.Syscalls, "seccomp_bpf", why, l[status.Syscalls].Details)
	if r.box.plan.Files.Log {
		l.Note(status.Filesystem, "but nobody could listen: "+string(why))
	}
	if r.box.plan.Network.Supervised {
		l.Partial(status.Network, "seccomp_socket", why, "nobody could make the calls that say whom to reach: they are refused")
	}
}

// take handles the calls that are supervised, and looks at who fails.
func (r *refusals) take(target int) func(*denials.Asked) bool {
	others := r.takeOthers()
	return func(a *denials.Asked) bool {
		switch {
		case a.Rule == denials.Exits:
			r.box.watch.Look(a.TID == target)
			r.failed(a)
			a.Continue()
		case a.Rule == denials.Aborts: // which a handler may survive, so that there can be any number
			r.box.watch.Look(false)
			a.Continue()
		case others != nil:
			return others(a)
		default:
			a.Return(0, unix.EPERM) // can't be: nobody was to supervise anything
		}
		return true
	}
}

// failed tells a record who ends with a status that isn't 0.
func (r *refusals) failed(a *denials.Asked) {
	if r.opts.Record == nil {
		return
	}
	who, err := denials.Look(a.TID)
	if err != nil || !a.Waits() {
		return
	}
	const low = 0xff // what of it a parent is told
	code := int(a.Args[0] & low)
	r.opts.Record(status.Event{Event: status.EventProcess, Process: &status.Process{PID: watch.Number(r.box.watch, who.PID, who.Group), Comm: who.Comm, ExitCode: &code}})
}

// takeOthers handles those of the network and of files, or is nil. A call of the network's
// is looked at before it is made: its socket may be one of files.
func (r *refusals) takeOthers() func(*denials.Asked) bool {
	network, watcher := r.box.plan.Network.Supervised, r.watcher
	switch {
	case !network && watcher == nil:
		return nil
	case watcher == nil:
		return func(a *denials.Asked) bool {
			r.box.network.gateway.Take(a)
			return false
		}
	case !network:
		return watcher.Take
	}
	return func(a *denials.Asked) bool {
		if a.Rule == files.Rule {
			return watcher.Take(a)
		}
		watcher.Before(a, r.box.network.gateway.Take)
		return false
	}
}

// keepFiles makes the log of what the rules refuse, if the plan wants one.
func (r *refusals) keepFiles() {
	if !r.box.plan.Files.Log || r.refuses == nil {
		return
	}
	var told func(*files.Refused)
	if r.opts.Denied != nil {
		told = func(f *files.Refused) { r.opts.Denied(r.refusedFile(f)) }
	}
	r.files = files.NewLog(r.refuses, told)
}

// watchFiles begins to look at the calls that name files, if the plan hands them on. The
// command's own execve was before.
func (r *refusals) watchFiles(t *started) {
	if !r.box.plan.Files.Any() {
		return
	}
	var observers []files.Observer
	if r.files != nil {
		observers = append(observers, r.files.Note)
	}
	if r.box.plan.Files.Watch && r.opts.Accesses != nil {
		observers = append(observers, r.opts.Accesses)
	}
	r.watcher = files.New(func(a files.Access) {
		for _, observe := range observers {
			observe(a)
		}
	})
	if r.opts.Peaks != nil {
		r.watcher.Measure()
	}
	if t.Path != "" {
		r.watcher.First(t.Path, r.box.plan.Exec.Dir, int(t.PID))
	}
}

// errUnwatched: there was no listener.
var errUnwatched = errors.New("nobody could listen to the system calls")

// countFiles gives how many accesses were refused.
func (r *refusals) countFiles() (n int64) {
	all, others := r.files.List()
	for i := range all {
		n += all[i].Count
	}
	if r.opts.Peaks != nil {
		r.opts.Peaks(r.watcher.Peaks())
	}
	if r.box.plan.Files.Watch && r.opts.Unseen != nil {
		var err error
		if r.watcher == nil {
			if err = errUnwatched; r.noListener != 0 {
				err = errors.Join(err, unix.Errno(r.noListener))
			}
		}
		r.opts.Unseen(r.watcher.Unseen(), err)
	}
	return n + others
}

// refusedFile is a refused access as the report tells it.
func (r *refusals) refusedFile(f *files.Refused) status.Violation {
	return status.Violation{
		Kind: "file", What: f.What, Count: f.Count, FirstMS: r.since(f.At), LastMS: r.since(f.Last),
		PID: f.PID, Comm: f.Comm, Rule: f.Rule, Hint: f.Hint,
	}
}

// refusedFiles are the violations that were seen by the calls.
func (r *refusals) refusedFiles() (list []status.Violation) {
	all, others := r.files.List()
	for i := range all {
		list = append(list, r.refusedFile(&all[i]))
	}
	if others > 0 {
		list = append(list, status.Violation{
			Kind: "file", What: "other files", Count: others,
			Hint: "they are more than are told apart",
		})
	}
	return list
}

// subscribe begins to hear of what Landlock refuses, before there is anything to hear.
func (r *refusals) subscribe() {
	if !r.box.plan.Files.Log || r.box.plan.Box.Landlock.None() {
		return
	}
	r.audit, r.noAudit = audit.Subscribe()
	r.exec.Audit = r.audit != nil
}

// readAudit tells the log what Landlock refused, besides what is in it.
func (r *refusals) readAudit(target int) {
	r.heard = true
	if r.noAudit != nil {
		r.ledger.Note(status.Filesystem, "Landlock's audit is not read: "+r.noAudit.Error())
	}
	if r.audit == nil {
		return
	}
	r.audit.Read(func(pid int) bool { return pid == target }, func(d audit.Denial) {
		if d.Path == "" {
			return // no file
		}
		r.files.Add(files.Refused{
			Refusal: files.Refusal{Rule: "landlock"},
			What:    wishOf(d.Blockers) + " " + files.Printable(d.Path), At: time.Now(),
		})
	})
}

// wishOf is what was wanted, by the rights that were missing.
func wishOf(blockers []string) string {
	for _, w := range []struct{ right, wish string }{
		{"fs.execute", "exec"}, {"fs.make_", "create"}, {"fs.remove_", "remove"}, {"fs.refer", "create"},
		{"fs.write_file", "write"}, {"fs.truncate", "write"}, {"fs.ioctl_dev", "write"}, {"fs.resolve_unix", "connect"},
		{"fs.read_dir", "list"},
	} {
		for _, b := range blockers {
			if strings.HasPrefix(b, w.right) {
				return w.wish
			}
		}
	}
	return "read"
}
