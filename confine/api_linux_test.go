package confine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
)

func TestRunGivesBytesAsTheyWere(t *testing.T) {
	policy := confine.Default()
	r, err := confine.Run(context.Background(), &policy, "printf", `\377\001`)
	if err != nil {
		t.Fatal(err)
	}
	if got := confine.Stdout(r); !bytes.Equal(got, []byte{0xff, 1}) || len(confine.Stderr(r)) != 0 {
		t.Errorf("%q, %q", got, confine.Stderr(r))
	}
}

func TestKillLeavesNothing(t *testing.T) {
	policy := confine.Default()
	run, err := confine.Start(context.Background(), &policy, &confine.Command{Argv: []string{"sleep", "1000"}}, confine.IO{Stdin: -1, Stdout: -1, Stderr: -1})
	if err != nil {
		t.Fatal(err)
	}
	run.Kill()
	select {
	case <-run.Done():
	default:
		t.Error("killed, and not done")
	}
	if r := run.Wait(); r.Status != status.KilledKill || r.Cause != status.CauseContext {
		t.Errorf("%s by %s", r.Status, r.Cause)
	}
}

func TestCancelledBeforeStartRunsNothing(t *testing.T) {
	dir := t.TempDir()
	policy := confine.Default()
	policy.Filesystem.Workdir = "rw"
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 10 {
		run, err := confine.Start(ctx, &policy, &confine.Command{Argv: []string{"touch", "made"}, Dir: dir}, confine.IO{Stdin: -1, Stdout: -1, Stderr: -1})
		if err != nil {
			t.Fatal(err)
		}
		if r := run.Wait(); r.Status != status.KilledKill || r.Cause != status.CauseContext {
			t.Errorf("%s by %s: %s", r.Status, r.Cause, r.Reason)
		}
	}
	if _, err := os.Stat(dir + "/made"); err == nil {
		t.Error("it ran")
	}
}

func TestBadWordsStartNothing(t *testing.T) {
	policy := confine.Default()
	policy.Filesystem.AllowRead = []string{"/no/such/path"}
	var usage *confine.UsageError
	if _, err := confine.Run(context.Background(), &policy, "true"); !errors.As(err, &usage) {
		t.Errorf("%v, want a usage error", err)
	}
}

func TestUnenforceableIsAReport(t *testing.T) {
	policy := confine.Default()
	policy.Isolation = "vm"
	r, err := confine.Run(context.Background(), &policy, "true")
	if err != nil || r.Status != status.InternalError || r.SetupError == nil {
		t.Errorf("%v %+v", err, r)
	}
}

func TestManyRunsLeaveNoDescriptors(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	policy := confine.Default()
	policy.TimeLimit = time.Minute
	once := func() {
		if r, err := confine.Run(context.Background(), &policy, "true"); err != nil || r.Status != status.OK {
			t.Fatal(r, err)
		}
	}
	once() // what the runtime opens for itself
	before := count()
	for range 20 {
		once()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}
