package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// askTries do many things in one run, for tests that hold what explain says against
// what the kernel does.
var askTries = []attempts.Try{
	{Name: "ask", Args: 1, Do: ask}, // FILE of lines "read PATH", "call NUMBER ARGUMENT…" and so on
}

// ask prints for each line "ok", or the name of the errno.
func ask(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	defer f.Close()
	out := bufio.NewWriter(os.Stdout)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		do, ok := askable[kind]
		if !ok {
			return fmt.Errorf("%w: line %q", attempts.ErrBroken, lines.Text())
		}
		fmt.Fprintln(out, answer(do(rest)))
	}
	return errors.Join(lines.Err(), out.Flush())
}

func answer(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
}

var askable = map[string]func(string) error{
	"read":    askRead,
	"write":   askWrite,
	"create":  askCreate,
	"exec":    askExec,
	"call":    askCall,
	"connect": askConnect,
}

func askRead(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		_, err = unix.ReadDirent(fd, make([]byte, 4096)) // what is open may still not be listed
	}
	return err
}

// askWrite changes nothing: what it makes in a directory it removes.
func askWrite(name string) error {
	var st unix.Stat_t
	if unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return askCreate(name + "/.attempt-" + strconv.Itoa(os.Getpid())) // uncleaned: ".." is for the kernel
	}
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func askCreate(name string) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_ = unix.Close(fd)
	return unix.Unlink(name)
}

// askExec asks of a file that is no program: the kernel says that after everything else,
// and nothing is executed.
func askExec(name string) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	argv := []*byte{p, nil}
	_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&argv[0])), 0)
	if errno == unix.ENOEXEC {
		return nil
	}
	return errno
}

// askCall makes a system call by its number.
func askCall(words string) error {
	var n [7]uintptr
	for i, w := range strings.Fields(words) {
		v, err := strconv.ParseUint(w, 0, 64)
		if err != nil {
			return err
		}
		n[i] = uintptr(v)
	}
	return attempts.InThread(func() error {
		if _, _, errno := syscall.RawSyscall6(n[0], n[1], n[2], n[3], n[4], n[5], n[6]); errno != 0 {
			return errno
		}
		return nil
	})
}

func askConnect(address string) error {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	// A gateway takes a connection before it knows: whoever is there says hello.
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = c.Read(make([]byte, 1))
	return err
}
