package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm"
	"github.com/confine-run/confine/internal/cli/attached"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/internal/wasm"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Confined is the engine that really runs things.
func Confined() Engine {
	supervisor.First.Settle()
	handleQuit = linux.DefaultAction(unix.SIGQUIT)
	return Engine{
		Run:     startConfined,
		Ahead:   process.Ahead,
		Explain: explainPlan,
		Doctor: func(context.Context) ([]host.Result, error) {
			return append(host.RunDoctor(), engineThere(), vm.Doctor()), nil
		},
		Selftest: trySelftest,
		Beside:   become,
		DieBy:    func(signal string, job bool) { linux.DieBy(unix.SignalNum(signal), job) },
	}
}

// Begin has the child of a run begin before the Go runtime of this process does. It is for the first instruction, with the
// stack as the kernel has made it, and gives the one to go on with.
//
//go:norace
//go:nosplit
func Begin(stack unsafe.Pointer) unsafe.Pointer { return supervisor.First.Begin(stack, runs(stack)) }

// runs says by the first word whether main begins a child ahead of what the rest says. The table of commands is there already,
// being constants. The words of processes that confine starts of itself begin with __; a command of such a name starts later.
//
//go:norace
//go:nosplit
func runs(stack unsafe.Pointer) bool {
	if !linux.FirstArgumentIs(stack, "", true) || linux.FirstArgumentIs(stack, "__", true) ||
		linux.FirstArgumentIs(stack, "-h", false) || linux.FirstArgumentIs(stack, "--help", false) || linux.FirstArgumentIs(stack, "--version", false) {
		return false
	}
	for i := 0; i < len(commands); i++ {
		if linux.FirstArgumentIs(stack, commands[i].Name, false) {
			return linux.FirstArgumentIs(stack, "run", false)
		}
	}
	return true
}

// forwardedSignals are the signals that a caller may send to be handled by the command, and
// SIGTSTP, which stops both. The terminal's own (SIGWINCH, SIGCONT) are package terminal's.
var forwardedSignals = [...]unix.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTSTP,
}

// notIgnored are those of forwardedSignals that confine was not started with ignored, as
// nohup does with SIGHUP and a script's "&" with SIGINT: to listen would undo that.
func notIgnored() []os.Signal {
	var all []os.Signal
	for _, n := range forwardedSignals {
		if !linux.Ignored(n) {
			all = append(all, n)
		}
	}
	return all
}

// forgetAfter is when signals have their default action again after a run, if there is still something to do.
const forgetAfter = 10 * time.Millisecond

// restAfter is when confine has done what it does at the start of a run, and only waits, mostly.
const restAfter = 200 * time.Millisecond

// runsBegun counts them.
var runsBegun atomic.Int64

// forget gives signals their default action, also those that came after the run, unless there is another one meanwhile.
func forget(signals chan os.Signal, run int64) {
	signal.Stop(signals)
	for runsBegun.Load() == run {
		select {
		case s := <-signals:
			linux.DieBy(s.(unix.Signal), false)
		default:
			return
		}
	}
}

// handleQuit gives SIGQUIT to the runtime again, which has a handler for it from its start. Until a run hears of it, it ends
// confine as it does any program; the runtime would print what its goroutines do, and exit.
var handleQuit = func() {}

// leastFiles is how many files a process may open that starts a run. One takes some 50, and 10 more with a network, most of them when the command runs
// already; with less than 24, Go's runtime ends it by a trace of its own.
const leastFiles = 64

func startConfined(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur < leastFiles {
		return nil, &config.UsageError{Msg: "a run can't be started", Hint: hint.FewDescriptors}
	}
	return runConfined(ctx, r, argv, io)
}

