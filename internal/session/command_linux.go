package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/unseen"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

const usage = `usage: confine session COMMAND …

A sandbox that stays, for commands one after another or at once.

  start [options] [--name N] [--idle-timeout D] [--lifetime D] [--owner-pid PID]
        [--from SNAPSHOT] [-- COMMAND]
                          open one, and print its ID; the options are those of a run, and COMMAND is whose tool
                          chain is to be visible. It ends after D without a command (1h), D after its start (24h), or with PID
  exec ID [-i] [-t] [--detach] [--env K=V]… [--dir D] [--time-limit D] [--] CMD…
                          run a command in it; exits as the command does
  shell ID                an interactive shell in it
  cp SRC DST              copy a file or a directory; one of the two is ID:PATH
  ps ID [--json]          its processes, and what each uses
  logs ID PROCESS [-f]    what a process wrote
  kill ID PROCESS [SIGNAL]
  list, ls [--json]       all sessions, what each uses, and for a day those that have ended
  network ID [--json] [--allow-network HOST]… [--deny-network HOST]… …
                          change whom it may reach, by the network options of a run, and print what holds: an option that
                          is given replaces what it was, and connections that aren't allowed any more end
  snapshot ID [NAME]      write its files down, and print the ID of that; no process is in it, but with --isolation vm
  snapshot --list [--json]
  snapshot --remove NAME…
  snapshot --export NAME  write it to standard output, as a bundle
  snapshot --import ID    take a bundle from standard input, which has to be that of the ID
  restore ID NAME         make its files what they were in a snapshot; what runs in it ends
  fork ID [--name N] [--idle-timeout D] [--lifetime D]
                          another session with the same files, and without the processes, but with --isolation vm; prints its ID
  teleport ID --to URL [--token-file FILE] [--from URL [--from-token-file FILE]]
                          have it go on at another server (unix:PATH, http://HOST:PORT), and print its ID there. With --isolation
                          vm its processes go on, and connections to them are broken; else it is files, and nothing may run.
                          ID is a session's, or a sandbox's of the server --from. Whoever was interrupted says the same again
  diff ID [--patch] [--json] [PATH…]
                          what it has changed in the caller's files by now, where it has an overlay of them
  apply ID [--force] [--allow-protected] [--dry-run] [PATH…]
                          copy that to the caller's files, all of it or nothing; the session goes on
  stop ID                 end it and everything in it
  gc                      forget those that have ended

ID is the word that start printed, the beginning of it, or the session's name. With --nats URL or --embedded before COMMAND, it is about sessions
that workers of a queue hold: "confine session --nats URL help".
`

// commands are the subcommands: what they do with the words behind them.
var commands = map[string]func(ctx context.Context, args []string) (int, error){
	"start": startCommand, "exec": execCommand, "shell": shellCommand, "cp": copyCommand, "ps": psCommand, "logs": logsCommand,
	"snapshot": snapshotCommand, "restore": restoreCommand, "fork": forkCommand, "teleport": teleportCommand, "diff": diffCommand, "apply": applyCommand,
	"kill": killCommand, "list": listCommand, "ls": listCommand, "network": networkCommand, "stop": stopCommand, "gc": gcCommand,
}

// Main is "confine session" with its arguments. It gives the exit code.
func Main(args []string, backends func(*config.Policy) backend.Backend) int {
	if len(args) > 0 && args[0] == holdWord {
		return hold(args[1:], backends)
	}
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		fmt.Print(usage)
		return 0
	}
	do := commands[args[0]]
	if do == nil {
		return fail(&config.UsageError{Msg: fmt.Sprintf("%q is no command of sessions", args[0]), Hint: cmp.Or(hint.DidYouMean(args[0], slices.Sorted(maps.Keys(commands))), `"confine session help" lists them`)})
	}
	if len(args) > 1 && (args[1] == "-h" || args[1] == "--help") {
		fmt.Print(usage)
		return 0
	}
	ctx, stop := context.Background(), func() {}
	if args[0] != "exec" && args[0] != "shell" { // those pass signals on
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	}
	defer stop()
	rc, err := do(ctx, args[1:])
	if err != nil {
		return fail(ended(args[1:], err))
	}
	return rc
}

// ended says how a session ended whose supervisor went away while it was asked.
func ended(args []string, err error) error {
	if len(args) == 0 || !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		return err
	}
	i, notFound := find(args[0])
	if notFound != nil {
		return err
	}
	if i, notEnded := i.wait(2 * time.Second); notEnded == nil {
		return errEnded(args[0], i)
	}
	return err
}

// fail says what went wrong.
func fail(err error) int {
	fmt.Fprintln(os.Stderr, terminal.Blame("confine session", err))
	return status.UsageRC
}

// words takes so many words, and nothing that looks like an option.
func words(args []string, least, most int, form string) error {
	for _, a := range args {
		if strings.HasPrefix(a, "-") && a != "-" {
			return &config.UsageError{Msg: fmt.Sprintf("unknown option %q", a), Hint: "usage: confine session " + form}
		}
	}
	if len(args) < least || len(args) > most {
		return &config.UsageError{Msg: "usage: confine session " + form}
	}
	return nil
}

