package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/wasm"
	"github.com/confine-run/confine/status"
)

// engine is the program that is started where the command is a module of WebAssembly; see package wasm. It is a target like any other,
// and what it says of its module is told by a descriptor that the module doesn't have.
type engine struct {
	path string // of the program; absolute, without symbolic links
	modules
}

// modules is what modules were compiled to.
type modules struct {
	cache string // a directory; "": none
	entry string // of it, for the command that is known; "": none
	why   error  // one is missing
}

const isolationWASM = "wasm"

// engineTasks are those of the engine, which has threads where a module has none.
const engineTasks = 32

// EnginePath finds the engine.
func EnginePath() (string, error) { return hostfs.Beside(wasm.Program) }

// withEngine gives a command that runs by the engine what it needs to be found and seen, and the rest of the policy what that takes. Without
// one there is no isolation of that name, which the ledger says.
func withEngine(policy *config.Policy, c *Command) (*config.Policy, *Command, *engine) {
	if policy.Isolation != isolationWASM {
		return policy, c, nil
	}
	path, err := EnginePath()
	if err != nil {
		return policy, c, nil
	}
	e := &engine{path: path}
	own, command := *policy, *c
	shown := []string{path}
	if info, err := os.Stat(c.Argv[0]); filepath.IsAbs(c.Argv[0]) && err == nil && info.Mode().IsRegular() { // as of a program, its file is shown
		shown = append(shown, c.Argv[0])
	}
	engines := []string{path}
	if e.modules = c.modules; e.modules == (modules{}) { // a plan by itself, which compiles nothing
		if e.cache, e.why = c.moduleCache(policy); e.why != nil || !(&wasm.Cache{Dir: e.cache}).There() {
			e.cache = ""
		}
	}
	if e.cache != "" {
		shown, engines = append(shown, e.cache), append(engines, e.cache)
		command.ConfigFiles = append(slices.Clone(command.ConfigFiles), e.cache)
	}
	command.ConfigFiles = append(slices.Clone(command.ConfigFiles), path)
	own.Filesystem.AllowRead = slices.Concat(own.Filesystem.AllowRead, shown)
	if c.Ceiling != nil { // the engine is nobody's wish
		ceiling := *c.Ceiling
		ceiling.Filesystem.AllowRead = slices.Concat(ceiling.Filesystem.AllowRead, engines)
		command.Ceiling = &ceiling
	}
	if own.Processes > 0 {
		own.Processes = max(own.Processes, engineTasks)
	}
	command.Argv = append([]string{path}, command.Argv...)
	return &own, &command, e
}

// moduleCache is where it is kept what modules were compiled to.
func (c *Command) moduleCache(policy *config.Policy) (string, error) {
	return c.cache(policy, "compiled modules", "wasm")
}

// Cache is where a backend keeps what it found out for every run of the caller's; runs don't see it, unless somebody shows it to them.
func Cache(s *backend.Spec, name string) (string, error) {
	return commandOf(s).cache(s.Policy, "the cache", name)
}

func (c *Command) cache(policy *config.Policy, option, name string) (string, error) {
	dir := c.env("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		if dir = c.env("HOME"); !filepath.IsAbs(dir) {
			return "", fmt.Errorf("neither XDG_CACHE_HOME nor HOME names a place: %w", fs.ErrNotExist)
		}
		dir = filepath.Join(dir, ".cache")
	}
	// A clone may have brought one along.
	if home := c.env("HOME"); hostfs.Under(dir, c.Dir) && !(filepath.IsAbs(home) && hostfs.Under(home, c.Dir)) {
		return "", fmt.Errorf("%q is in the current directory: %w", dir, fs.ErrPermission)
	}
	dir = filepath.Join(dir, "confine", name)
	return dir, c.reaches(policy, option, dir)
}

