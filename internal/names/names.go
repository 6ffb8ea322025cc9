// Package names says what names of the caller's mean: where each leads, who could have made the links on
// the way, and what is too broad to be shown because somebody happens to be there.
//
//   - [Names] follows names for whoever opens what they lead to: policies, reports, options.
//   - [Resolver] does it for a view in the making, with errors that blame an option. It knows the
//     current directory and the home directory, to which everything else is relative.
//   - [Trees] are the trees of work: what a clone, a build or an earlier run fills.
package names

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/internal/view"
)

// Names says where names of the caller's lead. A symbolic link that lies in a tree of work (Trees) was
// made by whoever filled that tree: a clone, or an earlier run. No name of the policy is followed
// through one. Other links are the system's or the caller's own, and are followed; but what is
// secret or protected has to be called by its own name.
type Names struct {
	trees   *Trees
	host    hostfs.Host
	homes   []string // as given, and canonical
	protect []string
	own     []string // policy files, and what confine itself keeps
	known   bool     // homes and own are
}

// NewNames makes one for a policy. It looks at nothing before it meets a link: most names lead through none.
func NewNames(in *view.Input) *Names {
	host := in.Host
	if host == nil {
		host = hostfs.This()
	}
	return &Names{trees: &Trees{host: host, in: in}, host: host, protect: in.Protect}
}

// look finds what is secret or protected by its place.
func (n *Names) look() {
	if n.known {
		return
	}
	n.known = true
	in := n.trees.in
	if path.IsAbs(in.HomeDir) {
		n.homes = []string{path.Clean(in.HomeDir)}
		if f, err := n.host.Resolve(in.HomeDir); err == nil {
			n.homes = append(n.homes, f.Path)
		}
	}
	n.own = slices.Clone(in.ConfigFiles)
	if in.Env != nil {
		n.own = append(n.own, OwnDirs(in.Env, in.HomeDir)...)
	}
}

// Real is where an absolute name leads. Whoever opens it follows no link any more, so that it is
// that, or nothing. writes says that something is to be written there. The error is ErrThroughLink,
// and has the path that would have to be written instead.
func (n *Names) Real(name string, writes bool) (string, error) {
	w := hostfs.Trace(n.host, name)
	if len(w.Links) == 0 {
		return name, nil // its own, as far as this system can tell
	}
	if err := n.follows(name, &w, writes); err != nil {
		return "", err
	}
	if w.End == "" {
		return "", &linkError{text: "leads through too many symbolic links"}
	}
	return w.End, nil
}

// inWork refuses a way through a link of a tree of work, or with out only one that leads out of it.
func (n *Names) inWork(w *hostfs.Way, out bool) error {
	for _, l := range w.Links {
		if t := n.trees.Of(l.At, path.Dir(l.At)); t != "" && (!out || !hostfs.Under(w.End, t)) {
			return &linkError{end: w.End, text: throughLink(l.At),
				hint: "a run, or a clone, may have made it; if you mean what it leads to, write that: "}
		}
	}
	return nil
}

// InWork says whether a canonical path lies in a tree of work.
func (n *Names) InWork(name string) bool { return n.trees.Of(name, name) != "" }

// throughLink is what is wrong with a name that isn't followed.
func throughLink(at string) string {
	return "leads through the symbolic link " + strconv.Quote(at) + ", which lies in a tree of work"
}

func (n *Names) follows(name string, w *hostfs.Way, writes bool) error {
	if len(w.Links) == 0 {
		return nil
	}
	if err := n.inWork(w, false); err != nil || w.End == "" {
		return err
	}
	name = path.Clean(name)
	at, what := n.secretAt(w.End), "the set of secrets has"
	if at == "" && writes {
		at, what = n.protectedAt(w.End), "is protected"
	}
	if at == "" || strings.HasSuffix(name, w.End[len(strings.TrimSuffix(path.Dir(at), "/")):]) || n.saysSecret(name) {
		return nil
	}
	return &linkError{end: w.End, text: "leads through the symbolic link " + strconv.Quote(w.Links[0].At) + " to what " + what,
		hint: "what is hidden or protected has to be called by its own name: "}
}

// secretAt is the path at or above a canonical one that the set of secrets has, or empty.
func (n *Names) secretAt(end string) string {
	n.look()
	homes := secrets.Homes(end, n.homes...)
	for rest := range secrets.AtHome() {
		for _, home := range homes {
			at := path.Join(home, rest)
			if hostfs.Under(end, at) {
				return at
			}
			if f, err := n.host.Resolve(at); err == nil && hostfs.Under(end, f.Path) {
				return f.Path
			}
		}
	}
	if secrets.Of(n.host, end) != "" {
		return end
	}
	return ""
}

// saysSecret: the name is that of a secret in the caller's home, wherever that is kept.
func (n *Names) saysSecret(name string) bool {
	return slices.ContainsFunc(n.homes, func(home string) bool { return secrets.InHome(home, name) != nil })
}

// protectedAt is the path at or above a canonical one that is protected, in whatever tree, or
// the path itself if something protected is below it; or empty.
func (n *Names) protectedAt(end string) string {
	if i := strings.Index(end+"/", "/.git/"); i >= 0 {
		return end[:i+len("/.git")]
	}
	for _, at := range n.own {
		if hostfs.Under(end, at) {
			return at
		}
	}
	for _, p := range n.protect {
		if rest, ok := AtHome(p); ok {
			for _, home := range n.homes {
				if at := path.Join(home, rest); hostfs.Under(end, at) {
					return at
				}
			}
			continue
		}
		if i := strings.Index(end+"/", "/"+p+"/"); i >= 0 {
			return end[:i+1+len(p)]
		}
		for up := path.Dir(p); up != "."; up = path.Dir(up) {
			if strings.HasSuffix(end, "/"+up) {
				return end
			}
		}
	}
	return ""
}

// linkError is a name that isn't followed.
type linkError struct{ end, text, hint string }

func (e *linkError) Error() string        { return e.text }
func (e *linkError) Is(target error) bool { return target == view.ErrThroughLink }

// LinkHint is the remedy of an ErrThroughLink.
func LinkHint(err error) string {
	var e *linkError
	if !errors.As(err, &e) {
		return ""
	}
	if e.end == "" {
		return "write a name without links"
	}
	return e.hint + shell.Word(e.end)
}

func refused(option, name string, err error) error {
	return &view.Error{Option: option, Path: name, Err: err, Hint: LinkHint(err)}
}

// LeavesTree refuses a way that a link of a tree of work leads out of that. It is for names that show
// nothing: of what is hidden, and of where to start.
func (c *Resolver) LeavesTree(option, name string, w hostfs.Way) error {
	if err := c.Names.inWork(&w, true); err != nil {
		return refused(option, name, err)
	}
	return nil
}

// resolved is what a name leads to that isn't canonical. It is opened once more, by the name where
// the links end that were looked at: none is followed then, so nobody can lead it elsewhere meanwhile.
func (c *Resolver) resolved(option, name, full string, writes bool) (hostfs.File, []hostfs.Link, error) {
	w := hostfs.Trace(c.Host, full)
	if err := c.Names.follows(full, &w, writes); err != nil {
		return hostfs.File{}, nil, refused(option, name, err)
	}
	f, err := c.Host.Resolve(w.End)
	if err == nil && f.Path != w.End {
		err = fs.ErrNotExist
	}
	if err != nil {
		return hostfs.File{}, nil, &view.Error{Option: option, Path: name, Err: err, Hint: "something else was put there meanwhile: try again"}
	}
	return f, w.Links, nil
}
