package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/internal/view"
)

// Setting is one thing that was said about one option, and where.
type Setting struct {
	Option string // Option.Name
	// Values are the words as they were said. Of a list that is empty, it means
	// that what was said at weaker places is dropped.
	Values []string
	Source string // "flag --time-limit", "environment CONFINE_TIME_LIMIT", "/etc/confine/confine.toml:3", "profile testing"

	canonical []string // Values as they are kept
	named     bool     // Source is a flag or a variable, which names the option
}

// Sources is everything that Resolve looks at; it asks nothing else of the process.
type Sources struct {
	Flags   []Setting // in the order of the command line, one per flag given; Source may be empty. Bools say "true" or "false"
	Environ []string  // as os.Environ gives it

	Dir        string // current directory, absolute; empty if there is none
	Home       string // $HOME
	ConfigHome string // $XDG_CONFIG_HOME; empty: ~/.config
	DataHome   string // $XDG_DATA_HOME; empty: ~/.local/share
	SystemFile string // "/etc/confine/confine.toml"; empty: none
	UID        int    // who must own the list of trusted files

	Config []byte // the text of the file that --config names, when it isn't to be read
}

// Invocation is how a command is run and reported, which is no part of the policy.
type Invocation struct {
	Profile   string
	Config    string // --config, absolute
	Report    string // absolute path or "fd:N"; empty: none
	Events    string // absolute path or "fd:N"; empty: none
	Record    string // absolute path or "fd:N"; empty: none
	JSON      bool
	ExitCodes string // "normalized", "gnu" or "simple"
	Log       string // "quiet", "normal" or "verbose"
	LogFormat string // "text" or "json"
	TTY       string // "auto", "always" or "never"
}

// Resolved is what all places together say.
type Resolved struct {
	Policy     Policy
	Invocation Invocation
	// Origins tells, by option name, what was said where, weakest first. Of a
	// scalar the last one holds; what a list dropped is not in it.
	Origins map[string][]Setting
	Notices []string // for the user, one line each, without prefix
	Files   []string // files that were read and count, weakest first
	// Project is the discovered confine.toml, whether it is trusted or not.
	Project string
	// Protected are files that must never be writable inside: those that say what
	// the next run may do.
	Protected []string
}

// UsageError is a mistake in what was asked for. Nothing was started.
type UsageError struct {
	Msg  string
	Hint string // the remedy, or empty
	Err  error  // the errno behind it, or nil
}

func (e *UsageError) Error() string { return hint.Text(e.Msg, e.Hint) }

// Remedy is Hint, for who has it as an error.
func (e *UsageError) Remedy() string { return e.Hint }

func (e *UsageError) Unwrap() error { return e.Err }

// Resolve puts together what flags, environment, files and profile say. From the
// strongest to the weakest: flag, environment, --config or the discovered
// project file, the user's file, the system's file, the profile.
//
// The stronger word replaces a scalar and is added to a list. A list is emptied
// by the word "none" alone, in a file by false or []. A limit is lifted by "none".
func Resolve(src Sources) (*Resolved, error) {
	r, err := gather(src)
	if err != nil {
		return nil, err
	}
	name, err := r.chooseProfile()
	if err != nil {
		return nil, err
	}
	chain, err := r.profiles.chain(name.words[0], name.where)
	if err != nil {
		return nil, err
	}
	if err := r.out.applyAll(chain); err != nil {
		return nil, err
	}
	r.out.Policy.Profile = name.words[0]
	for _, layer := range r.layers() {
		for _, s := range layer {
			if namesProfile(s.option) {
				continue // already followed
			}
			if err := r.out.apply(s); err != nil {
				return nil, err
			}
			if s.option.Name == "workdir" {
				r.out.Policy.Filesystem.WorkdirAsked = true
			}
		}
	}
	if err := r.out.check(); err != nil {
		return nil, err
	}
	if policy := r.out.Policy.Seccomp; filepath.IsAbs(policy) { // what it lets through is for the next run, too
		r.out.Protected = with(r.out.Protected, policy)
	}
	return r.out, nil
}

