package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

var worldWords = []attempts.Try{
	{Name: "world", Args: 1, Do: world},   // COMMAND…
	{Name: "within", Args: 1, Do: within}, // the same, already in its namespaces
}

// world begins again in namespaces of its own.
func world(args []string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{"within"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		// An ordinary user loses by execve what the namespace gave.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE}
	}
	cmd.SysProcAttr = attr
	runtime.LockOSThread() // Pdeathsig is about this thread
	return ownCode(cmd.Run())
}

// within makes the world, runs the command and writes down what was seen.
func within(args []string) error {
	runtime.LockOSThread()
	// By hand it would change the network and the mounts of whoever tries it.
	own, err := os.Readlink("/proc/self/ns/net")
	if parent, err2 := os.Readlink("/proc/" + strconv.Itoa(os.Getppid()) + "/ns/net"); err != nil || err2 == nil && parent == own {
		return fmt.Errorf("%w: it is not in namespaces of its own", attempts.ErrBroken)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	if err := build(dir); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	// What it runs is an ordinary user's again; it is this thread that forks.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	for _, h := range hosts {
		if err2 := h.do(h.settle); err2 != nil {
			return fmt.Errorf("%w: %w", attempts.ErrBroken, err2)
		}
	}
	if err2 := os.WriteFile(filepath.Join(dir, "seen"), seen.text(), 0o644); err2 != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err2)
	}
	return ownCode(err)
}

func build(dir string) error {
	if err := network(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := files(dir); err != nil {
		return err
	}
	zone, err := readZone(filepath.Join(dir, "names"))
	if err != nil {
		return err
	}
	ca, err := newAuthority(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return err
	}
	for _, serve := range []func() error{
		zone.serve, func() error { return serveWeb(ca, dir) }, func() error { return serveStreams(ca) }, serveDatagrams,
	} {
		for _, h := range hosts {
			if err := h.do(serve); err != nil {
				return err
			}
		}
	}
	return nil
}

// files puts the world's own over those by which names are resolved.
func files(dir string) error {
	hosts, err := os.ReadFile(filepath.Join(dir, "hosts"))
	if err != nil {
		hosts = []byte("127.0.0.1 localhost\n::1 localhost\n")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	scratch, err := os.MkdirTemp("", "world")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	for name, text := range map[string]string{
		"resolv.conf": "nameserver 127.0.0.53\noptions timeout:5 attempts:1\n", "hosts": string(hosts), "nsswitch.conf": "hosts: files dns\n",
	} {
		path := filepath.Join(scratch, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
		// Where /etc/resolv.conf is a link, what it leads to is meant.
		if err := unix.Mount(path, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over /etc/%s: %w", name, err)
		}
	}
	return nil
}
