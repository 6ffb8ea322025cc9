package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/confine-run/confine/internal/hierarchy"
	"github.com/confine-run/confine/internal/must"
)

// stockKey is where a script keeps its stock.
type stockKey struct{}

// stock is what there was before a script's first run.
type stock struct {
	own, work string
	exe       [2]uint64 // device and inode of the script's own binary
	mounts    []string
}

func takeStock(own, work string) (*stock, error) {
	s := &stock{own: own, work: work}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(own, "bin", "confine"), &st); err != nil {
		return nil, err
	}
	s.exe = [2]uint64{uint64(st.Dev), st.Ino}
	var err error
	s.mounts, err = mounts(s)
	return s, err
}

// mounts are those that a run could have left in our own namespace: at or from
// a path of the script's.
func mounts(s *stock) (lines []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, s.own) || strings.Contains(line, s.work) {
			lines = append(lines, line)
		}
	}
	return lines, err
}

// left is what is there now and was not before. Processes of a run are known by
// the binary, which is the script's own, and by the paths that they work with.
// The scripts' own programs in the background have to be gone.
func (s *stock) left() (left []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) == fmt.Sprint(os.Getpid()) {
			continue
		}
		if why := s.owns(dir); why != "" {
			stat, _ := os.ReadFile(dir + "/stat")
			left = append(left, "process "+filepath.Base(dir)+" ("+why+"): "+string(stat))
		}
	}
	now, err := mounts(s)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, line := range now {
		if !slices.Contains(s.mounts, line) {
			left = append(left, "mount "+line)
		}
	}
	files, _ := os.ReadDir(filepath.Join(s.own, "tmp"))
	for _, f := range files {
		left = append(left, "temporary file "+f.Name())
	}
	return left
}

// deadGroups are cgroups of runs whose owner is gone: the name begins with its pid.
// Whoever kills confine leaves one, until the next run.
func deadGroups() (left []string) {
	own, _ := os.ReadFile("/proc/self/cgroup")
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	for _, d := range hierarchy.Dirs(string(own), string(mountinfo)) {
		groups, _ := filepath.Glob(filepath.Join(d.Path, "confine-*"))
		for _, g := range groups {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(g), "confine-"), "-")
			if _, err := strconv.Atoi(pid); err != nil {
				continue // somebody else's
			}
			var st syscall.Stat_t
			if err := syscall.Stat(g, &st); err != nil || int(st.Uid) != os.Geteuid() {
				continue // gone, or another user's, whose next run removes it
			}
			if _, err := os.Stat("/proc/" + pid); err != nil {
				left = append(left, "cgroup "+g)
			}
		}
	}
	return left
}

func (s *stock) owns(dir string) string {
	var st syscall.Stat_t
	if syscall.Stat(dir+"/exe", &st) == nil && [2]uint64{uint64(st.Dev), st.Ino} == s.exe {
		return "exe"
	}
	for _, name := range []string{"exe", "cwd"} {
		if to, err := os.Readlink(dir + "/" + name); err == nil && s.names(to) {
			return name + " " + to
		}
	}
	for _, name := range []string{"cmdline", "environ"} {
		if text, err := os.ReadFile(dir + "/" + name); err == nil && s.names(string(text)) {
			return name + " " + string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
		}
	}
	return ""
}

// names says whether one of the script's directories occurs in text, and not
// only one whose name begins like it.
func (s *stock) names(text string) bool {
	for _, dir := range []string{s.own, s.work} {
		for rest := text; ; {
			_, after, found := strings.Cut(rest, dir)
			if !found {
				break
			}
			if after == "" || strings.IndexByte("/\x00: ", after[0]) >= 0 {
				return true
			}
			rest = after
		}
	}
	return false
}

// patience is for what the kernel ends by itself, once the supervisor is dead.
const patience = 10 * time.Second

// stays is what is still left after that.
func (s *stock) stays() (left []string) {
	must.Within(patience, func() bool {
		left = s.left()
		return len(left) == 0
	})
	return left
}

func cmdClean(ts *testscript.TestScript, neg bool, args []string) {
	wait := len(args) == 1 && args[0] == "-wait"
	if neg || len(args) > 0 && !wait {
		ts.Fatalf("usage: clean [-wait]")
	}
	s := ts.Value(stockKey{}).(*stock)
	look := s.left
	if wait {
		look = s.stays
	}
	if left := look(); len(left) > 0 {
		ts.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// place is a test's own directories and programs, by which what is left of its runs can be told
// from others'.
type place struct {
	own, work string
	*stock
}

func newPlace(name string) (*place, error) {
	p := &place{own: filepath.Join(scene.dir, "own", name), work: filepath.Join(scene.dir, "work", name)}
	for _, dir := range []string{p.own + "/bin", p.own + "/tmp", p.own + "/home", p.work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for _, program := range []string{"confine", "attempt"} {
		if err := copyProgram(filepath.Join(scene.programs, program), p.program(program)); err != nil {
			return nil, err
		}
	}
	var err error
	p.stock, err = takeStock(p.own, p.work)
	return p, err
}

func placeOf(t *testing.T) *place {
	t.Helper()
	p, err := newPlace(t.Name())
	must.Do(t, err)
	return p
}

func (p *place) program(name string) string { return filepath.Join(p.own, "bin", name) }

// command starts in the place, with little of the caller's environment.
func (p *place) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program(program), args...)
	cmd.Dir = p.work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.own + "/home", "TMPDIR=" + p.own + "/tmp", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	if os.Getenv("CONFINE_TEST_PARTIAL") != "" { // on hosts that hold less
		cmd.Env = append(cmd.Env, "CONFINE_ALLOW_PARTIAL=all")
	}
	return cmd
}

// needs skips a test where the host lacks one of these, or fails it where that is not to be.
func needs(t *testing.T, conditions ...string) {
	t.Helper()
	for _, c := range conditions {
		if ok, err := condition(c); err != nil {
			t.Fatal(err)
		} else if !ok {
			t.Skip("no " + c)
		}
	}
}
