package rootfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/handoff"
)

// Wish is what somebody wants to do with a path.
type Wish string

// The wishes. Writing to a directory is making something in it.
const (
	WishRead   Wish = "read"   // open it for reading; list it
	WishWrite  Wish = "write"  // open it for writing
	WishCreate Wish = "create" // make a file of that name
	WishExec   Wish = "exec"   // execute it
)

// Wishes are all of them.
func Wishes() []Wish { return []Wish{WishRead, WishWrite, WishCreate, WishExec} }

// Reason says what decided about a wish.
type Reason string

// The closed set of reasons.
const (
	ReasonGranted     Reason = "granted"
	ReasonHidden      Reason = "hidden"      // a rule hides it, or none shows it
	ReasonAbsent      Reason = "absent"      // nothing is there, outside either
	ReasonReadOnly    Reason = "read_only"   // it is shown, and can't be written to
	ReasonPermissions Reason = "permissions" // the mode or the ACL of a file doesn't let the run's user
	ReasonOwner       Reason = "owner"       // an overlay can't copy what belongs to an id that isn't there inside, or whose ACL names one
	ReasonNoExec      Reason = "noexec"      // nothing on its file system is executed
	ReasonDevice      Reason = "device"      // device nodes don't work there
	ReasonKind        Reason = "kind"        // it is no program, a socket, no directory, or there already
	ReasonLoop        Reason = "loop"        // the links that it leads through never end
	ReasonProcess     Reason = "process"     // it depends on the process
)

// Sight is what is at a path for a wish.
type Sight struct {
	Wish    Wish
	Path    string // inside, with the links followed as far as they lead
	Meant   string // Path, and what is left of the name where nothing leads on
	Source  string // outside; empty is the run's own
	Exists  bool
	IsDir   bool
	Granted bool
	Reason  Reason
	At      string // where it was decided: Path, or a directory or link on the way
	Rule    Rule   // that shows or hides that place; none: nothing does
	Details string // of ReasonPermissions and the like

	free bool // everything is there but the last name
}

// See says whether a wish comes true: what the kernel does inside, as far as files
// and mounts decide. name is absolute; links in it are followed.
func (v *View) See(name string, w Wish) Sight {
	n, rest, failed := v.walk(name, w != WishCreate)
	if failed != nil {
		failed.Wish, failed.Meant = w, v.meant(failed.Path, rest)
		v.absentOutside(failed)
		switch {
		case !failed.free:
		case w == WishCreate:
			return v.create(*failed)
		case w == WishWrite && failed.Reason == ReasonAbsent:
			if made := v.create(*failed); !made.Granted {
				failed.Details = "nor can it be made: " + string(made.Reason) + " at " + made.At
				if made.Details != "" {
					failed.Details += ": " + made.Details
				}
			}
		}
		return *failed
	}
	s := v.sight(n)
	s.Wish = w
	if n.ofProcess() {
		if !strings.Contains(n.at, "self") {
			s.Reason, s.Details = ReasonProcess, "it is about one process"
			return s
		}
		n.UID, n.GID = v.by.UID, v.by.GID
	}
	v.decide(&s, &n, w)
	return s
}

func (v *View) sight(n node) Sight {
	return Sight{Path: n.at, Meant: n.at, Source: n.source, Exists: true, IsDir: n.Mode.IsDir(), At: n.at, Rule: v.rule(&n)}
}

// decide is about something that is there.
func (v *View) decide(s *Sight, n *node, w Wish) {
	const readBit, writeBit, execBit = 4, 2, 1
	no := func(why Reason, details string) { s.Reason, s.Details = why, details }
	kind := n.Mode.Type()
	special := kind&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0
	want := map[Wish]uint32{WishRead: readBit, WishWrite: writeBit, WishExec: execBit}[w]
	if w == WishWrite && n.Mode.IsDir() {
		want |= execBit
	}
	switch {
	case w == WishCreate:
		no(ReasonKind, "there is something of that name already")
	case n.layer.mask:
		no(ReasonHidden, "")
	case w != WishExec && kind == fs.ModeSocket:
		no(ReasonKind, "it is a socket")
	case w == WishExec && !n.Mode.IsRegular():
		no(ReasonKind, "it is no file")
	case w == WishExec && n.NoExec:
		no(ReasonNoExec, "")
	case !v.may(n, want):
		no(ReasonPermissions, n.permissions())
	case w == WishExec && !v.readsForOverlay(n):
		no(ReasonOwner, n.permissions())
	case w != WishExec && kind&fs.ModeDevice != 0 && n.NoDev:
		no(ReasonDevice, "")
	case w == WishWrite && n.ReadOnly && !special:
		no(ReasonReadOnly, "")
	case w == WishWrite && n.layer.kind == handoff.MountDevpts && n.Mode.IsDir():
		no(ReasonReadOnly, "")
	case w == WishWrite && n.layer.kind == handoff.MountProc && n.Mode.IsDir():
		no(ReasonReadOnly, "")
	case w == WishWrite && !special:
		if at, details := v.uncopied(n); at != "" {
			s.At = at
			no(ReasonOwner, details)
			return
		}
		fallthrough
	default:
		s.Granted, s.Reason = true, ReasonGranted
	}
}

