package host

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/confine-run/confine/status"
)

// remedy is what to do about one cause of a no.
type remedy struct {
	name   string // of the cause
	reason status.FallbackReason
	probes string // the probes it explains, between blanks
	when   func(f *Facts, errno syscall.Errno) bool
	hint   func(f *Facts) string
	file   func(f *Facts) string // what to write where, under the hint
}

// usernsProbes are those that the kernel refuses when it gives no user namespace,
// or one without capabilities: which of them breaks first differs.
const usernsProbes = " userns uid_map mountns pidns netns ipcns utsns tmpfs open_tree mount_setattr devpts pivot_root lo_up "

// usernsCalls are what a narrower seccomp profile has to allow.
const usernsCalls = "clone, clone3, unshare, setns, mount, umount2, pivot_root, fsopen, fsconfig, fsmount, open_tree, move_mount, mount_setattr and sethostname"

func say(hint string) func(*Facts) string { return func(*Facts) string { return hint } }

func always(*Facts, syscall.Errno) bool { return true }

func denied(_ *Facts, errno syscall.Errno) bool {
	return errno == syscall.EPERM || errno == syscall.EACCES
}

func is(errnos ...syscall.Errno) func(*Facts, syscall.Errno) bool {
	return func(_ *Facts, errno syscall.Errno) bool {
		return slices.Contains(errnos, errno)
	}
}

// unmask is the option that leaves a container's /proc whole.
func unmask(f *Facts) string {
	if f.Container() == "podman" {
		return "--security-opt unmask=ALL"
	}
	return "--security-opt systempaths=unconfined"
}

func in(f *Facts) string {
	switch f.Container() {
	case "docker", "podman":
		return ": start the container with " + unmask(f)
	case "kubernetes":
		return ": give the container procMount: Unmasked (and the pod hostUsers: false)"
	}
	return ": see them with `findmnt -R /proc`, and unmount them"
}

const appArmorFile = "/etc/apparmor.d/confine"

// appArmorProfile lets this executable make user namespaces and is no
// restriction otherwise.
func appArmorProfile(*Facts) string {
	path, err := os.Executable()
	if err != nil {
		path = "/usr/local/bin/confine"
	}
	return "abi <abi/4.0>,\n" +
		"include <tunables/global>\n\n" +
		"profile confine \"" + appArmorQuote(path) + "\" flags=(unconfined) {\n" +
		"  userns,\n" +
		"  include if exists <local/confine>\n" +
		"}\n"
}

// appArmorQuote keeps what AppArmor would take for a pattern.
func appArmorQuote(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if strings.IndexByte("*?[]{}^\"\\@", c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// remedyFor is the first that fits, or nil.
func remedyFor(f *Facts, probe string, errno syscall.Errno) *remedy {
	for _, r := range remedies() {
		if strings.Contains(r.probes, " "+probe+" ") && r.when(f, errno) {
			return &r
		}
	}
	return nil
}

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
	{path: "/proc/self/exe", probe: "proc"},
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
