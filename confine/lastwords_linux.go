package confine

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/confine/explain"
	"github.com/confine-run/confine/confine/view"
	"github.com/confine-run/confine/internal/hint"
)

// LastWords are notices about a run that failed, each with the option that gives it what it may
// have lacked. text is the last that the target wrote, and says what that likes. So nothing is
// decided by it: it selects among a few notices, and what these say of the plan and of the host is
// looked up.
func (p *Plan) LastWords(r *Resolved, text string) (notices []hint.Notice) {
	for _, look := range [...]func(*Resolved, string) hint.Notice{
		p.unshown, p.unshownVariables, p.identityUnshown, p.writesNothing, p.otherLoopback, p.noPing,
	} {
		if notice := look(r, text); notice.Text != "" {
			notices = append(notices, notice)
		}
	}
	return notices
}

// identityUnshown: git doesn't know who commits, and the file that says it isn't shown.
func (p *Plan) identityUnshown(r *Resolved, text string) hint.Notice {
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
func (p *Plan) writesNothing(_ *Resolved, text string) hint.Notice {
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
	if who, what, ok := strings.Cut(said, ": "); ok && path.IsAbs(who) && !belowOrAt(who, p.Exec.Dir) {
		said = what // the path of a program
	}
	elsewhere := slices.ContainsFunc(p.namesIn(said), func(name string) bool { return !belowOrAt(name, p.Exec.Dir) })
	s := p.see(p.Exec.Dir, explain.Write)
	if elsewhere || s.Granted || s.Reason != explain.ReadOnly || s.Rule.Origin.Option != view.FromWorkdir {
		return hint.Notice{}
	}
	return hint.Notice{Text: "the current directory is shown read-only",
		Remedy: "--workdir overlay takes what is written, and keeps it apart; --workdir rw lets the command change the directory itself"}
}

func belowOrAt(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// refusals are what programs say of ECONNREFUSED, in small letters.
var refusals = [...]string{"connection refused", "econnrefused", "connectionrefused", "couldn't connect", "could not connect", "can't connect", "failed to connect"}

// otherLoopback: the target was refused by its own loopback, while the caller's listens on that port.
func (p *Plan) otherLoopback(r *Resolved, text string) hint.Notice {
	small := strings.ToLower(text)
	if p.Namespaces&unix.CLONE_NEWNET == 0 || !slices.ContainsFunc(refusals[:], func(words string) bool { return strings.Contains(small, words) }) {
		return hint.Notice{}
	}
	places := regexp.MustCompile(`(?:localhost|127\.\d+\.\d+\.\d+|::1)\W{1,4}(?:port\W{1,3})?(\d{1,5})\b`).
		FindAllStringSubmatch(strings.ToLower(strings.Join(p.command.Argv, " "))+"\n"+small, -1)
	open := listening()
	for _, place := range slices.Backward(places) {
		port, err := strconv.ParseUint(place[1], 10, 16)
		if err != nil || !slices.Contains(open, uint16(port)) || taken(uint16(port)) {
			continue
		}
		word := "localhost:" + place[1]
		if a, err := p.Ask(r, Ask{Kind: AskHost, Word: word}); err == nil && a.Answer == AnswerNo && a.Hint == "--allow-network "+word {
			return hint.Notice{Text: "127.0.0.1 inside is the run's own; port " + place[1] + " of the caller's is out of reach", Remedy: a.Hint}
		}
	}
	return hint.Notice{}
}

var pinged = [...]string{"ping: socket: Operation not permitted", "ping: permission denied", "ping: Operation not permitted"}

// noPing: without a gateway nobody has told the kernel of a run's network who may ping there.
func (p *Plan) noPing(_ *Resolved, text string) hint.Notice {
	says := slices.ContainsFunc(slices.Collect(strings.Lines(text)), func(line string) bool {
		return slices.ContainsFunc(pinged[:], func(words string) bool { return strings.HasPrefix(line, words) })
	})
	if !says || p.Namespaces&unix.CLONE_NEWNET == 0 || p.Box.Network.Pings {
		return hint.Notice{}
	}
	return hint.Notice{Text: "there is no network to ping", Remedy: "--allow-network HOST allows a host, and to ping it"}
}
