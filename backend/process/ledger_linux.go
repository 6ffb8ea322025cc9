package process

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/landlock"
	"github.com/confine-run/confine/status"
)

// ledger says what was asked and by what it will be enforced. Whether it was,
// only the run can say.
func (p *planner) ledger() error {
	l := map[status.Capability]status.Enforcement{}
	p.plan.Ledger = l
	q := p.policy

	l[status.Containment] = on("all", "pid_namespace", "the namespace's init ends, and the kernel everything in it")
	l[status.Privileges] = on("none", "user_namespace", "no capability in any set, no_new_privs, securebits locked")
	l[status.WallTime] = limit(q.TimeLimit > 0, config.FormatDuration(q.TimeLimit), "timer", "")
	l[status.CPUTime] = limit(q.CPUTime > 0, config.FormatDuration(q.CPUTime), "tree_watchdog", "sum over the tree, RLIMIT_CPU behind it")
	l[status.CPURate] = limit(q.CPULimit > 0, strconv.Itoa(q.CPULimit)+"%", "stop_continue", "period 100ms")
	l[status.CPUs] = limit(q.CPUs > 0, strconv.Itoa(q.CPUs), "sched_setaffinity", p.cpusDetail())
	l[status.Memory] = limit(q.MemoryLimit > 0, config.FormatSize(q.MemoryLimit), "tree_watchdog",
		"PSS of the tree, sampled; private places, memfds and System V IPC count; buffers of pipes and sockets and pages that lie in them, page tables, record locks and files in flight over a socket don't")
	l[status.Tasks] = limit(q.Processes > 0, strconv.FormatInt(q.Processes, 10), "rlimit_nproc", "of the own user namespace")
	if p.plan.Box.PIDMax > 0 {
		l[status.Tasks] = on(l[status.Tasks].Requested, "pid_max", "of the own pid namespace")
	}
	if p.plan.Watch.KillTasks {
		e := l[status.Tasks]
		e.Mechanism, e.Details = "tree_watchdog", "the newest tasks too many are killed"
		if e.FallbackReason = status.NprocUnboundForRoot; p.uid != 0 {
			e.FallbackReason = status.NprocPerUserKernel
		}
		l[status.Tasks] = e
	}
	p.groups.enter(l, p)
	l[status.FileDescriptors] = limit(q.FileDescriptors > 0, strconv.FormatInt(q.FileDescriptors, 10), "rlimit_nofile", "per process; descriptors in flight over sockets and epoll watches count for the user, and nothing reserves the caller a share")
	l[status.FileSize] = limit(q.MaxFileSize > 0, config.FormatSize(q.MaxFileSize), "rlimit_fsize", "")
	where := "private places and overlays together"
	if len(p.plan.Watch.Trees) > 0 {
		where += "; a watchdog on what writable trees grow by, with removed files that a process has open, not those that are only mapped or in flight over a socket"
	}
	if p.sizedPlaces() {
		where += "; a mount of tmpfs has a size of its own (mount_size), and as many files"
	}
	l[status.Disk] = limit(q.DiskLimit > 0, config.FormatSize(q.DiskLimit), "tmpfs_size", where)
	if size := q.ScratchLimit(); size < q.DiskLimit {
		l[status.Disk] = on(config.FormatSize(q.DiskLimit), "tmpfs_size", config.FormatSize(size)+", three quarters of the memory limit, which they count for: "+where)
	}
	l[status.Files] = limit(q.MaxFiles > 0, strconv.FormatInt(q.MaxFiles, 10), "tmpfs_nr_inodes", where)
	if p.sizedPlaces() {
		l[status.MountSize] = on(p.sizes(), "tmpfs_size", "each by itself")
	}
	l[status.Output] = limit(q.OutputLimit > 0, config.FormatSize(q.OutputLimit), "relay", "per stream")
	l[status.Filesystem] = on(p.filesystemAsked(), "mount_namespace", p.filesystemDetail())
	if root := q.Filesystem.Rootfs; root != "" {
		l[status.Rootfs] = on(root, "overlayfs", "what is written to it is thrown away")
		if p.plan.Box.Root.ReadOnly {
			l[status.Rootfs] = on(root, "read_only_bind", "read-only; what the tree has no place for is left out")
		}
	}
	if p.policy.HasOverlay() {
		l[status.Overlay] = p.overlay()
	}
	p.secondLayer(l)
	l[status.Network] = p.network()
	if len(q.Network.Publish) > 0 {
		l[status.Publish] = p.published()
	}
	l[status.Syscalls] = p.syscalls()
	if p.ground != inUserns {
		p.lower(l)
	}
	p.notYet(l)
	fs := l[status.Filesystem]
	fs.Details += p.told()
	l[status.Filesystem] = fs
	return nil
}

