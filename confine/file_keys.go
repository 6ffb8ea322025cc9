package confine

import (
	"fmt"
	"slices"
	"strings"
)

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
	return &UsageError{Msg: in.doc.where(e.at) + ": " + fmt.Sprintf(format, args...)}
}

func (in *interpreter) unknown(e entry, key []string, table string, known []string) error {
	word := strings.Join(key, ".")
	msg := fmt.Sprintf("%s: unknown key %q", in.doc.where(e.keyAt), word)
	if e.shape == shapeTable && !e.inline {
		msg = fmt.Sprintf("%s: unknown table %q", in.doc.where(e.keyAt), strings.Join(e.key, "."))
	}
	if table != "" {
		msg += " in [" + table + "]"
	}
	return &UsageError{Msg: msg + meant(word, known)}
}

func (in *interpreter) entry(e entry) error {
	if e.shape == shapeTables {
		return in.fail(e, "%q is a table and no list of tables: write [%[1]s]", strings.Join(e.key, "."))
	}
	tables := []string{"sandbox", "test"}
	if len(e.key) == 1 && slices.Contains(tables, e.key[0]) {
		if e.shape != shapeTable {
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
	known := tables
	for _, o := range options {
		known = append(known, o.Key) // said without its table
	}
	err := in.unknown(e, e.key, "", known)
	if len(e.key) == 1 && (len(lookupKey(e.key)) > 0 || e.key[0] == keyFilesystem) {
		err.(*UsageError).Hint = "put it below a line that says [sandbox]"
	}
	return err
}

func (in *interpreter) sandbox(e entry, key []string) error {
	list, err := in.setting(e, key, "sandbox", false)
	in.out.settings = append(in.out.settings, list...)
	return err
}

func (in *interpreter) profile(e entry, key []string) error {
	switch {
	case len(key) == 0 && e.shape != shapeTable:
		return in.fail(e, "\"sandbox.profiles\" must be a table")
	case len(key) == 0:
		return nil
	case !isProfileName(key[0]) || key[0] == wordNone:
		return in.fail(e, "%q can't be the name of a profile: letters, digits, \"-\" and \"_\", and not \"none\"", key[0])
	case len(key) == 1 && e.shape != shapeTable:
		return in.fail(e, "profile %q must be a table", key[0])
	}
	p := in.piece(key[0], e)
	if len(key) == 1 {
		return nil
	}
	if key = key[1:]; len(key) == 1 && key[0] == keyExtends {
		if e.shape != shapeString || !isProfileName(e.text) {
			return in.fail(e, "extends must be a profile's name")
		}
		p.extends, p.where = e.text, in.doc.where(e.at)
		return nil
	}
	list, err := in.setting(e, key, "sandbox.profiles."+p.name, true)
	for i := range list {
		list[i].source = "profile " + p.name + ", " + list[i].source
	}
	p.settings = append(p.settings, list...)
	return err
}

// piece finds or makes what this file says of a profile.
func (in *interpreter) piece(name string, e entry) *piece {
	for i := range in.out.pieces {
		if in.out.pieces[i].name == name {
			return &in.out.pieces[i]
		}
	}
	in.out.pieces = append(in.out.pieces, piece{name: name, where: in.doc.where(e.keyAt)})
	return &in.out.pieces[len(in.out.pieces)-1]
}

func (in *interpreter) test(e entry, key []string) error {
	known := make([]string, 0, len(testKeys))
	for _, t := range testKeys {
		known = append(known, t.key)
		if len(key) != 1 || key[0] != t.key {
			continue
		}
		if t.option == "" {
			if e.shape != shapeBool {
				return in.fail(e, "sandbox must be true or false")
			}
			in.out.testOff = e.text == "false"
			return nil
		}
		words, err := in.words(LookupOption(t.option), e, key[0])
		s := in.said(LookupOption(t.option), words, e)
		s.source = "profile testing, " + s.source
		in.out.test = append(in.out.test, s)
		return err
	}
	return in.unknown(e, key, "test", known)
}

// setting reads one key of [sandbox] or of a profile.
func (in *interpreter) setting(e entry, key []string, table string, profile bool) ([]said, error) {
	inEnvSet := len(key) >= 2 && key[0] == "env" && key[1] == "set"
	if inEnvSet && (len(key) == 3 || len(key) == 2 && e.shape == shapeTable) {
		return in.environment(e, key)
	}
	if isTable(key) {
		if e.shape != shapeTable {
			return nil, in.fail(e, "%q must be a table", strings.Join(key, "."))
		}
		return nil, nil
	}
	if len(key) == 1 && key[0] == keyFilesystem {
		return in.filesystem(e)
	}
	found := lookupKey(key)
	if len(found) > 1 {
		return nil, in.fail(e, "%q can mean %s: name its table", key[0], oneOf(found.keys()))
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
	s := in.said(o, words, e)
	s.no = o.IsList() && e.shape == shapeBool && len(words) == 0
	return []said{s}, nil
}

func (in *interpreter) said(o *Option, words []string, e entry) said {
	return said{option: o, words: words, source: in.doc.source(e.keyAt), where: in.doc.where(e.at), base: in.at}
}

// environment reads env.set: one variable, or the table itself.
func (in *interpreter) environment(e entry, key []string) ([]said, error) {
	o := LookupOption("env-set")
	switch {
	case len(key) == 2 && !e.inline:
		return nil, nil // the line [sandbox.env.set] says nothing yet
	case len(key) == 2:
		return []said{in.said(o, nil, e)}, nil
	case e.shape != shapeString && e.shape != shapeNumber:
		return nil, in.fail(e, "variable %q must be a string", key[2])
	case strings.Contains(key[2], "="):
		return nil, in.fail(e, "%q is not the name of a variable", key[2])
	}
	return []said{in.said(o, []string{key[2] + "=" + e.text}, e)}, nil
}

// filesystem reads allow_filesystem, which stands for several options: false is
// the system's files alone, true what the profile "development" has.
func (in *interpreter) filesystem(e entry) (list []said, err error) {
	if e.shape != shapeBool {
		return nil, in.fail(e, "allow_filesystem must be true or false")
	}
	add := func(name string, words ...string) {
		s := in.said(LookupOption(name), words, e)
		s.general = true
		list = append(list, s)
	}
	if e.text == "true" {
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
