package process

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

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/hide"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/internal/unseen"
	"github.com/confine-run/confine/internal/view"
)

// LastWords are notices about a run that failed, each with the option that gives it what it may
// have lacked. text is the last that the target wrote, and says what that likes. So nothing is
// decided by it: it selects among a few notices, and what these say of the plan and of the host is
// looked up.
func (p *Plan) LastWords(r *config.Resolved, text string) (notices []hint.Notice) {
	for _, look := range [...]func(*Plan, *config.Resolved, string) hint.Notice{
		(*Plan).unshown, (*Plan).unshownVariables, (*Plan).identityUnshown, (*Plan).writesNothing, (*Plan).otherLoopback, noPing, onlyRoot, foreign, ownSandbox, heapFull,
	} {
		if notice := look(p, r, text); notice.Text != "" {
			notices = append(notices, notice)
		}
	}
	return notices
}

// identityUnshown: git doesn't know who commits, and the file that says it isn't shown.
func (p *Plan) identityUnshown(r *config.Resolved, text string) hint.Notice {
	if !strings.Contains(text, "Please tell me who you are") {
		return hint.Notice{}
	}
	home := path.Clean(p.command.env("HOME"))
	for _, name := range [...]string{home + "/.gitconfig", home + "/.config/git/config"} {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && p.showable(r, name) {
			return notShown(name)
		}
	}
	return hint.Notice{}
}

// readOnly are what programs say of EROFS, in small letters; SQLite has words of its own.
var readOnly = [...]string{"read-only file system", "readonly database", "unable to open database file"}

// writesNothing: the target wanted to write to the current directory, which the profile shows
// read-only.
func (p *Plan) writesNothing(_ *config.Resolved, text string) hint.Notice {
	if f := &p.policy.Filesystem; f.Workdir != "ro" || f.Virtual || f.Rootfs != "" {
		return hint.Notice{}
	}
	var said string // the last line that says so
	for line := range strings.Lines(text) {
		small := strings.ToLower(line)
		if slices.ContainsFunc(readOnly[:], func(words string) bool { return strings.Contains(small, words) }) {
			said = line
		}
	}
	if said == "" {
		return hint.Notice{}
	}
	if who, what, ok := strings.Cut(said, ": "); ok && path.IsAbs(who) && !hostfs.Under(who, p.Exec.Dir) {
		said = what // the path of a program
	}
	said = lastClause(said)
	elsewhere := slices.ContainsFunc(p.namesIn(said), func(name string) bool { return !hostfs.Under(name, p.Exec.Dir) })
	s := p.see(p.Exec.Dir, explain.Write)
	if elsewhere || s.Granted || s.Reason != explain.ReadOnly || s.Rule.Origin.Option != view.FromWorkdir {
		return hint.Notice{}
	}
	return hint.Notice{Text: "the current directory is shown read-only",
		Remedy: "--workdir overlay takes what is written, and keeps it apart; --workdir rw lets the command change the directory itself"}
}

// lastClause is what a line says of one name: "copying /tmp/a.out: open app: read-only file system" is about app.
func lastClause(line string) string {
	small := strings.ToLower(line)
	for _, words := range readOnly {
		if at := strings.Index(small, words); at > 0 && len(small) == len(line) {
			before := strings.TrimSuffix(line[:at], ": ")
			return before[strings.LastIndex(before, ": ")+1:] + " " + line[at:]
		}
	}
	return line
}

// refusals are what programs say of ECONNREFUSED, in small letters.
var refusals = [...]string{"connection refused", "econnrefused", "connectionrefused", "couldn't connect", "could not connect", "can't connect", "failed to connect"}

// otherLoopback: the target was refused by its own loopback, while the caller's listens on that port.
func (p *Plan) otherLoopback(r *config.Resolved, text string) hint.Notice {
	small := strings.ToLower(text)
	if p.Namespaces&unix.CLONE_NEWNET == 0 || !slices.ContainsFunc(refusals[:], func(words string) bool { return strings.Contains(small, words) }) {
		return hint.Notice{}
	}
	open := listening()
	for _, number := range slices.Backward(loopbackPorts(strings.ToLower(strings.Join(p.command.Argv, " ")) + "\n" + small)) {
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil || !slices.Contains(open, uint16(port)) || taken(uint16(port)) {
			continue
		}
		word := "localhost:" + number
		if a, err := p.Ask(r, config.Ask{Kind: config.AskHost, Word: word}); err == nil && a.Answer == config.AnswerNo && a.Hint == "--allow-network "+word {
			return hint.Notice{Text: "127.0.0.1 inside is the run's own; port " + number + " of the caller's is out of reach", Remedy: a.Hint}
		}
	}
	return hint.Notice{}
}

