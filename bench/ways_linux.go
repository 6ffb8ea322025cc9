package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// way is a client with its way to the server, which stays as it is for a while.
type way struct {
	name   string
	client *exec.Cmd // or what runs it
	helper *exec.Cmd // a process of its own that carries the packets, or nil
	in     io.WriteCloser
	lines  *os.File
	out    *bufio.Reader
	failed error // a rival's, which is then left out
}

// serverName is what the server is called inside.
const serverName = "server.bench.test"

// The ways that are compared. Those whose names are ours are judged, the others are
// what they are judged against.
const (
	wayBare      = "bare loopback"
	wayName      = "confine, by name"
	wayLocalhost = "confine, localhost"
	wayAgainst   = "the other build, by name"
	waySplice    = "pasta, port splice"
	wayTap       = "pasta, tap"
	waySlirp     = "slirp4netns"
)

// ways are all that this host has, and the server that they lead to.
type ways struct {
	server  *exec.Cmd
	stop    io.Closer
	all     []*way
	missing []string
}

// serve starts the server, and gives its port.
func (w *ways) serve(b *bench) (port string, err error) {
	w.server = &exec.Cmd{Path: b.self, Args: []string{b.self, insideWord, "serve-flows"}, Env: b.env, Dir: b.work, Stderr: b.stderr}
	if w.stop, err = w.server.StdinPipe(); err != nil {
		return "", err
	}
	out, err := w.server.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := w.server.Start(); err != nil {
		return "", err
	}
	port, err = bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(port), err
}

// openWays starts them all; those whose programs aren't installed are missing.
func (b *bench) openWays() (*ways, error) {
	w := &ways{}
	if err := w.open(b); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *ways) open(b *bench) error {
	port, err := w.serve(b)
	if err != nil {
		return err
	}
	local := b.client(net.JoinHostPort("127.0.0.1", port))
	type way struct {
		name string
		argv []string
	}
	all := []way{
		{wayBare, local},
		{wayName, b.byName(b.confine, port)},
		{wayLocalhost, confine(b.confine, wide+" --allow-network localhost:"+port, local)},
	}
	if b.against != "" {
		all = append(all, way{wayAgainst, b.byName(b.against, port)})
	}
	if pasta, err := exec.LookPath("pasta"); err != nil {
		w.missing = append(w.missing, "pasta")
	} else {
		gateway := b.client(net.JoinHostPort(gatewayWord, port))
		all = append(all, way{waySplice, pastaed(pasta, "-T "+port, local)}, way{wayTap, pastaed(pasta, "-T none", gateway)})
	}
	for _, one := range all {
		if err := w.add(b, one.name, one.argv); err != nil {
			return err
		}
	}
	slirp, err := exec.LookPath("slirp4netns")
	if err != nil {
		w.missing = append(w.missing, "slirp4netns")
		return nil
	}
	return w.addSlirp(b, slirp, port)
}

// wide are options for a client that stays for long and has many connections.
const wide = "--workdir ro --time-limit 1h --file-descriptors 4096"

// client is the client for a server's address.
func (b *bench) client(address string) []string {
	return []string{b.self, insideWord, "ask-flows", address}
}

// byName is a client in confine that has to ask for the server's name, which is in
// hosts of our own.
func (b *bench) byName(binary, port string) []string {
	words := confine(binary, wide+" --block-internal=false --allow-network "+serverName+":"+port,
		b.client(net.JoinHostPort(serverName, port)))
	return append([]string{b.self, insideWord, "named"}, words...)
}

// named runs words where serverName is in /etc/hosts.
func named(words []string) error {
	hosts, err := os.CreateTemp("", "hosts-")
	if err != nil {
		return err
	}
	defer os.Remove(hosts.Name())
	if _, err := hosts.WriteString("127.0.0.1 localhost " + serverName + "\n"); err != nil {
		return err
	}
	if err := errors.Join(hosts.Chmod(0o644), hosts.Close()); err != nil {
		return err
	}
	runtime.LockOSThread() // the namespace is this thread's
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(hosts.Name(), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	_ = os.Remove(hosts.Name())
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return unix.Exec(words[0], words, os.Environ())
}

// pastaed is argv run by pasta. As root it would become nobody, who may not see the
// scratch directory.
func pastaed(pasta, options string, argv []string) []string {
	words := []string{pasta, "--config-net", "--quiet"}
	if os.Geteuid() == 0 {
		words = append(words, "--runas", "0")
	}
	words = append(words, "-t", "none", "-u", "none", "-U", "none")
	return append(append(append(words, strings.Fields(options)...), "--"), argv...)
}

// add starts a way and waits until its client is there.
func (w *ways) add(b *bench, name string, argv []string) error {
	one := &way{name: name, client: &exec.Cmd{Path: argv[0], Args: argv, Env: b.env, Dir: b.work, Stderr: b.stderr}}
	if slices.Contains(rivals, name) {
		one.client.Stderr = nil // pasta speaks of syslog, and of what it can do without
	}
	if argv[0] == b.self && argv[2] == "named" && os.Geteuid() != 0 {
		one.client.SysProcAttr = alone(unix.CLONE_NEWNS, os.Getuid(), os.Getgid())
	}
	return w.begin(one)
}

// alone is a user namespace of one's own, where one is still who one was, or root.
func alone(also uintptr, uid, gid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | also,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
	}
}