// asEngine writes the ledger's line, and makes the command line that of the engine.
func (p *planner) asEngine() error {
	q := p.policy
	if q.Deterministic && q.Isolation != isolationWASM {
		return &config.UsageError{Msg: "deterministic: a program of the system's finds other clocks and other random numbers",
			Hint: "--isolation wasm runs a module of WebAssembly, which has none but what it is given"}
	}
	if q.Isolation == "" || q.Isolation == "process" {
		return nil
	}
	l := p.plan.Ledger
	l.Ask(status.Isolation, q.Isolation)
	e := p.plan.engine
	switch {
	case q.Isolation != isolationWASM:
		l.Missing(status.Isolation, status.NotInBuild, "there is no such thing here: the command is a process")
		return nil
	case e == nil:
		l.Missing(status.Isolation, status.NotInBuild, wasm.Program+" is not beside the program that starts runs")
		return nil
	}
	pages := wasm.Pages(q.MemoryLimit)
	details := "the module has the directories that were named, its streams and no sockets; all of the other lines hold the engine"
	if pages > 0 {
		details = config.FormatSize(int64(pages)*wasm.PageSize) + " of memory; " + details
	}
	if q.Deterministic {
		details += "; clocks and random numbers are the same in each run"
	}
	l.Enforced(status.Isolation, wasm.Engine, details)
	if e.why != nil {
		l.Note(status.Isolation, notKept(e.why))
	}
	l.Note(status.Tasks, "a module makes no processes and threads; those are the engine's")
	x := &p.plan.Exec
	x.Argv = p.plan.moduleArgs(x.Argv[1:], x.Dir, e.entry)
	return nil
}

func notKept(why error) string {
	return "the module is compiled in each run, since what it is compiled to isn't kept: " + why.Error()
}

// moduleArgs is the command line for a module with its arguments that starts in dir.
func (p *Plan) moduleArgs(argv []string, dir, entry string) []string {
	f := &p.policy.Filesystem
	o := wasm.Options{Pages: wasm.Pages(p.policy.MemoryLimit), Deterministic: p.policy.Deterministic, Cache: entry}
	add := func(name string) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.command.Dir, name)
		}
		if name = filepath.Clean(name); !slices.Contains(o.Dirs, name) && name != p.engine.path && name != p.engine.cache {
			o.Dirs = append(o.Dirs, name)
		}
	}
	add(dir)
	for _, names := range [][]string{f.AllowRead, f.AllowWrite, f.Overlay} {
		for _, name := range names {
			add(name)
		}
	}
	for _, m := range f.Mounts {
		add(m.Dst)
	}
	add("/tmp")
	return o.Args(p.engine.path, argv)
}

// compile has the module of a command compiled, if it was not yet: then it calls begin before. What can't be is compiled by the engine
// when it runs.
func (c *Command) compile(ctx context.Context, policy *config.Policy, begin func()) (m modules) {
	if m.cache, m.why = c.moduleCache(policy); m.why == nil {
		m.why = (&wasm.Cache{Dir: m.cache}).Make()
	}
	if m.why != nil {
		return modules{why: m.why}
	}
	name := c.Argv[0]
	if !filepath.IsAbs(name) {
		name = filepath.Join(cmp.Or(policy.Filesystem.Chdir, c.Dir), name)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return m // whoever starts it says so
	}
	defer f.Close()
	m.entry, m.why = c.entryOf(ctx, policy, m.cache, f, begin)
	return m
}

// entryOf is what of a cache is a module's.
func (c *Command) entryOf(ctx context.Context, policy *config.Policy, dir string, f *os.File, begin func()) (string, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	cache := wasm.Cache{Dir: dir, Compile: func(ctx context.Context, module io.Reader, to io.Writer) error {
		begin()
		return c.compiled(ctx, policy, module, to)
	}}
	return cache.Entry(ctx, f, info.Size(), identity(info))
}

// identity is what changes with a file's text. Nobody can set the time of its last change back, and who changes it twice within the
// clock's tick gets what he had compiled looked for under the other text's name, where it isn't.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	var text []byte // by fmt it takes ten times as long
	for _, n := range [...]uint64{st.Dev, st.Ino, uint64(st.Size), uint64(st.Mtim.Nano()), uint64(st.Ctim.Nano())} {
		text = append(strconv.AppendUint(text, n, 10), ' ')
	}
	return string(text)
}

// Of the compiler, whatever the policy's own are: what it makes is there for the next run, too.
const (
	compileTime   = time.Minute
	compileMemory = 2 << 30
)

