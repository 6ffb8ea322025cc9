package oci

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-spec/specs-go/features"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Usage is what help says.
const usage = `usage: confine oci [--root DIR] [--log FILE] [--log-format text|json] [--disk-limit SIZE] [--allow-partial CAP|all] COMMAND

  create [--bundle DIR] [--pid-file FILE] [--console-socket SOCKET] ID
  start ID
  run [--bundle DIR] [--pid-file FILE] [--console-socket SOCKET] [--detach] ID
  state ID
  kill [--all] ID [SIGNAL]
  delete [--force] ID
  exec [--process FILE] [--pid-file FILE] [--console-socket SOCKET] [--detach] [--tty] [--cwd DIR] [--env K=V]… ID [COMMAND [ARG…]]
  ps [--format table|json] ID
  list
  features
  check [--bundle DIR]     what of a bundle would be taken, and what not

Engines call it as they call runc, by the name confine-oci; docs/OCI.md says how.
`

// runtimeLine is a command line of a runtime.
type runtimeLine struct {
	root     string
	log      log
	disk     int64    // as --disk-limit of a run
	partial  []string // as --allow-partial
	backends func(*config.Policy) backend.Backend

	bundle, pidFile, console, process, cwd, format string
	noPivot, detach, tty, force, all               bool
	preserve                                       int
	env                                            []string
}

// Main is "confine oci".
func Main(args []string, backends func(*config.Policy) backend.Backend) int {
	if len(args) == 1 {
		switch args[0] {
		case holdWord:
			return hold(backends)
		case execWord:
			return stand()
		}
	}
	r := &runtimeLine{backends: backends}
	code, err := r.main(args)
	if err != nil {
		r.log.error(err.Error())
		fmt.Fprintln(os.Stderr, terminal.Blame("confine oci", err))
		return 1
	}
	return code
}

func flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

func (r *runtimeLine) main(args []string) (int, error) {
	f := flags("oci")
	f.StringVar(&r.root, "root", defaultRoot, "")
	f.StringVar(&r.log.Path, "log", "", "")
	format := f.String("log-format", "text", "")
	version := f.Bool("version", false, "")
	f.Func("disk-limit", "", func(v string) (err error) {
		r.disk, err = config.ParseSize(v)
		return err
	})
	f.Func("allow-partial", "", func(v string) error {
		r.partial = append(r.partial, strings.Split(v, ",")...)
		return nil
	})
	// Of runc's: what they choose isn't here.
	f.Bool("systemd-cgroup", false, "")
	f.Bool("debug", false, "")
	f.String("rootless", "auto", "")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Print(usage)
			return 0, nil
		}
		return 0, err
	}
	if r.log.JSON = *format == "json"; !r.log.JSON && *format != "text" {
		return 0, fmt.Errorf("--log-format %q: it is text or json", *format)
	}
	if *version {
		fmt.Println("confine oci\nspec:", specs.Version)
		return 0, nil
	}
	if f.NArg() == 0 || f.Arg(0) == "help" {
		fmt.Print(usage)
		return 0, nil
	}
	root, err := filepath.Abs(r.root)
	if err != nil {
		return 0, err
	}
	if r.root = root; r.log.Path != "" {
		if r.log.Path, err = filepath.Abs(r.log.Path); err != nil {
			return 0, err
		}
	}
	return r.command(f.Arg(0), f.Args()[1:])
}

// commands are those that there are, with how many words they take.
var commands = map[string]struct {
	do          func(*runtimeLine, []string) (int, error)
	least, most int
}{
	"create":   {(*runtimeLine).create, 1, 1},
	"run":      {(*runtimeLine).run, 1, 1},
	"start":    {(*runtimeLine).start, 1, 1},
	"state":    {(*runtimeLine).state, 1, 1},
	"kill":     {(*runtimeLine).kill, 1, 2},
	"delete":   {(*runtimeLine).delete, 1, 1},
	"exec":     {(*runtimeLine).exec, 1, 1 << 20},
	"ps":       {(*runtimeLine).ps, 1, 1 << 20},
	"list":     {(*runtimeLine).list, 0, 0},
	"features": {(*runtimeLine).features, 0, 0},
	"check":    {(*runtimeLine).check, 0, 0},
}