func startCommand(ctx context.Context, args []string) (int, error) {
	if _, err := parseStart(args); err != nil {
		return 0, err
	}
	_, _ = bury(false)
	b, err := launch(ctx, args)
	if err != nil {
		return 0, err
	}
	if b.Error != "" {
		return 0, &config.UsageError{Msg: b.Error, Hint: b.Hint}
	}
	for _, n := range b.Notices {
		fmt.Fprintln(os.Stderr, "confine session: "+n)
	}
	fmt.Println(b.ID)
	return 0, nil
}

// open finds a session that stands, and a client of it. path is that of its sandbox. It is another where sessions are elsewhere.
var open = openHere

func openHere(word string) (c *serve.Client, path string, err error) {
	i, err := standing(word)
	if err != nil {
		return nil, "", err
	}
	return serve.NewClient(i.socket()), "/v1/sandboxes/" + i.ID, nil
}

// opened is open for a command of so many words, the first of which is the session's.
func opened(args []string, least, most int, form string) (*serve.Client, string, error) {
	if err := words(args, least, most, form); err != nil {
		return nil, "", err
	}
	return open(args[0])
}

// processView is what is shown of a process.
type processView struct {
	Process int            `json:"process"`
	State   string         `json:"state"`
	Argv    []string       `json:"argv"`
	Started time.Time      `json:"started"`
	Seq     uint64         `json:"seq"`             // of the newest frame
	Usage   *backend.Usage `json:"usage,omitempty"` // of one that runs
	Report  *status.Report `json:"report,omitempty"`
}

func psCommand(ctx context.Context, args []string) (int, error) {
	asJSON := len(args) == 2 && args[1] == "--json"
	if asJSON {
		args = args[:1]
	}
	c, path, err := opened(args, 1, 1, "ps ID [--json]")
	if err != nil {
		return 0, err
	}
	var all struct {
		Processes []processView `json:"processes"`
	}
	if err := c.Do(ctx, "GET", path+"/processes", nil, &all); err != nil {
		return 0, err
	}
	if asJSON {
		return 0, json.NewEncoder(os.Stdout).Encode(all.Processes)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tSTATE\tSTARTED\tENDED AS\tCPU\tMEMORY\tTASKS\tCOMMAND")
	for _, p := range all.Processes {
		ended, cpu, memory, tasks := "", "", "", ""
		if r := p.Report; r != nil {
			ended = string(r.Status)
			cpu = (time.Duration(r.Usage.CPUMS) * time.Millisecond).String()
			memory = config.FormatSize(r.Usage.MemoryPeakBytes)
		} else {
			cpu, memory, tasks, _ = used(p.Usage)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Process, p.State, p.Started.Local().Format("15:04:05"), ended, cpu, memory, tasks, visible(strings.Join(p.Argv, " ")))
	}
	return 0, w.Flush()
}

// visible makes a line of text that can't move the cursor, nor be read in another order.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || unseen.Is(r) {
			return '?'
		}
		return r
	}, text)
}

