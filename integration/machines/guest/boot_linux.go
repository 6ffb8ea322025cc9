package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/integration/machines/orders"
)

// newRoot is where the disk is mounted that becomes the machine's root.
const newRoot = "/root"

// systemd's unit of the trial, and where it looks for it.
var units = map[orders.Place]struct{ dir, user, wants string }{
	orders.Service: {"/etc/systemd/system", "", "multi-user.target.wants"},
	orders.Session: {"/etc/systemd/user", orders.User, "default.target.wants"},
}

// boot is /init. It comes back with an error only.
func boot() error {
	for _, m := range []mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
		{"devtmpfs", "/dev", "devtmpfs", 0, ""},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	o, err := read(orders.File)
	if err != nil {
		return err
	}
	// No udev will do it.
	if err := os.Chmod(orders.Port, 0o666); err != nil {
		return err
	}
	if err := loadModules(o.Modules); err != nil {
		return err
	}
	if o.Place == orders.Nowhere {
		port, err := os.OpenFile(orders.Port, os.O_WRONLY, 0)
		if err == nil {
			say(port, orders.Said{Done: true})
		}
		die(err)
	}
	if err := mountDisk(); err != nil {
		return err
	}
	unit, hasSystemd := units[o.Place]
	if hasSystemd {
		if err := writeUnit(unit.dir, unit.user, unit.wants); err != nil {
			return err
		}
	}
	if err := enterDisk(); err != nil {
		return err
	}
	if hasSystemd {
		return unix.Exec("/sbin/init", []string{"/sbin/init"}, []string{"PATH=" + systemPath})
	}
	guest := orders.Payload + "/guest"
	return unix.Exec(guest, []string{guest, "host"}, environment("/root"))
}

func loadModules(files []string) error {
	for _, file := range files {
		f, err := os.Open(filepath.Join(orders.Payload, "modules", file))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("finit_module %s: %w", file, err)
		}
	}
	return nil
}

// mountDisk mounts a file of the initramfs, which is memory.
func mountDisk() error {
	const loop = "/dev/loop0"
	device, err := os.OpenFile(loop, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	disk, err := os.OpenFile(orders.Disk, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_FD, int(disk.Fd())); err != nil {
		return fmt.Errorf("LOOP_SET_FD %s: %w", loop, err)
	}
	return (mount{loop, newRoot, "ext4", 0, ""}).do()
}

// enterDisk makes the disk the root. The initramfs can't be unmounted, and the
// payload in it is shown where it belongs.
func enterDisk() error {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := (mount{dir, newRoot + dir, "", unix.MS_MOVE, ""}).do(); err != nil {
			return err
		}
	}
	// The disk is small.
	if err := (mount{"tmpfs", newRoot + "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"}).do(); err != nil {
		return err
	}
	if err := (mount{orders.Payload, newRoot + orders.Payload, "", unix.MS_BIND, ""}).do(); err != nil {
		return err
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := (mount{".", "/", "", unix.MS_MOVE, ""}).do(); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// writeUnit has systemd start the trial: the system's, or, because it lingers,
// the user's.
func writeUnit(dir, user, wants string) error {
	text := []string{"[Unit]", "Description=the trial", "[Service]", "ExecStart=" + orders.Payload + "/guest trial",
		"StandardOutput=file:" + orders.Port, "StandardError=file:" + orders.Port, "WorkingDirectory=/"}
	if user != "" {
		text = append(text, "Delegate=yes", "[Unit]", "ConditionUser="+user, "Wants=dbus.socket", "After=dbus.socket")
		linger := newRoot + "/var/lib/systemd/linger"
		if err := os.MkdirAll(linger, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(linger, user), nil, 0o644); err != nil {
			return err
		}
	}
	dir = newRoot + dir
	if err := os.MkdirAll(filepath.Join(dir, wants), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "trial.service"), []byte(strings.Join(text, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return os.Symlink("../trial.service", filepath.Join(dir, wants, "trial.service"))
}
