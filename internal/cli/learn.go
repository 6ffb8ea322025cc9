package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// learnRun is one call of "confine learn".
type learnRun struct {
	*session
	argv     []string
	settings []config.Setting // of the run
	dir      string           // current, as given

	name, out, merge  string
	overwrite         bool
	old, oldCompanion string // the text of the files that are merged with
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
	l := &learnRun{session: s, argv: line.Rest}
	if err := l.readOptions(line); err != nil {
		return rcUsage, err
	}
	if err := l.chooseName(); err != nil {
		return rcUsage, err
	}
	r, err := l.permissive()
	if err != nil {
		return rcUsage, err
	}
	profile, companion, err := l.openOutputs(r)
	if err != nil {
		return rcUsage, err
	}
	defer profile.Close()
	defer companion.Close()
	return l.execute(r, profile, companion), nil
}

// readOptions separates what is about the profile from the settings of the run.
func (l *learnRun) readOptions(line *Line) (err error) {
	l.out, _ = line.last("output")
	l.name, _ = line.last("name")
	l.merge, _ = line.last("merge")
	if l.overwrite, err = line.on("overwrite"); err != nil {
		return err
	}
	for _, set := range line.Settings {
		word := set.Values[0]
		switch set.Option {
		case "output", "name", "merge", "overwrite":
			continue
		case "profile", "level":
			if word != "strict" {
				return &config.UsageError{Msg: "learn: --" + set.Option + " " + word + ": what is learned starts from the profile \"strict\"", Hint: "leave it away; other options narrow what the command may do meanwhile"}
			}
			continue
		case "seccomp", "isolation", "user", "rootfs", "virtual-fs":
			return &config.UsageError{Msg: "learn: --" + set.Option + " can't be learned with", Hint: "leave it away, and add it to the profile"}
		case "allow-network":
			if word == "all" {
				return &config.UsageError{Msg: "learn: --allow-network all: nobody would see whom the command reaches", Hint: "leave it away: any host can be reached, by way of the gateway"}
			}
		}
		l.settings = append(l.settings, set)
	}
	return nil
}

// chooseName finds the profile's name and its file, and reads what is merged with.
func (l *learnRun) chooseName() error {
	if l.merge != "" {
		if err := l.readOlder(); err != nil {
			return err
		}
	}
	l.name = cmp.Or(l.name, nameFor(l.argv))
	if nameFor([]string{l.name}) != l.name {
		return &config.UsageError{Msg: "--name " + strconv.Quote(l.name) + ": it can't be the name of a new profile", Hint: "letters, digits, \"-\" and \"_\", and none that ships: " + strings.Join(config.Profiles(), ", ")}
	}
	l.out = cmp.Or(l.out, l.name+learnedSuffix)
	return nil
}

// readOlder reads the profile of --merge, and the policy of system calls that it uses. Another of that name is
// not ours, and nothing of it is taken over.
func (l *learnRun) readOlder() error {
	refuse := func(why string, err error) error {
		return &config.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + why + err.Error(), Hint: "name a file that \"confine learn\" has written", Err: err}
	}
	text, err := config.ReadFile(l.merge, false) // it will be written to: a link is not followed
	if err != nil {
		return refuse("", err)
	}
	l.old = string(text)
	if l.older, err = learn.ReadOlder(l.old); err != nil {
		return refuse("", err)
	}
	if l.name != "" && l.name != l.older.Name {
		return &config.UsageError{Msg: "--name " + l.name + ": the profile of --merge is called " + strconv.Quote(l.older.Name), Hint: "leave --name away"}
	}
	l.name = l.older.Name
	l.out = cmp.Or(l.out, l.merge)
	file := l.companion(l.merge)
	abs, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if !l.older.NamesCalls(l.name+companionSuffix) && !l.older.NamesCalls(abs) {
		if _, err := os.Lstat(file); err == nil && !l.overwrite {
			return &config.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + strconv.Quote(file) + " is there, and the profile doesn't use it: somebody else may have made it", Hint: "remove it, or replace it with --overwrite"}
		}
		return nil
	}
	if text, err = config.ReadFile(file, false); err != nil && !errors.Is(err, os.ErrNotExist) {
		return refuse("its policy of system calls: ", err)
	}
	l.oldCompanion = string(text)
	return nil
}

// companion is the file with the policy of system calls that belongs to a profile's file.
func (l *learnRun) companion(profile string) string {
	return filepath.Join(filepath.Dir(profile), l.name+companionSuffix)
}

// nameFor is a profile's name for a command.
func nameFor(argv []string) string {
	name := strings.Trim(strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) || c == '_' {
			return c
		}
		return '-'
	}, filepath.Base(argv[0])), "-")
	if name == "" || name == "none" {
		name = "learned"
	}
	if slices.Contains(config.Profiles(), name) {
		return "learned-" + name
	}
	return name
}

