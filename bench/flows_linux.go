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
		if f, err := c.(*net.TCPConn).File(); err == nil {
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

// drain and send copy, as most programs do: the structs hide what would splice.
func drain(from net.Conn) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{from}, make([]byte, chunk))
}

func send(to net.Conn, n int) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, io.LimitReader(zeros{}, int64(n)), make([]byte, chunk))
	return err
}

// zeros is bytes without end, at no cost.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

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

// up is GiB per second from here to the server, until the last byte is there.
func (to client) up(n int) (float64, error) {
	c, err := to.dial(wantsUp)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if err := send(c, n); err != nil {
		return 0, err
	}
	if err := c.CloseWrite(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return float64(n) / (1 << 30) / time.Since(began).Seconds(), err
}

func (to client) down(n int) (float64, error) {
	c, err := to.dial(wantsDown)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
		return 0, err
	}
	got, err := drain(c)
	if err == nil && got != int64(n) {
		err = fmt.Errorf("%d of %d bytes arrived", got, n)
	}
	return float64(n) / (1 << 30) / time.Since(began).Seconds(), err
}

// latency is the median of n round trips of a byte, in microseconds. Both ends sleep in
// read(2), as most programs do: the poller of Go's runtime has threads of its own, which a
// host with few CPUs has to run as well.
func (to client) latency(n int) (float64, error) {
	c, err := to.dial(wantsCat)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	own, err := c.File()
	if err != nil {
		return 0, err
	}
	defer own.Close()
	if err := trip(c); err != nil { // then the server's program runs
		return 0, err
	}
	fd := own.Fd() // it blocks from here on
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
