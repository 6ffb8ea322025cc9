package windows

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/status"
)

// jobObject is a job with its limits. Whoever has it open keeps it: it ends when this process does.
type jobObject struct {
	handle windows.Handle
	port   windows.Handle
}

const uiLimits = windows.JOB_OBJECT_UILIMIT_HANDLES | windows.JOB_OBJECT_UILIMIT_READCLIPBOARD | windows.JOB_OBJECT_UILIMIT_WRITECLIPBOARD |
	windows.JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS | windows.JOB_OBJECT_UILIMIT_DISPLAYSETTINGS | windows.JOB_OBJECT_UILIMIT_GLOBALATOMS |
	windows.JOB_OBJECT_UILIMIT_DESKTOP | windows.JOB_OBJECT_UILIMIT_EXITWINDOWS

func newJob() (windows.Handle, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("CreateJobObject: %w", err)
	}
	return h, nil
}

// limitsOf are those of a plan, as Windows takes them.
func limitsOf(j *job) (l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) {
	b := &l.BasicLimitInformation
	b.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	if j.Memory > 0 {
		b.LimitFlags |= windows.JOB_OBJECT_LIMIT_JOB_MEMORY | windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY
		l.JobMemoryLimit, l.ProcessMemoryLimit = uintptr(j.Memory), uintptr(j.Memory)
	}
	if j.Processes > 0 {
		b.LimitFlags |= windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
		b.ActiveProcessLimit = uint32(min(j.Processes, 1<<31))
	}
	if j.CPUTime > 0 { // behind what looks at the accounting: it counts user time alone
		b.LimitFlags |= windows.JOB_OBJECT_LIMIT_JOB_TIME
		b.PerJobUserTimeLimit = int64((j.CPUTime + time.Second) / 100)
	}
	if j.Affinity != 0 {
		b.LimitFlags |= windows.JOB_OBJECT_LIMIT_AFFINITY
		b.Affinity = uintptr(j.Affinity)
	}
	return l
}

// open makes the job of a sandbox, and looks at it: what reads back otherwise than it was set is weakened.
func openJob(p *Plan) (*jobObject, error) {
	h, err := newJob()
	if err != nil {
		return nil, err
	}
	j := &jobObject{handle: h}
	if err := j.limit(p); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

func (j *jobObject) limit(p *Plan) error {
	want := limitsOf(&p.Job)
	if err := setJob(j.handle, windows.JobObjectExtendedLimitInformation, &want); err != nil {
		return fmt.Errorf("SetInformationJobObject(ExtendedLimitInformation): %w", err)
	}
	var got windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if err := queryJob(j.handle, windows.JobObjectExtendedLimitInformation, &got); err != nil {
		return fmt.Errorf("QueryInformationJobObject(ExtendedLimitInformation): %w", err)
	}
	const other = "the job object reads back otherwise than it was set"
	w, g := &want.BasicLimitInformation, &got.BasicLimitInformation
	for _, c := range []struct {
		capability status.Capability
		flags      uint32
		same       bool
	}{
		{status.Containment, windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, g.LimitFlags&(windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK|windows.JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK) == 0},
		{status.Memory, windows.JOB_OBJECT_LIMIT_JOB_MEMORY, want.JobMemoryLimit == got.JobMemoryLimit && want.ProcessMemoryLimit == got.ProcessMemoryLimit},
		{status.Tasks, windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS, w.ActiveProcessLimit == g.ActiveProcessLimit},
		{status.CPUs, windows.JOB_OBJECT_LIMIT_AFFINITY, w.Affinity == g.Affinity},
	} {
		if w.LimitFlags&c.flags != 0 && (g.LimitFlags&c.flags == 0 || !c.same) {
			p.Lines.Weaken(c.capability, status.NotApplied, other)
		}
	}
	if p.Job.Rate > 0 {
		rate := cpuRate{cpuRateHardCap, p.Job.Rate}
		var now cpuRate
		if err := setJob(j.handle, windows.JobObjectCpuRateControlInformation, &rate); err != nil {
			p.Lines.Weaken(status.CPURate, status.NotApplied, "SetInformationJobObject(CpuRateControlInformation): "+err.Error())
		} else if err := queryJob(j.handle, windows.JobObjectCpuRateControlInformation, &now); err != nil || now != rate {
			p.Lines.Weaken(status.CPURate, status.NotApplied, other)
		}
	}
	if a, err := j.account(); err != nil {
		p.Lines.Weaken(status.CPUTime, status.NotApplied, "QueryInformationJobObject(BasicAccountingInformation): "+err.Error())
	} else if a.Active != 0 {
		return errors.New("the accounting of an empty job counts processes")
	}
	port, err := windows.CreateIoCompletionPort(windows.InvalidHandle, 0, 0, 1)
	if err != nil {
		return fmt.Errorf("CreateIoCompletionPort: %w", err)
	}
	j.port = port
	if err := setJob(j.handle, windows.JobObjectAssociateCompletionPortInformation, &completionPort{1, port}); err != nil {
		return fmt.Errorf("SetInformationJobObject(AssociateCompletionPortInformation): %w", err)
	}
	return nil
}

func (j *jobObject) account() (a accounting, err error) {
	if err = queryJob(j.handle, windows.JobObjectBasicAndIoAccountingInformation, &a); err != nil {
		err = queryJob(j.handle, windows.JobObjectBasicAccountingInformation, &a.counts)
	}
	return a, err
}

// told waits for what the job tells; ok is false when it was closed.
func (j *jobObject) told() (message uint32, ok bool) {
	var key uintptr
	var about *windows.Overlapped
	if err := windows.GetQueuedCompletionStatus(j.port, &message, &key, &about, windows.INFINITE); err != nil || key == 0 {
		return 0, false
	}
	return message, true
}

// hush ends told.
func (j *jobObject) hush() {
	if j.port != 0 {
		_ = windows.PostQueuedCompletionStatus(j.port, 0, 0, nil)
	}
}

func (j *jobObject) kill() { _ = windows.TerminateJobObject(j.handle, killedCode) }

// close ends everybody in it, by the limit that it has for that, where it is the last to have it open.
func (j *jobObject) close() {
	for _, h := range []windows.Handle{j.handle, j.port} {
		if h != 0 {
			_ = windows.CloseHandle(h)
		}
	}
	j.handle, j.port = 0, 0
}

// cpu is CPU time that the accounting has.
func (a *accounting) cpu() time.Duration {
	return time.Duration(a.TotalUserTime+a.TotalKernelTime) * 100
}

// used is the accounting in the words of a report.
func (j *jobObject) used() (u status.Usage) {
	a, err := j.account()
	if err != nil {
		return u
	}
	const from = "job object"
	u.CPUMS, u.UserMS, u.SystemMS = a.cpu().Milliseconds(), a.TotalUserTime/10_000, a.TotalKernelTime/10_000
	u.TasksStarted = int64(a.Processes)
	u.ReadBytes, u.WriteBytes = int64(a.IO.ReadTransferCount), int64(a.IO.WriteTransferCount)
	var l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if queryJob(j.handle, windows.JobObjectExtendedLimitInformation, &l) == nil {
		u.MemoryPeakBytes = int64(l.PeakJobMemoryUsed)
	}
	u.Sources = map[string]string{
		"cpu_ms": from, "user_ms": from, "system_ms": from, "memory_peak_bytes": from + ", committed", "tasks_started": from + ", processes",
		"read_bytes": from + ", by any call that reads", "write_bytes": from + ", by any call that writes",
	}
	return u
}
