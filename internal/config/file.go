package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/located"
)

// fileName is what a project's file is called.
const fileName = "confine.toml"

// fileMost is the size of the largest file that is read.
const fileMost = 1 << 20

// assignment gives an option a value, or adds to a list, in one place.
type assignment struct {
	option *Option
	words  []string // none: a list is emptied
	source string   // for Setting.Source
	where  string   // for messages; with the column
	named  bool     // where is a flag or a variable, which names the option
	base   place    // what paths are relative to

	general bool // of a key that stands for several options: a particular one holds against it
	no      bool // the list was emptied by "false"
}

// file is what one file says.
type file struct {
	path     string
	settings []assignment
	parts    []profilePart // of profiles
	test     []assignment  // of [test]: laid over the profile "testing"
	testOff  bool          // sandbox = false in [test]: they are not
}

// profilePart is what one file says about one profile.
type profilePart struct {
	name     string
	extends  string // empty: not said
	where    string // of extends, or of the profile
	settings []assignment
}

// policies are the files with policies of system calls that it names.
func (f *file) policies() (paths []string) {
	all := [][]assignment{f.settings, f.test}
	for _, p := range f.parts {
		all = append(all, p.settings)
	}
	for _, s := range slices.Concat(all...) {
		if s.option.Name != "seccomp" || len(s.words) == 0 {
			continue
		}
		if c, err := s.option.canonical(s.base, s.words[0]); err == nil && filepath.IsAbs(c) {
			paths = with(paths, c)
		}
	}
	return paths
}

// ReadFile reads a regular file of at most 1 MiB, once: what is trusted, and what is parsed, are the
// same bytes. Without follow, it is not one that a symbolic link leads to.
func ReadFile(path string, follow bool) ([]byte, error) {
	f, err := openPolicyFile(path, follow)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f)
}

func readOpen(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("not a regular file")}
	}
	data, err := io.ReadAll(io.LimitReader(f, fileMost+1))
	if err != nil {
		return nil, err
	}
	if len(data) > fileMost {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("larger than 1 MiB")}
	}
	return data, nil
}

// pathless is an error without the path that it is about, which whoever reports it names.
func pathless(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// unreadable turns an error of ReadFile into one for the user.
func unreadable(path string, err error) error {
	op, cause := "read", pathless(err)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		op = pe.Op
	}
	remedy := "make it a TOML file that you can read, or remove it"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = "check the path"
	case errors.Is(err, syscall.EMFILE):
		remedy = hint.FewDescriptors
	}
	return &UsageError{Msg: fmt.Sprintf("%s %q: %v", op, path, cause), Hint: remedy, Err: err}
}

// parseFile reads what a file says. Everything in it must be known.
func parseFile(path string, data []byte, home string) (*file, error) {
	doc, err := parseDocument(path, data)
	if err != nil {
		return nil, err
	}
	in := &interpreter{
		doc: doc,
		out: &file{path: path},
		at:  place{dir: filepath.Dir(path), home: home},
	}
	for _, e := range doc.entries {
		if err := in.entry(e); err != nil {
			return nil, err
		}
	}
	err = order(in.out.settings)
	for _, p := range in.out.parts {
		err = cmp.Or(err, order(p.settings))
	}
	return in.out, err
}

