package cli

import (
	"cmp"
	"embed"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/config"
)

// Command is one subcommand. Its table drives the dispatch, help, the man page
// and completion.
type Command struct {
	Name    string
	Args    string // what follows the options, for the usage line
	Summary string // one line
	Text    string // paragraphs for help and the man page, or empty
	Takes   Takes
	Words   []string // the words that can follow, where they are a closed set
	// Program does it, which lies beside this one; empty: this one does.
	Program string
}

// Programs that lie beside this one, for what needs more than a run is to start with.
const (
	serverProgram = "confine-server" // net/http
	workerProgram = "confine-worker" // NATS
)

const commandArgs = "[--] COMMAND [ARG…]"

// commands is in the order of help. It holds nothing but constants, so that it
// costs nothing at start.
var commands = [...]Command{
	{Name: "run", Args: commandArgs, Takes: TakesAll,
		Summary: "run a command (the word \"run\" can be left out)",
		Text: "Options stop at the first word that is none; it and everything after it reach the command untouched. " +
			"After -- a word is always a command, even if it is the name of a subcommand."},
	{Name: "explain", Args: "[" + commandArgs + "]", Takes: TakesAll | takesAsk,
		Summary: "show what would be enforced, how and why, and run nothing",
		Text: "Shows the plan for this host: every capability with its mechanism, or why there is only a weaker one; " +
			"every path; and which flag, variable, file or profile each value came from.\n\n" +
			"With --path, --host or --syscall it answers each with yes or no instead, by which rule, and who said that; " +
			"no command is needed then. It exits with 0 when every answer is yes, and with 1 otherwise. Paths are those inside; a " +
			"relative one counts from the current directory. A host without a port asks whether there is any port."},
	{Name: "doctor", Takes: TakesJSON | takesClean,
		Summary: "try what this host can enforce, with the remedy for each no",
		Text: "Exits with 0 when the profile \"default\" can be enforced in full, and with 1 when it can't. Says also which attempts of " +
			"\"confine selftest\" may get through on this host. On Windows a run gives files an entry in their access lists, and takes that back: " +
			"--clean does it for runs that were ended before they could."},
	{Name: "profiles", Args: "[NAME]", Takes: TakesJSON,
		Summary: "list the profiles, or show one as TOML that can be pasted"},
	{Name: "seccomp", Args: "show [POLICY] | check FILE | diff POLICY POLICY", Takes: takesPolicy | TakesJSON, Words: []string{"show", "check", "diff"},
		Summary: "show, check and compare policies over system calls",
		Text: "A POLICY is \"default\", \"strict\" or a file, as --seccomp takes it: TOML, or a profile of Docker or OCI in JSON. " +
			"show prints what every call gets, by which rule and why. check exits with 2 when the file is no policy, with 1 when it denies " +
			"what ordinary programs need or lets through what no policy that ships does, and with 0 otherwise. diff exits with 1 when " +
			"the policies differ."},
	{Name: "learn", Args: commandArgs, Takes: TakesAll | takesLearn,
		Summary: "run a command and write the profile that just allows what it did",
		Text: "The command sees whatever you may read, writes to overlays of the current directory, the home directory and /tmp that are thrown " +
			"away, and reaches any host; options of runs narrow that. What it names of files, whom it reaches, which system calls it makes " +
			"beyond the profile \"strict\" and how much it uses become a profile, with a comment for each line: confine --config FILE -- COMMAND " +
			"runs the command again under strict rules. What couldn't be seen, and what wasn't granted, is said at its head. " +
			"Exits as the command does, and with 125 when nothing could be learned."},
	{Name: "shell", Takes: TakesAll,
		Summary: "start an interactive shell inside",
		Text: "Starts $SHELL, or /bin/sh where that can't be seen inside. Limits on the wall clock, CPU time and output hold " +
			"only when a flag, a variable or a file sets them: those of the profile are made for single commands."},
	{Name: "diff", Args: "[PATH…]", Takes: takesRun | takesPatch | TakesJSON,
		Summary: "show what an overlay run changed",
		Text: "One line for each path: A added, M modified, D deleted, m mode, L symbolic link. Without PATH, everything; a directory " +
			"stands for what is below it. Names count from the current directory if the tree is that, in it or around it; else, and of several trees, they are absolute. Behind a path is said what apply would do otherwise than one expects: hard links, set-id bits, attributes, and what can't be applied because it couldn't be kept whole (--json says why).\n\n" +
			"A patch is to look at. Where control characters and the like are escaped in a file's, a line above its --- says so, backslashes are doubled, and patch(1) can't use it; " +
			"nor does it have binary files, empty ones, modes or links. The rest of one tree is for patch -p1 in that tree."},
	{Name: "apply", Args: "[PATH…]", Takes: takesRun | takesForce,
		Summary: "copy what an overlay run changed to the real tree",
		Text: "All of it, or of the paths that are named, or nothing: when something in the real tree is no longer as the run found " +
			"it, that is said, and nothing is touched. Devices, FIFOs and sockets are never applied, and no file gets a set-id bit that " +
			"it didn't have, or keeps one with new content; directories get set-gid alone. A signal before the commit stops it, and nothing is " +
			"changed; after that it goes on to the end. What was killed is finished or undone by the next apply, diff (without --list) or discard, which says so. Another apply or discard is waited for, " +
			"half a minute at most."},
	{Name: "discard", Args: "[PATH…]", Takes: takesRun,
		Summary: "drop what an overlay run changed"},
	{Name: "session", Args: "start|exec|…", Program: serverProgram,
		Summary: "sandboxes that stay, for one command after another",
		Text: "\"confine session start [options]\" takes the options of a run and prints an ID; \"confine session exec ID CMD…\" runs a " +
			"command in it, and exits as that does. \"confine session help\" lists all of it, docs/SESSIONS.md is the manual. With --nats URL or --embedded before " +
			"start, exec and the like it is about sessions that workers of a queue hold: \"confine session --nats URL help\", docs/CLUSTER.md."},
	{Name: "serve", Args: "[--listen ADDRESS]… [--token-file FILE] [--ceiling NAME|FILE] …", Program: serverProgram,
		Summary: "sandboxes and runs by HTTP, on a socket of your own",
		Text:    "\"confine serve --help\" lists its options, docs/API.md is the manual."},
	{Name: "top", Args: "[--server unix:PATH] [--once] [--json]", Program: serverProgram,
		Summary: "what all sessions use, live",
		Text:    "\"confine top --help\" says more. Where there is no terminal it prints lines."},
	{Name: "submit", Args: "[options] -- COMMAND [ARG…]", Program: workerProgram,
		Summary: "put a command into a queue, for a worker on some host",
		Text: "Takes the options of a run beside its own. \"confine submit --embedded --wait -- CMD…\" needs nothing but this host; with " +
			"--nats URL, any host has workers. \"confine submit --help\" lists its options, docs/CLUSTER.md is the manual."},
	{Name: "jobs", Args: "list|show|logs|…", Program: workerProgram,
		Summary: "what has become of what was submitted",
		Text:    "\"confine jobs help\" lists all of it, docs/CLUSTER.md is the manual."},
	{Name: "worker", Args: "--nats URL --ceiling NAME|FILE [options]", Program: workerProgram,
		Summary: "take commands from a queue, as many as there is room for",
		Text:    "\"confine worker --help\" lists its options, docs/CLUSTER.md is the manual."},
	{Name: "slurm", Args: commandArgs, Takes: TakesAll,
		Summary: "run a command as a task of Slurm, within its allocation",
		Text: "\"srun confine slurm -- CMD\" and a line of a batch script give each task a sandbox of its own, with the memory and the CPUs of the " +
			"allocation where no option says less; more is refused. Slurm's time is the limit, unless one is named. In --report and --events, %j is the job, %s the step, %t the task, %n the " +
			"node. Where this is no task of Slurm's, or the sandbox can't be had, nothing starts. docs/CLUSTER.md has more."},
	{Name: "report", Args: "RECORD [--text] [--html FILE] [--svg FILE] [--trace FILE]", Program: serverProgram,
		Summary: "draw what a run with --record was like",
		Text: "RECORD is what --record of a run wrote: processes, what they used beside their limits, whom they reached, and what was refused to " +
			"them. A page and a picture need nothing from elsewhere; without an option it is drawn in the terminal. docs/PICTURES.md shows one."},
	{Name: "oci", Args: "[--root DIR] [--log FILE] create|start|run|state|kill|delete|exec|…", Program: serverProgram,
		Summary: "containers of bundles, for podman and containerd",
		Text: "The command line of an OCI runtime, which engines call by the name confine-oci: each container is a sandbox. What of a bundle it " +
			"refuses it says by name. \"confine oci help\" lists all of it, docs/OCI.md is the manual."},
	{Name: "selftest", Takes: TakesAll,
		Summary: "try the built-in escape attempts on this host",
		Text: "Makes each attempt outside, where it has to work, and inside, where it must not, under the policy that a run with these " +
			"options would have. Exits with 0 when all that can be tried here were held, and with 1 when one was not. " +
			"\"confine doctor\" says which may get through, without trying."},
	{Name: "trust", Args: "[FILE]",
		Summary: "accept a project's confine.toml",
		Text: "Code that is run may have written the file itself, so one that was found upwards from the current directory " +
			"counts only after this. It counts as long as it stays where it is and as it is."},
	{Name: "completion", Args: "bash|zsh|fish", Words: []string{"bash", "zsh", "fish"},
		Summary: "print a completion script for a shell"},
	{Name: "version", Takes: TakesJSON,
		Summary: "print the version"},
	{Name: "help", Args: "[SUBCOMMAND]",
		Summary: "print help"},
}

