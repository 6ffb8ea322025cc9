package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
	"github.com/confine-run/confine/supervisor/internal/audit"
)

// heed begins to answer the calls that the filter denies. Those of the first moments
// have waited for it.
func (j *job) heed(t *started) {
	j.keepFiles()
	if t.NoListener != 0 {
		j.unheard(unix.Errno(t.NoListener))
	}
	j.readAudit()
	if t.listener < 0 {
		return
	}
	var err error
	var told func(*denials.Denial)
	if j.opts.Denied != nil {
		told = func(d *denials.Denial) { j.opts.Denied(j.violation(d)) }
	}
	j.out.told = true
	if !j.exec.Last { // whom it has made may outlive it
		j.last = append(j.last, j.closeListeners)
	}
	j.watchFiles(t)
	if j.denials, err = denials.Listen(t.listener, j.judge, pidOf(j.target), j.take(), told); err != nil {
		j.broken(fmt.Errorf("the listener of the system call filter: %w", err))
		return
	}
	go func() {
		select {
		case err := <-j.denials.Broken():
			j.do(func() { j.broken(err) })
		case <-j.gone:
		}
	}()
}

// closeListeners stops listening to the calls of the target and of those that it has made.
func (j *job) closeListeners() {
	j.denials.Close()
	j.watcher.Close()
	if j.targetStarted {
		j.audit.Close()
	} else {
		j.audit.Discard()
	}
	j.files.Close()
}

