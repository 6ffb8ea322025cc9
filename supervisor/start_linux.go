package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/internal/tree"
)

// setupCaps are the capabilities that the child needs, in its own user
// namespace, to build the sandbox. They survive its exec because they are
// ambient; it drops all of them before the target starts.
const setupCaps = 1<<unix.CAP_SYS_ADMIN | // mounts, pivot_root, sethostname
	1<<unix.CAP_NET_ADMIN | // lo up; routes, nftables and transparent sockets
	1<<unix.CAP_NET_RAW | // the sockets that answer for others
	1<<unix.CAP_NET_BIND_SERVICE |
	1<<unix.CAP_SYS_RESOURCE | // the sysctls of the own user namespace
	1<<unix.CAP_SETPCAP | // empty the bounding set, lock the securebits
	1<<unix.CAP_SETUID | // the target's ids, as root
	1<<unix.CAP_SETGID |
	// overlayfs works on the layers as whoever mounted it: its work directory
	// has mode 0, and a file that is copied up keeps owner and mode.
	1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN | 1<<unix.CAP_FSETID

// childArgv is the child's. Nothing of the policy is in it.
var childArgv = []string{childName, childWord}

const childName, childWord = "confine", "__child"

// childEnv is the environment of the child itself, which never is the target's.
// One processor is enough for a list of steps: fewer threads, less to set up. There is
// little to collect, and collecting would make threads that count (see spareThreads). A list of steps has nobody to give way to:
// where many children start at once, the runtime's monitor would send each of them signals.
var childEnv = []string{childProcessors, childGC, childPreempt}

const childProcessors, childGC, childPreempt = "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1"

// process is the child as seen from outside.
type process struct {
	pid   int
	pidfd int
	sock  int
	alone bool // it is the only child of this process, which is a reaper
	bare  bool // no init of a namespace but a guard, which has to end the others by itself
}

// cloning is a child that is being cloned into its namespaces.
type cloning struct {
	namespaces uintptr
	child      *process
	theirs     int // the child's end of the socket
	told       int // of one that First has made; else -1
	calls      []linux.Call
	program    int // where the calls begin that execute it
	fork       *linux.Forking
	err        error
}

// clone begins to clone the child. Its own streams are the null device: those of what runs inside come later.
func clone(namespaces uintptr) *cloning {
	c := &cloning{namespaces: namespaces, child: &process{pidfd: -1, sock: -1, bare: namespaces&unix.CLONE_NEWPID == 0}, theirs: -1, told: -1}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		c.err = &linux.CallError{Name: "socketpair", Errno: errnoOf(err)}
		return c
	}
	c.child.sock, c.theirs = pair[0], pair[1]
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		c.err = &SetupError{Step: "start", Op: "open", Path: "/dev/null", Errno: errnoOf(err)}
		return c
	}
	defer unix.Close(null)
	if c.calls, c.err = childCalls(namespaces, []int{null, null, null, c.theirs}); c.err == nil {
		c.program = len(c.calls)
		c.execute(ofProgram(namespaces))
	}
	return c
}

// execute clones, and has these calls execute the program.
func (c *cloning) execute(program []linux.Call, err error) {
	c.calls = append(c.calls[:c.program], program...)
	if c.fork = nil; err == nil {
		c.fork, err = linux.BeginForkExec(c.namespaces, slack, c.calls)
	}
	c.err = err
}

// begun waits for what was begun.
func (c *cloning) begun() (err error) {
	if c.fork == nil {
		return c.err
	}
	c.child.pid, c.child.pidfd, err = c.fork.Wait()
	return err
}

// wait gives the child, or says why there is none.
func (c *cloning) wait() (*process, *SetupError) {
	if c.told >= 0 && !linux.FirstBegun(c.told) {
		c.child.discard()
		*c = *clone(c.namespaces)
	}
	child := c.child
	err := c.begun()
	if notReadOnly(err) {
		c.execute(ofCopy())
		err = c.begun()
	}
	closeDuplicates(c.calls)
	linux.CloseAll([]int{c.theirs})
	if err == nil {
		return child, nil
	}
	linux.CloseAll([]int{child.sock})
	switch e := err.(type) {
	case *SetupError:
		return nil, e
	case *linux.CallError:
		return nil, &SetupError{Step: "start", Op: e.Name, Errno: e.Errno}
	}
	return nil, failed("start", err)
}

