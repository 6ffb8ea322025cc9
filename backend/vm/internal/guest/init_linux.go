package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/backend/vm/internal/wire"
)

// Word is what the kernel starts this program with.
const Word = "__guest"

// WithRootfs is the second word where commands have a root of their own.
const WithRootfs = "rootfs"

// Rootfs is where the guest has it.
const Rootfs = "/.confine-rootfs"

// Called says whether this process is the first of a machine.
func Called(args []string) bool { return len(args) >= 2 && args[1] == Word && os.Getpid() == 1 }

const (
	// Port is the name of the serial port to the host, and Files of the one to its files.
	Port  = "confine.0"
	Files = "confine.1"

	hostRoot, newRoot = "/host", "/root"
)

// own are the guest's own directories.
var own = []string{"/proc", "/sys", "/dev"}

// The network of QEMU's own, as its manual has it.
var (
	address   = [4]byte{10, 0, 2, 15}
	netmask   = [4]byte{255, 255, 255, 0}
	gateway   = [4]byte{10, 0, 2, 2}
	resolving = "nameserver 10.0.2.3\n"
)

// Main never returns: a machine whose first process ends panics.
func Main() {
	os.Args[0] = "confine" // not "init"
	err := prepare()
	port, portErr := openPort(Port)
	if portErr != nil {
		fmt.Println("guest:", errors.Join(err, portErr))
		powerOff()
	}
	random, randomErr := unix.Open("/dev/urandom", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	err = errors.Join(err, randomErr)
	g := newAgent(port, random)
	var name unix.Utsname
	_ = unix.Uname(&name)
	hello := wire.Greeting{Version: wire.Version, Release: unix.ByteSliceToString(name.Release[:])}
	if err == nil {
		g.host, err = enterRoot(slices.Contains(os.Args[2:], WithRootfs))
	}
	if err != nil {
		hello.Failed = err.Error()
	}
	_ = g.to.SendMessage(wire.Hello, 0, &hello)
	fmt.Println("guest:", g.serve(port))
	powerOff()
}

// powerOff ends QEMU, which has been told not to boot again.
func powerOff() {
	unix.Sync()
	for {
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
		time.Sleep(time.Second)
	}
}

// prepare makes what is needed to say anything.
func prepare() error {
	for _, m := range []mount{
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, ""},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
		{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx"} { // no udev will do it
		if err := os.Chmod("/dev/"+name, 0o666); err != nil {
			return err
		}
	}
	return loadModules()
}

// compressed is MODULE_INIT_COMPRESSED_FILE: the kernel unpacks it, since 5.17.
const compressed = 4

func loadModules() error {
	text, err := os.ReadFile(keeper.Modules + "/order")
	if err != nil {
		return err
	}
	var files []string
	if err := json.Unmarshal(text, &files); err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(filepath.Join(keeper.Modules, name))
		if err != nil {
			return err
		}
		flags := 0
		if filepath.Ext(name) != ".ko" {
			flags = compressed
		}
		err = unix.FinitModule(int(f.Fd()), "", flags)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("finit_module %s: %w", name, err)
		}
	}
	return nil
}

// portTime is how long QEMU may take to tell the driver of its ports, which it does when that has begun.
const portTime = 30 * time.Second

// openPort finds the port by its name.
func openPort(named string) (*os.File, error) {
	for began := time.Now(); time.Since(began) < portTime; time.Sleep(time.Millisecond) {
		const class = "/sys/class/virtio-ports"
		ports, err := os.ReadDir(class)
		if err != nil {
			return nil, err
		}
		for _, p := range ports {
			name, err := os.ReadFile(filepath.Join(class, p.Name(), "name"))
			if err == nil && string(bytes.TrimSpace(name)) == named {
				return os.OpenFile("/dev/"+p.Name(), os.O_RDWR, 0)
			}
		}
	}
	return nil, errors.New("the machine has no port " + named)
}

// enterRoot makes a root directory of the host's files and the guest's own /proc, /sys and /dev. The host's root may lack these, and can't be
// written to; so the root is a tmpfs, where all that the host's has is mounted one by one.
func enterRoot(rootfs bool) (*relayed, error) {
	port, err := openPort(Files)
	if err != nil {
		return nil, err
	}
	host, err := mountHost(port, hostRoot)
	if err != nil {
		return nil, err
	}
	if err := (mount{"tmpfs", newRoot, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"}).do(); err != nil {
		return host, err
	}
	if rootfs {
		if err := (mount{hostRoot, newRoot + Rootfs, "", unix.MS_BIND, ""}).do(); err != nil {
			return host, err
		}
	}
	return host, enterNewRoot()
}

func enterNewRoot() error {
	for _, dir := range own {
		if err := (mount{dir, newRoot + dir, "", unix.MS_MOVE, ""}).do(); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(hostRoot)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := "/" + e.Name(); !slices.Contains(own, name) {
			if err := showHosts(name, e.Type()); err != nil {
				return err
			}
		}
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
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// What this process itself needs for a while is none of the host's business.
	if err := os.Mkdir("/dev/shm/own", 0o755); err != nil {
		return err
	}
	return errors.Join(os.Setenv("TMPDIR", "/dev/shm/own"), os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), loopbackUp())
}

// showHosts shows an entry of the host's root.
func showHosts(name string, is fs.FileMode) error {
	switch {
	case is.IsDir():
		return mount{hostRoot + name, newRoot + name, "", unix.MS_BIND | unix.MS_REC, ""}.do()
	case is&fs.ModeSymlink != 0:
		to, err := os.Readlink(hostRoot + name)
		if err != nil {
			return err
		}
		return os.Symlink(to, newRoot+name)
	case is.IsRegular():
		if err := os.WriteFile(newRoot+name, nil, 0o644); err != nil {
			return err
		}
		return mount{hostRoot + name, newRoot + name, "", unix.MS_BIND, ""}.do()
	}
	return nil
}

// mount is the words of mount(2).
type mount struct {
	from, to, kind string
	flags          uintptr
	data           string
}

func (m mount) do() error {
	if _, err := os.Lstat(m.to); err != nil {
		if err := os.MkdirAll(m.to, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(m.from, m.to, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %q of type %q at %q: %w", m.from, m.kind, m.to, err)
	}
	return nil
}

func loopbackUp() error {
	return withSocket(func(fd int) error { return setFlags(fd, "lo") })
}

// networkUp gives the card its address, and says where names are asked for.
func networkUp() error {
	card, err := cardName()
	if err != nil {
		return err
	}
	err = withSocket(func(fd int) error {
		if err := setAddress(fd, unix.SIOCSIFADDR, card, address); err != nil {
			return err
		}
		if err := setAddress(fd, unix.SIOCSIFNETMASK, card, netmask); err != nil {
			return err
		}
		if err := setFlags(fd, card); err != nil {
			return err
		}
		return defaultRoute(fd)
	})
	if err != nil {
		return err
	}
	const ours, shown = "/dev/shm/own/resolv.conf", "/etc/resolv.conf"
	if err := os.WriteFile(ours, []byte(resolving), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat(shown); err != nil {
		return nil // the policy shows none
	}
	return mount{ours, shown, "", unix.MS_BIND, ""}.do()
}

func cardName() (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range all {
		if strings.HasPrefix(i.Name, "e") {
			return i.Name, nil
		}
	}
	return "", errors.New("the machine has no network card")
}
