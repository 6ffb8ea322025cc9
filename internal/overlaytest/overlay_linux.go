package overlaytest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// order is what the owner of an overlay is started with, in the environment.
const order = "OVERLAYTEST_ORDER"

type ordered struct {
	Base   string
	Lower  []string
	Layers int
}

// Overlay is one whose upper directories are in a tmpfs, as a sandbox has it.
type Overlay struct {
	there  string // where its base is seen from here
	layers int
	in     *json.Encoder
	out    *json.Decoder
}

// answer is what became of operations.
type answer struct {
	Said []string          // of each its error
	Seen map[string]string // what is there then
}

// New mounts one on lower directories, the top first. Its upper directory becomes a lower one so many times while the first operations go on.
func New(t testing.TB, layers int, lower ...string) *Overlay {
	t.Helper()
	base := t.TempDir()
	text, err := json.Marshal(ordered{base, lower, layers})
	Must(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), order+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}}
	in, err := cmd.StdinPipe()
	Must(t, err)
	out, err := cmd.StdoutPipe()
	Must(t, err)
	if err := cmd.Start(); err != nil {
		lacking(t, "userns", err.Error())
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	o := &Overlay{there: "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/root" + base, layers: layers, in: json.NewEncoder(in), out: json.NewDecoder(out)}
	var said string
	if Must(t, o.out.Decode(&said)); said != "" {
		lacking(t, "overlay", said)
	}
	return o
}

// lacking skips what the host can't do, unless CONFINE_MUST_RUN names that.
func lacking(t testing.TB, what, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("CONFINE_MUST_RUN"), ","), what) {
		t.Fatalf("the host lacks %s: %s", what, why)
	}
	t.Skipf("the host lacks %s: %s", what, why)
}

// Do does operations inside. It gives the error of each, and what is seen there then, one line a path.
func (o *Overlay) Do(t testing.TB, acts ...Act) (said []string, seen map[string]string) {
	t.Helper()
	Must(t, o.in.Encode(acts))
	var a answer
	Must(t, o.out.Decode(&a))
	return a.Said, a.Seen
}

// Uppers are the directories that were written to, the newest first.
func (o *Overlay) Uppers(t testing.TB) (fds []int) {
	for i := o.layers; i >= 0; i-- {
		fds = append(fds, OpenDir(t, o.there+"/upper"+strconv.Itoa(i)))
	}
	return fds
}

// Merged is what is shown.
func (o *Overlay) Merged(t testing.TB) int { return OpenDir(t, o.there+"/merged") }

// Main owns an overlay, where this process is to, and ends with who asked for it.
func Main() {
	text := os.Getenv(order)
	if text == "" {
		return
	}
	out, in := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	var o ordered
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = unix.Mount("tmpfs", o.Base, "tmpfs", 0, "size=256m")
	}
	if err == nil {
		err = o.mount(0)
	}
	if err != nil {
		Must(nil, out.Encode(err.Error()))
		os.Exit(1)
	}
	unix.Umask(0)
	Must(nil, out.Encode(""))
	for layer := 0; ; {
		var acts []Act
		if in.Decode(&acts) != nil {
			os.Exit(0)
		}
		a := answer{Said: make([]string, len(acts))}
		for i, act := range acts {
			if layer < o.Layers && i >= len(acts)*(layer+1)/(o.Layers+1) {
				layer++
				Must(nil, os.Chdir("/"))
				Must(nil, unix.Unmount(o.Base+"/merged", unix.MNT_DETACH))
				Must(nil, o.mount(layer))
			}
			if err := act.do(); err != nil {
				a.Said[i] = err.Error()
			}
		}
		a.Seen = seen(".")
		Must(nil, out.Encode(a))
	}
}