func runConfined(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
	if r.Policy.Isolation == "vm" && !vm.GoesWithout(&r.Policy) {
		return runMachine(ctx, r, argv, io)
	}
	command := &process.Command{Argv: argv, ConfigFiles: r.Protected}
	command.WatchFiles, command.WatchCalls = io.Accesses != nil, io.Passed != nil
	wantTTY(command, r.Invocation.TTY, io)
	io.Astray = func(int) {
		io.Notice("the command has no network, and may have tried to reach one", "--log-network says which, --allow-network HOST allows a host")
	}
	if console := io.Console; console != nil {
		io.OutGuard, io.ErrGuard = console.Guard(io.Stdout), console.Guard(io.Stderr)
		io.Stopping = console.Hurry
	}
	// A status line is for a terminal that nobody else draws on, as a pager after us would.
	alone := linux.IsTerminal(io.Stdout)
	if console := io.Console; console != nil && alone && r.Invocation.Log != "quiet" && r.Invocation.LogFormat != "json" {
		io.Watching = func(elapsed func() time.Duration, memory func() int64) (stop func()) {
			return console.Status(func() terminal.Progress {
				return terminal.Progress{
					Elapsed: elapsed(), TimeLimit: r.Policy.TimeLimit,
					Memory: memory(), MemoryLimit: r.Policy.MemoryLimit,
				}
			})
		}
	}
	if command.TTY != [3]bool{} {
		io.Terminal = terminal.Open(io.Stdin, io.Stdout, io.Stderr)
		defer io.Terminal.Restore()
	}
	// Each signal takes the runtime two turns of another thread to hear of, and again to forget: the one goes on while the
	// child builds, and the other is left out where confine ends at once. The command begins when all are heard.
	run := runsBegun.Add(1)
	signals := make(chan os.Signal, 8)
	io.Signals = signals
	io.Notify = sync.OnceFunc(func() {
		signal.Notify(signals, notIgnored()...) // never none: of SIGTERM it can't be told
		handleQuit()
	})
	defer func() {
		io.Notify()
		time.AfterFunc(forgetAfter, func() { forget(signals, run) })
	}()
	var last []byte // that the target wrote
	if !io.Capture && r.Invocation.Log != "quiet" {
		io.Last = func(text []byte) { last = text }
	}
	defer time.AfterFunc(restAfter, linux.ForgetImage).Stop()
	var planned *process.Plan
	var begun string // where the target starts; "": that was said, or chosen
	report, err := process.Execute(ctx, &r.Policy, command, io.Options, func(plan *process.Plan) {
		for _, n := range plan.Notices {
			io.Notice(n.Text, n.Remedy)
		}
		begun = elsewhere(plan, &r.Policy)
		planned = plan
		if io.Planned != nil {
			io.Planned(explanationOf(&r.Policy, plan, command, nil))
		}
	})
	if err != nil {
		return nil, r.WithOrigin(err)
	}
	if n := unix.SignalNum(report.Signal); interrupted(report) && io.Terminal.Pressed(n) && !linux.Ignored(n) && io.Pressed != nil {
		io.Pressed()
	}
	if begun != "" && mayMissFiles(report.Status) && (io.Last == nil || len(last) > 0 || namesHere(argv)) {
		io.Notice("the command started in "+strconv.Quote(begun)+", because the current directory is not shown inside: relative names count from there",
			showHint(&r.Policy, "it; full paths work without"))
	}
	if planned != nil && !io.Capture && (mayMissFiles(report.Status) || report.Signal == "SIGABRT") { // by which some give up after a last word
		for _, n := range planned.LastWords(r, string(last)) {
			io.Notice(n.Text, n.Remedy)
		}
	}
	return finish(report, r, io), nil
}

// runMachine runs the command in a virtual machine of its own.
func runMachine(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
	spec, err := specOf(r, argv)
	if err != nil {
		return nil, err
	}
	return runAttached(ctx, vm.Backend{}, spec, r, io, &attached.IO{Signals: notIgnored(), Notified: handleQuit}, terminal.Relayed)
}

// explainMachine explains the sandbox around the machine, which has the files and the network that were asked for.
func explainMachine(ctx context.Context, r *config.Resolved, argv []string) (*Explanation, error) {
	spec, err := specOf(r, argv)
	if err != nil {
		return nil, err
	}
	x, err := vm.Explain(ctx, spec)
	if err != nil {
		return nil, r.WithOrigin(err)
	}
	e := explanationOf(&r.Policy, x.Outer, x.Command, x.Refused)
	e.Backend, e.Enforced = vm.Name, x.Ledger
	e.Ask = func(q config.Ask) (config.Answer, error) { return x.Outer.Ask(r, q) }
	return e, nil
}

