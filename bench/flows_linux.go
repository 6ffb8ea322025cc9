package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a client wants of the server, as the first byte of a connection. None of
// them begins a protocol that anybody knows.
const (
	wantsUp   = 0x01 // take all, and say that it is there
	wantsDown = 0x02 // send so many bytes
	wantsEcho = 0x03 // send every byte back
	wantsCat  = 0x04 // the same by a program that sleeps in read(2)
)

// serve serves clients on the caller's loopback, until our input ends.
func serve() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	go accept(l)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, l.Close())
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serveFlow(c)
	}
}

func serveFlow(c net.Conn) {
	defer c.Close()
	// A thousand of these may be idle: large buffers are for those who need them.
	var word [9]byte
	if _, err := io.ReadFull(c, word[:1]); err != nil {
		return
	}
	switch word[0] {
	case wantsEcho:
		for {
			if n, err := c.Read(word[:]); err != nil {
				return
			} else if _, err = c.Write(word[:n]); err != nil {
				return
			}
		}
	case wantsCat:
		if f, err := blocking(c.(*net.TCPConn)); err == nil {
			_ = (&exec.Cmd{Path: "/bin/cat", Args: []string{"cat"}, Stdin: f, Stdout: f}).Run()
			_ = f.Close()
		}
	case wantsUp:
		if _, err := drain(c); err == nil {
			_, _ = c.Write(word[:1])
		}
	case wantsDown:
		if _, err := io.ReadFull(c, word[1:]); err == nil {
			_ = send(c, int(binary.BigEndian.Uint64(word[1:])))
		}
	}
}

// chunk is what is written at once, and read.
const chunk = 64 << 10

// drain and send copy, as most programs do: none of them splices.
func drain(from net.Conn) (total int, err error) {
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		total += n
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func send(to net.Conn, left int) error {
	buf := make([]byte, chunk)
	for ; left > 0; left -= chunk {
		if _, err := to.Write(buf[:min(left, chunk)]); err != nil {
			return err
		}
	}
	return nil
}

// askFlow prints one figure about the way to a server.
func askFlow(word, number, address string) error {
	// A sandbox gives its target a session, and the kernel gives a session a share of the
	// CPUs (autogroup). Whoever has none yet gets one here, bare loopback too.
	_, _ = unix.Setsid()
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	// A name is asked for once: answering isn't what is measured.
	found, err := net.LookupHost(host)
	if err != nil {
		return err
	}
	to := client(net.JoinHostPort(found[0], port))
	if word == "hold" {
		if err := to.hold(n); err != nil {
			return err
		}
		return wait()
	}
	value, err := figures[word](to, n)
	fmt.Println(value)
	return err
}

// client is one of the server with that address.
type client string

var figures = map[string]func(client, int) (float64, error){
	"up": client.up, "down": client.down, "latency": client.latency, "connect": client.connect,
}

// dial begins a connection by saying what it is for.
func (to client) dial(wants byte) (*net.TCPConn, error) {
	c, err := net.Dial("tcp", string(to))
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte{wants}); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// rate is GiB per second over one connection, which move moves n bytes over.
func (to client) rate(wants byte, n int, move func(*net.TCPConn) error) (float64, error) {
	c, err := to.dial(wants)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	err = move(c)
	return float64(n) / (1 << 30) / time.Since(began).Seconds(), err
}

// up is from here to the server, until the last byte is there.
func (to client) up(n int) (float64, error) {
	return to.rate(wantsUp, n, func(c *net.TCPConn) error {
		if err := errors.Join(send(c, n), c.CloseWrite()); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	})
}

func (to client) down(n int) (float64, error) {
	return to.rate(wantsDown, n, func(c *net.TCPConn) error {
		if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
			return err
		}
		got, err := drain(c)
		if err == nil && got != n {
			err = fmt.Errorf("%d of %d bytes arrived", got, n)
		}
		return err
	})
}

// latency is the median of n round trips of a byte, in microseconds. Both ends sleep in
// read(2), as most programs do: the poller of Go's runtime has threads of its own, which a
// host with few CPUs has to run as well.
func (to client) latency(n int) (float64, error) {
	c, err := to.dial(wantsCat)
	if err != nil {
		return 0, err
	}
	err = trip(c) // then the server's program runs
	own, err2 := blocking(c)
	if err := errors.Join(err, err2); err != nil {
		return 0, err
	}
	defer own.Close()
	fd := own.Fd()
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		if err := blockingTrip(fd); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[n/2]) / float64(time.Microsecond), nil
}

// blocking takes a connection's socket from the runtime, whose poller would be woken by every byte otherwise.
func blocking(c *net.TCPConn) (*os.File, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	failed := raw.Control(func(s uintptr) {
		if fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, false)
		}
	})
	return os.NewFile(uintptr(fd), "socket"), errors.Join(failed, err)
}

// trip is a byte there and back.
func trip(c net.Conn) error {
	b := make([]byte, 1)
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// blockingTrip is unknown to the runtime, which would look after the thread otherwise.
func blockingTrip(fd uintptr) error {
	var b [1]byte
	for _, call := range [...]uintptr{unix.SYS_WRITE, unix.SYS_READ} {
		n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b)), 1)
		if errno != 0 {
			return errno
		}
		if n != 1 {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// connect is what each of n connections takes, one after another, in milliseconds: a byte there
// and back is part of it, since a gateway may answer before it has reached anybody.
func (to client) connect(n int) (float64, error) {
	began := time.Now()
	for range n {
		if err := to.hold(0); err != nil {
			return 0, err
		}
	}
	return milliseconds(time.Since(began)) / float64(n), nil
}

// held stay open until this process ends.
var held []net.Conn

// hold opens n connections, all of them in use once, after one that it closes again.
func (to client) hold(n int) error {
	for i := range n + 1 {
		c, err := to.dial(wantsEcho)
		if err != nil {
			return err
		}
		if err := trip(c); err != nil {
			return errors.Join(err, c.Close())
		}
		if i == 0 {
			_ = c.Close()
			continue
		}
		held = append(held, c)
	}
	return nil
}
