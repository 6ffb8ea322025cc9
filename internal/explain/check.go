package explain

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// Op is what somebody wants to do with a path.
type Op string

// The operations. Writing to a directory is making something in it.
const (
	Read   Op = "read"   // open it for reading; list it
	Write  Op = "write"  // open it for writing
	Create Op = "create" // make a file of that name
	Exec   Op = "exec"   // execute it
)

// Ops are all of them.
func Ops() []Op { return []Op{Read, Write, Create, Exec} }

// Reason says what decided.
type Reason string

// The closed set of reasons.
const (
	Granted     Reason = "granted"
	Hidden      Reason = "hidden"      // a rule hides it, or none shows it
	Absent      Reason = "absent"      // nothing is there, outside either
	ReadOnly    Reason = "read_only"   // it is shown, and can't be written to
	Permissions Reason = "permissions" // the mode or the ACL of a file doesn't let the run's user
	Owner       Reason = "owner"       // an overlay can't copy what belongs to an id that isn't there inside, or whose ACL names one
	NoExec      Reason = "noexec"      // nothing on its file system is executed
	Device      Reason = "device"      // device nodes don't work there
	Kind        Reason = "kind"        // it is no program, a socket, no directory, or there already
	Loop        Reason = "loop"        // the links that it leads through never end
	Process     Reason = "process"     // it depends on the process
)

// Decision is what is at a path, and whether an operation on it is granted.
type Decision struct {
	Op      Op
	Path    string // inside, with the links followed as far as they lead
	Meant   string // Path, and what is left of the name where nothing leads on
	Source  string // outside; empty is the run's own
	Exists  bool
	IsDir   bool
	Granted bool
	Reason  Reason
	At      string    // where it was decided: Path, or a directory or link on the way
	Rule    view.Rule // that shows or hides that place; none: nothing does
	Details string    // of Permissions and the like

	free bool // everything is there but the last name
}

// Check decides as the kernel does inside, as far as files and mounts matter. name is absolute; links in it are
// followed.
func (c *Checker) Check(name string, op Op) Decision {
	n, rest, failed := c.walk(name, op != Create)
	if failed != nil {
		failed.Op, failed.Meant = op, c.resolveRest(failed.Path, rest)
		c.absentOutside(failed)
		switch {
		case !failed.free:
		case op == Create:
			return c.create(*failed)
		case op == Write && failed.Reason == Absent:
			if made := c.create(*failed); !made.Granted {
				failed.Details = "nor can it be made: " + string(made.Reason) + " at " + made.At
				if made.Details != "" {
					failed.Details += ": " + made.Details
				}
			}
		}
		return *failed
	}
	s := c.decision(n)
	s.Op = op
	if n.ofProcess() {
		if !strings.Contains(n.at, "self") {
			s.Reason, s.Details = Process, "it is about one process"
			return s
		}
		n.UID, n.GID = c.by.UID, c.by.GID
	}
	c.decide(&s, &n, op)
	return s
}

func (c *Checker) decision(n node) Decision {
	return Decision{Path: n.at, Meant: n.at, Source: n.source, Exists: true, IsDir: n.Mode.IsDir(), At: n.at, Rule: c.rule(&n)}
}

// decide is about something that is there.
func (c *Checker) decide(s *Decision, n *node, op Op) {
	const readBit, writeBit, execBit = 4, 2, 1
	no := func(why Reason, details string) { s.Reason, s.Details = why, details }
	kind := n.Mode.Type()
	special := kind&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0
	want := map[Op]uint32{Read: readBit, Write: writeBit, Exec: execBit}[op]
	if op == Write && n.Mode.IsDir() {
		want |= execBit
	}
	switch {
	case op == Create:
		no(Kind, "there is something of that name already")
	case n.layer.kind == mask:
		no(Hidden, "")
	case op != Exec && kind == fs.ModeSocket:
		no(Kind, "it is a socket")
	case op == Exec && !n.Mode.IsRegular():
		no(Kind, "it is no file")
	case op == Exec && n.NoExec:
		no(NoExec, "")
	case !c.may(n, want):
		no(Permissions, n.permissions())
	case op == Exec && !c.readsForOverlay(n):
		no(Owner, n.permissions())
	case op != Exec && kind&fs.ModeDevice != 0 && n.NoDev:
		no(Device, "")
	case op == Write && n.ReadOnly && !special:
		no(ReadOnly, "")
	case op == Write && n.layer.kind == terminals && n.Mode.IsDir():
		no(ReadOnly, "")
	case op == Write && n.layer.kind == processes && n.Mode.IsDir():
		no(ReadOnly, "")
	case op == Write && !special:
		if at, details := c.uncopied(n); at != "" {
			s.At = at
			no(Owner, details)
			return
		}
		fallthrough
	default:
		s.Granted, s.Reason = true, Granted
	}
}

