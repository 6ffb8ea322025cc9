package attempts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"golang.org/x/sys/unix"
)

var fileTries = []Try{
	{"read", 1, read},     // FILE
	{"write", 1, write},   // FILE, made if need be
	{"create", 1, create}, // FILE, which must not be there
	{"remove", 1, remove}, // FILE
	{"unlink", 1, func(a []string) error { return unix.Unlink(a[0]) }}, // FILE, which must be there
	{"rename", 2, rename},       // FROM TO
	{"link", 2, link},           // FROM TO, hard
	{"chmod", 2, chmod},         // MODE FILE
	{"mkdir", 1, mkdir},         // DIR
	{"overwrite", 1, overwrite}, // FILE that is being executed, such as /proc/1/exe
	{"reopen", 2, reopen},       // FD read|write|truncate: by way of /proc/self/fd
	{"truncate", 1, truncate},   // FD, as it is
	{"seekwrite", 1, seekWrite}, // FD: over its beginning
	{"readfd", 1, readFD},       // FD
	{"writefd", 1, writeFD},     // FD
	{"fds", 0, fds},             // prints what is open
	{"cut", 1, cut},             // FILE: truncate(2), which opens nothing
	{"execute", 1, execute},     // FILE
	{"whiteout", 1, whiteout},   // FILE: the one device that anybody may make
	{"fill", 2, fill},           // FILE BYTES, really written
	{"files", 2, files},         // DIR N: empty ones
}

func read(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.IsDir() {
		_, err = f.Readdirnames(1)
	} else {
		_, err = f.Read(make([]byte, 1))
	}
	return err
}

func write(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("attempt was here\n")
	return errors.Join(err, f.Close())
}

func create(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("attempt was here\n")
	return errors.Join(err, f.Close())
}

func remove(args []string) error { return os.RemoveAll(args[0]) }
func rename(args []string) error { return os.Rename(args[0], args[1]) }
func link(args []string) error   { return os.Link(args[0], args[1]) }
func mkdir(args []string) error  { return os.MkdirAll(args[0], 0o755) }

func chmod(args []string) error {
	mode, err := strconv.ParseUint(args[0], 8, 32)
	if err != nil {
		return fmt.Errorf("%w: mode %q", ErrBroken, args[0])
	}
	return unix.Chmod(args[1], uint32(mode))
}

// overwrite opens without waiting for the program to end: ETXTBSY is a way in,
// too, since it is gone once the program has ended.
func overwrite(args []string) error {
	fd, err := unix.Open(args[0], unix.O_PATH, 0)
	if err != nil {
		return err
	}
	fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY, 0)
	if err == unix.ETXTBSY {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func reopen(args []string) error {
	flags := map[string]int{"read": unix.O_RDONLY, "write": unix.O_WRONLY, "truncate": unix.O_WRONLY | unix.O_TRUNC}
	flag, ok := flags[args[1]]
	if !ok {
		return fmt.Errorf("%w: %q", ErrBroken, args[1])
	}
	fd, err := unix.Open("/proc/self/fd/"+args[0], flag|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	switch args[1] {
	case "read":
		n, err := unix.Read(fd, make([]byte, 1))
		if err == nil && n == 0 {
			return fmt.Errorf("nothing to read: %w", unix.ENODATA)
		}
		return err
	case "write":
		_, err = unix.Write(fd, []byte("attempt was here\n"))
		return err
	}
	return nil
}

func cut(args []string) error      { return unix.Truncate(args[0], 0) }
func execute(args []string) error  { return unix.Exec(args[0], args, os.Environ()) }
func whiteout(args []string) error { return unix.Mknod(args[0], unix.S_IFCHR|0o600, 0) }

func withFD(s string, do func(fd int) error) error {
	n := Number(s)
	return do(int(n))
}

func truncate(args []string) error {
	return withFD(args[0], func(fd int) error { return unix.Ftruncate(fd, 0) })
}

func seekWrite(args []string) error {
	return withFD(args[0], func(fd int) error {
		_, err := unix.Pwrite(fd, []byte("attempt was here\n"), 0)
		return err
	})
}

func readFD(args []string) error {
	return withFD(args[0], func(fd int) error {
		_, err := unix.Read(fd, make([]byte, 1))
		return err
	})
}

func writeFD(args []string) error {
	return withFD(args[0], func(fd int) error {
		_, err := unix.Write(fd, []byte("attempt was here\n"))
		return err
	})
}

func fds([]string) error {
	open, err := openFDs()
	if err != nil {
		return err
	}
	for _, n := range open {
		to, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(n))
		fmt.Println(n, to)
	}
	return nil
}

// openFDs leaves out what this program has opened itself: everything from the
// directory being listed on is close-on-exec, and nothing inherited is.
func openFDs() (open []int, err error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			open = append(open, n)
		}
	}
	sort.Ints(open)
	return open, nil
}

func fill(args []string) error {
	n := Number(args[1])
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for ; n > 0; n -= int64(len(block)) {
		if _, err := f.Write(block[:min(n, int64(len(block)))]); err != nil {
			return err
		}
	}
	return f.Close()
}

func files(args []string) error {
	n := Number(args[1])
	for i := range n {
		f, err := os.OpenFile(filepath.Join(args[0], "f"+strconv.FormatInt(i, 10)), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
		f.Close()
	}
	return nil
}
