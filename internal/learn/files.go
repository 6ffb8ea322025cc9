package learn

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/shell"
)

// files is what is known of the accesses of one run.
type files struct {
	world *World
	// made are names that the run made: what it found there is its own.
	made map[string]bool
	// tried are names that it would have made, if there hadn't been something already.
	tried map[string]bool
	// Canonical paths. Of reads and writes, files; of lists and trees, directories.
	reads, lists, writes, trees wants
	secrets                     wants
	secretIs                    map[string]string
	project                     bool     // something of it is used
	unwritten                   []string // directories that are granted, and were read-only meanwhile
	names                       []string // that lead through links
	replaced                    []Access // in private places, by something new
	notes                       *notes
}

func newFiles(w *World, n *notes) *files {
	return &files{
		world: w, made: map[string]bool{}, tried: map[string]bool{}, notes: n,
		reads: wants{}, lists: wants{}, writes: wants{}, trees: wants{}, secrets: wants{}, secretIs: map[string]string{},
	}
}

// take sorts the accesses out.
func (f *files) take(all []Access) {
	f.mark(all)
	for i := range all {
		f.access(&all[i])
	}
}

// mark finds the names that the run made.
func (f *files) mark(all []Access) {
	before := map[string]bool{}
	for i := range all {
		a := &all[i]
		switch {
		case a.Op == Create && !a.Exists && !before[a.Path]:
			f.made[a.Path] = true
		case a.Op == Create && a.Exists && !a.Replaces:
			f.tried[a.Path] = true
			before[a.Path] = true
		case a.Exists:
			before[a.Path] = true
		}
	}
}

// own says whether the run made it, or a directory that it lies in.
func (f *files) own(p string) bool { return f.outermost(p) != "" }

// outermost is the one nearest to the root of what the run made, of a name and what it
// lies in; or "".
func (f *files) outermost(p string) (top string) {
	for ; p != "/"; p = path.Dir(p) {
		if f.made[p] {
			top = p
		}
	}
	return top
}

func (f *files) access(a *Access) {
	switch {
	case a.Op == Connect:
		f.socket(a)
	case kernels(a.Path):
		f.kernel(a)
	case a.Op == Create || a.Op == Remove:
		f.change(a)
	case a.Exists || a.Unknown:
		f.use(a)
	}
}

// kernels: of trees that are the kernel's, and made anew for each run.
func kernels(p string) bool {
	return hostfs.Under(p, "/proc") || hostfs.Under(p, "/sys") || hostfs.Under(p, "/dev")
}

func (f *files) kernel(a *Access) {
	if a.Op == Look || a.Op == List || !a.Exists || hostfs.Under(a.Path, "/dev/shm") || f.world.Base(a.Path, a.Op).Yes {
		return
	}
	what := "the kernel's"
	if hostfs.Under(a.Path, "/dev") {
		what = "a device of the host's: no option but --mount shows it"
	} else if rest := strings.TrimPrefix(a.Path, "/proc/"); rest != a.Path && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		what = "of another process"
	}
	f.notes.refused(string(a.Op)+" "+word(a.Path), a.Comm, what)
}

func (f *files) socket(a *Access) {
	if f.own(a.Path) {
		return
	}
	real, _, file := f.world.resolve(a.Path)
	if !file {
		return // nothing of that name is there: everybody is refused
	}
	f.notes.refused("connect to "+word(real), a.Comm, "a socket of the host's: whoever listens there acts for the command, outside; --allow-read "+shell.Word(real)+" would show it")
}