// on is a capability that every policy asks for.
func on(requested, mechanism, details string) status.Enforcement {
	return status.Enforcement{Requested: requested, Enabled: true, Effective: true, Mechanism: mechanism, Details: details}
}

// limit is one that a policy may ask for.
func limit(asked bool, requested, mechanism, details string) status.Enforcement {
	if !asked {
		return status.Enforcement{Requested: "none", Mechanism: "none"}
	}
	return on(requested, mechanism, details)
}

func (p *planner) cpusDetail() string {
	if have := len(p.host.CPUs()); p.policy.CPUs >= have {
		return fmt.Sprintf("there are %d", have)
	}
	return ""
}

func (p *planner) sizedPlaces() bool {
	return slices.ContainsFunc(p.policy.Filesystem.Mounts, func(m config.Mount) bool { return m.Size > 0 })
}

func (p *planner) sizes() string {
	var words []string
	for _, m := range p.policy.Filesystem.Mounts {
		if m.Size > 0 {
			words = append(words, m.Dst+":"+config.FormatSize(m.Size))
		}
	}
	return strings.Join(words, ",")
}

func (p *planner) filesystemDetail() string {
	s := "pivot_root into an allowlisted tree"
	if p.denyAtStart {
		s += "; in writable trees and overlays --deny hides what is there at the start, not what is made later"
	}
	if p.socketsLater {
		s += "; a FIFO in a tree that is shown leads to whoever has it open outside"
	}
	if p.plan.table.ProtectsLess {
		s += "; not all that other programs obey is protected"
	}
	if p.socketsLater && !p.ruleset.HoldsSockets() {
		s += "; a unix socket that comes to be outside, or is another network's, in a tree that is shown, can be connected to (before Linux 7.1)"
		if p.socketsMissed != "" {
			s += "; one that is there may not be hidden: " + p.socketsMissed
		}
	}
	return s
}

func (p *planner) filesystemAsked() string {
	f := &p.policy.Filesystem
	words := []string{"workdir " + f.Workdir}
	if f.Virtual {
		words = append(words, "virtual")
	}
	if n := len(f.AllowRead); n > 0 {
		words = append(words, fmt.Sprintf("read %d", n))
	}
	if n := len(f.AllowWrite); n > 0 {
		words = append(words, fmt.Sprintf("write %d", n))
	}
	if n := len(f.Deny); n > 0 {
		words = append(words, fmt.Sprintf("deny %d", n))
	}
	return strings.Join(words, ", ")
}

func (p *planner) syscalls() status.Enforcement {
	f := p.plan.Seccomp
	if f == nil {
		return status.Enforcement{Requested: "off", Mechanism: "none"}
	}
	e := on(f.Version+", "+p.policy.SeccompAction, silent, f.Digest)
	if len(p.plan.Exec.SeccompNotify) > 0 {
		e.Mechanism = notifying
	}
	e.PolicyKind, e.Version = f.Kind, f.Version
	return e
}

// noRedirect: an overlay with userxattr has no redirect_dir.
const noRedirect = "; rename(2) of a directory that was there gives EXDEV, so that it is copied"

// overlay: on bare ground the rules of files say what can't be.
func (p *planner) overlay() status.Enforcement {
	var trees []string
	for _, o := range p.plan.Overlays {
		trees = append(trees, o.Path)
	}
	flat, but := p.nestedTrees(), ""
	if b := p.plan.table.Beside; len(b) > 0 {
		but = "; read-only, because they are mounts of their own: " + strings.Join(b, ", ")
	}
	asked := strings.Join(slices.Concat(trees, flat), ",")
	switch {
	case p.ground == bare:
		return status.Enforcement{Requested: "any", Enabled: true, Mechanism: "none", Details: "there is no mount namespace", FallbackReason: p.lowered.reason}
	case p.plan.table.NoHome != "":
		e := on(strings.TrimPrefix(asked+",--ephemeral-home", ","), "overlayfs", "no home directory: "+p.plan.table.NoHome)
		if e.Effective, e.FallbackReason = false, status.HomeUnusable; len(trees) == 0 {
			e.Mechanism = "none"
		}
		return e
	case len(trees) == 0 && len(flat) > 0:
		return on(asked, "read_only_bind", "nothing can be written")
	case len(trees) == 0:
		return status.Enforcement{Requested: "none", Mechanism: "none", Details: "no tree is shown as one"}
	case p.plan.Keep == "":
		return on(asked, "overlayfs", "changes are told, and thrown away"+noRedirect+but)
	}
	return on(asked, "overlayfs", "changes are told, and kept for diff, apply and discard"+noRedirect+but)
}

