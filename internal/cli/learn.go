package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/confine/learn"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/status"
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
	told []confine.Setting // options of the run
	dir  string            // current, as given

	name, out, merge  string
	overwrite         bool
	old, oldCompanion string // what is merged with

	recorder learn.Recorder
	seen     learn.Seen
	blind    error // why nothing could be seen
}

// learn runs a command, watches it, and writes the profile that just allows what it did.
func (s *session) learn(args []string) int {
	line, err := Scan(lookup("learn").Takes, args)
	switch {
	case err != nil:
		s.early(line.Settings)
		return s.usage(err)
	case line.Help:
		return s.page("learn")
	case len(line.Rest) == 0:
		return s.usage(&confine.UsageError{Msg: "learn: no command\nusage: confine learn [options] " + commandArgs})
	}
	s.early(line.Settings)
	l := &lesson{session: s, argv: line.Rest}
	if err := l.options(line.Settings); err != nil {
		return s.usage(err)
	}
	r, err := l.permissive()
	if err != nil {
		return s.usage(err)
	}
	profile, companion, err := l.places()
	if err != nil {
		return s.usage(err)
	}
	defer profile.close()
	defer companion.close()
	return l.take(r, profile, companion)
}

// options takes out what is about the profile.
func (l *lesson) options(settings []confine.Setting) (err error) {
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
				return &confine.UsageError{Msg: "--overwrite: " + strconv.Quote(word) + ` is neither "true" nor "false"`}
			}
		case "profile", "level":
			if word != "strict" {
				return &confine.UsageError{Msg: "learn: --" + set.Option + " " + word + ": what is learned starts from the profile \"strict\"", Hint: "leave it away; other options narrow what the command may do meanwhile"}
			}
		case "seccomp", "isolation", "user", "rootfs", "virtual-fs":
			return &confine.UsageError{Msg: "learn: --" + set.Option + " can't be learned with", Hint: "leave it away, and add it to the profile"}
		case "allow-network":
			if word == "all" {
				return &confine.UsageError{Msg: "learn: --allow-network all: nobody would see whom the command reaches", Hint: "leave it away: any host can be reached, by way of the gateway"}
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
			return &confine.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + err.Error(), Hint: "name a file that \"confine learn\" has written", Err: err}
		}
		name, err := learn.ProfileIn(text)
		if err != nil {
			return &confine.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + err.Error(), Hint: "name a file that \"confine learn\" has written"}
		}
		if l.name != "" && l.name != name {
			return &confine.UsageError{Msg: "--name " + l.name + ": the profile of --merge is called " + strconv.Quote(name), Hint: "leave --name away"}
		}
		l.name, l.old = name, text
		if l.out == "" {
			l.out = l.merge
		}
		if err := l.readCompanion(name); err != nil {
			return err
		}
	}
	if l.name == "" {
		l.name = nameFor(l.argv[0])
	}
	if nameFor(l.name) != l.name {
		return &confine.UsageError{Msg: "--name " + strconv.Quote(l.name) + ": it can't be the name of a new profile", Hint: "letters, digits, \"-\" and \"_\", and none that ships: " + strings.Join(confine.Profiles(), ", ")}
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
	if !learn.NamesCalls(l.old, name+companionSuffix) && !learn.NamesCalls(l.old, abs) {
		if _, err := os.Lstat(file); err == nil && !l.overwrite {
			return &confine.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": " + strconv.Quote(file) + " is there, and the profile doesn't use it: somebody else may have made it", Hint: "remove it, or replace it with --overwrite"}
		}
		return nil
	}
	l.oldCompanion, err = readWhole(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return &confine.UsageError{Msg: "--merge " + strconv.Quote(l.merge) + ": its policy of system calls: " + err.Error(), Err: err}
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
	for _, taken := range confine.Profiles() {
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
func (l *lesson) places() (profile, companion *sink, err error) {
	beside := filepath.Join(filepath.Dir(l.out), l.name+companionSuffix)
	for _, name := range []string{l.out, beside} {
		if _, err := os.Lstat(name); err == nil && !l.overwrite && !l.mergedWith(name) {
			hint := "--merge " + l.out + " adds to it, --overwrite replaces it; or name another with --output"
			if l.merge != "" {
				hint = "without --output, the file of --merge is written; --overwrite replaces this one"
			}
			return nil, nil, &confine.UsageError{Msg: "--output " + strconv.Quote(name) + ": is there already", Hint: hint}
		}
	}
	if profile, err = openWhole("--output", l.out); err != nil {
		return nil, nil, err
	}
	if profile.dir < 0 {
		profile.close()
		return nil, nil, &confine.UsageError{Msg: "--output " + l.out + ": it has to be a file: a policy of system calls may have to stand beside it"}
	}
	if companion, err = openWhole("--output", beside); err != nil {
		profile.close()
	}
	return profile, companion, err
}

// mergedWith says whether a file is read to be written again.
func (l *lesson) mergedWith(name string) bool {
	name = filepath.Clean(name)
	return l.merge != "" && (name == filepath.Clean(l.merge) || name == filepath.Join(filepath.Dir(l.merge), l.name+companionSuffix))
}

// take runs the command, and writes what was learned.
func (l *lesson) take(r *confine.Resolved, profile, companion *sink) int {
	l.log.notice("learning: " + l.conditions(r))
	again := l.again()
	rc, report := l.watched(r, l.argv, func(io *RunIO) {
		io.Accesses, io.Passed = l.access, l.passed
		io.Peaks = func(p confine.Peaks) { l.seen.Descriptors, l.seen.Mapped = p.Descriptors, p.Data }
		io.Unseen = func(n int64, err error) { l.seen.Unseen, l.blind = n, err }
	})
	switch {
	case report == nil:
		return rc
	case report.Status == status.ExecFailed:
		l.log.failure(&confine.UsageError{Msg: "learn: the command could not be started: nothing was learned, and nothing written"})
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
		l.log.notice("learn: " + terminal.Visible(dir) + " could not be written to while learning, and can be with what was learned\nhint: --overlay " + shell.Word(dir) + " lets the command write there, and throws that away")
	}
	if l.seen.Incomplete() {
		l.log.notice("learn: INCOMPLETE: " + l.lacking() + "\nhint: look at the head of " + l.out + "; another run with --merge " + shell.Word(l.out) + " adds what this one lacks")
	}
	l.log.notice("learned: " + l.out + "\nhint: read it, then: confine --config " + shell.Word(l.out) + " -- " + again)
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
	err := &confine.UsageError{Msg: "learn: nothing was learned, and nothing written"}
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
