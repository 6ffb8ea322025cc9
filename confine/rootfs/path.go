package rootfs

import (
	"path"
	"strings"
)

// under says whether p is dir or lies below it. Both are clean and absolute.
func under(p, dir string) bool {
	return strings.HasPrefix(p, dir) && (len(p) == len(dir) || dir == "/" || p[len(dir)] == '/')
}

// below is under, but not dir itself.
func below(p, dir string) bool { return p != dir && under(p, dir) }

// rebase moves p from below one directory to below another.
func rebase(p, from, to string) string {
	if from == "/" {
		from = ""
	}
	rest := p[len(from):]
	switch {
	case rest == "" || rest == "/":
		return to
	case to == "/":
		return rest
	}
	return to + rest
}

// comparePaths sorts a directory before what is in it, and that before its siblings.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x == '/' {
			return -1
		}
		if y == '/' || x > y {
			return 1
		}
		return -1
	}
	return len(a) - len(b)
}

// isBin says whether a directory holds the executables of what is one up.
func isBin(dir string) bool {
	base := path.Base(dir)
	return base == "bin" || base == "sbin"
}

// broad are directories that are never shown because of where the caller
// happens to be, or what PATH holds: they are everybody's, or the system's.
var broad = [...]string{
	"/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/var/lib", "/run", "/run/user", "/etc", "/opt",
	"/usr", "/mnt", "/media", "/srv", "/boot", "/nix", "/gnu",
}

// kernelTrees are views of the kernel, broad at every depth.
var kernelTrees = [...]string{"/proc", "/sys", "/dev"}

// isOfKernel says whether a path lies in a view of the kernel.
func isOfKernel(p string) bool {
	for _, k := range kernelTrees {
		if under(p, k) {
			return true
		}
	}
	return false
}

// tooBroad says whether dir can't be shown implicitly.
func (c *compiler) tooBroad(dir string) bool { return TooBroad(dir, c.home) }

// TooBroad says whether a canonical path holds far more than a project, so that it is not
// shown because somebody happens to be there. home is a home directory, or empty.
func TooBroad(dir, home string) bool {
	for _, b := range broad {
		if dir == b {
			return true
		}
	}
	if isOfKernel(dir) {
		return true
	}
	// The run-time directory of a user is full of sockets.
	if rest, ok := strings.CutPrefix(dir, "/run/user/"); ok && !strings.Contains(rest, "/") {
		return true
	}
	return home != "" && under(home, dir)
}
