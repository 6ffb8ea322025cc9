package process

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
)

const (
	// stackSize is the usual soft limit, whatever the caller's is.
	stackSize = 8 << 20
	// pidMaxMost is PID_MAX_LIMIT, less what the kernel keeps for itself.
	pidMaxMost = 1<<22 - 300
)

// limitCompiler turns the policy's numbers into limits of the run's cgroup where there is one, into rlimits for the
// target, and into what the supervisor watches.
type limitCompiler struct {
	*planner
	groups groups
}

// beforehand is what of it the box is built with.
func (p *limitCompiler) beforehand() error {
	w := &p.plan.Watch
	if w.Disk, w.Files = p.policy.DiskLimit, p.policy.MaxFiles; w.Disk > 0 || w.Files > 0 {
		p.writableTrees()
	}
	p.sizePtys()
	return p.affinity()
}

func (p *limitCompiler) compile() error {
	p.plan.Held.CPU = p.groups.counts
	p.plan.Watch.Grace = p.policy.Grace
	p.cgroup()
	p.showGroup()
	p.time()
	p.memory()
	p.tasks()
	p.disk()
	p.streams()
	p.tables()
	return nil
}

// byGroup writes down a limit that the run's cgroup holds.
func (p *limitCompiler) byGroup(c status.Capability, details string) {
	if p.groups.version == 1 {
		p.plan.Ledger.Fallback(c, "cgroup_v1", status.CgroupV1, details)
	} else {
		p.plan.Ledger.Enforced(c, "cgroup_v2", details)
	}
}

// byOther writes down one for which there is no cgroup.
func (p *limitCompiler) byOther(c status.Capability, mechanism, details string) {
	p.plan.Ledger.Fallback(c, mechanism, status.CgroupNotDelegated, details)
}

// time is of the wall clock and of the CPU.
func (p *limitCompiler) time() {
	l, q, w := p.plan.Ledger, p.policy, &p.plan.Watch
	w.Wall, w.CPU = q.TimeLimit, q.CPUTime
	l.Enforced(status.WallTime, "timer", "")
	if d := q.CPUTime; d > 0 {
		// In seconds, of one process; the watchdog counts the tree, and sooner.
		s := uint64((d + time.Second - 1) / time.Second)
		p.rlimit(unix.RLIMIT_CPU, s+1, s+2)
	}
	// Some hosts let some users come before others, and a process of real time is held by no quota.
	p.rlimit(unix.RLIMIT_RTPRIO, 0, 0)
	p.rlimit(unix.RLIMIT_NICE, 0, 0)
	if p.groups.counts {
		p.byGroup(status.CPUTime, "CPU time of the whole cgroup, RLIMIT_CPU behind it")
	} else {
		p.byOther(status.CPUTime, "tree_watchdog", "sum over the tree, RLIMIT_CPU behind it")
	}
	if p.groups.holds[cgroup.CPU] {
		p.plan.Held.CPUPercent = q.CPULimit
		p.plan.Bounds.Group.Ordinary = q.CPULimit > 0
		p.byGroup(status.CPURate, p.groups.file(cgroup.CPU))
	} else {
		w.CPUPercent = q.CPULimit
		p.byOther(status.CPURate, "stop_continue", "period 100ms")
	}
}

func (p *limitCompiler) memory() {
	if p.groups.holds[cgroup.Memory] {
		p.plan.Held.Memory = p.policy.MemoryLimit
		p.byGroup(status.Memory, p.groups.file(cgroup.Memory))
		return
	}
	p.plan.Watch.Memory = p.policy.MemoryLimit
	p.byOther(status.Memory, "tree_watchdog", "PSS of the tree, sampled; private places, memfds and System V IPC count; "+
		"buffers of pipes and sockets and pages that lie in them, page tables, record locks and files in flight over a socket don't")
}

func (p *limitCompiler) tasks() {
	n := p.policy.Processes
	if n == 0 {
		return
	}
	if p.groups.holds[cgroup.PIDs] {
		p.plan.Held.Tasks = n
		p.byGroup(status.Tasks, p.groups.file(cgroup.PIDs))
		return
	}
	p.plan.Watch.Tasks = n
	switch {
	case p.nprocBinds():
		// The child adds the tasks of its own, which count too.
		p.rlimit(unix.RLIMIT_NPROC, uint64(n), uint64(n))
		p.byOther(status.Tasks, "rlimit_nproc", "of the own user namespace")
	case p.ownPIDMax() && n <= pidMaxMost:
		p.plan.Bounds.PIDMax = uint32(n)
		p.byOther(status.Tasks, "pid_max", "of the own pid namespace")
	default:
		p.plan.Watch.KillTasks = true
		why := status.NprocPerUserKernel
		if p.uid == 0 {
			why = status.NprocUnboundForRoot
		}
		p.plan.Ledger.Fallback(status.Tasks, "tree_watchdog", why, "the newest tasks too many are killed")
	}
}

