package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// outcomes words how a run ended: nothing for one that ended by itself and was
// cut nowhere. meant: that the command is one stands there, by "--".
func outcomes(r *status.Report, p *confine.Policy, meant bool) []record {
	var all []record
	if rec, ok := ending(r, p, meant); ok {
		rec.Status = string(r.Status)
		all = append(all, rec)
	}
	for _, c := range r.LimitsHit {
		if rec, ok := limitHit(r, p, status.Capability(c)); ok {
			all = append(all, rec)
		}
	}
	return all
}

// ending says why a run ended as it did.
func ending(r *status.Report, p *confine.Policy, meant bool) (record, bool) {
	switch r.Status {
	case status.OK, status.Failed:
		return record{}, false
	case status.Timeout:
		return record{Msg: confine.FormatDuration(p.TimeLimit) + " wall-clock limit reached", Hint: "--time-limit sets another"}, true
	case status.CPULimit:
		return record{Msg: confine.FormatDuration(p.CPUTime) + " CPU time limit reached", Hint: "--cpu-time sets another"}, true
	case status.MemLimit:
		msg := confine.FormatSize(p.MemoryLimit) + " memory limit reached"
		if _, who, ok := strings.Cut(r.Reason, " reached: "); ok {
			msg += ": " + who
		}
		return record{Msg: msg, Hint: "--memory-limit sets another"}, true
	case status.KilledTerm, status.KilledKill, status.KilledSignal:
		return killed(r), true
	case status.ForbiddenSyscall, status.SandboxDenied:
		return denied(r), true
	case status.ExecFailed:
		return execFailed(r, p, meant), true
	}
	return internal(r), true
}

func killed(r *status.Report) record {
	name := cmp.Or(r.Signal, "a signal")
	switch r.Cause {
	case status.CauseCaller:
		if strings.HasPrefix(r.Reason, "stopped by ") { // before it began
			return record{Msg: r.Reason}
		}
		if _, sent, other := strings.Cut(r.Reason, " after the caller's "); other {
			return record{Msg: "ended by " + name + " after " + sent + ", which confine was sent and passed on"}
		}
		return record{Msg: "ended by " + name + ", which confine was sent and passed on"}
	case status.CauseDisk:
		return record{Msg: "ended by " + name + ": more was written to writable trees than the limits on disk and files allow"}
	case status.CauseTasks:
		return record{Msg: "ended by " + name + ": the limit of tasks is held by killing the newest, and the command was one"}
	case status.CauseContext:
		return record{Msg: "ended by " + name + ", because the run was cancelled"}
	}
	if slices.Contains(r.LimitsHit, string(status.FileSize)) {
		return record{Msg: "ended by " + name + ", which answers writing beyond the limit of a file's size"} // the limit has a line of its own
	}
	rec := record{Msg: "ended by " + name + ", which confine did not send"}
	if r.Status == status.KilledKill {
		rec.Hint = "no limit of this run was reached; the host itself may have been short of memory"
	}
	return rec
}

func denied(r *status.Report) record {
	var rec record
	rec.Msg = "a system call was refused"
	if r.Status == status.ForbiddenSyscall && len(r.Violations) > 0 && r.Violations[0].Kind == "syscall" {
		v := &r.Violations[0] // the one that killed
		return record{Msg: v.What + by(v), Hint: v.Hint}
	}
	if r.Status == status.SandboxDenied {
		rec.Msg = "exited with " + strconv.Itoa(r.RC) + " after something was refused"
	}
	var what, hints []string
	const most = 3 // the report has them all
	for i, v := range r.Violations {
		if i == most {
			what = append(what, fmt.Sprintf("%d more", len(r.Violations)-most))
			break
		}
		what = append(what, v.Kind+" "+terminal.Visible(v.What))
		if v.Hint != "" && !slices.Contains(hints, v.Hint) {
			hints = append(hints, v.Hint)
		}
	}
	if len(what) > 0 {
		rec.Msg += ": " + strings.Join(what, ", ")
	}
	rec.Hint = strings.Join(hints, "\n")
	return rec
}

// by is who it was, as far as it is known.
func by(v *status.Violation) string {
	switch {
	case v.PID == 0:
		return ""
	case v.Comm == "":
		return fmt.Sprintf(" by pid %d", v.PID)
	}
	return fmt.Sprintf(" by pid %d (%s)", v.PID, terminal.Visible(v.Comm))
}

func execFailed(r *status.Report, p *confine.Policy, meant bool) record {
	rec := internal(r)
	if len(r.Cmd) == 0 || rec.Hint != "" {
		return rec
	}
	name, missing := r.Cmd[0], strings.HasPrefix(r.Reason, "command not found")
	switch {
	case missing && strings.HasPrefix(name, ".") && strings.Contains(name, "/"):
		rec.Hint = "a relative name counts from where the command starts; " + shows(p, "the current directory, and a full path works without")
	case !missing && plainFile(name, p):
		rec.Hint = "chmod +x " + shell.Word(name)
	case meant:
	case lookup(name) != nil:
		rec.Hint = strconv.Quote(name) + " is a subcommand only as the first word: confine " + name + " [options]"
	case missing:
		rec.Hint = misspelt(name)
	}
	return rec
}

