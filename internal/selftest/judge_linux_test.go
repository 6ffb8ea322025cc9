package selftest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/attempts"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func exited(s status.Status, code int) *status.Report {
	return &status.Report{Status: s, ExitCode: &code, Stderr: "attempt read: no such file (ENOENT)\n"}
}

func TestJudge(t *testing.T) {
	plain, timed := &attempt{}, &attempt{ends: []status.Status{status.Timeout}}
	for name, c := range map[string]struct {
		a    *attempt
		got  outcome
		want Outcome
	}{
		"it got through":                  {plain, outcome{report: exited(status.OK, 0)}, Failed},
		"it was refused":                  {plain, outcome{report: exited(status.Failed, attempts.Refused)}, Held},
		"it was refused, and told":        {plain, outcome{report: exited(status.SandboxDenied, attempts.Refused)}, Held},
		"it could not be tried":           {plain, outcome{report: exited(status.Failed, attempts.Broken)}, NotTestable},
		"it was killed by the filter":     {plain, outcome{report: &status.Report{Status: status.ForbiddenSyscall}}, Held},
		"it crashed":                      {plain, outcome{report: &status.Report{Status: status.KilledSignal}}, Failed},
		"it exited with something else":   {plain, outcome{report: exited(status.Failed, 1)}, Failed},
		"the sandbox could not be built":  {plain, outcome{report: &status.Report{Status: status.InternalError}}, Failed},
		"the policy was refused":          {plain, outcome{err: errors.New("no")}, Failed},
		"its time was up":                 {plain, outcome{report: &status.Report{Status: status.Timeout}}, Failed},
		"its time was up, as it should":   {timed, outcome{report: &status.Report{Status: status.Timeout}}, Held},
		"its time should have been up":    {timed, outcome{report: exited(status.OK, 0)}, Failed},
		"refused, but it left a trace":    {plain, outcome{report: exited(status.Failed, attempts.Refused), changed: "secret"}, Failed},
		"refused, but it left a process":  {plain, outcome{report: exited(status.Failed, attempts.Refused), token: "nobody has this"}, Failed},
		"it believes that it got through": {&attempt{traces: true}, outcome{report: exited(status.OK, 0)}, Held},
		"it did get through":              {&attempt{traces: true}, outcome{report: exited(status.OK, 0), changed: "x"}, Failed},
		"nothing was left":                {&attempt{leaves: true}, outcome{report: exited(status.OK, 0)}, Held},
	} {
		t.Run(name, func(t *testing.T) {
			if got, why := c.got.judge(c.a); got != c.want {
				t.Errorf("%s (%s), want %s", got, why, c.want)
			}
		})
	}
}

func TestFillNeedsEveryWordOfTheScene(t *testing.T) {
	v := values{"dir": "/a b", "port": "80", "none": ""}
	words, lacks := fill("read {dir}/x:{port} , {port}", v)
	if lacks != "" || !slices.Equal(words, []string{"read", "/a b/x:80", ",", "80"}) {
		t.Errorf("%q, lacks %q", words, lacks)
	}
	for _, template := range []string{"read {none}", "read {other}"} {
		if _, lacks := fill(template, v); lacks == "" {
			t.Errorf("%q is filled", template)
		}
	}
}

// What a change outside looks like: each has to be seen.
func TestLookSeesEveryChange(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"content":  func(d string) error { return os.WriteFile(d+"/tree/file", []byte("other"), 0o644) },
		"mode":     func(d string) error { return os.Chmod(d+"/secret", 0o777) },
		"new file": func(d string) error { return os.WriteFile(d+"/tree/.git/hooks/x", nil, 0o644) },
		"removed":  func(d string) error { return os.Remove(d + "/secret") },
		"renamed":  func(d string) error { return os.Rename(d+"/tree/.git", d+"/tree/git") },
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{dir: t.TempDir(), values: values{}}
			v, err := s.ground("g")
			must.Do(t, err)
			before, err := look(v["dir"])
			must.Do(t, err)
			must.Do(t, change(v["dir"]))
			after, err := look(v["dir"])
			if err != nil || after == before || changed(before, after) == "" {
				t.Errorf("not seen (%v):\n%s", err, after)
			}
		})
	}
}

func TestFirstLine(t *testing.T) {
	if got := firstLine("attempt read: a\nread: b\n"); got != "read: a; read: b" {
		t.Errorf("%q", got)
	}
	if got := firstLine(strings.Repeat("x", 1000)); len(got) > 200 {
		t.Errorf("%d bytes", len(got))
	}
}
