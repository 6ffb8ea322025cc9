package handoff

// Box is what the inside needs to know to build a sandbox, in which nothing runs yet. Steps
// whose field is zero do nothing.
type Box struct {
	UID uint32 // inside
	GID uint32
	// OtherIDs: they are not the caller's own.
	OtherIDs bool
	// Stranger is an id, of users and of groups, that no file belongs to; it is mapped, too.
	// What a MountBeneath reads, it reads as that: so that uid 0 gets of the host's files what
	// every user of the host may read, and not what their owner may. 0 is none.
	Stranger uint32

	Namespaces uint64 // what it was cloned into, and the processes' cgroup namespace
	TempDir    string // to be made; where there is no mount namespace
	Landlock   Landlock
	DropGroups bool
	Hostname   string

	// Root is a tree of the caller's that becomes the root (a MountOverlay), where its
	// kind is not 0. Otherwise that is private and empty. Where the kernel has no
	// overlayfs for users, the tree is read-only, and the child says so. ReadOnly: it is
	// known beforehand that there can be none over it.
	Root Mount

	Mounts  []Mount // in this order
	Scratch Scratch

	Network Network

	// Refuse are fallbacks that the policy doesn't accept: needing one fails the set-up.
	Refuse Fallbacks
}

// Bounds are what depends on the box's cgroup, which is made while the inside builds: it waits for them before it shows /proc.
type Bounds struct {
	Group   Group
	Views   []Mount  // of the cgroup, after all other mounts
	Sysctls []Sysctl // of its own namespaces
	ShowIPC bool     // hand out what /proc/sysvipc shows of its own IPC namespace
	PIDMax  uint32   // tasks that the pid namespace may have, by kernel.pid_max (Linux 6.14)
}

func (*Bounds) kind() Kind { return KindBounds }

func (b *Bounds) code(c *codec) {
	b.Group.code(c)
	list(c, &b.Views, func(m *Mount) { m.code(c) })
	list(c, &b.Sysctls, func(s *Sysctl) {
		c.str(&s.Path)
		c.str(&s.Value)
	})
	c.bool(&b.ShowIPC)
	num(c, &b.PIDMax)
}

// Has says whether the inside was cloned into a namespace of this kind, or is to be.
func (b *Box) Has(namespace uint64) bool { return b.Namespaces&namespace != 0 }

func (*Box) kind() Kind { return KindBox }

func (b *Box) code(c *codec) {
	num(c, &b.UID)
	num(c, &b.GID)
	c.bool(&b.OtherIDs)
	num(c, &b.Stranger)
	num(c, &b.Namespaces)
	c.str(&b.TempDir)
	b.Landlock.code(c)
	c.bool(&b.DropGroups)
	c.str(&b.Hostname)
	b.Root.code(c)
	list(c, &b.Mounts, func(m *Mount) { m.code(c) })
	num(c, &b.Scratch.Size)
	num(c, &b.Scratch.Inodes)
	list(c, &b.Scratch.Layers, func(l *Layer) { l.code(c) })
	c.bool(&b.Scratch.Stacked)
	c.bool(&b.Scratch.HandOut)
	c.bool(&b.Scratch.Tried)
	b.Network.code(c)
	b.Refuse.code(c)
}

// Scratch bounds the one tmpfs behind every writable private place; 0 is no bound.
type Scratch struct {
	Size   int64 // bytes
	Inodes int64
	// Layers are what overlays and private places have below what is written there, the lowest first.
	Layers []Layer
	// Stacked: those of boxes come as the first descriptor with this frame: a mount of the scratch of the last of them,
	// which has those before it mounted below, each in the one after it. It can be attached once.
	Stacked bool
	// HandOut: others may stand on it.
	HandOut bool
	// Tried: another box has found a moment ago that something can.
	Tried bool
}

// Layer is what was written in another box.
type Layer struct {
	// Src is a directory that has it, Dev and Ino what that was when it was resolved. None: it is the scratch of a box.
	Src      string
	Dev, Ino uint64
	Places   []Upper // of a scratch; in a directory they stand under their own paths, and one that isn't there is empty
}

