package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
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

// The test binary is started again as the owner of an overlay, and as who is killed at a step.
func TestMain(m *testing.M) {
	switch os.Getenv("SNAPSHOT_ROLE") {
	case "overlay":
		ownOverlay()
	case "victim":
		victim()
	}
	os.Exit(m.Run())
}

// act is one operation in an overlay. Names go as bytes.
type act struct {
	Op   string
	A, B []byte
	N    int64
}

// overlay is one in a user namespace with its upper directory in a tmpfs, as a sandbox has it.
type overlay struct {
	upper int
	in    io.Writer
	out   *json.Decoder
}

// newOverlay mounts one on lower directories, the top first.
func newOverlay(t *testing.T, lower ...string) *overlay {
	t.Helper()
	base := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SNAPSHOT_ROLE=overlay", "SNAPSHOT_BASE="+base, "SNAPSHOT_LOWER="+strings.Join(lower, ":"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		lacking(t, "userns", err.Error())
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	o := &overlay{in: in, out: json.NewDecoder(out)}
	var said string
	if must(t, o.out.Decode(&said)); said != "ready" {
		lacking(t, "overlay", said)
	}
	o.upper = openedDir(t, "/proc/"+strconv.Itoa(cmd.Process.Pid)+"/root"+base+"/upper")
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

// do runs operations inside, and gives what is seen there then, one line a path.
func (o *overlay) do(t *testing.T, acts ...act) (seen map[string]string) {
	t.Helper()
	must(t, json.NewEncoder(o.in).Encode(acts))
	must(t, o.out.Decode(&seen))
	return seen
}

func ownOverlay() {
	out, in := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	base := os.Getenv("SNAPSHOT_BASE")
	err := unix.Mount("tmpfs", base, "tmpfs", 0, "size=256m")
	for _, dir := range []string{"upper", "work", "merged"} {
		if err == nil {
			err = os.Mkdir(filepath.Join(base, dir), 0o755)
		}
	}
	if err == nil {
		err = unix.Mount("overlay", base+"/merged", "overlay", 0,
			"userxattr,lowerdir="+os.Getenv("SNAPSHOT_LOWER")+",upperdir="+base+"/upper,workdir="+base+"/work")
	}
	if err == nil {
		err = os.Chdir(base + "/merged")
	}
	if err != nil {
		must(nil, out.Encode(err.Error()))
		os.Exit(1)
	}
	unix.Umask(0)
	must(nil, out.Encode("ready"))
	for {
		var acts []act
		if in.Decode(&acts) != nil {
			os.Exit(0)
		}
		for _, a := range acts {
			_ = perform(a)
		}
		must(nil, out.Encode(seen(".")))
	}
}

// perform does one operation, relative to the current directory.
func perform(a act) error {
	x, y := string(a.A), string(a.B)
	switch a.Op {
	case "write":
		return os.WriteFile(x, a.B, 0o644)
	case "rename":
		return unix.Rename(x, y)
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
		return unix.Lsetxattr(x, "user.te=st%", a.B, 0)
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

// seen describes everything below a directory.
func seen(root string) map[string]string {
	all := map[string]string{}
	inodes := map[uint64]string{}
	must(nil, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%06o %d:%d", st.Mode, st.Uid, st.Gid)
		buf := make([]byte, 100)
		if n, err := unix.Lgetxattr(p, "user.te=st%", buf); err == nil {
			line += fmt.Sprintf(" xattr %q", buf[:n])
		}
		switch d.Type() {
		case fs.ModeSymlink:
			to, _ := os.Readlink(p)
			line += " " + to
		case 0:
			f, err := os.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, f); err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %s %d", st.Size, hex.EncodeToString(sum.Sum(nil))[:12], st.Mtim.Nano())
			if first, ok := inodes[st.Ino]; ok {
				line += " = " + first
			} else if st.Nlink > 1 {
				inodes[st.Ino] = p
			}
		}
		all[fmt.Sprintf("%q", p)] = line
		return nil
	}))
	return all
}

func difference(a, b map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if b[k] != a[k] {
			out = append(out, fmt.Sprintf("%s: %q | %q", k, a[k], b[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[k]; !ok {
			out = append(out, fmt.Sprintf("%s: – | %q", k, b[k]))
		}
	}
	return strings.Join(out, "\n")
}