// gathered is everything that was said, before any of it counts.
type gathered struct {
	src      Sources
	out      *Resolved
	flags    []assignment
	env      []assignment
	files    []*file // weakest first
	profiles profiles
}

func gather(src Sources) (*gathered, error) {
	g := &gathered{src: src, out: &Resolved{
		Invocation: Invocation{ExitCodes: "normalized", Log: "normal", LogFormat: "text", TTY: "auto"},
		Origins:    make(map[string][]Setting),
	}}
	here := place{dir: src.Dir, home: src.Home}
	var err error
	if g.flags, err = fromFlags(src.Flags, here); err != nil {
		return nil, err
	}
	if g.env, err = fromEnviron(src.Environ, here); err != nil {
		return nil, err
	}
	if err := g.readFiles(); err != nil {
		return nil, err
	}
	g.profiles.files = g.files
	return g, nil
}

// layers are all places but the profile, weakest first.
func (g *gathered) layers() (layers [][]assignment) {
	for _, f := range g.files {
		layers = append(layers, f.settings)
	}
	return append(layers, g.env, g.flags)
}

func (g *gathered) readFiles() error {
	if err := g.readOwn("the system's file", g.src.SystemFile, true); err != nil {
		return err
	}
	if err := g.readOwn("your own file", g.src.userFile(), true); err != nil {
		return err
	}
	if store := g.src.trustStore(); store != "" {
		g.out.Protected = append(g.out.Protected, store)
	}
	config, err := g.config()
	if err != nil {
		return err
	}
	switch {
	case config != "" && g.src.Config != nil:
		return g.parse(config, g.src.Config)
	case config != "":
		return g.readOwn("--config", config, false)
	}
	return g.readProject()
}

// config is the file that --config or its twin names.
func (g *gathered) config() (string, error) {
	for _, layer := range [][]assignment{g.flags, g.env} {
		for _, s := range slices.Backward(layer) {
			if s.option.Name == "config" {
				path, err := s.option.canonical(s.base, s.words[0])
				if err != nil {
					return "", s.errorAt(s.words[0], err)
				}
				return path, nil
			}
		}
	}
	return "", nil
}

// readOwn reads a file that the caller keeps or names, which needs no trust.
func (g *gathered) readOwn(option, path string, optional bool) error {
	if path == "" {
		return nil
	}
	g.out.Protected = append(g.out.Protected, path)
	data, err := ReadFile(path, true)
	if optional && absent(err) {
		return nil
	}
	if err != nil {
		return unreadable(path, err)
	}
	if path != g.src.SystemFile {
		if err := g.src.refuseLink(option, path); err != nil {
			return err
		}
	}
	return g.parse(path, data)
}

func (g *gathered) parse(path string, data []byte) error {
	f, err := parseFile(path, data, g.src.Home)
	if err != nil {
		return err
	}
	g.add(f)
	return nil
}

func (g *gathered) add(f *file) {
	g.files = append(g.files, f)
	g.out.Files = append(g.out.Files, f.path)
	if f.testOff && len(f.test) > 0 {
		g.out.Notices = append(g.out.Notices, Printable(f.path)+": [test] says sandbox = false, so its limits don't count")
	}
}

// absent says whether nothing is there, as opposed to something that can't be read.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// readProject finds the nearest confine.toml upwards, and reads it if it is
// trusted: the code under test may have written it.
func (g *gathered) readProject() error {
	path := discover(g.src.Dir)
	if path == "" || slices.Contains(g.out.Files, path) {
		return nil
	}
	g.out.Project = path
	g.out.Protected = append(g.out.Protected, path)
	notice := func(why, remedy string) {
		g.out.Notices = append(g.out.Notices, Printable(path)+" "+why+" and was ignored: "+remedy)
	}
	byName := "name it with --config to use it"
	data, err := ReadFile(path, false)
	if err != nil {
		notice("can't be read ("+pathless(err).Error()+")", byName)
		return nil
	}
	accept := "read it, then run: confine trust " + shell.Word(path)
	if why, bad := g.src.distrusted(path, data); why != "" {
		if bad {
			accept = byName
		}
		notice(why, accept)
		return nil
	}
	f, err := parseFile(path, data, g.src.Home)
	if err != nil {
		return err
	}
	if why := g.untrustedPolicy(f.policies()); why != "" {
		notice(why, accept)
		return nil
	}
	g.add(f)
	return nil
}

