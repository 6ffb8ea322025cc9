package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/confine-run/confine/status"
)

// TestFilesBeyondTheBound: likewise.
func TestFilesBeyondTheBound(t *testing.T) {
	inTemp(t)
	var one call
	one.during = func() {
		for i := range maxLines + 500 {
			one.io.Denied(status.Violation{Kind: "file", What: fmt.Sprintf("read /%d", i), Count: 1})
		}
	}
	said := one.run(t, "--log-files", "ls").err
	if n := strings.Count(said, "file: blocked "); n != maxLines {
		t.Errorf("%d lines", n)
	}
	const last = "file: further ones are not told here; the report names more of them, and counts them all"
	if strings.Count(said, last) != 1 || strings.Contains(said, "only in the report") {
		t.Error(said)
	}
}

// TestAttemptsBeyondTheBound: the last line promises no more than the report has, which is
// bounded as well.
func TestAttemptsBeyondTheBound(t *testing.T) {
	inTemp(t)
	const last = "network: further attempts are not told here; the report names more of them, and counts them all"
	for _, c := range []struct {
		kinds, lines int
		args         []string
		bounded      bool
	}{
		{maxLines, maxLines, []string{"ls"}, false},
		{maxLines + 1, maxLines, []string{"ls"}, true},
		{maxLines + 500, maxLines, []string{"ls"}, true},
		{maxLines + 500, maxLines + 500, []string{"--log-network", "ls"}, false},
	} {
		var one call
		one.during = func() {
			for i := range c.kinds {
				one.io.Attempt(status.Attempt{What: fmt.Sprintf("%d.evil.test", i), Protocol: "dns", Verdict: status.AttemptBlocked, Why: "not_allowed", Count: 1})
			}
		}
		said := one.run(t, c.args...).err
		if n := strings.Count(said, "network: blocked "); n != c.lines {
			t.Errorf("%d kinds, %v: %d lines, want %d", c.kinds, c.args, n, c.lines)
		}
		if n := strings.Count(said, last); n > 1 || (n == 1) != c.bounded {
			t.Errorf("%d kinds, %v: that it is bounded is said %d times", c.kinds, c.args, n)
		}
		if strings.Contains(said, "only in the report") {
			t.Errorf("%d kinds, %v: the report is said to have all", c.kinds, c.args)
		}
	}
}