// loopbackPorts are the ports in "localhost:80", "127.0.0.1 port 80" and the like. (Package regexp makes tables at every start.)
func loopbackPorts(text string) (ports []string) {
	for i := range text {
		rest, ok := cutLoopback(text[i:])
		if !ok {
			continue
		}
		rest, ok = cutBlank(rest, 4)
		if after, named := strings.CutPrefix(rest, "port"); ok && named {
			rest, ok = cutBlank(after, 3)
		}
		after := strings.TrimLeft(rest, "0123456789")
		if n := len(rest) - len(after); ok && n > 0 && n <= 5 && (after == "" || !isWord(rune(after[0]))) {
			ports = append(ports, rest[:n])
		}
	}
	return ports
}

// cutLoopback cuts a name of this host off.
func cutLoopback(text string) (rest string, ok bool) {
	for _, name := range [...]string{"localhost", "::1"} {
		if rest, ok = strings.CutPrefix(text, name); ok {
			return rest, true
		}
	}
	if rest, ok = strings.CutPrefix(text, "127"); !ok {
		return "", false
	}
	for range 3 {
		after, dot := strings.CutPrefix(rest, ".")
		if rest = strings.TrimLeft(after, "0123456789"); !dot || len(rest) == len(after) {
			return "", false
		}
	}
	return rest, true
}

// cutBlank cuts what stands between words off: something, and not more than most.
func cutBlank(text string, most int) (rest string, ok bool) {
	n := 0
	for i, r := range text {
		if isWord(r) {
			return text[i:], 0 < n && n <= most
		}
		n++
	}
	return "", false
}