func (r *runtimeLine) command(name string, args []string) (int, error) {
	c, ok := commands[name]
	if !ok {
		return 0, fmt.Errorf("%s: this runtime has no such command", strconv.Quote(name))
	}
	f := flags(name)
	switch name {
	case "create", "run":
		r.bundleFlags(f)
		f.BoolVar(&r.noPivot, "no-pivot", false, "")
		f.Bool("no-new-keyring", false, "") // the process has always one of its own
		f.IntVar(&r.preserve, "preserve-fds", 0, "")
		if name == "run" {
			f.BoolVar(&r.detach, "detach", false, "")
			f.BoolVar(&r.detach, "d", false, "")
		}
	case "exec":
		r.execFlags(f)
	case "kill":
		f.BoolVar(&r.all, "all", false, "")
		f.BoolVar(&r.all, "a", false, "")
	case "delete":
		f.BoolVar(&r.force, "force", false, "")
		f.BoolVar(&r.force, "f", false, "")
	case "ps":
		f.StringVar(&r.format, "format", "table", "")
		f.StringVar(&r.format, "f", "table", "")
	case "check":
		f.StringVar(&r.bundle, "bundle", ".", "")
		f.StringVar(&r.bundle, "b", ".", "")
	}
	if err := f.Parse(args); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if f.NArg() < c.least || f.NArg() > c.most {
		return 0, fmt.Errorf("%s: takes an ID; see confine oci help", name)
	}
	if os.Geteuid() != 0 && name != "check" && name != "features" {
		return 0, errors.New("root alone can make containers here: without root take confine --rootfs DIR")
	}
	return c.do(r, f.Args())
}

func (r *runtimeLine) bundleFlags(f *flag.FlagSet) {
	f.StringVar(&r.bundle, "bundle", ".", "")
	f.StringVar(&r.bundle, "b", ".", "")
	r.consoleFlags(f)
}

func (r *runtimeLine) consoleFlags(f *flag.FlagSet) {
	f.StringVar(&r.pidFile, "pid-file", "", "")
	f.StringVar(&r.console, "console-socket", "", "")
}

func (r *runtimeLine) execFlags(f *flag.FlagSet) {
	r.consoleFlags(f)
	f.StringVar(&r.process, "process", "", "")
	f.StringVar(&r.process, "p", "", "")
	f.StringVar(&r.cwd, "cwd", "", "")
	f.IntVar(&r.preserve, "preserve-fds", 0, "")
	for _, b := range []struct {
		to    *bool
		names []string
	}{{&r.detach, []string{"detach", "d"}}, {&r.tty, []string{"tty", "t"}}} {
		for _, name := range b.names {
			f.BoolVar(b.to, name, false, "")
		}
	}
	add := func(v string) error { r.env = append(r.env, v); return nil }
	f.Func("env", "", add)
	f.Func("e", "", add)
}

// container reads the bundle that is named.
func (r *runtimeLine) container() (*Container, string, error) {
	dir, err := filepath.Abs(r.bundle)
	if err != nil {
		return nil, "", err
	}
	s, err := ReadSpec(dir)
	if err != nil {
		return nil, "", err
	}
	c, err := Translate(dir, s)
	if err != nil {
		return nil, "", err
	}
	if r.disk > 0 {
		c.Policy.DiskLimit = r.disk
	}
	c.Policy.AllowPartial = r.partial
	return c, dir, c.Policy.Validate()
}

