package learn

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/hostfs"
)

// want is something that the profile has to grant, and who needs it.
type want struct {
	verbs []string // "read", "listed"
	comms []string
	names []string // that were made, or used, in a directory
	count int      // of different paths
}

// wants are by canonical path.
type wants map[string]*want

func (w wants) add(at, verb, name, comm string) {
	x := w[at]
	if x == nil {
		x = &want{}
		w[at] = x
	}
	x.count++
	x.verbs = once(x.verbs, verb)
	x.comms = once(x.comms, comm)
	if name != "" {
		x.names = once(x.names, name)
	}
}

// fold takes what is at from into the directory to.
func (w wants) fold(from, to string) {
	x, y := w[from], w[to]
	delete(w, from)
	if y == nil {
		w[to] = x
		return
	}
	y.count += x.count
	for _, v := range x.verbs {
		y.verbs = once(y.verbs, v)
	}
	for _, c := range x.comms {
		y.comms = once(y.comms, c)
	}
}

func (w wants) paths() (all []string) {
	for p := range w {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// covers says whether a path is, or lies below, one that is wanted.
func (w wants) covers(p string) bool {
	for ; ; p = path.Dir(p) {
		if w[p] != nil {
			return true
		}
		if p == "/" {
			return false
		}
	}
}

// verbWritten is what is done to what has to be writable; merge goes by it.
const verbWritten = "written"

// why is "read by cat, sh".
func (x *want) why() string {
	text := strings.Join(x.verbs, ", ")
	if by := list(x.comms, 4); by != "" {
		text += " by " + by
	}
	if x.count > 1 {
		text += " (" + strconv.Itoa(x.count) + " paths)"
	}
	return text
}

// made is "makes a.txt, b.txt and temporary names".
func (x *want) made() string {
	var plain []string
	temp := false
	for _, n := range x.names {
		if isTemp(n) {
			temp = true
		} else {
			plain = append(plain, word(n))
		}
	}
	text := list(plain, 3)
	switch {
	case temp && text != "":
		text += " and temporary names"
	case temp:
		text = "temporary names"
	}
	return text
}

func once(words []string, w string) []string {
	if slices.Contains(words, w) || len(words) > 100 {
		return words
	}
	return append(words, w)
}

// From how many on a directory is granted for what is in it.
const (
	fewFiles = 3 // files that are read
	fewTrees = 4 // directories that are written to
	manyDirs = 9 // directories that are read; and in the project, ones that are written to
)

// reading folds what is read to directories, and gives them and the files that are left.
func (f *files) reading() wants {
	all := wants{}
	perDir := map[string]int{}
	for p := range f.reads {
		perDir[path.Dir(p)]++
	}
	for p := range f.lists {
		all[p] = f.lists[p]
	}
	for _, p := range f.reads.paths() {
		all[p] = f.reads[p]
		if dir := path.Dir(p); !f.world.isBroad(dir) && (perDir[dir] >= fewFiles || all[dir] != nil) && !f.hides(dir) {
			all.fold(p, dir)
		}
	}
	return f.siblings(all, manyDirs, f.hides)
}

// hides: granting a directory whole would be granting what is secret as a whole.
func (f *files) hides(dir string) bool { return f.world.Secret(dir) != "" }

// never: a directory that is not made writable as a whole for what in it is written to.
func (f *files) never(dir string) bool {
	return f.hides(dir) || !f.world.inProject(dir) && (f.world.trusted(dir) != "" || f.world.holdsTrusted(dir) != "")
}

// siblings drops what lies in another one, and folds many in one directory to that.
func (f *files) siblings(all wants, many int, never func(string) bool) wants {
	for {
		for _, p := range all.paths() {
			if up := path.Dir(p); all[p] != nil && all.covers(up) && p != "/" {
				for all[up] == nil {
					up = path.Dir(up)
				}
				all.fold(p, up)
			}
		}
		dir := f.crowded(all, many, never)
		if dir == "" {
			return all
		}
		for _, p := range all.paths() {
			if p != dir && hostfs.Under(p, dir) {
				all.fold(p, dir)
			}
		}
	}
}

// crowded is a directory of which many entries are wanted, or lead to what is; the deepest
// of them, or "".
func (f *files) crowded(all wants, many int, never func(string) bool) (deepest string) {
	entries := map[string]wants{}
	for p := range all {
		for child, dir := p, path.Dir(p); dir != "/"; child, dir = dir, path.Dir(dir) {
			if entries[dir] == nil {
				entries[dir] = wants{}
			}
			entries[dir][child] = all[p]
		}
	}
	for dir, in := range entries {
		limit := many
		if dir == f.world.Dir {
			limit = manyDirs
		}
		if len(in) >= limit && !f.world.isBroad(dir) && !never(dir) && (len(dir) > len(deepest) || len(dir) == len(deepest) && dir < deepest) {
			deepest = dir
		}
	}
	return deepest
}

// writing are directories and files that have to be writable.
func (f *files) writing() wants {
	all := wants{}
	maps.Copy(all, f.trees)
	perDir := map[string]int{}
	for p := range f.writes {
		perDir[path.Dir(p)]++
	}
	for p, x := range f.writes {
		dir := path.Dir(p)
		if f.secretIs[p] == "" && dir != f.world.Dir && !f.world.isBroad(dir) && !f.never(dir) && (perDir[dir] >= fewFiles || isTemp(p)) {
			all.add(dir, verbWritten, path.Base(p), list(x.comms, 1))
		}
	}
	all = f.siblings(all, fewTrees, f.never)
	for _, p := range f.writes.paths() {
		if !all.covers(p) {
			all[p] = f.writes[p]
		} else if f.secretIs[p] != "" {
			all[p] = f.writes[p]
		}
	}
	return all
}

// item adds a path, if a file can name it.
func (f *files) item(list []Item, p, why string) []Item {
	if !utf8.ValidString(p) {
		f.notes.refused(word(p), "", "its name is not UTF-8, and TOML can't hold it ("+why+")")
		return list
	}
	return append(list, Item{f.world.word(p), why})
}

// byName are names to grant beside what they lead to, because a link on the way is
// nowhere shown otherwise. The shortest name is taken that leads to something granted.
func (f *files) byName(read, write wants) (all []string) {
	shown := func(p string) bool {
		return read.covers(p) || write.covers(p) || f.secrets[p] != nil || f.project && f.world.inProject(p)
	}
	for _, name := range f.names {
		for _, link := range f.world.links(name) {
			dir, _, _ := f.world.resolve(path.Dir(link))
			at := path.Join(dir, path.Base(link))
			if shown(dir) || f.world.Base(link, Look).Yes {
				continue
			}
			if f.world.Dir != "" && hostfs.Under(at, f.world.Dir) && f.project {
				continue
			}
			for at := range prefixes(name, len(link)) {
				if real, _, _ := f.world.resolve(at); real != "" && shown(real) {
					all = append(all, at)
					break
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