func isWord(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

var pinged = [...]string{"ping: socket: Operation not permitted", "ping: permission denied", "ping: Operation not permitted"}

// noPing: without a gateway nobody has told the kernel of a run's network who may ping there.
func noPing(p *Plan, _ *config.Resolved, text string) hint.Notice {
	says := slices.ContainsFunc(slices.Collect(strings.Lines(text)), func(line string) bool {
		return slices.ContainsFunc(pinged[:], func(words string) bool { return strings.HasPrefix(line, words) })
	})
	if !says || p.Namespaces&unix.CLONE_NEWNET == 0 || p.Box.Network.Pings {
		return hint.Notice{}
	}
	return hint.Notice{Text: "there is no network to ping", Remedy: "--allow-network HOST allows a host, and to ping it"}
}

// owners are what programs say of calls that name another user or group, in small letters.
var owners = [...]string{"chown", "ownership", "setuid", "setgid", "setreuid", "setresuid", "setregid", "setresgid", "setgroups", "set groups"}

// onlyRoot: root's run has no other user to give files to, or to go on as.
func onlyRoot(p *Plan, _ *config.Resolved, text string) hint.Notice {
	if p.Namespaces&unix.CLONE_NEWUSER == 0 || p.UIDMap.Inside != 0 {
		return hint.Notice{}
	}
	for line := range strings.Lines(strings.ToLower(text)) {
		failed := strings.Contains(line, "invalid argument") || strings.Contains(line, "operation not permitted")
		if failed && slices.ContainsFunc(owners[:], func(words string) bool { return strings.Contains(line, words) }) {
			return hint.Notice{Text: "user and group 0 are the only ones inside",
				Remedy: "tar --no-same-owner, cp -dR --preserve=mode,timestamps and the like leave owners alone; an ordinary user's run doesn't try"}
		}
	}
	return hint.Notice{}
}

// foreign: an overlay can't copy what belongs to somebody whom the user namespace hasn't.
func foreign(p *Plan, _ *config.Resolved, text string) hint.Notice {
	f := &p.policy.Filesystem
	if p.Namespaces&unix.CLONE_NEWUSER == 0 || f.Workdir != "overlay" && len(f.Overlay) == 0 || !strings.Contains(strings.ToLower(text), "value too large for defined data type") {
		return hint.Notice{}
	}
	return hint.Notice{Text: "what belongs to another user or group than your own can't be changed in an overlay, nor in a directory that does",
		Remedy: "confine explain --path FILE --access write names it; --workdir rw or --allow-write takes the file as it is, and its permissions count"}
}

// ownSandbox: a browser begins with a sandbox of its own making, for which there are no namespaces in ours. Chromium itself recommends a set-uid program then.
func ownSandbox(_ *Plan, _ *config.Resolved, text string) hint.Notice {
	if !strings.Contains(text, "No usable sandbox!") {
		return hint.Notice{}
	}
	return hint.Notice{Text: "the program's own sandbox takes namespaces, and there are none inside", Remedy: "with the argument --no-sandbox it goes on without: this run confines it"}
}

// heaps are what the engine of Node.js and the JVM say when what they take for theirs is used up.
var heaps = [...]string{"JavaScript heap out of memory", "java.lang.OutOfMemoryError: Java heap space"}

// heapFull: a heap of a size that was taken from the limit on memory, which the run's cgroup shows.
func heapFull(p *Plan, _ *config.Resolved, text string) hint.Notice {
	if p.Held.Memory == 0 || !slices.ContainsFunc(heaps[:], func(words string) bool { return strings.Contains(text, words) }) {
		return hint.Notice{}
	}
	return hint.Notice{Text: "a heap was full: its size follows the memory limit of " + config.FormatSize(p.Held.Memory) + ", unless the command sets another", Remedy: "--memory-limit sets another"}
}

// maxUnshown bounds how many names of a text are looked at.
const maxUnshown = 32

// unshown finds the last name in a text of the target's of something that exists, isn't shown
// inside and could well be, and the option that shows it; or nothing. As the target can write any
// name to have it recommended, see harmless.
func (p *Plan) unshown(r *config.Resolved, text string) hint.Notice {
	names, asked := p.namesIn(text), p.namesIn(strings.Join(p.command.Argv, " "))
	for i := len(names) - 1; i >= max(0, len(names)-maxUnshown); i-- {
		if name := hardware(names[i]); p.harmless(name, slices.Contains(asked, name)) && p.showable(r, name) {
			return notShown(name)
		}
	}
	return hint.Notice{}
}

// hardware is the directory of all processors, or of all nodes of memory, for a file of one; else the name itself.
func hardware(name string) string {
	if below, ok := strings.CutPrefix(name, ofHardware); ok {
		kind, _, _ := strings.Cut(below, "/")
		return ofHardware + kind
	}
	return name
}

const ofHardware = "/sys/devices/system/"

func notShown(name string) hint.Notice {
	return hint.Notice{Text: strconv.Quote(name) + " exists and is not shown inside", Remedy: "--allow-read " + shell.Word(name)}
}

// unshownVariables names the places that variables lead to, which reach the target while what they
// name doesn't.
func (p *Plan) unshownVariables(r *config.Resolved, _ string) hint.Notice {
	var said, hints []string
	home := path.Clean(p.command.env("HOME"))
	for _, e := range p.Exec.Env {
		variable, value, _ := strings.Cut(e, "=")
		if !config.Passes(places[:], variable) {
			continue
		}
		for _, name := range filepath.SplitList(value) {
			partly := slices.ContainsFunc(p.Rules, func(rule view.Rule) bool { return strings.HasPrefix(rule.Path, name+"/") })
			if slices.Contains(p.table.Told, name) || partly || !path.IsAbs(name) || names.TooBroad(name, home) || p.secret(name) || !p.showable(r, name) {
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
func (p *Plan) showable(r *config.Resolved, name string) bool {
	if f := &p.policy.Filesystem; f.Rootfs != "" || f.Virtual {
		return false
	}
	if real, err := filepath.EvalSymlinks(name); err != nil || real != name {
		return false
	}
	a, err := p.Ask(r, config.Ask{Kind: config.AskPath, Word: name})
	if err != nil || a.Answer != config.AnswerNo || a.Reason != string(explain.Hidden) || a.Hint != "--allow-read "+shell.Word(name) || a.Origin == view.FromSecrets {
		return false
	}
	policy, command := *p.policy, *p.command
	policy.Filesystem.AllowRead = append(slices.Clone(policy.Filesystem.AllowRead), name)
	other := newPlanner(&policy, &command, p.tier, downgrade{})
	files := fileCompiler{other}
	for _, part := range []func() error{other.identity, files.compile} {
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
// caller's own, or lie in the home directory, or be for every user of the host below /etc, /var,
// /opt or where /sys tells of processors; what is others' may lie in no tree of work. A directory that isn't for every user is recommended
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
	processors := strings.HasPrefix(name, ofHardware)
	if !ofSystem && strings.Contains(below, "/.") || strings.HasPrefix(name, "/run/") || names.TooBroad(name, home) && !processors || secrets.HidesInEtc(name) {
		return false
	}
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return false
	}
	ofSystem, public := ofSystem || processors, forAll(name, info)
	stat, ok := info.Sys().(*syscall.Stat_t)
	own := ok && int(stat.Uid) == os.Geteuid() && (inHome || stat.Uid != 0 || public)
	switch {
	case info.IsDir() && !asked && !(ofSystem && public):
		return false
	case own:
	case !inHome && !(ofSystem && public), config.NamesOf(p.policy, p.command.Dir, p.command.ConfigFiles, p.command.env).InWork(name):
		return false
	}
	return !p.secret(name)
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