func (r *runtimeLine) check([]string) (int, error) {
	c, _, err := r.container()
	if refused, ok := errors.AsType[refusal](err); ok {
		for _, line := range refused {
			fmt.Println("refused:", line)
		}
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	for _, line := range c.Notes {
		fmt.Println("not had:", line)
	}
	return 0, nil
}

// make makes the container of a bundle. Its supervisor is a child of this process.
func (r *runtimeLine) make(id string) (*exec.Cmd, error) {
	switch {
	case r.noPivot:
		return nil, errors.New("--no-pivot is refused: the root is always changed by pivot_root")
	case r.preserve > 0:
		return nil, errors.New("--preserve-fds is refused: nothing gets descriptors but the three streams")
	}
	c, dir, err := r.container()
	if err != nil {
		return nil, err
	}
	if c.Terminal != (r.console != "") && (r.console != "" || r.detach) {
		return nil, errors.New("--console-socket and process.terminal go together")
	}
	for _, line := range c.Notes {
		r.log.info(line)
	}
	unix.Umask(0o022) // of what is made in a root that lacks it
	d, err := newDirectory(r.root, id)
	if err != nil {
		return nil, err
	}
	defer d.close()
	h := &held{ID: id, Bundle: dir, State: filepath.Join(r.root, id), Log: r.log, TTY: c.Terminal, Leads: r.console != "", Container: c}
	var tty *os.File
	if h.TTY {
		if tty = os.Stdin; h.Leads {
			if tty, err = newConsole(r.console); err == nil {
				defer tty.Close()
				if c.Process.Rows > 0 && c.Process.Cols > 0 {
					_ = unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: c.Process.Rows, Col: c.Process.Cols})
				}
			}
		}
	}
	var cmd *exec.Cmd
	if err == nil {
		cmd, err = h.launch(d, tty)
	}
	if err == nil {
		if err = writePID(r.pidFile, cmd.Process.Pid); err == nil {
			return cmd, nil
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return nil, errors.Join(err, d.remove(r.root, true))
}

func (r *runtimeLine) create(args []string) (int, error) {
	r.detach = true // a terminal takes a socket
	_, err := r.make(args[0])
	return 0, err
}

func (r *runtimeLine) run(args []string) (int, error) {
	cmd, err := r.make(args[0])
	if err != nil {
		return 0, err
	}
	if r.detach {
		_, err := r.start(args)
		return 0, err
	}
	defer relay(cmd)()
	if r.console == "" && term.IsTerminal(int(os.Stdin.Fd())) {
		// What the terminal was is put back; it is the supervisor's until then, if anybody's.
		if was, err := term.GetState(int(os.Stdin.Fd())); err == nil {
			defer func() { _ = term.Restore(int(os.Stdin.Fd()), was) }()
		}
	}
	if _, err := r.start(args); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_, _ = r.delete(args)
		return 0, err
	}
	_ = cmd.Wait()
	code := codeOf(cmd)
	_, err = r.delete(args)
	return code, err
}

func codeOf(cmd *exec.Cmd) int {
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// relay hands signals on to a process until it is stopped.
func relay(cmd *exec.Cmd) (stop func()) {
	signals := make(chan os.Signal, 32)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig)
		}
	}()
	return func() { signal.Stop(signals) }
}

// at has something done with a container that is there.
func (r *runtimeLine) at(id string, do func(*directory) error) (int, error) {
	d, err := openDirectory(r.root, id)
	if err != nil {
		return 0, err
	}
	defer d.close()
	return 0, do(d)
}

func (r *runtimeLine) start(args []string) (int, error) {
	return r.at(args[0], func(d *directory) error {
		_, err := d.ask(&order{Op: opStart})
		return err
	})
}

func (r *runtimeLine) state(args []string) (int, error) {
	return r.at(args[0], func(d *directory) error {
		s, err := d.state()
		if err != nil {
			return err
		}
		return tell(s)
	})
}

func tell(what any) error {
	text, err := json.MarshalIndent(what, "", "  ")
	if err == nil {
		_, err = fmt.Println(string(text))
	}
	return err
}

func (r *runtimeLine) kill(args []string) (int, error) {
	sig := unix.SIGTERM
	if len(args) > 1 {
		var err error
		if sig, err = signalOf(args[1]); err != nil {
			return 0, err
		}
	}
	return r.at(args[0], func(d *directory) error {
		_, err := d.ask(&order{Op: opKill, Signal: int(sig), All: r.all})
		return err
	})
}

// signalOf takes numbers, "TERM" and "SIGTERM".
func signalOf(word string) (unix.Signal, error) {
	if n, err := strconv.Atoi(word); err == nil && n > 0 && n <= 64 {
		return unix.Signal(n), nil
	}
	name := strings.ToUpper(word)
	if n := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); n != 0 {
		return n, nil
	}
	return 0, fmt.Errorf("unknown signal %q", word)
}

func (r *runtimeLine) delete(args []string) (int, error) {
	d, err := openDirectory(r.root, args[0])
	if err != nil {
		if r.force && err.Error() == errNone(args[0]).Error() {
			return 0, nil
		}
		return 0, err
	}
	defer d.close()
	// One that is dying by itself is no reason to fail.
	if !r.force && d.alive() {
		if s, err := d.state(); err != nil || s.Status == specs.StateStopped {
			d.gone(patience)
		}
	}
	return 0, d.remove(r.root, r.force)
}

func (r *runtimeLine) list([]string) (int, error) {
	states, err := list(r.root)
	if err != nil {
		return 0, err
	}
	return 0, tell(states)
}

