package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// setupCalls build a sandbox, or start what builds it.
var setupCalls = map[string]uint32{
	"capset": unix.SYS_CAPSET, "chdir": unix.SYS_CHDIR, "clone": unix.SYS_CLONE, "close_range": unix.SYS_CLOSE_RANGE,
	"dup3": unix.SYS_DUP3, "fchdir": unix.SYS_FCHDIR, "fchmod": unix.SYS_FCHMOD, "fcntl": unix.SYS_FCNTL, "fsconfig": unix.SYS_FSCONFIG,
	"fsmount": unix.SYS_FSMOUNT, "fsopen": unix.SYS_FSOPEN, "fstatfs": unix.SYS_FSTATFS, "getdents64": unix.SYS_GETDENTS64,
	"getsockopt": unix.SYS_GETSOCKOPT, "ioctl": unix.SYS_IOCTL, "keyctl": unix.SYS_KEYCTL, "mkdirat": unix.SYS_MKDIRAT,
	"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, "landlock_add_rule": unix.SYS_LANDLOCK_ADD_RULE,
	"landlock_restrict_self": unix.SYS_LANDLOCK_RESTRICT_SELF,
	"mknodat":                unix.SYS_MKNODAT, "mount": unix.SYS_MOUNT, "mount_setattr": unix.SYS_MOUNT_SETATTR, "move_mount": unix.SYS_MOVE_MOUNT,
	"newfstatat": sysNewfstatat, "openat": unix.SYS_OPENAT, "openat2": unix.SYS_OPENAT2, "open_tree": unix.SYS_OPEN_TREE,
	"pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL, "pipe2": unix.SYS_PIPE2, "pivot_root": unix.SYS_PIVOT_ROOT, "prctl": unix.SYS_PRCTL,
	"prlimit64": unix.SYS_PRLIMIT64, "readlinkat": unix.SYS_READLINKAT, "recvmsg": unix.SYS_RECVMSG,
	"sched_setaffinity": unix.SYS_SCHED_SETAFFINITY, "seccomp": unix.SYS_SECCOMP, "sendmsg": unix.SYS_SENDMSG,
	"fstat": unix.SYS_FSTAT, "read": unix.SYS_READ, "setresgid": unix.SYS_SETRESGID, "setresuid": unix.SYS_SETRESUID,
	"setdomainname": unix.SYS_SETDOMAINNAME, "setgroups": unix.SYS_SETGROUPS, "sethostname": unix.SYS_SETHOSTNAME,
	"setpgid": unix.SYS_SETPGID, "setsid": unix.SYS_SETSID, "socket": unix.SYS_SOCKET, "socketpair": unix.SYS_SOCKETPAIR,
	"bind": unix.SYS_BIND, "listen": unix.SYS_LISTEN, "recvfrom": unix.SYS_RECVFROM, "sendto": unix.SYS_SENDTO, "setsockopt": unix.SYS_SETSOCKOPT,
	"symlinkat": unix.SYS_SYMLINKAT, "umount2": unix.SYS_UMOUNT2, "unlinkat": unix.SYS_UNLINKAT, "write": unix.SYS_WRITE,
}

// newerCalls are those that a kernel may not have.
var newerCalls = []string{"close_range", "fsopen", "keyctl", "landlock_create_ruleset", "mount_setattr", "move_mount", "open_tree", "openat2", "prctl", "seccomp"}

// TestFailedSetupCallLeavesNoWallOpen fails each call that builds the sandbox in turn. Whatever
// that makes of the run, a target that was started must find every wall where it
// belongs, and the report must say what came of it.
func TestFailedSetupCallLeavesNoWallOpen(t *testing.T) {
	t.Parallel()
	needs(t, "userns", "seccomp_user_notif")
	published, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	_, free, _ := net.SplitHostPort(published.Addr().String())
	published.Close()
	all := slices.Sorted(maps.Keys(setupCalls))
	other := []string{"--profile", "testing", "--tty", "always", "--cpus", "1", "--cpu-limit", "90"}
	if os.Geteuid() == 0 {
		other = append(other, "--user", "12345:12345")
	}
	for _, s := range []struct {
		name           string
		calls, leftOut []string
		options        []string
	}{
		{"default", all, nil, nil},
		// What the supervisor looks at before it starts anything is the same with other options.
		{"testing", all, []string{"fcntl", "fstat", "getdents64", "newfstatat", "openat", "read", "readlinkat"}, other},
		// The rest of strict is policy, and no other calls.
		{"strict", []string{"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self"}, nil,
			[]string{"--profile", "strict", "--seccomp", "default", "--seccomp-action", "errno", "--cpu-limit", "none"}},
		// What is made of a network of one's own.
		{"network", []string{"bind", "listen", "recvfrom", "sendmsg", "sendto", "setsockopt", "socket", "socketpair"}, nil,
			[]string{"--allow-network", "fault.example:9", "--allow-network", "localhost:9", "--publish", free + ":9"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f := newFaults(t)
			if s.name == "testing" {
				s.options = append(s.options, "--allow-write", filepath.Join(f.work, "writable"))
			}
			f.sweep(s.calls, s.leftOut, s.options...)
			t.Logf("%d runs; in %d of them the target ran, in %d of these with something less, and named", f.runs, f.ran, f.weaker)
		})
	}
}

