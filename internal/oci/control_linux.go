package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// order is one line to a supervisor. Descriptors of streams come with that of an exec.
type order struct {
	Op     string   `json:"op"`
	Signal int      `json:"signal,omitempty"`
	All    bool     `json:"all,omitempty"`
	Start  *Process `json:"start,omitempty"`
	TTY    bool     `json:"tty,omitempty"`
	Rows   uint16   `json:"rows,omitempty"`
	Cols   uint16   `json:"cols,omitempty"`
}

// What a supervisor is told to do. A connection with an exec is that process's: signals and sizes follow on it, and its end ends the process.
const (
	opState  = "state"
	opStart  = "start"
	opKill   = "kill"
	opExec   = "exec"
	opResize = "resize"
)

// answer is one line back. Of an exec there are two: that it was started, and how it ended.
type answer struct {
	Error  string               `json:"error,omitempty"`
	Status specs.ContainerState `json:"status,omitempty"`
	UID    uint32               `json:"uid"`
	GID    uint32               `json:"gid"`
	Exit   *int                 `json:"exit,omitempty"`
	Reason string               `json:"reason,omitempty"`
}

// line is a connection to or from a supervisor.
type line struct {
	*net.UnixConn
	in  *json.Decoder
	fds []*os.File // that have come
}

func newLine(c *net.UnixConn) *line {
	l := &line{UnixConn: c}
	l.in = json.NewDecoder(l)
	return l
}

// maxFiles is how many descriptors are taken with an order.
const maxFiles = 3

// Read takes descriptors as they come.
func (l *line) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := l.ReadMsgUnix(b, oob)
	if err != nil {
		return 0, err // n may be less than nothing
	}
	if n == 0 {
		return 0, io.EOF
	}
	messages, parseErr := unix.ParseSocketControlMessage(oob[:oobn])
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			l.fds = append(l.fds, os.NewFile(uintptr(fd), "stream"))
		}
	}
	if parseErr != nil || flags&unix.MSG_CTRUNC != 0 || len(l.fds) > maxFiles {
		return 0, errors.New("more descriptors than streams")
	}
	return n, nil
}

func (l *line) send(what any, files ...*os.File) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	var oob []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		oob = unix.UnixRights(fds...)
	}
	n, _, err := l.WriteMsgUnix(text, oob, nil)
	if err == nil && n < len(text) {
		_, err = l.Write(text[n:])
	}
	return err
}

// peer says whether the other end is of the own user.
func (l *line) peer() error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil {
		return errors.Join(e, err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("uid %d is somebody else", cred.Uid)
	}
	return nil
}

// dial connects to the container's supervisor.
func (d *directory) dial() (*line, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: d.controlPath(), Net: "unix"})
	if err != nil {
		return nil, errNotRunning
	}
	l := newLine(c)
	if err := l.peer(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// errNotRunning is in the words that engines look for.
var errNotRunning = errors.New("container not running")

// ask is one order and its answer.
func (d *directory) ask(o *order) (*answer, error) {
	l, err := d.dial()
	if err != nil {
		return nil, err
	}
	defer l.Close()
	_ = l.SetDeadline(time.Now().Add(patience))
	if err := l.send(o); err != nil {
		return nil, err
	}
	var a answer
	if err := l.in.Decode(&a); err != nil {
		return nil, errNotRunning
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return &a, nil
}