// ended says whether the child is a process no more.
func (c *process) ended() bool {
	fds := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil
}

// discard ends what was begun.
func (c *cloning) discard() {
	if child, _ := c.wait(); child != nil {
		child.discard()
	}
}

// build writes the id maps and sends what is to be built, and with it what the box stands on, or -1.
func (c *process) build(p *plan.Plan, stack int) *SetupError {
	if err := c.writeMaps(p); err != nil {
		return err
	}
	var fds []int
	p.Box.Scratch.Tried = triedLately(&p.Box)
	if p.Box.Scratch.Stacked = stack >= 0; p.Box.Scratch.Stacked {
		fds = append(fds, stack)
	}
	return c.send(&p.Box, fds)
}

// bound sends what the box's cgroup decides, and the way into it.
func (c *process) bound(p *plan.Plan, group *cgroup.Group) *SetupError {
	var fds []int
	if group != nil {
		to := &p.Bounds.Group
		dir, procs := group.Join()
		// The kernel judges the one by who clones: not another user.
		if to.Dir = dir >= 0 && !p.Box.OtherIDs; to.Dir {
			fds = append(fds, dir)
		}
		fds = append(fds, procs...)
		to.Procs, to.Linger = uint8(len(procs)), group.GoesWithInit()
	}
	return c.send(&p.Bounds, fds)
}

func (c *process) send(f handoff.Frame, fds []int) *SetupError {
	err := linux.SendFrame(c.sock, handoff.Encode(f), fds...)
	if err == nil || err == unix.EPIPE || err == unix.ECONNRESET {
		return nil // a child that has ended has said why
	}
	return &SetupError{Step: "start", Op: "sendmsg", Errno: errnoOf(err)}
}

// childCalls is everything between clone and the calls that execute the child.
func childCalls(namespaces uintptr, files []int) (calls []linux.Call, err error) {
	calls = make([]linux.Call, 0, 96)
	// The signal first: the supervisor may die at any moment from here on.
	calls = append(calls, linux.Call{Name: "prctl PR_SET_PDEATHSIG", Nr: unix.SYS_PRCTL,
		Args: [5]uintptr{unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)}})
	// It leaves the caller's session, and with it the controlling terminal: a key, or whatever else is sent to the process group, is for us,
	// who say what becomes of the child. Before it has defaultSignals it would die of that without a word.
	calls = append(calls, linux.Call{Name: "setsid", Nr: unix.SYS_SETSID})
	calls = append(calls, linux.Call{Name: "prctl PR_SET_TIMERSLACK", Nr: unix.SYS_PRCTL,
		Args: [5]uintptr{unix.PR_SET_TIMERSLACK, uintptr(handoff.MonitorSlack)}})
	for to, from := range files {
		// Out of the way of the numbers that are filled.
		fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, firstDuplicate)
		if err != nil {
			return calls, &linux.CallError{Name: "fcntl", Errno: errnoOf(err)}
		}
		calls = append(calls, linux.Call{Name: dup3, Nr: unix.SYS_DUP3, Args: [5]uintptr{uintptr(fd), uintptr(to)}})
	}
	// What the caller forgot to mark would take numbers from the target's limit. Before Linux 5.11 the child marks it.
	calls = append(calls, linux.Call{Name: "close_range", Nr: unix.SYS_CLOSE_RANGE, Optional: true,
		Args: [5]uintptr{uintptr(len(files)), uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC}})
	if namespaces&unix.CLONE_NEWUSER != 0 {
		calls = append(calls, linux.AmbientCapabilities(setupCaps)...)
	}
	return append(calls, linux.SignalDefaults(new(unix.Sigset_t))...), nil
}

const (
	dup3           = "dup3"
	firstDuplicate = 10
)

// closeDuplicates closes what childCalls opened.
func closeDuplicates(calls []linux.Call) {
	for i := range calls {
		if calls[i].Name == dup3 {
			_ = unix.Close(int(calls[i].Args[0]))
		}
	}
}

