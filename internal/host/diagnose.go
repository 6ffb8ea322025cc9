package host

import (
	"strings"
	"syscall"

	"github.com/confine-run/confine/status"
)

// Failure is something that the kernel refused: one step of building a sandbox,
// or the clone before it.
type Failure struct {
	Step, Op, Path string // as in [status.SetupError]; Op is the system call
	Errno          syscall.Errno
}

// failures say which probe tries what failed, first match counts. Every word
// given must occur; step is a whole word, op a prefix.
var failures = []struct{ step, op, path, probe string }{
	{op: "clone", probe: "userns"},
	{op: "unshare", probe: "userns"},
	{op: "fork/exec", probe: "userns"},
	{path: "uid_map", probe: "uid_map"},
	{path: "gid_map", probe: "uid_map"},
	{path: "/setgroups", probe: "uid_map"},
	{step: "identity", probe: "uid_map"},
	{step: "hostname", probe: "utsns"},
	{step: "loopback", probe: "lo_up"},
	{step: "propagation", probe: "mountns"},
	{op: "pivot_root", probe: "pivot_root"},
	{op: "mount_setattr", probe: "mount_setattr"},
	{op: "open_tree", probe: "open_tree"},
	{op: "openat2", probe: "openat2"},
	{op: "close_range", probe: "close_range"},
	{op: "fs", path: "overlay", probe: "overlay"},
	{op: "fs", path: "proc", probe: "proc_mount"},
	{op: "fs", path: "devpts", probe: "devpts"},
	{op: "fs", probe: "tmpfs"}, // fsopen, fsconfig, fsmount
	{op: "move_mount", probe: "tmpfs"},
	{op: "mount", probe: "tmpfs"},
	{op: "umount", probe: "tmpfs"},
	{op: "seccomp", probe: "seccomp"},
	{op: "prctl", path: "NO_NEW_PRIVS", probe: "no_new_privs"},
	{op: "sched_setaffinity", probe: "sched_setaffinity"},
	{op: "pidfd_open", probe: "pidfd"},
	{op: "landlock", probe: "landlock"},
	{op: "open", path: "/proc/self/exe", probe: "proc"},
}

// probe names what tries the same thing as what failed, or "".
func (f Failure) probe() string {
	for _, m := range failures {
		if (m.step == "" || m.step == f.Step) && strings.HasPrefix(f.Op, m.op) && strings.Contains(f.Path, m.path) {
			return m.probe
		}
	}
	return ""
}

// Diagnose says why the kernel refused something, as far as facts tell, and in
// one line what to do about it. Where nothing is known, both are empty.
func Diagnose(f *Facts, failure Failure) (reason status.FallbackReason, hint string) {
	r := remedyFor(f, failure.probe(), failure.Errno)
	if r == nil {
		return "", ""
	}
	return r.reason, r.hint(f)
}

// Reason is why a probe's answer is no, for the ledger.
func (r Result) Reason(f *Facts) status.FallbackReason {
	if r.Answer == Yes {
		return ""
	}
	name, _, _ := strings.Cut(r.Name, ":")
	if m := remedyFor(f, name, r.Errno); m != nil {
		return m.reason
	}
	return ""
}

// advise adds the remedy to a no. What only lacks something else has the
// remedy there.
func (r Result) advise(f *Facts) Result {
	if r.Answer != No || r.lacks != "" {
		return r
	}
	m := remedyFor(f, r.Name, r.Errno)
	if m == nil {
		if v := f.Kernel(); !v.IsZero() && !v.AtLeast(r.minKernel) {
			r.Remedy = "use Linux " + r.minKernel.String() + " or later; this is " + f.Release()
		}
		return r
	}
	r.Remedy = m.hint(f)
	if m.file != nil {
		r.Remedy += "\n\n" + m.file(f)
	}
	return r
}
