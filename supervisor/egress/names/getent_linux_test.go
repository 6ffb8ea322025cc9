package names

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// insideVar has this test's own binary be the inside of namespaces, where port 53 and
// resolv.conf are its own; it is the directory to write to.
const insideVar = "NAMES_TEST_INSIDE"

var getents = []struct{ args, want string }{
	{"ahostsv4 WWW.example.org", first4 + " STREAM"}, {"ahostsv6 www.example.org", first6 + " STREAM"},
	{"ahosts www.example.org", first6}, {"hosts www.example.org", first6 + " www.example.org"},
	{"hosts " + first4, first4 + " www.example.org"}, {"hosts " + first6, first6 + " www.example.org"},
	{"ahosts localhost", "127.0.0.1"}, {"ahosts x.localhost", "::1"}, {"ahosts gone.example.org", ""}, {"ahosts evil.com", ""},
	{"hosts 203.0.113.7", ""}, {"ahosts x.example.net", ""},
}

// The C library is what most programs ask by.
func TestTheCLibraryUnderstands(t *testing.T) {
	if dir := os.Getenv(insideVar); dir != "" {
		askTheCLibrary(t, dir)
		return
	}
	if _, err := exec.LookPath("getent"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestTheCLibraryUnderstands$", "-test.v")
	cmd.Env = append(os.Environ(), insideVar+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, started := err.(*exec.ExitError); err != nil && !started {
		t.Skip("no namespaces: ", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func askTheCLibrary(t *testing.T, dir string) {
	if err := loopbackUp(); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"/etc/resolv.conf": "nameserver 127.0.0.1\n", "/etc/nsswitch.conf": "hosts: files dns\n", "/etc/hosts": "127.0.0.1 localhost\n",
	} {
		own := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(own, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(own, path, "", unix.MS_BIND, ""); err != nil {
			t.Fatalf("mount %s: %v", path, err)
		}
	}
	s, log := newServer()
	serve(t, s, "127.0.0.1:53")
	for _, c := range getents {
		out, err := exec.Command("getent", strings.Fields(c.args)...).CombinedOutput()
		text := strings.Join(strings.Fields(string(out)), " ")
		if c.want == "" != (err != nil) || !strings.Contains(text, c.want) || c.want == "" && text != "" {
			t.Errorf("getent %s: %v\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
	for _, refused := range strings.Split(log.String(), "; ") {
		if !strings.HasPrefix(refused, "evil.com ") {
			t.Errorf("told %q", refused)
		}
	}
	t.Log("told: ", log)
}

// loopbackUp gives the loopback device the sandbox's own addresses too, without which
// AI_ADDRCONFIG has the C library ask for nothing: it takes no notice of 127.0.0.1 and ::1.
func loopbackUp() error {
	const ipv6AddressSize = 24 // struct in6_ifreq
	own := HostAddresses()
	v4, v6 := own.V4.As4(), own.V6.As16()
	up, _ := unix.NewIfreq("lo")
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	alias, _ := unix.NewIfreq("lo:1")
	if err := alias.SetInet4Addr(v4[:]); err != nil {
		return err
	}
	request := binary.NativeEndian.AppendUint32(append(make([]byte, 0, ipv6AddressSize), v6[:]...), 128)
	request = binary.NativeEndian.AppendUint32(request, 1) // lo is the first of a new namespace
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	fd6, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd6)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd6), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&request[0]))); errno != 0 {
		return errno
	}
	return nil
}
