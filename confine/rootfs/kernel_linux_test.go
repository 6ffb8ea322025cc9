package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// These run on the real file system.

func here(change func(*Input)) Input {
	in := Input{Workdir: "ro", TempDir: true, Dir: "/usr", HomeDir: os.Getenv("HOME"), UserName: "u", UID: uint32(os.Geteuid()),
		GID: uint32(os.Getegid()), AccessUID: uint32(os.Geteuid()), AccessGID: uint32(os.Getegid()), Env: os.Getenv, Command: "/bin/true"}
	if change != nil {
		change(&in)
	}
	return in
}

func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestKernelResolves(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	must(os.MkdirAll(dir+"/a b/c", 0o755))
	must(os.WriteFile(dir+"/x (deleted)", nil, 0o600))
	must(os.Symlink("a b", dir+"/l"))
	must(os.Symlink(dir+"/x (deleted)", dir+"/ld"))
	must(os.Symlink("loop", dir+"/loop"))
	must(os.Symlink("nowhere", dir+"/dangling"))
	must(unix.Mkfifo(dir+"/fifo", 0o600))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(err)
	defer unix.Close(fd)
	must(os.Chdir(dir))
	must(unix.Bind(fd, &unix.SockaddrUnix{Name: "sock"}))

	for _, c := range []struct {
		name, want string
		kind       fs.FileMode
		err        error
	}{
		{"/a b", "/a b", fs.ModeDir, nil},
		{"/l/c", "/a b/c", fs.ModeDir, nil},
		{"/l/c/..", "/a b", fs.ModeDir, nil},
		{"/l///", "/a b", fs.ModeDir, nil},
		{"/fifo", "/fifo", fs.ModeNamedPipe, nil}, // and doesn't hang
		{"/sock", "/sock", fs.ModeSocket, nil},
		{"/x (deleted)", "/x (deleted)", 0, nil},
		{"/ld", "/x (deleted)", 0, nil},
		{"/loop", "", 0, syscall.ELOOP},
		{"/dangling", "", 0, fs.ErrNotExist},
		{"/fifo/x", "", 0, syscall.ENOTDIR},
	} {
		f, err := ThisHost().Resolve(dir + c.name)
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%s: error %v, want %v", c.name, err, c.err)
			}
			continue
		}
		if err != nil || f.Path != dir+c.want || f.Mode.Type() != c.kind || f.Ino == 0 {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
	}
	entries, err := ThisHost().ReadDir(dir)
	must(err)
	kinds := map[string]fs.FileMode{}
	for _, e := range entries {
		kinds[e.Name] = e.Type
	}
	if len(entries) != 8 || kinds["a b"] != fs.ModeDir || kinds["l"] != fs.ModeSymlink || kinds["fifo"] != fs.ModeNamedPipe {
		t.Errorf("ReadDir %v", entries)
	}
	if _, err := ThisHost().ReadFile(dir+"/fifo", 10); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("ReadFile of a FIFO: %v", err)
	}
}

// The table has what was resolved. When something else stands there later, its
// identity differs, which the child compares.
func TestTheTableCarriesIdentity(t *testing.T) {
	dir := realTemp(t)
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("d", dir+"/l"); err != nil {
		t.Fatal(err)
	}
	// A home directory there, so that it is no tree of work for lying in a directory for temporary files.
	table, err := Compile(here(func(in *Input) { in.AllowWrite, in.HomeDir = []string{dir + "/l"}, dir+"/home" }))
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, table)
	same := func() bool {
		var st unix.Stat_t
		if err := unix.Lstat(dir+"/d", &st); err != nil {
			t.Fatal(err)
		}
		for _, m := range table.Mounts {
			if m.Dst == dir+"/d" {
				return m.Src == dir+"/d" && m.Dev == uint64(st.Dev) && m.Ino == st.Ino
			}
		}
		t.Fatal("it is not in the table")
		return false
	}
	if !same() {
		t.Error("the identity is not that of the directory")
	}
	for _, err := range []error{os.Rename(dir+"/d", dir+"/old"), os.Symlink("/etc", dir+"/d")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if same() {
		t.Error("a link in its place has the same identity")
	}
}

func TestRootPlansWithTheEyesOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another")
	}
	dir, err := os.MkdirTemp("/var/tmp", "rootfs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32) error { // dir is 0700
		_, err := Compile(here(func(in *Input) {
			in.AllowRead, in.AccessUID, in.AccessGID, in.UID, in.GID = []string{dir + "/sub"}, uid, uid, uid, uid
		}))
		return err
	}
	if err := as(0); err != nil { // the control
		t.Fatal(err)
	}
	var usage *Error
	if err := as(65534); !errors.Is(err, fs.ErrPermission) || !errors.As(err, &usage) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir + "/sub"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 1 {
		t.Errorf("dumpable %d, %v", n, err)
	}
}

// BenchmarkDefault is the default profile with the caller's own tool chains.
func BenchmarkDefault(b *testing.B) {
	dir, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	in := here(func(in *Input) { in.Dir = dir })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(in); err != nil {
			b.Fatal(err)
		}
	}
}
