//go:build unix

package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// readReport reads a report that must be whole.
func readReport(t *testing.T, path string) status.Report {
	t.Helper()
	b, err := os.ReadFile(path)
	must.Do(t, err)
	var r status.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return r
}

// leftovers are names in dir beside those wanted.
func leftovers(t *testing.T, dir string, wanted ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.Do(t, err)
	for _, e := range entries {
		if !slices.Contains(wanted, e.Name()) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestReportReplacesAFile(t *testing.T) {
	dir := inTemp(t)
	must.Do(t, os.WriteFile("report.json", []byte(strings.Repeat("old ", 10_000)), 0o644))
	must.Do(t, os.Link("report.json", "other-name"))
	var c call
	if r := c.run(t, "--report", "report.json", "ls"); r.rc != 0 {
		t.Fatal(r.err)
	}
	readReport(t, "report.json")
	if st, _ := os.Stat("report.json"); st.Mode() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
	if b, _ := os.ReadFile("other-name"); !strings.HasPrefix(string(b), "old ") {
		t.Error("the file behind the other name was written to")
	}
	leftovers(t, dir, "report.json", "other-name")
}

func TestReportOfAnEngineThatFailedHasNoSecrets(t *testing.T) {
	inTemp(t)
	var c call
	c.fake.err = fmt.Errorf("clone: %w", unix.EPERM)
	r := c.run(t, "--report", "report.json", "--exit-codes", "gnu", "ls", "--password=hunter2")
	if r.rc != 125 || !strings.Contains(r.err, "INTERNAL_ERROR: clone: operation not permitted") {
		t.Errorf("rc %d, %s", r.rc, r.err)
	}
	got := readReport(t, "report.json")
	if got.Status != status.InternalError || got.RC != 125 || strings.Contains(strings.Join(got.Cmd, " "), "hunter2") {
		t.Errorf("%+v", got)
	}
}

// TestUnsafeReportPathsAreRefused: each for both options, before anything starts.
func TestUnsafeReportPathsAreRefused(t *testing.T) {
	dir := inTemp(t)
	must.Do(t, os.WriteFile("file", []byte("precious"), 0o600))
	must.Do(t, os.Symlink("file", "link"))
	must.Do(t, os.Symlink("nowhere", "dangling"))
	must.Do(t, os.Mkdir("dir", 0o700))
	must.Do(t, unix.Mkfifo("fifo", 0o600))
	l, err := net.Listen("unix", "socket")
	must.Do(t, err)
	defer l.Close()
	rd, err := os.Open("file")
	must.Do(t, err)
	defer rd.Close()
	_, err = unix.FcntlInt(rd.Fd(), unix.F_SETFD, 0)
	must.Do(t, err)
	for _, c := range []struct{ name, spec, says string }{
		{"symbolic link", "link", "symbolic link"},
		{"link to nothing", "dangling", "symbolic link"},
		{"FIFO", "fifo", "FIFO"},
		{"socket", "socket", "socket"},
		{"directory", "dir", "directory"},
		{"directory, by dots", "..", "directory"},
		{"device", "/dev/null", "device"},
		{"full device", "/dev/full", "device"},
		{"link to a descriptor", "/dev/stdout", ""},
		{"no such directory", "missing/report.json", "no such file or directory"},
		{"a file for a directory", "file/report.json", "not a directory"},
		{"no directory for users", "/proc/self/report.json", ""},
		{"no number", "fd:x", ""},
		{"no plain number", "fd:+3", ""},
		{"a negative number", "fd:-1", ""},
		{"a huge number", "fd:99999999999", ""},
		{"not open", "fd:987", "bad file descriptor"},
		{"open for reading", fmt.Sprintf("fd:%d", rd.Fd()), "not open for writing"},
	} {
		for _, option := range []string{"--report", "--events", "--record"} {
			t.Run(c.name+" "+option, func(t *testing.T) {
				var fake call
				r := fake.run(t, option, c.spec, "ls")
				nothingStarted(t, r)
				if !strings.Contains(r.err, c.says) {
					t.Errorf("stderr doesn't say %q: %s", c.says, r.err)
				}
			})
		}
	}
	if b, _ := os.ReadFile("file"); string(b) != "precious" {
		t.Errorf("the file behind the link is now %q", b)
	}
	leftovers(t, dir, "file", "link", "dangling", "dir", "fifo", "socket")
}

func TestReadOnlyDirectoryIsRefused(t *testing.T) {
	if os.Getuid() == 0 {
		must.Do(t, unix.Access("/proc/version", unix.R_OK))
		// Permissions don't stop root; a file system that takes no files does.
		var c call
		inTemp(t)
		nothingStarted(t, c.run(t, "--report", "/proc/report.json", "ls"))
		return
	}
	dir := inTemp(t)
	must.Do(t, os.Chmod(dir, 0o500))
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	for _, option := range []string{"--report", "--events", "--record"} {
		var c call
		r := c.run(t, option, "x", "ls")
		nothingStarted(t, r)
		if !strings.Contains(r.err, "permission denied") {
			t.Error(r.err)
		}
	}
}

func TestSomebodyElsesFileIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a file that belongs to another")
	}
	inTemp(t)
	must.Do(t, os.WriteFile("x", []byte("theirs"), 0o666))
	must.Do(t, os.Chown("x", 12345, 12345))
	for _, option := range []string{"--report", "--events", "--record"} {
		var c call
		r := c.run(t, option, "x", "ls")
		nothingStarted(t, r)
		if !strings.Contains(r.err, "belongs to uid 12345") {
			t.Error(r.err)
		}
	}
	if b, _ := os.ReadFile("x"); string(b) != "theirs" {
		t.Errorf("it is now %q", b)
	}
}