// BelowDir is the directory of a scratch that the one before it is mounted on.
const BelowDir = "below"

// SizedDir, with a number, is the directory of a scratch that a MountTmpfs is mounted on.
const SizedDir = "sized"

func (l *Layer) code(c *codec) {
	c.str(&l.Src)
	num(c, &l.Dev)
	num(c, &l.Ino)
	list(c, &l.Places, func(u *Upper) { u.code(c) })
}

// Landlock is a ruleset that the target puts on itself. Nothing handled and nothing
// scoped is none.
type Landlock struct {
	HandledFS  uint64 // LANDLOCK_ACCESS_FS_*: what is refused unless a rule allows it
	HandledNet uint64 // LANDLOCK_ACCESS_NET_*
	Scoped     uint64 // LANDLOCK_SCOPE_*: what stays among the target's own
	Rules      []LandlockRule
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

// Sysctl is one write to /proc/sys. What the kernel refuses keeps the value that it has.
type Sysctl struct {
	Path  string // below /proc/sys
	Value string
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
	// MountDevpts is an own instance of devpts, with room for Size ptys.
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
	// MountBeneath shows Src read-only at Dst, and over it what the private root has there:
	// an overlay of the two without an upper directory. What that takes the place of comes
	// before it in the table. Where there can be none, the entries that are Instead hold.
	MountBeneath
	// MountAbsent keeps a name of what a MountBeneath shows from being there.
	MountAbsent
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
	Sealed   bool // of Root: read-only, once the table is done
	Device   bool // device nodes work in it
	Instead  bool // only where there can be no MountBeneath
	Optional bool // skipped, and said so, when Src can't be opened by the target's user, or Root has no place for it
	// Text is of a file or link that is made; of an overlay, OLD NUL NEW: where there is none,
	// this entry of Env becomes that.
	Text string
	Mode uint32
	Size int64 // of a MountTmpfs: bytes; of a MountDevpts: ptys
}

// Dispensable says whether a file of the run's own may be missing where it has no place: programs
// do without it, or as it says.
func (m *Mount) Dispensable() bool {
	switch m.Dst {
	case "/etc/hostname", "/etc/machine-id", "/etc/nsswitch.conf":
		return m.Kind == MountFile
	case "/etc/resolv.conf":
		return m.Kind == MountFile && m.Text == ""
	}
	return false
}

func (l *Landlock) code(c *codec) {
	num(c, &l.HandledFS)
	num(c, &l.HandledNet)
	num(c, &l.Scoped)
	list(c, &l.Rules, func(r *LandlockRule) {
		c.str(&r.Path)
		num(c, &r.Dev)
		num(c, &r.Ino)
		num(c, &r.Access)
		c.bool(&r.Optional)
	})
}

func (m *Mount) code(c *codec) {
	num(c, &m.Kind)
	c.str(&m.Dst)
	c.str(&m.Src)
	num(c, &m.Dev)
	num(c, &m.Ino)
	c.bool(&m.ReadOnly)
	c.bool(&m.Sealed)
	c.bool(&m.Device)
	c.bool(&m.Instead)
	c.bool(&m.Optional)
	c.str(&m.Text)
	num(c, &m.Mode)
	num(c, &m.Size)
}

// Group is how processes get into their cgroups, which come as descriptors with the frame.
type Group struct {
	Dir   bool  // a directory of cgroup v2
	Procs uint8 // and then so many cgroup.procs, of all of them
	// Ordinary: processes begin with the ordinary scheduling policy, whatever the caller's is. A quota of CPU time doesn't bind
	// those of real time, and a kernel with CONFIG_RT_GROUP_SCHED lets none of them into a cgroup that has one.
	Ordinary bool
	// Linger: with the init goes what its cgroup counted, so it stays until that was read.
	Linger bool
}

func (g *Group) code(c *codec) {
	c.bool(&g.Dir)
	num(c, &g.Procs)
	c.bool(&g.Ordinary)
	c.bool(&g.Linger)
}