// create is about a name that isn't there, in a directory that may be.
func (v *View) create(s Sight) Sight {
	dir, found := v.look(path.Dir(s.Path))
	if !found || !dir.Mode.IsDir() {
		return s
	}
	in := v.sight(dir)
	v.decide(&in, &dir, WishWrite)
	s.Granted, s.Reason, s.At, s.Rule, s.Details = in.Granted, in.Reason, in.At, in.Rule, in.Details
	return s
}

// walk follows a path as the kernel does. Where it can't, it says why, and where, and
// what of the name is left.
func (v *View) walk(name string, follow bool) (at node, rest string, failed *Sight) {
	cur, _ := v.look("/")
	rest, followed := name, 0
	for {
		var component string
		if component, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/"); component == "" {
			return cur, "", nil
		}
		last := strings.Trim(rest, "/") == ""
		if !cur.Mode.IsDir() {
			s := v.sight(cur)
			s.Path, s.Exists, s.Reason, s.Details = path.Join(cur.at, component), false, ReasonKind, "it is no directory"
			return cur, rest, &s
		}
		if !v.may(&cur, 1) {
			s := v.sight(cur)
			s.Path, s.Exists, s.Reason, s.Details = path.Join(cur.at, component), false, ReasonPermissions, cur.permissions()
			if cur.layer.mask {
				s.Reason, s.Details = ReasonHidden, ""
			}
			return cur, rest, &s
		}
		next := cur.at
		switch component {
		case ".":
		case "..":
			next = path.Dir(next)
		default:
			next = path.Join(next, component)
		}
		n, found := v.look(next)
		switch {
		case !found:
			s := v.missing(next, !last)
			return n, rest, &s
		case n.Mode.Type() != fs.ModeSymlink || last && !follow:
			cur = n
			continue
		case n.ofProcess() && n.at != "/proc/self" && n.at != "/proc/thread-self":
			s := v.sight(n)
			s.Reason, s.Details = ReasonProcess, "the link is followed by its process"
			return n, rest, &s
		case n.ofProcess():
			n.Mode = fs.ModeDir | 0o555 // whoever asks has one
			cur = n
			continue
		}
		if followed++; followed > hostfs.MaxLinks {
			s := v.sight(n)
			s.Reason = ReasonLoop
			return n, rest, &s
		}
		if path.IsAbs(n.text) {
			cur, _ = v.look("/")
		}
		rest = n.text + "/" + rest
	}
}

// hider is the rule that hides a path.
func (v *View) hider(at string) (rule Rule) {
	for _, r := range v.table.Rules {
		if r.Path == at && r.Access == AccessHidden {
			rule = r
		}
	}
	return rule
}

// missing is a place where nothing is inside.
func (v *View) missing(at string, onTheWay bool) Sight {
	n := node{layer: v.covering(at), at: at}
	s := Sight{Path: at, Meant: at, At: at, Reason: ReasonAbsent, Rule: v.rule(&n), free: !onTheWay}
	if onTheWay {
		s.Details = "a directory on the way is not there"
		s.At = path.Dir(at)
	}
	if n.layer.kind == handoff.MountBind || n.layer.kind == handoff.MountOverlay {
		s.Source = hostfs.Rebase(at, n.layer.dst, n.layer.src)
		return s
	}
	if _, err := v.by.Host.Lstat(at); err == nil {
		s.Reason = ReasonHidden // it is there, for others
		if i := slices.IndexFunc(v.absent, func(d string) bool { return hostfs.Under(at, d) }); i >= 0 {
			s.Rule = v.hider(v.absent[i])
		}
		if onTheWay {
			s.Details = ""
		}
		if n.layer.kind == 0 && n.layer.dst == "/" {
			s.Rule = Rule{}
		}
	}
	return s
}
