package supervisor

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/audit"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
)

// seen is what is heard of the files that are used.
type seen struct {
	refuses files.Judge // or nil
	watcher *files.Watcher
	files   *files.Log
	audit   *audit.Reader
	noAudit error // why there is none where there could be one
}

// take handles the calls that are supervised, or is nil. A call of the network's is
// looked at before it is made: its socket may be one of files.
func (r *run) take() func(*denials.Asked) bool {
	network, watcher := r.plan.Network.Supervised, r.watcher
	switch {
	case !network && watcher == nil:
		return nil
	case watcher == nil:
		return func(a *denials.Asked) bool {
			r.network.gateway.Take(a)
			return false
		}
	case !network:
		return watcher.Take
	}
	return func(a *denials.Asked) bool {
		if a.Rule == files.Rule {
			return watcher.Take(a)
		}
		watcher.Before(a, r.network.gateway.Take)
		return false
	}
}

// keepFiles makes the log of what the rules refuse, if the plan wants one.
func (r *run) keepFiles() {
	if !r.plan.Files.Log || r.refuses == nil {
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
func (r *run) watchFiles(e *event) {
	if !r.plan.Files.Any() {
		return
	}
	var observers []files.Observer
	if r.files != nil {
		observers = append(observers, r.files.Note)
	}
	if r.plan.Files.Watch && r.opts.Accesses != nil {
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
	if m := e.message; m.Path != "" {
		r.watcher.First(m.Path, r.plan.Child.Dir, int(m.PID))
	}
}

// errUnwatched: there was no listener.
var errUnwatched = errors.New("nobody could listen to the system calls")

// unwatchFiles takes over what was refused, once nobody is left.
func (r *run) unwatchFiles() {
	r.watcher.Close()
	if r.targetStarted {
		r.audit.Close()
	} else {
		r.audit.Discard()
	}
	r.files.Close()
	all, others := r.files.List()
	for i := range all {
		r.out.files += all[i].Count
	}
	r.out.files += others
	if r.opts.Peaks != nil {
		r.opts.Peaks(r.watcher.Peaks())
	}
	if r.plan.Files.Watch && r.opts.Unseen != nil {
		var err error
		if r.watcher == nil {
			if err = errUnwatched; r.noListener != 0 {
				err = errors.Join(err, unix.Errno(r.noListener))
			}
		}
		r.opts.Unseen(r.watcher.Unseen(), err)
	}
}

// refusedFile is a refused access as the report tells it.
func (r *run) refusedFile(f *files.Refused) status.Violation {
	return status.Violation{
		Kind: "file", What: f.What, Count: f.Count, FirstMS: max(0, f.At.Sub(r.started).Milliseconds()),
		PID: f.PID, Comm: f.Comm, Rule: f.Rule, Hint: f.Hint,
	}
}

// refusedFiles are the violations that were seen by the calls.
func (r *run) refusedFiles() (list []status.Violation) {
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
