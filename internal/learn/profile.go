package learn

import (
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/quote"
)

// Item is one word of a list, and why it is there.
type Item struct{ Word, Why string }

// Line is one key of the profile.
type Line struct {
	Key   string
	Value string // as TOML; of a list, Items
	Why   string
	Items []Item
	list  bool
}

// Table is the lines of one table of the profile.
type Table struct {
	Name  string // "", "network", "filesystem", "env"
	Lines []Line
}

// Profile is what was learned.
type Profile struct {
	Name   string
	Notes  []string // comments at the head
	Tables []Table
	// Companion is the policy over system calls that it needs beside it, as TOML, and the
	// name of its file; empty when strict is enough.
	Companion, CompanionName string

	Widened []string // by Merge: keys of the older file whose values grant more now
	project string   // as the file names it, or ""
}

// Extra is what the caller of learn said for the run, and what the profile says as well.
type Extra struct {
	Deny        []string
	DenyNetwork []string
	Pass        []string
	Set         []string // K=V
}

// Make makes the profile of what was seen. name is the profile's, file that of the
// companion.
func Make(s *Seen, w *World, name, companion string, extra Extra) *Profile {
	n := &notes{}
	f := newFiles(w, n)
	f.take(s.Accesses)
	s.Unwritten = f.unwritten
	for _, a := range s.Denied {
		n.refused(string(a.Op)+" "+word(a.Path), a.Comm, "a rule of the run that was learned from hid it")
	}
	hosts := s.hosts(n)
	text := s.companion(n, len(hosts.Items) > 0 || s.Beside.Hosts)
	p := &Profile{Name: name}
	if w.Dir != "" {
		p.project = w.word(w.Dir)
	}
	top := s.limits()
	calls := Line{Key: "seccomp", Value: quote.TOML("strict"), Why: whyNoCall}
	if text != "" {
		calls.Value, calls.Why = quote.TOML("./"+companion), whyCalls
		p.Companion, p.CompanionName = text, companion
	}
	filesystem := f.granted()
	deny := []Item{{"secrets", "keys and credentials that were not read"}}
	for _, d := range extra.Deny {
		if d != "secrets" {
			deny = append(deny, Item{d, "said when this was learned"})
		}
	}
	filesystem = append(filesystem, Line{Key: "deny_patterns", list: true, Items: deny}, s.fileSize())
	if protect := f.protect(filesystem); len(protect.Items) > 0 {
		filesystem = append(filesystem, protect)
	}
	net := []Line{hosts}
	if len(extra.DenyNetwork) > 0 {
		net = append(net, said("deny_patterns", extra.DenyNetwork))
	}
	p.Tables = []Table{{"", append(top, calls)}, {"network", net}, {"filesystem", filesystem}}
	if len(extra.Pass) > 0 {
		p.Tables = append(p.Tables, Table{"env", []Line{said("pass", extra.Pass)}})
	}
	if len(extra.Set) > 0 {
		t := Table{Name: "env.set"}
		for _, kv := range extra.Set {
			k, v, _ := strings.Cut(kv, "=")
			t.Lines = append(t.Lines, Line{Key: bareKey(k), Value: quote.TOML(v), Why: "said when this was learned"})
		}
		p.Tables = append(p.Tables, t)
	}
	p.Notes = append(s.head(), n.all()...)
	return p
}

func said(key string, words []string) Line {
	l := Line{Key: key, list: true}
	for _, w := range words {
		l.Items = append(l.Items, Item{w, "said when this was learned"})
	}
	return l
}