// heard takes over what was denied, once nobody is left who could be.
func (j *job) heard() {
	if j.exec.Last {
		j.closeListeners()
	}
	all, others := j.denials.List()
	for i := range all {
		j.out.denied += all[i].Count
	}
	j.out.denied += others
	j.countFiles()
	if j.opts.Passed != nil {
		j.opts.Passed(j.denials.Passed())
	}
	if d := j.denials.Killed(); d != nil {
		j.out.forbidden = d.What + by(d.By)
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
func (j *job) deniedCalls() (list []status.Violation) {
	all, others := j.denials.List()
	killed := j.denials.Killed()
	for i := range all {
		d := &all[i]
		if killed != nil && d.Kill && d.What == killed.What && d.Rule == killed.Rule {
			d.By = killed.By // the one that mattered
			list = append([]status.Violation{j.violation(d)}, list...)
			killed = nil
			continue
		}
		list = append(list, j.violation(d))
	}
	if killed != nil && others > 0 { // it is among these
		killed.Count, others = 1, others-1
		list = append([]status.Violation{j.violation(killed)}, list...)
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
func (j *job) violation(d *denials.Denial) status.Violation {
	return status.Violation{
		Kind: "syscall", What: d.What, Count: max(d.Count, 1), FirstMS: j.since(d.At), LastMS: j.since(d.Last),
		PID: d.By.PID, Comm: d.By.Comm, Rule: d.Rule, Hint: j.judge.Hint(&d.Call),
	}
}

// since is when that was, in milliseconds after the target's start.
func (j *job) since(t time.Time) int64 { return max(0, t.Sub(j.started).Milliseconds()) }

// unheard: there is no listener although the plan wants one, so that denials are not told.
func (j *job) unheard(errno unix.Errno) {
	l, why := j.ledger, status.NotifyUnsupported
	if j.noListener = errno; errno == unix.EBUSY {
		why = status.ListenerTaken
	}
	l.Fallback(status.Syscalls, "seccomp_bpf", why, l[status.Syscalls].Details)
	if j.plan.Files.Log {
		l.Note(status.Filesystem, "but nobody could listen: "+string(why))
	}
	if j.plan.Network.Supervised {
		l.Partial(status.Network, "seccomp_socket", why, "nobody could make the calls that say whom to reach: they are refused")
	}
}

// seen is what is heard of the files that are used.
type seen struct {
	refuses    files.Judge // or nil
	watcher    *files.Watcher
	files      *files.Log
	audit      *audit.Reader
	noAudit    error      // why there is none where there could be one
	noListener unix.Errno // why nobody hears of any although the plan wants it
}

// take handles the calls that are supervised, and looks at who fails.
func (j *job) take() func(*denials.Asked) bool {
	others, target := j.takeOthers(), pidOf(j.target)
	return func(a *denials.Asked) bool {
		switch {
		case a.Rule == denials.Exits:
			j.watch.look(a.TID == target)
			a.Continue()
		case others != nil:
			return others(a)
		default:
			a.Return(0, unix.EPERM) // can't be: nobody was to supervise anything
		}
		return true
	}
}

// takeOthers handles those of the network and of files, or is nil. A call of the network's
// is looked at before it is made: its socket may be one of files.
func (j *job) takeOthers() func(*denials.Asked) bool {
	network, watcher := j.plan.Network.Supervised, j.watcher
	switch {
	case !network && watcher == nil:
		return nil
	case watcher == nil:
		return func(a *denials.Asked) bool {
			j.network.gateway.Take(a)
			return false
		}
	case !network:
		return watcher.Take
	}
	return func(a *denials.Asked) bool {
		if a.Rule == files.Rule {
			return watcher.Take(a)
		}
		watcher.Before(a, j.network.gateway.Take)
		return false
	}
}

// keepFiles makes the log of what the rules refuse, if the plan wants one.
func (j *job) keepFiles() {
	if !j.plan.Files.Log || j.refuses == nil {
		return
	}
	var told func(*files.Refused)
	if j.opts.Denied != nil {
		told = func(f *files.Refused) { j.opts.Denied(j.refusedFile(f)) }
	}
	j.files = files.NewLog(j.refuses, told)
}

// watchFiles begins to look at the calls that name files, if the plan hands them on. The
// command's own execve was before.
func (j *job) watchFiles(t *started) {
	if !j.plan.Files.Any() {
		return
	}
	var observers []files.Observer
	if j.files != nil {
		observers = append(observers, j.files.Note)
	}
	if j.plan.Files.Watch && j.opts.Accesses != nil {
		observers = append(observers, j.opts.Accesses)
	}
	j.watcher = files.New(func(a files.Access) {
		for _, observe := range observers {
			observe(a)
		}
	})
	if j.opts.Peaks != nil {
		j.watcher.Measure()
	}
	if t.Path != "" {
		j.watcher.First(t.Path, j.plan.Exec.Dir, int(t.PID))
	}
}

// errUnwatched: there was no listener.
var errUnwatched = errors.New("nobody could listen to the system calls")

// countFiles takes over what was refused.
func (j *job) countFiles() {
	all, others := j.files.List()
	for i := range all {
		j.out.files += all[i].Count
	}
	j.out.files += others
	if j.opts.Peaks != nil {
		j.opts.Peaks(j.watcher.Peaks())
	}
	if j.plan.Files.Watch && j.opts.Unseen != nil {
		var err error
		if j.watcher == nil {
			if err = errUnwatched; j.noListener != 0 {
				err = errors.Join(err, unix.Errno(j.noListener))
			}
		}
		j.opts.Unseen(j.watcher.Unseen(), err)
	}
}

// refusedFile is a refused access as the report tells it.
func (j *job) refusedFile(f *files.Refused) status.Violation {
	return status.Violation{
		Kind: "file", What: f.What, Count: f.Count, FirstMS: j.since(f.At), LastMS: j.since(f.Last),
		PID: f.PID, Comm: f.Comm, Rule: f.Rule, Hint: f.Hint,
	}
}

// refusedFiles are the violations that were seen by the calls.
func (j *job) refusedFiles() (list []status.Violation) {
	all, others := j.files.List()
	for i := range all {
		list = append(list, j.refusedFile(&all[i]))
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
func (j *job) subscribe() {
	l := &j.plan.Box.Landlock
	if !j.plan.Files.Log || l.None() {
		return
	}
	j.audit, j.noAudit = audit.Subscribe()
	l.Log = j.audit != nil
}

// readAudit tells the log what Landlock refused, besides what is in it.
func (j *job) readAudit() {
	if j.noAudit != nil {
		j.ledger.Note(status.Filesystem, "Landlock's audit is not read: "+j.noAudit.Error())
	}
	if j.audit == nil {
		return
	}
	target := pidOf(j.target)
	j.audit.Read(func(pid int) bool { return pid == target }, func(d audit.Denial) {
		if d.Path == "" {
			return // no file
		}
		j.files.Add(files.Refused{
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
