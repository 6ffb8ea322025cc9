package integration

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// ordinaryUser is somebody whom no list of users has. The overflow id, 65534,
// would not do: everybody else looks like it inside.
const ordinaryUser = 54321

// userVar is the user id of the second run, or "off".
const userVar = "CONFINE_TEST_UID"

// TestAsOrdinaryUser runs all other tests again, in a process that has given
// root up.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	uid := uint32(ordinaryUser)
	if said := os.Getenv(userVar); said == "off" {
		t.Skip(userVar + "=off")
	} else if n, err := strconv.ParseUint(said, 10, 32); err == nil && n > 0 {
		uid = uint32(n)
	}
	dir := filepath.Join(scene.dir, "user")
	for _, sub := range []string{"", "home", "tmp", "tree", "cover"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
		must.Do(t, os.Chown(filepath.Join(dir, sub), int(uid), int(uid)))
	}
	// The checkout, and the place that go put this program in, may be out of reach.
	must.Do(t, os.CopyFS(filepath.Join(dir, "tree", "testdata"), os.DirFS("testdata")))
	must.Do(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../examples")))
	self := filepath.Join(dir, "self")
	must.Do(t, copyProgram("/proc/self/exe", self))
	args := []string{"-test.v=" + strconv.FormatBool(testing.Verbose()), "-test.count=1", "-test.timeout=10m"}
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-test.run=") || arg == "-test.short=true" {
			args = append(args, arg)
		}
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = filepath.Join(dir, "tree")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = []string{
		"PATH=" + systemPath(), "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + filepath.Join(dir, "tmp"),
		"LANG=C.UTF-8", "GOFLAGS=" + os.Getenv("GOFLAGS"), programsVar + "=" + scene.programs,
		"CONFINE_MUST_RUN=" + os.Getenv("CONFINE_MUST_RUN"), "CONFINE_SDKS=" + os.Getenv("CONFINE_SDKS"),
	}
	if os.Getenv("GOCOVERDIR") != "" {
		cmd.Env = append(cmd.Env, "GOCOVERDIR="+filepath.Join(dir, "cover"))
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as uid %d: %v\n%s", uid, err, text)
	} else if testing.Verbose() {
		t.Logf("as uid %d:\n%s", uid, text)
	}
	if to := os.Getenv("GOCOVERDIR"); to != "" {
		if err := collect(filepath.Join(dir, "cover"), to); err != nil {
			t.Error(err)
		}
	}
}

// collect copies what the binary reached. What describes the binary is there
// already.
func collect(from, to string) error {
	files, err := os.ReadDir(from)
	for _, f := range files {
		err := copyProgram(filepath.Join(from, f.Name()), filepath.Join(to, f.Name()))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// systemPath is the directories of PATH that everybody can use.
func systemPath() string {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		open := true
		for d := real; d != "/"; d = filepath.Dir(d) {
			st, err := os.Stat(d)
			open = open && err == nil && st.Mode()&0o001 != 0
		}
		if open {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}