// plainFile: the name is that of a file out here which nobody may execute.
func plainFile(name string, p *confine.Policy) bool {
	f := &p.Filesystem
	if f.Rootfs != "" || f.Virtual || !strings.Contains(name, "/") || f.Chdir != "" && !filepath.IsAbs(name) {
		return false // or of another one inside
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 == 0
}

// shows says which option shows the current directory; what is the rest of the sentence
// where more than mounts can be visible.
func shows(p *confine.Policy, what string) string {
	if p.Filesystem.Virtual {
		return "--mount .:/DST --chdir /DST shows the current directory"
	}
	return "--workdir ro shows " + what
}

// misspelt asks whether the name of a command that wasn't found was to be a subcommand.
func misspelt(name string) string {
	if near := confine.Nearest(name, commandNames()); near != "" && !strings.Contains(name, "/") {
		return "did you mean \"confine " + near + "\"?"
	}
	return ""
}

func internal(r *status.Report) record {
	msg, hint, _ := strings.Cut(cmp.Or(r.Reason, "no reason was given"), "\nhint: ")
	e := r.SetupError
	if e == nil {
		return record{Msg: msg, Hint: hint}
	}
	if e.Error == msg {
		return record{Msg: msg, Hint: cmp.Or(e.Hint, hint)}
	}
	detail := e.Step
	if e.Op != "" {
		detail += ": " + e.Op
	}
	if e.Path != "" {
		detail += " " + strconv.Quote(e.Path)
	}
	detail = strings.TrimPrefix(detail+": "+e.Error, ": ")
	if msg != detail && !strings.Contains(detail, msg) {
		detail = msg + ": " + detail
	}
	return record{Msg: detail, Hint: cmp.Or(e.Hint, hint)}
}

// readOnly says which overlays turned out to be none when the run was set up. Those that
// are known to be none before are in the notices of the plan.
func (s *session) readOnly(overlay status.Enforcement) {
	if !overlay.Enabled || overlay.FallbackReason != status.OverlayUnsupported {
		return
	}
	_, trees, found := strings.Cut(overlay.Details, "read-only: ")
	if found {
		s.log.notice("overlay: none can be made here, what was to be one was read-only: " + terminal.Visible(trees) +
			"\nhint: --require overlay refuses such a run and says why")
	}
}

// changed says what a run changed in overlays, and what becomes of it.
func (s *session) changed(c *status.Changes) {
	if c == nil || c.Error == "" && c.Counts == (status.ChangeCounts{}) {
		return
	}
	n := c.Counts
	msg := "overlay: " + counts(n.Added, n.Modified, n.Deleted, n.Mode, n.Link)
	switch {
	case c.Error != "":
		if c.Kept {
			msg += "; kept as " + c.RunID
		}
		s.log.outcome(record{Msg: msg + "; " + c.Error})
	case c.Kept:
		which := named(c)
		s.log.notice(msg + "; kept as " + c.RunID + "\nhint: confine diff" + which + " shows them, confine apply" + which +
			" copies them, confine discard" + which + " drops them")
	default:
		s.log.notice(msg + "; dropped\nhint: --keep keeps them for confine diff and apply")
	}
}

// named is what the words need to mean this run and no other: without it, they are about
// the newest that has to do with the current directory.
func named(c *status.Changes) string {
	here, err := currentDir()
	if err == nil && slices.ContainsFunc(c.Trees, func(tree string) bool { return around(tree, here) }) {
		return ""
	}
	return " --run " + c.RunID
}

// limitHit words a limit that was reached and didn't end the run.
func limitHit(r *status.Report, p *confine.Policy, c status.Capability) (record, bool) {
	switch c {
	case status.Output:
		return cut(r, p)
	case status.MountSize:
		return fullMounts(r, p)
	case status.CPURate:
		held := time.Duration(r.Usage.ThrottledMS) * time.Millisecond
		if held < 100*time.Millisecond || 10*r.Usage.ThrottledMS < r.DurationMS {
			return record{}, false // nobody felt that; the report has it
		}
		return record{Msg: fmt.Sprintf("throttled to %d %% of a core: %.1f s", p.CPULimit, held.Seconds()), Hint: "--cpu-limit sets another"}, true
	}
	for _, l := range limits {
		if l.capability == c && !l.ends(r.Status) {
			value := l.value(p)
			if value != "" {
				value = " of " + value
			}
			return record{Msg: "limit" + value + " " + l.what + " was reached", Hint: "--" + l.option + " sets another"}, true
		}
	}
	return record{}, false
}

// fullMounts names the places of a size of their own that were full.
func fullMounts(r *status.Report, p *confine.Policy) (record, bool) {
	var places, hints []string
	for _, at := range r.FullMounts {
		place := strconv.Quote(at)
		for _, m := range p.Filesystem.Mounts {
			if m.Size > 0 && m.Dst == at {
				place += " of " + confine.FormatSize(m.Size)
			}
		}
		places, hints = append(places, place), append(hints, "--mount "+shell.Word("tmpfs:"+at+":SIZE")+" sets another")
	}
	return record{Msg: "mount " + strings.Join(places, " and ") + " was full at the end", Hint: strings.Join(hints, "\n")}, places != nil
}

func cut(r *status.Report, p *confine.Policy) (record, bool) {
	var streams []string
	if r.Truncated.Stdout {
		streams = append(streams, fmt.Sprintf("stdout (%s written)", roughSize(r.Bytes.Stdout)))
	}
	if r.Truncated.Stderr {
		streams = append(streams, fmt.Sprintf("stderr (%s written)", roughSize(r.Bytes.Stderr)))
	}
	if streams == nil {
		return record{}, false
	}
	return record{
		Msg:  strings.Join(streams, " and ") + " cut at " + confine.FormatSize(p.OutputLimit),
		Hint: "--output-limit sets another limit, or \"none\"",
	}, true
}
