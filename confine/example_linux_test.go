package confine_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/confine-run/confine/confine"
)

// The inside of a run is the same binary: this is the line that main needs.
func TestMain(m *testing.M) {
	confine.Init()
	os.Exit(m.Run())
}

func ExampleRun() {
	policy, err := confine.Profile("standard")
	if err != nil {
		fmt.Println(err)
		return
	}
	policy.TimeLimit = 10 * time.Second
	report, err := confine.Run(context.Background(), &policy, "sh", "-c", "echo hello; exit 3")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %d %q\n", report.Status, *report.ExitCode, report.Stdout)
	// Output: FAILED 3 "hello\n"
}

// A policy with no profile: nothing is limited, and nothing of the caller's is
// visible but the system.
func ExamplePolicy() {
	policy := confine.Policy{Seccomp: "default", SeccompAction: "errno", FileDescriptors: 64}
	policy.Filesystem.TempDir = true
	report, err := confine.Run(context.Background(), &policy, "sh", "-c", "ulimit -n; ls /sys 2>/dev/null | wc -l")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report.Stdout)
	// Output:
	// 64
	// 0
}

// Cancelling the context kills everything inside.
func ExampleStart() {
	policy := confine.Default()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	run, err := confine.Start(ctx, &policy, &confine.Command{Argv: []string{"sleep", "1000"}}, confine.IO{
		Stdin: -1, Stdout: -1, Stderr: -1,
		Started: func() { close(started) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-started
	cancel()
	report := run.Wait()
	fmt.Println(report.Status, report.Cause)
	// Output: KILLED_KILL context
}