// disk is about what is written: to private places and overlays, to trees of the caller's, and to one file.
func (p *limitCompiler) disk() {
	l, q := p.plan.Ledger, p.policy
	if n := q.MaxFileSize; n > 0 {
		p.rlimit(unix.RLIMIT_FSIZE, uint64(n), uint64(n))
	}
	l.Enforced(status.FileSize, "rlimit_fsize", "")
	if p.tier == tierNoNS {
		const where = "temporary files are on the caller's disk"
		l.Missing(status.Disk, p.why.reason, where)
		l.Missing(status.Files, p.why.reason, where)
		l.Missing(status.MountSize, p.why.reason, "nothing is mounted")
		return
	}
	where := "private places and overlays together"
	if len(p.plan.Watch.Trees) > 0 {
		where += "; a watchdog on what writable trees grow by, with removed files that a process has open, not those that are only mapped or in flight over a socket"
	}
	if p.plan.Ledger[status.MountSize].Enabled {
		where += "; a mount of tmpfs has a size of its own (mount_size), and as many files"
	}
	l.Enforced(status.Files, "tmpfs_nr_inodes", where)
	l.Enforced(status.MountSize, "tmpfs_size", "each by itself")
	if size := q.ScratchLimit(); size < q.DiskLimit {
		where = config.FormatSize(size) + ", three quarters of the memory limit, which they count for: " + where
	}
	l.Enforced(status.Disk, "tmpfs_size", where)
}

// streams is about descriptors, and what is written to the caller's.
func (p *limitCompiler) streams() {
	l, q := p.plan.Ledger, p.policy
	// A handler that core_pattern pipes to is started for 0, and not for 1.
	p.rlimit(unix.RLIMIT_CORE, 1, 1)
	p.rlimit(unix.RLIMIT_STACK, stackSize, math.MaxUint64)
	if n := q.FileDescriptors; n > 0 {
		p.rlimit(unix.RLIMIT_NOFILE, uint64(n), uint64(n))
		if most, err := p.host.HardLimit(unix.RLIMIT_NOFILE); err != nil || most >= uint64(n) {
			p.plan.Watch.Descriptors = n
		}
	}
	l.Enforced(status.FileDescriptors, "rlimit_nofile", "per process; descriptors in flight over sockets and epoll watches count for the user, and nothing reserves the caller a share")
	p.plan.Watch.Output = q.OutputLimit
	l.Enforced(status.Output, "relay", "per stream")
}

// Tables of the kernel that count for the whole user, who keeps the rest: of signals
// that are queued, which timers need, and of bytes in POSIX message queues.
const (
	sigpending = 4096
	msgqueue   = 400 << 10
)

// ptys are the most that a run gets of pseudo-terminals, of which all of the host shares
// kernel.pty.max, 4096.
const ptys = 256

// sizePtys gives the run's devpts room for one pty for each task, and for the one that the
// streams may be.
func (p *limitCompiler) sizePtys() {
	n := int64(ptys)
	if tasks := p.policy.Processes; tasks > 0 {
		n = min(n, tasks+1)
	}
	for i := range p.plan.Box.Mounts {
		if m := &p.plan.Box.Mounts[i]; m.Kind == handoff.MountDevpts {
			m.Size = n
		}
	}
}

// tables bounds what the run may have of tables of the kernel. Without a cgroup, samples see
// what System V IPC holds of memory, and the number of watches is bounded by it.
func (p *limitCompiler) tables() {
	for _, l := range []struct {
		resource int
		most     uint64
	}{{unix.RLIMIT_SIGPENDING, sigpending}, {unix.RLIMIT_MSGQUEUE, msgqueue}} {
		if most, err := p.host.HardLimit(l.resource); err == nil {
			l.most = min(l.most, most/2)
		}
		p.rlimit(l.resource, l.most, l.most)
	}
	set := func(path string, n int64) {
		p.plan.Bounds.Sysctls = append(p.plan.Bounds.Sysctls, handoff.Sysctl{Path: path, Value: strconv.FormatInt(n, 10)})
	}
	memory := p.plan.Watch.Memory
	if p.tier == tierUserNS { // otherwise they would be the host's
		// Half of what Linux gives a user; a watch keeps 1 KiB of the kernel's.
		set("user/max_inotify_instances", 64)
		watches := int64(1 << 16)
		if memory > 0 {
			watches = min(watches, max(memory/16>>10, 1<<10))
		}
		set("user/max_inotify_watches", watches)
	}
	p.plan.Bounds.ShowIPC = p.tier != tierNoNS && memory > 0
}

