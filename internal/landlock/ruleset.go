package landlock

import (
	"io/fs"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// Input is what a ruleset is made from.
type Input struct {
	ABI  int         // of the kernel; 0 has none
	View *view.View  // nil shows nothing
	Host hostfs.Host // to tell files from directories; nil is this host

	NoTCP  bool   // no bind, and no connect
	Scoped uint64 // wanted, as far as the kernel can

	RootWritable bool // of Under: the root inside is an overlay

	TempDir string // of Alone: the run's own directory
	Root    string // of Alone: the tree that was to be the root
	// DenyAtStart: of Alone: a pattern or path that is denied may come to be in a writable tree.
	DenyAtStart bool
}

// Ruleset is what the kernel is asked to hold, and what it can't.
type Ruleset struct {
	handoff.Landlock
	ABI       int // used; 0 is none
	Limits    []Limit
	Immutable []ImmutableDir // of Alone
}

// ImmutableDir is a directory that is writable but for its own names: none can be made, renamed or removed.
type ImmutableDir struct {
	Dir string
	For []string // what in it, at any depth, is hidden or has to stay as it is
}

// Held says whether file rules are part of it.
func (r *Ruleset) Held() bool { return r.HandledFS&ReadFile != 0 }

// HoldsSockets says whether those of the host's are out of reach, but the named ones.
func (r *Ruleset) HoldsSockets() bool { return r.HandledFS&ResolveUnix != 0 }

// Gives says whether rights at a path are given, as far as they are handled at all.
func (r *Ruleset) Gives(at string, rights uint64) bool {
	rights &= r.HandledFS
	for i := range r.Rules {
		if rule := &r.Rules[i]; hostfs.Under(at, rule.Path) {
			rights &^= rule.Access
		}
	}
	return rights == 0
}

// Without has no rules about files.
func Without(in Input) *Ruleset {
	v := Version(in.ABI)
	r := &Ruleset{ABI: v.Version}
	r.Scoped = in.Scoped & v.Scoped
	if in.NoTCP {
		r.HandledNet = v.Net
	}
	return r
}

// Unix is Without, and has rules about the unix sockets of the host's, as far as
// the kernel can hold them. Its paths are those inside.
func Unix(in Input) *Ruleset {
	r := Without(in)
	if Version(r.ABI).FS&ResolveUnix == 0 {
		return r
	}
	r.HandledFS = ResolveUnix | Refer // which every ruleset refuses that doesn't give it
	r.add("/", Refer)
	host := hostOf(&in)
	for _, p := range in.places() {
		if p.kind != tree {
			continue
		}
		if f, err := host.Lstat(p.src.Path); err == nil && f.Mode.Type() == fs.ModeSocket {
			r.Rules = append(r.Rules, handoff.LandlockRule{Path: p.dst, Access: ResolveUnix, Dev: p.src.Dev, Ino: p.src.Ino, Optional: p.optional})
		}
	}
	return r
}

// UnderSince is the first version that can stand below a mount namespace without
// taking anything from it: before, nothing can be moved to another directory.
const UnderSince = 2

// Under is the ruleset below a mount namespace. Its paths are those inside. Below
// UnderSince it is Without.
//
// One rule lets everything be read and executed that is reached through the root
// inside, since all of it is meant to be. A rule for each tree would say less: it
// would hold wherever else that tree can be reached. The others are for what can be
// written to, devices in one. They hold for all that is below, on other mounts too: where something
// read-only lies in a private place, the mount alone holds it ([Inherited]).
func Under(in Input) *Ruleset {
	r := Without(in)
	if r.ABI < UnderSince {
		return r
	}
	host := hostOf(&in)
	r.handle()
	r.add("/", read)
	if in.RootWritable {
		r.add("/", write&r.HandledFS)
		r.limit(Inherited, "/")
	}
	devices, less := false, []string(nil)
	for _, p := range in.places() {
		rights, dir := uint64(0), true
		switch p.kind {
		case tree:
			f, err := host.Lstat(p.src.Path)
			rights, dir = p.rights(f.Mode), err != nil || f.Mode.IsDir()
			if rights&WriteFile == 0 {
				less = append(less, p.dst)
			}
		case private, sized, overlay:
			rights = write
		case processes:
			rights = proc
		case terminals:
			rights = device
		}
		// What takes away (a mask, a read-only part, a pin) is the namespace's.
		switch {
		case rights&r.HandledFS&^read == 0:
			continue
		case rights == device && hostfs.Under(p.dst, "/dev"):
			if !devices {
				devices = true
				r.add("/dev", device&r.HandledFS)
			}
			continue
		case !dir:
			rights &= ofFiles
		}
		rule := handoff.LandlockRule{Path: p.dst, Access: rights & r.HandledFS, Optional: p.optional}
		if p.kind == tree {
			rule.Dev, rule.Ino = p.src.Dev, p.src.Ino
		}
		r.Rules = append(r.Rules, rule)
	}
	for _, at := range less {
		if !in.RootWritable && r.Gives(at, WriteFile) {
			r.limit(Inherited, at)
		}
	}
	return r
}

// Alone is the ruleset without a mount namespace. Its paths are the caller's.
func Alone(in Input) *Ruleset {
	r := Without(in)
	if r.ABI == 0 {
		return r
	}
	r.handle()
	s := splitter{host: hostOf(&in), ruleset: r, at: make(map[string]*node)}
	for _, p := range in.places() {
		s.place(&p)
	}
	s.grantAll()
	if in.TempDir != "" {
		r.add(in.TempDir, write&r.HandledFS)
	}
	if in.DenyAtStart {
		r.limit(Later, "")
	}
	if in.Root != "" {
		r.limit(Root, "/")
	}
	r.always()
	return r
}

func (r *Ruleset) handle() { r.HandledFS = Version(r.ABI).FS }

func (r *Ruleset) add(path string, rights uint64) {
	r.Rules = append(r.Rules, handoff.LandlockRule{Path: path, Access: rights})
}

func (in *Input) places() []place {
	if in.View == nil {
		return nil
	}
	return placesOf(in.View)
}

func hostOf(in *Input) hostfs.Host {
	if in.Host == nil {
		return hostfs.This()
	}
	return in.Host
}