func newFaults(t *testing.T) *faults {
	f := &faults{T: t, place: placeOf(t)}
	must.Do(t, os.Mkdir(f.work+"/writable", 0o755))
	f.secret = filepath.Join(f.own, "secret")
	must.Do(t, os.WriteFile(f.secret, nil, 0o600))
	caller, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	t.Cleanup(func() { caller.Close() })
	_, f.port, _ = net.SplitHostPort(caller.Addr().String())
	return f
}

// sweep fails each of the calls of a run with these options once. Where a process makes more than 40 of a name, which are mostly one loop over a tree or a
// table, it fails some 40 of them: root's tests others than a user's. Where a list says what to leave out, it fails a dozen, the others being those of another
// sweep, and none of the supervisor's that are in the list.
func (f *faults) sweep(calls, leftOut []string, options ...string) {
	f.Helper()
	f.options = options
	for _, name := range calls {
		for who, n := range f.run(fault{call: name}) {
			if who == 0 && slices.Contains(leftOut, name) {
				continue
			}
			step := (n + 39) / 40
			if leftOut != nil {
				step = (n + 11) / 12
			}
			first := 0
			if os.Geteuid() != 0 {
				first = step / 2
			}
			for nth := first; nth < n; nth += step {
				f.run(fault{name, who, nth + 1, unix.EPERM})
				if slices.Contains(newerCalls, name) && leftOut == nil {
					f.run(fault{name, who, nth + 1, unix.ENOSYS})
				}
			}
		}
	}
}

// procOfCaller is what must be expected when the ledger says that /proc is the caller's.
var procOfCaller = regexp.MustCompile("wrong: PID 1: .*\r?\n")

// fault is the nth call of a process, the processes being numbered in the order
// of their first calls.
type fault struct {
	call  string
	who   int
	nth   int // 0: none
	errno unix.Errno
}

func (f fault) String() string {
	return fmt.Sprintf("%s number %d of process %d: %s", f.call, f.nth, f.who, unix.ErrnoName(f.errno))
}

type faults struct {
	*testing.T
	*place
	secret, port      string
	options           []string
	runs, ran, weaker int
}

func (f *faults) report() string { return filepath.Join(f.own, "report.json") }

// run gives how often each process made the call.
func (f *faults) run(bad fault) map[int]int {
	f.Helper()
	f.runs++
	_ = os.Remove(f.report())
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(f, err)
	theirs := os.NewFile(uintptr(pair[1]), "channel")
	args := []string{"asked", strconv.Itoa(int(setupCalls[bad.call])), f.program("confine"), "--report", f.report(), "--time-limit", "20s", "--processes", "64",
		"--allow-read", f.own + "/bin"}
	args = append(append(args, f.options...), "--", f.program("attempt"), "contained", f.secret, f.port)
	cmd := f.command(f.Context(), "attempt", args...)
	cmd.ExtraFiles = []*os.File{theirs}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 10 * time.Second
	must.Do(f, cmd.Start())
	theirs.Close()
	judge := &judge{fault: bad, made: map[int]int{}, who: map[uint32]int{}}
	judge.answer(pair[0])
	end := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	err = cmd.Wait()
	judge.wait()
	if !end.Stop() {
		f.Fatalf("%v: hangs\n%s%s", bad, out.String(), errs.String())
	}
	f.judge(bad, err, out.Bytes(), errs.String())
	return judge.made
}

