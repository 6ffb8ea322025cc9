package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/learn"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Names of what is written.
const (
	learnedSuffix   = ".confine.toml"
	companionSuffix = ".seccomp.toml"
)

// lesson is one call of "confine learn".
type lesson struct {
	*session
	argv []string
	told []config.Setting // options of the run
	dir  string           // current, as given

	name, out, merge  string
	overwrite         bool
	old, oldCompanion string // what is merged with
	older             learn.Older

	recorder learn.Recorder
	seen     learn.Seen
	blind    error // why nothing could be seen
}

// learnCommand runs a command, watches it, and writes the profile that just allows what it did.
func learnCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) == 0 {
		return rcUsage, &config.UsageError{Msg: "learn: no command\nusage: confine learn [options] " + commandArgs}
	}
	s.early(line.Settings)
	l := &lesson{session: s, argv: line.Rest}
	if err := l.options(line.Settings); err != nil {
		return rcUsage, err
	}
	r, err := l.permissive()
	if err != nil {
		return rcUsage, err
	}
	profile, companion, err := l.places(r)
	if err != nil {
		return rcUsage, err
	}
	defer profile.Close()
	defer companion.Close()
	return l.take(r, profile, companion), nil
}

// options takes out what is about the profile.
func (l *lesson) options(settings []config.Setting) (err error) {
	for _, set := range settings {
		word := set.Values[0]
		switch set.Option {
		case "output":
			l.out = word
		case "name":
			l.name = word
		case "merge":
			l.merge = word
		case "overwrite":
			if l.overwrite, err = strconv.ParseBool(word); err != nil {
				return &config.UsageError{Msg: "--overwrite: " + strconv.Quote(word) + ` is neither "true" nor "false"`}
			}
		case "profile", "level":
			if word != "strict" {
				return &config.UsageError{Msg: "learn: --" + set.Option + " " + word + ": what is learned starts from the profile \"strict\"", Hint: "leave it away; other options narrow what the command may do meanwhile"}
			}
		case "seccomp", "isolation", "user", "rootfs", "virtual-fs":
			return &config.UsageError{Msg: "learn: --" + set.Option + " can't be learned with", Hint: "leave it away, and add it to the profile"}
		case "allow-network":
			if word == "all" {
				return &config.UsageError{Msg: "learn: --allow-network all: nobody would see whom the command reaches", Hint: "leave it away: any host can be reached, by way of the gateway"}
			}
			l.told = append(l.told, set)
		default:
			l.told = append(l.told, set)
		}
	}
	return l.named()
}

// named finds the name, and reads what is merged with.
func (l *lesson) named() error {
	if l.merge != "" {
		text, err := readWhole(l.merge)
		if err != nil {
			return &config.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + err.Error(), Hint: "name a file that \"confine learn\" has written", Err: err}
		}
		if l.older, err = learn.ReadOlder(text); err != nil {
			return &config.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + err.Error(), Hint: "name a file that \"confine learn\" has written"}
		}
		if l.name != "" && l.name != l.older.Name {
			return &config.UsageError{Msg: "--name " + l.name + ": the profile of --merge is called " + strconv.Quote(l.older.Name), Hint: "leave --name away"}
		}
		l.name, l.old = l.older.Name, text
		if l.out == "" {
			l.out = l.merge
		}
		if err := l.readCompanion(l.name); err != nil {
			return err
		}
	}
	if l.name == "" {
		l.name = nameFor(l.argv[0])
	}
	if nameFor(l.name) != l.name {
		return &config.UsageError{Msg: "--name " + strconv.Quote(l.name) + ": it can't be the name of a new profile", Hint: "letters, digits, \"-\" and \"_\", and none that ships: " + strings.Join(config.Profiles(), ", ")}
	}
	if l.out == "" {
		l.out = l.name + learnedSuffix
	}
	return nil
}

