package changes

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is started again as the owner of an overlay, as an apply that is
// killed, and as who swaps directories.
func TestMain(m *testing.M) {
	switch os.Getenv("CHANGES_ROLE") {
	case "overlay":
		ownOverlay()
	case "apply":
		applyAndDie()
	case "swapper":
		swapForever()
	case "targets":
		os.Exit(manyTargets())
	}
	os.Exit(m.Run())
}

// change is one operation in an overlay. Names go as bytes.
type act struct {
	Op   string
	A, B []byte
	N    int64
}

// overlay is an overlay of lower with its upper directory in a tmpfs, in a user
// namespace, as a run has it.
type overlay struct {
	there  string // where its base is seen from here
	layers int
	lower  string
	tree   Tree
	merged int
	in     io.Writer
	out    io.Reader
}

func newOverlay(t *testing.T, lower string) *overlay { return newLayered(t, lower, 0) }

// newLayered makes one whose upper directory becomes a lower one so many times while operations go on.
func newLayered(t *testing.T, lower string, layers int) *overlay {
	t.Helper()
	base := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CHANGES_ROLE=overlay", "CHANGES_BASE="+base, "CHANGES_LOWER="+lower, "CHANGES_LAYERS="+strconv.Itoa(layers))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip("no user namespaces: ", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	o := &overlay{lower: lower, in: in, out: out}
	if answer := o.answer(t); answer[0] != "ready" {
		t.Skip("no overlay for users: ", answer)
	}
	o.there, o.layers = "/proc/"+strconv.Itoa(cmd.Process.Pid)+"/root"+base, layers
	o.open(t)
	return o
}

// open opens what there is now.
func (o *overlay) open(t *testing.T) {
	t.Helper()
	o.tree = Tree{Path: o.lower, Upper: openDir(t, o.there+"/upper"+strconv.Itoa(o.layers)), Lower: openDir(t, o.lower)}
	for i := o.layers - 1; i >= 0; i-- {
		o.tree.Under = append(o.tree.Under, openDir(t, o.there+"/upper"+strconv.Itoa(i)))
	}
	o.merged = openDir(t, o.there+"/merged")
}

func (o *overlay) answer(t *testing.T) (said []string) {
	t.Helper()
	must(t, json.NewDecoder(o.out).Decode(&said))
	return said
}

// do runs operations inside, once; what one says is its errno.
func (o *overlay) do(t *testing.T, acts ...act) []string {
	t.Helper()
	must(t, json.NewEncoder(o.in).Encode(acts))
	said := o.answer(t)
	if o.layers > 0 {
		o.open(t)
	}
	return said
}

func ownOverlay() {
	signal.Ignore(syscall.SIGPIPE)
	out := json.NewEncoder(os.Stdout)
	base := os.Getenv("CHANGES_BASE")
	err := unix.Mount("tmpfs", base, "tmpfs", 0, "size=256m")
	dirs, lower := []string{"merged"}, os.Getenv("CHANGES_LOWER")
	layers, _ := strconv.Atoi(os.Getenv("CHANGES_LAYERS"))
	for i := range layers + 1 {
		dirs = append(dirs, "upper"+strconv.Itoa(i), "work"+strconv.Itoa(i))
	}
	for _, dir := range dirs {
		if err == nil {
			err = os.Mkdir(filepath.Join(base, dir), 0o755)
		}
	}
	next := 0
	mount := func() {
		n := strconv.Itoa(next)
		if err == nil {
			err = unix.Mount("overlay", base+"/merged", "overlay", 0, "userxattr,lowerdir="+lower+",upperdir="+base+"/upper"+n+",workdir="+base+"/work"+n)
		}
		if err == nil {
			err = os.Chdir(base + "/merged")
		}
		lower = base + "/upper" + n + ":" + lower
		next++
	}
	mount()
	unix.Umask(0)
	if err != nil {
		must(nil, out.Encode([]string{err.Error()}))
		os.Exit(1)
	}
	must(nil, out.Encode([]string{"ready"}))
	var acts []act
	must(nil, json.NewDecoder(os.Stdin).Decode(&acts))
	said := make([]string, len(acts))
	for i, a := range acts {
		if next <= layers && i >= len(acts)*next/(layers+1) {
			if err = os.Chdir("/"); err == nil {
				err = unix.Unmount(base+"/merged", unix.MNT_DETACH)
			}
			mount()
			if err != nil {
				must(nil, out.Encode([]string{err.Error()}))
				os.Exit(1)
			}
		}
		if err := perform(a); err != nil {
			said[i] = err.Error()
		}
	}
	must(nil, out.Encode(said))
	_, _ = io.Copy(io.Discard, os.Stdin) // the namespaces are held until the test ends
	os.Exit(0)
}

// perform does one operation, relative to the current directory.
func perform(a act) error {
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
	case "fifo":
		return unix.Mkfifo(x, 0o644)
	case "xattr":
		return unix.Lsetxattr(x, "user.test", a.B, 0)
	case "unxattr":
		return unix.Lremovexattr(x, "user.test")
	case "touch":
		return unix.UtimesNanoAt(unix.AT_FDCWD, x, []unix.Timespec{{Sec: a.N}, {Sec: a.N}}, unix.AT_SYMLINK_NOFOLLOW)
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
