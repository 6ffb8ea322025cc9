package attempts

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var pathTries = []Try{
	{"flip", 2, flip},     // A B: exchanges the two, again and again, until it is killed
	{"handle", 2, handle}, // FILE DIR: opens FILE by its handle, on the file system of DIR
	{"parent", 1, parent}, // DIR: reads what is above DIR, by the handle of inode 2 of its file system
	{"bind", 2, bind},     // FROM TO
	{"unbind", 1, unbind}, // DIR
	{"fifo", 1, fifo},     // PATH
	{"climb", 1, climb},   // FILE: reads it by .., from an open directory above which the caller's tree might be
}

// flip says that it has begun by exchanging them once.
func flip(args []string) error {
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE); err != nil {
			return fmt.Errorf("renameat2: %w", err)
		}
	}
}

func handle(args []string) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
	if err != nil {
		return fmt.Errorf("name_to_handle_at: %w", err)
	}
	return openHandle(args[1], h)
}

func parent(args []string) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
	if err != nil {
		return fmt.Errorf("name_to_handle_at: %w", err)
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
		return fmt.Errorf("open_by_handle_at: %w", err)
	}
	return unix.Close(fd)
}

func bind(args []string) error {
	if err := unix.Mount(args[0], args[1], "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

func unbind(args []string) error {
	if err := unix.Unmount(args[0], unix.MNT_DETACH); err != nil {
		return fmt.Errorf("umount2: %w", err)
	}
	return nil
}

func fifo(args []string) error {
	if err := unix.Mkfifo(args[0], 0o644); err != nil {
		return fmt.Errorf("mkfifo: %w", err)
	}
	return nil
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
