package handoff

// SetupError says which step of the build failed, and how. It is the last frame.
type SetupError struct {
	Step, Op, Path string
	Errno          uint32
}

// Sockets come as descriptors with it: those that the box asked for, in its order.
type Sockets struct {
	Fallbacks Fallbacks // so far
}

// Built says that everything stands. Descriptors come with it: the roots of proc and scratch, those of MountTmpfs, stacks, and IPCTables.
type Built struct {
	Skipped   []uint32 // indices of optional mounts that were left out
	Fallbacks Fallbacks
	Uppers    []Upper
	Places    []Upper // the other directories of scratch that are shown

	HasProc, HasScratch bool  // which descriptors come with it, in this order
	Sized               uint8 // after these, so many roots of MountTmpfs
	// Stacks come after these: mounts of its scratch with all that is below, as Box says, and then one of what is below alone.
	Stacks uint8
	// NoLayers is why nothing can stand on its scratch: the call that failed; empty if something can.
	NoLayers string
	IPC      uint8 // and then so many of IPCTables
}

// ExecError says that a process can't be started.
type ExecError struct {
	ID   uint32
	Path string // what was to be executed
	// Step is what failed: StepLookup, StepExecve, or a step of ours (Op).
	Step, Op string
	Errno    uint32
}

// The steps of an ExecError that are the command's own fault.
const (
	StepLookup = "lookup"
	StepExecve = "execve"
	StepChdir  = "chdir" // of a process in a sandbox; a run is told by its plan where it starts
)

// Started says that a process runs. Descriptors come with it: its pidfd, the master of its pty, the listener of its filter.
type Started struct {
	ID          uint32
	PID         uint32 // as seen inside
	Path        string // what it executes
	HasPTY      bool
	HasListener bool
	NoListener  uint32 // errno: why there is none although one was wanted
}

// Stopped says that a process with a pty was stopped by a signal.
type Stopped struct {
	ID     uint32
	Signal uint32
}

// Exited says that a process has ended.
type Exited struct {
	ID         uint32
	WaitStatus uint32
	Used       Usage  // by it and by whom it waited for
	InitTasks  uint32 // threads of the init since Started: RLIMIT_NPROC leaves the process so many fewer
	Astray     uint32 // what was meant for a network, where there is none and it failed
	Left       uint32 // LeftNone, LeftSome, LeftMaybe: whether Used leaves somebody out whom it had started
	LastPID    uint64 // that was given in the pid namespace, for Exec.CountTasks; 0: nobody knows
}

// What a process has left behind when it ended.
const (
	LeftNone  = iota
	LeftSome  // of its process group
	LeftMaybe // there are others who have lost their parent, or may
)

// Closed says that nobody is left inside. It is the last frame.
type Closed struct {
	Used Usage // by everybody who was reaped inside
}

// Usage is what getrusage tells.
type Usage struct {
	UserUS     int64 // microseconds
	SystemUS   int64
	MaxRSS     int64 // bytes, the largest single process
	RSSAtMost  bool  // MaxRSS may be the init's own
	Switches   int64 // of context
	ReadBytes  int64 // from storage
	WriteBytes int64 // to storage
}

// Upper is where an overlay, or a private place, keeps what is written to it.
type Upper struct {
	Dst string // of the mount
	Dir string // a directory in the root of scratch, or below
}

func (u *Upper) code(c *codec) {
	c.str(&u.Dst)
	c.str(&u.Dir)
}

// Fallbacks are the planned, weaker mechanisms that the kernel made the child take.
type Fallbacks struct {
	ProcOfCaller    bool // no fresh proc
	OverlayReadOnly bool // no overlayfs for users
	OverlayNested   bool // or something is mounted below its tree that can't be taken off it
	RootReadOnly    bool // the same, for the root
	RootNested      bool
	EtcChosen       bool // no overlay over what a MountBeneath shows: what is Instead of it
	EtcBound        bool // no overlay over it: it is bound, and names in it are hidden by mounts
	OverlayKeepDirs bool // directories that are in an overlay's tree can't be removed or replaced
	NestedUserns    bool // max_user_namespaces could not be set: only the filter stands against nested ones
	NoPIDMax        bool // kernel.pid_max can't hold the number of tasks
	NoSysctls       bool // one of Sysctls was refused
	NoRedirect      bool // no nftables with TPROXY: there are sockets for the ports that were named, and no others
	NoIPv6          bool // in the run's own network
	NoPing          bool // ping_group_range can't be set
	MountSetattr    bool // no mount_setattr (before Linux 5.12): one remount per mount
	NoListener      bool // the filter can have no listener: its denials aren't told. Said in Started, by an errno
}