// startPatience is far more than anybody takes to get ready.
const startPatience = 10 * time.Second

func (w *ways) begin(one *way) (err error) {
	if one.in, err = one.client.StdinPipe(); err != nil {
		return err
	}
	out, err := newPipe()
	if err != nil {
		return err
	}
	one.client.Stdout = out.w
	if slices.Contains(rivals, one.name) {
		if one.client.SysProcAttr == nil {
			one.client.SysProcAttr = &syscall.SysProcAttr{}
		}
		one.client.SysProcAttr.Setpgid = true
	}
	err = one.client.Start()
	_ = out.w.Close()
	if err != nil {
		_ = out.r.Close()
		return fmt.Errorf("%s: %w", one.name, err)
	}
	one.lines, one.out = out.r, bufio.NewReader(out.r)
	w.all = append(w.all, one)
	_, err = one.tried(func() (reading, error) { return reading{}, one.expect("here") })
	return err
}

// addSlirp starts a client in a namespace of its own, and the program that carries
// its packets.
func (w *ways) addSlirp(b *bench, slirp, port string) error {
	argv := b.client(net.JoinHostPort("10.0.2.2", port)) // the caller's loopback, by its manual
	one := &way{name: waySlirp, client: &exec.Cmd{Path: argv[0], Args: argv, Env: b.env, Dir: b.work, Stderr: b.stderr}}
	one.client.SysProcAttr = alone(unix.CLONE_NEWNET, 0, 0)
	if err := w.begin(one); err != nil || one.failed != nil {
		return err
	}
	ready, err := newPipe()
	if err != nil {
		return err
	}
	defer ready.r.Close()
	words := []string{slirp, "--configure", "--mtu=65520", "--ready-fd=3", strconv.Itoa(one.client.Process.Pid), "tap0"}
	helper := &exec.Cmd{Path: slirp, Args: words, Env: b.env, Dir: b.work, ExtraFiles: []*os.File{ready.w}}
	err = helper.Start()
	_ = ready.w.Close()
	if err != nil {
		return err
	}
	one.helper = helper
	_, err = one.tried(func() (reading, error) {
		_, err := ready.r.Read(make([]byte, 1))
		return reading{}, err
	})
	return err
}

func (one *way) expect(word string) error {
	_ = one.lines.SetReadDeadline(time.Now().Add(startPatience))
	defer one.lines.SetReadDeadline(time.Time{})
	line, err := one.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != word {
		err = fmt.Errorf("%q", line)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", one.name, err)
	}
	return nil
}

// ask has the client measure.
func (one *way) ask(word string, n int) (reading, error) {
	if _, err := fmt.Fprintln(one.in, word, n); err != nil {
		return reading{}, err
	}
	line, err := one.out.ReadString('\n')
	if err != nil {
		return reading{}, err
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	if err != nil {
		err = fmt.Errorf("%s %d: %s", word, n, strings.TrimSpace(line))
	}
	return reading{value: value}, err
}

// tried is what a way measures; a rival that fails is asked no more.
func (one *way) tried(measure func() (reading, error)) (reading, error) {
	if one.failed != nil {
		return reading{}, nil
	}
	got, err := measure()
	if err != nil && slices.Contains(rivals, one.name) {
		one.failed = err
		return reading{}, nil
	}
	return got, err
}

// notes says who was not measured.
func (w *ways) notes(r *result) {
	if len(w.missing) > 0 {
		r.note("Not installed: %s.", strings.Join(w.missing, ", "))
	}
	for _, one := range w.all {
		if one.failed == nil {
			continue
		}
		r.all = slices.DeleteFunc(r.all, func(s series) bool { return strings.HasPrefix(s.name, one.name) })
		r.note("%s failed and is left out: %v.", one.name, one.failed)
	}
}

// closePatience is how long what has been told to end may take for it.
const closePatience = 10 * time.Second

// close ends all clients, by the end of what they read, and the server.
func (w *ways) close() (failed error) {
	for _, one := range w.all {
		if one.in != nil {
			_ = one.in.Close()
		}
		if one.failed != nil {
			_ = unix.Kill(-one.client.Process.Pid, unix.SIGKILL) // with all that it has started
		}
		if err := ended(one.client); one.failed == nil {
			failed = errors.Join(failed, err)
		}
		_ = one.lines.Close()
		if one.helper != nil {
			_ = one.helper.Process.Signal(unix.SIGTERM)
			_ = ended(one.helper)
		}
	}
	if w.stop != nil {
		_ = w.stop.Close()
		failed = errors.Join(failed, ended(w.server))
	}
	return failed
}

// ended waits for a process of ours, and kills it if it stays.
func ended(c *exec.Cmd) error {
	if c.Process == nil {
		return nil
	}
	late := time.AfterFunc(closePatience, func() { _ = c.Process.Kill() })
	defer late.Stop()
	return c.Wait()
}
