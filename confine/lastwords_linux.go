package confine

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/confine/rootfs"
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
	s := p.see(p.Exec.Dir, rootfs.WishWrite)
	if elsewhere || s.Granted || s.Reason != rootfs.ReasonReadOnly || s.Rule.Origin.Option != rootfs.FromWorkdir {
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
	open := listening()
	for _, number := range slices.Backward(loopbackPorts(strings.ToLower(strings.Join(p.command.Argv, " ")) + "\n" + small)) {
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil || !slices.Contains(open, uint16(port)) || taken(uint16(port)) {
			continue
		}
		word := "localhost:" + number
		if a, err := p.Ask(r, Ask{Kind: AskHost, Word: word}); err == nil && a.Answer == AnswerNo && a.Hint == "--allow-network "+word {
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
func (p *Plan) noPing(_ *Resolved, text string) hint.Notice {
	says := slices.ContainsFunc(slices.Collect(strings.Lines(text)), func(line string) bool {
		return slices.ContainsFunc(pinged[:], func(words string) bool { return strings.HasPrefix(line, words) })
	})
	if !says || p.Namespaces&unix.CLONE_NEWNET == 0 || p.Box.Network.Pings {
		return hint.Notice{}
	}
	return hint.Notice{Text: "there is no network to ping", Remedy: "--allow-network HOST allows a host, and to ping it"}
}
