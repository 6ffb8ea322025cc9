package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/shell"
)

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
	for _, s := range chain {
		if err := r.out.apply(s); err != nil {
			return nil, err
		}
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
		r.out.Protected = append(r.out.Protected, policy)
	}
	return r.out, nil
}

// gathered is everything that was said, before any of it counts.
type gathered struct {
	src      Sources
	out      *Resolved
	flags    []said
	env      []said
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
	if g.flags, err = saidByFlags(src.Flags, here); err != nil {
		return nil, err
	}
	if g.env, err = saidByEnviron(src.Environ, here); err != nil {
		return nil, err
	}
	if err := g.readFiles(); err != nil {
		return nil, err
	}
	g.profiles.files = g.files
	return g, nil
}

// layers are all places but the profile, weakest first.
func (g *gathered) layers() (layers [][]said) {
	for _, f := range g.files {
		layers = append(layers, f.settings)
	}
	return append(layers, g.env, g.flags)
}

func (g *gathered) readFiles() error {
	if err := g.readOwn(g.src.SystemFile, true); err != nil {
		return err
	}
	if err := g.readOwn(g.src.userFile(), true); err != nil {
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
		return g.take(config, g.src.Config)
	case config != "":
		return g.readOwn(config, false)
	}
	return g.readProject()
}

// config is the file that --config or its twin names.
func (g *gathered) config() (string, error) {
	for _, layer := range [][]said{g.flags, g.env} {
		for _, s := range slices.Backward(layer) {
			if s.option.Name == "config" {
				path, err := s.option.canonical(s.base, s.words[0])
				if err != nil {
					return "", s.blame(s.words[0], err)
				}
				return path, nil
			}
		}
	}
	return "", nil
}

// readOwn reads a file that the caller keeps or names, which needs no trust.
func (g *gathered) readOwn(path string, optional bool) error {
	if path == "" {
		return nil
	}
	g.out.Protected = append(g.out.Protected, path)
	data, err := readPolicyFile(path, true)
	if optional && absent(err) {
		return nil
	}
	if err != nil {
		return unreadable(path, err)
	}
	return g.take(path, data)
}

func (g *gathered) take(path string, data []byte) error {
	f, err := parseFile(path, data, g.src.Home)
	if err != nil {
		return err
	}
	g.files = append(g.files, f)
	g.out.Files = append(g.out.Files, path)
	if f.testOff && len(f.test) > 0 {
		g.out.Notices = append(g.out.Notices, printable(path)+": [test] says sandbox = false, so its limits don't count")
	}
	return nil
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
		g.out.Notices = append(g.out.Notices, printable(path)+" "+why+" and was ignored: "+remedy)
	}
	byName := "name it with --config to use it"
	data, err := readPolicyFile(path, false)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		notice("can't be read ("+err.Error()+")", byName)
		return nil
	}
	known, err := g.src.trusted(path, data)
	accept := "read it, then run: confine trust " + shell.Word(path)
	switch {
	case err != nil:
		notice("is not trusted ("+firstLine(err)+")", byName)
	case known == trustNone:
		notice("is not trusted", accept)
	case known == trustOther:
		notice("has changed since it was trusted", accept)
	default:
		return g.take(path, data)
	}
	return nil
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
func (g *gathered) chooseProfile() (chosen said, err error) {
	chosen = said{option: LookupOption("profile"), words: []string{profileDefault}}
	origins := []Setting{{Option: "profile", Values: chosen.words, Source: unsaid}}
	for _, layer := range g.layers() {
		var here *said
		for i := range layer {
			s := &layer[i]
			if !namesProfile(s.option) {
				continue
			}
			if _, err := s.option.canonical(s.base, s.words[0]); err != nil {
				return said{}, s.blame(s.words[0], err)
			}
			if here != nil && here.option != s.option && here.words[0] != s.words[0] {
				return said{}, &UsageError{Msg: fmt.Sprintf("%s says %q, and %s says %q", here.where, here.words[0], s.where, s.words[0]), Hint: "--level is --profile for three profiles: give one of them"}
			}
			here = s
			origins = append(origins, Setting{Option: s.option.Name, Values: s.words, Source: s.source})
		}
		if here != nil {
			chosen = *here
		}
	}
	g.out.Origins["profile"] = origins
	g.out.Invocation.Profile = chosen.words[0]
	return chosen, nil
}

// apply lets one thing that was said count.
func (r *Resolved) apply(s said) error {
	canon := make([]string, 0, len(s.words))
	for _, w := range s.words {
		c, err := s.option.canonical(s.base, w)
		if err != nil {
			return s.blame(w, err)
		}
		canon = append(canon, c)
	}
	if r.Origins == nil {
		r.Origins = make(map[string][]Setting)
	}
	if r.where == nil {
		r.where = make(map[string][]where)
	}
	name := s.option.Name
	if len(canon) == 0 {
		s.option.clear(r)
		r.Origins[name], r.where[name] = nil, nil
	} else {
		s.option.set(r, canon)
	}
	for _, word := range canon {
		r.where[name] = append(r.where[name], where{word, s.source})
	}
	r.Origins[name] = origin(r.Origins[name], Setting{Option: name, Values: s.words, Source: s.source})
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
	case last.Source == unsaid:
		list[len(list)-1] = s
	case last.Source == s.Source && LookupOption(s.Option).IsList() && len(s.Values) > 0:
		last.Values = slices.Concat(last.Values, s.Values)
	default:
		list = append(list, s)
	}
	return list
}

// blame says where a mistake was made.
func (s *said) blame(word string, err error) error {
	var u *UsageError
	if !errors.As(err, &u) {
		return err
	}
	if strings.HasPrefix(s.option.Name, "env") {
		word, _, _ = strings.Cut(word, "=") // the value may be a secret
	}
	subject := strconv.Quote(word)
	if !strings.HasPrefix(s.where, "flag ") && !strings.HasPrefix(s.where, "environment ") {
		subject = s.option.Name + " " + subject
	}
	return &UsageError{Msg: s.where + ": " + subject + " " + u.Msg, Hint: u.Hint, Err: u.Err}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
