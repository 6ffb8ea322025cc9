package learn

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

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
	return f.hides(dir) || !f.world.inProject(dir) && (f.world.obeyed(dir) != "" || f.world.holdsObeyed(dir) != "")
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
			if p != dir && under(p, dir) {
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
	for p, x := range f.trees {
		all[p] = x
	}
	perDir := map[string]int{}
	for p := range f.writes {
		perDir[path.Dir(p)]++
	}
	for p, x := range f.writes {
		dir := path.Dir(p)
		if f.secretIs[p] == "" && dir != f.world.Dir && !f.world.isBroad(dir) && !f.never(dir) && (perDir[dir] >= fewFiles || IsTemp(p)) {
			all.add(dir, "written", path.Base(p), list(x.comms, 1))
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

// Reasons that are always the same.
const (
	whyNotUsed = "nothing of the current directory was used"
	whyRead    = "the current directory was read"
	whyWritten = "the current directory itself is written to"
	whyNoCall  = "no call beyond it was needed"
	whyCalls   = "calls beyond strict: see there"
)

// granted are the lines of the profile's file system.
func (f *files) granted() []Line {
	for i := range f.replaced {
		a := &f.replaced[i]
		if real, _, _ := f.world.resolve(a.Path); f.reads[real] != nil || f.secrets[real] != nil {
			f.notes.refused("replace "+word(a.Path), a.Comm, "it was read, and is shown by itself: a new file can't take its place, only be written into it")
		}
	}
	write, read := f.writing(), f.reading()
	workdir := Line{Key: "workdir", Value: quote("none"), Why: whyNotUsed}
	if f.project {
		workdir.Value, workdir.Why = quote("ro"), whyRead
	}
	if x := write[f.world.Dir]; x != nil && f.world.Dir != "" {
		workdir.Value, workdir.Why = quote("rw"), whyWritten
		if made := x.made(); made != "" {
			workdir.Why += ": " + made
		}
		for _, p := range write.paths() {
			if f.world.inProject(p) && f.secretIs[p] == "" {
				delete(write, p)
			}
		}
	}
	var reads, writes []Item
	for _, p := range f.secrets.paths() {
		if write[p] == nil {
			reads = f.item(reads, p, "SECRET ("+strings.ToUpper(f.secretIs[p])+"): "+f.secrets[p].why())
		}
	}
	for _, p := range read.paths() {
		if write.covers(p) {
			delete(read, p)
			continue
		}
		reads = f.item(reads, p, read[p].why())
	}
	for _, p := range write.paths() {
		why := write[p].why()
		if made := write[p].made(); made != "" {
			why += ": " + made
		}
		if what := f.secretIs[p]; what != "" {
			why = "SECRET (" + strings.ToUpper(what) + "): " + why
		}
		writes = f.item(writes, p, why)
	}
	for _, p := range f.byName(read, write) {
		reads = f.item(reads, p, "a link on the way to what was used")
	}
	return []Line{workdir, {Key: "allow_read", Items: reads, list: true}, {Key: "allow_write", Items: writes, list: true}}
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
			if f.world.Dir != "" && under(at, f.world.Dir) && f.project {
				continue
			}
			for i := len(link); i <= len(name); i++ {
				if i < len(name) && name[i] != '/' {
					continue
				}
				if real, _, _ := f.world.resolve(name[:i]); real != "" && shown(real) {
					if p := name[:i]; !slices.Contains(all, p) {
						all = append(all, p)
					}
					break
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
