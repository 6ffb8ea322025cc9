package confine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// saidByFlags reads what the command line gave, in its order.
func saidByFlags(flags []Setting, here place) (list []said, err error) {
	for _, f := range flags {
		o := LookupOption(f.Option)
		if o == nil || o.FileOnly {
			return nil, &UsageError{Msg: "unknown option --" + f.Option + meant(f.Option, flagNames()), Hint: "confine --help lists them"}
		}
		s := said{option: o, source: f.Source, base: here}
		if s.source == "" {
			s.source = "flag --" + o.Name
		}
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
		list = append(list, s.with(words)...)
	}
	return list, nil
}

// saidByEnviron reads the environment twins. One that is empty says nothing.
func saidByEnviron(environ []string, here place) (list []said, err error) {
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
		s := said{option: o, source: "environment " + name, base: here}
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
		list = append(list, s.with(words)...)
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
	wrong := ""
	for name := range rest {
		if wrong == "" || name < wrong { // the same one in every run
			if mistyped(strings.TrimPrefix(name, envPrefix), names) != "" {
				wrong = name
			}
		}
	}
	if wrong == "" {
		return nil
	}
	return &UsageError{
		Msg:  "environment " + wrong + ": no such option, did you mean \"" + envPrefix + mistyped(strings.TrimPrefix(wrong, envPrefix), names) + "\"?",
		Hint: "unset it if it is meant for another program",
	}
}

// with is what words say about an option: "none" alone empties a list, and an
// assignment among the variables to pass sets one.
func (s said) with(words []string) (list []said) {
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

// Here are the sources of this process, without flags.
func Here() Sources {
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	return Sources{
		Environ:    os.Environ(),
		Dir:        dir,
		Home:       os.Getenv("HOME"),
		ConfigHome: os.Getenv("XDG_CONFIG_HOME"),
		DataHome:   os.Getenv("XDG_DATA_HOME"),
		SystemFile: systemFile,
		UID:        os.Getuid(),
	}
}