// compiled runs the engine's compiler in a sandbox that shows nothing but the system.
func (c *Command) compiled(ctx context.Context, policy *config.Policy, module io.Reader, to io.Writer) error {
	path, err := EnginePath()
	if err != nil {
		return err
	}
	q, err := config.Profile("strict")
	if err != nil {
		return err
	}
	q.AllowPartial = policy.AllowPartial
	q.Filesystem.AllowRead = []string{path}
	q.TimeLimit, q.CPUTime, q.MemoryLimit, q.OutputLimit, q.Processes = compileTime, 0, max(policy.MemoryLimit, compileMemory), 0, 64
	q.DiskLimit, q.MaxFileSize = compileMemory, compileMemory
	var said bytes.Buffer
	p, err := Backend{}.Run(ctx, &backend.Spec{Policy: &q, Dir: "/", Environ: c.Environ}, &backend.Exec{Argv: []string{path, "compile"}, Stdin: module, Stdout: to, Stderr: &said})
	if err != nil {
		return err
	}
	if r := p.Wait(); r.Status != status.OK {
		return errors.New(strings.TrimSpace(cmp.Or(said.String(), r.Reason)))
	}
	return nil
}

// gaveUp is what a program in Go exits with when its runtime can't go on. A module can bring that about, by counts that are larger than any
// memory, and so it is the module's end and no fault of the sandbox.
const gaveUp = 2

// heard puts what the engine told of its module into the report. One that exits without a word has failed itself.
func heard(r *status.Report, told []byte) {
	if r.ExitCode == nil || r.Cause != status.CauseExit {
		return // a limit or a signal ended it
	}
	t, err := wasm.Decode(told)
	if len(told) == 0 && *r.ExitCode == gaveUp {
		t = wasm.Told{Status: status.KilledSignal, Signal: "SIGABRT", Reason: "the engine of WebAssembly gave up on the module, as where that wants more memory than there is"}
		*r.ExitCode = 128 + int(syscall.SIGABRT)
	} else if err != nil || len(told) == 0 {
		r.Status, r.Cause, r.Reason = status.InternalError, status.CauseSetup, "the engine of WebAssembly ended without a word"
		r.SetupError = &status.SetupError{Step: "engine", Op: wasm.Program, Error: r.Reason}
		r.RC = r.Status.RC(status.Normalized, 0, 0)
		return
	}
	if t.Memory > 0 {
		r.Usage.Sources["module_memory"] = config.FormatSize(t.Memory) + " at most"
	}
	for _, what := range t.Denied {
		r.Violations = append(r.Violations, status.Violation{Kind: "file", What: what, Count: 1, Rule: "the module has no such thing", Comm: wasm.Engine})
	}
	code, signal := *r.ExitCode, 0
	switch t.Status {
	case "":
		return
	case status.ExecFailed:
		r.Cause, code, r.ExitCode = status.CauseExec, t.Code, nil
	case status.KilledSignal:
		r.Cause, r.Signal, r.ExitCode, signal = status.CauseModule, t.Signal, nil, code-128
	case status.MemLimit:
		r.Cause, r.ExitCode = status.CauseModule, nil
		r.LimitsHit = append(r.LimitsHit, string(status.Memory))
	case status.SandboxDenied:
	default:
		return
	}
	r.Status, r.RC = t.Status, t.Status.RC(status.Normalized, code, signal)
	if t.Reason != "" {
		r.Reason = t.Reason
	}
	r.Ending.NotFound, r.Ending.Remedy, r.Ending.Module = t.Status == status.ExecFailed && code == 127, t.Hint, t.Reason
}

// entryFor is the same of a module that a sandbox shows. What can't be opened is the engine's to tell.
func (s *sandbox) entryFor(ctx context.Context, p *Plan, name, dir string) (string, error) {
	if p.engine.cache == "" {
		return "", nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	r, err := s.Files().Open(name)
	if err != nil {
		return "", nil
	}
	defer r.Close()
	f, ok := r.(*os.File)
	if !ok {
		return "", nil
	}
	dir, err = p.command.moduleCache(p.policy) // somebody inside may have led it elsewhere by now
	if err != nil {
		return "", err
	}
	return p.command.entryOf(ctx, p.policy, dir, f, func() {})
}