// IPCTables are the files below /proc that show what an IPC namespace holds. They show that
// of whoever opened them, to whomever reads them.
var IPCTables = [...]string{"sysvipc/shm", "sysvipc/sem", "sysvipc/msg"}

// OpNested is the Op of a failure that OverlayNested or RootNested would have been.
const OpNested = "overlay (something is mounted below it)"

func (*SetupError) kind() Kind { return KindSetupError }
func (*Sockets) kind() Kind    { return KindSockets }
func (*Built) kind() Kind      { return KindBuilt }
func (*ExecError) kind() Kind  { return KindExecError }
func (*Started) kind() Kind    { return KindStarted }
func (*Stopped) kind() Kind    { return KindStopped }
func (*Exited) kind() Kind     { return KindExited }
func (*Closed) kind() Kind     { return KindClosed }

func (m *SetupError) code(c *codec) {
	c.str(&m.Step)
	c.str(&m.Op)
	c.str(&m.Path)
	num(c, &m.Errno)
}

func (m *Sockets) code(c *codec) { m.Fallbacks.code(c) }

func (m *Built) code(c *codec) {
	list(c, &m.Skipped, func(n *uint32) { num(c, n) })
	m.Fallbacks.code(c)
	list(c, &m.Uppers, func(u *Upper) { u.code(c) })
	list(c, &m.Places, func(u *Upper) { u.code(c) })
	c.bool(&m.HasProc)
	c.bool(&m.HasScratch)
	num(c, &m.Sized)
	num(c, &m.Stacks)
	c.str(&m.NoLayers)
	num(c, &m.IPC)
}

func (m *ExecError) code(c *codec) {
	num(c, &m.ID)
	c.str(&m.Path)
	c.str(&m.Step)
	c.str(&m.Op)
	num(c, &m.Errno)
}

func (m *Started) code(c *codec) {
	num(c, &m.ID)
	num(c, &m.PID)
	c.str(&m.Path)
	c.bool(&m.HasPTY)
	c.bool(&m.HasListener)
	num(c, &m.NoListener)
}

func (m *Stopped) code(c *codec) {
	num(c, &m.ID)
	num(c, &m.Signal)
}

func (m *Exited) code(c *codec) {
	num(c, &m.ID)
	num(c, &m.WaitStatus)
	m.Used.code(c)
	num(c, &m.InitTasks)
	num(c, &m.Astray)
	num(c, &m.Left)
	num(c, &m.LastPID)
}

func (m *Closed) code(c *codec) { m.Used.code(c) }

func (u *Usage) code(c *codec) {
	num(c, &u.UserUS)
	num(c, &u.SystemUS)
	num(c, &u.MaxRSS)
	c.bool(&u.RSSAtMost)
	num(c, &u.Switches)
	num(c, &u.ReadBytes)
	num(c, &u.WriteBytes)
}

func (f *Fallbacks) code(c *codec) {
	c.bool(&f.ProcOfCaller)
	c.bool(&f.OverlayReadOnly)
	c.bool(&f.OverlayNested)
	c.bool(&f.RootReadOnly)
	c.bool(&f.RootNested)
	c.bool(&f.EtcChosen)
	c.bool(&f.EtcBound)
	c.bool(&f.OverlayKeepDirs)
	c.bool(&f.NestedUserns)
	c.bool(&f.NoPIDMax)
	c.bool(&f.NoSysctls)
	c.bool(&f.NoRedirect)
	c.bool(&f.NoIPv6)
	c.bool(&f.NoPing)
	c.bool(&f.MountSetattr)
	c.bool(&f.NoListener)
}
