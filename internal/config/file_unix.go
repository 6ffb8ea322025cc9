//go:build unix

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/confine-run/confine/internal/shell"
)

// openPolicyFile opens without waiting for the writer of a FIFO. A discovered
// file is not opened through a link: whoever wrote the tree chose its target.
func openPolicyFile(path string, follow bool) (*os.File, error) {
	flags := os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_CLOEXEC | syscall.O_NOCTTY
	if !follow {
		flags |= syscall.O_NOFOLLOW
	}
	return os.OpenFile(path, flags, 0)
}

// readTrustStore reads the list, if nobody else can have written it.
func readTrustStore(store string, uid int) ([]trustedFile, error) {
	f, err := openPolicyFile(store, false)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, storeUnreadable(store, err)
	}
	defer f.Close()
	if err := onlyMine(filepath.Dir(store), uid, os.Stat); err != nil {
		return nil, err
	}
	if err := onlyMine(store, uid, func(string) (fs.FileInfo, error) { return f.Stat() }); err != nil {
		return nil, err
	}
	data, err := readOpen(f)
	if err != nil {
		return nil, storeUnreadable(store, err)
	}
	list, err := parseTrust(string(data))
	if err != nil {
		return nil, storeUnreadable(store, err)
	}
	return list, nil
}

// onlyMine refuses what another user owns or can write to.
func onlyMine(path string, uid int, stat func(string) (fs.FileInfo, error)) error {
	info, err := stat(path)
	if err != nil {
		return storeUnreadable(path, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != uid:
		return storeError(path, "belongs to another user", "remove it, or run as its owner", syscall.EPERM)
	case info.Mode().Perm()&0o022 != 0:
		return storeError(path, "others can write to it", "chmod go-w "+shell.Word(path), syscall.EPERM)
	}
	return nil
}

// addTrust replaces the list as a whole, so that a reader sees the old one or the
// new one. A lock keeps two of these apart; it goes with its holder.
func addTrust(store string, uid int, now []trustedFile) error {
	dir := filepath.Dir(store)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return storeUnreadable(store, err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return storeUnreadable(store, err)
	}
	defer d.Close()
	if err := onlyMine(dir, uid, func(string) (fs.FileInfo, error) { return d.Stat() }); err != nil {
		return err
	}
	if err := lock(d); err != nil {
		return storeUnreadable(store, err)
	}
	list, err := readTrustStore(store, uid)
	if err != nil {
		return err
	}
	return replaceFile(store, formatTrust(replaceTrust(list, now)))
}

func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}

func replaceFile(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".trusted-*") // 0600
	if err != nil {
		return storeUnreadable(path, err)
	}
	_, err = tmp.WriteString(text)
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return storeUnreadable(path, err)
	}
	return nil
}
