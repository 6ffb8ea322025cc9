package integration

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// cmdListen makes a listener of the host's that says hello to everybody, or its name
// if it has one, until the script ends.
func cmdListen(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 3, "listen tcp|udp|unix|path|renamed|linked|relative|abstract NAME VAR")
	kind, name := args[0], args[1]
	network, address := "unix", ""
	switch kind {
	case "tcp":
		network, address = "tcp4", "127.0.0.1:0"
	case "udp":
		ts.Setenv(args[2], echo(ts, name).String())
		return
	case "abstract":
		address = "@" + filepath.Base(ts.Getenv("OWN")) + strconv.Itoa(os.Getpid()) + name
	case "path": // by its full name, in the script's own directory, whose name is shorter
		address = filepath.Join(ts.Getenv("OWN"), strings.ReplaceAll(name, `\n`, "\n"))
	case "unix":
		ts.Setenv(args[2], ts.MkAbs(name))
		listenAt(ts, ts.MkAbs(name))
		return
	case "renamed", "linked", "relative":
		ts.Setenv(args[2], listenAstray(ts, kind, filepath.Join(ts.Getenv("OWN"), name)))
		return
	default:
		ts.Fatalf("listen: %q is none of tcp, udp, unix, path, renamed, linked, relative, abstract", kind)
	}
	l, err := net.Listen(network, address)
	ts.Check(err)
	ts.Setenv(args[2], l.Addr().String())
	if kind == "tcp" && name != "_" {
		greetWith(ts, l, name)
		return
	}
	greet(ts, l)
}

// echo answers each datagram with a name.
func echo(ts *testscript.TestScript, name string) net.Addr {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { c.Close() })
	go func() {
		for buf := make([]byte, 2048); ; {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(name), from)
		}
	}()
	return c.LocalAddr()
}

// listenAt makes a socket in a directory whose name may be longer than an
// address can be.
func listenAt(ts *testscript.TestScript, path string) {
	dir, err := os.Open(filepath.Dir(path))
	ts.Check(err)
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	ts.Check(err)
	l.(*net.UnixListener).SetUnlinkOnClose(false) // by that name it isn't there any more
	greet(ts, l)
}

// listenAstray makes a socket of which the kernel doesn't list the name that path is: it was bound
// to another, is one more, or is relative to where nobody is any more.
func listenAstray(ts *testscript.TestScript, how, path string) string {
	dir := filepath.Dir(path)
	name := filepath.Join(filepath.Dir(dir), "o") // an address has 107 bytes
	if how == "linked" {
		name = path + "2"
	}
	bound := make(chan error)
	var l net.Listener
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and with it its directory
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil && how == "relative" {
			err, name = unix.Chdir(dir), filepath.Base(path)
		}
		if err == nil {
			l, err = net.Listen("unix", name)
		}
		bound <- err
	}()
	ts.Check(<-bound)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	switch how {
	case "renamed":
		ts.Check(os.Rename(name, path))
	case "linked":
		ts.Check(os.Link(name, path))
	}
	greet(ts, l)
	return path
}

func greet(ts *testscript.TestScript, l net.Listener) { greetWith(ts, l, "hello") }

func greetWith(ts *testscript.TestScript, l net.Listener, word string) {
	ts.Defer(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(word + "\n"))
			c.Close()
		}
	}()
}

func cmdPut(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "put FILE fifo|socket|big:N")
	path := ts.MkAbs(args[0])
	kind, size, _ := strings.Cut(args[1], ":")
	switch kind {
	case "fifo":
		ts.Check(syscall.Mkfifo(path, 0o666))
	case "socket":
		listenAt(ts, path)
	case "big":
		n, err := strconv.ParseInt(size, 10, 64)
		f, err2 := os.Create(path)
		ts.Check(errors.Join(err, err2))
		ts.Check(errors.Join(f.Truncate(n), f.Close()))
	default:
		ts.Fatalf("put: %q is none of fifo, socket, big:N", args[1])
	}
}
