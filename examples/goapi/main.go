// Command goapi runs the words after it under a policy, from Go, and prints how
// that ended and by what each part of the policy was held.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/confine-run/confine/confine"
)

func main() {
	// The inside of a run is this same program, started again: first thing in main.
	confine.Init()

	command := os.Args[1:]
	if len(command) == 0 {
		command = []string{"sh", "-c", "echo hello from $(uname -n)"}
	}
	policy, err := confine.Profile("standard")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	policy.TimeLimit = 5 * time.Second

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := confine.CommandContext(ctx, command[0], command[1:]...)
	cmd.Policy, cmd.Stdin, cmd.Stdout, cmd.Stderr = policy, os.Stdin, os.Stdout, os.Stderr
	// Without a report nothing was started, and the error is about what was asked for. How the run ended is in the report,
	// a sandbox that could not be built as well.
	report, err := cmd.Run()
	if report == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("%s: %s\n", report.Status, report.Reason)
	names := make([]string, 0, len(report.Enforced))
	for capability, e := range report.Enforced {
		if e.Enabled {
			names = append(names, fmt.Sprintf("%-17s %-18s %s", capability, e.Mechanism, e.Requested))
		}
	}
	sort.Strings(names)
	for _, line := range names {
		fmt.Println(line)
	}
	os.Exit(report.RC)
}
