package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/integration/machines/orders"
)

// prepareHost is PID 1 where no systemd is.
func prepareHost(o *orders.Orders) error {
	if err := mountAll(o.Cgroups); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("machine")); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	for name, value := range o.Sysctls {
		file := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			return err
		}
	}
	// What a test puts its own in the place of has to be there.
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	port, err := os.OpenFile(orders.Port, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	guest := orders.Payload + "/guest"
	cmd := exec.Command(guest, "trial")
	if o.Place == orders.Container {
		cmd, err = inContainer()
		if err != nil {
			return err
		}
	}
	cmd.Stdout, cmd.Stderr = port, os.Stderr
	cmd.Env = environment("/root")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if o.UID != 0 {
		cmd.Env = environment("/home/" + orders.User)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.UID)}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	status, err := reapUntil(cmd.Process.Pid)
	if err == nil && status != 0 {
		err = fmt.Errorf("the trial ended with wait status %#x", int(status))
	}
	return err
}

// reapUntil waits for everything that lost its parent, until the one is done.
func reapUntil(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		switch got, err := unix.Wait4(-1, &status, 0, nil); {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case got == pid:
			return status, nil
		}
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// inContainer is the trial under the bundle's configuration. The container's
// root is the host's, without what is mounted in it.
func inContainer() (*exec.Cmd, error) {
	bundle := "/run/bundle"
	if err := (mount{"/", bundle + "/rootfs", "", unix.MS_BIND, ""}).do(); err != nil {
		return nil, err
	}
	config, err := os.ReadFile(orders.Payload + "/config.json")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o644); err != nil {
		return nil, err
	}
	crun, err := exec.LookPath("/usr/bin/crun")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the root file system has no crun: %w", err)
	}
	return exec.Command(crun, "run", "--bundle", bundle, "trial"), err
}
