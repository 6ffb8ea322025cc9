package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/confine/learn"
	"github.com/confine-run/confine/status"
)

// permissive is what the command runs under while it is learned from.
func (l *lesson) permissive() (*confine.Resolved, error) {
	return l.resolveWith(append([]confine.Setting{{Option: "profile", Values: []string{"strict"}}}, l.told...), l.lift)
}

// lift takes away what isn't to hold meanwhile.
func (l *lesson) lift(r *confine.Resolved) {
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
func (l *lesson) conditions(r *confine.Resolved) string {
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
func (l *lesson) access(a confine.Access) {
	if a.Wish == "create" && !a.Exists && !a.InPlace && !a.Unknown {
		return // there is nothing that it could be made in: the kernel refuses
	}
	l.recorder.Add(learn.Access{
		Path: a.Path, Wish: learn.Wish(a.Wish), Comm: a.Comm, Exists: a.Exists, IsDir: a.IsDir, Unknown: a.Unknown, Relative: a.Relative,
		ReadOnly: a.ReadOnly,
		Replaces: a.Wish == "create" && strings.HasPrefix(a.Call, "rename"),
	})
}

func (l *lesson) passed(all []confine.PassedCall, others int64) {
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
func (l *lesson) denied(r *confine.Resolved) error {
	if len(r.Policy.Filesystem.Deny) == 0 {
		return nil
	}
	ask, err := l.engine.Asker(l.ctx, r, l.argv)
	if err != nil {
		return err
	}
	var kept []learn.Access
	for _, a := range l.seen.Accesses {
		answer, err := ask(question(a.Path, a.Wish))
		if err == nil && answer.Answer == confine.AnswerNo && answer.Reason == "hidden" && strings.HasPrefix(answer.Rule, "--deny") {
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
	src := l.sources(append([]confine.Setting{{Option: "profile", Values: []string{"strict"}}}, l.about("env", "keep-env")...))
	src.Dir, src.Environ = "", nil // the project's file doesn't count beside --config
	strict, err := confine.Resolve(src)
	if err != nil {
		return nil, err
	}
	if e, err := l.engine.Explain(l.ctx, strict, l.argv); err != nil {
		return nil, err
	} else if strings.HasPrefix(e.Enforced[status.Memory].Mechanism, "cgroup") {
		l.seen.Mapped = 0 // no other bound is behind that
	}
	ask, err := l.engine.Asker(l.ctx, strict, l.argv)
	if err != nil {
		return nil, err
	}
	w.Base = func(p string, wish learn.Wish) learn.Given {
		a, err := ask(question(p, wish))
		if err != nil {
			return learn.Given{}
		}
		private := strings.HasPrefix(a.Rule, "temporary files") || strings.HasPrefix(a.Rule, "home directory")
		return learn.Given{Yes: a.Answer != confine.AnswerNo, Private: private}
	}
	return w, nil
}

// question asks about a wish in the words of explain.
func question(p string, wish learn.Wish) confine.Ask {
	access := "read"
	switch wish {
	case learn.Write, learn.Create, learn.Exec:
		access = string(wish)
	}
	return confine.Ask{Kind: confine.AskPath, Word: p, Access: access}
}

// about are the settings of some options.
func (l *lesson) about(options ...string) (list []confine.Setting) {
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
func (l *lesson) write(profile, companion *sink) error {
	w, err := l.world()
	if err != nil {
		return err
	}
	l.seen.AllowSaid, l.seen.DenySaid = len(l.about("allow-network")) > 0, len(l.about("deny-network")) > 0
	l.seen.Beside.Hosts, l.seen.Beside.Companion = learn.NamesHosts(l.old), strings.TrimSpace(l.oldCompanion) != ""
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
		if err := companion.put([]byte(learn.MergeCompanion(l.oldCompanion, p.Companion))); err != nil {
			return err
		}
	}
	if len(p.Widened) > 0 {
		l.log.notice("learn: widened in " + l.merge + ": " + strings.Join(p.Widened, ", "))
	}
	return profile.put([]byte(text))
}

// text is the profile, or the file that it is merged with.
func (l *lesson) text(p *learn.Profile) (string, error) {
	if l.old == "" {
		return p.TOML(), nil
	}
	text, err := p.Merge(l.old)
	if err != nil {
		return "", &confine.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + err.Error(), Hint: "write to another file with --output, and bring the two together by hand"}
	}
	return text, nil
}

// check asks the finished profile for all that it was made of.
func (l *lesson) check(p *learn.Profile, w *learn.World, text string) (notes []string, err error) {
	src := l.sources([]confine.Setting{{Option: "config", Values: []string{l.out}}})
	src.Environ, src.Config = nil, []byte(text)
	r, err := confine.Resolve(src)
	if err != nil {
		return nil, err
	}
	r.Protected = slices.DeleteFunc(r.Protected, func(name string) bool {
		_, err := os.Lstat(name)
		return err != nil && (name == real(l.out) || name == r.Policy.Seccomp)
	})
	r.Policy.Seccomp = "strict" // its companion isn't there yet
	ask, err := l.engine.Asker(l.ctx, r, l.argv)
	if err != nil {
		return nil, err
	}
	for _, a := range learn.Check(&l.seen, w, func(name string, wish learn.Wish) bool {
		answer, err := ask(question(name, wish))
		return err == nil && answer.Answer != confine.AnswerNo
	}) {
		notes = append(notes, p.Missing(&a))
	}
	return notes, nil
}
