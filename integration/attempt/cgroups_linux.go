package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

var cgroupTries = []attempts.Try{
	{Name: "no-cgroups", Args: 1, Do: noCgroups},     // COMMAND…: on a host that shows it no cgroups
	{Name: "memfd", Args: 2, Do: memfd},              // MIB SECONDS: written, mapped by nobody
	{Name: "shared", Args: 3, Do: shared},            // N MIB SECONDS: the same memory, in N children at once
	{Name: "touch-shared", Args: 2, Do: touchShared}, // MIB SECONDS: what descriptor 3 holds
}

// noCgroups hides the cgroup file systems, in a mount namespace, and the way to
// ask systemd for a cgroup.
func noCgroups(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	points, err := cgroupMounts()
	if err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	runtime.LockOSThread()
	if os.Geteuid() != 0 {
		// A program with threads can't enter a user namespace: another makes it for us.
		return fmt.Errorf("%w: %w", attempts.ErrBroken, inUserns(args))
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("%w: unshare: %w", attempts.ErrBroken, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: mount: %w", attempts.ErrBroken, err)
	}
	for _, point := range append(points, "/run/systemd") {
		if err := unix.Mount("none", point, "tmpfs", unix.MS_RDONLY, "size=4k"); err != nil && err != unix.ENOENT {
			return fmt.Errorf("%w: mount over %s: %w", attempts.ErrBroken, point, err)
		}
	}
	_ = os.Unsetenv("XDG_RUNTIME_DIR")
	_ = os.Unsetenv("DBUS_SESSION_BUS_ADDRESS")
	return fmt.Errorf("%w: %w", attempts.ErrBroken, unix.Exec(path, args, os.Environ()))
}

// inUserns begins again as root of a user namespace, and what it starts is the
// caller again in another.
func inUserns(args []string) error {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	back := []string{"unshare", "--user", fmt.Sprintf("--map-user=%d", os.Geteuid()), fmt.Sprintf("--map-group=%d", os.Getegid())}
	argv := append([]string{"unshare", "--user", "--map-root-user", self, "no-cgroups"}, append(back, args...)...)
	return unix.Exec(unshare, argv, os.Environ())
}

// cgroupMounts are where cgroup file systems are mounted.
func cgroupMounts() (points []string, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		left, right, _ := strings.Cut(lines.Text(), " - ")
		if strings.HasPrefix(right, "cgroup") {
			points = append(points, strings.Fields(left)[4])
		}
	}
	return points, nil
}

func memfd(args []string) error {
	n := attempts.Numbers(args)
	fd, err := unix.MemfdCreate("attempt", 0)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for range n[0] {
		if _, err := unix.Write(fd, block); err != nil {
			return err
		}
	}
	fmt.Println("written")
	return attempts.Sleep(args[1:])
}

// shared lets children touch what all of them share.
func shared(args []string) error {
	n := attempts.Numbers(args)
	fd, err := unix.MemfdCreate("attempt", 0)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, n[1]<<20); err != nil {
		return err
	}
	return children(n[0], func() *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "touch-shared", args[1], args[2])
		cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "memory")}
		return cmd
	})
}

func touchShared(args []string) error {
	n := attempts.Numbers(args)
	b, err := unix.Mmap(3, 0, int(n[0])<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i]++
	}
	return attempts.Sleep(args[1:])
}

// children runs n commands at once, and waits for all of them.
func children(n int64, make func() *exec.Cmd) error {
	var all []*exec.Cmd
	for range n {
		cmd := make()
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	return nil
}