// create is about a name that isn't there, in a directory that may be.
func (c *Checker) create(s Decision) Decision {
	dir, found := c.look(path.Dir(s.Path))
	if !found || !dir.Mode.IsDir() {
		return s
	}
	in := c.decision(dir)
	c.decide(&in, &dir, Write)
	s.Granted, s.Reason, s.At, s.Rule, s.Details = in.Granted, in.Reason, in.At, in.Rule, in.Details
	return s
}

// walk follows a path as the kernel does. Where it can't, it says why, and where, and
// what of the name is left.
func (c *Checker) walk(name string, follow bool) (at node, rest string, failed *Decision) {
	cur, _ := c.look("/")
	rest, followed := name, 0
	for {
		var component string
		if component, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/"); component == "" {
			return cur, "", nil
		}
		last := strings.Trim(rest, "/") == ""
		if !cur.Mode.IsDir() {
			s := c.decision(cur)
			s.Path, s.Exists, s.Reason, s.Details = path.Join(cur.at, component), false, Kind, "it is no directory"
			return cur, rest, &s
		}
		if !c.may(&cur, 1) {
			s := c.decision(cur)
			s.Path, s.Exists, s.Reason, s.Details = path.Join(cur.at, component), false, Permissions, cur.permissions()
			if cur.layer.kind == mask {
				s.Reason, s.Details = Hidden, ""
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
		n, found := c.look(next)
		switch {
		case !found:
			s := c.missing(next, !last)
			return n, rest, &s
		case n.Mode.Type() != fs.ModeSymlink || last && !follow:
			cur = n
			continue
		case n.ofProcess() && n.at != "/proc/self" && n.at != "/proc/thread-self":
			s := c.decision(n)
			s.Reason, s.Details = Process, "the link is followed by its process"
			return n, rest, &s
		case n.ofProcess():
			n.Mode = fs.ModeDir | 0o555 // whoever asks has one
			cur = n
			continue
		}
		if followed++; followed > hostfs.MaxLinks {
			s := c.decision(n)
			s.Reason = Loop
			return n, rest, &s
		}
		if path.IsAbs(n.text) {
			cur, _ = c.look("/")
		}
		rest = n.text + "/" + rest
	}
}

// hider is the rule that hides a path.
func (c *Checker) hider(at string) (rule view.Rule) {
	for _, r := range c.view.Rules {
		if r.Path == at && r.Access == view.RuleHidden {
			rule = r
		}
	}
	return rule
}

// missing is a place where nothing is inside.
func (c *Checker) missing(at string, onTheWay bool) Decision {
	n := node{layer: c.covering(at), at: at}
	s := Decision{Path: at, Meant: at, At: at, Reason: Absent, Rule: c.rule(&n), free: !onTheWay}
	if onTheWay {
		s.Details = "a directory on the way is not there"
		s.At = path.Dir(at)
	}
	if n.layer.kind == tree || n.layer.kind == overlay {
		s.Source = hostfs.Rebase(at, n.layer.dst, n.layer.src)
		return s
	}
	if _, err := c.by.Host.Lstat(at); err == nil {
		s.Reason = Hidden // it is there, for others
		if i := slices.IndexFunc(c.absent, func(d string) bool { return hostfs.Under(at, d) }); i >= 0 {
			s.Rule = c.hider(c.absent[i])
		}
		if onTheWay {
			s.Details = ""
		}
		if n.layer.kind == privateRoot && n.layer.dst == "/" {
			s.Rule = view.Rule{}
		}
	}
	return s
}

// resolveRest is a place inside with what is left of a name there, by which options know it.
// Links in the rest stay: what is shown by a name is shown with the links that the name
// leads through. With "..", which goes up from where a link leads, only the caller's
// files tell.
func (c *Checker) resolveRest(at, rest string) string {
	if rest = strings.Trim(rest, "/"); rest == "" {
		return at
	}
	if !slices.Contains(strings.Split(rest, "/"), "..") {
		return path.Join(at, rest)
	}
	full := strings.TrimSuffix(at, "/") + "/" + rest
	if f, err := c.by.Host.Resolve(full); err == nil {
		return f.Path
	}
	dir, name := path.Split(full)
	if f, err := c.by.Host.Resolve(dir); err == nil {
		return path.Join(f.Path, name)
	}
	return path.Clean(full)
}

// absentOutside: a directory on the way is hidden, but what is meant isn't there for the
// caller either, so that showing it is no remedy. Of a name that is to be made, its
// directory counts.
func (c *Checker) absentOutside(s *Decision) {
	need := s.Meant
	if s.Op == Create {
		need = path.Dir(need)
	}
	if s.Reason != Hidden || s.Meant == s.Path {
		return
	}
	if _, err := c.by.Host.Lstat(need); err != nil && hostfs.Absent(err) {
		s.Reason, s.Details = Absent, "nor is it outside"
	}
}