// change is about a name that comes or goes: its directory is written to.
func (f *files) change(a *Access) {
	switch {
	case a.Op == Create && a.Exists && !a.Replaces:
		return // it was refused
	case a.Op == Remove && !a.Exists:
		return
	}
	dir := path.Dir(a.Path)
	if why := f.world.protectedBy(a.Path); why != "" && !f.own(dir) {
		f.notes.refused("make, replace or remove "+word(a.Path), a.Comm, "it is protected: "+why)
		return
	}
	if top := f.outermost(dir); top != "" {
		dir = path.Dir(top)
	}
	real, isDir, _ := f.world.resolve(dir)
	for !isDir && dir != "/" { // somebody else's, or of a link that the run made
		dir = path.Dir(dir)
		real, isDir, _ = f.world.resolve(dir)
	}
	// What is made in a new directory needs nothing but that.
	name := a.Path[len(strings.TrimSuffix(dir, "/"))+1:]
	name, _, deeper := strings.Cut(name, "/")
	if !deeper || !f.made[path.Join(dir, name)] {
		f.tree(real, dir, name, a)
	}
}

// tree wants a directory that can be written to.
func (f *files) tree(real, given, name string, a *Access) {
	w := f.world
	if slices.Contains(w.Temp, real) || f.temporary(given, real) {
		if slices.Contains(w.Temp, real) {
			f.failed(a, real)
		}
		return
	}
	base := w.Base(given, Write)
	switch {
	case !w.Writable(real):
		return // the next run is refused as this one was
	case w.inProject(real):
		f.project = true
	case real == w.Home || base.Yes && base.Private:
		f.notes.private(real, name)
		if a.Replaces && a.Exists {
			f.replaced = append(f.replaced, *a)
		}
		return
	case base.Yes:
		return
	}
	if what, why := w.neverWritable(real, path.Join(given, name)); why != "" && !w.inProject(real) {
		f.notes.refused(what, a.Comm, why)
		return
	}
	if at := w.holdsTrusted(real); at != "" {
		f.notes.add("CAREFUL: " + word(real) + " is made writable, and holds " + word(at) + ", which programs outside take orders from.")
	}
	f.trees.add(real, verbWritten, name, a.Comm)
	f.failed(a, real)
	f.named(given, real)
}

// neverWritable says why a directory isn't made writable for a name that comes or goes in it, and
// what is refused with that.
func (w *World) neverWritable(dir, name string) (what, why string) {
	what, why = "make or remove "+word(name), w.trusted(dir)
	grant := "; --allow-write " + shell.Word(dir) + " would grant it"
	switch {
	case w.protectedBy(dir) != "":
		what, why = "write to "+word(dir), "it is protected: "+w.protectedBy(dir)
	case w.Secret(dir) != "":
		why = "the directory is a secret (" + w.Secret(dir) + ")" + grant
	case w.isBroad(dir):
		why = word(dir) + " belongs to many programs" + grant
	}
	return what, why
}

// use is about something that is there.
func (f *files) use(a *Access) {
	if f.own(a.Path) {
		return
	}
	w := f.world
	if a.Relative && w.Dir == "" && !w.Base(a.Path, Read).Yes {
		f.notes.add("NOT GRANTED: names relative to the current directory: that is too broad to be shown. Start in the directory of a project, or name files in full.")
	}
	// A name from there on is one only while that directory is there.
	f.project = f.project || a.Relative && w.Dir != "" && !w.Base(a.Path, Read).Yes && !(a.Path == w.Dir && a.Op == Look)
	real, dir, file := w.resolve(a.Path)
	switch {
	case !dir && !file:
		return
	case kernels(real): // by a link, as /etc/mtab: what the kernel makes is the run's own
		if !w.Base(a.Path, a.Op).Yes && a.Op != Look {
			f.notes.refused(string(a.Op)+" "+word(a.Path), a.Comm, "a link to what is the kernel's: no option shows it")
		}
		return
	case a.Op == Write:
		f.write(a, real, dir)
	case dir && (a.Op == Look || a.Op == Exec):
	case (a.Op == Read || a.Op == List) && !w.Readable(real): // the next run is refused as this one was
	case dir:
		f.list(a, real)
	default:
		f.read(a, real)
	}
}