// untrustedPolicy says why one of these policies of system calls, which a trusted file names, isn't what was
// trusted with it. Their text is kept: what was looked at is what counts.
func (g *gathered) untrustedPolicy(policies []string) (why string) {
	for _, path := range policies {
		g.out.Protected = append(g.out.Protected, path)
		data, err := ReadFile(path, true)
		if err != nil {
			why = "can't be read (" + firstLine(pathless(err)) + ")"
		} else {
			why, _ = g.src.distrusted(path, data)
		}
		if why != "" {
			return "names " + Printable(path) + ", which " + why + ","
		}
		if g.out.Policy.trusted == nil {
			g.out.Policy.trusted = map[string][]byte{}
		}
		g.out.Policy.trusted[path] = data
	}
	return ""
}

// discover finds the nearest confine.toml from dir up to the root, whatever file
// systems lie between. It goes up the physical path, as the kernel does.
func discover(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		path := filepath.Join(dir, fileName)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

func namesProfile(o *Option) bool { return o.Name == "profile" || o.Name == "level" }

// chooseProfile follows the same precedence as everything else.
func (g *gathered) chooseProfile() (chosen assignment, err error) {
	chosen = assignment{option: LookupOption("profile"), words: []string{profileDefault}}
	origins := []Setting{{Option: "profile", Values: chosen.words, Source: BuiltIn}}
	for _, layer := range g.layers() {
		var here *assignment
		for i := range layer {
			s := &layer[i]
			if !namesProfile(s.option) {
				continue
			}
			if _, err := s.option.canonical(s.base, s.words[0]); err != nil {
				return assignment{}, s.errorAt(s.words[0], err)
			}
			if here != nil && here.option != s.option && here.words[0] != s.words[0] {
				return assignment{}, &UsageError{Msg: fmt.Sprintf("%s says %q, and %s says %q", here.where, here.words[0], s.where, s.words[0]), Hint: "--level is --profile for three profiles: give one of them"}
			}
			here = s
			origins = append(origins, Setting{Option: s.option.Name, Values: s.words, Source: s.source, canonical: s.words})
		}
		if here != nil {
			chosen = *here
		}
	}
	g.out.Origins["profile"] = origins
	g.out.Invocation.Profile = chosen.words[0]
	return chosen, nil
}

// canonical are the words in the form in which they are kept: mostly these very ones.
func (s *assignment) canonical() ([]string, error) {
	canon := s.words
	for i, w := range s.words {
		c, err := s.option.canonical(s.base, w)
		if err != nil {
			return nil, s.errorAt(w, err)
		}
		if c != w && &canon[0] == &s.words[0] {
			canon = slices.Clone(s.words)
		}
		if c != w {
			canon[i] = c
		}
	}
	return canon, nil
}

func (r *Resolved) applyAll(list []assignment) error {
	for _, s := range list {
		if err := r.apply(s); err != nil {
			return err
		}
	}
	return nil
}

// apply lets one setting count.
func (r *Resolved) apply(s assignment) error {
	canon, err := s.canonical()
	if err != nil {
		return err
	}
	if r.Origins == nil {
		r.Origins = make(map[string][]Setting)
	}
	name := s.option.Name
	if len(canon) == 0 {
		s.option.setList(r, nil)
		r.Origins[name] = nil
	} else {
		s.option.set(r, canon)
	}
	r.Origins[name] = origin(r.Origins[name], Setting{name, s.words, s.source, canon, s.named})
	return nil
}

// origin notes where something was said: what one place says of a list in
// several lines is one origin.
func origin(list []Setting, s Setting) []Setting {
	if len(list) == 0 {
		return []Setting{s}
	}
	last := &list[len(list)-1]
	switch {
	case last.Source == BuiltIn:
		list[len(list)-1] = s
	case last.Source == s.Source && LookupOption(s.Option).IsList() && len(s.Values) > 0:
		last.Values, last.canonical = slices.Concat(last.Values, s.Values), slices.Concat(last.canonical, s.canonical)
	default:
		list = append(list, s)
	}
	return list
}

// errorAt adds the place to an error about one word of the assignment.
func (s *assignment) errorAt(word string, err error) error {
	var u *UsageError
	if !errors.As(err, &u) {
		return err
	}
	if strings.HasPrefix(s.option.Name, "env") {
		word, _, _ = strings.Cut(word, "=") // the value may be a secret
	}
	subject := strconv.Quote(word)
	if !s.named {
		subject = s.option.Name + " " + subject
	}
	return &UsageError{Msg: s.where + ": " + subject + " " + u.Msg, Hint: u.Hint, Err: u.Err}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// fromFlags reads what the command line gave, in its order.
func fromFlags(flags []Setting, here place) (list []assignment, err error) {
	for _, f := range flags {
		o := LookupOption(f.Option)
		if o == nil || o.FileOnly {
			return nil, &UsageError{Msg: "unknown option --" + f.Option + Meant(f.Option, flagNames()), Hint: "confine --help lists them"}
		}
		s := assignment{option: o, source: f.Source, named: true, base: here}
		s.source = cmp.Or(s.source, "flag --"+o.Name)
		s.where = s.source
		words := f.Values
		if o.commas {
			words = nil
			for _, v := range f.Values {
				words = append(words, splitTrim(v, ",")...)
			}
		}
		switch {
		case !o.IsList() && len(words) > 1:
			words = words[len(words)-1:]
		case o.IsBool() && len(words) == 0:
			words = []string{"true"}
		case !o.IsList() && len(words) == 0:
			return nil, &UsageError{Msg: s.where + ": needs a value"}
		}
		list = append(list, s.withWords(words)...)
	}
	return list, nil
}

// fromEnviron reads the environment twins. One that is empty says nothing.
func fromEnviron(environ []string, here place) (list []assignment, err error) {
	twins := make(map[string]string)
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, envPrefix) && v != "" {
			twins[k] = v
		}
	}
	if len(twins) == 0 {
		return nil, nil
	}
	for i := range options {
		o := &options[i]
		name := o.EnvName()
		v, ok := twins[name]
		if !ok || name == "" {
			continue
		}
		delete(twins, name)
		s := assignment{option: o, source: "environment " + name, named: true, base: here}
		s.where = s.source
		words := []string{v}
		if o.IsList() {
			sep := ","
			if o.Paths {
				sep = string(os.PathListSeparator)
			}
			words = slices.DeleteFunc(splitTrim(v, sep), func(w string) bool { return w == "" })
			if len(words) == 0 {
				continue
			}
		}
		list = append(list, s.withWords(words)...)
	}
	return list, mistypedTwin(twins)
}

