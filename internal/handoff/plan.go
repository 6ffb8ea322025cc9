package handoff

// Child is what the inside needs to know to build the sandbox and start the
// target. Steps whose field is zero do nothing.
type Child struct {
	Argv []string
	Env  []string // K=V
	Dir  string   // where the target starts
	UID  uint32   // inside
	GID  uint32
	// OtherIDs: they are not the caller's own.
	OtherIDs bool

	Namespaces uint64 // what it was cloned into, and the target's cgroup namespace
	TempDir    string // to be made; where there is no mount namespace
	Landlock   Landlock
	DropGroups bool
	Hostname   string

	// Root is a tree of the caller's that becomes the root (a MountOverlay), where its
	// kind is not 0. Otherwise that is private and empty. Where the kernel has no
	// overlayfs for users, the tree is read-only, and the child says so. ReadOnly: it is
	// known beforehand that there can be none over it.
	Root Mount

	Mounts        []Mount // in this order
	ScratchSize   int64   // bytes; of the one tmpfs behind every writable private place
	ScratchInodes int64

	// The cgroups that the target begins in come as descriptors with the plan: a
	// directory of cgroup v2 if JoinDir, and then so many cgroup.procs, of all of them.
	JoinDir   bool
	JoinProcs uint8
	// Linger: with the init goes what its cgroup counted, so it stays until that was read.
	Linger bool

	Network Network

	Rlimits []Rlimit
	CPUs    []uint32 // sched_setaffinity
	PIDMax  uint32   // tasks that the pid namespace may have, by kernel.pid_max (Linux 6.14)

	Seccomp      []uint64 // BPF instructions: code<<48 | jt<<40 | jf<<32 | k
	SeccompFlags uint32
	// SeccompNotify is the same with denials handed to a listener, which goes out with
	// Started. It is tried first; where there can be no listener, Seccomp is loaded.
	SeccompNotify []uint64
	// SeccompPass: execve is handed on, too, and nobody could answer the target's own
	// first one: it passes by this number, which nobody else knows. 0: execve isn't.
	SeccompPass uint64

	// Refuse are fallbacks that the policy doesn't accept: needing one fails the set-up.
	Refuse Fallbacks

	// TTY: which of 0, 1, 2 are the pty that the child makes in its own devpts.
	TTY        [3]bool
	Rows, Cols uint16
}

// Landlock is a ruleset that the target puts on itself. Nothing handled and nothing
// scoped is none.
type Landlock struct {
	HandledFS  uint64 // LANDLOCK_ACCESS_FS_*: what is refused unless a rule allows it
	HandledNet uint64 // LANDLOCK_ACCESS_NET_*
	Scoped     uint64 // LANDLOCK_SCOPE_*: what stays among the target's own
	Rules      []LandlockRule
	// Log: what it refuses the target after its execve goes to the kernel's audit.
	Log bool
}

// None says whether there is nothing to be held.
func (l *Landlock) None() bool { return l.HandledFS|l.HandledNet|l.Scoped == 0 }

// LandlockRule allows Access at Path and below it.
type LandlockRule struct {
	Path string // absolute, without symbolic links; as the target will see it
	// Dev and Ino are what Path was when it was resolved, and nothing else gets the
	// rule. No Ino: it is made for this run.
	Dev, Ino uint64
	Access   uint64
	Optional bool // what is gone, or out of the target's reach, needs no rule
}

// Rlimit is one setrlimit.
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// MountKind is what one entry of the mount table does.
type MountKind uint8

const (
	// MountDir makes a directory in the private root, with Mode.
	MountDir MountKind = iota + 1
	// MountFile writes Text to a new file in the private root, with Mode.
	MountFile
	// MountSymlink makes Dst a symbolic link to Text in the private root.
	MountSymlink
	// MountBind shows Src, with everything mounted below it, at Dst.
	MountBind
	// MountScratch makes Dst a private writable directory, with Mode, on the
	// one sized tmpfs that all of them share.
	MountScratch
	// MountOverlay shows Src at Dst; writes go to the scratch tmpfs. Where the
	// kernel has no overlayfs for users, Src is shown read-only and the child says so.
	MountOverlay
	// MountProc is a fresh proc of the own pid namespace. Where the host masks
	// its own proc, and the kernel therefore refuses a fresh one, the caller's
	// proc is shown read-only and the child says so.
	MountProc
	// MountDevpts is an own instance of devpts.
	MountDevpts
	// MountMask hides what is at Dst behind something empty that nobody can
	// open. What isn't there needs no hiding, unless it has an Ino: then it was
	// there, and must be (the same, if there is a Dev).
	MountMask
	// MountReadOnly makes what is at Dst read-only. What isn't there is skipped,
	// unless it has an Ino.
	MountReadOnly
	// MountPin makes Dst a mount point with nothing changed, so that it can't be
	// renamed away together with what is mounted below it.
	MountPin
	// MountTmpfs is a private writable directory, with Mode, of its own Size.
	MountTmpfs
)

// Mount is one entry of the mount table.
type Mount struct {
	Kind MountKind
	Dst  string // absolute, clean; inside
	Src  string // absolute, canonical (no symbolic link in it); outside
	// Dev and Ino are what Src was when it was resolved. The child opens Src
	// once, without following links, and refuses anything else.
	Dev, Ino uint64
	ReadOnly bool // of a MountScratch: once the table is done
	Device   bool // device nodes work in it
	Optional bool // skipped, and said so, when Src can't be opened by the target's user, or Root has no place for it
	// Text is of a file or link that is made; of an overlay, OLD NUL NEW: where there is none,
	// this entry of Env becomes that.
	Text string
	Mode uint32
	Size int64 // bytes; of a MountTmpfs
}
