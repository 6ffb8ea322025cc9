package names

import (
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
)

// broad are directories that are never shown because of where the caller
// happens to be, or what PATH holds: they are everybody's, or the system's.
var broad = [...]string{
	"/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/var/lib", "/run", "/run/user", "/etc", "/opt",
	"/usr", "/mnt", "/media", "/srv", "/boot", "/nix", "/gnu",
	// Of macOS.
	"/Applications", "/Library", "/System", "/Users", "/Users/Shared", "/Volumes", "/opt/homebrew", "/private", "/private/etc", "/private/tmp",
	"/private/var", "/private/var/folders", "/private/var/tmp",
}

// kernelTrees are views of the kernel, broad at every depth.
var kernelTrees = [...]string{"/proc", "/sys", "/dev"}

// IsOfKernel says whether a path lies in a view of the kernel.
func IsOfKernel(p string) bool {
	return slices.ContainsFunc(kernelTrees[:], func(k string) bool { return hostfs.Under(p, k) })
}

// IsKernelTree says whether a path is the top of one.
func IsKernelTree(p string) bool { return slices.Contains(kernelTrees[:], p) }

// TooBroad says whether dir can't be shown implicitly.
func (c *Resolver) TooBroad(dir string) bool { return TooBroad(dir, c.Home) }

// TooBroad says whether a canonical path holds far more than a project, so that it is not
// shown because somebody happens to be there. home is a home directory, or empty.
func TooBroad(dir, home string) bool {
	if slices.Contains(broad[:], dir) || IsOfKernel(dir) {
		return true
	}
	// The run-time directory of a user is full of sockets.
	if rest, ok := strings.CutPrefix(dir, "/run/user/"); ok && !strings.Contains(rest, "/") {
		return true
	}
	return home != "" && hostfs.Under(home, dir)
}
