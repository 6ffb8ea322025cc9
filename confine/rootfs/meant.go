package rootfs

import (
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
)

// meant is a place inside with what is left of a name there, by which options know it.
// Links in the rest stay: what is shown by a name is shown with the links that the name
// leads through. With "..", which goes up from where a link leads, only the caller's
// files tell.
func (v *View) meant(at, rest string) string {
	if rest = strings.Trim(rest, "/"); rest == "" {
		return at
	}
	if !slices.Contains(strings.Split(rest, "/"), "..") {
		return path.Join(at, rest)
	}
	full := strings.TrimSuffix(at, "/") + "/" + rest
	if f, err := v.by.Host.Resolve(full); err == nil {
		return f.Path
	}
	dir, name := path.Split(full)
	if f, err := v.by.Host.Resolve(dir); err == nil {
		return path.Join(f.Path, name)
	}
	return path.Clean(full)
}

// absentOutside: a directory on the way is hidden, but what is meant isn't there for the
// caller either, so that showing it is no remedy. Of a name that is to be made, its
// directory counts.
func (v *View) absentOutside(s *Sight) {
	need := s.Meant
	if s.Wish == WishCreate {
		need = path.Dir(need)
	}
	if s.Reason != ReasonHidden || s.Meant == s.Path {
		return
	}
	if _, err := v.by.Host.Lstat(need); err != nil && hostfs.Absent(err) {
		s.Reason, s.Details = ReasonAbsent, "nor is it outside"
	}
}
