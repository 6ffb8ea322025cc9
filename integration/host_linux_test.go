package integration

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdListen makes a listener of the host's that says hello to everybody, until
// the script ends.
func cmdListen(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, neg, args, 3, "listen tcp|unix|abstract NAME VAR")
	kind, name := args[0], args[1]
	network, address := "unix", ts.MkAbs(name)
	switch kind {
	case "tcp":
		network, address = "tcp4", "127.0.0.1:0"
	case "abstract":
		address = "@" + filepath.Base(ts.Getenv("OWN")) + strconv.Itoa(os.Getpid()) + name
	case "unix":
	default:
		ts.Fatalf("listen: %q is none of tcp, unix, abstract", kind)
	}
	l, err := net.Listen(network, address)
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[2], l.Addr().String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			c.Close()
		}
	}()
}

func cmdPut(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, neg, args, 2, "put FILE fifo|socket|big:N")
	path := ts.MkAbs(args[0])
	kind, size, _ := strings.Cut(args[1], ":")
	switch kind {
	case "fifo":
		ts.Check(syscall.Mkfifo(path, 0o666))
	case "socket":
		l, err := net.Listen("unix", path)
		ts.Check(err)
		ts.Defer(func() { l.Close() })
	case "big":
		n, err := strconv.ParseInt(size, 10, 64)
		f, err2 := os.Create(path)
		ts.Check(errors.Join(err, err2))
		ts.Check(errors.Join(f.Truncate(n), f.Close()))
	default:
		ts.Fatalf("put: %q is none of fifo, socket, big:N", args[1])
	}
}
