package confine

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/confine-run/confine/confine/explain"
	"github.com/confine-run/confine/confine/hide"
	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/names"
	"github.com/confine-run/confine/confine/secrets"
	"github.com/confine-run/confine/confine/view"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/internal/unseen"
)

// maxUnshown bounds how many names of a text are looked at.
const maxUnshown = 32

// unshown finds the last name in a text of the target's of something that exists, isn't shown
// inside and could well be, and the option that shows it; or nothing. As the target can write any
// name to have it recommended, see harmless.
func (p *Plan) unshown(r *Resolved, text string) hint.Notice {
	names, asked := p.namesIn(text), p.namesIn(strings.Join(p.command.Argv, " "))
	for i := len(names) - 1; i >= max(0, len(names)-maxUnshown); i-- {
		if name := names[i]; p.harmless(name, slices.Contains(asked, name)) && p.showable(r, name) {
			return notShown(name)
		}
	}
	return hint.Notice{}
}

func notShown(name string) hint.Notice {
	return hint.Notice{Text: strconv.Quote(name) + " exists and is not shown inside", Remedy: "--allow-read " + shell.Word(name)}
}

// unshownVariables names the places that variables lead to, which reach the target while what they
// name doesn't.
func (p *Plan) unshownVariables(r *Resolved, _ string) hint.Notice {
	var said, hints []string
	home := path.Clean(p.command.env("HOME"))
	for _, e := range p.Exec.Env {
		variable, value, _ := strings.Cut(e, "=")
		if !passes(places[:], variable) {
			continue
		}
		for _, name := range filepath.SplitList(value) {
			told := slices.ContainsFunc(p.Notices, func(n hint.Notice) bool { return strings.Contains(n.Text, strconv.Quote(name)) })
			partly := slices.ContainsFunc(p.Rules, func(rule view.Rule) bool { return strings.HasPrefix(rule.Path, name+"/") })
			if told || partly || !path.IsAbs(name) || names.TooBroad(name, home) || p.secret(name) || !p.showable(r, name) {
				continue
			}
			if option := "--allow-read " + shell.Word(name); !slices.Contains(hints, option) && len(hints) < 3 {
				said, hints = append(said, strconv.Quote(name)+" ("+variable+")"), append(hints, option)
			}
		}
	}
	if said == nil {
		return hint.Notice{}
	}
	return hint.Notice{Text: "variables that reach the command name what is not shown inside: " + strings.Join(said, ", "), Remedy: strings.Join(hints, " ")}
}

// showable says whether something exists, is hidden from the target for want of a rule that shows
// it, and would be seen if it were named to --allow-read.
func (p *Plan) showable(r *Resolved, name string) bool {
	if f := &p.policy.Filesystem; f.Rootfs != "" || f.Virtual {
		return false
	}
	if real, err := filepath.EvalSymlinks(name); err != nil || real != name {
		return false
	}
	a, err := p.Ask(r, Ask{Kind: AskPath, Word: name})
	if err != nil || a.Answer != AnswerNo || a.Reason != string(explain.Hidden) || a.Hint != "--allow-read "+shell.Word(name) || a.origin == view.FromSecrets {
		return false
	}
	policy, command := *p.policy, *p.command
	policy.Filesystem.AllowRead = append(slices.Clone(policy.Filesystem.AllowRead), name)
	other := &planner{policy: &policy, command: &command, host: host.Current(), ground: p.ground, abi: landlockABI()}
	other.plan = &Plan{policy: &policy, command: &command}
	for _, part := range []func() error{other.identity, other.namespaces, other.filesystem} {
		if part() != nil {
			return false
		}
	}
	return other.plan.see(name, explain.Read).Granted
}

// namesIn are the paths in a text that are written without spaces: absolute ones, and those that
// lead out of the directory where the target starts.
func (p *Plan) namesIn(text string) []string {
	home := path.Clean(p.command.env("HOME"))
	return namesIn(strings.NewReplacer("$HOME/", home+"/", "${HOME}/", home+"/").Replace(text), home, p.Exec.Dir)
}

func namesIn(text, home, dir string) (names []string) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || unseen.Is(r) || r == unicode.ReplacementChar || strings.ContainsRune("\"'`‘’“”«»()[]{}<>,;:=|*?!$&#\\", r)
	}) {
		if rest, ok := strings.CutPrefix(word, "~/"); ok {
			word = home + "/" + rest
		}
		if end := strings.TrimRight(word, "."); !strings.HasSuffix(end, "/") {
			word = end // of a sentence
		}
		if strings.HasPrefix(path.Clean(word), "../") {
			word = path.Join(dir, word)
		}
		if path.IsAbs(word) {
			names = append(names, path.Clean(word))
		}
	}
	return names
}

// harmless says whether it may be recommended to show what a target named. It has to be the
// caller's own, or lie in the home directory, or be for every user of the host below /etc, /var or
// /opt; what is others' may lie in no tree of work. A directory that isn't for every user is recommended
// only when the command line names it, too: that the target can't change. Outside of the system's places
// nothing with a leading dot on its way is, and nothing in /run, where containers have secrets, nor ever what
// the set of secrets has or --deny hides.
func (p *Plan) harmless(name string, asked bool) bool {
	home := path.Clean(p.command.env("HOME"))
	below, inHome := strings.CutPrefix(name, home)
	if inHome = inHome && path.IsAbs(home) && home != "/" && strings.HasPrefix(below, "/"); !inHome {
		below = name
	}
	ofSystem := strings.HasPrefix(name, "/etc/") || strings.HasPrefix(name, "/var/") || strings.HasPrefix(name, "/opt/")
	if !ofSystem && strings.Contains(below, "/.") || strings.HasPrefix(name, "/run/") || names.TooBroad(name, home) || secrets.HidesInEtc(name) {
		return false
	}
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return false
	}
	public := forAll(name, info)
	stat, ok := info.Sys().(*syscall.Stat_t)
	own := ok && int(stat.Uid) == os.Geteuid() && (inHome || stat.Uid != 0 || public)
	switch {
	case info.IsDir() && !asked && !(ofSystem && public):
		return false
	case own:
	case !inHome && !(ofSystem && public), p.inWork(name):
		return false
	}
	return !p.secret(name)
}

func (p *Plan) inWork(name string) bool {
	return namesOf(p.policy, p.command.Dir, p.command.ConfigFiles, p.command.env).InWork(name)
}

// secret says whether the set of secrets has a path, or --deny hides it.
func (p *Plan) secret(name string) bool {
	h := hostfs.This()
	return secrets.Of(h, name, path.Clean(p.command.env("HOME")), "/root") != "" || hide.Denies(h, p.policy.Filesystem.Deny, p.command.Dir, name)
}

// forAll says whether every user may read what is there, and get to it.
func forAll(name string, info fs.FileInfo) bool {
	if info.Mode()&0o004 == 0 {
		return false
	}
	for dir := name; dir != "/"; dir = path.Dir(dir) {
		if info, err := os.Lstat(dir); err != nil || info.IsDir() && info.Mode()&0o001 == 0 {
			return false
		}
	}
	return true
}