// Printable is a path for a line of text: quoted when it could break the line.
func Printable(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` {
		return q
	}
	return path
}

// entry is one key of a file with its value; a table that has no line of its own is none.
type entry struct {
	located.Value
	key   []string
	keyAt int // offset of the key
}

// table: it is the line of one, or an empty pair of braces.
func (e *entry) table() bool { return e.Kind == located.Table }

// document is a file as a flat list of keys, in its order.
type document struct {
	path    string
	lines   located.Lines
	entries []entry
}

// where is "path:line:col" of an offset.
func (d *document) where(offset int) string {
	line, column := d.lines.Place(offset)
	return fmt.Sprintf("%s:%d:%d", Printable(d.path), line, column)
}

// source is "path:line" of an offset.
func (d *document) source(offset int) string {
	line, _ := d.lines.Place(offset)
	return Printable(d.path) + ":" + strconv.Itoa(line)
}

func parseDocument(path string, data []byte) (*document, error) {
	d := &document{path: path, lines: located.NewLines(data)}
	top, err := located.TOML(data)
	if mistake, ok := errors.AsType[*located.Error](err); ok {
		return nil, &UsageError{Msg: d.where(mistake.At) + ": " + mistake.Msg}
	}
	d.flatten(nil, &top)
	slices.SortStableFunc(d.entries, func(a, b entry) int { return a.keyAt - b.keyAt })
	return d, nil
}

// flatten adds what is in a table.
func (d *document) flatten(path []string, table *located.Value) {
	for i, k := range table.Keys {
		v, key := table.Items[i], append(slices.Clip(path), k.Name)
		switch {
		case v.Kind != located.Table || v.Said && v.Inline:
			d.entries = append(d.entries, entry{v, key, k.At})
		case v.Said:
			d.entries = append(d.entries, entry{v, key, v.At})
		}
		if v.Kind == located.Table {
			d.flatten(key, &v)
		}
	}
}

// interpreter turns a document into what it says.
type interpreter struct {
	doc *document
	out *file
	at  place
}

// Keys that are no option of their own.
const (
	keyExtends    = "extends"
	keyFilesystem = "allow_filesystem"
)

// testKeys are the keys of [test], and the options that they set in the profile "testing".
var testKeys = [...]struct{ key, option string }{
	{"sandbox", ""},
	{"sandbox_time_limit", "time-limit"},
	{"sandbox_memory_limit", "memory-limit"},
}

func (in *interpreter) fail(e entry, format string, args ...any) error {
	return &UsageError{Msg: in.doc.where(e.At) + ": " + fmt.Sprintf(format, args...)}
}

func (in *interpreter) unknown(e entry, key []string, table string, known []string) error {
	word := strings.Join(key, ".")
	msg := fmt.Sprintf("%s: unknown key %q", in.doc.where(e.keyAt), word)
	if e.table() && !e.Inline {
		msg = fmt.Sprintf("%s: unknown table %q", in.doc.where(e.keyAt), strings.Join(e.key, "."))
	}
	if table != "" {
		msg += " in [" + table + "]"
	}
	return &UsageError{Msg: msg + Meant(word, known)}
}

func (in *interpreter) entry(e entry) error {
	if e.Kind == located.List && e.Said {
		return in.fail(e, "%q is a table and no list of tables: write [%[1]s]", strings.Join(e.key, "."))
	}
	tables := []string{"sandbox", "test"}
	if len(e.key) == 1 && slices.Contains(tables, e.key[0]) {
		if !e.table() {
			return in.fail(e, "%q must be a table: write [%[1]s]", e.key[0])
		}
		return nil
	}
	switch e.key[0] {
	case "sandbox":
		if e.key[1] == "profiles" {
			return in.profile(e, e.key[2:])
		}
		return in.sandbox(e, e.key[1:])
	case "test":
		return in.test(e, e.key[1:])
	}
	if err := in.unplaced(e); err != nil {
		return err
	}
	known := tables
	for _, o := range options {
		known = append(known, o.Key) // said without its table
	}
	return in.unknown(e, e.key, "", known)
}

// unplaced is a key or a table of [sandbox] that is said without that.
func (in *interpreter) unplaced(e entry) error {
	table := slices.Contains([]string{keyFilesystem, "network", "filesystem", "env", "profiles"}, e.key[0])
	if !table && len(lookupKey(e.key)) == 0 {
		return nil
	}
	kind, meant := "key", "[sandbox] "+strings.Join(e.key, ".")
	switch {
	case e.table() && !e.Inline:
		kind, meant = "table", "[sandbox."+strings.Join(e.key, ".")+"]"
	case table && len(e.key) > 1:
		meant = "[sandbox." + e.key[0] + "] " + strings.Join(e.key[1:], ".")
	}
	return &UsageError{Msg: fmt.Sprintf("%s: unknown %s %q, did you mean %s?", in.doc.where(e.keyAt), kind, strings.Join(e.key, "."), meant),
		Hint: "put it below a line that says [sandbox]"}
}

func (in *interpreter) sandbox(e entry, key []string) error {
	list, err := in.setting(e, key, "sandbox", false)
	in.out.settings = append(in.out.settings, list...)
	return err
}

func (in *interpreter) profile(e entry, key []string) error {
	switch {
	case len(key) == 0 && !e.table():
		return in.fail(e, "\"sandbox.profiles\" must be a table")
	case len(key) == 0:
		return nil
	case !isProfileName(key[0]) || key[0] == wordNone:
		return in.fail(e, "%q can't be the name of a profile: letters, digits, \"-\" and \"_\", and not \"none\"", key[0])
	case len(key) == 1 && !e.table():
		return in.fail(e, "profile %q must be a table", key[0])
	}
	p := in.part(key[0], e)
	if len(key) == 1 {
		return nil
	}
	if key = key[1:]; len(key) == 1 && key[0] == keyExtends {
		if e.Kind != located.String || !isProfileName(e.Text) {
			return in.fail(e, "extends must be a profile's name")
		}
		p.extends, p.where = e.Text, in.doc.where(e.At)
		return nil
	}
	list, err := in.setting(e, key, "sandbox.profiles."+p.name, true)
	for i := range list {
		list[i].source = "profile " + p.name + ", " + list[i].source
	}
	p.settings = append(p.settings, list...)
	return err
}

// part finds or makes what this file says of a profile.
func (in *interpreter) part(name string, e entry) *profilePart {
	for i := range in.out.parts {
		if in.out.parts[i].name == name {
			return &in.out.parts[i]
		}
	}
	in.out.parts = append(in.out.parts, profilePart{name: name, where: in.doc.where(e.keyAt)})
	return &in.out.parts[len(in.out.parts)-1]
}

func (in *interpreter) test(e entry, key []string) error {
	known := make([]string, 0, len(testKeys))
	for _, t := range testKeys {
		known = append(known, t.key)
		if len(key) != 1 || key[0] != t.key {
			continue
		}
		if t.option == "" {
			if e.Kind != located.Bool {
				return in.fail(e, "sandbox must be true or false")
			}
			in.out.testOff = e.Text == "false"
			return nil
		}
		words, err := in.words(LookupOption(t.option), e, key[0])
		s := in.assign(LookupOption(t.option), words, e)
		s.source = "profile testing, " + s.source
		in.out.test = append(in.out.test, s)
		return err
	}
	return in.unknown(e, key, "test", known)
}

// setting reads one key of [sandbox] or of a profile.
func (in *interpreter) setting(e entry, key []string, table string, profile bool) ([]assignment, error) {
	inEnvSet := len(key) >= 2 && key[0] == "env" && key[1] == "set"
	if inEnvSet && (len(key) == 3 || len(key) == 2 && e.table()) {
		return in.Environment(e, key)
	}
	if isTable(key) {
		if !e.table() {
			return nil, in.fail(e, "%q must be a table", strings.Join(key, "."))
		}
		return nil, nil
	}
	if len(key) == 1 && key[0] == keyFilesystem {
		return in.filesystem(e)
	}
	found := lookupKey(key)
	if len(found) > 1 {
		return nil, in.fail(e, "%q can mean %s: name its table", key[0], oneOf([]string{found[0].Key, found[1].Key}))
	}
	if len(found) == 0 {
		return nil, in.unknown(e, key, table, knownKeys(profile))
	}
	o := found[0]
	if profile && o.Run {
		return nil, in.fail(e, "%q can't be part of a profile: put it in [sandbox]", strings.Join(key, "."))
	}
	words, err := in.words(o, e, strings.Join(key, "."))
	if err != nil {
		return nil, err
	}
	s := in.assign(o, words, e)
	s.no = o.IsList() && e.Kind == located.Bool && len(words) == 0
	return []assignment{s}, nil
}

func (in *interpreter) assign(o *Option, words []string, e entry) assignment {
	return assignment{option: o, words: words, source: in.doc.source(e.keyAt), where: in.doc.where(e.At), base: in.at}
}

// environment reads env.set: one variable, or the table itself.
func (in *interpreter) Environment(e entry, key []string) ([]assignment, error) {
	o := LookupOption("env-set")
	switch {
	case len(key) == 2 && !e.Inline:
		return nil, nil // the line [sandbox.env.set] says nothing yet
	case len(key) == 2:
		return []assignment{in.assign(o, nil, e)}, nil
	case e.Kind != located.String && !number(e.Kind):
		return nil, in.fail(e, "variable %q must be a string", key[2])
	case strings.Contains(key[2], "="):
		return nil, in.fail(e, "%q is not the name of a variable", key[2])
	}
	return []assignment{in.assign(o, []string{key[2] + "=" + e.Text}, e)}, nil
}

// filesystem reads allow_filesystem, which stands for several options: false is
// the system's files alone, true what the profile "development" has.
func (in *interpreter) filesystem(e entry) (list []assignment, err error) {
	if e.Kind != located.Bool {
		return nil, in.fail(e, "allow_filesystem must be true or false")
	}
	add := func(name string, words ...string) {
		s := in.assign(LookupOption(name), words, e)
		s.general = true
		list = append(list, s)
	}
	if e.Text == "true" {
		add("workdir", "rw")
		add("home", "true")
		return list, nil
	}
	add("workdir", wordNone)
	add("home", "false")
	for _, name := range []string{"allow-read", "allow-write", "overlay", "mount"} {
		add(name)
	}
	return list, nil
}

// flat is the option's name as a key.
func (o *Option) flat() string { return strings.ReplaceAll(o.Name, "-", "_") }

// allKeys are the keys that say this option, each with its table.
func (o *Option) allKeys() []string {
	if o.Key == "" {
		return nil
	}
	return append([]string{o.Key}, o.Also...)
}

// lookupKey finds the option of a key. "network.allow_domains" can also be said
// without its table, as "allow_domains" or, by the option's name, "allow_network".
func lookupKey(key []string) []*Option {
	dotted := strings.Join(key, ".")
	var last, named []*Option
	for i := range options {
		o := &options[i]
		for _, k := range o.allKeys() {
			if k == dotted {
				return []*Option{o}
			}
			if strings.HasSuffix(k, "."+dotted) && len(key) == 1 && !slices.Contains(last, o) {
				last = append(last, o)
			}
		}
		if o.Key != "" && !o.FileOnly && o.flat() == dotted {
			named = []*Option{o}
		}
	}
	if named != nil {
		return named
	}
	return last
}

// isTable says whether a key names a table and no option.
func isTable(key []string) bool {
	prefix := strings.Join(key, ".") + "."
	if prefix == "env.set." {
		return true
	}
	for i := range options {
		if strings.HasPrefix(options[i].Key, prefix) {
			return true
		}
	}
	return false
}

// knownKeys are what an unknown key may have meant.
func knownKeys(profile bool) []string {
	known := []string{keyFilesystem, "network", "filesystem", "env"}
	if profile {
		known = append(known, keyExtends)
	} else {
		known = append(known, "profiles")
	}
	for i := range options {
		o := &options[i]
		if o.Key == "" || (profile && o.Run) {
			continue
		}
		known = append(known, o.allKeys()...)
		if !o.FileOnly {
			known = append(known, o.flat())
		}
		for _, k := range o.allKeys() {
			if dot := strings.LastIndexByte(k, '.'); dot >= 0 {
				known = append(known, k[dot+1:])
			}
		}
	}
	return known
}

func number(k located.Kind) bool { return k == located.Integer || k == located.Float }

// words are the words of a value, if it has the shape that the option takes.
func (in *interpreter) words(o *Option, e entry, key string) ([]string, error) {
	one := []string{e.Text}
	takes := ""
	switch o.Kind {
	case KindList:
		return in.listWords(o, e, key)
	case KindBool:
		if e.Kind == located.Bool {
			return one, nil
		}
		takes = "true or false"
	case KindDuration, KindSize, KindCount, KindPercent:
		if e.Kind == located.String || number(e.Kind) {
			return one, nil
		}
		takes = forms[o.Kind]
	default:
		if e.Kind == located.String || number(e.Kind) && o.Name == "user" {
			return one, nil
		}
		takes = "a string"
		if len(o.Words) > 0 {
			takes = oneOf(o.Words)
		}
	}
	return nil, in.fail(e, "%s takes %s", key, takes)
}

// listWords reads a list. "false" is the empty list, which drops what weaker
// places said; "true" is everything, where an option has a word for that.
func (in *interpreter) listWords(o *Option, e entry, key string) ([]string, error) {
	network := o.Name == "allow-network"
	switch {
	case e.Kind == located.Bool && e.Text == "false":
		return nil, nil
	case e.Kind == located.Bool && network:
		return []string{WordAll}, nil
	case e.Kind != located.List && network:
		return nil, in.fail(e, "%s takes true, false or a list of strings", key)
	case e.Kind != located.List:
		return nil, in.fail(e, "%s takes a list of strings", key)
	}
	var words []string
	for _, item := range e.Items {
		if item.Kind != located.String && (!number(item.Kind) || o.Name != "allow-port") {
			return nil, in.fail(entry{Value: item}, "%s takes a list of strings", key)
		}
		words = append(words, item.Text)
	}
	return words, nil
}

// order refuses what is said twice, and puts the rest into the
// order in which it counts: general keys, then emptied lists, then what is added.
func order(list []assignment) error {
	for i, s := range list {
		for _, earlier := range list[:i] {
			if s.option != earlier.option || s.general || earlier.general {
				continue
			}
			if !s.option.IsList() || s.no != earlier.no && len(s.words)+len(earlier.words) > 0 {
				return &UsageError{Msg: fmt.Sprintf("%s: %s was already said otherwise, at %s", s.where, s.option.Name, earlier.where)}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b assignment) int { return a.rank() - b.rank() })
	return nil
}

func (s *assignment) rank() int {
	switch {
	case s.general:
		return 0
	case len(s.words) == 0:
		return 1
	}
	return 2
}
