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
	var dir *confine.DirError
	if errors.As(err, &exit) {
		err = exit.Unwrap()
	}
	fmt.Println(report.Status, errors.As(err, &usage), errors.As(err, &dir))

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
	_ = files.Symlink("f", "/tmp/d/l")
	_, _ = files.Lstat("/tmp/d/l")
	_, _ = files.Readlink("/tmp/d/l")
	_ = files.Chmod("/tmp/d/f", 0o644)
	_ = files.Rename("/tmp/d/l", "/tmp/d/m")
	var watcher confine.Watcher
	if watcher, err = files.Watch("/tmp/d", true); err == nil {
		var events []confine.FileEvent
		events, err = watcher.Next(ctx)
		for _, e := range events {
			fmt.Println(e.Op == "create", e.Name)
		}
		fmt.Println(err, watcher.Close())
	}
	_ = files.Remove("/tmp/d/f")
	var snapshot *confine.Snapshot
	if snapshot, err = box.Snapshot(ctx); err == nil {
		_, _ = confine.Open(ctx, nil, confine.WithSnapshots("."), confine.WithSnapshot(snapshot))
		_, _ = confine.OpenSnapshot(".", snapshot.ID())
		fmt.Println(box.Restore(ctx, snapshot), snapshot.Close())
	}
	_, _ = box.Fork(ctx)
	var changes *confine.Changes
	changes, err = box.Changes(ctx)
	fmt.Println(changes, err)
	_, err = box.Apply(ctx, "/a")
	var unapplied *confine.ApplyError
	fmt.Println(errors.As(err, &unapplied), errors.Is(err, unapplied.Unwrap()))
	var pool *confine.Pool
	if pool, err = confine.NewPool(ctx, policy, confine.PoolOptions{Min: 1, Max: 2, Age: time.Minute}, options...); err != nil {
		return err
	}
	_, _ = pool.Command("true").Run()
	_, _ = pool.CommandContext(ctx, "true").Run()
	if box, err := pool.Open(ctx); err == nil {
		_, _ = box.Close()
	}
	fmt.Println(errors.Is(err, confine.ErrFull))
	var stats confine.PoolStats = pool.Stats()
	fmt.Println(stats.Ready)
	pool.Close()
	var used confine.Usage
	used, err = box.Usage()
	fmt.Println(used.CPU, used.Memory, used.Tasks, used.Scratch, err, box.Network(ctx, &confine.Default().Network))
	var whole *confine.BoxReport
	whole, err = box.Close()
	fmt.Println(whole.Usage)
	return err
}