// exec starts a process in a container, which has the user that it has.
func (r *runtimeLine) exec(args []string) (int, error) {
	if r.preserve > 0 {
		return 0, errors.New("--preserve-fds is refused: nothing gets descriptors but the three streams")
	}
	d, err := openDirectory(r.root, args[0])
	if err != nil {
		return 0, err
	}
	defer d.close()
	now, err := d.ask(&order{Op: opState})
	if err != nil {
		return 0, err
	}
	s, err := r.processOf(args[1:], now)
	if err != nil {
		return 0, err
	}
	p, notes, err := ProcessIn(&config.User{UID: now.UID, GID: now.GID}, s)
	if err != nil {
		return 0, err
	}
	for _, line := range notes {
		r.log.info(line)
	}
	if s.Terminal != (r.console != "") && (r.console != "" || r.detach) {
		return 0, errors.New("--console-socket and process.terminal go together")
	}
	x := &stands{Order: order{Op: opExec, Start: p, TTY: s.Terminal}, Leads: r.console != ""}
	tty := os.Stdin
	if x.Leads {
		if tty, err = newConsole(r.console); err != nil {
			return 0, err
		}
		defer tty.Close()
	} else if s.Terminal {
		was, err := term.MakeRaw(int(tty.Fd()))
		if err != nil {
			return 0, fmt.Errorf("--tty: %w", err)
		}
		defer func() { _ = term.Restore(int(tty.Fd()), was) }()
	}
	cmd, err := x.start(d, tty)
	if err != nil {
		return 0, err
	}
	if err := writePID(r.pidFile, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return 0, err
	}
	if r.detach {
		return 0, nil
	}
	defer relay(cmd)()
	_ = cmd.Wait()
	return codeOf(cmd), nil
}

// processOf is what an exec is to start: the file's, or the words'.
func (r *runtimeLine) processOf(argv []string, now *answer) (*specs.Process, error) {
	if r.process == "" {
		s := &specs.Process{Args: argv, Env: r.env, Cwd: r.cwd, Terminal: r.tty, User: specs.User{UID: now.UID, GID: now.GID}, NoNewPrivileges: true}
		s.Cwd = cmp.Or(s.Cwd, "/")
		return s, nil
	}
	f, err := os.Open(r.process)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return nil, err
	}
	s := &specs.Process{}
	if err := decode(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", r.process, err)
	}
	if r.tty {
		s.Terminal = true
	}
	return s, nil
}

// ps lists the processes of a container, by their numbers outside. Its supervisor, which is outside, isn't one.
func (r *runtimeLine) ps(args []string) (int, error) {
	return r.at(args[0], func(d *directory) error {
		s, err := d.state()
		if err != nil {
			return err
		}
		pids := []int{}
		if s.Pid != 0 {
			pids = below(s.Pid)
		}
		if r.format == "json" {
			text, err := json.Marshal(pids)
			if err == nil {
				fmt.Println(string(text))
			}
			return err
		}
		fmt.Println("PID")
		for _, pid := range pids {
			fmt.Println(pid)
		}
		return nil
	})
}

// below are all processes below one.
func below(top int) (all []int) {
	entries, _ := os.ReadDir("/proc")
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) > 1 {
			if parent, err := strconv.Atoi(fields[1]); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	next := []int{top}
	for len(next) > 0 {
		below := children[next[0]]
		all, next = append(all, below...), append(next[1:], below...)
	}
	slices.Sort(all)
	return all
}

func (r *runtimeLine) features([]string) (int, error) {
	yes, no := true, false
	return 0, tell(&features.Features{
		OCIVersionMin: "1.0.0", OCIVersionMax: specs.Version,
		Hooks:        []string{},
		MountOptions: []string{"bind", "rbind", "ro", "rw", "private", "rprivate", "nosuid", "nodev", "size"},
		Linux: &features.Linux{
			Namespaces:   []string{"cgroup", "ipc", "mount", "network", "pid", "uts"},
			Capabilities: []string{},
			Cgroup:       &features.Cgroup{V1: &yes, V2: &yes, Systemd: &no, SystemdUser: &no, Rdma: &no},
			Seccomp:      &features.Seccomp{Enabled: &yes},
			Apparmor:     &features.Apparmor{Enabled: &no},
			Selinux:      &features.Selinux{Enabled: &no},
			IntelRdt:     &features.IntelRdt{Enabled: &no},
		},
		Annotations: map[string]string{"run.confine": "https://github.com/confine-run/confine"},
	})
}
