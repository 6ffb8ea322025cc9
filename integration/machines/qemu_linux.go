package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/integration/machines/orders"
)

// The ways to run a machine. Emulated CPUs take turns in one thread: with a thread
// each, one now and then runs into what another is writing, where the kernel
// patches its own code ("Oops: int3"). Their clock counts instructions, four
// nanoseconds each, and jumps where there is nothing to do: so the scripts, all of
// which measure time, don't see how slow emulation is, nor what else the host does. While a
// machine waited for a disk of the host's there would be nothing to do, and minutes
// would pass in it: so its disk is in its memory.
var (
	emulated = []string{"-accel", "tcg,thread=single,tb-size=256", "-icount", "shift=2,sleep=off", "-cpu", "max,erms=off,fsrm=off"}
	virtual  = []string{"-accel", "kvm", "-cpu", "host"}
)

// guest is a machine to be booted.
type guest struct {
	way              []string // to run it
	image, initramfs string   // files
	cpus             int
	limit            time.Duration
	each             func(orders.Said)

	console string        // what the kernel, and everybody who had no better place, wrote
	cpu     time.Duration // what it took
}

// boot runs a machine until it has said everything, and ends it. Its directory
// is for what QEMU needs meanwhile.
func (g *guest) boot(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	answers := filepath.Join(dir, "answers")
	listener, err := net.Listen("unix", answers)
	if err != nil {
		return err
	}
	defer listener.Close()
	// What works around faults of real CPUs only takes time.
	kernelWords := "console=ttyS0 quiet panic=-1 reboot=t mitigations=off systemd.show_status=0"
	args := append([]string{"-M", "q35", "-m", "1536M", "-smp", strconv.Itoa(g.cpus), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", g.image, "-initrd", g.initramfs, "-append", kernelWords,
		"-chardev", "stdio,id=console", "-serial", "chardev:console",
		"-chardev", "socket,id=answers,path=" + answers, "-serial", "chardev:answers"}, g.way...)
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return err
	}
	heard := make(chan error, 1)
	go func() {
		err := listen(listener, g.each)
		cancel() // all is said, or nothing more will be
		heard <- err
	}()
	waitErr := cmd.Wait()
	// The way it ended is that of the first who did: the last answer, or the time.
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	listener.Close()
	err = <-heard
	g.console, g.cpu = log.String(), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	switch {
	case timedOut:
		return fmt.Errorf("it was not done within %v", g.limit)
	case err != nil && waitErr != nil:
		return fmt.Errorf("%w; qemu-system-x86_64: %w", err, waitErr)
	}
	return err
}

// listen takes the answers until the last one.
func listen(l net.Listener, each func(orders.Said)) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var s orders.Said
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return fmt.Errorf("an answer that is none: %q", lines.Text())
		}
		each(s)
		if s.Done || s.Failed != "" {
			return nil
		}
	}
	return errors.Join(lines.Err(), errors.New("the machine ended"))
}