// mistypedTwin refuses what is nearly a twin: a limit that was meant to hold must
// not be lost in a typing error. Other programs' CONFINE_ variables are left alone.
func mistypedTwin(rest map[string]string) error {
	var names []string
	for i := range options {
		if name := options[i].EnvName(); name != "" {
			names = append(names, strings.TrimPrefix(name, envPrefix))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) { // the same one in every run
		if near := hint.Mistyped(strings.TrimPrefix(name, envPrefix), names); near != "" {
			return &UsageError{
				Msg:  "environment " + name + ": no such option, did you mean \"" + envPrefix + near + "\"?",
				Hint: "unset it if it is meant for another program",
			}
		}
	}
	return nil
}

// withWords are the assignments that words make: "none" alone empties a list, and NAME=VALUE
// among the variables to pass sets one.
func (s assignment) withWords(words []string) (list []assignment) {
	if s.option.IsList() && len(words) == 1 && words[0] == wordNone {
		words = nil
	}
	if s.option.Name == "env" {
		for _, w := range words {
			if strings.Contains(w, "=") {
				set := s
				set.option, set.words = LookupOption("env-set"), []string{w}
				list = append(list, set)
			}
		}
		rest := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(w, "=") })
		if len(rest) == 0 && len(words) > 0 {
			return list
		}
		words = rest
	}
	s.words = words
	return append(list, s)
}

