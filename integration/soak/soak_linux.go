package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
)

// soak is what all runs share.
type soak struct {
	scratch string // HOME, TMPDIR, the work directory and the reports are in it
	confine string // a copy of its own, by which its processes are known
	exe     [2]uint64
	self    string // this program, where a target is seen
	env     []string
	reports atomic.Int64

	supervisors sync.Map // pid → running, of all there were
	owners      sync.Map // what they call their cgroups by
	// byFD: reports go to a descriptor of ours, and not to a file of the run's own.
	byFD bool
}

func open(confine string) (s *soak, err error) {
	s = &soak{}
	if s.scratch, err = os.MkdirTemp("", "soak-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	for _, dir := range []string{"bin", "home", "reports", "run", "tmp", "work"} {
		if err := os.Mkdir(filepath.Join(s.scratch, dir), 0o700); err != nil {
			return nil, err
		}
	}
	s.confine = filepath.Join(s.scratch, "bin", "confine")
	if confine != "" {
		err = copyFile(s.confine, confine)
	} else {
		err = build(s.confine)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Stat(s.confine, &st); err != nil {
		return nil, err
	}
	s.exe = [2]uint64{st.Dev, st.Ino}
	s.self = filepath.Join(s.scratch, "work", "soak")
	if err := copyFile(s.self, "/proc/self/exe"); err != nil {
		return nil, err
	}
	s.env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + s.scratch + "/home",
		"TMPDIR=" + s.scratch + "/tmp", "XDG_RUNTIME_DIR=" + s.scratch + "/run",
	}
	// Whatever outlives its run becomes a child of ours, and shows.
	return s, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

func (s *soak) close() error { return os.RemoveAll(s.scratch) }

// build makes the binary as "make build" makes it.
func build(to string) error {
	root, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -E main.entry", "-o", to, ".")
	cmd.Dir, cmd.Stderr = filepath.Dir(string(bytes.TrimSpace(root))), os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Run()
}

// copyFile lets nobody fork meanwhile, who would keep the copy from being executed.
func copyFile(to, from string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// ending is how one run ended.
type ending struct {
	killed     bool // by us
	status     status.Status
	rc         int
	hits       []string
	reason     string
	mechanisms string
	took       time.Duration
}

func (e *ending) String() string {
	return fmt.Sprintf("%s, rc %d, limits hit %v (%s)", e.status, e.rc, e.hits, e.reason)
}

// patience is for a run that doesn't end by itself: a failure.
const patience = 2 * time.Minute

// run runs confine with words for the inside. After kill, unless that is 0, the
// supervisor is killed, which it may have forestalled.
func (s *soak) run(opts, words []string, kill time.Duration) (*ending, error) {
	report := filepath.Join(s.scratch, "reports", strconv.FormatInt(s.reports.Add(1), 10))
	defer os.Remove(report)
	to, files := report, []*os.File(nil)
	if s.byFD {
		f, err := os.OpenFile(report, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		to, files = "fd:3", []*os.File{f}
	}
	args := slices.Concat([]string{"--report", to, "--log", "quiet", "--env", "GOMAXPROCS=1"}, opts,
		[]string{"--", s.self, insideWord}, words)
	cmd := exec.Command(s.confine, args...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = filepath.Join(s.scratch, "work"), s.env, files
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.supervisors.Store(cmd.Process.Pid, true)
	s.own(cmd.Process.Pid)
	deadline := patience
	if kill > 0 {
		deadline = kill
	}
	timer := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	s.supervisors.Store(cmd.Process.Pid, false)
	e := &ending{took: time.Since(began), rc: cmd.ProcessState.ExitCode()}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		e.killed = kill > 0 && ws.Signal() == unix.SIGKILL
		if !e.killed {
			return nil, fmt.Errorf("confine died of %s after %s: %s", ws.Signal(), e.took, first(&stderr))
		}
		return e, nil
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return nil, err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("%w; exit code %d: %s", err, e.rc, first(&stderr))
	}
	var r status.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("the report: %w: %q", err, text)
	}
	if r.RC != e.rc {
		return nil, fmt.Errorf("exit code %d, and the report says %d", e.rc, r.RC)
	}
	e.status, e.hits, e.reason, e.mechanisms = r.Status, r.LimitsHit, r.Reason, mechanisms(r.Enforced)
	return e, nil
}

// first is the beginning of what confine said.
func first(stderr *bytes.Buffer) string {
	line, _, _ := bytes.Cut(stderr.Bytes(), []byte{'\n'})
	return string(line[:min(len(line), 200)])
}

// mechanisms of a ledger, those that were applied.
func mechanisms(l map[status.Capability]status.Enforcement) string {
	var list []string
	for c, e := range l {
		if e.Applied {
			list = append(list, string(c)+"="+e.Mechanism)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// refused is why a set of options can't be had on this host, or "".
func (s *soak) refused(u setup) string {
	e, err := s.run(u.options, []string{"exit", "0"}, 0)
	switch {
	case err != nil:
		return err.Error()
	case e.status == status.InternalError:
		return e.reason
	}
	return ""
}
