package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/confine-run/confine/internal/hierarchy"
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

func cmdClean(ts *testscript.TestScript, neg bool, args []string) {
	wait := len(args) == 1 && args[0] == "-wait"
	if neg || len(args) > 0 && !wait {
		ts.Fatalf("usage: clean [-wait]")
	}
	s := ts.Value(stockKey{}).(*stock)
	left := s.left()
	for end := time.Now().Add(patience); wait && len(left) > 0 && time.Now().Before(end); left = s.left() {
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) > 0 {
		ts.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
	}
}
