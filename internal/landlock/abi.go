package landlock

// Rights to files: LANDLOCK_ACCESS_FS_*.
const (
	Execute = 1 << iota
	WriteFile
	ReadFile
	ReadDir
	RemoveDir
	RemoveFile
	MakeChar
	MakeDir
	MakeReg
	MakeSock
	MakeFifo
	MakeBlock
	MakeSym
	Refer
	Truncate
	IoctlDev
	// ResolveUnix is about sockets that were bound outside: to those of its own a program
	// may always connect.
	ResolveUnix
)

// Rights to TCP: LANDLOCK_ACCESS_NET_*.
const (
	BindTCP = 1 << iota
	ConnectTCP
)

// Scopes: LANDLOCK_SCOPE_*.
const (
	ScopeAbstractSockets = 1 << iota
	ScopeSignals
)

// What a rule gives. MakeChar and MakeBlock are in none: nobody inside has the
// capability for it, and whiteouts are overlayfs's own.
const (
	read   = Execute | ReadFile | ReadDir
	write  = read | WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym | Refer | Truncate
	device = ReadFile | WriteFile | Truncate | IoctlDev
	fifo   = ReadFile | WriteFile
	// O_TRUNC is what a shell adds to ">/proc/self/comm".
	proc     = ReadFile | ReadDir | WriteFile | Truncate
	procRead = ReadFile | ReadDir

	// ofFiles is all that a rule about anything but a directory may have.
	ofFiles = Execute | WriteFile | ReadFile | Truncate | IoctlDev | ResolveUnix
)

// ABI is what one version of Landlock can hold.
type ABI struct {
	Version         int
	Kernel          string // the first that has it
	FS, Net, Scoped uint64
	Adds            string // to the version before
}

const (
	fs1     = MakeSym<<1 - 1
	fs2     = Refer<<1 - 1
	fs3     = Truncate<<1 - 1
	fs5     = IoctlDev<<1 - 1
	fs9     = ResolveUnix<<1 - 1
	net4    = ConnectTCP<<1 - 1
	scoped6 = ScopeSignals<<1 - 1
)

var abis = [...]ABI{
	{},
	{1, "5.13", fs1, 0, 0, "opening, executing, making and removing files, and ptrace"},
	{2, "5.19", fs2, 0, 0, "renaming and linking into another directory; before, nobody could"},
	{3, "6.2", fs3, 0, 0, "truncate; before, everybody could"},
	{4, "6.7", fs3, net4, 0, "bind and connect of TCP"},
	{5, "6.10", fs5, net4, 0, "ioctl on devices; before, everybody could"},
	{6, "6.12", fs5, net4, scoped6, "signals and abstract sockets; before, everybody could"},
	{7, "6.15", fs5, net4, scoped6, "flags of the audit log, of which none is used"},
	{8, "7.0", fs5, net4, scoped6, "a restriction of all threads at once, of which there is one"},
	{9, "7.1", fs9, net4, scoped6, "unix sockets by path; before, everybody could connect"},
}

// Version is what is known of a version, of the newest one known if it is newer,
// and nothing of none.
func Version(abi int) ABI {
	return abis[max(0, min(abi, len(abis)-1))]
}
