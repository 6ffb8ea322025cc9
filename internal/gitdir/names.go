package gitdir

import (
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
)

// configured gives what git is told of by the configuration for a tree, the user's and the
// host's included: directories of hooks, further configuration and programs, which may not
// be there yet, and other files that values name. Conditions are taken to hold. Names are
// absolute, and not resolved.
func (s *Survey) configured(tree string, dirs []string) []string {
	r := reading{Survey: s, words: map[string]bool{}}
	if len(dirs) > 0 {
		r.within(tree)
	}
	for _, dir := range dirs {
		r.within(dir) // where hooks run that have to do with pushes
		for _, tree := range s.workTrees(dir) {
			r.within(tree)
		}
	}
	for _, name := range s.ownConfig() {
		r.names = append(r.names, name)
		r.file(name)
	}
	for _, dir := range dirs {
		r.file(path.Join(dir, "config"))
		r.file(path.Join(dir, "config.worktree"))
	}
	return r.names
}

// ownConfig are the files of configuration that hold for every tree.
func (g *Reader) ownConfig() (names []string) {
	switch system := g.Env("GIT_CONFIG_SYSTEM"); {
	case path.IsAbs(system):
		names = append(names, system)
	default:
		names = append(names, "/etc/gitconfig")
	}
	if global := g.Env("GIT_CONFIG_GLOBAL"); path.IsAbs(global) {
		return append(names, global)
	}
	if base := g.Env("XDG_CONFIG_HOME"); path.IsAbs(base) {
		names = append(names, path.Join(base, "git/config"))
	} else if path.IsAbs(g.Home) {
		names = append(names, path.Join(g.Home, ".config/git/config"))
	}
	if path.IsAbs(g.Home) {
		names = append(names, path.Join(g.Home, ".gitconfig"))
	}
	return names
}

// reading is one reading of all the configuration for a tree.
type reading struct {
	*Survey
	trees []string // that names are relative to
	read  []string // files
	words map[string]bool
	names []string
}

// within takes names as relative to that directory, too.
func (r *reading) within(dir string) {
	if !slices.Contains(r.trees, dir) {
		r.trees = append(r.trees, dir)
	}
}

func (r *reading) file(name string) {
	if slices.Contains(r.read, name) {
		return
	}
	if len(r.read) == maxConfigs {
		r.Partial = true
		return
	}
	r.read = append(r.read, name)
	all, complete := r.settings(name)
	r.Partial = r.Partial || !complete
	for i := range all {
		s := &all[i]
		switch {
		case (s.section == "include" || s.section == "includeif") && s.Key == "path":
			for _, to := range r.expand(s.Value, []string{path.Dir(name)}) {
				r.names = append(r.names, to)
				r.file(to)
			}
		case s.section == "core" && s.Key == "hookspath", s.section == "init" && s.Key == "templatedir":
			r.names = append(r.names, r.expand(s.Value, r.trees)...)
		default:
			r.files(s)
		}
	}
}

// programs are keys whose value is a command, in whatever section.
var programs = [...]string{
	"alternaterefscommand", "askpass", "browser", "cccmd", "clean", "cmd", "command", "defaultkeycommand", "difffilter", "driver", "editor",
	"external", "fsmonitor", "gitproxy", "headercmd", "helper", "httpd", "packobjectshook", "pager", "process", "program", "receivepack",
	"recentobjectshook", "sendmailcmd", "smtpserver", "smudge", "sshcommand", "textconv", "tocmd", "tunnel", "uploadpack",
}

// isProgram: git runs what the value says.
func (s *Setting) isProgram() bool {
	switch s.section {
	case "pager":
		return true
	case "alias":
		return strings.HasPrefix(s.Value, "!")
	case "submodule":
		return s.Key == "update" && strings.HasPrefix(s.Value, "!")
	case "difftool", "mergetool", "man", "browser", "guitool":
		return s.Key == "path" || s.Key == "cmd"
	}
	return slices.Contains(programs[:], s.Key)
}

// isAddress: the value says where repositories or refs are.
func (s *Setting) isAddress() bool {
	switch s.Key {
	case "url", "pushurl", "insteadof", "pushinsteadof":
		return !strings.HasPrefix(s.Value, "ext::") // a command
	case "fetch", "push", "merge":
		return s.section == "remote" || s.section == "branch"
	}
	return false
}

// files takes over what a value names that is a file: a program, with its arguments, or
// what git reads; and a program that isn't there yet. What has no slash is looked for elsewhere.
func (r *reading) files(s *Setting) {
	if strings.IndexByte(s.Value, '/') < 0 || s.isAddress() || r.looks > MaxLooks {
		return
	}
	words, program := shellWords(s.Value), ""
	if s.isProgram() {
		program = programOf(words)
	}
	for i, word := range append(words, s.Value) {
		if strings.IndexByte(word, '/') < 0 || strings.HasPrefix(word, "refs/") || strings.Contains(word, "://") || strings.IndexByte(word, '\n') >= 0 {
			continue // a URL, or what refs are called
		}
		runs := word == program && i < len(words)
		if was, known := r.words[word]; known && (was || !runs) { // many branches have the same
			continue
		}
		if len(r.words) >= MaxNames {
			r.Partial = true
			return
		}
		r.words[word] = runs
		for _, name := range r.expand(word, r.trees) {
			r.looks += len(name) / 256 // the kernel walks the whole name
			if r.enough(&r.looks, MaxLooks) {
				return
			}
			f, err := r.Host.Resolve(name)
			if err == nil && f.Mode.IsRegular() || runs && hostfs.Absent(err) {
				r.names = append(r.names, name)
			}
		}
	}
}

// before are words that may stand before the program or script that is meant.
var before = [...]string{"env", "exec", "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "perl", "ruby", "node", "nice", "nohup", "command"}

// programOf is the word of a command that names its program.
func programOf(words []string) string {
	for i, word := range words {
		assigned := i > 0 && strings.HasSuffix(words[i-1], "=")
		if !slices.Contains(before[:], word) && !assigned && !strings.HasSuffix(word, "=") && (i == 0 || !strings.HasPrefix(word, "-")) {
			return word
		}
	}
	return ""
}

// shellWords splits a command roughly as a shell does.
func shellWords(text string) (words []string) {
	var word []byte
	var quote byte
	open := false
	end := func() {
		if open {
			words = append(words, string(word))
		}
		word, open = nil, false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
			word = append(word, c)
		case c == '\\' && i+1 < len(text):
			i++
			word, open = append(word, text[i]), true
		case c == quote:
			quote = 0
		case c == '"' || c == '\'':
			quote, open = c, true
		case c == '=' && open:
			word = append(word, c)
			end()
		case strings.IndexByte(" \t\r\n;&|()<>`$={},!", c) >= 0:
			end()
		default:
			word, open = append(word, c), true
		}
	}
	end()
	return words
}

// expand makes a name of git's absolute, below each directory that it may be relative to.
func (r *reading) expand(name string, relativeTo []string) []string {
	name = strings.TrimPrefix(name, ":(optional)")
	switch {
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return nil
	case path.IsAbs(name):
		return []string{name}
	case name[0] == '~':
		user, rest, _ := strings.Cut(name[1:], "/")
		home := r.homeOf(user)
		if !path.IsAbs(home) {
			return nil
		}
		return []string{home + "/" + rest}
	}
	var names []string
	for _, dir := range relativeTo {
		names = append(names, dir+"/"+name)
	}
	return names
}