func logsCommand(ctx context.Context, args []string) (int, error) {
	follow := false
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		is := a == "-f" || a == "--follow"
		follow = follow || is
		return is
	})
	c, path, err := opened(args, 2, 2, "logs ID PROCESS [-f]")
	if err != nil {
		return 0, err
	}
	path += "/processes/" + url.PathEscape(args[1])
	var p processView
	if err := c.Do(ctx, "GET", path, nil, &p); err != nil {
		return 0, err
	}
	err = c.Frames(ctx, path+"/output", 0, sandboxes.FrameExit, func(f *sandboxes.Frame) error {
		if err := relay(f); err != nil {
			return err
		}
		if !follow && f.Seq >= p.Seq {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return 0, err
}

var errEnough = errors.New("enough")

// relay writes a frame of output to where it belongs.
func relay(f *sandboxes.Frame) (err error) {
	switch f.Type {
	case sandboxes.FrameStdout:
		_, err = os.Stdout.Write(f.Bytes())
	case sandboxes.FrameStderr:
		_, err = os.Stderr.Write(f.Bytes())
	}
	return err
}

func killCommand(ctx context.Context, args []string) (int, error) {
	c, path, err := opened(args, 2, 3, "kill ID PROCESS [SIGNAL]")
	if err != nil {
		return 0, err
	}
	sig := "TERM"
	if len(args) > 2 {
		sig = args[2]
	}
	return 0, c.Do(ctx, "POST", path+"/processes/"+url.PathEscape(args[1])+"/signal", map[string]string{"signal": sig}, nil)
}

// line is a session as "list" shows it.
type line struct {
	*info
	State     string         `json:"state"`
	Deadline  *time.Time     `json:"deadline,omitempty"`
	Processes int            `json:"processes"`
	Usage     *backend.Usage `json:"usage,omitempty"`
}

// used is what is used as people read it; "-" is what nobody counts.
func used(u *backend.Usage) (cpu, memory, tasks, scratch string) {
	if u == nil {
		return "-", "-", "-", "-"
	}
	size := func(n int64) string {
		if n < 0 {
			return "-"
		}
		if n == 0 {
			return "0"
		}
		return config.FormatSize(n &^ (4<<10 - 1)) // of whole pages
	}
	cpu, tasks = "-", "-"
	if u.CPU >= 0 {
		cpu = u.CPU.Round(10 * time.Millisecond).String()
	}
	if u.Tasks >= 0 {
		tasks = strconv.FormatInt(u.Tasks, 10)
	}
	return cpu, size(u.Memory), tasks, size(u.Scratch)
}

func listCommand(ctx context.Context, args []string) (int, error) {
	asJSON := len(args) == 1 && args[0] == "--json"
	if !asJSON {
		if err := words(args, 0, 0, "list [--json]"); err != nil {
			return 0, err
		}
	}
	all, err := list()
	if err != nil {
		return 0, err
	}
	lines := []line{}
	for _, i := range all {
		l := line{info: i, State: "running"}
		if i.Ended != nil {
			l.State = "ended"
		} else {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			err := serve.NewClient(i.socket()).Do(short, "GET", "/v1/sandboxes/"+i.ID, nil, &l)
			slow := short.Err() != nil
			cancel()
			if err != nil {
				l.State = "unreachable"
			}
			if err != nil && !slow { // whoever answers no more may be about to write down how it ended
				if now, err := i.wait(time.Second); err == nil {
					l.info, l.State = now, "ended"
				}
			}
		}
		lines = append(lines, l)
	}
	if asJSON {
		return 0, json.NewEncoder(os.Stdout).Encode(lines)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSTATE\tCREATED\tPROCESSES\tCPU\tMEMORY\tTASKS\tSCRATCH\tENDS")
	for _, l := range lines {
		ends := "never"
		if l.Deadline != nil {
			ends = "in " + time.Until(*l.Deadline).Round(time.Second).String()
		}
		if l.Ended != nil {
			ends = l.Ended.Cause + ": " + visible(l.Ended.Reason)
		}
		cpu, memory, tasks, scratch := used(l.Usage)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.ID, visible(l.Name), l.State, l.Created.Local().Format("2006-01-02 15:04:05"),
			l.Processes, cpu, memory, tasks, scratch, ends)
	}
	return 0, w.Flush()
}

func stopCommand(ctx context.Context, args []string) (int, error) {
	if err := words(args, 1, 1, "stop ID"); err != nil {
		return 0, err
	}
	i, err := find(args[0])
	if err != nil || i.Ended != nil {
		return 0, err
	}
	supervisor, _ := gone(i.PID) // nil: it is
	err = serve.NewClient(i.socket()).Do(ctx, "DELETE", "/v1/sandboxes/"+i.ID, nil, nil)
	if _, waited := i.wait(stopPatience); waited != nil {
		return 0, errors.Join(err, waited)
	}
	// It says that the last of its sessions has ended before it ends itself.
	if supervisor != nil && !i.shared() {
		select {
		case <-supervisor:
		case <-time.After(stopPatience):
			return 0, errors.New("the session has ended, and its supervisor has not")
		}
	}
	return 0, nil
}

// stopPatience is for a session to end, and then for its supervisor.
const stopPatience = 10 * time.Second

// shared says whether the supervisor of a session has another.
func (i *info) shared() bool {
	all, _ := list()
	return slices.ContainsFunc(all, func(o *info) bool { return o.ID != i.ID && o.PID == i.PID && o.Ended == nil })
}

func gcCommand(_ context.Context, args []string) (int, error) {
	if err := words(args, 0, 0, "gc"); err != nil {
		return 0, err
	}
	removed, err := bury(true)
	for _, id := range removed {
		fmt.Println(id)
	}
	return 0, err
}

// place is SRC or DST of "cp".
type place struct {
	client *serve.Client
	path   string // of the file, for the client; or a name on this side
}

func placeOf(word string) (*place, error) {
	id, name, ok := strings.Cut(word, ":")
	if !ok || strings.Contains(id, "/") {
		return &place{path: word}, nil
	}
	if !filepath.IsAbs(name) {
		return nil, &config.UsageError{Msg: fmt.Sprintf("%q is not absolute", name), Hint: "write ID:/PATH; of a name here that has a colon, ./NAME"}
	}
	c, path, err := open(id)
	if err != nil {
		return nil, err
	}
	var parts []string
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return &place{c, path + "/files/" + strings.Join(parts, "/")}, nil
}

func copyCommand(ctx context.Context, args []string) (int, error) {
	if err := words(args, 2, 2, "cp SRC DST"); err != nil {
		return 0, err
	}
	from, err := placeOf(args[0])
	if err != nil {
		return 0, err
	}
	to, err := placeOf(args[1])
	if err != nil {
		return 0, err
	}
	switch {
	case (from.client == nil) == (to.client == nil):
		return 0, &config.UsageError{Msg: "one of the two has to be ID:/PATH, and the other a name here"}
	case to.client != nil:
		return 0, upload(ctx, from.path, to, filepath.Base(args[0]))
	}
	return 0, download(ctx, from, to.path)
}
