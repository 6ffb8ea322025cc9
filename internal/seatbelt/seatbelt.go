package seatbelt

import (
	"cmp"
	_ "embed" // the texts
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

//go:embed base.sbpl
var base string

//go:embed network.sbpl
var network string

// ownSockets are those that a run makes in its own directory.
const ownSockets = `
; Sockets of its own.
(allow system-socket (socket-domain AF_UNIX))
(allow network-bind network-inbound (local unix-socket (subpath (param "PLACE"))))
(allow network-outbound (remote unix-socket (subpath (param "PLACE"))))
`

// Input is what a profile is made of.
type Input struct {
	View *view.View
	// Absent are protected paths that aren't there, and have to stay so.
	Absent []string
	// Place is the run's own directory, in the place of all private ones. "": there is none.
	Place string
	// Programs are read and executed beside what the view shows.
	Programs []string
	// Network is the caller's, as it is.
	Network bool
	// Proxy is the port of this host that is all that can be connected to, where Network isn't set; 0: there is none.
	Proxy uint16
	// Mark is what the run is known by. It is in no other run's profile.
	Mark string
}

// Do is what a rule is about.
type Do uint8

// What can be done with a path.
const (
	Stat   Do = 1 << iota // see that it is there, and its size, owner, mode and times
	Read                  // read it, list it
	Exec                  // execute it
	Data                  // write to it
	Write                 // make it, change its owner, mode and times
	Unlink                // rename and remove it
)

const (
	reads  = Stat | Read | Exec
	writes = Data | Write | Unlink
)

// operations are the kernel's, the first for what it has all of. file-read* has neither of those of Stat on every release.
var operations = [...]struct {
	do    Do
	names string
}{
	{Stat, "file-read-metadata file-test-existence"},
	{Read, "file-read*"},
	{Exec, "process-exec* file-map-executable"},
	{writes, "file-write*"},
	{Data, "file-write-data"},
	{Unlink, "file-write-unlink"},
}

// Rule lets something be done at a path, or doesn't.
type Rule struct {
	Allow bool
	Do    Do
	Path  string
	Below bool // and below it
}

// Profile is what the kernel is to hold. Of its rules the last that matches counts; where none does, nothing may be done.
type Profile struct {
	Rules []Rule
	in    Input
}

// Compile makes the profile of a view.
func Compile(in Input) *Profile {
	p := &Profile{in: in}
	places := placesOf(&in)
	for _, at := range places {
		p.place(&at)
	}
	for _, dir := range leading(places) {
		p.Rules = append(p.Rules, Rule{Allow: true, Do: Stat, Path: dir})
	}
	for _, at := range held(places) {
		p.Rules = append(p.Rules, Rule{Do: Unlink, Path: at})
	}
	return p
}

// place says what holds at a path and below, whatever holds around it.
func (p *Profile) place(at *place) {
	say := func(allow bool, do Do) {
		if do != 0 {
			p.Rules = append(p.Rules, Rule{allow, do, at.path, !at.alone})
		}
	}
	not := (reads | writes) &^ at.keeps
	for _, all := range [...]Do{reads, writes} {
		if at.may&all == all {
			not &^= all
		}
	}
	say(false, not)
	say(true, at.may)
}

// Allows says whether something may be done at a canonical path, as the kernel decides it.
func (p *Profile) Allows(at string, do Do) bool {
	for _, r := range slices.Backward(p.Rules) {
		if r.Do&do != 0 && (r.Path == at || r.Below && hostfs.Under(at, r.Path)) {
			if !r.Allow {
				return false
			}
			do &^= r.Do
			if do == 0 {
				return true
			}
		}
	}
	return false
}

// Param is a value that the text has a name for.
type Param struct{ Name, Value string }

// Text is the profile as sandbox-exec takes it, and the values of its parameters. tty is the terminal of a process, "" none; own is what it and
// those that it starts are known by.
func (p *Profile) Text(tty, own string) (text string, params []Param) {
	var b strings.Builder
	b.WriteString(base)
	tty = cmp.Or(tty, "/dev/null")
	params = []Param{{"TTY", tty}, {"MARK", p.in.Mark}, {"OWN", own}}
	switch {
	case p.in.Network:
		b.WriteString("\n" + network)
	case p.in.Proxy != 0:
		fmt.Fprintf(&b, "\n; The gateway, which knows the rules, and nobody else.\n(allow network-outbound (remote ip \"localhost:%d\"))\n(allow system-socket)\n", p.in.Proxy)
	}
	if p.in.Place != "" {
		params = append(params, Param{"PLACE", p.in.Place})
		b.WriteString(ownSockets)
	}
	b.WriteString("\n")
	names := map[string]string{}
	for i := range p.Rules {
		r := &p.Rules[i]
		name := names[r.Path]
		if name == "" {
			name = "P" + strconv.Itoa(len(names))
			names[r.Path] = name
			params = append(params, Param{name, r.Path})
		}
		b.WriteString(r.text(name) + "\n")
	}
	return b.String(), params
}

func (r *Rule) text(name string) string {
	verdict := "deny"
	if r.Allow {
		verdict = "allow"
	}
	words := []string{verdict}
	left := r.Do
	for _, o := range operations {
		if left&o.do == o.do {
			words = append(words, o.names)
			left &^= o.do
		}
	}
	words = append(words, `(literal (param "`+name+`"))`)
	if r.Below {
		words = append(words, `(subpath (param "`+name+`"))`) // a path that isn't there is no subpath of itself on every release
	}
	return "(" + strings.Join(words, " ") + ")"
}

// place is what a view says of a path.
type place struct {
	path  string
	may   Do
	keeps Do // what holds around it goes on
	alone bool
}

// placesOf are those of a view, directories before what is in them, and at one path what shows something before what takes away.
func placesOf(in *Input) (all []place) {
	add := func(p place) { all = append(all, p) }
	v := in.View
	for i := range v.Grants {
		g := &v.Grants[i]
		p := place{path: g.Dst}
		switch special := g.Src.Mode.Type()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0; {
		case g.Access == view.Private, g.Root, g.Dst != g.Src.Path: // there is no other place for any of them: what is there is closed
		case g.Access == view.Write:
			p.may = reads | writes
		case special:
			p.may = Stat | Read | Data
		default:
			p.may = reads // an overlay, too
		}
		add(p)
	}
	for _, l := range v.Links {
		add(place{path: l.At, may: Stat | Read, keeps: reads | writes, alone: true})
	}
	for _, name := range in.Programs {
		add(place{path: name, may: reads})
	}
	if in.Place != "" {
		add(place{path: in.Place, may: reads | writes})
	}
	for i := range v.Hidden {
		if h := &v.Hidden[i]; h.File.Mode.Type() == fs.ModeSocket {
			add(place{path: h.Dst, alone: true})
		} else {
			add(place{path: h.Dst})
		}
	}
	for i := range v.Protected {
		switch p := &v.Protected[i]; p.Keep {
		case view.Pinned: // the path alone: see held
			add(place{path: p.Dst, keeps: reads | writes})
		case view.ReadOnly:
			add(place{path: p.Dst, keeps: reads})
		case view.Shown: // of a link, which stays; what it leads to has rules of its own
			add(place{path: p.Dst, keeps: reads, alone: true})
		case view.Masked:
			add(place{path: p.Dst})
		}
	}
	for _, at := range in.Absent {
		add(place{path: at, keeps: reads})
	}
	slices.SortStableFunc(all, func(a, b place) int { return hostfs.ComparePaths(a.path, b.path) })
	return all
}

// leading are the directories above what is shown: programs look at each, to find out where they are.
func leading(places []place) (dirs []string) {
	seen := map[string]bool{"/": true}
	for i := range places {
		if places[i].may == 0 {
			continue
		}
		for dir := path.Dir(places[i].path); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, hostfs.ComparePaths)
	return dirs
}

// held are the paths of writable trees that other rules follow from: none of them can be moved away.
func held(places []place) (list []string) {
	seen := map[string]bool{}
	for i := range places {
		for at := places[i].path; at != "/" && !seen[at]; at = path.Dir(at) {
			if !slices.ContainsFunc(places, func(p place) bool { return p.may&Unlink != 0 && hostfs.Under(at, p.path) }) {
				break
			}
			seen[at] = true
			list = append(list, at)
		}
	}
	slices.SortFunc(list, hostfs.ComparePaths)
	return list
}
