package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// serveFlows serves clients on the caller's loopback, until our input ends.
func serveFlows() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveFlow(c)
		}
	}()
	_, err = readAll()
	return errors.Join(err, l.Close())
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
			_ = send(c, int64(binary.BigEndian.Uint64(word[1:])))
		}
	}
}

// drain and send copy, as most programs do: none of them splices.
func drain(c net.Conn) (total int64, err error) {
	buf := make([]byte, chunk)
	for {
		n, err := c.Read(buf)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func send(c net.Conn, left int64) error {
	buf := make([]byte, chunk)
	for left > 0 {
		n, err := c.Write(buf[:min(left, chunk)])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// flows is a client that does what it is told, line by line.
type flows struct {
	address string
	held    []net.Conn
}

// askFlows reads lines of a word and a number, and answers each with a figure. It is
// one process for all of them, so that the same sandbox is measured again and again.
func askFlows(address string) error {
	// A sandbox gives its target a session, and the kernel gives a session a share of the
	// CPUs (autogroup). Whoever has none yet gets one here, bare loopback too.
	_, _ = unix.Setsid()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if host == gatewayWord {
		if host, err = defaultGateway(); err != nil {
			return err
		}
	}
	// A name is asked for once: answering isn't what is measured.
	found, err := net.LookupHost(host)
	if err != nil {
		return err
	}
	f := &flows{address: net.JoinHostPort(found[0], port)}
	fmt.Println("here")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		value, err := f.do(word, n)
		if err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		fmt.Println(value)
	}
	return lines.Err()
}

func (f *flows) do(word string, n int) (float64, error) {
	switch word {
	case "up":
		return f.up(n)
	case "down":
		return f.down(n)
	case "latency":
		return f.latency(n)
	case "polled":
		return f.polled(n)
	case "connect":
		return f.connect(n)
	case "requests":
		return f.requests(time.Duration(n) * time.Millisecond)
	case "hold":
		return 0, f.hold(n)
	}
	return 0, errors.New("no such measurement")
}

// dial begins a connection by saying what it is for.
func (f *flows) dial(wants byte) (net.Conn, error) {
	c, err := net.Dial("tcp", f.address)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte{wants}); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// up is GiB per second from here to the server, until the last byte is there.
func (f *flows) up(n int) (float64, error) {
	c, err := f.dial(wantsUp)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if err := send(c, int64(n)); err != nil {
		return 0, err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return 0, err
	}
	return float64(n) / (1 << 30) / time.Since(began).Seconds(), nil
}

func (f *flows) down(n int) (float64, error) {
	c, err := f.dial(wantsDown)
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
// read(2), as most programs do. The poller of Go's runtime has threads of its own, which a
// host with few CPUs has to run as well.
func (f *flows) latency(n int) (float64, error) {
	c, err := f.dial(wantsCat)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	own, err := c.(*net.TCPConn).File()
	if err != nil {
		return 0, err
	}
	defer own.Close()
	if err := trip(c, make([]byte, 1)); err != nil { // then the server's program runs
		return 0, err
	}
	return trips(blocking(own.Fd()), n)
}

// polled is the same with the runtime's poller at both ends.
func (f *flows) polled(n int) (float64, error) {
	c, err := f.dial(wantsEcho)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return trips(c, n)
}

// blocking is a descriptor that blocks, unknown to the runtime, which would look after the
// thread otherwise.
type blocking uintptr

func (fd blocking) Read(b []byte) (int, error) {
	n, err := fd.call(unix.SYS_READ, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (fd blocking) Write(b []byte) (int, error) { return fd.call(unix.SYS_WRITE, b) }

func (fd blocking) call(nr uintptr, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(nr, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func trips(c io.ReadWriter, n int) (float64, error) {
	took := make([]time.Duration, n)
	var b [1]byte
	for i := range took {
		began := time.Now()
		if err := trip(c, b[:]); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[n/2]) / float64(time.Microsecond), nil
}

func trip(c io.ReadWriter, b []byte) error {
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// connect is what each of n connections takes, one after another: a byte there and
// back is part of it, since a gateway may answer before it has reached anybody.
func (f *flows) connect(n int) (float64, error) {
	began := time.Now()
	for range n {
		c, err := f.dial(wantsEcho)
		if err != nil {
			return 0, err
		}
		err = trip(c, make([]byte, 1))
		_ = c.Close()
		if err != nil {
			return 0, err
		}
	}
	return milliseconds(time.Since(began)) / float64(n), nil
}

// together is how many connections ask at one time.
const together = 32

// requests is how many round trips of a byte there are in a second.
func (f *flows) requests(long time.Duration) (float64, error) {
	var all []net.Conn
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for range together {
		c, err := f.dial(wantsEcho)
		if err != nil {
			return 0, err
		}
		all = append(all, c)
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, together)
	began := time.Now()
	for _, c := range all {
		wg.Go(func() {
			for b := make([]byte, 1); time.Since(began) < long; done.Add(1) {
				if err := trip(c, b); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	return float64(done.Load()) / time.Since(began).Seconds(), <-failed
}

// hold opens n connections, all of them in use once, and leaves them open; 0 closes them.
func (f *flows) hold(n int) error {
	for _, c := range f.held {
		_ = c.Close()
	}
	f.held = nil
	for range n {
		c, err := f.dial(wantsEcho)
		if err != nil {
			return err
		}
		f.held = append(f.held, c)
		if err := trip(c, make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

// gatewayWord stands for the address of the default route inside.
const gatewayWord = "gateway"

func defaultGateway() (string, error) {
	text, err := os.ReadFile("/proc/self/net/route")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[1] == "00000000" && fields[2] != "00000000" {
			n, err := strconv.ParseUint(fields[2], 16, 32)
			a := binary.NativeEndian.AppendUint32(nil, uint32(n))
			return net.IP(a).String(), err
		}
	}
	return "", errors.New("there is no default route")
}
