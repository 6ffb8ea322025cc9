package status

// Report is the whole truth about one run. Its JSON form is version 1, and
// additions are the only change it will ever see; see schema.json.
type Report struct {
	Version      int                        `json:"version"`
	Status       Status                     `json:"status"`
	RC           int                        `json:"rc"`     // the exit code of confine itself, in the dialect asked for
	Reason       string                     `json:"reason"` // one stable sentence or identifier
	Cause        Cause                      `json:"cause"`
	Signal       string                     `json:"signal,omitempty"`    // by name, "SIGKILL"; of the target
	ExitCode     *int                       `json:"exit_code,omitempty"` // of the target, when it exited by itself
	Stdout       string                     `json:"stdout"`              // only when captured (--json)
	Stderr       string                     `json:"stderr"`
	Encoding     Pair[string]               `json:"encoding"` // of Stdout and Stderr: "utf-8", or "base64" when not valid UTF-8
	Truncated    Pair[bool]                 `json:"truncated"`
	Bytes        Pair[int64]                `json:"bytes"`       // written by the target, dropped ones included
	DurationMS   int64                      `json:"duration_ms"` // from when the sandbox stands and the target is to start, to its end
	Cmd          []string                   `json:"cmd"`         // redacted
	TraceID      string                     `json:"trace_id"`
	Profile      string                     `json:"profile"`
	PolicyDigest string                     `json:"policy_digest"` // "sha256:…" over the effective policy
	Backend      string                     `json:"backend"`       // "linux-process"
	Usage        Usage                      `json:"usage"`
	LimitsHit    []string                   `json:"limits_hit"`              // capabilities, sorted
	FullMounts   []string                   `json:"full_mounts,omitempty"`   // of mount_size: places inside
	OutOfMemory  *OutOfMemory               `json:"out_of_memory,omitempty"` // of MEM_LIMIT
	Violations   []Violation                `json:"violations"`
	Enforced     map[Capability]Enforcement `json:"enforced"`
	Changes      *Changes                   `json:"changes,omitempty"`
	Network      *Traffic                   `json:"network,omitempty"`
	Host         Host                       `json:"host"`
	SetupError   *SetupError                `json:"setup_error,omitempty"`
	Ending       Ending                     `json:"-"`
}

// BoxReport is the truth about a sandbox that is held longer than one process: what all of them together used, and
// what was found when it was closed. Its fields are those of [Report]; what is about one process is in the process's.
type BoxReport struct {
	Version      int         `json:"version"`
	Backend      string      `json:"backend"`
	Profile      string      `json:"profile"`
	PolicyDigest string      `json:"policy_digest"`
	Cause        Cause       `json:"cause,omitempty"`  // of an end before it was closed: a limit of its own, or the caller
	Reason       string      `json:"reason,omitempty"` // the same in words
	DurationMS   int64       `json:"duration_ms"`      // from when it was built until it was closed
	Usage        Usage       `json:"usage"`
	LimitsHit    []string    `json:"limits_hit"`
	FullMounts   []string    `json:"full_mounts,omitempty"`
	Violations   []Violation `json:"violations"`
	Enforced     Ledger      `json:"enforced"`
	Changes      *Changes    `json:"changes,omitempty"`
	Network      *Traffic    `json:"network,omitempty"`
	Host         Host        `json:"host"`
	// SetupError is why it ended by itself, or what of it could not be removed.
	SetupError *SetupError `json:"setup_error,omitempty"`
}

// Ending is what Reason and the ledger say in words, as far as code goes by it. It is no part
// of the JSON form.
type Ending struct {
	Early    bool     // a signal of the caller's ended the run before it began
	After    string   // the signal of the caller's that was passed on before another one ended the command
	Memory   string   // of MEM_LIMIT: who held it, or was killed
	NotFound bool     // of EXEC_FAILED: there is no such command
	Native   string   // what the system calls an end that it has a name of its own for
	Module   string   // of a module of WebAssembly: what the engine said of its end
	Remedy   string   // the line of Reason that says what to do
	ReadOnly []string // trees that were to be overlays, and turned out to be none
}

// Pair is a value for each of the two output streams.
type Pair[T any] struct {
	Stdout T `json:"stdout"`
	Stderr T `json:"stderr"`
}

// Usage is what the whole tree of the run used.
type Usage struct {
	CPUMS           int64 `json:"cpu_ms"`
	UserMS          int64 `json:"user_ms"`
	SystemMS        int64 `json:"system_ms"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes"`
	TasksPeak       int64 `json:"tasks_peak"`
	TasksStarted    int64 `json:"tasks_started,omitempty"` // that there ever were at least, with --record; 0: nobody knows
	ThrottledMS     int64 `json:"throttled_ms"`            // how long the CPU rate held the run back
	ReadBytes       int64 `json:"read_bytes"`              // from storage
	WriteBytes      int64 `json:"write_bytes"`             // to storage
	ContextSwitches int64 `json:"context_switches"`
	// PressureMS is how long work waited for a resource, where the kernel counts it
	// (PSI): "cpu_some", "memory_some", "memory_full", "io_some", "io_full".
	PressureMS map[string]int64 `json:"pressure_ms,omitempty"`
	// Sources names, for each field above, where the figure came from.
	Sources map[string]string `json:"sources,omitempty"`
}