func TestHardLinkedEventsAreRefused(t *testing.T) {
	inTemp(t)
	must.Do(t, os.WriteFile("precious", []byte("precious"), 0o600))
	must.Do(t, os.Link("precious", "events"))
	var c call
	r := c.run(t, "--events", "events", "ls")
	nothingStarted(t, r)
	if b, _ := os.ReadFile("precious"); string(b) != "precious" {
		t.Errorf("it is now %q", b)
	}
}

// inherited gives a descriptor as a parent process would hand it over.
func inherited(t *testing.T, f *os.File) string {
	t.Helper()
	fd, err := unix.Dup(int(f.Fd())) // without close-on-exec
	must.Do(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fmt.Sprintf("fd:%d", fd)
}

func TestDescriptorsOfOursAreNotTheCallers(t *testing.T) {
	inTemp(t)
	f, err := os.Create("ours") // has close-on-exec, as everything that the runtime opens
	must.Do(t, err)
	defer f.Close()
	var c call
	nothingStarted(t, c.run(t, "--report", fmt.Sprintf("fd:%d", f.Fd()), "ls"))
}

func TestPlaceInADeepDirectory(t *testing.T) {
	dir := inTemp(t)
	must.Do(t, os.MkdirAll("work", 0o700))
	must.Do(t, os.MkdirAll("a/b", 0o700))
	must.Do(t, os.Symlink("a/b", "short"))
	t.Chdir("work")
	for _, name := range []string{"../short/r.json", dir + "/short/r.json"} { // links outside of trees of work are the caller's own
		var c call
		if r := c.run(t, "--report", name, "ls"); r.rc != 0 {
			t.Fatal(r.err)
		}
		readReport(t, filepath.Join(dir, "a/b/r.json"))
		must.Do(t, os.Remove(filepath.Join(dir, "a/b/r.json")))
	}
}

// A link that an earlier run has left in the current directory, or in a tree that the policy
// names, leads neither report nor events anywhere.
func TestNoPlaceIsFoundThroughALinkOfATreeOfWork(t *testing.T) {
	dir := inTemp(t)
	must.Do(t, os.MkdirAll("outside/.ssh", 0o700))
	must.Do(t, os.MkdirAll("work/sub/.git/hooks", 0o700))
	must.Do(t, os.MkdirAll("named", 0o700))
	must.Do(t, os.Symlink("../outside", "work/build"))
	must.Do(t, os.Symlink("build/.ssh", "work/chain"))
	must.Do(t, os.Symlink("sub/.git/hooks", "work/hooks"))
	must.Do(t, os.Symlink(dir+"/outside", "named/l"))
	must.Do(t, os.Symlink(dir+"/outside/.ssh", "keys"))
	t.Chdir("work")
	for _, c := range []struct{ place, real string }{
		{"build", "outside"}, {"build/.ssh", "outside/.ssh"}, {"chain", "outside/.ssh"}, {"hooks", "work/sub/.git/hooks"}, {"./sub/../build", "outside"},
		{dir + "/work/build", "outside"}, {"/proc/self/cwd/build", "outside"}, {"../work/build", "outside"}, {"../named/l", "outside"},
		{"../keys", "outside/.ssh"}, // not in a tree of work, but protected
	} {
		for _, option := range []string{"--report", "--events", "--record"} {
			var fake call
			r := fake.run(t, "--allow-write", "../named", option, c.place+"/x", "ls")
			nothingStarted(t, r)
			if !strings.Contains(r.err, "symbolic link") || !strings.Contains(r.err, dir+"/"+c.real) {
				t.Errorf("%s %s: %s", option, c.place, r.err)
			}
			leftovers(t, filepath.Join(dir, "outside"), ".ssh")
			leftovers(t, filepath.Join(dir, c.real), ".ssh")
			var real call // the control
			if r := real.run(t, "--allow-write", "../named", option, filepath.Join(dir, c.real, "x"), "ls"); r.rc != 0 {
				t.Errorf("%s %s: %s", option, c.real, r.err)
			}
			must.Do(t, os.Remove(filepath.Join(dir, c.real, "x")))
		}
	}
}

// TestTargetCantRedirectTheReport: what the target can do to names in a directory
// that it can write to, and what becomes of the report.
func TestTargetCantRedirectTheReport(t *testing.T) {
	for _, c := range []struct {
		name string
		does func() error
		lost bool // no report, and that is said
	}{
		{name: "nothing (control)", does: func() error { return nil }},
		{name: "writes a report of its own", does: func() error {
			return os.WriteFile("w/report.json", []byte(`{"status":"OK","rc":0}`), 0o666)
		}},
		{name: "makes a link to a file of the caller's", does: func() error { return os.Symlink("../precious", "w/report.json") }},
		{name: "makes a hard link to a file of the caller's", does: func() error { return os.Link("precious", "w/report.json") }},
		{name: "makes a link to nowhere", does: func() error { return os.Symlink("../new", "w/report.json") }},
		{name: "makes a FIFO", does: func() error { return unix.Mkfifo("w/report.json", 0o666) }},
		{name: "swaps the directory for a link", lost: true, does: func() error {
			return errors.Join(os.Rename("w", "moved"), os.Symlink("elsewhere", "w"))
		}},
		{name: "swaps the directory for another", lost: true, does: func() error {
			return errors.Join(os.Rename("w", "moved"), os.Mkdir("w", 0o777))
		}},
		{name: "puts a directory in the way", lost: true, does: func() error { return os.Mkdir("w/report.json", 0o777) }},
		{name: "removes the directory", lost: true, does: func() error { return os.Remove("w") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTemp(t)
			must.Do(t, os.WriteFile("precious", []byte("precious"), 0o600))
			must.Do(t, os.Mkdir("w", 0o777))
			must.Do(t, os.Mkdir("elsewhere", 0o777))
			held, err := os.Open("w")
			must.Do(t, err)
			defer held.Close()
			var fake call
			fake.report = &status.Report{Status: status.Timeout, RC: 124, Cause: status.CauseWall}
			fake.during = func() {
				// Not even its name can be learnt while the target runs.
				if names, err := os.ReadDir("w"); err != nil || len(names) != 0 {
					t.Errorf("the target sees %v, %v", names, err)
				}
				must.Do(t, c.does())
			}
			r := fake.run(t, "--report", "w/report.json", "ls")
			if r.rc != 124 {
				t.Errorf("rc %d", r.rc)
			}
			if said := strings.Contains(r.err, `--report "`); said != c.lost {
				t.Errorf("said that the report is lost: %v, want %v\n%s", said, c.lost, r.err)
			}
			if !c.lost {
				if got := readReport(t, fmt.Sprintf("/proc/self/fd/%d/report.json", held.Fd())); got.Status != status.Timeout {
					t.Errorf("the report says %s", got.Status)
				}
			}
			if b, _ := os.ReadFile("precious"); string(b) != "precious" {
				t.Errorf("the caller's file is now %q", b)
			}
			if _, err := os.Lstat("new"); err == nil {
				t.Error("the link was followed")
			}
			leftovers(t, "elsewhere")
		})
	}
}

func TestEventsTamperedWithAreReported(t *testing.T) {
	for _, c := range []struct {
		name string
		does func() error
	}{
		{"longer", func() error {
			f, err := os.OpenFile("events", os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString("{}\n")
				f.Close()
			}
			return err
		}},
		{"emptied", func() error { return os.Truncate("events", 0) }},
		{"replaced", func() error { return errors.Join(os.Remove("events"), os.WriteFile("events", nil, 0o666)) }},
		{"removed", func() error { return os.Remove("events") }},
		{"a link", func() error { return errors.Join(os.Remove("events"), os.Symlink("precious", "events")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTemp(t)
			must.Do(t, os.WriteFile("precious", []byte("precious"), 0o600))
			var fake call
			fake.during = func() { must.Do(t, c.does()) }
			r := fake.run(t, "--events", "events", "ls")
			if r.rc != 1 || !strings.Contains(r.err, "--events") {
				t.Errorf("rc %d, %s", r.rc, r.err)
			}
			if b, _ := os.ReadFile("precious"); string(b) != "precious" {
				t.Errorf("the caller's file is now %q", b)
			}
		})
	}
}

func linesOfEvents(t *testing.T, text string) (all []status.Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e status.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

func TestEventsAreSentOnce(t *testing.T) {
	inTemp(t)
	var c call
	c.report = &status.Report{
		Status: status.Timeout, RC: 124, Cause: status.CauseWall, LimitsHit: []string{"output", "wall_time"},
		Violations: []status.Violation{{Kind: "syscall", What: "ptrace", Rule: "r", Count: 9}, {Kind: "file", What: "/x", Rule: "protected", Count: 1}},
	}
	c.during = func() {
		io := &c.io
		io.Usage(status.Load{CPUMS: 1, MemoryBytes: 2, Tasks: 3})
		for range 3 {
			io.Denied(status.Violation{Kind: "syscall", What: "ptrace", Rule: "r", Count: 1})
			io.LimitHit(status.WallTime)
		}
		io.Attempt(status.Attempt{What: "a:1", Protocol: "udp", Verdict: status.AttemptBlocked, Why: "not_allowed", Count: 1})
		io.Attempt(status.Attempt{What: "b:1", Protocol: "tcp", Verdict: status.AttemptFailed, Count: 1})
	}
	r := c.run(t, "--events", "events", "ls")
	if r.rc != 124 {
		t.Fatal(r.rc, r.err)
	}
	b, err := os.ReadFile("events")
	must.Do(t, err)
	var got []string
	for _, e := range linesOfEvents(t, string(b)) {
		word := string(e.Event)
		switch e.Event {
		case status.EventDenied:
			word += " " + e.Denied.What
		case status.EventLimitHit:
			word += " " + string(e.Limit)
		case status.EventUsage:
			word += fmt.Sprint(" ", *e.Usage)
		case status.EventEnded:
			word += " " + string(e.Report.Status)
		}
		if e.TraceID != c.io.TraceID || e.Time == "" || e.Dropped != 0 {
			t.Errorf("%+v", e)
		}
		got = append(got, word)
	}
	want := "started, usage {1 2 3}, denied ptrace, limit_hit wall_time, denied a:1/udp, denied /x, limit_hit output, ended TIMEOUT"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// A reader that takes nothing holds nobody up, and learns how much it has missed.
func TestASlowReaderOfEventsHoldsNobodyUp(t *testing.T) {
	rd, wr, err := os.Pipe()
	must.Do(t, err)
	defer rd.Close()
	defer wr.Close()
	const many = 20_000 // far more than a pipe and the queue hold
	inTemp(t)
	var c call
	var got []status.Event
	read := make(chan struct{})
	c.during = func() {
		for i := range many {
			c.io.Usage(status.Load{CPUMS: int64(i)})
		}
		go func() { // and only now somebody reads
			defer close(read)
			lines := bufio.NewScanner(rd)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				got = append(got, linesOfEvents(t, lines.Text())...)
				if got[len(got)-1].Event == status.EventEnded {
					return
				}
			}
		}()
	}
	r := c.run(t, "--events", inherited(t, wr), "ls")
	if r.rc != 0 {
		t.Fatal(r.rc, r.err)
	}
	<-read
	dropped := int64(0)
	for _, e := range got {
		dropped += e.Dropped
	}
	if last := got[len(got)-1]; last.Event != status.EventEnded || dropped == 0 || int64(len(got))+dropped != many+2 {
		t.Errorf("%d events, %d dropped, the last %+v", len(got), dropped, last)
	}
}

func TestAReaderOfEventsThatLeavesIsNoFailure(t *testing.T) {
	rd, wr, err := os.Pipe()
	must.Do(t, err)
	defer wr.Close()
	inTemp(t)
	var c call
	c.during = func() {
		must.Do(t, rd.Close())
		for range 5000 {
			c.io.Usage(status.Load{})
		}
	}
	if r := c.run(t, "--events", inherited(t, wr), "ls"); r.rc != 0 || r.err != "" {
		t.Errorf("rc %d, %s", r.rc, r.err)
	}
}

// One that never takes anything loses the end, which is said.
func TestUnreadEventsAreReported(t *testing.T) {
	rd, wr, err := os.Pipe()
	must.Do(t, err)
	defer rd.Close()
	defer wr.Close()
	fd := int(wr.Fd()) // which makes it wait, each time that it is asked
	must.Do(t, unix.SetNonblock(fd, true))
	full := make([]byte, 4096)
	for err == nil {
		_, err = unix.Write(fd, full)
	}
	must.Do(t, unix.SetNonblock(fd, false))
	inTemp(t)
	var c call
	if r := c.run(t, "--events", inherited(t, wr), "ls"); r.rc != 1 || !strings.Contains(r.err, "nobody reads it") {
		t.Errorf("rc %d, %s", r.rc, r.err)
	}
}
