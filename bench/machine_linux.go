package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/initramfs"
)

// Names of peers that are machines.
const (
	plainQEMU   = "plain QEMU, to a Go init"
	machineBoot = "confine --isolation vm"
	machineBack = "a restore, to the end of a command"
	machineFork = "a fork"
	machinePool = "a claim from a pool, to the end of a command"
)

// firstWord is what this program is started with as the first of a machine.
const firstWord = "first"

// first ends a machine.
func first() {
	for {
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
		time.Sleep(time.Second)
	}
}

// machine boots machines of the kernel VMKERNEL, of 512 MiB, on emulated CPUs, and has them go on.
func machine(b *bench) ([]peer, error) {
	kernel, qemu := os.Getenv("VMKERNEL"), "/usr/bin/qemu-system-x86_64"
	if _, err := os.Stat(qemu); kernel == "" || err != nil {
		return nil, nil
	}
	alone, err := plain(b, qemu, kernel)
	if err != nil {
		return nil, err
	}
	keeper, own := filepath.Join(filepath.Dir(b.confine), "confine-vm"), ""
	if own, err = os.Executable(); err != nil {
		return nil, err
	}
	beside := filepath.Join(filepath.Dir(own), "confine-vm")
	if beside != keeper { // a machine of this program's looks for it beside this program
		text, err := os.ReadFile(keeper)
		if err := errors.Join(err, os.WriteFile(beside, text, 0o755)); err != nil {
			return nil, err
		}
		b.undo = append(b.undo, func() { _ = os.Remove(beside) })
	}
	policy, err := b.profileOf()
	if err != nil {
		return nil, err
	}
	policy.Isolation, policy.VMKernel, policy.MemoryLimit, policy.TimeLimit, policy.CPUTime = "vm", kernel, 512<<20, time.Minute, 0
	ctx := context.Background()
	box, err := confine.Open(ctx, policy, confine.WithSnapshots(filepath.Join(b.scratch, "snapshots")))
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, func() { _, _ = box.Close() })
	if e := box.Ledger()["isolation"]; e.Mechanism != "qemu-tcg" {
		return nil, errors.New("here machines boot by KVM, and plain QEMU is measured emulated")
	}
	runs := func(box *confine.Sandbox) error {
		_, err := box.Command(target).Run()
		return err
	}
	if err := runs(box); err != nil {
		return nil, err
	}
	kept, err := box.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	timed := func(name string, open func() (*confine.Sandbox, error), then func(*confine.Sandbox) error) peer {
		return peer{name, func() (r reading, err error) {
			began := time.Now()
			made, err := open()
			if err == nil {
				err = then(made)
				r.value = milliseconds(time.Since(began))
				_, closeErr := made.Close()
				err = errors.Join(err, closeErr)
			}
			return r, err
		}}
	}
	pool, err := confine.NewPool(ctx, policy, confine.PoolOptions{Min: 2, Max: 2})
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, pool.Close)
	return []peer{
		b.timed(plainQEMU, alone), b.timed(machineBoot, b.confined("-p standard --isolation vm --memory-limit 512M --vm-kernel "+kernel, target)),
		timed(machineBack, func() (*confine.Sandbox, error) { return confine.Open(ctx, policy, confine.WithSnapshot(kept)) }, runs),
		timed(machineFork, func() (*confine.Sandbox, error) { return box.Fork(ctx) }, func(*confine.Sandbox) error { return nil }),
		timed(machinePool, func() (*confine.Sandbox, error) { return pool.Open(ctx) }, runs).after(func() error { return full(readyOf(pool), 2) }),
	}, nil
}

// plain is QEMU with the same kernel, and this program as all that there is in the machine.
func plain(b *bench, qemu, kernel string) (command, error) {
	var archive bytes.Buffer
	program, err := os.ReadFile(b.self)
	if err != nil {
		return command{}, err
	}
	a := initramfs.To(&archive)
	a.File("init", 0o755, program)
	name := filepath.Join(b.scratch, "initramfs")
	if err := errors.Join(a.End(), os.WriteFile(name, archive.Bytes(), 0o600)); err != nil {
		return command{}, err
	}
	return command{argv: []string{qemu, "-M", "q35,usb=off,vmport=off,hpet=off", "-accel", "tcg,thread=single,tb-size=128", "-cpu", "max", "-m", "512M", "-nodefaults", "-no-user-config", "-display", "none",
		"-no-reboot", "-kernel", kernel, "-initrd", name, "-append", "quiet panic=-1 reboot=t mitigations=off -- " + insideWord + " " + firstWord}}, nil
}
