package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/internal/attempts"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// driver makes the attempts, one run for each.
type driver struct {
	*order
	*scene
	ledger map[status.Capability]status.Enforcement
}

// longest is more than any attempt takes.
const longest = 10 * time.Second

// outside is a process that makes an attempt, or supervises one, as anybody's would.
func outside(ctx context.Context, exe string, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, exe, append([]string{Word}, words...)...)
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.WaitDelay = time.Second
	return cmd
}

// fill puts the scene's words into an attempt's. lacks names one that there is none of.
func fill(template string, v values) (words []string, lacks string) {
	for _, word := range strings.Fields(template) {
		for {
			i := strings.IndexByte(word, '{')
			if i < 0 {
				break
			}
			name, rest, _ := strings.Cut(word[i+1:], "}")
			value, ok := v[name]
			if !ok || value == "" {
				return nil, name
			}
			word = word[:i] + value + rest
		}
		words = append(words, word)
	}
	return words, ""
}

// try is one attempt, outside and inside.
func (d *driver) try(ctx context.Context, a *attempt) (r Result) {
	began := time.Now()
	defer func() { r.DurationMS = time.Since(began).Milliseconds() }()
	r = Result{Name: a.name, Invariant: a.invariant, Tries: a.tries, Walls: append([]status.Capability{}, a.walls...), Outcome: NotTestable}
	if a.skip != nil {
		if r.Why = a.skip(&d.Policy, d.values); r.Why != "" {
			return r
		}
	}
	ground, err := d.ground("outside/" + a.name)
	if err != nil {
		r.Why = "the scene: " + err.Error()
		return r
	}
	defer ground.letGo()
	if r.Why = d.control(ctx, a, ground); r.Why != "" {
		r.Control = r.Why
		return r
	}
	r.Control = "it works"
	if a.special != nil {
		r.Outcome, r.Why = a.special(d, ctx, a, &r)
		return r
	}
	got := d.confined(ctx, a)
	r.Foretold = a.foretell(got.ledger)
	r.Outcome, r.Why = got.judge(a)
	return r
}

// control gives why the attempt does not work outside.
func (d *driver) control(ctx context.Context, a *attempt, v values) string {
	template := a.outside
	if template == "" {
		template = a.inside
		if all, any := strings.CutPrefix(template, "any "); any {
			template = "each " + all
		}
	}
	words, lacks := fill(template, v)
	if lacks != "" {
		return lacking(lacks)
	}
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	cmd := outside(ctx, d.exe, words...)
	cmd.Env, cmd.Dir = append(cmd.Env, "TMPDIR="+v["tmp"]), v["tree"]
	var said bytes.Buffer
	cmd.Stderr = &said
	if a.rooted != asItIs {
		cmd.SysProcAttr = ownNamespaces(a.rooted)
	}
	if a.streams {
		in, out, err := streamFiles(v)
		if err != nil {
			return "the scene: " + err.Error()
		}
		defer in.Close()
		defer out.Close()
		cmd.Stdin, cmd.Stdout = in, out
	}
	before, err := evidence(a, v)
	if err != nil {
		return "the scene: " + err.Error()
	}
	err = cmd.Run()
	if after, broke := evidence(a, v); err == nil && a.traces && (broke == nil && after == before) {
		return "outside nothing has changed either"
	}
	if a.leaves {
		defer end(v["token"])
		if err == nil && len(holders(v["token"])) == 0 {
			return "outside nothing is left either"
		}
	}
	if err == nil {
		return ""
	}
	if a.rooted != asItIs && cmd.Process == nil && os.Geteuid() != 0 {
		return "outside: it takes capabilities, and there is no user namespace to have them in: " + err.Error()
	}
	if text := firstLine(said.String()); text != "" {
		return "outside: " + text
	}
	return "outside: " + err.Error()
}