// writeMaps writes the one id that is mapped, and the stranger's. It is written from outside, since
// only there root may map another id than its own (--user).
func (c *process) writeMaps(p *plan.Plan) *SetupError {
	if p.Namespaces&unix.CLONE_NEWUSER == 0 {
		return nil
	}
	dir := "/proc/" + strconv.Itoa(c.pid) + "/"
	if !p.Box.DropGroups {
		// Required of everybody but root: dropping a group may open files.
		if err := writeFile(dir+"setgroups", "deny"); err != nil {
			return err
		}
	}
	if err := writeFile(dir+"uid_map", mapLines(p.UIDMap, p.Box.Stranger)); err != nil {
		return err
	}
	return writeFile(dir+"gid_map", mapLines(p.GIDMap, p.Box.Stranger))
}

func mapLines(m plan.IDMap, stranger uint32) string {
	text := strconv.FormatUint(uint64(m.Inside), 10) + " " + strconv.FormatUint(uint64(m.Outside), 10) + " 1"
	if stranger != 0 {
		id := strconv.FormatUint(uint64(stranger), 10)
		text += "\n" + id + " " + id + " 1\n"
	}
	return text
}

func writeFile(path, text string) *SetupError {
	name := path[len(path)-len(baseOf(path)):]
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &SetupError{Step: "maps", Op: "open", Path: name, Errno: errnoOf(err)}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return &SetupError{Step: "maps", Op: "write", Path: name, Errno: errnoOf(err)}
	}
	return nil
}

func baseOf(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}

// exec has a child that is built, or will be, start a process with these descriptors.
func (c *process) exec(e *handoff.Exec, fds []int) error {
	err := linux.SendFrame(c.sock, handoff.Encode(e), fds...)
	if err == unix.EPIPE || err == unix.ECONNRESET {
		return nil // as above
	}
	return err
}

// ping asks a child for an answer.
func (c *process) ping(id uint32) error {
	return linux.SendFrame(c.sock, handoff.Encode(&handoff.Ping{ID: id}))
}

// close has a child end everybody, tell what they used, and end.
func (c *process) close() { _ = linux.SendFrame(c.sock, handoff.Encode(&handoff.Close{})) }

// kill ends the child and, it being the init of its namespace, everything inside.
// A guard is asked to do so: it would leave the others behind.
func (c *process) kill() {
	if c.bare {
		_ = unix.Shutdown(c.sock, unix.SHUT_WR)
		return
	}
	c.shoot()
}

// shoot ends just the child.
func (c *process) shoot() {
	if c.pidfd >= 0 {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
		return
	}
	_ = unix.Kill(c.pid, unix.SIGKILL)
}

// reap waits for the child itself.
func (c *process) reap() {
	_, _ = linux.Again(func() (int, error) { return unix.Wait4(c.pid, nil, 0, nil) })
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
	}
	_ = unix.Close(c.sock)
}

func (c *process) discard() {
	c.shoot()
	c.reap()
}

// failed is a step that ended with an error.
func failed(step string, err error) *SetupError {
	return &SetupError{Step: step, Op: err.Error(), Errno: errnoOf(err), Whole: errors.As(err, new(unix.Errno))}
}

func errnoOf(err error) unix.Errno {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return unix.EIO
}

// SweepBelow sends SIGKILL to everybody below this process, until nobody is left
// who has not had it.
func SweepBelow() error {
	t, err := tree.NewFromPID(os.Getpid())
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Signal(unix.SIGKILL)
}

// sweepPatience bounds how long what a guard has left may take to go.
const sweepPatience = 10 * time.Second

// sweepOrphans ends and reaps what a guard has left: it came to us, who are a
// reaper too. It says whether nobody is left.
func sweepOrphans() bool {
	for end := time.Now().Add(sweepPatience); time.Now().Before(end); {
		// All that have ended: a dead one more costs the next sweep a look.
		pid, err := unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		for err == nil && pid > 0 || err == unix.EINTR {
			pid, err = unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		}
		if err == unix.ECHILD {
			return true
		}
		if SweepBelow() != nil {
			return false
		}
		time.Sleep(time.Millisecond) // SIGKILL is on its way
	}
	return false
}

// alone says whether this process has no children yet. An init has those of
// others, sooner or later.
func alone() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD && unix.Getpid() != 1
}

// RemoveTemp removes the run's own directory, also what the target has closed to
// everybody, and says what stays.
func RemoveTemp(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	return os.RemoveAll(dir)
}