// writableTrees are those of the caller's: no file system of the run's own bounds
// what is added there.
func (p *limitCompiler) writableTrees() {
	for _, m := range p.plan.Box.Mounts {
		if m.Kind == handoff.MountBind && !m.ReadOnly && !m.Device {
			p.plan.Watch.Trees = append(p.plan.Watch.Trees, plan.Tree{Path: m.Src, Dev: m.Dev, Ino: m.Ino})
		}
	}
}

// ownPIDMax: every pid namespace has its own kernel.pid_max, which binds root too.
// Before Linux 6.14, writing it would change the host's.
func (p *limitCompiler) ownPIDMax() bool {
	return p.tier != tierNoNS && p.host.Kernel().AtLeast(host.Kernel{Major: 6, Minor: 14})
}

// nprocBinds: since Linux 5.14 the own user namespace has its own count, but the
// kernel holds nobody to it whose uid outside is 0.
func (p *limitCompiler) nprocBinds() bool {
	return p.uid != 0 && p.tier == tierUserNS && p.host.Kernel().AtLeast(host.Kernel{Major: 5, Minor: 14})
}

// rlimit asks for a limit, or for the caller's own where that is lower: no limit
// can be raised above it.
func (p *limitCompiler) rlimit(resource int, soft, hard uint64) {
	if most, err := p.host.HardLimit(resource); err == nil {
		soft, hard = min(soft, most), min(hard, most)
	}
	p.plan.Exec.Rlimits = append(p.plan.Exec.Rlimits, handoff.Rlimit{Resource: uint32(resource), Soft: soft, Hard: hard})
}

// behindCPU has RLIMIT_CPU stand behind the limit of a process on CPU time, as behind a sandbox's.
func behindCPU(all []handoff.Rlimit, limit time.Duration) []handoff.Rlimit {
	s := uint64((limit + time.Second - 1) / time.Second)
	l := handoff.Rlimit{Resource: unix.RLIMIT_CPU, Soft: s + 1, Hard: s + 2}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &now); err == nil {
		l.Soft, l.Hard = min(l.Soft, now.Max), min(l.Hard, now.Max)
	}
	all = slices.Clone(all)
	if i := slices.IndexFunc(all, func(o handoff.Rlimit) bool { return o.Resource == l.Resource }); i >= 0 {
		l.Soft, l.Hard = min(l.Soft, all[i].Soft), min(l.Hard, all[i].Hard)
		all[i] = l
		return all
	}
	return append(all, l)
}

// enterOwn has the ledger of a process say which limits of its own are narrower than the sandbox's.
func enterOwn(r *status.Report, p *config.Policy, own *backend.Limits) {
	started := r.Status != status.ExecFailed && r.Status != status.InternalError
	enter := func(c status.Capability, narrower bool, requested, mechanism, details string) {
		if narrower {
			r.Enforced[c] = status.Enforcement{Requested: requested, Enabled: true, Applied: started, Effective: started, Mechanism: mechanism, Details: details}
		}
	}
	enter(status.WallTime, own.Time > 0 && (p.TimeLimit == 0 || own.Time < p.TimeLimit), config.FormatDuration(own.Time), "timer", "")
	enter(status.Output, own.Output > 0 && (p.OutputLimit == 0 || own.Output < p.OutputLimit), config.FormatSize(own.Output), "relay", "per stream")
	enter(status.CPUTime, own.CPU > 0 && (p.CPUTime == 0 || own.CPU < p.CPUTime), config.FormatDuration(own.CPU), "tree_watchdog",
		"sum over the process and those below it, sampled, without whom loses its parent; RLIMIT_CPU behind it, for each")
}

// affinity picks the cores, of those that the caller may use. Different runs
// begin at different ones, so that many at once don't share the first.
func (p *limitCompiler) affinity() error {
	all, details := p.host.CPUs(), ""
	n := p.policy.CPUs
	if n > 0 && n < len(all) {
		for i := range n {
			p.plan.Exec.CPUs = append(p.plan.Exec.CPUs, uint32(all[(os.Getpid()+i)%len(all)]))
		}
	} else {
		details = fmt.Sprintf("there are %d", len(all))
	}
	if n > len(all) {
		p.notice(fmt.Sprintf("--cpus %d is more cores than there are: %d", n, len(all)))
	}
	p.plan.Ledger.Enforced(status.CPUs, "sched_setaffinity", details)
	return nil
}
