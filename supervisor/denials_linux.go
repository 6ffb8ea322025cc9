package supervisor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
)

// heed begins to answer the calls that the filter denies. Those of the first moments
// have waited for it.
func (r *run) heed(e *event) {
	r.keepFiles()
	r.readAudit()
	if e.listener < 0 {
		r.noListener = unix.Errno(e.message.Errno)
		return
	}
	var err error
	var told func(*denials.Denial)
	if r.opts.Denied != nil {
		told = func(d *denials.Denial) { r.opts.Denied(r.violation(d)) }
	}
	r.out.told = true
	r.watchFiles(e)
	if r.denials, err = denials.Listen(e.listener, r.judge, pidOf(r.target), r.take(), told); err != nil {
		r.broken(fmt.Errorf("the listener of the system call filter: %w", err))
	}
}

// heard takes over what was denied, once nobody is left who could be.
func (r *run) heard() {
	r.denials.Close()
	all, others := r.denials.List()
	for i := range all {
		r.out.denied += all[i].Count
	}
	r.out.denied += others
	r.unwatchFiles()
	if r.opts.Passed != nil {
		r.opts.Passed(r.denials.Passed())
	}
	if d := r.denials.Killed(); d != nil {
		r.out.forbidden = d.What + by(d.By)
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
func (r *run) deniedCalls() (list []status.Violation) {
	all, others := r.denials.List()
	killed := r.denials.Killed()
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
func (r *run) violation(d *denials.Denial) status.Violation {
	return status.Violation{
		Kind: "syscall", What: d.What, Count: max(d.Count, 1), FirstMS: max(0, d.At.Sub(r.started).Milliseconds()),
		PID: d.By.PID, Comm: d.By.Comm, Rule: d.Rule, Hint: r.judge.Hint(&d.Call),
	}
}

// listenerLost says in the ledger that denials are not told, and why.
func (r *run) listenerLost(ledger map[status.Capability]status.Enforcement) {
	if r.noListener == 0 {
		return
	}
	e := ledger[status.Syscalls]
	e.Mechanism, e.FallbackReason = "seccomp_bpf", status.NotifyUnsupported
	if r.noListener == unix.EBUSY {
		e.FallbackReason = status.ListenerTaken
	}
	ledger[status.Syscalls] = e
	if fs := ledger[status.Filesystem]; r.plan.Files.Log {
		fs.Details += "; but nobody could listen: " + string(e.FallbackReason)
		ledger[status.Filesystem] = fs
	}
	if n := ledger[status.Network]; r.plan.Network.Supervised {
		n.Mechanism, n.Effective, n.FallbackReason = "seccomp_socket", false, e.FallbackReason
		n.Details = "nobody could make the calls that say whom to reach: they are refused"
		ledger[status.Network] = n
	}
}