// judge looks at what a run with a fault says of itself.
func (f *faults) judge(bad fault, err error, out []byte, errs string) {
	f.Helper()
	text, _ := os.ReadFile(f.report())
	if err := broken(err); err != nil {
		f.Fatalf("%v: %v", bad, err)
	}
	wrong := func(format string, args ...any) {
		f.Helper()
		f.Errorf("%v: %s\n%s%s%s", bad, fmt.Sprintf(format, args...), out, errs, text)
	}
	if left := f.stays(); len(left) > 0 {
		wrong("left behind: %v", left)
	}
	var r status.Report
	if json.Unmarshal(text, &r) != nil {
		// Then it must be seen that nothing was told.
		if err == nil || errs == "" && bad.call != "write" || r.Status != "" {
			wrong("%v, and no report", err)
		}
	}
	if bad.nth == 0 && r.Status != status.OK {
		wrong("%v, and nothing was failed", err)
	}
	said := string(out)
	ran := strings.Contains(said, "ran")
	// An init that ends in the middle has no command line any more.
	if r.Enforced[status.Filesystem].FallbackReason == status.ProcMasked || r.Status == status.InternalError {
		said = procOfCaller.ReplaceAllString(said, "")
	}
	if strings.Contains(said, "wrong:") {
		wrong("a wall is open")
	}
	switch r.Status {
	case "":
	case status.OK:
		if !ran && !strings.Contains(errs, "[confine] stdout: ") {
			wrong("OK, and nothing ran")
		}
		f.ran++
		// The supervisor's is the question which version there is. What comes of
		// the others nobody but Landlock would hold.
		if bad.nth > 0 && strings.HasPrefix(bad.call, "landlock_") && (bad.call != "landlock_create_ruleset" || bad.who > 0) {
			wrong("the target ran without the ruleset")
		}
		for name, e := range r.Enforced {
			if e.Enabled && !e.Effective {
				f.weaker++
				if e.FallbackReason == "" {
					wrong("%s is not effective, and nobody says why", name)
				}
			}
		}
	case status.InternalError:
		if r.SetupError == nil || r.SetupError.Error == "" || err == nil {
			wrong("%v, %+v", err, r.SetupError)
		}
	case status.ExecFailed:
		if ran || err == nil {
			wrong("%v", err)
		}
	default:
		// A target of which a call was failed fails by itself.
		if !ran {
			wrong("%v", err)
		}
	}
}

// judge answers for the kernel.
type judge struct {
	fault
	made map[int]int
	who  map[uint32]int
	done sync.WaitGroup
}

// notification is struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

func (j *judge) wait() { j.done.Wait() }

// answer takes the filter's descriptor from the channel, and answers until nobody
// is left who could ask.
func (j *judge) answer(channel int) {
	j.done.Add(1)
	go func() {
		defer j.done.Done()
		defer unix.Close(channel)
		space := make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := unix.Recvmsg(channel, make([]byte, 1), space, 0)
		if err != nil || n == 0 {
			return
		}
		messages, err := unix.ParseSocketControlMessage(space[:n])
		if err != nil || len(messages) != 1 {
			return
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return
		}
		defer unix.Close(fds[0])
		for {
			set := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
			if _, err := unix.Poll(set, -1); err == unix.EINTR {
				continue
			}
			if set[0].Revents&unix.POLLIN == 0 {
				return
			}
			var n notification
			if ioctl(fds[0], unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) != 0 {
				continue // it was killed while it asked
			}
			a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
			if j.fails(&n) {
				a.flags, a.errno = 0, -int32(j.errno)
			}
			ioctl(fds[0], unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
		}
	}()
}

func ioctl(fd int, request uintptr, p unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
	runtime.KeepAlive(p)
	return errno
}

// fails counts a call, and says whether it is the one.
func (j *judge) fails(n *notification) bool {
	if n.nr == unix.SYS_CLONE && n.args[0]&unix.CLONE_THREAD != 0 {
		return false // the runtime gives up without a thread
	}
	if n.nr == unix.SYS_WRITE && n.args[2] == 8 {
		return false // to its own eventfd, the same
	}
	process := threadGroup(n.pid)
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", process)); filepath.Base(exe) == "attempt" {
		return false // before confine is, and the target itself
	}
	who, known := j.who[process]
	if !known {
		who = len(j.who)
		j.who[process] = who
	}
	j.made[who]++
	return j.nth > 0 && who == j.fault.who && j.made[who] == j.nth
}

// threadGroup is the process that a thread belongs to.
func threadGroup(tid uint32) uint32 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Tgid:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			return uint32(n)
		}
	}
	return tid
}