func splitTrim(s, sep string) []string {
	words := strings.Split(s, sep)
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

func flagNames() (names []string) {
	for i := range options {
		if !options[i].FileOnly {
			names = append(names, options[i].Name)
		}
	}
	return names
}

// userFile is the user's own file.
func (src *Sources) userFile() string {
	return src.below(src.ConfigHome, ".config", "confine", fileName)
}

// trustStore is the list of trusted files.
func (src *Sources) trustStore() string {
	return src.below(src.DataHome, filepath.Join(".local", "share"), "confine", "trusted")
}

// below is a path in one of the user's base directories. A relative one is to be
// ignored, says the standard that defines them.
func (src *Sources) below(dir, fallback string, names ...string) string {
	if !filepath.IsAbs(dir) {
		if !filepath.IsAbs(src.Home) {
			return ""
		}
		dir = filepath.Join(src.Home, fallback)
	}
	return filepath.Join(append([]string{dir}, names...)...)
}

// SystemFile is the file of the system's administrator.
const SystemFile = "/etc/confine/confine.toml"

// Here are the sources of a process with these variables, in the current directory, without flags. On Windows there is no file of the
// system: every user may make directories on its drive, and most in %ProgramData%.
func Here(environ []string, system string) Sources {
	src := Sources{Environ: environ, SystemFile: system, UID: os.Getuid()}
	src.Dir, _ = os.Getwd() // none if it was removed
	src.Home, src.ConfigHome, src.DataHome = src.env("HOME"), src.env("XDG_CONFIG_HOME"), src.env("XDG_DATA_HOME")
	if runtime.GOOS == "windows" {
		src.SystemFile, src.Home = "", src.env("USERPROFILE")
		src.ConfigHome, src.DataHome = cmp.Or(src.ConfigHome, src.env("APPDATA")), cmp.Or(src.DataHome, src.env("LOCALAPPDATA"))
	}
	return src
}

func (src *Sources) env(name string) string { return LookupEnv(src.Environ, name) }

// Limit is the value of an option that is a limit, as it is said; "none" is one.
func (p *Policy) Limit(option string) string {
	return LookupOption(option).words(&Resolved{Policy: *p})[0]
}

// Digest tells policies apart: "sha256:" and the digest over all options and
// their values, in a fixed form.
// The order in which a list was said makes no difference, but for mounts, which
// are made in their order. The profile's name is no part of it.
func (p *Policy) Digest() string {
	r := &Resolved{Policy: *p}
	text := make([]byte, 0, 4096)
	text = append(text, "confine policy 1\n"...)
	for i := range options {
		o := &options[i]
		if o.Run {
			continue
		}
		words := o.words(r)
		if o.later && slices.Equal(words, []string{"false"}) {
			continue
		}
		if o.Name != "mount" {
			slices.Sort(words)
		}
		text = append(text, o.Name...)
		for _, w := range words { // each with its length: no two lists of words look the same
			text = append(text, ' ')
			text = strconv.AppendInt(text, int64(len(w)), 10)
			text = append(text, ':')
			text = append(text, w...)
		}
		text = append(text, '\n')
	}
	return digestOf(text)
}

// WithOrigin adds to an error about a path the file and key that named it: a message about
// a flag that nobody gave is no help.
func (r *Resolved) WithOrigin(err error) error {
	var e *view.Error
	if !errors.As(err, &e) {
		return err
	}
	o := LookupOption(strings.TrimPrefix(e.Option, "--"))
	if o == nil || o.Key == "" || e.Path == "" {
		return err
	}
	by := r.lastSource(o.Name, e.Path)
	if by.Source == "" || by.named {
		return err
	}
	key := o.Key[strings.LastIndexByte(o.Key, '.')+1:]
	hint := e.Hint
	if errors.Is(e.Err, fs.ErrNotExist) {
		hint += "; make it first, or take it out of the file; a profile that \"confine learn\" wrote: learn it where it isn't there yet"
	}
	return &UsageError{Msg: by.Source + ": " + key + " " + strconv.Quote(e.Path) + ": " + e.Err.Error(), Hint: strings.TrimPrefix(hint, "; "), Err: err}
}
