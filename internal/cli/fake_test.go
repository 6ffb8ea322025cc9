package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/selftest"
	"github.com/confine-run/confine/status"
)

// fake is an engine that runs nothing and remembers what it was asked.
type fake struct {
	argv     []string
	resolved *config.Resolved
	io       RunIO

	report  *status.Report // what Run gives; nil: OK
	err     error
	during  func() // while the target would run
	plan    *Explanation
	planErr error
	checks  []host.Result
	results []selftest.Result
}

func (f *fake) engine() Engine {
	return Engine{
		Run: func(_ context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
			f.argv, f.resolved, f.io = argv, r, io
			if io.Planned != nil {
				io.Planned(f.explanation(argv))
			}
			if f.err != nil {
				return f.report, f.err
			}
			if io.Started != nil {
				io.Started()
			}
			if f.during != nil {
				f.during()
			}
			if f.report != nil {
				return f.report, nil
			}
			return &status.Report{Status: status.OK, Cause: status.CauseExit, Cmd: argv, TraceID: io.TraceID}, nil
		},
		Explain: func(_ context.Context, r *config.Resolved, argv []string) (*Explanation, error) {
			f.argv, f.resolved = argv, r
			return f.explanation(argv), f.planErr
		},
		Doctor: func(context.Context) ([]host.Result, error) {
			if f.checks == nil {
				return nil, errors.New("no host")
			}
			return f.checks, nil
		},
		Selftest: func(_ context.Context, r *config.Resolved) ([]selftest.Result, error) {
			f.resolved = r
			if f.results == nil {
				return nil, errors.New("nothing can be tried")
			}
			return f.results, nil
		},
	}
}

func (f *fake) explanation(argv []string) *Explanation {
	if f.plan != nil {
		return f.plan
	}
	return &Explanation{Command: CommandInfo{Argv: argv}, Profile: "default"}
}

// result is what one call of the command line did.
type result struct {
	rc       int
	out, err string
	fake     *fake
}

// call is the command line in a fresh directory, with a fresh home.
type call struct {
	fake
	environ []string
	out     func([]byte) error
}

func (c *call) run(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	home := t.TempDir()
	p := Process{
		Args:    args,
		Environ: append([]string{"HOME=" + home, "PATH=/usr/bin:/bin"}, c.environ...),
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Out: func(b []byte) error { out.Write(b); return nil },
		Err: func(b []byte) error { errs.Write(b); return nil },
	}
	if c.out != nil {
		p.Out = c.out
	}
	rc := p.Main(t.Context(), c.engine())
	return result{rc, out.String(), errs.String(), &c.fake}
}

// inTemp changes to a fresh directory.
func inTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	t.Chdir(dir)
	return dir
}

// nothingStarted checks that a mistake was said, and stayed one.
func nothingStarted(t *testing.T, r result) {
	t.Helper()
	if r.rc != 125 {
		t.Errorf("exit code %d, want 125", r.rc)
	}
	if r.fake.argv != nil {
		t.Errorf("%q was started", r.fake.argv)
	}
	if r.err == "" {
		t.Error("nothing was said")
	}
	for line := range strings.Lines(r.err) {
		if !strings.HasPrefix(line, prefix) {
			t.Errorf("line %q has no prefix", line)
		}
	}
	if r.out != "" {
		t.Errorf("stdout: %q", r.out)
	}
}
