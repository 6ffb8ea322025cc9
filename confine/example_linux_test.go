package confine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/confine"
)

// The inside of a run is the test binary, started again.
func TestMain(m *testing.M) {
	confine.Init()
	os.Exit(m.Run())
}

func ExampleCmd_Output() {
	cmd := confine.Command("sh", "-c", "echo hello; exit 3")
	cmd.Policy, _ = confine.Profile("standard")
	cmd.Policy.TimeLimit = 10 * time.Second
	out, report, err := cmd.Output()
	var exit *confine.ExitError
	fmt.Printf("%q %s %d %t\n", out, report.Status, *report.ExitCode, errors.As(err, &exit))
	// Output: "hello\n" FAILED 3 true
}

// A policy with no profile: nothing is limited, and nothing of the caller's is
// visible but the system.
func ExamplePolicy() {
	policy := &confine.Policy{Seccomp: "default", SeccompAction: "errno", FileDescriptors: 64}
	policy.Filesystem.TempDir = true
	cmd := confine.Command("sh", "-c", "ulimit -n; ls /sys 2>/dev/null | wc -l")
	cmd.Policy = policy
	out, _, err := cmd.CombinedOutput()
	fmt.Print(string(out), err)
	// Output:
	// 64
	// 0
	// <nil>
}

// Cancelling the context kills everything inside.
func ExampleCommandContext() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	report, _ := confine.CommandContext(ctx, "sleep", "1000").Run()
	fmt.Println(report.Status, report.Cause)
	// Output: KILLED_KILL context
}

// A sandbox holds files and processes from one command to the next.
func ExampleOpen() {
	box, err := confine.Open(context.Background(), confine.Default(), confine.WithCommand("sh"))
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	if err := box.Files().WriteFile("/tmp/numbers", []byte("3\n1\n2\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	if _, err := box.Command("sort", "-o", "/tmp/sorted", "/tmp/numbers").Run(); err != nil {
		log.Fatal(err)
	}
	cmd := box.Command("tr", "\n", " ")
	cmd.Stdin = strings.NewReader("sorted: ")
	out, _, _ := cmd.Output()
	sorted, _ := box.Files().ReadFile("/tmp/sorted")
	fmt.Printf("%s%s", out, sorted)
	// Output: sorted: 1
	// 2
	// 3
}

// A pool has sandboxes ready before they are asked for.
func ExampleNewPool() {
	policy, _ := confine.Profile("standard")
	policy.Filesystem.Workdir = "none" // nothing of the current directory is visible
	pool, err := confine.NewPool(context.Background(), policy, confine.PoolOptions{Min: 2, Max: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	for _, word := range []string{"one", "two"} {
		cmd := pool.Command("sh", "-c", "ls /tmp | wc -l; touch /tmp/mine; cat")
		cmd.Stdin = strings.NewReader(word)
		out, _, err := cmd.Output()
		fmt.Printf("%q %v\n", out, err)
	}
	// Output:
	// "0\none" <nil>
	// "0\ntwo" <nil>
}
