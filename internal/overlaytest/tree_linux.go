package overlaytest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Tree is a tree that [RandomActs] change, for [Build].
func Tree() map[string]string {
	return map[string]string{"a": "one\n", "b": "two\n", "d/x": "x", "d/y": "y", "d/e/z": "z", "d/e/f/": "", "l@": "a", "dl@": "d", "empty/": "", "same": "same"}
}

// Build makes a tree: "path" → content; "path/" a directory, "path@" a link, "path!" a whiteout, "path/^" an opaque directory.
func Build(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p := filepath.Join(dir, strings.TrimRight(name, "/@!^"))
		Must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		switch {
		case strings.HasSuffix(name, "/^"):
			Must(t, os.MkdirAll(p, 0o755))
			Must(t, unix.Setxattr(p, "user.overlay.opaque", []byte("y"), 0))
		case strings.HasSuffix(name, "/"):
			Must(t, os.MkdirAll(p, 0o755))
		case strings.HasSuffix(name, "@"):
			Must(t, os.Symlink(files[name], p))
		case strings.HasSuffix(name, "!"):
			if err := unix.Mknod(p, unix.S_IFCHR, 0); err != nil { // on an overlayfs
				Must(t, os.WriteFile(p, nil, 0o600))
				Must(t, unix.Setxattr(p, "user.overlay.whiteout", []byte("y"), 0))
				Must(t, unix.Setxattr(filepath.Dir(p), "user.overlay.opaque", []byte("x"), 0))
			}
		default:
			Must(t, os.WriteFile(p, []byte(files[name]), 0o644))
		}
	}
}

// seen describes everything below a directory.
func seen(root string) map[string]string {
	all := map[string]string{}
	inodes := map[uint64]string{}
	Must(nil, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%06o %d:%d", st.Mode, st.Uid, st.Gid)
		buf := make([]byte, 100)
		if n, err := unix.Lgetxattr(p, attribute, buf); err == nil {
			line += fmt.Sprintf(" xattr %q", buf[:n])
		}
		switch d.Type() {
		case fs.ModeSymlink:
			to, _ := os.Readlink(p)
			line += " " + to
		case 0:
			f, err := os.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, f); err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %s %d", st.Size, hex.EncodeToString(sum.Sum(nil))[:12], st.Mtim.Nano())
			if first, ok := inodes[st.Ino]; ok {
				line += " = " + first
			} else if st.Nlink > 1 {
				inodes[st.Ino] = p
			}
		}
		all[fmt.Sprintf("%q", p)] = line
		return nil
	}))
	return all
}

// OpenDir opens a directory until the test ends.
func OpenDir(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	Must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// Difference is what two trees don't share.
func Difference(a, b map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if b[k] != a[k] {
			out = append(out, fmt.Sprintf("%q: %q | %q", k, a[k], b[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[k]; !ok {
			out = append(out, fmt.Sprintf("%q: – | %q", k, b[k]))
		}
	}
	return strings.Join(out, "\n")
}
