package secrets

import (
	"errors"
	"iter"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/hostfs"
)

// LoginURL says whether a text has a URL with a user and a password, or a token, in it.
// A name alone may be a token, but for SSH.
func LoginURL(text string) bool {
	for {
		scheme, rest, found := strings.Cut(text, "://")
		if !found {
			return false
		}
		host := rest
		if end := strings.IndexAny(rest, "/\" \t\r\n"); end >= 0 {
			host = rest[:end]
		}
		user, _, named := strings.Cut(host, "@")
		if named && user != "git" && (strings.Contains(user, ":") || !strings.HasSuffix(scheme, "ssh")) {
			return true
		}
		text = rest
	}
}

// LoginWords stand in a git configuration that logs in. A URL with a name and a password
// in it (LoginURL) is another such word.
var LoginWords = [...]string{"token", "password", "passwd", "secret", "extraheader", "apikey", "api_key", "smtppass"}

// AtHome are the entries of home directories, with their paths below one.
func AtHome() iter.Seq2[string, *Secret] {
	return func(yield func(string, *Secret) bool) {
		all := All()
		for i := range all {
			if rest, ok := strings.CutPrefix(all[i].Pattern, InHomes); ok && !yield(rest, &all[i]) {
				return
			}
		}
	}
}

// InHome is the entry of a home directory that a path is, or lies in; nil is none, as of no home.
func InHome(home, at string) *Secret {
	for rest, s := range AtHome() {
		if home != "" && hostfs.Under(at, path.Join(home, rest)) {
			return s
		}
	}
	return nil
}

// Homes are the home directories that a canonical path may lie in: those given, root's, and its
// user's below /home.
func Homes(at string, given ...string) []string {
	homes := append(slices.Clip(given), "/root")
	if rest, ok := strings.CutPrefix(at, "/home/"); ok {
		user, _, _ := strings.Cut(rest, "/")
		homes = append(homes, "/home/"+user)
	}
	return homes
}

// Of says what a canonical path is, if the set of secrets has it: by its place in
// one of the homes, or by its name and what it holds. It is empty for anything else.
func Of(h hostfs.Host, at string, homes ...string) string {
	for _, home := range homes {
		if s := InHome(home, at); s != nil {
			return s.Reason
		}
	}
	names := ByName()
	for dir := path.Dir(at); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if s := names.Match(dir); s.IsTree() {
			return s.Reason
		}
	}
	s := names.Match(at)
	inTests := slices.ContainsFunc(strings.Split(path.Dir(at), "/"), func(dir string) bool { return slices.Contains(TestDirs[:], dir) })
	if s == nil || s.MadeUp(inTests) {
		return ""
	}
	if f, err := h.Lstat(at); err != nil || f.Mode.Type() != 0 || !s.In(h, at) {
		return ""
	}
	return s.Reason
}

// IsTree says whether the entry is one of a home directory, which may be a directory.
func (s *Secret) IsTree() bool { return s != nil && strings.HasPrefix(s.Pattern, InHomes) }

// MadeUp says whether what matches is taken for a key that was made up for tests.
func (s *Secret) MadeUp(inTests bool) bool { return inTests && s.Reason == whyKeys }

// In says whether a file of that name is a secret, by what it holds. One that can't be read is.
func (s *Secret) In(h hostfs.Host, name string) bool {
	if s.Holds == "" {
		return true
	}
	text, err := h.ReadFile(name, MaxSize)
	if err != nil {
		return !errors.Is(err, syscall.EFBIG)
	}
	return strings.Contains(text, s.Holds)
}

// Names are the entries that are looked for in searched trees.
type Names struct {
	exact      map[string][]*Secret // by the last component, in lower case
	extensions map[string]*Secret   // of "*.EXTENSION"
	globs      []*Secret
}

func ByName() Names {
	all := All()
	n := Names{exact: make(map[string][]*Secret, 2*len(all)), extensions: make(map[string]*Secret, 32)}
	for i := range all {
		s := &all[i]
		name, ok := strings.CutPrefix(s.Pattern, inTrees)
		switch {
		case !ok && !s.anywhere():
		case !ok || !strings.ContainsAny(name, "*?["):
			last := strings.ToLower(path.Base(s.Pattern))
			n.exact[last] = append(n.exact[last], s)
		case name[0] == '*' && path.Ext(name) == name[1:]:
			n.extensions[name[1:]] = s
		default:
			n.globs = append(n.globs, s)
		}
	}
	return n
}

// anywhere: the entry of a home directory also counts in a directory or a copy of one that lies in
// a searched tree. Keys, browsers, mail, wallets and what was typed are somebody's wherever they
// are; the settings of tools (.npmrc, .docker, .claude) a project has of its own, so that of those
// the files which hold tokens have entries by name.
func (s *Secret) anywhere() bool {
	switch s.Reason {
	case whyKeys, whyBrowser, whyHistory, whyWallet, whyMessages:
		return strings.HasPrefix(s.Pattern, InHomes+".")
	}
	return false
}

// Match is the entry that has a canonical path, or nil. One of a home directory has directories, too.
func (n *Names) Match(full string) *Secret {
	dir, name := path.Split(full)
	name = original(strings.ToLower(name))
	for _, s := range n.exact[name] {
		at := s.Pattern[strings.IndexByte(s.Pattern, '/')+1:]
		parents := at[:len(at)-len(path.Base(at))]
		if parents == "" || strings.HasSuffix(strings.ToLower(dir), "/"+strings.ToLower(parents)) {
			return s
		}
	}
	for _, s := range n.globs {
		if ok, _ := path.Match(s.Pattern[len(inTrees):], name); ok && !isPublic(name) {
			return s
		}
	}
	if s := n.extensions[path.Ext(name)]; s != nil && !isPublic(name) {
		return s
	}
	return nil
}

// original is the name that a copy has been made of.
func original(name string) string {
	for i := 0; i < len(copies); i++ {
		if rest, ok := strings.CutSuffix(name, copies[i]); ok {
			name, i = rest, -1
		}
	}
	return name
}

func isPublic(name string) bool {
	return slices.ContainsFunc(public[:], func(p string) bool { ok, _ := path.Match(p, name); return ok })
}

// MaxSize is the size up to which a file is read. A bundle of certificates has
// less, and no file that holds a key has more.
const MaxSize = 1 << 20

// HidesInEtc says whether a path is, lies in or holds what is hidden of /etc.
func HidesInEtc(name string) bool {
	return slices.ContainsFunc(InEtc[:], func(h struct{ Name, Reason string }) bool {
		return hostfs.Under(name, "/etc/"+h.Name) || hostfs.Under("/etc/"+h.Name, name)
	})
}
