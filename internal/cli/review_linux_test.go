package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/review"
)

func TestASignalBeforeTheCommitEndsTheApply(t *testing.T) {
	in := newInterruption(t.Context(), func(text, _ string) { t.Error(text) })
	must.Do(t, in.ctx.Err())
	in.signalled(syscall.SIGTERM)
	var interrupted *interruptedError
	err := fmt.Errorf("make: %w", context.Cause(in.ctx))
	if !errors.As(err, &interrupted) || interrupted.rc() != 143 || !strings.Contains(err.Error(), "SIGTERM: stopped before the commit, nothing was changed\nhint: ") {
		t.Errorf("%v", err)
	}
}

func TestASignalAfterTheCommitIsAnswered(t *testing.T) {
	for _, first := range []string{"signal", "commit"} {
		var said []string
		in := newInterruption(t.Context(), func(text, remedy string) { said = append(said, hint.Text(text, remedy)) })
		if first == "signal" {
			in.signalled(syscall.SIGHUP)
			in.markCommitted()
		} else {
			in.markCommitted()
			in.signalled(syscall.SIGHUP)
		}
		if len(said) != 1 || !strings.HasPrefix(said[0], "SIGHUP: the changes are committed, and are being applied to the end\nhint: ") {
			t.Errorf("%s first: %q", first, said)
		}
	}
}

func TestSignalsAreWatchedAsLongAsAnApplyLasts(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		also := make(chan os.Signal, 1)
		signal.Notify(also, syscall.SIGHUP, syscall.SIGTERM) // whatever the tests were started with (nohup)
		want := "SIGHUP: "
		if ignored {
			signal.Ignore(syscall.SIGHUP)
			want = "SIGTERM: "
		}
		said := make(chan string, 1)
		in, stop := watchSignals(t.Context(), func(s, _ string) { said <- s })
		in.markCommitted()
		err := syscall.Kill(os.Getpid(), syscall.SIGHUP)
		if ignored {
			err = errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		}
		must.Do(t, err)
		select {
		case got := <-said:
			if !strings.HasPrefix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("no %q", want)
		}
		stop()
		signal.Stop(also)
	}
}

func TestNotesOfApply(t *testing.T) {
	for want, done := range map[string]changes.Result{
		"":                                    {Applied: 3},
		"set-id bits of 1 path were left out": {Applied: 1, NoSetID: 1},
		"set-id bits of 2 paths were left out; for 1 change that was all there was":           {Applied: 1, NoSetID: 2, Nothing: 1},
		"1 file had other names (hard links), which keep the old content, as in the overlay":  {Parted: 1},
		"2 files had other names (hard links), which keep the old content, as in the overlay": {Parted: 2},
		"1 hard link became a file of its own":                                                {Copied: 1},
		"2 hard links became files of their own":                                              {Copied: 2},
	} {
		if got := strings.Join(ApplyNotes(&done), "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is protected in a tree can take as long to be found as whoever filled it likes.
func TestASignalEndsTheSearchForWhatIsProtected(t *testing.T) {
	in := newInterruption(t.Context(), nil)
	in.signalled(syscall.SIGINT)
	// The search has begun, and may be over or not: of two that are ready either is right.
	for range 1000 {
		search := review.NewProtection(in.ctx, os.Getenv, nil)
		test := search.Test(nil, nil, nil)
		err := search.Err()
		if err == nil {
			continue
		}
		if interrupted, ok := errors.AsType[*interruptedError](err); !ok || interrupted.rc() != 130 || !test("/any", changes.File) {
			t.Errorf("%v", err)
		}
		return
	}
	t.Error("it was never left")
}
