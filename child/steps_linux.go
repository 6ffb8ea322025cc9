package child

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// state is what one step leaves for a later one.
type state struct {
	box      *handoff.Box
	step     string
	oldUmask int

	rootFD  int // the new root, while it is being built
	scratch scratch
	// devs are the file systems made here: ours to make mount points in.
	devs []uint64
	way  []place // directories that are open, each in the one before it

	joinDir   int   // the target's cgroup v2, or linux.NoCgroup
	joinProcs []int // cgroup.procs of its other cgroups
	ruleset   int   // Landlock's, or -1

	procFD  int // of the proc inside, for the supervisor's accounting
	pidFDs  [2]int
	skipped []uint32
	shut    []string // directories that nobody of the run can search, hidden whole
	uppers  []handoff.Upper
	places  []handoff.Upper
	flat    []string // mount points of what was to be an overlay, and is read-only
	sized   []int    // roots of tmpfs of their own size, for the supervisor
	ipc     []int    // handoff.IPCTables, for the supervisor

	instead [][2]string // what becomes of entries of the environment, where there is no overlay

	fellBack handoff.Fallbacks

	processes
}

// processes are what has been started, and what that takes.
type processes struct {
	null     int  // the null device, as our own 0, 1 and 2
	hasTTY   bool // the session of this init has a controlling terminal
	threads  threads
	reaping  bool // reap goes on
	mu       sync.Mutex
	targets  map[int]*target // by pid; guarded by mu
	children chan struct{}   // there are children again
}

// steps build the sandbox: all that happens before the first fork of a target.
// Their order matters; each says why it stands where it stands.
var steps = []struct {
	name string
	do   func(*state) error
}{
	// First: whatever the caller forgot to close must not be there when
	// anything else goes wrong.
	{"descriptors", (*state).closeInherited},
	// Not before the plan: until the maps are written our own /proc files must
	// belong to the caller.
	{"dumpable", (*state).undumpable},
	// Before anything is made: files must belong to the target's ids, and a tmpfs
	// refuses ids that have no mapping.
	{"identity", (*state).identity},
	{"session", (*state).session},
	{"keyring", (*state).keyring},
	{"hostname", (*state).hostname},
	{"loopback", (*state).loopback},
	// Needs lo, and the caller's /proc.
	{"network", (*state).network},
	// Mounts. Sources are opened while the caller's tree is still there.
	{"propagation", (*state).propagation},
	{"root", (*state).makeRoot},
	{"mounts", (*state).mountAll},
	{"pivot_root", (*state).pivot},
	// After the fact, from the kernel's own table.
	{"verify", (*state).verify},
	{"temp_dir", (*state).makeTemp},
	// Of paths as the target will find them, while they can be opened.
	{"landlock", (*state).makeRuleset},
	{"guard", (*state).guard},
	// Before the kernel counts tasks.
	{"threads", (*state).spareThreads},
	// Everything is built: tell, then let go of what built it.
	{"built", (*state).built},
	// As late as it can be: whatever is forked from here on counts.
	{"pid_max", (*state).setPIDMax},
	{"capabilities", (*state).dropCapabilities},
	{"signals", (*state).defaultSignals},
}

// built reports what was really done, with the descriptors that the outside needs.
func (s *state) built() error {
	m := handoff.Built{
		Skipped:    s.skipped,
		Fallbacks:  s.fellBack,
		Uppers:     s.uppers,
		Places:     s.places,
		HasProc:    s.procFD >= 0,
		HasScratch: s.scratch.fd >= 0,
		Sized:      uint8(len(s.sized)),
		IPC:        uint8(len(s.ipc)),
	}
	var fds []int
	for _, fd := range []int{s.procFD, s.scratch.fd} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	fds = append(append(fds, s.sized...), s.ipc...)
	if err := linux.SendFrame(sock, handoff.Encode(&m), fds...); err != nil {
		return fault("sendmsg", "", err)
	}
	closeAll(fds)
	return nil
}

// failure is a step that the kernel refused.
type failure struct {
	op, path string
	errno    unix.Errno
}

func (f *failure) Error() string { return f.op + " " + f.path + ": " + f.errno.Error() }

// fault makes err, which comes from one system call, a failure.
func fault(op, path string, err error) error {
	if err == nil {
		return nil
	}
	errno, ok := err.(unix.Errno)
	if !ok {
		errno = unix.EIO
	}
	return &failure{op, path, errno}
}

// fail tells the supervisor and ends. Nothing is retried with less.
func (s *state) fail(err error) {
	m := handoff.SetupError{Step: s.step, Op: err.Error(), Errno: uint32(unix.EIO)}
	if f, ok := err.(*failure); ok {
		m.Op, m.Path, m.Errno = f.op, f.path, uint32(f.errno)
	}
	_ = linux.SendFrame(sock, handoff.Encode(&m))
	exit(125)
}
