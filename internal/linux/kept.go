package linux

import "strings"

// MaxPath is PATH_MAX without the NUL.
const MaxPath = 4095

// OverlayXattr begins the attributes of overlayfs itself.
const OverlayXattr = "user.overlay."

// ValidPath says whether p can be a path below a directory.
func ValidPath(p string) bool {
	if p == "" || len(p) > MaxPath || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	for c := range strings.SplitSeq(p, "/") {
		if c == "" || c == "." || c == ".." || len(c) > 255 {
			return false
		}
	}
	return true
}

// OwnXattr says whether an attribute belongs to what a program wrote: access control lists, and those of programs. Those of overlayfs
// never do.
func OwnXattr(name string) bool {
	return name == "system.posix_acl_access" || name == "system.posix_acl_default" ||
		strings.HasPrefix(name, "user.") && len(name) > len("user.") && len(name) < 256 && !strings.HasPrefix(name, OverlayXattr) && strings.IndexByte(name, 0) < 0
}
