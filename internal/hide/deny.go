// Package hide takes out of a view in the making what is denied (deny.go), what the set of secrets
// has (secrets.go), and the host's unix sockets (sockets.go), in that order.
package hide

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/confine-run/confine/internal/gitdir"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

const optDeny = "--deny"

// maxSearch bounds how many files the search for one pattern looks at, and
// maxSearchTime how long all of them together may take: a tree may lie far away.
const (
	MaxSearch     = 200_000
	maxSearchTime = 20 * time.Second
)

// Hider takes out of what is shown what is denied, secret, or a socket of the host's.
type Hider struct {
	*names.Resolver
	git    *gitdir.Reader
	now    func() time.Time
	until  time.Time // when searches have to be done
	passed []string  // sockets that searches came across, outside

	DenyAtStart   bool   // Table.DenyAtStart
	SocketsLater  bool   // Table.SocketsLater
	SocketsMissed string // Table.SocketsMissed
}

func New(r *names.Resolver, git *gitdir.Reader, now func() time.Time) *Hider {
	return &Hider{Resolver: r, git: git, now: now}
}

// Deny hides what the caller denied.
func (c *Hider) Deny() error {
	for _, d := range c.In.Deny {
		if d == secrets.Set {
			continue // a step of its own
		}
		full, err := c.Absolute(optDeny, d)
		if err != nil {
			return err
		}
		if !strings.ContainsAny(full, `*?[{\`) {
			err = c.denyPath(d, full)
		} else if _, e := c.Host.Lstat(full); e == nil {
			err = c.denyPath(d, full) // its name only looks like a pattern
		} else {
			err = c.denyPattern(d, full)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Denies says whether words of --deny are about a canonical path, be it shown or not.
func Denies(h hostfs.Host, words []string, dir, name string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		if word == secrets.Set {
			return false
		}
		if !path.IsAbs(word) {
			word = dir + "/" + word
		}
		word = path.Clean(word)
		real, pattern := word, word
		if f, err := h.Resolve(word); err == nil {
			real = f.Path
		}
		base, rest := doublestar.SplitPattern(word)
		if f, err := h.Resolve(base); err == nil {
			pattern = strings.TrimSuffix(escape(f.Path), "/") + "/" + rest
		}
		for at := name; at != "/"; at = path.Dir(at) {
			if at == word || at == real || doublestar.MatchUnvalidated(pattern, at) {
				return true
			}
		}
		return false
	})
}

// denyPath hides one path wherever it is shown. What isn't there needs no hiding.
func (c *Hider) denyPath(given, full string) error {
	f, err := c.Host.Resolve(full)
	if err != nil || f.Path != path.Clean(full) {
		if err := c.LeavesTree(optDeny, given, hostfs.Trace(c.Host, full)); err != nil {
			return err
		}
	}
	if hostfs.Absent(err) {
		c.noteLaterAt(c.willBe(path.Clean(full)), path.Clean(full))
		// It may still be a place inside that a mount made.
		c.hideShown("", path.Clean(full), given)
		return nil
	}
	if err != nil {
		// This user can't see it now; the target is the same user.
		c.hideShown(path.Clean(full), path.Clean(full), given)
		return nil
	}
	if f.Path == "/" {
		return &view.Error{Option: optDeny, Path: given, Err: view.ErrTooBroad, Hint: "what isn't allowed is not visible anyway: --virtual-fs leaves the system only"}
	}
	c.hideShown(f.Path, path.Clean(full), given)
	return nil
}

// willBe is the canonical path of what isn't there yet: that of the nearest directory
// which is, and the rest as it stands.
func (c *Hider) willBe(full string) string {
	for up := path.Dir(full); ; up = path.Dir(up) {
		if f, err := c.Host.Resolve(up); err == nil {
			return hostfs.Rebase(full, up, f.Path)
		}
		if up == "/" {
			return full
		}
	}
}

// hideShown hides a path of the caller's at every place that shows it, and what
// stands at a path inside.
func (c *Hider) hideShown(outside, inside, given string) {
	found := c.ShownAt(outside)
	for i := range c.Grants {
		if g := &c.Grants[i]; g.Access != view.Private && g.Dst != g.Src.Path && hostfs.Under(inside, g.Dst) {
			found = append(found, inside)
		}
	}
	for _, at := range found {
		if g := c.Nearest(at); g != nil && g.Access != view.Private {
			if _, err := c.Host.Lstat(g.At(at)); !hostfs.Absent(err) {
				c.hideGiven(at, given)
			}
		}
	}
}

// hideGiven hides a path inside by a word of the option's.
func (c *Hider) hideGiven(at, given string) {
	c.Hide(at, optDeny+" "+given, view.Origin{Option: view.FromDeny, Word: given})
}

// denyPattern hides what matches in trees of the caller's.
func (c *Hider) denyPattern(given, full string) error {
	base, rest := doublestar.SplitPattern(full)
	f, err := c.Host.Resolve(base)
	if err != nil || f.Path != path.Clean(base) {
		if err := c.LeavesTree(optDeny, given, hostfs.Trace(c.Host, base)); err != nil {
			return err
		}
	}
	if err == nil {
		base = f.Path // patterns match canonical paths
	} else {
		base = path.Clean(base)
	}
	pattern := escape(base) + "/" + rest
	if base == "/" {
		pattern = "/" + rest
	}
	if !doublestar.ValidatePattern(pattern) {
		return &view.Error{Option: optDeny, Path: given, Err: view.ErrInvalid, Hint: "a bracket or brace is not closed"}
	}
	s := search{c: c, given: given, pattern: pattern, base: base, depth: -1,
		hint: "name a directory before the first wildcard", until: c.deadline()}
	if !strings.Contains(rest, "**") && !strings.ContainsAny(rest, `{\`) {
		s.depth = strings.Count(pattern, "/")
	}
	for _, g := range slices.Clone(c.Grants) {
		if g.System || g.Access == view.Private {
			continue
		}
		if s.leads(g.Src.Path) || s.leads(g.Dst) {
			c.noteLater(&g)
		}
		if err := s.tree(&g); err != nil {
			return err
		}
	}
	for _, at := range s.found {
		c.hideGiven(at, given)
	}
	// What is shown below something hidden is itself denied if it matches.
	for _, g := range slices.Clone(c.Grants) {
		if !g.System && g.Access != view.Private && (s.matches(g.Src.Path) || s.matches(g.Dst)) {
			c.hideGiven(g.Dst, given)
		}
	}
	return nil
}

func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`).Replace(s)
}

// search looks for what matches one pattern.
type search struct {
	c              *Hider
	given, pattern string
	hint           string
	until          time.Time
	base           string // every match is below it
	depth          int    // number of slashes in a match; -1 is any
	seen           int
	found          []string // inside
}

func (s *search) matches(p string) bool { return doublestar.MatchUnvalidated(s.pattern, p) }

// tree searches one grant, by the names that its files have outside and, where
// these differ, inside.
func (s *search) tree(g *view.Grant) error {
	if s.matches(g.Src.Path) || s.matches(g.Dst) {
		s.found = append(s.found, g.Dst)
		return nil
	}
	if !g.Src.Mode.IsDir() {
		return nil
	}
	return s.directory(g, g.Src.Path, g.Dst)
}

func (s *search) leads(dir string) bool {
	return (hostfs.Under(dir, s.base) || hostfs.Under(s.base, dir)) && (s.depth < 0 || strings.Count(dir, "/") < s.depth)
}

// read lists a directory, within the bounds of the search.
func (s *search) read(dir string) ([]hostfs.Entry, error) {
	entries, err := s.c.Host.ReadDir(dir)
	s.seen += len(entries)
	switch {
	case s.seen > MaxSearch:
		return nil, view.ErrLimit
	case s.c.now().After(s.until):
		return nil, view.ErrSlow
	}
	return entries, err
}

// overBound is the error of a search that met its bound. One of a directory that
// went away is none.
func (s *search) overBound(err error) error {
	if err == view.ErrLimit || err == view.ErrSlow {
		return &view.Error{Option: optDeny, Path: s.given, Err: err, Hint: s.hint}
	}
	return nil
}

// deadline is when all searches have to be done, from the first one on.
func (c *Hider) deadline() time.Time {
	if c.until.IsZero() {
		c.until = c.now().Add(maxSearchTime)
	}
	return c.until
}

// noteLater notes that what comes to be in a tree after the start isn't hidden.
func (c *Hider) noteLater(g *view.Grant) {
	c.DenyAtStart = c.DenyAtStart || g.Access == view.Write || g.Access == view.Overlay && !c.In.Bare
}

// noteLaterAt is later for one path that isn't there.
func (c *Hider) noteLaterAt(outside, inside string) {
	for i := range c.Grants {
		g := &c.Grants[i]
		if g.Access == view.Private {
			continue
		}
		if at := hostfs.RebaseUnder(outside, g.Src.Path, g.Dst); at != "" && c.Nearest(at) == g || c.Nearest(inside) == g {
			c.noteLater(g)
		}
	}
}

func (s *search) directory(g *view.Grant, outside, inside string) error {
	if !s.leads(outside) && (outside == inside || !s.leads(inside)) {
		return nil
	}
	if n := s.c.Nearest(inside); n == nil || n.Dst != g.Dst {
		return nil // another grant shows what is here
	}
	entries, err := s.read(outside)
	if errors.Is(err, fs.ErrPermission) {
		// Names in it may be opened without being listed, or its mode changed.
		s.found = append(s.found, inside)
		return nil
	}
	if err != nil {
		return s.overBound(err)
	}
	for _, e := range entries {
		o, i := path.Join(outside, e.Name), path.Join(inside, e.Name)
		switch {
		case s.matches(o) || s.matches(i):
			// A link is only a name; where it leads is searched as itself.
			if e.Type&fs.ModeSymlink == 0 {
				s.found = append(s.found, i)
			}
		case e.Type.IsDir():
			if err := s.directory(g, o, i); err != nil {
				return err
			}
		case e.Type == fs.ModeSocket:
			s.c.noteSocket(g, o)
		}
	}
	return nil
}
