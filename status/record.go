package status

// RecordVersion is that of the lines that only --record writes.
const RecordVersion = 1

// Record is what a record is about.
type Record struct {
	Version int            `json:"version"` // RecordVersion
	Cmd     []string       `json:"cmd"`     // redacted
	Profile string         `json:"profile"`
	CPUs    int            `json:"cpus"` // that the run can use
	Limits  RecordedLimits `json:"limits"`
}

// RecordedLimits are those that were asked for; whether they hold is in the report. None is left out.
type RecordedLimits struct {
	TimeMS      int64 `json:"time_ms,omitempty"`
	CPUMS       int64 `json:"cpu_ms,omitempty"`
	CPUPercent  int   `json:"cpu_percent,omitempty"` // of one core
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	Tasks       int64 `json:"tasks,omitempty"`
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
	OutputBytes int64 `json:"output_bytes,omitempty"` // per stream
}

// Phase is a part of the start that is done.
type Phase struct {
	Name PhaseName `json:"name"`
	US   int64     `json:"us"` // how long it took, in microseconds
}

// PhaseName is a part of the start.
type PhaseName string

// The phases, in their order.
const (
	PhasePlan  PhaseName = "plan"  // from when the options were understood; the init is cloned meanwhile
	PhaseBuild PhaseName = "build" // until the sandbox stood
	PhaseStart PhaseName = "start" // until the command ran
)

// Sample is what the whole run uses at a moment. What nobody counts is left out.
type Sample struct {
	EveryMS         int64  `json:"every_ms"`         // the next one is due so much later
	CPUMS           *int64 `json:"cpu_ms,omitempty"` // since the start, as the next two
	UserMS          *int64 `json:"user_ms,omitempty"`
	SystemMS        *int64 `json:"system_ms,omitempty"`
	ThrottledMS     *int64 `json:"throttled_ms,omitempty"`
	MemoryBytes     *int64 `json:"memory_bytes,omitempty"`
	MemoryPeakBytes *int64 `json:"memory_peak_bytes,omitempty"` // the kernel's own, of all of the run until now
	Tasks           *int64 `json:"tasks,omitempty"`
	DiskBytes       *int64 `json:"disk_bytes,omitempty"` // in private places and overlays that are memory
	StdoutBytes     *int64 `json:"stdout_bytes,omitempty"`
	StderrBytes     *int64 `json:"stderr_bytes,omitempty"`
	// Untold are processes that were there and that the record has no lines of: it has its bound.
	Untold int64 `json:"untold,omitempty"`
}

// Process is what was seen of a process. PID and StartedMS together name it.
type Process struct {
	PID       int      `json:"pid"` // as seen inside
	Parent    int      `json:"parent,omitempty"`
	StartedMS int64    `json:"started_ms"` // by the kernel, in steps of 10 ms
	Comm      string   `json:"comm,omitempty"`
	Argv      []string `json:"argv,omitempty"` // redacted, and cut
	Cut       bool     `json:"cut,omitempty"`  // there is more of Argv
	// ExitCode is what it gave exit_group(2), other than 0, at this moment. Only PID and Comm are with it.
	ExitCode *int `json:"exit_code,omitempty"`
	// SeenMS is when it was seen last, in the line that says that it is gone: some time between that and the line's own it ended.
	SeenMS *int64 `json:"seen_ms,omitempty"`
}
