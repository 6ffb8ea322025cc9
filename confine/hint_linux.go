package confine

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"github.com/confine-run/confine/confine/rootfs"
	"github.com/confine-run/confine/internal/shell"
)

// hintFor is the option that would allow it, if one would.
func (p *Plan) hintFor(s *rootfs.Sight) string {
	option := map[rootfs.Wish]string{rootfs.WishRead: "--allow-read ", rootfs.WishExec: "--allow-read "}[s.Wish]
	target := s.Meant // not where the way there ended, above which far more is hidden
	if option == "" {
		if option = "--allow-write "; s.Wish == rootfs.WishCreate {
			target = path.Dir(target) // nothing smaller can be granted of what isn't there
		}
	}
	switch s.Reason {
	case rootfs.ReasonHidden, rootfs.ReasonReadOnly:
	default:
		return ""
	}
	if strings.HasPrefix(s.Rule.Why, "protected") {
		return "protect = [] in [sandbox.filesystem] protects nothing"
	}
	if m := p.mountOf(s, target); m != nil {
		return mountHintFor(m, s, target)
	}
	switch {
	case p.policy.Filesystem.Virtual:
		return "" // nothing but mounts is visible, and those are elsewhere
	case strings.HasPrefix(s.Rule.Why, "--deny "):
		return option + shell.Word(target) + ", which is more specific, or leave out " + s.Rule.Why
	case s.Rule.Access == rootfs.AccessProtected, strings.HasPrefix(s.Rule.Path, "/proc"), target == "/", strings.HasPrefix(target, "/proc"), strings.HasPrefix(target, "/dev"):
		return ""
	}
	return option + shell.Word(target)
}

// whySecret begins what rules of the set of secrets say.
const whySecret = rootfs.SetSecrets + ": "

// mountOf is the mount that shows a place, or would if nothing were hidden in it. Options that
// name a path outside say nothing about what is there.
func (p *Plan) mountOf(s *rootfs.Sight, target string) (best *Mount) {
	why := s.Rule.Why
	if !strings.HasPrefix(why, "--mount ") && !strings.HasPrefix(why, "--deny ") && !strings.HasPrefix(why, whySecret) {
		return nil
	}
	all := p.policy.Filesystem.Mounts
	for i := range all {
		m := &all[i]
		if (target == m.Dst || strings.HasPrefix(target, m.Dst+"/")) && (best == nil || len(m.Dst) > len(best.Dst)) {
			best = m
		}
	}
	return best
}

// mountHintFor is the mount that would allow it, in the place of m or in addition.
func mountHintFor(m *Mount, s *rootfs.Sight, target string) string {
	writes := s.Wish == rootfs.WishWrite || s.Wish == rootfs.WishCreate
	switch {
	case strings.HasPrefix(s.Rule.Why, "--deny "):
		return "leave out " + s.Rule.Why // a pattern of files outside holds in any mount
	case m.Size > 0:
		return ""
	case strings.HasPrefix(s.Rule.Why, whySecret): // what is named beats the set
		one := Mount{Src: filepath.Join(m.Src, strings.TrimPrefix(target, m.Dst)), Dst: target, Mode: m.Mode}
		if writes && (one.Mode == "" || one.Mode == "ro") {
			one.Mode = "rw"
		}
		return "--mount " + shell.Word(one.String())
	case s.Reason == rootfs.ReasonReadOnly && writes && (m.Mode == "" || m.Mode == "ro"):
		return "--mount " + shell.Word(Mount{Src: m.Src, Dst: m.Dst, Mode: "rw"}.String())
	}
	return ""
}

// startHint: --allow-read, as it is said of a place to start that isn't visible, contradicts --virtual-fs.
func (p *planner) startHint(err error) error {
	var e *rootfs.Error
	if !p.policy.Filesystem.Virtual || !errors.As(err, &e) || e.Option != "--chdir" || !errors.Is(e.Err, rootfs.ErrNotVisible) {
		return err
	}
	other := *e
	other.Hint = "with --virtual-fs only mounts are visible: --chdir takes the DST of one, or a directory below"
	return &other
}
