package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

var worldWords = map[string]word{
	"world":  {1, world},  // COMMAND…
	"within": {1, within}, // the same, already in its namespaces
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
	return cmd.Run()
}

// within makes the world, runs the command and writes down what was seen.
func within(args []string) error {
	runtime.LockOSThread()
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if err := build(dir); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	// What it runs is an ordinary user's again; it is this thread that forks.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if err2 := settle(); err2 != nil {
		return fmt.Errorf("%w: %w", errBroken, err2)
	}
	if err2 := os.WriteFile(filepath.Join(dir, "seen"), seen.text(), 0o644); err2 != nil {
		return fmt.Errorf("%w: %w", errBroken, err2)
	}
	return err
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
	for _, serve := range []func() error{zone.serve, func() error { return serveWeb(ca, dir) }, serveStreams, serveDatagrams} {
		if err := serve(); err != nil {
			return err
		}
	}
	return nil
}

// The world's own addresses: what a host has on its interfaces.
var own4, own6 = netip.MustParseAddr("93.184.216.2"), netip.MustParseAddr("2606:2800:220:1::2")

// network makes every address one of lo's, as `ip route add local default dev lo` does.
func network() error {
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
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, own := range []netip.Addr{own4, own6} {
		family := byte(unix.AF_INET)
		if own.Is6() {
			family = unix.AF_INET6
		}
		address := []byte{family, byte(own.BitLen()), unix.IFA_F_PERMANENT | unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE, 1, 0, 0, 0}
		route := []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
		err := send(conn, unix.RTM_NEWADDR, address, func(e *netlink.AttributeEncoder) {
			e.Bytes(unix.IFA_LOCAL, own.AsSlice())
			e.Bytes(unix.IFA_ADDRESS, own.AsSlice())
		})
		if err == nil {
			err = send(conn, unix.RTM_NEWROUTE, route, func(e *netlink.AttributeEncoder) {
				e.Uint32(unix.RTA_OIF, 1)
				e.Bytes(unix.RTA_PREFSRC, own.AsSlice())
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func send(conn *netlink.Conn, kind netlink.HeaderType, head []byte, attributes func(*netlink.AttributeEncoder)) error {
	e := netlink.NewAttributeEncoder()
	attributes(e)
	body, err := e.Encode()
	if err != nil {
		return err
	}
	flags := netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl
	_, err = conn.Execute(netlink.Message{Header: netlink.Header{Type: kind, Flags: flags}, Data: append(head, body...)})
	return err
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
