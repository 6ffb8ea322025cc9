package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// outcomes words how a run ended: nothing for one that ended by itself and was
// cut nowhere. explicit: "--" said that the command is one.
func outcomes(r *status.Report, p *config.Policy, explicit bool) []record {
	var all []record
	if rec, ok := ending(r, p, explicit); ok {
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
func ending(r *status.Report, p *config.Policy, explicit bool) (record, bool) {
	switch r.Status {
	case status.OK, status.Failed:
		return record{Msg: "it ended with " + r.Ending.Native}, r.Ending.Native != ""
	case status.Timeout:
		return record{Msg: config.FormatDuration(p.TimeLimit) + " wall-clock limit reached", Hint: "--time-limit sets another"}, true
	case status.CPULimit:
		return record{Msg: config.FormatDuration(p.CPUTime) + " CPU time limit reached", Hint: "--cpu-time sets another"}, true
	case status.MemLimit:
		msg := config.FormatSize(p.MemoryLimit) + " memory limit reached"
		if who := cmp.Or(r.Ending.Memory, r.Ending.Module); who != "" {
			msg += ": " + who
		}
		return outOfMemory(r, p, msg), true
	case status.KilledTerm, status.KilledKill, status.KilledSignal:
		if r.Signal == "SIGPIPE" && (r.Cause == status.CauseReader || r.Cause == status.CauseSignal) {
			return record{}, false // as ever in "| head", or when a pager is left
		}
		return killed(r), true
	case status.ForbiddenSyscall, status.SandboxDenied:
		return denied(r), true
	case status.ExecFailed:
		return execFailed(r, p, explicit), true
	}
	return internal(r), true
}

// outOfMemory says how much of the memory was files, and where, if it was not just a few,
// and how a JVM or Node.js is told of a limit that it can't see.
func outOfMemory(r *status.Report, p *config.Policy, msg string) record {
	rec := record{Msg: msg, Hint: "--memory-limit sets another"}
	m := r.OutOfMemory
	if m == nil {
		return rec
	}
	if m.FileBytes >= p.MemoryLimit/10 {
		rec.Msg += "; " + roughSize(m.FileBytes) + " of it were files"
		if m.PathBytes > m.FileBytes/2 {
			rec.Msg += " in " + strconv.Quote(m.Path)
		}
		rec.Hint += "; --disk-limit bounds what of it may be files"
	}
	runs := func(name string) bool { return m.Process == name || len(r.Cmd) > 0 && filepath.Base(r.Cmd[0]) == name }
	switch {
	case r.Enforced[status.Memory].Mechanism != "tree_watchdog":
	case runs("java"):
		rec.Hint += fmt.Sprintf("\n--env JAVA_TOOL_OPTIONS=-XX:MaxRAM=%d tells Java of it, which sees no cgroup here", p.MemoryLimit)
	case runs("node"):
		rec.Hint += fmt.Sprintf("\n--env NODE_OPTIONS=--max-old-space-size=%d tells Node.js of it, which sees no cgroup here", max(1, p.MemoryLimit*3/5>>20))
	}
	return rec
}

func killed(r *status.Report) record {
	if r.Cause == status.CauseCaller && r.Ending.Early || r.Cause == status.CauseModule {
		return record{Msg: r.Reason}
	}
	why, remedy := ", which confine did not send", ""
	switch {
	case r.Cause == status.CauseCaller:
		if why = ", which confine was sent and passed on"; r.Ending.After != "" {
			why = " after " + r.Ending.After + why
		}
	case r.Cause == status.CauseDisk:
		why = ": more was written to writable trees than the limits on disk and files allow"
	case r.Cause == status.CauseTasks:
		why = ": the limit of tasks is held by killing the newest, and the command was one"
	case r.Cause == status.CauseContext:
		why = ", because the run was cancelled"
	case slices.Contains(r.LimitsHit, string(status.FileSize)): // the limit has a line of its own
		why = ", which answers writing beyond the limit of a file's size"
	case r.Status == status.KilledKill:
		remedy = "no limit of this run was reached; the host itself may have been short of memory"
	}
	return record{Msg: "ended by " + cmp.Or(r.Signal, "a signal") + why, Hint: remedy}
}

func denied(r *status.Report) record {
	msg := "a system call was refused"
	switch {
	case r.Status == status.SandboxDenied:
		msg = "exited with " + strconv.Itoa(r.RC) + " after something was refused"
	case len(r.Violations) > 0 && r.Violations[0].Kind == "syscall":
		v := &r.Violations[0] // the one that killed
		return record{Msg: v.What + byProcess(v), Hint: v.Hint}
	}
	var what, hints []string
	const most = 3                          // the report has them all
	lastFirst := slices.Clone(r.Violations) // what it ended for is near its end
	slices.Reverse(lastFirst)
	slices.SortStableFunc(lastFirst, func(a, b status.Violation) int { return cmp.Compare(b.LastMS, a.LastMS) })
	for _, v := range lastFirst[:min(most, len(lastFirst))] {
		what = append(what, v.Kind+" "+terminal.Visible(v.What))
		if v.Hint != "" && !slices.Contains(hints, v.Hint) {
			hints = append(hints, v.Hint)
		}
	}
	if more := len(lastFirst) - most; more > 0 {
		what = append(what, fmt.Sprintf("%d more", more))
	}
	if what != nil {
		msg += ": " + strings.Join(what, ", ")
	}
	return record{Msg: msg, Hint: strings.Join(hints, "\n")}
}

// byProcess is who it was, as far as it is known.
func byProcess(v *status.Violation) string {
	switch {
	case v.PID == 0:
		return ""
	case v.Comm == "":
		return fmt.Sprintf(" by pid %d", v.PID)
	}
	return fmt.Sprintf(" by pid %d (%s)", v.PID, terminal.Visible(v.Comm))
}

func execFailed(r *status.Report, p *config.Policy, explicit bool) record {
	rec := internal(r)
	if len(r.Cmd) == 0 || rec.Hint != "" || r.Ending.Module != "" && !r.Ending.NotFound {
		return rec
	}
	name, missing := r.Cmd[0], r.Ending.NotFound
	switch {
	case missing && strings.HasPrefix(name, ".") && strings.Contains(name, "/"):
		if _, err := os.Stat(name); err != nil {
			break // nor is it out here
		}
		rec.Hint = "a relative name counts from where the command starts; " + showHint(p, "the current directory, and a full path works without")
	case !missing && ownFile(name, p) != "":
		rec.Hint = hint.Unstartable(name, ownFile(name, p))
	case missing && noProgram(r.Cmd, p) != "":
		rec.Hint = noProgram(r.Cmd, p)
	case explicit:
	case lookup(name) != nil:
		rec.Hint = strconv.Quote(name) + " is a subcommand only as the first word: confine " + name + " [options]"
	case missing:
		rec.Hint = misspelt(name)
	}
	return rec
}

// systems are where files are the system's: that one of them can't be executed is no oversight.
// Below /var there are trees of work, too.
var systems = [...]string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"}

// ownFile is the file that a name leads to out here, if that is none of the system's.
func ownFile(name string, p *config.Policy) string {
	f := &p.Filesystem
	if runtime.GOOS == "windows" || f.Rootfs != "" || f.Virtual || !strings.Contains(name, "/") || f.Chdir != "" && !filepath.IsAbs(name) {
		return "" // or of another one inside
	}
	real, err := filepath.EvalSymlinks(name)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil || slices.ContainsFunc(systems[:], func(dir string) bool { return strings.HasPrefix(real, dir+"/") }) {
		return ""
	}
	return real
}

// showHint says which option shows the current directory; what is the rest of the sentence
// where more than mounts can be visible.
func showHint(p *config.Policy, what string) string {
	if p.Filesystem.Virtual {
		return "--mount .:/DST --chdir /DST shows the current directory"
	}
	return "--workdir ro shows " + what
}

// misspelt asks whether the name of a command that wasn't found was to be a subcommand.
func misspelt(name string) string {
	if near := hint.Nearest(name, commandNames()); near != "" && !strings.Contains(name, "/") {
		return "did you mean \"confine " + near + "\"?"
	}
	return ""
}

func internal(r *status.Report) record {
	msg, hint := cmp.Or(strings.TrimSuffix(r.Reason, hint.Text("", r.Ending.Remedy)), "no reason was given"), r.Ending.Remedy
	e := r.SetupError
	if e == nil {
		return record{Msg: msg, Hint: hint}
	}
	if e.Step == "chdir" && e.Hint == "" && hint == "" {
		hint = "the command's user can't enter that directory: -C / starts elsewhere"
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
func (l *logger) readOnly(overlay status.Enforcement, trees []string) {
	if !overlay.Enabled || overlay.FallbackReason != status.OverlayUnsupported {
		return
	}
	if len(trees) > 0 {
		l.advise("overlay: none can be made here, what was to be one was read-only: "+terminal.Visible(strings.Join(trees, ", ")),
			"--require overlay refuses such a run and says why")
	}
}

// changed says what a run changed in overlays, and what becomes of it.
func (l *logger) changed(c *status.Changes, keep bool) {
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
		l.outcome(record{Msg: msg + "; " + c.Error})
	case c.Kept:
		which := runFlag(c)
		l.advise(msg+"; kept as "+c.RunID,
			"confine diff"+which+" shows them, confine apply"+which+" copies them, confine discard"+which+" drops them")
	case keep: // why it wasn't was said before the run
		l.notice(msg + "; dropped")
	default:
		l.advise(msg+"; dropped", "--keep keeps them for confine diff and apply")
	}
}

// runFlag is the option by which diff, apply and discard mean this run: without one, they are about
// the newest that has to do with the current directory.
func runFlag(c *status.Changes) string {
	here, err := currentDir()
	if err == nil && slices.ContainsFunc(c.Trees, func(tree string) bool { return related(tree, here) }) {
		return ""
	}
	return " --run " + c.RunID
}

// limitHit words a limit that was reached and didn't end the run.
func limitHit(r *status.Report, p *config.Policy, c status.Capability) (record, bool) {
	switch c {
	case status.Output:
		return truncated(r, p)
	case status.MountSize:
		return fullMounts(r, p)
	case status.Disk:
		if size := p.ScratchLimit(); size < p.DiskLimit && r.Cause != status.CauseDisk {
			return record{Msg: "limit of " + config.FormatSize(size) + " disk was reached: private places and overlays are memory, and get three quarters of its limit",
				Hint: "--memory-limit sets another, up to --disk-limit, which is " + config.FormatSize(p.DiskLimit)}, true
		}
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
func fullMounts(r *status.Report, p *config.Policy) (record, bool) {
	var places, hints []string
	for _, at := range r.FullMounts {
		place := strconv.Quote(at)
		for _, m := range p.Filesystem.Mounts {
			if m.Size > 0 && m.Dst == at {
				place += " of " + config.FormatSize(m.Size)
			}
		}
		places, hints = append(places, place), append(hints, "--mount "+shell.Word("tmpfs:"+at+":SIZE")+" sets another")
	}
	return record{Msg: "mount " + strings.Join(places, " and ") + " was full at the end", Hint: strings.Join(hints, "\n")}, places != nil
}

func truncated(r *status.Report, p *config.Policy) (record, bool) {
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
		Msg:  strings.Join(streams, " and ") + " cut at " + config.FormatSize(p.OutputLimit),
		Hint: "--output-limit sets another limit, or \"none\"",
	}, true
}

// limit is how one limit is spoken of.
type limit struct {
	capability status.Capability
	option     string
	what       string
}

// limits is in the order of the summary.
var limits = [...]limit{
	{status.WallTime, "time-limit", "wall-clock time"},
	{status.CPUTime, "cpu-time", "CPU time"},
	{status.Memory, "memory-limit", "memory"},
	{status.CPURate, "cpu-limit", "CPU rate"},
	{status.CPUs, "cpus", "cores"},
	{status.Tasks, "processes", "tasks"},
	{status.FileDescriptors, "file-descriptors", "open files per process"},
	{status.Disk, "disk-limit", "disk"},
	{status.FileSize, "max-file-size", "bytes in one file"},
	{status.Files, "max-files", "files"},
	{status.Output, "output-limit", "output per stream"},
}

// value is what the policy says, empty for none.
func (l *limit) value(p *config.Policy) string {
	switch value := p.Limit(l.option); {
	case value == "none":
		return ""
	case l.capability == status.CPURate:
		return value + " of a core"
	default:
		return value
	}
}

// ends: reaching the limit is what ended the run, and was said already.
func (l *limit) ends(s status.Status) bool {
	switch l.capability {
	case status.WallTime:
		return s == status.Timeout
	case status.CPUTime:
		return s == status.CPULimit
	case status.Memory:
		return s == status.MemLimit
	}
	return false
}

// roots are names that stand where a project begins.
var roots = [...]string{".git", "go.mod", "Cargo.toml", "package.json", "pyproject.toml"}

// projectAbove is a hint for a run that failed in a directory of a project of which only that
// directory is shown: programs that look for the project's beginning don't find it. The tree
// decides nothing by it but what is said. A run that was refused a host has another reason to fail.
func projectAbove(report *status.Report, p *config.Policy) (n hint.Notice) {
	f := &p.Filesystem
	if slices.ContainsFunc(report.Violations, func(v status.Violation) bool { return v.Kind == "network" }) {
		return n
	}
	if f.Workdir == "none" || f.Virtual || f.Rootfs != "" || f.Home || f.EphemeralHome || f.Chdir != "" {
		return n
	}
	here, err := currentDir()
	if err != nil {
		return n
	}
	home, _ := filepath.EvalSymlinks(os.Getenv("HOME"))
	for dir := here; dir != filepath.Dir(dir) && dir != home; dir = filepath.Dir(dir) {
		if !slices.ContainsFunc(roots[:], func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }) {
			continue
		}
		if dir == here || slices.ContainsFunc(slices.Concat(f.AllowRead, f.AllowWrite, f.Overlay), func(shown string) bool { return covers(shown, dir) }) {
			return n
		}
		return hint.Notice{
			Text:   "the project begins at " + strconv.Quote(dir) + ", which is not shown",
			Remedy: "start the command there: cd " + shell.Word(dir) + "; or --allow-read " + shell.Word(dir),
		}
	}
	return n
}

// covers says whether a path of the policy is a directory or above it.
func covers(shown, dir string) bool {
	full, err := filepath.Abs(shown)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	return err == nil && within(dir, full)
}

// substituted is a hint for a run that failed after it was given the name of a descriptor of the
// caller's, as shells write it for <(…): descriptors from 3 on don't reach the command.
func substituted(argv []string) (n hint.Notice) {
	for _, arg := range argv {
		fd, ok := strings.CutPrefix(arg, "/dev/fd/")
		if !ok {
			fd, ok = strings.CutPrefix(arg, "/proc/self/fd/")
		}
		if n, err := strconv.ParseUint(fd, 10, 32); ok && err == nil && n > 2 {
			return hint.Notice{
				Text:   strconv.Quote(arg) + " is a descriptor of the caller's, and only 0, 1 and 2 reach the command",
				Remedy: "instead of <(…) use a pipe to its standard input, or a file",
			}
		}
	}
	return n
}

// builtins of POSIX shells that are no programs.
var builtins = [...]string{".", ":", "alias", "bg", "cd", "command", "eval", "exec", "exit", "export", "fg", "jobs", "read", "readonly",
	"set", "shift", "source", "times", "trap", "type", "ulimit", "umask", "unset", "wait"}

// noProgram is a hint for a command that wasn't found, since it is something for a shell, or that
// would only be found outside of a rootfs.
func noProgram(argv []string, p *config.Policy) string {
	name := argv[0]
	variable, _, sets := strings.Cut(name, "=")
	switch line, ok := shell.Line(argv); {
	case len(argv) == 1 && strings.ContainsAny(name, " \t|&;<>()$`*?"):
		return "a line is for a shell: sh -c " + shell.Word(name)
	case ok && slices.Contains(builtins[:], name):
		return name + " is a shell's own: sh -c " + shell.Word(line)
	case sets && variable != "" && strings.Trim(variable, "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == "":
		return "--env " + variable + "=VALUE sets a variable, and so does env in front of the command"
	case p.Filesystem.Rootfs != "":
		return "it is looked for in the rootfs, by the PATH that holds inside: what is outside is not there"
	}
	return ""
}

// tooLarge is a hint for a run that ended as a shell does when its command died of SIGXFSZ.
func tooLarge(r *status.Report, p *config.Policy) (n hint.Notice) {
	if p.MaxFileSize == 0 || r.RC != 128+25 || slices.Contains(r.LimitsHit, string(status.FileSize)) {
		return n
	}
	return hint.Notice{
		Text:   "exit code 153 is a shell's for a command that SIGXFSZ ended: a file would have grown beyond " + config.FormatSize(p.MaxFileSize),
		Remedy: "--max-file-size sets another limit",
	}
}