// ownNamespaces keeps the host from what root's attempts would do to it, and gives
// others the capabilities that they need.
func ownNamespaces(r root) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS}
	if r == ownNet {
		attr.Unshareflags |= unix.CLONE_NEWNET
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags = unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// streamFiles are the caller's own as standard input and output.
func streamFiles(v values) (in, out *os.File, err error) {
	for _, name := range []string{"input", "output"} {
		if err := os.WriteFile(v["dir"]+"/"+name, []byte(callers), 0o644); err != nil {
			return nil, nil, err
		}
	}
	if in, err = os.OpenFile(v["dir"]+"/input", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	out, err = os.OpenFile(v["dir"]+"/output", os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		_ = in.Close()
	}
	return in, out, err
}

// outcome is what came of an attempt inside.
type outcome struct {
	report  *status.Report
	ledger  map[status.Capability]status.Enforcement // as planned
	err     error
	token   string // of what is left, or empty
	changed string // outside, that mustn't be
}

// narrowed is the policy of one attempt.
func (d *driver) narrowed(a *attempt, v values) config.Policy {
	p := d.Policy
	p.AllowPartial, p.Require = []string{"all"}, nil
	p.Filesystem.Keep = false
	if p.TimeLimit == 0 || p.TimeLimit > longest {
		p.TimeLimit = longest
	}
	p.Filesystem.AllowRead = append(slices.Clone(p.Filesystem.AllowRead), d.exe)
	p.Env.Set = maps.Clone(p.Env.Set)
	if p.Env.Set == nil {
		p.Env.Set = map[string]string{}
	}
	p.Env.Set[mark] = "1"
	if a.policy != nil {
		a.policy(&p, v)
	}
	return p
}

// confined makes the attempt inside.
func (d *driver) confined(ctx context.Context, a *attempt) (got outcome) {
	v, err := d.ground("inside/" + a.name)
	if err != nil {
		return outcome{err: err}
	}
	defer v.letGo()
	v["tmp"] = "$TMPDIR"
	words, lacks := fill(a.inside, v)
	if lacks != "" {
		return outcome{err: errors.New(lacking(lacks))}
	}
	io := supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1, Capture: true}
	if a.streams {
		in, out, err := streamFiles(v)
		if err != nil {
			return outcome{err: err}
		}
		defer in.Close()
		defer out.Close()
		io.Stdin, io.Stdout, io.Stderr, io.Capture = int(in.Fd()), int(out.Fd()), int(out.Fd()), false
	}
	before, err := evidence(a, v)
	if err != nil {
		return outcome{err: err}
	}
	policy := d.narrowed(a, v)
	command := &process.Command{Argv: append([]string{d.exe, Word}, words...), Dir: v["tree"], ConfigFiles: d.ConfigFiles}
	got.report, got.err = process.Execute(ctx, &policy, command, io, func(p *process.Plan) { got.ledger = p.Ledger })
	after, err := evidence(a, v)
	if got.err == nil {
		got.err = err
	}
	if before != after {
		got.changed = changed(before, after)
	}
	if a.leaves && len(holders(v["token"])) > 0 {
		got.token = v["token"]
	}
	return got
}

// evidence is what there is outside to be changed: the files of the attempt's own
// ground, or the beginnings of those that are its streams.
func evidence(a *attempt, v values) (string, error) {
	if !a.streams {
		return look(v["dir"])
	}
	in, err := os.ReadFile(v["dir"] + "/input")
	if err != nil {
		return "", err
	}
	out, err := os.ReadFile(v["dir"] + "/output")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("input %q\noutput begins %q\n", in, out[:min(len(out), len(callers))]), nil
}

// callers is what those files hold.
const callers = "of the caller's\n"

// judge is held against what a refusal looks like: anything else is none.
func (got *outcome) judge(a *attempt) (Outcome, string) {
	switch {
	case got.err != nil:
		return Failed, "the run: " + got.err.Error()
	case got.token != "":
		end(got.token)
		return Failed, "a process of the run is left"
	case got.changed != "":
		return Failed, "changed outside: " + got.changed
	}
	r := got.report
	said := firstLine(r.Stderr)
	switch {
	case r.Status == status.ForbiddenSyscall:
		return Held, "killed: " + r.Reason
	case slices.Contains(a.ends, r.Status):
		return Held, fmt.Sprintf("%s after %d ms", r.Status, r.DurationMS)
	case r.Status == status.OK && a.leaves:
		return Held, "nothing is left"
	case r.Status == status.OK && a.traces:
		return Held, "nothing has changed outside"
	case r.Status == status.OK:
		return Failed, strings.TrimSpace("it works " + firstLine(r.Stdout))
	case r.ExitCode != nil && *r.ExitCode == attempts.Refused:
		return Held, said
	case r.ExitCode != nil && *r.ExitCode == attempts.Broken:
		return NotTestable, "inside: " + said
	}
	why := fmt.Sprintf("it ended as %s: %s", r.Status, r.Reason)
	if e := r.SetupError; e != nil {
		why = e.Error
	}
	return Failed, strings.TrimSuffix(why+"; "+said, "; ")
}

// firstLine is what an attempt said, in a line.
func firstLine(text string) string {
	text = strings.TrimPrefix(strings.TrimSpace(text), "attempt ")
	text = strings.ReplaceAll(text, "\n", "; ")
	const most = 150
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