// head is what there is to know about how it was learned.
func (s *Seen) head() []string {
	notes := []string{"Learned by \"confine learn\" from one run of: " + word(s.Command)}
	if s.Ended != "" {
		notes = append(notes, "INCOMPLETE: that run "+s.Ended+". What it would have done afterwards is not in here.")
	}
	notes = append(notes,
		"It grants what that run did, and knows nothing of what other arguments, input or hosts lead to.",
		"Not seen: which variables of the environment were read (strict passes its own list), what was done by",
		"descriptors that were there before, what the kernel opens by itself, how large files became that were removed again.")
	for _, dir := range s.Unwritten {
		notes = append(notes, "INCOMPLETE: "+word(dir)+" could not be written to meanwhile. The next run can, and what it does after that is not in here. Learn with --overlay.")
	}
	if s.Lost > 0 {
		notes = append(notes, "INCOMPLETE: "+plural(s.Lost, "access")+"es to more paths than are kept.")
	}
	if s.Unseen > 0 {
		notes = append(notes, "INCOMPLETE: "+plural(s.Unseen, "call")+" named paths that could not be looked at.")
	}
	if s.OtherCalls > 0 {
		notes = append(notes, "INCOMPLETE: "+plural(s.OtherCalls, "system call")+" of further kinds were not kept.")
	}
	if s.Descriptors == 0 {
		notes = append(notes, "Not seen: how many descriptors it had open. file_descriptors is that of strict.")
	}
	return notes
}

// Incomplete says whether the profile is known to lack something.
func (s *Seen) Incomplete() bool {
	return s.Ended != "" || len(s.Unwritten) > 0 || s.Lost > 0 || s.Unseen > 0 || s.OtherCalls > 0 || s.OtherAttempts > 0
}

// Missing is a note about an access that the finished profile refuses, or "" where one says
// that already.
func (p *Profile) Missing(a *Access) string {
	for _, n := range p.Notes {
		if strings.Contains(n, " "+word(a.Path)+" ") {
			return ""
		}
	}
	text := "NOT GRANTED: " + string(a.Op) + " " + word(a.Path)
	if a.Comm != "" {
		text += " (" + word(a.Comm) + ")"
	}
	return text + ": the rules of this profile refuse it; ask confine explain --path why"
}

// Refused adds what the finished profile was found to refuse.
func (p *Profile) Refused(notes ...string) {
	for _, n := range notes {
		if n != "" && !slices.Contains(p.Notes, n) {
			p.Notes = append(p.Notes, n)
		}
	}
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
	workdir := Line{Key: "workdir", Value: quote.TOML("none"), Why: whyNotUsed}
	if f.project {
		workdir.Value, workdir.Why = quote.TOML("ro"), whyRead
	}
	if x := write[f.world.Dir]; x != nil && f.world.Dir != "" {
		workdir.Value, workdir.Why = quote.TOML("rw"), whyWritten
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

// mark begins the comments that learn has written and writes anew. Others are a person's.
const mark = "## "

// TOML is the file: a policy file that uses the profile, so that
// "confine --config FILE -- COMMAND" is all that it takes.
func (p *Profile) TOML() string {
	d := &document{}
	_ = p.addTo(d) // nothing is there that it could be merged with
	return d.String()
}

// table is the full name of one of its tables.
func (p *Profile) table(name string) string {
	full := "sandbox.profiles." + bareKey(p.Name)
	if name != "" {
		full += "." + name
	}
	return full
}

// addTo adds the profile to a document.
func (p *Profile) addTo(d *document) error {
	var notes []string
	for _, n := range p.Notes {
		notes = append(notes, mark+n)
	}
	d.notes(notes)
	p.Widened = nil
	add := func(table string, l Line) error {
		widened, err := d.put(table, &l)
		if widened != "" {
			p.Widened = append(p.Widened, widened)
		}
		return err
	}
	err := add("sandbox", Line{Key: "profile", Value: quote.TOML(p.Name)})
	if err == nil {
		err = add(p.table(""), Line{Key: "extends", Value: quote.TOML("strict")})
	}
	for _, t := range p.Tables {
		for _, l := range t.Lines {
			if err == nil {
				err = add(p.table(t.Name), l)
			}
		}
	}
	return err
}