// readCompanion reads the policy of system calls that is merged with: the one that the
// profile goes by. Another of that name is not ours, and nothing of it is taken over.
func (l *lesson) readCompanion(name string) (err error) {
	file := filepath.Join(filepath.Dir(l.merge), name+companionSuffix)
	abs, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if !l.older.NamesCalls(name+companionSuffix) && !l.older.NamesCalls(abs) {
		if _, err := os.Lstat(file); err == nil && !l.overwrite {
			return &config.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + strconv.Quote(file) + " is there, and the profile doesn't use it: somebody else may have made it", Hint: "remove it, or replace it with --overwrite"}
		}
		return nil
	}
	l.oldCompanion, err = readWhole(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return &config.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": its policy of system calls: " + err.Error(), Err: err}
	}
	return nil
}

// nameFor is a profile's name for a command.
func nameFor(command string) string {
	var b strings.Builder
	for _, c := range filepath.Base(command) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteRune(c)
		default:
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	if name == "" || name == "none" {
		name = "learned"
	}
	for _, taken := range config.Profiles() {
		if name == taken {
			return "learned-" + name
		}
	}
	return name
}

// readWhole reads a policy file. A link is not followed: it will be written to.
func readWhole(name string) (string, error) {
	const most = 1 << 20
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("not a regular file")
	case info.Size() > most:
		return "", errors.New("larger than 1 MiB")
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// places opens where the profile and its companion go.
func (l *lesson) places(r *config.Resolved) (profile, companion *outputs.Sink, err error) {
	beside := filepath.Join(filepath.Dir(l.out), l.name+companionSuffix)
	for _, name := range []string{l.out, beside} {
		if _, err := os.Lstat(name); err == nil && !l.overwrite && !l.mergedWith(name) {
			hint := "--merge " + l.out + " adds to it, --overwrite replaces it; or name another with --output"
			if l.merge != "" {
				hint = "without --output, the file of --merge is written; --overwrite replaces this one"
			}
			return nil, nil, &config.UsageError{Msg: "--output " + strconv.Quote(name) + ": is there already", Hint: hint}
		}
	}
	if profile, err = outputs.OpenWhole("--output", l.out, l.realDir(r)); err != nil {
		return nil, nil, err
	}
	if !profile.IsFile() {
		profile.Close()
		return nil, nil, &config.UsageError{Msg: "--output " + l.out + ": it has to be a file: a policy of system calls may have to stand beside it"}
	}
	if companion, err = outputs.OpenWhole("--output", beside, l.realDir(r)); err != nil {
		profile.Close()
	}
	return profile, companion, err
}

// mergedWith says whether a file is read to be written again.
func (l *lesson) mergedWith(name string) bool {
	name = filepath.Clean(name)
	return l.merge != "" && (name == filepath.Clean(l.merge) || name == filepath.Join(filepath.Dir(l.merge), l.name+companionSuffix))
}

// take runs the command, and writes what was learned.
func (l *lesson) take(r *config.Resolved, profile, companion *outputs.Sink) int {
	l.log.notice("learning: " + l.conditions(r))
	again := l.again()
	rc, report := l.watched(r, l.argv, func(io *RunIO) {
		io.Accesses, io.Passed = l.access, l.passed
		io.Peaks = func(p files.Peaks) { l.seen.Descriptors = p.Descriptors }
		io.Unseen = func(n int64, err error) { l.seen.Unseen, l.blind = n, err }
	})
	switch {
	case report == nil:
		return rc
	case report.Status == status.ExecFailed:
		l.log.failure(&config.UsageError{Msg: "learn: the command could not be started: nothing was learned, and nothing written"})
		return rc
	case report.Status == status.InternalError || l.blind != nil:
		return l.nothing(report)
	}
	l.used(report)
	err := l.denied(r)
	if err == nil {
		err = l.write(profile, companion)
	}
	if err != nil {
		l.log.failure(err)
		if rc == rcOK {
			rc = rcProblem
		}
		return rc
	}
	for _, dir := range l.seen.Unwritten {
		l.log.advise("learn: "+terminal.Visible(dir)+" could not be written to while learning, and can be with what was learned", "--overlay "+shell.Word(dir)+" lets the command write there, and throws that away")
	}
	if l.seen.Incomplete() {
		l.log.advise("learn: INCOMPLETE: "+l.lacking(), "look at the head of "+l.out+"; another run with --merge "+shell.Word(l.out)+" adds what this one lacks")
	}
	l.log.advise("learned: "+l.out, "read it, then: confine --config "+shell.Word(l.out)+" -- "+again)
	return rc
}

// again is the command as it can be pasted, and leaves it in what is learned.
func (l *lesson) again() string {
	const long = 300 // the most that the file's head holds
	line, ok := shell.Line(redact.Redact(l.argv))
	if l.seen.Command = line; !ok || len(line) > long {
		l.seen.Command = "a command whose arguments don't fit into a line of this file"
	}
	if !ok {
		return "COMMAND, as before: it has line breaks or other characters that can't be shown here"
	}
	return line
}

// nothing ends a run that could not be watched.
func (l *lesson) nothing(report *status.Report) int {
	err := &config.UsageError{Msg: "learn: nothing was learned, and nothing written"}
	unstarted := report.SetupError != nil // nobody listened because nothing came to run: why, was said
	switch {
	case unstarted:
		err.Msg += ", because the run could not be set up"
	case l.blind != nil:
		err.Msg += ": " + l.blind.Error()
	}
	if !unstarted && l.blind != nil || unstarted && report.SetupError.Op == "seccomp" {
		err.Hint = "it takes seccomp notification: \"confine doctor\" says whether this host has it, and a program above may have taken it"
	}
	l.log.failure(err)
	return rcUsage
}

// lacking says why it is incomplete.
func (l *lesson) lacking() string {
	if l.seen.Ended != "" {
		return "the command " + l.seen.Ended
	}
	if len(l.seen.Unwritten) > 0 {
		return "what the command would have done after its writes to " + terminal.Visible(l.seen.Unwritten[0]) + " is not known"
	}
	return fmt.Sprintf("%d accesses could not be kept, %d could not be looked at", l.seen.Lost, l.seen.Unseen)
}

// permissive is what the command runs under while it is learned from.
func (l *lesson) permissive() (*config.Resolved, error) {
	return l.resolveWith(append([]config.Setting{{Option: "profile", Values: []string{"strict"}}}, l.told...), l.lift)
}

// lift takes away what isn't to hold meanwhile.
func (l *lesson) lift(r *config.Resolved) {
	l.dir = l.sources(nil).Dir
	project, home := real(l.dir), real(l.env("HOME"))
	if learn.Project(home, "") == "" && !(home == "/root" && learn.Owned(home)) || r.Policy.Filesystem.EphemeralHome {
		home = ""
	}
	reads, overlays := besideTemp(real("/tmp"), project, home)
	if dir := real("/var/tmp"); learn.Writable(dir) {
		more, over := besideTemp(dir, project, home)
		reads, overlays = append(reads, more...), append(overlays, over...)
	}
	if home != "" {
		overlays = append(overlays, home)
	}
	r.Permissive(reads, overlays)
}

// besideTemp says how what was in a directory for temporary files before is shown: as an
// overlay of it all. Where the project or the home directory lies in it, only what these
// lie in is shown: an overlay in an overlay is one with that, and can't take over
// directories on the way that are another user's.
func besideTemp(temp string, inner ...string) (reads, overlays []string) {
	for _, dir := range inner {
		rest, below := strings.CutPrefix(dir, temp+"/")
		if !below {
			continue
		}
		first, _, _ := strings.Cut(rest, "/")
		top := filepath.Join(temp, first)
		switch {
		case slices.Contains(reads, top) || slices.Contains(overlays, top):
		case learn.Owned(top):
			overlays = append(overlays, top)
		default:
			reads = append(reads, top)
		}
	}
	if len(reads)+len(overlays) == 0 {
		overlays = append(overlays, temp)
	}
	return reads, overlays
}

// conditions says in a line what the command may do meanwhile.
func (l *lesson) conditions(r *config.Resolved) string {
	f := &r.Policy.Filesystem
	text := "the command sees whatever you may read"
	if len(f.Deny) > 0 {
		text += ", except what --deny names"
	}
	switch f.Workdir {
	case "rw":
		text += ", WRITES TO THE CURRENT DIRECTORY"
	case "overlay":
		text += ", writes to overlays"
		if !f.Keep {
			text += " that are thrown away"
		}
	}
	if len(f.AllowWrite) > 0 {
		text += ", WRITES TO " + strings.Join(f.AllowWrite, ", ")
	}
	if slices.Contains(r.Policy.Network.Allow, "*") {
		return text + ", and reaches any host"
	}
	return text + ", and reaches the hosts that were named"
}

// access keeps one. It is called by several goroutines, and its caller's callers wait.
func (l *lesson) access(a files.Access) {
	if a.Wish == "create" && !a.Exists && !a.InPlace && !a.Unknown {
		return // there is nothing that it could be made in: the kernel refuses
	}
	l.recorder.Add(learn.Access{
		Path: a.Path, Op: learn.Op(a.Wish), Comm: a.Comm, Exists: a.Exists, Unknown: a.Unknown, Relative: a.Relative,
		ReadOnly: a.ReadOnly,
		Replaces: a.Wish == "create" && strings.HasPrefix(a.Call, "rename"),
	})
}

func (l *lesson) passed(all []denials.Denial, others int64) {
	for i := range all {
		name, _, _ := strings.Cut(all[i].What, "(")
		l.seen.Calls = append(l.seen.Calls, learn.Call{Name: name, What: all[i].What, Args: all[i].Call.Args, Comm: all[i].By.Comm})
	}
	l.seen.OtherCalls += others
}

// used takes over what the report says.
func (l *lesson) used(r *status.Report) {
	s := &l.seen
	s.Accesses, s.Lost = l.recorder.Accesses()
	s.Usage, s.Wall = r.Usage, time.Duration(r.DurationMS)*time.Millisecond
	s.Output = max(r.Bytes.Stdout, r.Bytes.Stderr)
	s.Written = r.Usage.WriteBytes
	if r.Changes != nil {
		s.Written = max(s.Written, r.Changes.Bytes)
	}
	if r.Network != nil {
		s.Attempts, s.OtherAttempts = r.Network.Attempts, r.Network.Others
	}
	for _, v := range r.Violations {
		if v.Kind == "syscall" {
			s.Calls = append(s.Calls, learn.Call{What: v.What, Comm: v.Comm, Refused: true})
		}
	}
	switch {
	case r.ExitCode != nil && *r.ExitCode != 0:
		s.Ended = "exited with " + strconv.Itoa(*r.ExitCode)
	case r.Status != status.OK:
		s.Ended = "ended with " + string(r.Status)
	}
}

// denied takes out what the rules that were said for the run hid: to have asked for it is
// no reason to grant it.
func (l *lesson) denied(r *config.Resolved) error {
	if len(r.Policy.Filesystem.Deny) == 0 {
		return nil
	}
	plan, err := l.engine.Explain(l.ctx, r, l.argv)
	if err != nil {
		return err
	}
	var kept []learn.Access
	for _, a := range l.seen.Accesses {
		answer, err := plan.Ask(question(a.Path, a.Op))
		if err == nil && answer.Answer == config.AnswerNo && answer.Reason == "hidden" && answer.Denied() {
			l.seen.Denied = append(l.seen.Denied, a)
		} else {
			kept = append(kept, a)
		}
	}
	l.seen.Accesses = kept
	return nil
}

// world is where it all took place, and what strict gives there by itself.
func (l *lesson) world() (*learn.World, error) {
	home := real(l.env("HOME"))
	host := learn.Real()
	w := &learn.World{
		Dir: learn.Project(real(l.dir), home), Home: home, Out: real(filepath.Dir(l.out)),
		Host: host, Secret: learn.Secrets(host, home), Readable: learn.Readable, Writable: learn.Writable,
	}
	for _, dir := range filepath.SplitList(l.env("PATH")) {
		if filepath.IsAbs(dir) {
			w.Path = append(w.Path, real(dir))
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		w.Temp = append(w.Temp, real(dir))
	}
	src := l.sources(append([]config.Setting{{Option: "profile", Values: []string{"strict"}}}, l.about("env", "keep-env")...))
	src.Dir, src.Environ = "", nil // the project's file doesn't count beside --config
	strict, err := config.Resolve(src)
	if err != nil {
		return nil, err
	}
	plan, err := l.engine.Explain(l.ctx, strict, l.argv)
	if err != nil {
		return nil, err
	}
	w.Base = func(p string, wish learn.Op) learn.Given {
		a, err := plan.Ask(question(p, wish))
		if err != nil {
			return learn.Given{}
		}
		return learn.Given{Yes: a.Answer != config.AnswerNo, Private: a.Private()}
	}
	return w, nil
}

// question asks about a wish in the words of explain.
func question(p string, wish learn.Op) config.Ask {
	access := "read"
	switch wish {
	case learn.Write, learn.Create, learn.Exec:
		access = string(wish)
	}
	return config.Ask{Kind: config.AskPath, Word: p, Access: access}
}

// about are the settings of some options.
func (l *lesson) about(options ...string) (list []config.Setting) {
	for _, set := range l.told {
		if slices.Contains(options, set.Option) {
			list = append(list, set)
		}
	}
	return list
}

// extra is what was said for the run and holds for the profile, too.
func (l *lesson) extra() (e learn.Extra) {
	for _, set := range l.about("deny") {
		word := set.Values[0]
		if !filepath.IsAbs(word) && !strings.HasPrefix(word, "~") && word != "secrets" && word != "none" && strings.Contains(word, "/") {
			word = filepath.Join(l.dir, word) // relative to the profile's file otherwise
		}
		e.Deny = append(e.Deny, word)
	}
	for _, set := range l.about("deny-network") {
		e.DenyNetwork = append(e.DenyNetwork, strings.Split(set.Values[0], ",")...)
	}
	for _, set := range l.about("env") {
		if word := set.Values[0]; strings.Contains(word, "=") {
			e.Set = append(e.Set, word)
		} else {
			e.Pass = append(e.Pass, word)
		}
	}
	return e
}

func real(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil || name == "" {
		return ""
	}
	if at, err := filepath.EvalSymlinks(abs); err == nil {
		return at
	}
	return abs
}

// write makes the profile, asks it for what was seen, and writes it.
func (l *lesson) write(profile, companion *outputs.Sink) error {
	w, err := l.world()
	if err != nil {
		return err
	}
	l.seen.AllowSaid, l.seen.DenySaid = len(l.about("allow-network")) > 0, len(l.about("deny-network")) > 0
	l.seen.Beside.Hosts, l.seen.Beside.Companion = l.older.Hosts, strings.TrimSpace(l.oldCompanion) != ""
	p := learn.Make(&l.seen, w, l.name, l.name+companionSuffix, l.extra())
	text, err := l.text(p)
	if err != nil {
		return err
	}
	notes, err := l.check(p, w, text)
	if err != nil {
		return err
	}
	if len(notes) > 0 {
		p.Refused(notes...)
		if text, err = l.text(p); err != nil {
			return err
		}
	}
	if p.Companion != "" {
		if err := companion.Put([]byte(learn.MergeCompanion(l.oldCompanion, p.Companion))); err != nil {
			return err
		}
	}
	if len(p.Widened) > 0 {
		l.log.notice("learn: widened in " + l.merge + ": " + strings.Join(p.Widened, ", "))
	}
	return profile.Put([]byte(text))
}

// text is the profile, or the file that it is merged with.
func (l *lesson) text(p *learn.Profile) (string, error) {
	if l.old == "" {
		return p.TOML(), nil
	}
	text, err := p.Merge(l.old)
	if err != nil {
		return "", &config.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + err.Error(), Hint: "write to another file with --output, and bring the two together by hand"}
	}
	return text, nil
}

// check asks the finished profile for all that it was made of.
func (l *lesson) check(p *learn.Profile, w *learn.World, text string) (notes []string, err error) {
	src := l.sources([]config.Setting{{Option: "config", Values: []string{l.out}}})
	src.Environ, src.Config = nil, []byte(text)
	r, err := config.Resolve(src)
	if err != nil {
		return nil, err
	}
	r.Protected = slices.DeleteFunc(r.Protected, func(name string) bool {
		_, err := os.Lstat(name)
		return err != nil && (name == real(l.out) || name == r.Policy.Seccomp)
	})
	r.Policy.Seccomp = "strict" // its companion isn't there yet
	plan, err := l.engine.Explain(l.ctx, r, l.argv)
	if err != nil {
		return nil, err
	}
	for _, a := range learn.Check(&l.seen, w, func(name string, wish learn.Op) bool {
		answer, err := plan.Ask(question(name, wish))
		return err == nil && answer.Answer != config.AnswerNo
	}) {
		notes = append(notes, p.Missing(&a))
	}
	return notes, nil
}
