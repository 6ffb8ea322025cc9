package process

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/cgroup"
)

const (
	// stackSize is the usual soft limit, whatever the caller's is.
	stackSize = 8 << 20
	// pidMaxMost is PID_MAX_LIMIT, less what the kernel keeps for itself.
	pidMaxMost = 1<<22 - 300
)

// limits turns the policy's numbers into rlimits for the target and into what
// the supervisor watches.
func (p *planner) limits() error {
	q := p.policy
	p.plan.Watch = plan.Watch{
		Wall: q.TimeLimit, CPU: q.CPUTime, Grace: q.Grace,
		Memory: q.MemoryLimit, CPUPercent: q.CPULimit,
		Output: q.OutputLimit, Disk: q.DiskLimit, Files: q.MaxFiles,
	}
	w, held := &p.plan.Watch, &p.plan.Held
	held.CPU = p.groups.counts
	if p.groups.holds[cgroup.Memory] {
		w.Memory, held.Memory = 0, w.Memory
	}
	if p.groups.holds[cgroup.CPU] {
		w.CPUPercent, held.CPUPercent = 0, w.CPUPercent
	}
	// A handler that core_pattern pipes to is started for 0, and not for 1.
	p.rlimit(unix.RLIMIT_CORE, 1, 1)
	p.rlimit(unix.RLIMIT_STACK, stackSize, math.MaxUint64)
	if n := q.FileDescriptors; n > 0 {
		p.rlimit(unix.RLIMIT_NOFILE, uint64(n), uint64(n))
		if _, most, err := p.host.Rlimit(unix.RLIMIT_NOFILE); err != nil || most >= uint64(n) {
			w.Descriptors = n
		}
	}
	if n := q.MaxFileSize; n > 0 {
		p.rlimit(unix.RLIMIT_FSIZE, uint64(n), uint64(n))
	}
	if d := q.CPUTime; d > 0 {
		// In seconds, of one process; the watchdog counts the tree, and sooner.
		s := uint64((d + time.Second - 1) / time.Second)
		p.rlimit(unix.RLIMIT_CPU, s+1, s+2)
	}
	if n := q.Processes; n > 0 {
		w.Tasks = n
		switch {
		case p.groups.holds[cgroup.PIDs]:
			w.Tasks, held.Tasks = 0, n
		case p.nprocBinds():
			// The child adds the tasks of its own, which count too.
			p.rlimit(unix.RLIMIT_NPROC, uint64(n), uint64(n))
		case p.ownPIDMax() && n <= pidMaxMost:
			p.plan.Box.PIDMax = uint32(n)
		default:
			w.KillTasks = true
		}
	}
	if q.DiskLimit > 0 || q.MaxFiles > 0 {
		p.writableTrees()
	}
	p.tables()
	p.affinity()
	return nil
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
func (p *planner) sizePtys() {
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
func (p *planner) tables() {
	for _, l := range []struct {
		resource int
		most     uint64
	}{{unix.RLIMIT_SIGPENDING, sigpending}, {unix.RLIMIT_MSGQUEUE, msgqueue}} {
		if _, most, err := p.host.Rlimit(l.resource); err == nil {
			l.most = min(l.most, most/2)
		}
		p.rlimit(l.resource, l.most, l.most)
	}
	set := func(path string, n int64) {
		p.plan.Box.Sysctls = append(p.plan.Box.Sysctls, handoff.Sysctl{Path: path, Value: strconv.FormatInt(n, 10)})
	}
	memory := p.plan.Watch.Memory
	if p.ground == inUserns { // otherwise they would be the host's
		// Half of what Linux gives a user; a watch keeps 1 KiB of the kernel's.
		set("user/max_inotify_instances", 64)
		watches := int64(1 << 16)
		if memory > 0 {
			watches = min(watches, max(memory/16>>10, 1<<10))
		}
		set("user/max_inotify_watches", watches)
	}
	p.plan.Box.ShowIPC = p.ground != bare && memory > 0
	p.sizePtys()
}

// writableTrees are those of the caller's: no file system of the run's own bounds
// what is added there.
func (p *planner) writableTrees() {
	for _, m := range p.plan.Box.Mounts {
		if m.Kind == handoff.MountBind && !m.ReadOnly && !m.Device {
			p.plan.Watch.Trees = append(p.plan.Watch.Trees, plan.Tree{Path: m.Src, Dev: m.Dev, Ino: m.Ino})
		}
	}
}

// ownPIDMax: every pid namespace has its own kernel.pid_max, which binds root too.
// Before Linux 6.14, writing it would change the host's.
func (p *planner) ownPIDMax() bool {
	return p.ground != bare && p.host.Kernel().AtLeast(host.Kernel{Major: 6, Minor: 14})
}

// nprocBinds: since Linux 5.14 the own user namespace has its own count, but the
// kernel holds nobody to it whose uid outside is 0.
func (p *planner) nprocBinds() bool {
	return p.uid != 0 && p.ground == inUserns && p.host.Kernel().AtLeast(host.Kernel{Major: 5, Minor: 14})
}

// rlimit asks for a limit, or for the caller's own where that is lower: no limit
// can be raised above it.
func (p *planner) rlimit(resource int, soft, hard uint64) {
	if _, most, err := p.host.Rlimit(resource); err == nil {
		soft, hard = min(soft, most), min(hard, most)
	}
	p.plan.Exec.Rlimits = append(p.plan.Exec.Rlimits, handoff.Rlimit{Resource: uint32(resource), Soft: soft, Hard: hard})
}

// affinity picks the cores, of those that the caller may use. Different runs
// begin at different ones, so that many at once don't share the first.
func (p *planner) affinity() {
	all := p.host.CPUs()
	if n := p.policy.CPUs; n > 0 && n < len(all) {
		for i := range n {
			p.plan.Exec.CPUs = append(p.plan.Exec.CPUs, uint32(all[(os.Getpid()+i)%len(all)]))
		}
	} else if n > len(all) {
		p.notice(fmt.Sprintf("--cpus %d is more cores than there are: %d", n, len(all)))
	}
}