// Commands is the table of all subcommands. It is not to be changed.
func Commands() []Command { return commands[:] }

func lookup(name string) *Command {
	for i := range commands {
		if commands[i].Name == name {
			return &commands[i]
		}
	}
	return nil
}

func commandNames() []string {
	names := make([]string, len(commands))
	for i := range commands {
		names[i] = commands[i].Name
	}
	return names
}

//go:embed shells
var shells embed.FS

// completionCommand prints a script, which asks complete.
func completionCommand(s *session, line *Line) (int, error) {
	c := lookup("completion")
	if len(line.Rest) == 0 {
		return rcUsage, &config.UsageError{Msg: "completion: no shell was named", Hint: "usage: confine completion " + c.Args}
	}
	if !slices.Contains(c.Words, line.Rest[0]) {
		return rcUsage, unknownWord("shell", line.Rest[0], c.Words)
	}
	script, err := shells.ReadFile("shells/completion." + line.Rest[0])
	return s.print(string(script)), err
}

func unknownWord(kind, word string, known []string) error {
	return &config.UsageError{Msg: "unknown " + kind + " " + strconv.Quote(word) + config.Meant(word, known), Hint: "there are: " + strings.Join(known, ", ")}
}

// build is what "version --json" prints.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty"` // built from a tree with changes that are in no commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Version is what a release is called; the linker sets it (-X). Otherwise the
// version is what the module system says, or "devel".
var Version string

func thisBuild() build {
	b := build{Version: Version, Commit: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(b.Version, info.Main.Version)
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, set := range info.Settings {
		switch set.Key {
		case "vcs.revision":
			b.Commit = set.Value
		case "vcs.modified":
			b.Dirty = set.Value == "true"
		}
	}
	return b
}

func versionCommand(s *session, line *Line) (int, error) {
	asJSON, err := line.on("json")
	b := thisBuild()
	switch {
	case err != nil:
		return rcUsage, err
	case asJSON:
		return s.print(string(outputs.Encode(b))), nil
	}
	commit := b.Commit
	if b.Dirty {
		commit += ", with changes"
	}
	return s.print("confine " + b.Version + " (" + commit + ") " + b.Go + " " + b.OS + "/" + b.Arch + "\n"), nil
}
