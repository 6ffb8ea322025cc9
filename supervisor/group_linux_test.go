package supervisor

import (
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/outcome"
)

func known(n int64) cgroup.Count { return cgroup.Count{N: n, Known: true} }

func TestWhatOnlyTheCountersKnow(t *testing.T) {
	const killed = "the kernel killed the whole tree"
	exited := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	for _, c := range []struct {
		name  string
		cause status.Cause // before
		oom   bool
		ooms  int64
		ended syscall.WaitStatus
		want  status.Cause
		state status.Status
	}{
		{"nothing", "", false, 0, exited(1), "", status.Failed},
		{"an OOM kill", "", true, 1, 9, status.CauseMemGroup, status.MemLimit},
		{"of a child, and the target failed", "", true, 0, exited(1), status.CauseMemGroup, status.MemLimit},
		{"of a child, and the target went on", "", true, 0, exited(0), status.CauseMemGroup, status.MemLimit},
		{"not ours", "", false, 0, 9, "", status.KilledKill},
		{"refused, and it failed", "", false, 2, exited(1), status.CauseMemAlloc, status.MemLimit},
		{"refused, and it went on", "", false, 2, exited(0), "", status.OK},
		{"the first cause wins", status.CauseWall, true, 1, 9, status.CauseWall, status.Timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := outcome.Outcome{Cause: c.cause, Waited: true, Ended: c.ended}
			counted(&o, &cgroup.Stat{OOMs: known(c.ooms)}, c.oom, killed)
			if o.Cause != c.want {
				t.Errorf("cause %q, want %q", o.Cause, c.want)
			}
			if v := o.Verdict(); v.Status != c.state {
				t.Errorf("%s, want %s", v.Status, c.state)
			}
		})
	}
}

func TestUsageSaysWhereItIsFrom(t *testing.T) {
	r := &box{counters: counters{group: new(cgroup.Group)}, plan: &plan.Plan{Held: plan.Held{CPUPercent: 50, Tasks: 5}}}
	second := cgroup.Span{D: time.Second, Known: true}
	r.stat = cgroup.Stat{
		CPU: second, Throttled: second, MemoryPeak: known(7), TasksHits: known(1),
		Pressure: cgroup.Pressure{MemoryFull: second},
	}
	u := status.Usage{TasksPeak: 3, Sources: map[string]string{"tasks_peak": "samples"}}
	r.groupUsage(&u)
	if u.CPUMS != 1000 || u.ThrottledMS != 1000 || u.MemoryPeakBytes != 7 || u.PressureMS["memory_full"] != 1000 {
		t.Errorf("%+v", u)
	}
	if u.TasksPeak != 3 || u.Sources["tasks_peak"] != "samples" || u.Sources["cpu_ms"] == "" || len(u.PressureMS) != 1 {
		t.Errorf("what is not known: %+v", u)
	}
	if got := r.groupLimits(); len(got) != 2 {
		t.Errorf("limits hit: %v", got)
	}
}

func exited(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