// openOutputs opens where the profile and its companion go.
func (l *learnRun) openOutputs(r *config.Resolved) (profile, companion *outputs.Sink, err error) {
	beside := l.companion(l.out)
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
		return nil, nil, &config.UsageError{Msg: "--output " + l.out + ": it has to be a file: a policy of system calls may have to stand beside it"}
	}
	if companion, err = outputs.OpenWhole("--output", beside, l.realDir(r)); err != nil {
		profile.Close()
	}
	return profile, companion, err
}

// mergedWith says whether a file is read to be written again.
func (l *learnRun) mergedWith(name string) bool {
	name = filepath.Clean(name)
	return l.merge != "" && (name == filepath.Clean(l.merge) || name == l.companion(l.merge))
}

// execute runs the command, and writes what was learned.
func (l *learnRun) execute(r *config.Resolved, profile, companion *outputs.Sink) int {
	l.log.notice("learning: " + l.conditions(r))
	again := l.commandLine()
	rc, report := l.runWith(r, l.argv, func(io *RunIO) {
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
		return l.notWatched(report)
	}
	l.addReport(report)
	err := l.dropHidden(r)
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
		l.log.advise("learn: INCOMPLETE: "+l.whyIncomplete(), "look at the head of "+l.out+"; another run with --merge "+shell.Word(l.out)+" adds what this one lacks")
	}
	l.log.advise("learned: "+l.out, "read it, then: confine --config "+shell.Word(l.out)+" -- "+again)
	return rc
}

