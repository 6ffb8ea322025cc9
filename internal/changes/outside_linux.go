package changes

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// following looks at the trees whose roots are open; of others only the changes are known.
func (r *Run) following(roots []int, chosen map[int]bool) *following {
	return &following{m: r.m, chosen: chosen, system: ofSystem, real: func(tree int, path string) string {
		if roots[tree] < 0 {
			return ""
		}
		dir, name := split(path)
		at, err := openBeneath(roots[tree], dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return ""
		}
		defer unix.Close(at)
		target, err := readLink(at, name)
		if err != nil {
			return ""
		}
		return target
	}}
}

// ofSystem: a file in /usr that this user can't write, nor put another in its place. Links to
// programs and libraries are common, and nothing that follows one does any harm there. Root can write
// everywhere.
func ofSystem(name string) bool {
	if isRoot() {
		return false
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !strings.HasPrefix(real, "/usr/") {
		return false
	}
	var st unix.Stat_t
	if unix.Lstat(real, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	for at := real; at != "/"; at = filepath.Dir(at) {
		if unix.Lstat(at, &st) != nil || st.Uid != 0 || unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK, unix.AT_EACCESS) == nil {
			return false
		}
	}
	return true
}

// openRoots opens the trees as far as they are there, for looking only.
func (r *Run) openRoots() (roots []int, shut func()) {
	roots = make([]int, len(r.m.Trees))
	for i, t := range r.m.Trees {
		fd, err := openTree(t.Path)
		if err != nil {
			fd = -1
		}
		roots[i] = fd
	}
	return roots, func() {
		for _, fd := range roots {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
		}
	}
}