// mount mounts the overlay with another upper directory, and goes there.
func (o *ordered) mount(layer int) error {
	n := strconv.Itoa(layer)
	for _, dir := range []string{"merged", "upper" + n, "work" + n} {
		if err := os.Mkdir(filepath.Join(o.Base, dir), 0o755); err != nil && !os.IsExist(err) {
			return err
		}
	}
	upper := o.Base + "/upper" + n
	err := unix.Mount("overlay", o.Base+"/merged", "overlay", 0, "userxattr,lowerdir="+strings.Join(o.Lower, ":")+",upperdir="+upper+",workdir="+o.Base+"/work"+n)
	o.Lower = append([]string{upper}, o.Lower...)
	if err != nil {
		return err
	}
	return os.Chdir(o.Base + "/merged")
}

// Act is one operation in an overlay. Names go as bytes.
type Act struct {
	Op   string
	A, B []byte
	N    int64
}

// attribute has a name that is written otherwise in archives.
const attribute = "user.te=st%"

// do does it, relative to the current directory.
func (a *Act) do() error {
	x, y := string(a.A), string(a.B)
	switch a.Op {
	case "write":
		return os.WriteFile(x, a.B, 0o644)
	case "append":
		f, err := os.OpenFile(x, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(a.B)
		return err
	case "truncate":
		return os.Truncate(x, a.N)
	case "rename":
		return unix.Rename(x, y)
	case "exchange":
		return unix.Renameat2(unix.AT_FDCWD, x, unix.AT_FDCWD, y, unix.RENAME_EXCHANGE)
	case "link":
		return unix.Link(x, y)
	case "symlink":
		return unix.Symlink(y, x)
	case "chmod":
		return unix.Chmod(x, uint32(a.N))
	case "remove":
		return os.RemoveAll(x)
	case "mkdir":
		return unix.Mkdir(x, 0o755)
	case "xattr":
		return unix.Lsetxattr(x, attribute, a.B, 0)
	case "unxattr":
		return unix.Lremovexattr(x, attribute)
	case "touch":
		return unix.UtimesNanoAt(unix.AT_FDCWD, x, []unix.Timespec{{Sec: a.N, Nsec: 5}, {Sec: a.N, Nsec: 5}}, unix.AT_SYMLINK_NOFOLLOW)
	case "mount":
		return unix.Mount("tmpfs", x, "tmpfs", 0, "")
	case "bind":
		return unix.Mount(y, x, "", unix.MS_BIND, "")
	case "sparse":
		f, err := os.OpenFile(x, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncate(a.N); err != nil {
			return err
		}
		_, err = f.WriteAt(a.B, a.N/2)
		return err
	}
	return unix.EINVAL
}

// RandomActs are some, of these kinds.
func RandomActs(r *rand.Rand, n int, ops ...string) (acts []Act) {
	pool := []string{"a", "b", "c", "hard", "l", "dl", "d", "d/x", "d/y", "d/n", "d/e", "d/e/z", "d/e/f", "d/e/f/g", "empty", "empty/in", "new", "new/x",
		"new/d", "new/d/y", "a/under", "same", "bad\xffname", "line\nfeed"}
	pick := func() []byte { return []byte(pool[r.IntN(len(pool))]) }
	modes := []int64{0o644, 0o755, 0o600, 0o400, 0o444, 0o700, 0o555, 0o000, 0o711, 0o1777}
	ops = append(ops, "write", "write", "rename", "rename", "link", "symlink", "chmod", "remove", "remove", "mkdir", "mkdir", "xattr", "touch", "sparse")
	for range n {
		a := Act{Op: ops[r.IntN(len(ops))], A: pick()}
		switch a.Op {
		case "write", "append", "xattr":
			a.B = fmt.Appendf(nil, "%d\n", r.IntN(3))
		case "rename", "exchange", "link", "symlink":
			a.B = pick()
		case "chmod":
			a.N = modes[r.IntN(len(modes))]
		case "truncate":
			a.N = int64(r.IntN(9000))
		case "sparse":
			a.B, a.N = []byte("data"), 1<<20+int64(r.IntN(5000))
		case "touch":
			a.N = int64(r.IntN(1e9)) - 5e8
		}
		acts = append(acts, a)
	}
	return acts
}
