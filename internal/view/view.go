// Package view says what the target of a run sees of the file system, and what of it is writable: one
// portable value, [View], between the policy and what enforces it.
//
// Package rootfs decides it, from an [Input]. Compilers and readers of it decide nothing anew: mounts
// (rootfs), Landlock rules (landlock) and answers to "explain --path" (explain) are made of the same
// value, and so would be those of any other system.
//
// # How to read one
//
// The innermost [Grant] that holds a path shows it, unless the path is, or lies in, something
// [Hidden] deeper than that grant. What is writable so is taken back where it is [Protected]. What was [Made]
// for the run stands in the places that no tree of the caller's takes. Each entry of the
// caller's tree says why, and has its origin: the option, and the word of it, that it comes from.
package view

import "github.com/confine-run/confine/internal/hostfs"

// View is what the target will see. Paths are those inside, unless something else is said, clean and
// absolute.
type View struct {
	Grants    []Grant       // by path once they are settled, directories before what is in them
	Links     []hostfs.Link // symbolic links that names lead through
	Made      []Made
	Hidden    []Hidden
	Protected []Protected
	// Instead is shown where there can be no overlay over a grant that lies beneath the run's own files,
	// and InsteadLinks too.
	Instead      []Grant
	InsteadLinks []hostfs.Link
	Absent       []Hidden // what isn't there of what lies beneath
	// RootReadOnly: the grant that is the root can be no overlay.
	RootReadOnly bool

	Dir string // where to start
	// Env is what follows for the environment: HOME, TMPDIR, PATH with only the
	// entries that exist inside, and the variables of the tool chains shown.
	Env     map[string]string
	Rules   []Rule // all of it in words, sorted by path
	Notices []string
	Told    []string // the paths that aren't shown and that these name
}

// Access is what can be done with a tree, in the order in which one beats the
// other at a tie.
type Access uint8

// The kinds of access.
const (
	Private Access = iota // empty and writable, nothing of the caller's
	Read
	Overlay // writes are kept apart
	Write
)

func (a Access) String() string {
	return [...]string{RulePrivate, RuleRead, RuleOverlay, RuleWrite}[a]
}

// Grant is one tree that is to be visible.
type Grant struct {
	Dst    string      // inside
	Src    hostfs.File // outside; nothing when private
	Mode   uint32      // when private
	Size   int64       // when private: its own; 0 is a part of what all share
	Access Access
	// Explicit: the caller named it. What a profile or discovery adds never
	// takes anything from that.
	Explicit bool
	Mount    bool // Dst was chosen by the caller
	System   bool // nothing of the caller's: deny patterns aren't searched for here
	// Searched says how many levels of it are searched for secrets by name; -1 is
	// all of them. What discovery adds isn't searched.
	Searched int
	Optional bool
	Root     bool   // --rootfs
	Beneath  bool   // what is made for the run at its place lies over it
	Git      bool   // a git directory by itself
	OfWork   bool   // discovery found it in a tree of work
	Option   string // to blame
	// Instead: of an overlay, as handoff.Mount.Text.
	Instead string
	Why     string
	Origin  Origin
}

// At is where a path inside comes from, when g is what shows it.
func (g *Grant) At(inside string) string { return hostfs.Rebase(inside, g.Dst, g.Src.Path) }

// Shows is where g shows a path of the caller's.
func (g *Grant) Shows(outside string) string {
	if !hostfs.Under(outside, g.Src.Path) {
		return g.Dst // the same directory by another name
	}
	return hostfs.Rebase(outside, g.Src.Path, g.Dst)
}

// Reviewed says whether what is written to it is told, kept and applied.
func (g *Grant) Reviewed() bool { return g.Access == Overlay && (g.Option != "" || g.Git) }

// beats decides between two grants of the same path.
func (g *Grant) beats(o *Grant) bool {
	if g.Mount != o.Mount {
		return g.Mount
	}
	if g.Access != o.Access {
		return g.Access > o.Access
	}
	return g.Explicit && !o.Explicit
}

// Nearest is the grant that shows a path, or nil. Before they are settled, ties
// and redundant grants are still there.
func Nearest(grants []Grant, at string) *Grant {
	var best *Grant
	for i := range grants {
		g := &grants[i]
		if !hostfs.Under(at, g.Dst) {
			continue
		}
		if best == nil || len(g.Dst) > len(best.Dst) || len(g.Dst) == len(best.Dst) && g.beats(best) {
			best = g
		}
	}
	return best
}

// Nearest is the grant that shows a path, or nil.
func (v *View) Nearest(at string) *Grant { return Nearest(v.Grants, at) }

// Kind is what was made for the run.
type Kind uint8

// The kinds of what is made.
const (
	Dir Kind = iota + 1
	File
	Link
	Device     // one of the host's, by Src
	Terminals  // an own devpts
	Processes  // an own proc
	Scratch    // a private writable directory
	KernelPart // of Processes: read-only
	KernelMask // of Processes: hidden
)

// Made is something of the run's own.
type Made struct {
	Kind     Kind
	Dst      string
	Src      hostfs.File
	Text     string // of a file; where a link leads
	Mode     uint32
	ReadOnly bool // of Scratch, once all is made
	Optional bool
}

// DirAt is a directory that is made.
func DirAt(dst string) Made { return Made{Kind: Dir, Dst: dst, Mode: 0o755} }

// Hidden is one path at which nothing can be opened.
type Hidden struct {
	Dst string
	// Open: something below it is shown, so what hides it must be a directory
	// in which that has a place.
	Open bool
	File hostfs.File // what is hidden

	Why    string
	Origin Origin
}

// Keep is how something is protected.
type Keep uint8

// The ways in which a path stays as it is.
const (
	Pinned   Keep = iota + 1 // it can't be renamed or removed; what is in it is as it was
	ReadOnly                 // it can't be written to
	Masked                   // of a link: it is hidden
	Shown                    // of a link: what it leads to is shown in its place, read-only
)

// Protected is one path in a writable tree that stays as it is.
type Protected struct {
	Dst  string
	Keep Keep
	Src  hostfs.File // Shown: that; ReadOnly: with Ino, it has to be there

	Why    string
	Origin Origin
}

// Rule says how one path appears, and why.
type Rule struct {
	Path   string `json:"path"`
	Access string `json:"access"` // one of the constants below
	Why    string `json:"why"`
	Origin Origin `json:"-"`
}

// NearestRule is the rule that is about a path, or the nearest of the directories that it is in.
func NearestRule(rules []Rule, at string) (best Rule) {
	for _, rule := range rules {
		if hostfs.Under(at, rule.Path) && len(rule.Path) >= len(best.Path) {
			best = rule
		}
	}
	return best
}

// The values of Rule.Access.
const (
	RuleRead      = "read"
	RuleWrite     = "write"
	RuleOverlay   = "overlay"
	RulePrivate   = "private"
	RuleHidden    = "hidden"
	RuleProtected = "protected"
)
