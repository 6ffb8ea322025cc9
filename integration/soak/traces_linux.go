package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// traces is everything that runs could leave, each by a line that says what it is.
type traces map[string]bool

// settling is for what the kernel ends by itself once a supervisor is dead.
const settling = 15 * time.Second

// settle waits until there is nothing more than before, and gives what stays.
func (s *soak) settle(before traces) (left []string, err error) {
	for deadline := time.Now().Add(settling); ; time.Sleep(50 * time.Millisecond) {
		now, err := s.traces()
		if err != nil {
			return nil, err
		}
		left = left[:0]
		for line := range now {
			if !before[line] {
				left = append(left, line)
			}
		}
		slices.Sort(left)
		if len(left) == 0 || time.Now().After(deadline) {
			return left, nil
		}
	}
}

// traces looks. No run may be in flight: what has ended is reaped.
func (s *soak) traces() (traces, error) {
	t := traces{}
	if err := reap(); err != nil {
		return nil, err
	}
	return t, errors.Join(s.processes(t), s.mounts(t), s.files(t), s.cgroups(t), descriptors(t))
}

// reap waits for whom killed supervisors have left to us, and who has ended.
func reap() error {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err == unix.ECHILD || err == nil && pid == 0:
			return nil
		case err != nil:
			return fmt.Errorf("wait4: %w", err)
		}
	}
}

// processes of a run are known by the binary, which is our copy, by what they
// were started with, and by becoming our children.
func (s *soak) processes(t traces) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid := filepath.Base(dir)
		if pid == fmt.Sprint(os.Getpid()) {
			continue
		}
		text, _ := os.ReadFile(dir + "/cmdline")
		words := string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
		var st unix.Stat_t
		ours := unix.Stat(dir+"/exe", &st) == nil && [2]uint64{st.Dev, st.Ino} == s.exe
		if ours || strings.Contains(words, s.scratch) || parentOf(dir) == os.Getpid() {
			t[fmt.Sprintf("process %s: %s", pid, words)] = true
		}
	}
	return err
}

// Fields of /proc/PID/stat behind the name.
const fieldPPID, fieldStart = 1, 19

func statOf(dir string) []string {
	text, _ := os.ReadFile(dir + "/stat")
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

func parentOf(dir string) int {
	f := statOf(dir)
	if len(f) <= fieldPPID {
		return 0
	}
	ppid, _ := strconv.Atoi(f[fieldPPID])
	return ppid
}

// mounts that name a place of ours, in our own namespace.
func (s *soak) mounts(t traces) error {
	return lines("/proc/self/mountinfo", func(line string) {
		if strings.Contains(line, s.scratch) {
			t["mount "+line] = true
		}
	})
}

func lines(path string, each func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		each(in.Text())
	}
	return in.Err()
}

// files: all places that a run may use are in the scratch directory.
func (s *soak) files(t traces) error {
	return walk(s.scratch, func(path string, e fs.DirEntry) { t["file "+path] = true })
}

// cgroups of runs are named confine-PID-START-… after their supervisor, wherever in
// a hierarchy; systemd's scopes have the pid only.
func (s *soak) cgroups(t traces) error {
	var found error
	err := lines("/proc/self/mountinfo", func(line string) {
		before, after, _ := strings.Cut(line, " - ")
		where, kind := strings.Fields(before), strings.Fields(after)
		if len(where) < 5 || len(kind) < 1 || !strings.HasPrefix(kind[0], "cgroup") {
			return
		}
		found = errors.Join(found, walk(where[4], func(path string, e fs.DirEntry) {
			if e.IsDir() && s.named(e.Name()) {
				t["cgroup "+path] = true
			}
		}))
	})
	return errors.Join(found, err)
}

func (s *soak) named(cgroup string) bool {
	rest, ok := strings.CutPrefix(cgroup, "confine-")
	parts := strings.SplitN(rest, "-", 3)
	if !ok || len(parts) < 2 {
		return false
	}
	key := parts[0] + "-" + parts[1]
	if strings.HasSuffix(rest, ".scope") {
		key = parts[0]
	}
	_, ours := s.owners.Load(key)
	return ours
}

// own remembers a supervisor by its pid, and by its start, which no other has with it.
func (s *soak) own(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	s.owners.Store(strconv.Itoa(pid), true)
	if f := statOf(dir); len(f) > fieldStart {
		s.owners.Store(strconv.Itoa(pid)+"-"+f[fieldStart], true)
	}
}

// walk passes over what isn't there any more, and what may not be looked into.
func walk(dir string, each func(string, fs.DirEntry)) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		if err == nil {
			each(path, e)
		}
		return err
	})
}

// descriptors are our own, but for those of Go's poller, which comes with the first pipe.
func descriptors(t traces) error {
	open, err := os.ReadDir("/proc/self/fd")
	for _, e := range open {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:[event") {
			t["descriptor "+e.Name()+": "+to] = true
		}
	}
	return err
}

// end kills the processes among what is left, so that the next round begins without them.
func (s *soak) end(left []string) {
	for _, line := range left {
		var pid int
		if n, _ := fmt.Sscanf(line, "process %d:", &pid); n == 1 && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
