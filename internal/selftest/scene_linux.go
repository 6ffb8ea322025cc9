package selftest

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// scene is what there is to be reached outside.
type scene struct {
	dir    string
	exe    string
	values values
	closed []io.Closer
	undo   []func()
}

// newScene makes what can be made here. What can't is missing in values: the
// attempts that name it are not testable, and why is their value in lacks.
func newScene(o *order) (*scene, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &scene{dir: o.Dir, exe: exe, values: values{
		"key": o.Key, "variable": o.Variable, "supervisor": strconv.Itoa(os.Getpid()), "escape": "\x1b[2J\x1b]0;x\x07",
	}}
	for _, part := range []func() error{s.listeners, s.shared, s.victim, s.setID} {
		if err := part(); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *scene) close() {
	for _, c := range s.closed {
		_ = c.Close()
	}
	for _, undo := range s.undo {
		undo()
	}
}

// lacking says why the scene has no such word.
func lacking(name string) string {
	switch name {
	case "suid":
		return "only root can make a set-uid program of somebody else's"
	case "address":
		return "this host has no address but its loopback's"
	case "posix":
		return "/dev/shm can't be written"
	case "segment":
		return "shmget makes none"
	}
	return "there is no " + strings.ReplaceAll(name, "_", " ") + " to try it with"
}

// socketName is what a socket can be bound and connected to, from a ground's tree
// as well: a name must fit into an address.
func (s *scene) socketName() string {
	const longest = 100
	if name := s.dir + "/sock"; len(name) < longest {
		return name
	}
	return "../../../sock"
}

// listeners say hello to whoever gets through.
func (s *scene) listeners() error {
	// Where ../../../sock is in the scene.
	here := s.dir + "/a/b/c"
	if err := os.MkdirAll(here, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(here); err != nil {
		return err
	}
	abstract := "@confine-selftest-" + rand.Text()
	for _, l := range []struct{ name, network, address string }{
		{"closed", "tcp", "127.0.0.1:0"}, {"open", "tcp", "127.0.0.1:0"}, {"abstract", "unix", abstract}, {"sock", "unix", s.socketName()},
	} {
		listener, err := net.Listen(l.network, l.address)
		if err != nil {
			return err
		}
		s.closed = append(s.closed, listener)
		s.values[l.name] = l.address
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
			s.values[l.name] = strconv.Itoa(tcp.Port)
		}
		go serve(listener, func(c net.Conn) { fmt.Fprintln(c, attempts.Hello, s.values[l.name]) })
	}
	// What a careless gateway would be.
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.closed = append(s.closed, relay)
	s.values["relay"] = strconv.Itoa(relay.Addr().(*net.TCPAddr).Port)
	go serve(relay, func(c net.Conn) {
		line, _ := bufio.NewReader(io.LimitReader(c, 1024)).ReadString('\n')
		if f := strings.Fields(line); len(f) == 3 && f[1] == "127.0.0.1:"+s.values["closed"] {
			fmt.Fprintln(c, attempts.Hello, s.values["closed"])
		}
	})
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	s.closed = append(s.closed, udp)
	s.values["udp"] = strconv.Itoa(udp.LocalAddr().(*net.UDPAddr).Port)
	go func() {
		for b := make([]byte, 64); ; {
			_, from, err := udp.ReadFromUDP(b)
			if err != nil {
				return
			}
			_, _ = udp.WriteToUDP([]byte(attempts.Hello), from)
		}
	}()
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			s.values["address"] = n.IP.String()
			break
		}
	}
	return nil
}

func serve(l net.Listener, answer func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			answer(c)
		}()
	}
}

// shared memory, which attempts look for.
func (s *scene) shared() error {
	var b [4]byte
	_, _ = rand.Read(b[:])
	key := int(b[0])<<16 | int(b[1])<<8 | int(b[2]) | 0x5e<<24
	if id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o644); err == nil {
		s.values["segment"] = strconv.Itoa(key)
		s.undo = append(s.undo, func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	}
	name := "/dev/shm/confine-selftest-" + rand.Text()
	if os.WriteFile(name, []byte("x"), 0o644) == nil {
		s.values["posix"] = name
		s.undo = append(s.undo, func() { _ = os.Remove(name) })
	}
	return nil
}

// victim is another program of the caller's. Its number is none that something
// inside could have.
func (s *scene) victim() error {
	for range 64 {
		cmd := outside(context.Background(), s.exe, "sleep", "30")
		if err := cmd.Start(); err != nil {
			return err
		}
		s.undo = append(s.undo, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if cmd.Process.Pid > 64 {
			s.values["victim"] = strconv.Itoa(cmd.Process.Pid)
			return nil
		}
	}
	return nil
}

// setID makes a set-id program, which only root can make for somebody else.
func (s *scene) setID() error {
	if os.Geteuid() != 0 {
		return nil
	}
	to := s.dir + "/set-id"
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_CLOEXEC, 0o755)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Chown(12345, 12345)
	}
	if err == nil {
		err = out.Chmod(0o755 | os.ModeSetuid | os.ModeSetgid)
	}
	_ = out.Close()
	if err == nil {
		s.values["suid"] = to
	}
	return nil
}

// ground is a place of one attempt's own, inside or outside.
func (s *scene) ground(name string) (values, error) {
	dir := filepath.Join(s.dir, name)
	v := maps.Clone(s.values)
	tree := dir + "/tree"
	v["dir"], v["tree"], v["secret"], v["tmp"] = dir, tree, dir+"/secret", dir+"/tmp"
	v["token"] = "confine-selftest-" + rand.Text()
	for _, d := range []string{dir, v["tmp"], tree, tree + "/.git", tree + "/.git/hooks"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	for path, text := range map[string]string{
		v["secret"]: "secret\n", dir + "/report.json": "", tree + "/file": "text\n",
		tree + "/.git/config": "[core]\n", tree + "/confine.toml": "[sandbox]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.Symlink("../secret", tree+"/link"); err != nil {
		return nil, err
	}
	// What the caller forgot to mark, and to close.
	fd, err := unix.Open(dir+"/left-open", unix.O_RDWR|unix.O_CREAT|unix.O_APPEND, 0o644)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir + "/left-open", Err: err}
	}
	v["fd"] = strconv.Itoa(fd)
	if h, err := attempts.HandleOf(v["secret"]); err == nil {
		v["handle_type"], v["handle"] = h[0], h[1]
	}
	if from := s.values["suid"]; from != "" {
		v["suid"] = tree + "/set-id"
		if err := os.Link(from, v["suid"]); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// letGo closes what a ground has left open for the attempt.
func (v values) letGo() {
	if fd := v.port("fd"); fd > 0 {
		_ = unix.Close(fd)
	}
}

// look is what there is below a directory.
func look(dir string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := []byte(nil)
		if info.Mode().IsRegular() && info.Size() < 4096 {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%s %s %q\n", strings.TrimPrefix(path, dir+"/"), info.Mode(), text)
		return nil
	})
	return b.String(), err
}

// changed names the first line in which two looks differ.
func changed(before, after string) string {
	had := map[string]bool{}
	for line := range strings.Lines(before) {
		had[line] = true
	}
	for line := range strings.Lines(after) {
		if !had[line] {
			return strings.TrimSpace(line)
		}
	}
	return "something is gone"
}
