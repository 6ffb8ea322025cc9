// A program that uses all of package confine, to be compiled for every system.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/confine/confinetest"
)

func main() {
	confine.Init()
	if err := use(context.Background()); err != nil {
		fmt.Println(err)
	}
}

func use(ctx context.Context) error {
	policy, err := confine.Profile(confine.Profiles()[0])
	if err != nil {
		return err
	}
	*policy = confine.Policy{
		Network:    confine.Network{Allow: []string{"example.org"}},
		Filesystem: confine.Filesystem{Mounts: []confine.Mount{{Src: "/srv", Dst: "/data"}}},
		Env:        confine.Env{Pass: []string{"LANG"}},
		User:       &confine.User{UID: 1, GID: 1},
	}
	var cmd *confine.Cmd = confine.CommandContext(ctx, "true")
	*cmd = *confine.Command("sh", "-c", "true")
	var out bytes.Buffer
	cmd.Policy, cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = policy, ".", []string{"A=b"}, os.Stdin, &out, &out
	cmd.TTY, cmd.Limits, cmd.Backend = &confine.WinSize{Rows: 24, Cols: 80}, confine.Limits{Time: time.Second, Output: 1 << 20}, &confinetest.Backend{}
	if err := cmd.Start(); err != nil {
		return err
	}
	var process *confine.Process = cmd.Process
	_ = process.Resize(confine.WinSize{Rows: 1, Cols: 1})
	_ = process.Signal(os.Interrupt)
	_ = process.Kill()
	var report *confine.Report
	report, err = cmd.Wait()
	var exit *confine.ExitError
	var usage *confine.UsageError
	if errors.As(err, &exit) {
		err = exit.Unwrap()
	}
	fmt.Println(report.Status, errors.As(err, &usage))

	options := []confine.Option{confine.WithDir("."), confine.WithCommand("sh"), confine.WithBackend(&confinetest.Backend{})}
	var box *confine.Sandbox
	if box, err = confine.Open(ctx, confine.Default(), options...); err != nil {
		return err
	}
	fmt.Println(box.Ledger())
	_, _ = box.CommandContext(ctx, "true").Run()
	_, _, _ = box.Command("true").Output()
	_, _, _ = box.Command("true").CombinedOutput()
	var files confine.Files = box.Files()
	_ = files.Mkdir("/tmp/d", 0o700)
	_ = files.WriteFile("/tmp/d/f", nil, 0o600)
	_, _ = files.ReadFile("/tmp/d/f")
	_, _ = files.Open("/tmp/d/f")
	_, _ = files.Create("/tmp/d/f", 0o600)
	_, _ = files.Stat("/tmp")
	_, _ = files.List("/tmp")
	_ = files.Remove("/tmp/d/f")
	var snapshot *confine.Snapshot
	if snapshot, err = box.Snapshot(ctx); err == nil {
		fmt.Println(snapshot.ID(), box.Restore(ctx, snapshot), snapshot.Close())
	}
	var used confine.Usage
	used, err = box.Usage()
	fmt.Println(used.CPU, used.Memory, used.Tasks, used.Scratch, err, box.Network(ctx, &confine.Default().Network))
	var whole *confine.BoxReport
	whole, err = box.Close()
	fmt.Println(whole.Usage)
	return err
}
