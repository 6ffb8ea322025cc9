//go:build unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
)

// TestTargetCantLeadTheReport: what the target can do to names in a directory
// that it can write to, and what becomes of the report.
func TestTargetCantLeadTheReport(t *testing.T) {
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
			must(t, os.WriteFile("precious", []byte("precious"), 0o600))
			must(t, os.Mkdir("w", 0o777))
			must(t, os.Mkdir("elsewhere", 0o777))
			held, err := os.Open("w")
			must(t, err)
			defer held.Close()
			var fake call
			fake.report = &status.Report{Status: status.Timeout, RC: 124, Cause: status.CauseWall}
			fake.during = func() {
				// Not even its name can be learnt while the target runs.
				if names, err := os.ReadDir("w"); err != nil || len(names) != 0 {
					t.Errorf("the target sees %v, %v", names, err)
				}
				must(t, c.does())
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

func TestLostReportIsNoSuccess(t *testing.T) {
	inTemp(t)
	must(t, os.Mkdir("w", 0o777))
	var c call
	c.during = func() { must(t, os.Mkdir("w/report.json", 0o777)) }
	r := c.run(t, "--report", "w/report.json", "ls")
	if r.rc != 1 || !strings.Contains(r.err, "--report") {
		t.Errorf("rc %d, %s", r.rc, r.err)
	}
	leftovers(t, "w", "report.json")
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
			must(t, os.WriteFile("precious", []byte("precious"), 0o600))
			var fake call
			fake.during = func() { must(t, c.does()) }
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
