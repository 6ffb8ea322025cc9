package confine

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/cgroup"
)

const (
	// dataFactor: RLIMIT_DATA counts private writable mappings whether they are
	// touched or not, and a JVM maps more than it uses. The watchdog holds the
	// limit; this is behind it, against what is faster than its samples.
	dataFactor = 2
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
	p.rlimit(unix.RLIMIT_CORE, 0, 0)
	p.rlimit(unix.RLIMIT_STACK, stackSize, math.MaxUint64)
	if n := q.FileDescriptors; n > 0 {
		p.rlimit(unix.RLIMIT_NOFILE, uint64(n), uint64(n))
	}
	if n := q.MaxFileSize; n > 0 {
		p.rlimit(unix.RLIMIT_FSIZE, uint64(n), uint64(n))
	}
	if d := q.CPUTime; d > 0 {
		// In seconds, of one process; the watchdog counts the tree, and sooner.
		s := uint64((d + time.Second - 1) / time.Second)
		p.rlimit(unix.RLIMIT_CPU, s+1, s+2)
	}
	if n := w.Memory; n > 0 && n < math.MaxInt64/dataFactor {
		p.rlimit(unix.RLIMIT_DATA, uint64(n)*dataFactor, uint64(n)*dataFactor)
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
			p.plan.Child.PIDMax = uint32(n)
		default:
			w.KillTasks = true
		}
	}
	if q.DiskLimit > 0 || q.MaxFiles > 0 {
		p.writableTrees()
	}
	p.affinity()
	return nil
}

// writableTrees are those of the caller's: no file system of the run's own bounds
// what is added there.
func (p *planner) writableTrees() {
	for _, m := range p.plan.Child.Mounts {
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
	p.plan.Child.Rlimits = append(p.plan.Child.Rlimits, handoff.Rlimit{Resource: uint32(resource), Soft: soft, Hard: hard})
}

// affinity picks the cores, of those that the caller may use. Different runs
// begin at different ones, so that many at once don't share the first.
func (p *planner) affinity() {
	all := p.host.CPUs()
	if n := p.policy.CPUs; n > 0 && n < len(all) {
		for i := range n {
			p.plan.Child.CPUs = append(p.plan.Child.CPUs, uint32(all[(os.Getpid()+i)%len(all)]))
		}
	}
}