// notYet are options whose mechanism this build doesn't have.
func (p *planner) notYet(l map[status.Capability]status.Enforcement) {
	q := p.policy
	for _, o := range []struct {
		c       status.Capability
		asked   bool
		words   string
		details string
	}{
		{status.Isolation, q.Isolation != "" && q.Isolation != "process", q.Isolation, "only process isolation is in this build"},
	} {
		if o.asked {
			l[o.c] = notEnforceable(o.words, o.details)
		}
	}
}

func notEnforceable(requested, details string) status.Enforcement {
	return status.Enforcement{
		Requested: requested, Enabled: true, Mechanism: "none", Details: details, FallbackReason: status.NotInBuild,
	}
}

// lower notes what is otherwise on a lower ground.
func (p *planner) lower(l map[status.Capability]status.Enforcement) {
	note := func(c status.Capability, mechanism, details string, effective bool) {
		e := l[c]
		if e.Enabled {
			e.Mechanism, e.Details, e.Effective, e.FallbackReason = mechanism, details, effective, p.lowered.reason
			l[c] = e
		}
	}
	filtered := p.plan.Seccomp != nil && p.plan.Seccomp.Kind != "file"
	if p.ground == asRoot {
		if filtered {
			note(status.Privileges, "capabilities_dropped", "no capability in any set, no_new_privs, securebits locked; uid 0 is the host's", true)
		} else {
			note(status.Privileges, "capabilities_dropped", "no capability in any set, but no filter of ours that keeps it from a user namespace with all of them", false)
		}
		return
	}
	scoped := p.ruleset.Scoped
	if scoped&landlock.ScopeSignals != 0 && p.plan.Seccomp != nil {
		note(status.Containment, "subreaper", "a guard ends what is left; Landlock keeps signals inside", true)
	} else {
		note(status.Containment, "subreaper", "a guard ends what is left; a target that kills its guard gets away from it, and signals reach the caller's other processes", false)
	}
	switch {
	case p.uid == 0 && p.ruleset.Held():
		note(status.Privileges, "no_new_privs", "no capability, and Landlock, but uid 0 may change mode and owner of what belongs to it", false)
	case p.uid == 0:
		note(status.Privileges, "no_new_privs", "no capability, but uid 0 may write what belongs to it, in /proc/sys too", false)
	default:
		note(status.Privileges, "no_new_privs", "no capability but in the bounding set, out of which nothing comes back", true)
	}
	if p.ruleset.Held() {
		note(status.Filesystem, "landlock", fmt.Sprintf("Landlock ABI %d; %s", p.ruleset.ABI, p.ruleset.Details()), len(p.ruleset.Limits) == 0)
	} else {
		note(status.Filesystem, "none", "the target sees the caller's files as the caller does, and there is no Landlock", false)
	}
	if p.ruleset.Held() {
		note(status.Rootfs, "none", "no other root without a mount namespace; of the host's own only what is named is open", false)
	} else {
		note(status.Rootfs, "none", "the target sees the caller's files as the caller does", false)
	}
	note(status.Disk, "none", "temporary files are on the caller's disk", false)
	note(status.Files, "none", "temporary files are on the caller's disk", false)
	if p.sizedPlaces() {
		note(status.MountSize, "none", "nothing is mounted", false)
	}
	tcp := ""
	if p.ruleset.HandledNet != 0 {
		tcp = "; Landlock refuses TCP once more"
	}
	reached := "those of the host are reached by their path"
	if p.ruleset.HoldsSockets() {
		reached = "those of the host only if named"
	}
	but := tcp
	if p.unsupervised != "" {
		but += "; what is allowed isn't reached: " + p.unsupervised
	}
	switch {
	case p.policy.Network.All || p.plan.Network.Supervised:
	case p.plan.Seccomp == nil && tcp != "":
		note(status.Network, "landlock_tcp", "no plain TCP; MPTCP, UDP and everything else is open without a filter of system calls", false)
	case p.plan.Seccomp == nil:
		note(status.Network, "none", "no filter of system calls", false)
	case scoped&landlock.ScopeAbstractSockets != 0:
		note(status.Network, "seccomp_socket", "unix sockets only: "+reached+"; Landlock keeps abstract ones inside"+but, false)
	default:
		note(status.Network, "seccomp_socket", "unix sockets only: "+reached+", and abstract ones"+but, false)
	}
}
