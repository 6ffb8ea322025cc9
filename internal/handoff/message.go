package handoff

// Kind is the kind of a frame.
type Kind uint8

const (
	KindPlan       Kind = iota + 1 // in: Child
	KindSetupError                 // out: Step, Op, Path, Errno
	KindSockets                    // out: as many descriptors, of the sockets that the plan asked for, in its order
	KindReady                      // out: Skipped, Fallbacks, Uppers; descriptors: roots of proc and scratch, pty master, roots of sized tmpfs
	KindExecError                  // out: Step, Errno
	KindStarted                    // out: PID, as seen inside; Path: what it executes; descriptors: its pidfd, the filter's listener; Errno: why there is none
	KindStopped                    // out: Number, the signal that stopped the target
	KindExited                     // out: WaitStatus and what the whole tree used
)

// Message is any frame but the plan. Which fields mean something is said above.
type Message struct {
	Kind Kind

	Step, Op, Path string
	Errno          uint32

	Number uint32
	PID    uint32

	Skipped   []uint32 // indices of optional mounts that were left out
	Fallbacks Fallbacks
	Uppers    []Upper

	HasProc, HasScratch, HasPTY, HasPIDFD, HasListener bool  // which descriptors come with it, in this order
	Sized                                              uint8 // and after these, so many roots of MountTmpfs

	WaitStatus uint32
	UserUS     int64 // microseconds, everything reaped inside
	SystemUS   int64
	MaxRSS     int64  // bytes, the largest single process
	RSSAtMost  bool   // MaxRSS may be the init's own
	Switches   int64  // of context
	ReadBytes  int64  // from storage
	WriteBytes int64  // to storage
	InitTasks  uint32 // threads of the init since Started: RLIMIT_NPROC leaves the target so many fewer
	Astray     uint32 // what was meant for a network, where there is none and the target failed
}

// Upper is where an overlay keeps what is written to it.
type Upper struct {
	Dst  string // of the mount
	Part uint32 // the name of a directory in the root of scratch
}

// Fallbacks are the planned, weaker mechanisms that the kernel made the child take.
type Fallbacks struct {
	ProcOfCaller    bool // no fresh proc
	OverlayReadOnly bool // no overlayfs for users
	OverlayNested   bool // or something is mounted below its tree that can't be taken off it
	RootReadOnly    bool // the same, for the root
	RootNested      bool
	OverlayKeepDirs bool // directories that are in an overlay's tree can't be removed or replaced
	NestedUserns    bool // max_user_namespaces could not be set: only the filter stands against nested ones
	NoPIDMax        bool // kernel.pid_max can't hold the number of tasks
	NoRedirect      bool // no nftables with TPROXY: there are sockets for the ports that were named, and no others
	NoIPv6          bool // in the run's own network
	NoPing          bool // ping_group_range can't be set
	MountSetattr    bool // no mount_setattr (before Linux 5.12): one remount per mount
	NoListener      bool // the filter can have no listener: its denials aren't told. Said in Started, by an errno
}

// OpNested is the Op of a failure that OverlayNested or RootNested would have been.
const OpNested = "overlay (something is mounted below it)"

func (m *Message) code(c *codec) {
	c.head(m.Kind)
	c.str(&m.Step)
	c.str(&m.Op)
	c.str(&m.Path)
	num(c, &m.Errno)
	num(c, &m.Number)
	num(c, &m.PID)
	list(c, &m.Skipped, func(n *uint32) { num(c, n) })
	m.Fallbacks.code(c)
	list(c, &m.Uppers, func(u *Upper) {
		c.str(&u.Dst)
		num(c, &u.Part)
	})
	c.bool(&m.HasProc)
	c.bool(&m.HasScratch)
	c.bool(&m.HasPTY)
	c.bool(&m.HasPIDFD)
	c.bool(&m.HasListener)
	num(c, &m.Sized)
	num(c, &m.WaitStatus)
	num(c, &m.UserUS)
	num(c, &m.SystemUS)
	num(c, &m.MaxRSS)
	c.bool(&m.RSSAtMost)
	num(c, &m.Switches)
	num(c, &m.ReadBytes)
	num(c, &m.WriteBytes)
	num(c, &m.InitTasks)
	num(c, &m.Astray)
}

func (f *Fallbacks) code(c *codec) {
	c.bool(&f.ProcOfCaller)
	c.bool(&f.OverlayReadOnly)
	c.bool(&f.OverlayNested)
	c.bool(&f.RootReadOnly)
	c.bool(&f.RootNested)
	c.bool(&f.OverlayKeepDirs)
	c.bool(&f.NestedUserns)
	c.bool(&f.NoPIDMax)
	c.bool(&f.NoRedirect)
	c.bool(&f.NoIPv6)
	c.bool(&f.NoPing)
	c.bool(&f.MountSetattr)
	c.bool(&f.NoListener)
}

// Encode makes a frame.
func (m *Message) Encode() []byte {
	c := codec{buf: make([]byte, 0, 256)}
	m.code(&c)
	return c.buf
}

// kindAt is where the kind stands in every frame.
const kindAt = 8

// DecodeMessage reads any frame but the plan.
func DecodeMessage(frame []byte) (*Message, error) {
	if len(frame) <= kindAt {
		return nil, Error("cut short")
	}
	m := &Message{Kind: Kind(frame[kindAt])}
	if m.Kind <= KindPlan || m.Kind > KindExited {
		return nil, Error("another kind of frame")
	}
	c := codec{buf: frame, reading: true}
	m.code(&c)
	return m, c.end()
}
