package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/view"
)

// These run on the real file system.

func here(change func(*view.Input)) view.Input {
	in := view.Input{Filesystem: view.Filesystem{Workdir: "ro", TempDir: true}, Caller: view.Caller{Dir: "/usr", HomeDir: os.Getenv("HOME"), UserName: "u", UID: uint32(os.Geteuid()),
		GID: uint32(os.Getegid()), AccessUID: uint32(os.Geteuid()), AccessGID: uint32(os.Getegid()), Env: os.Getenv, Command: "/bin/true"}}
	if change != nil {
		change(&in)
	}
	return in
}

func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	return dir
}

// The table has what was resolved. When something else stands there later, its
// identity differs, which the child compares.
func TestTheTableCarriesIdentity(t *testing.T) {
	dir := realTemp(t)
	must.Do(t, os.Mkdir(dir+"/d", 0o755))
	must.Do(t, os.Symlink("d", dir+"/l"))
	// A home directory there, so that it is no tree of work for lying in a directory for temporary files.
	table, err := Compile(here(func(in *view.Input) { in.AllowWrite, in.HomeDir = []string{dir + "/l"}, dir+"/home" }))
	must.Do(t, err)
	wellFormed(t, table)
	same := func() bool {
		var st unix.Stat_t
		must.Do(t, unix.Lstat(dir+"/d", &st))
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
		must.Do(t, err)
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
	must.Do(t, err)
	defer os.RemoveAll(dir)
	must.Do(t, os.Mkdir(dir+"/sub", 0o755))
	as := func(uid uint32) error { // dir is 0700
		_, err := Compile(here(func(in *view.Input) {
			in.AllowRead, in.AccessUID, in.AccessGID, in.UID, in.GID = []string{dir + "/sub"}, uid, uid, uid, uid
		}))
		return err
	}
	if err := as(0); err != nil { // the control
		t.Fatal(err)
	}
	var usage *view.Error
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
	must.Do(b, err)
	in := here(func(in *view.Input) { in.Dir = dir })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(in); err != nil {
			b.Fatal(err)
		}
	}
}