// elsewhere is where the target starts, if that is not the current directory and nobody has
// chosen or said so.
func elsewhere(p *process.Plan, policy *config.Policy) string {
	f := &policy.Filesystem
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil || f.Workdir != "none" || f.Chdir != "" || f.Rootfs != "" || p.Exec.Dir == dir {
		return ""
	}
	return p.Exec.Dir
}

// namesHere: a word of the command line is the relative name of something in the current directory.
func namesHere(argv []string) bool {
	return slices.ContainsFunc(argv, func(word string) bool {
		if word == "" || filepath.IsAbs(word) {
			return false
		}
		_, err := os.Lstat(word)
		return err == nil
	})
}

// mayMissFiles: the target may have looked for something by a relative name, and not found it. For a
// command that isn't found there is a hint of its own.
func mayMissFiles(s status.Status) bool {
	return s == status.Failed || s == status.SandboxDenied
}

// wantTTY decides which streams of the target are a pty, unless never or always was said:
// the outputs that are a terminal of the caller's, and standard input where the keys are
// the target's alone; see [terminal.Relayed].
func wantTTY(c *process.Command, tty string, io RunIO) {
	if tty == "never" || io.Capture && tty != "always" {
		return
	}
	keys := terminal.Relayed(io.Stdin, io.Stdout)
	for fd, of := range [...]int{io.Stdin, io.Stdout, io.Stderr} {
		size, err := unix.IoctlGetWinsize(of, unix.TIOCGWINSZ)
		c.TTY[fd] = tty == "always" || err == nil && (fd > 0 || keys)
		if err == nil && c.Rows == 0 {
			c.Rows, c.Cols = size.Row, size.Col
		}
	}
}

func explainPlan(ctx context.Context, r *config.Resolved, argv []string) (*Explanation, error) {
	if r.Policy.Isolation == "vm" && !vm.GoesWithout(&r.Policy) {
		return explainMachine(ctx, r, argv)
	}
	command := &process.Command{Argv: argv, ConfigFiles: r.Protected}
	plan, err := process.NewPlan(&r.Policy, command)
	var cant *config.Unenforceable
	if err != nil && !errors.As(err, &cant) {
		return nil, r.WithOrigin(err)
	}
	e := explanationOf(&r.Policy, plan, command, cant)
	e.Ask = func(q config.Ask) (config.Answer, error) { return plan.Ask(r, q) }
	return e, nil
}

func explanationOf(policy *config.Policy, p *process.Plan, c *process.Command, cant *config.Unenforceable) *Explanation {
	e := &Explanation{
		Command:      CommandInfo{Argv: redact.Redact(c.Argv), Dir: p.Exec.Dir},
		PolicyDigest: policy.Digest(),
		Backend:      process.Name,
		Enforced:     p.Ledger,
		Paths:        p.Rules,
		Notices:      p.Notices,
	}
	if cant != nil {
		e.Refused = cant.Error()
	}
	return e
}

// become executes a program that lies in the directory of this program: it is never looked for in PATH.
func become(program string, args []string) error {
	own, err := os.Executable()
	if err == nil {
		path := filepath.Join(filepath.Dir(own), program)
		err = &fs.PathError{Op: "execve", Path: path, Err: unix.Exec(path, append([]string{path}, args...), os.Environ())}
	}
	return &config.UsageError{Msg: err.Error(), Hint: "install " + program + " beside confine: make install does", Err: err}
}

// engineThere says whether modules of WebAssembly can be run.
func engineThere() host.Result {
	r := host.Result{Name: "wasm", Means: "--isolation wasm: its engine lies beside this program", Answer: host.Yes}
	if _, err := process.EnginePath(); err != nil {
		r.Answer, r.Detail, r.Remedy = host.No, err.Error(), wasm.Install
	}
	return r
}