// OutOfMemory is what held the memory of a run that ended at its limit.
type OutOfMemory struct {
	// Process is the name of the one that held the most, where a watchdog counted them.
	Process string `json:"process,omitempty"`
	// FileBytes were files at the end: private places and overlays are memory.
	FileBytes int64 `json:"file_bytes"`
	// Path is the place inside that held the most of them, PathBytes. It is empty when
	// there were none, or they could not be looked through.
	Path      string `json:"path,omitempty"`
	PathBytes int64  `json:"path_bytes,omitempty"`
}

// Violation is one kind of refused attempt, coalesced.
//
// The rules RuleProtected, RuleAside and RuleLeft are about paths that came to be, or to be obeyed, in spite of being protected.
type Violation struct {
	Kind    string `json:"kind"` // "syscall", "network" or "file"
	What    string `json:"what"`
	Count   int64  `json:"count"`
	FirstMS int64  `json:"first_ms"`
	LastMS  int64  `json:"last_ms,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Comm    string `json:"comm,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

const (
	RuleProtected = "protected"       // it was removed
	RuleAside     = "protected_aside" // it was renamed: it was there before, or holds files that the target could not have removed
	RuleLeft      = "protected_left"  // it could not be removed: a run that ended well ends with 1
)

// Changes is what a run changed in overlays. Paths are those of the real trees,
// where nothing was changed.
type Changes struct {
	RunID  string       `json:"run_id,omitempty"` // for diff, apply and discard
	Kept   bool         `json:"kept"`
	Trees  []string     `json:"trees,omitempty"`
	Counts ChangeCounts `json:"counts"`
	Bytes  int64        `json:"bytes"` // of files added and modified
	// The paths of each kind, 1,000 of each at most.
	Added    []string `json:"added,omitempty"`
	Modified []string `json:"modified,omitempty"`
	Deleted  []string `json:"deleted,omitempty"`
	Mode     []string `json:"mode,omitempty"`
	Link     []string `json:"link,omitempty"`
	// Truncated: there were more than the lists hold.
	Truncated bool   `json:"truncated,omitempty"`
	Error     string `json:"error,omitempty"` // why they could not be read or kept
	// Cause is the error of Error, in the process that read them.
	Cause error `json:"-"`
}

// ChangeCounts counts changes by their kind.
type ChangeCounts struct {
	Added    int `json:"added"`
	Modified int `json:"modified"` // content or type
	Deleted  int `json:"deleted"`
	Mode     int `json:"mode"` // permission bits, owner or attributes alone
	Link     int `json:"link"` // the target of a symbolic link
}

// Traffic is what a run reached through the gateway, and what it tried to.
type Traffic struct {
	Attempts      []Attempt `json:"attempts"`         // by the time of the first, 1,024 kinds at most
	Others        int64     `json:"others,omitempty"` // attempts of further kinds
	Connections   int64     `json:"connections_peak"` // open at one time
	SentBytes     int64     `json:"sent_bytes"`
	ReceivedBytes int64     `json:"received_bytes"`
}

// Attempt is one kind of attempt to reach something, coalesced.
type Attempt struct {
	What          string `json:"what"`              // "example.com:443", "10.0.0.1:80", "localhost:5432"; of a question the name alone, of a unix socket its path or "@NAME"
	Protocol      string `json:"protocol"`          // "tcp", "udp", "dns" or "unix"
	Verdict       string `json:"verdict"`           // "allowed", "blocked" or "failed"
	Why           string `json:"why,omitempty"`     // what it was blocked for, or failed by
	Claimed       string `json:"claimed,omitempty"` // what the client said that it talks to, where that was another name
	Rule          string `json:"rule,omitempty"`    // the word of the policy that decided
	Name          string `json:"name,omitempty"`    // domain name
	Address       string `json:"address,omitempty"` // that was dialled, or meant
	Port          int    `json:"port,omitempty"`
	Count         int64  `json:"count"`
	FirstMS       int64  `json:"first_ms"`
	LastMS        int64  `json:"last_ms,omitempty"`
	PID           int    `json:"pid,omitempty"` // as seen inside
	Comm          string `json:"comm,omitempty"`
	SentBytes     int64  `json:"sent_bytes"`
	ReceivedBytes int64  `json:"received_bytes"`
	Hint          string `json:"hint,omitempty"` // the flag that would allow it
}

// Verdicts of attempts.
const (
	AttemptAllowed = "allowed"
	AttemptBlocked = "blocked" // by a rule, or for want of one
	AttemptFailed  = "failed"  // allowed, but the other side could not be reached
)

// Host is where the run took place.
type Host struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel"`
	UID    int    `json:"uid"`
}

// SetupError is the step of building the sandbox that failed.
type SetupError struct {
	Step  string `json:"step"`
	Op    string `json:"op"`
	Path  string `json:"path,omitempty"`
	Errno int    `json:"errno,omitempty"`
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}