func (f *files) write(a *Access, real string, dir bool) {
	w := f.world
	if dir {
		f.tree(real, a.Path, "", a)
		return
	}
	for _, t := range w.Temp {
		if path.Dir(real) == t && !w.inProject(real) {
			return // the private one is written instead
		}
	}
	if base := w.Base(a.Path, Write); base.Yes || f.temporary(a.Path, real) {
		return
	}
	if !w.Writable(real) {
		return // the next run is refused as this one was
	}
	if why := f.world.protectedBy(real); why != "" {
		f.notes.refused("write to "+word(real), a.Comm, "it is protected: "+why)
		return
	}
	if why := w.trusted(real); why != "" && !w.inProject(real) {
		f.notes.refused("write to "+word(real), a.Comm, why)
		return
	}
	f.project = f.project || w.inProject(real)
	f.writes.add(real, verbWritten, "", a.Comm)
	f.failed(a, path.Dir(real))
	if what := w.Secret(real); what != "" {
		f.secretIs[real] = what
	}
	f.named(a.Path, real)
}

// failed keeps a directory in which something that is granted didn't work meanwhile: what
// would have come after it is not known.
func (f *files) failed(a *Access, dir string) {
	if a.ReadOnly {
		f.unwritten = once(f.unwritten, dir)
	}
}

func (f *files) list(a *Access, real string) {
	w := f.world
	switch {
	case w.inProject(real):
		f.project = true
		f.named(a.Path, real)
	case w.Base(a.Path, List).Yes:
	case w.isBroad(real) || w.Secret(real) != "":
		if real != "/" {
			f.notes.refused("list "+word(real), a.Comm, "what is in it belongs to many programs; --allow-read "+shell.Word(real)+" would grant all of it")
		}
	case f.temporary(a.Path, real):
	default:
		f.lists.add(real, "listed", "", a.Comm)
		f.named(a.Path, real)
	}
}

func (f *files) read(a *Access, real string) {
	w := f.world
	if a.Op == Exec {
		f.interpreter(a, real)
	}
	if w.Base(a.Path, Read).Yes {
		return
	}
	if needless(real) || f.temporary(a.Path, real) {
		return
	}
	verb := map[Op]string{Look: "looked at", Exec: "executed"}[a.Op]
	verb = cmp.Or(verb, "read")
	what := w.Secret(real)
	switch {
	case what != "" && a.Op == Look:
		f.notes.refused("look at "+word(real), a.Comm, "it is a secret ("+what+"), and was not read")
	case what != "":
		f.secrets.add(real, verb, "", a.Comm)
		f.secretIs[real] = what
		f.project = f.project || w.inProject(real)
	case w.inProject(real):
		f.project = true
	default:
		f.reads.add(real, verb, "", a.Comm)
	}
	f.named(a.Path, real)
}

// interpreter is what the kernel opens by itself, for a script.
func (f *files) interpreter(a *Access, real string) {
	text, err := f.world.Host.ReadFile(real, 1<<20)
	line, _, _ := strings.Cut(text, "\n")
	rest, isScript := strings.CutPrefix(line, "#!")
	if err != nil || !isScript {
		return
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 || !path.IsAbs(fields[0]) || fields[0] == a.Path {
		return
	}
	if at, _, file := f.world.resolve(fields[0]); file && at != real {
		f.read(&Access{Path: fields[0], Op: Read, Comm: a.Comm, Exists: true}, at)
	}
}

// temporary: below a place for temporary files, in a directory that the run would have
// made if it had not been there. Inside it isn't, and is made.
func (f *files) temporary(given, real string) bool {
	if f.world.inProject(real) || f.world.inProject(given) {
		return false
	}
	for _, t := range f.world.Temp {
		for up := given; (hostfs.Under(real, t) || hostfs.Under(given, t)) && up != t && up != "/"; up = path.Dir(up) {
			if f.tried[up] {
				return true
			}
		}
	}
	return false
}

// named keeps a name that is not what it leads to.
func (f *files) named(given, real string) {
	f.project = f.project || f.world.inProject(given)
	if given != real {
		f.names = append(f.names, given)
	}
}

// needless: C libraries read other names of languages there, and inside LC_ALL is C.UTF-8.
func needless(p string) bool { return p == "/etc/locale.alias" }
