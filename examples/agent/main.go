// Command agent is the loop of a program that runs what a language model proposes: it reads steps, one command of the shell a line, and runs
// them in one sandbox that sees the current directory through an overlay. A step that fails is taken back. At the end it shows
// what was changed, and with -apply copies it to the directory. agent.sh is the same with "confine session".
//
//	printf '%s\n' 'echo hello >greeting' 'rm -rf . ; false' | go run ./examples/agent -apply
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/confine-run/confine/confine"
)

func main() {
	confine.Init() // the inside of a sandbox is this same program, started again
	apply := flag.Bool("apply", false, "copy what was changed to the current directory")
	flag.Parse()
	if err := loop(context.Background(), *apply); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func loop(ctx context.Context, apply bool) error {
	policy := confine.Default()
	policy.TimeLimit = time.Minute // of each step
	policy.Filesystem.Workdir, policy.Filesystem.WorkdirAsked = "overlay", true
	box, err := confine.Open(ctx, policy, confine.WithCommand("sh"))
	if err != nil {
		return err
	}
	defer box.Close()
	for steps := bufio.NewScanner(os.Stdin); steps.Scan(); {
		if err := try(ctx, box, steps.Text()); err != nil {
			return err
		}
	}
	changes, err := box.Changes(ctx)
	if err != nil {
		return err
	}
	for kind, paths := range map[string][]string{"added": changes.Added, "modified": changes.Modified, "deleted": changes.Deleted} {
		for _, path := range paths {
			fmt.Println(kind, path)
		}
	}
	if !apply {
		return nil
	}
	n, err := box.Apply(ctx)
	if err == nil {
		fmt.Println("applied", n)
	}
	return err
}

// try runs a step. What a step that fails has left is not there for the next one.
func try(ctx context.Context, box *confine.Sandbox, step string) error {
	before, err := box.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer before.Close()
	out, report, err := box.Command("sh", "-c", step).CombinedOutput()
	if report == nil {
		return err
	}
	// This is what a model would be told.
	fmt.Printf("%s: %s, %d ms\n%s", step, report.Status, report.DurationMS, out)
	if err == nil {
		return nil
	}
	fmt.Println("taken back")
	return box.Restore(ctx, before)
}
