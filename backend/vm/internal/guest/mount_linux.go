package guest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// relayed is the host's tree: the kernel of the guest speaks 9P by a pair of sockets, and this process carries it over the serial port.
// In between it can be stopped at the border of two messages with no answer on its way, so that nothing of it is outside of the
// machine when that is written down.
type relayed struct {
	port *os.File

	asking sync.Mutex // held for one request, or as long as it is stopped; comes before mu

	mu      sync.Mutex
	waiting sync.Cond
	pending int // requests without an answer
}

// maxMessage is how long one is at most: what is mounted says so (msize), and 4 KiB.
const maxMessage = 512 << 10

// mountHost mounts the tree that the port leads to. The mount ends with the port.
func mountHost(port *os.File, at string) (*relayed, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(fds[1])
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, err
	}
	for _, fd := range fds { // a message in one piece
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*maxMessage)
	}
	kernel := os.NewFile(uintptr(fds[0]), "9p")
	r := &relayed{port: port}
	r.waiting.L = &r.mu
	go r.run("to", kernel, r.asks(kernel))
	go r.run("from", kernel, r.answers(kernel))
	m := mount{"host", at, "9p", unix.MS_NOSUID | unix.MS_NODEV, fmt.Sprintf("trans=fd,rfdno=%d,wfdno=%d,version=9p2000.L,msize=%d,cache=loose", fds[1], fds[1], maxMessage-4096)}
	return r, m.do()
}

// run ends the mount when one direction has ended: whoever waits for a file is told.
func (r *relayed) run(way string, kernel *os.File, carry func() error) {
	fmt.Println("guest: files "+way+" the host:", carry())
	kernel.Close()
}

// message reads one.
func message(from *bufio.Reader, b []byte) ([]byte, error) {
	if _, err := io.ReadFull(from, b[:4]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(b)
	if n < 7 || n > uint32(len(b)) {
		return nil, errors.New("a message of 9P that is none")
	}
	_, err := io.ReadFull(from, b[4:n])
	return b[:n], err
}

func (r *relayed) asks(kernel *os.File) func() error {
	return func() error {
		from, b := bufio.NewReaderSize(kernel, 64<<10), make([]byte, maxMessage)
		for {
			m, err := message(from, b)
			if err != nil {
				return err
			}
			r.asking.Lock()
			r.count(1)
			_, err = r.port.Write(m)
			r.asking.Unlock()
			if err != nil {
				return err
			}
		}
	}
}

func (r *relayed) answers(kernel *os.File) func() error {
	return func() error {
		from, b := bufio.NewReaderSize(r.port, 64<<10), make([]byte, maxMessage)
		for {
			m, err := message(from, b)
			if err == nil {
				_, err = kernel.Write(m)
			}
			if err != nil {
				return err
			}
			r.count(-1)
		}
	}
}

func (r *relayed) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending += n
	r.waiting.Broadcast()
}

// stop waits until every request is answered, and keeps others back until resume is called.
func (r *relayed) stop(limit time.Duration) (resume func(), err error) {
	late := time.AfterFunc(limit, func() { r.count(0) })
	defer late.Stop()
	deadline := time.Now().Add(limit)
	r.asking.Lock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.pending > 0 && time.Now().Before(deadline) {
		r.waiting.Wait()
	}
	if r.pending > 0 {
		r.asking.Unlock()
		return nil, errors.New("the host doesn't answer what was asked of files")
	}
	return r.asking.Unlock, nil
}