// commandLine is the command as it can be pasted; the profile gets it, too.
func (l *learnRun) commandLine() string {
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

// notWatched ends a run that could not be watched.
func (l *learnRun) notWatched(report *status.Report) int {
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

// whyIncomplete says what the profile may lack.
func (l *learnRun) whyIncomplete() string {
	if l.seen.Ended != "" {
		return "the command " + l.seen.Ended
	}
	if len(l.seen.Unwritten) > 0 {
		return "what the command would have done after its writes to " + terminal.Visible(l.seen.Unwritten[0]) + " is not known"
	}
	return fmt.Sprintf("%d accesses could not be kept, %d could not be looked at", l.seen.Lost, l.seen.Unseen)
}

// permissive is what the command runs under while it is learned from.
func (l *learnRun) permissive() (*config.Resolved, error) {
	return l.resolveWith(append([]config.Setting{{Option: "profile", Values: []string{"strict"}}}, l.settings...), l.liftAll)
}

// liftAll takes away what isn't to hold meanwhile.
func (l *learnRun) liftAll(r *config.Resolved) {
	l.dir = l.sources(nil).Dir
	project, home := resolvePath(l.dir), resolvePath(l.env("HOME"))
	if learn.Project(home, "") == "" && !(home == "/root" && learn.Owned(home)) || r.Policy.Filesystem.EphemeralHome {
		home = ""
	}
	reads, overlays := tempOverlays(resolvePath("/tmp"), project, home)
	if dir := resolvePath("/var/tmp"); learn.Writable(dir) {
		more, over := tempOverlays(dir, project, home)
		reads, overlays = append(reads, more...), append(overlays, over...)
	}
	if home != "" {
		overlays = append(overlays, home)
	}
	r.Permissive(reads, overlays)
}

// tempOverlays says how what was in a directory for temporary files before is shown: as an
// overlay of it all. Where the project or the home directory lies in it, only what these
// lie in is shown: an overlay in an overlay is one with that, and can't take over
// directories on the way that are another user's.
func tempOverlays(temp string, inner ...string) (reads, overlays []string) {
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
func (l *learnRun) conditions(r *config.Resolved) string {
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
func (l *learnRun) access(a files.Access) {
	if a.Wish == "create" && !a.Exists && !a.InPlace && !a.Unknown {
		return // there is nothing that it could be made in: the kernel refuses
	}
	l.recorder.Add(learn.Access{
		Path: a.Path, Op: learn.Op(a.Wish), Comm: a.Comm, Exists: a.Exists, Unknown: a.Unknown, Relative: a.Relative,
		ReadOnly: a.ReadOnly,
		Replaces: a.Wish == "create" && strings.HasPrefix(a.Call, "rename"),
	})
}

func (l *learnRun) passed(all []denials.Denial, others int64) {
	for i := range all {
		name, _, _ := strings.Cut(all[i].What, "(")
		l.seen.Calls = append(l.seen.Calls, learn.Call{Name: name, What: all[i].What, Args: all[i].Call.Args, Comm: all[i].By.Comm})
	}
	l.seen.OtherCalls += others
}

// addReport adds what the report says to what was seen.
func (l *learnRun) addReport(r *status.Report) {
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

// dropHidden takes out what the rules that were said for the run hid: to have asked for it is
// no reason to grant it.
func (l *learnRun) dropHidden(r *config.Resolved) error {
	if len(r.Policy.Filesystem.Deny) == 0 {
		return nil
	}
	plan, err := l.engine.Explain(l.ctx, r, l.argv)
	if err != nil {
		return err
	}
	var kept []learn.Access
	for _, a := range l.seen.Accesses {
		if answer := askPath(plan, a.Path, a.Op); answer.Answer == config.AnswerNo && answer.Reason == "hidden" && answer.Denied() {
			l.seen.Denied = append(l.seen.Denied, a)
		} else {
			kept = append(kept, a)
		}
	}
	l.seen.Accesses = kept
	return nil
}

// world is where it all took place, and what strict gives there by itself.
func (l *learnRun) world() (*learn.World, error) {
	home := resolvePath(l.env("HOME"))
	host := learn.Real()
	w := &learn.World{
		Dir: learn.Project(resolvePath(l.dir), home), Home: home, Out: resolvePath(filepath.Dir(l.out)),
		Host: host, Secret: learn.Secrets(host, home), Readable: learn.Readable, Writable: learn.Writable,
	}
	for _, dir := range filepath.SplitList(l.env("PATH")) {
		if filepath.IsAbs(dir) {
			w.Path = append(w.Path, resolvePath(dir))
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		w.Temp = append(w.Temp, resolvePath(dir))
	}
	src := l.sources(append([]config.Setting{{Option: "profile", Values: []string{"strict"}}}, l.settingsOf("env", "keep-env")...))
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
		a := askPath(plan, p, wish)
		return learn.Given{Yes: a.Answer != config.AnswerNo, Private: a.Private()}
	}
	return w, nil
}

// askPath asks a plan about a wish, as explain does. What can't be asked about is not allowed.
func askPath(plan *Explanation, p string, wish learn.Op) config.Answer {
	access := "read"
	switch wish {
	case learn.Write, learn.Create, learn.Exec:
		access = string(wish)
	}
	a, err := plan.Ask(config.Ask{Kind: config.AskPath, Word: p, Access: access})
	if err != nil {
		return config.Answer{Answer: config.AnswerNo}
	}
	return a
}

// settingsOf are the settings of some options.
func (l *learnRun) settingsOf(options ...string) (list []config.Setting) {
	for _, set := range l.settings {
		if slices.Contains(options, set.Option) {
			list = append(list, set)
		}
	}
	return list
}

// extra is what was said for the run and holds for the profile, too.
func (l *learnRun) extra() (e learn.Extra) {
	for _, set := range l.settingsOf("deny") {
		word := set.Values[0]
		if !filepath.IsAbs(word) && !strings.HasPrefix(word, "~") && word != "secrets" && word != "none" && strings.Contains(word, "/") {
			word = filepath.Join(l.dir, word) // relative to the profile's file otherwise
		}
		e.Deny = append(e.Deny, word)
	}
	for _, set := range l.settingsOf("deny-network") {
		e.DenyNetwork = append(e.DenyNetwork, strings.Split(set.Values[0], ",")...)
	}
	for _, set := range l.settingsOf("env") {
		if word := set.Values[0]; strings.Contains(word, "=") {
			e.Set = append(e.Set, word)
		} else {
			e.Pass = append(e.Pass, word)
		}
	}
	return e
}

func resolvePath(name string) string {
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
func (l *learnRun) write(profile, companion *outputs.Sink) error {
	w, err := l.world()
	if err != nil {
		return err
	}
	l.seen.AllowSaid, l.seen.DenySaid = len(l.settingsOf("allow-network")) > 0, len(l.settingsOf("deny-network")) > 0
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
func (l *learnRun) text(p *learn.Profile) (string, error) {
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
func (l *learnRun) check(p *learn.Profile, w *learn.World, text string) (notes []string, err error) {
	src := l.sources([]config.Setting{{Option: "config", Values: []string{l.out}}})
	src.Environ, src.Config = nil, []byte(text)
	r, err := config.Resolve(src)
	if err != nil {
		return nil, err
	}
	r.Protected = slices.DeleteFunc(r.Protected, func(name string) bool {
		_, err := os.Lstat(name)
		return err != nil && (name == resolvePath(l.out) || name == r.Policy.Seccomp)
	})
	r.Policy.Seccomp = "strict" // its companion isn't there yet
	plan, err := l.engine.Explain(l.ctx, r, l.argv)
	if err != nil {
		return nil, err
	}
	for _, a := range learn.Check(&l.seen, w, func(name string, wish learn.Op) bool {
		return askPath(plan, name, wish).Answer != config.AnswerNo
	}) {
		notes = append(notes, p.Missing(&a))
	}
	return notes, nil
}
