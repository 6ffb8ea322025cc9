package attempts

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var fileTries = []Try{
	{"read", 1, func(a []string) error { return read(a[0]) }},                                                    // FILE
	{"write", 1, func(a []string) error { return writeTo(a[0], os.O_CREATE|os.O_APPEND) }},                       // FILE, made if need be
	{"create", 1, func(a []string) error { return writeTo(a[0], os.O_CREATE|os.O_EXCL) }},                        // FILE, which must not be there
	{"openwrite", 1, func(a []string) error { return opens(a[0], unix.O_WRONLY) }},                               // FILE, and nothing is written
	{"remove", 1, func(a []string) error { return os.RemoveAll(a[0]) }},                                          // FILE
	{"unlink", 1, func(a []string) error { return unix.Unlink(a[0]) }},                                           // FILE, which must be there
	{"rename", 2, func(a []string) error { return os.Rename(a[0], a[1]) }},                                       // FROM TO
	{"link", 2, func(a []string) error { return os.Link(a[0], a[1]) }},                                           // FROM TO, hard
	{"mkdir", 1, func(a []string) error { return os.MkdirAll(a[0], 0o755) }},                                     // DIR
	{"cut", 1, func(a []string) error { return unix.Truncate(a[0], 0) }},                                         // FILE: truncate(2), which opens nothing
	{"execute", 1, func(a []string) error { return unix.Exec(a[0], a, os.Environ()) }},                           // FILE
	{"whiteout", 1, func(a []string) error { return unix.Mknod(a[0], unix.S_IFCHR|0o600, 0) }},                   // FILE: the one device that anybody may make
	{"fifo", 1, func(a []string) error { return during("mkfifo", unix.Mkfifo(a[0], 0o644)) }},                    // PATH
	{"bind", 2, func(a []string) error { return during("mount", unix.Mount(a[0], a[1], "", unix.MS_BIND, "")) }}, // FROM TO
	{"unbind", 1, func(a []string) error { return during("umount2", unix.Unmount(a[0], unix.MNT_DETACH)) }},      // DIR

	{"chmod", 2, chmod},         // MODE FILE
	{"fill", 2, fill},           // FILE BYTES, really written
	{"files", 2, files},         // DIR N: empty ones
	{"flip", 2, flip},           // A B: exchanges the two, again and again, until it is killed
	{"overwrite", 1, overwrite}, // FILE that is being executed, such as /proc/1/exe
	{"openat2", 1, openat2},     // FILE
	{"climb", 1, climb},         // FILE: reads it by .., from an open directory above which the caller's tree might be
	{"handle", 2, handle},       // FILE DIR: opens FILE by its handle, on the file system of DIR
	{"byhandle", 3, byHandle},   // TYPE HEX DIR: what HandleOf said, on the file system of DIR
	{"parent", 1, parent},       // DIR: reads what is above DIR, by the handle of inode 2 of its file system

	{"fds", 0, fds},       // prints what is open
	{"reopen", 2, reopen}, // FD read|write|truncate: by way of /proc/self/fd
	{"truncate", 1, func(a []string) error { return unix.Ftruncate(fd(a), 0) }},                       // FD, as it is
	{"seekwrite", 1, func(a []string) error { return errOf(unix.Pwrite(fd(a), []byte(written), 0)) }}, // FD: over its beginning
	{"readfd", 1, func(a []string) error { return errOf(unix.Read(fd(a), make([]byte, 1))) }},         // FD
	{"writefd", 1, func(a []string) error { return errOf(unix.Write(fd(a), []byte(written))) }},       // FD
	{"say", 1, func(a []string) error { return errOf(os.Stdout.WriteString(strings.Join(a, " "))) }},  // TEXT, as it is
}

// written is the text that attempts leave.
const written = "attempt was here\n"

// fd is a descriptor that the first argument names.
func fd(args []string) int { return int(Number(args[0])) }

// errOf is the error of a call that gives something else besides.
func errOf[T any](_ T, err error) error { return err }

// during names the call that failed.
func during(call string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	return nil
}

// opens opens a file, and closes it.
func opens(name string, flags int) error {
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
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

func writeTo(name string, flags int) error {
	f, err := os.OpenFile(name, os.O_WRONLY|flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(written)
	return errors.Join(err, f.Close())
}

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
		_, err = unix.Write(fd, []byte(written))
		return err
	}
	return nil
}

func fds([]string) error {
	open, err := openFDs()
	for _, n := range open {
		to, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(n))
		fmt.Println(n, to)
	}
	return err
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
	slices.Sort(open)
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
	i := 0
	return times(args[1], func() error {
		i++
		f, err := os.Create(filepath.Join(args[0], "f"+strconv.Itoa(i)))
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// flip says that it has begun by exchanging them once.
func flip(args []string) error {
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE); err != nil {
			return during("renameat2", err)
		}
	}
}

func openat2(args []string) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, args[0], &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC})
	if err != nil {
		return &os.PathError{Op: "openat2", Path: args[0], Err: err}
	}
	return unix.Close(fd)
}

// climb goes up from a descriptor rather than a name, further than any root is deep.
func climb(args []string) error {
	fd, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for range 64 {
		up, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
		fd = up
	}
	full, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	file, err := unix.Openat(fd, full[1:], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "openat", Path: full, Err: err}
	}
	return unix.Close(file)
}

func handleOf(path string) (unix.FileHandle, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	return h, during("name_to_handle_at", err)
}

// HandleOf gives the number by which the file system knows a file, as words of
// "byhandle".
func HandleOf(path string) ([]string, error) {
	h, err := handleOf(path)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprint(h.Type()), hex.EncodeToString(h.Bytes())}, nil
}

func handle(args []string) error {
	h, err := handleOf(args[0])
	if err != nil {
		return err
	}
	return openHandle(args[1], h)
}

func byHandle(args []string) error {
	kind := Number(args[0])
	b, err := hex.DecodeString(args[1])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return openHandle(args[2], unix.NewFileHandle(int32(kind), b))
}

func parent(args []string) error {
	h, err := handleOf(args[0])
	if err != nil {
		return err
	}
	b := make([]byte, len(h.Bytes()))
	b[0] = 2
	return openHandle(args[0], unix.NewFileHandle(h.Type(), b))
}

func openHandle(dir string, h unix.FileHandle) error {
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := unix.OpenByHandleAt(at, h, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return during("open_by_handle_at", err)
	}
	return unix.Close(fd)
}
