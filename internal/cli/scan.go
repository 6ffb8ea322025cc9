package cli

import (
	"iter"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
)

// Line is a parsed command line.
type Line struct {
	Settings []config.Setting // in order, one per flag
	Rest     []string         // from the first word that is no option, untouched
	Help     bool             // -h or --help stood before Rest
	Ended    bool             // "--" stood before Rest
}

// Own is an option of a subcommand's that is none of a run.
type Own struct {
	Switch bool // it takes no value, but "true" or "false" behind "="
	Set    func(word string) error
}

// ScanOwn takes arguments apart: those that own knows by their names, and options of a run, up to "--" or the first word that is none. rest is
// what follows.
func ScanOwn(args []string, own func(name string) *Own) (settings []config.Setting, rest []string, err error) {
	for len(args) > 0 {
		word := args[0]
		name, value, attached := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		var option *Own
		if strings.HasPrefix(word, "--") {
			option = own(name)
		}
		if option == nil {
			line, err := Scan(TakesAll, args[:1])
			if err == nil && (line.Ended || len(line.Rest) > 0) {
				if line.Ended {
					args = args[1:]
				}
				return settings, args, nil
			}
			n := 1
			if err != nil { // it needs a value, or is unknown: the next word tells
				if line, err = Scan(TakesAll, args[:min(2, len(args))]); err != nil {
					return nil, nil, err
				}
				n = 2
			}
			settings, args = append(settings, line.Settings...), args[n:]
			continue
		}
		args = args[1:]
		switch {
		case attached:
		case option.Switch:
			value = "true"
		case len(args) == 0:
			return nil, nil, &config.UsageError{Msg: word + " needs a value"}
		default:
			value, args = args[0], args[1:]
		}
		if err := option.Set(value); err != nil {
			return nil, nil, &config.UsageError{Msg: "--" + name + " " + strconv.Quote(value) + ": " + err.Error()}
		}
	}
	return settings, nil, nil
}

// Scan parses args: flags up to the first word that is none, or up to "--",
// which is dropped. The words after that belong to the command and are not
// looked at. Values are interpreted by config.Resolve.
func Scan(takes Takes, args []string) (Line, error) {
	var line Line
	for len(args) > 0 {
		word := args[0]
		if len(word) < 2 || word[0] != '-' {
			break
		}
		args = args[1:]
		switch word {
		case "--":
			line.Rest, line.Ended = args, true
			return line, nil
		case "-h", "--help":
			line.Help = true
			continue
		}
		o, value, attached, err := flag(takes, word)
		if err != nil {
			return line, err
		}
		if !attached {
			switch {
			case o.IsBool():
				value = "true"
			case len(args) == 0:
				return line, &config.UsageError{Msg: word + " needs a value: " + o.Arg, Hint: usageHint}
			default:
				value, args = args[0], args[1:]
			}
		}
		line.Settings = append(line.Settings, config.Setting{Option: o.Name, Values: []string{value}})
	}
	line.Rest = args
	return line, nil
}

const usageHint = `"confine help run" lists all options`

// flag finds the option that word names, and the value in the same word:
// --name=value, -n=value or -nvalue.
func flag(takes Takes, word string) (o *config.Option, value string, attached bool, err error) {
	if name, isLong := strings.CutPrefix(word, "--"); isLong {
		name, value, attached = strings.Cut(name, "=")
		if o = takes.lookup(name); o == nil {
			return nil, "", false, unknown(takes, name, word)
		}
		return o, value, attached, nil
	}
	name, _, _ := strings.Cut(word[1:], "=")
	if len(name) > 1 && takes.lookup(name) != nil {
		return nil, "", false, &config.UsageError{
			Msg:  "unknown option " + strconv.Quote(word) + ", did you mean \"--" + name + "\"?",
			Hint: "only one letter follows a single dash",
		}
	}
	for o := range takes.options() {
		if o.Short == "" || o.Short[0] != word[1] {
			continue
		}
		value, attached = word[2:], len(word) > 2
		return o, strings.TrimPrefix(value, "="), attached, nil
	}
	return nil, "", false, unknown(takes, word[1:], word)
}

// unknown is the error for an option that isn't there, with the nearest that is.
func unknown(takes Takes, name, word string) error {
	err := &config.UsageError{Msg: "unknown option " + strconv.Quote(word), Hint: usageHint}
	var names []string
	if o := config.LookupOption(name); o != nil && o.FileOnly && takes.All() {
		err.Hint = "it can only be said in a file, as " + o.Key
		return err
	}
	for o := range takes.options() {
		names = append(names, o.Name)
	}
	if !takes.All() {
		err.Hint = `"confine help" lists the subcommands and their options`
	}
	if name == "version" {
		err.Hint = `"confine version" prints the version`
		return err
	}
	if positive, ok := strings.CutPrefix(name, "no-"); ok {
		if o := takes.lookup(positive); o != nil && o.IsBool() {
			err.Hint = "write --" + positive + "=false"
			return err
		}
	}
	if here := peerHint(word, name); here != "" && takes.All() {
		err.Hint = here
		return err
	}
	if near := hint.Nearest(name, append(names, "help")); near != "" && len(name) > 1 {
		err.Msg += ", did you mean \"--" + near + "\"?"
	}
	return err
}

// Takes says which options a subcommand has.
type Takes uint16

const (
	TakesJSON   Takes = 1 << iota // --json
	TakesAll                      // all of config.Options
	takesRun                      // --run
	takesPatch                    // --patch, --list
	takesForce                    // --force, --allow-protected
	takesPolicy                   // --arch, --action, --kernel, --bpf
	takesAsk                      // --path, --host, --syscall, --access
	takesLearn                    // --output, --name, --merge, --overwrite
	takesClean                    // --clean

	TakesNothing Takes = 0
)

const (
	groupAsk   = "Questions"
	groupLearn = "The profile"
)

// All says whether the subcommand takes the options of runs.
func (t Takes) All() bool { return t&TakesAll != 0 }

// own are options that say nothing about a run.
var own = [...]struct {
	takes  Takes
	option config.Option
}{
	{takesRun, config.Option{Name: "run", Kind: config.KindText, Arg: "ID", Help: "the run; if left out, the latest that changed something in the current directory or around it"}},
	{takesPatch, config.Option{Name: "patch", Short: "p", Kind: config.KindBool, Help: "show what changed in text files: to look at, and for patch(1) as far as nothing is escaped, which it says"}},
	{takesPatch, config.Option{Name: "list", Kind: config.KindBool, Help: "list the runs whose changes are kept, with their trees; with --json, an object a line"}},
	{takesForce, config.Option{Name: "force", Short: "f", Kind: config.KindBool, Help: "also where the real tree has changed since the run"}},
	{takesForce, config.Option{Name: "allow-protected", Kind: config.KindBool, Help: "also what programs outside run or obey, as git hooks, and links that lead out of the tree"}},
	{takesPolicy, config.Option{Name: "arch", Kind: config.KindWord, Arg: "ARCH", Words: []string{"amd64", "arm64"}, Help: "the architecture; if left out, this one, and both for check"}},
	{takesPolicy, config.Option{Name: "action", Kind: config.KindWord, Arg: "ACTION", Words: []string{"errno", "kill", "log"}, Help: "as under --seccomp-action"}},
	{takesPolicy, config.Option{Name: "kernel", Kind: config.KindText, Arg: "VERSION", Help: "as on this kernel, for entries of profiles that ask; if left out, the running one"}},
	{takesPolicy, config.Option{Name: "bpf", Kind: config.KindBool, Help: "show the program, disassembled"}},
	{takesLearn, config.Option{Name: "output", Short: "o", Kind: config.KindText, Arg: "FILE", Paths: true, Group: groupLearn, Help: "where the profile goes (default: NAME.confine.toml)"}},
	{takesLearn, config.Option{Name: "name", Kind: config.KindText, Arg: "NAME", Group: groupLearn, Help: "what it is called (default: as the command)"}},
	{takesLearn, config.Option{Name: "merge", Kind: config.KindText, Arg: "FILE", Paths: true, Group: groupLearn, Help: "add to what an earlier run wrote"}},
	{takesLearn, config.Option{Name: "overwrite", Kind: config.KindBool, Group: groupLearn, Help: "replace a file that is there"}},
	{takesClean, config.Option{Name: "clean", Kind: config.KindBool, Help: "take back what runs have left that were ended from outside"}},
	{takesAsk, config.Option{Name: "path", Kind: config.KindList, Arg: "PATH", Paths: true, Group: groupAsk, Help: "may it be read, or what --access says?"}},
	{takesAsk, config.Option{Name: "access", Kind: config.KindList, Arg: "ACCESS", Words: []string{"read", "write", "create", "exec"}, Group: groupAsk, Help: "what is asked about each --path"}},
	{takesAsk, config.Option{Name: "host", Kind: config.KindList, Arg: "HOST[:PORT]", Group: groupAsk, Help: "may it be reached?"}},
	{takesAsk, config.Option{Name: "syscall", Kind: config.KindList, Arg: "NAME[,ARGUMENT…]", Group: groupAsk, Help: "is it let through? Arguments are numbers and names such as AF_PACKET; \"_\" is any"}},
}

// lookup finds an option that the subcommand takes, or gives nil.
func (t Takes) lookup(name string) *config.Option {
	for o := range t.options() {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// options are those that the subcommand takes: its own first.
func (t Takes) options() iter.Seq[*config.Option] {
	return func(yield func(*config.Option) bool) {
		for i := range own {
			if t&own[i].takes != 0 && !yield(&own[i].option) {
				return
			}
		}
		all := config.Options()
		for i := range all {
			o := &all[i]
			if (t.All() && !o.FileOnly || t&TakesJSON != 0 && o.Name == "json") && !yield(o) {
				return
			}
		}
	}
}

// Own are the subcommand's options that say nothing about a run, --json included if
// it takes none of those that do.
func (c *Command) Own() (all []config.Option) {
	for o := range c.Takes.options() {
		if !c.Takes.All() || config.LookupOption(o.Name) == nil {
			all = append(all, *o)
		}
	}
	return all
}

// Flags are the options that the subcommand takes.
func (c *Command) Flags() (all []config.Option) {
	for o := range c.Takes.options() {
		all = append(all, *o)
	}
	return all
}

// peers are options of programs like this one, by their names there, and what they are here.
// Separators count as one: --rlimit_as of nsjail is --rlimit-as of firejail. What has a dash
// and one letter is the short form. None of them is an option of ours.
var peers = [...]struct{ names, hint string }{
	{"net network disable-clone-newnet iface N block-net", "there is no network unless --allow-network HOST names whom the command may reach; --allow-network all is the network as it is"},
	{"allow-net", "--allow-network HOST[:PORT] allows a host, --allow-network all the network as it is"},
	{"share-net unrestricted-network", "--allow-network all is the network as it is"},
	{"unshare-net unshare-all unshare-user unshare-user-try unshare-pid unshare-ipc unshare-uts unshare-cgroup unshare-cgroup-try unshare " +
		"netns ipc-namespace noroot as-pid-1 die-with-parent new-session init rm cleanup private-dev private-tmp nonewprivs no-new-privileges nosound x11",
		"leave it out: that is how each run is"},
	{"bind bind-try dev-bind dev-bind-try bindmount B rw rwx read-write write whitelist", "--allow-write PATH shows PATH and lets the command write there; --mount SRC:DST:rw shows it elsewhere"},
	{"ro-bind ro-bind-try bindmount-ro R ro rox read allow-path", "--allow-read PATH shows PATH; --mount SRC:DST:ro shows it elsewhere"},
	{"volume v", "--mount SRC:DST:ro or --mount SRC:DST:rw; --allow-read PATH and --allow-write PATH show a place under its own name"},
	{"read-only remount-ro", "everything is read-only, but for what --allow-write PATH, --workdir or --overlay PATH makes writable"},
	{"blacklist", "--deny GLOB hides what a rule would show"},
	{"tmpfs tmpfsmount T", "--mount tmpfs:DST:SIZE is an empty place of its own; $TMPDIR is one always"},
	{"tmp-overlay overlay-src", "--overlay PATH keeps what is written to PATH apart, --workdir overlay that to the current directory"},
	{"private private-home private-cwd", "--workdir none hides the current directory; the home directory is hidden unless the profile or --allow-read shows it"},
	{"chroot c root", "--rootfs DIR shows a prepared tree as /"},
	{"cwd pwd w", "--chdir DIR is where the command starts; --workdir says how the current directory appears"},
	{"proc dev proc-ro disable-proc", "leave it out: each run has a /proc and a minimal /dev of its own"},
	{"noprofile", "--profile permissive allows most of what a profile may"},
	{"e setenv", "--env NAME=VALUE sets a variable, --env NAME passes yours on"},
	{"env-file", "--env NAME=VALUE for each, or set = {…} below [sandbox.env] in a file for --config"},
	{"unsetenv clearenv env-clear", "leave it out: only a few variables are passed on unless --env or --keep-env says so"},
	{"full-env preserve-env E", "--keep-env passes all variables on"},
	{"memory mem max-memory cg-mem cgroup-mem-max memory-max rlimit-as as ulimit-v", "--memory-limit SIZE is for all of the command's processes together"},
	{"memory-swap memory-swappiness", "leave it out: --memory-limit SIZE covers swap where the kernel can"},
	{"pids-limit pids max-processes tasks-max cgroup-pids-max rlimit-nproc nproc", "--processes N limits the processes and threads of the command"},
	{"rlimit-nofile nofile open-files", "--file-descriptors N limits the open files of a process"},
	{"rlimit-fsize fsize", "--max-file-size SIZE limits a single file, --disk-limit SIZE all that is written"},
	{"rlimit-cpu max-cpu time", "--cpu-time DURATION is of all processes together, --time-limit DURATION the wall clock"},
	{"wall-time extra-time timeout", "--time-limit DURATION limits the wall clock"},
	{"kill-after k stop-timeout", "--grace DURATION is the time between SIGTERM and SIGKILL"},
	{"max-cpus cpuset cpuset-cpus", "--cpus N limits the number of cores, --cpu-limit PERCENT the rate"},
	{"cgroup-cpu-ms-per-sec cpu-quota cpu-shares", "--cpu-limit PERCENT limits the rate, in percent of one core"},
	{"shm-size storage-opt quota size", "--disk-limit SIZE limits what can be written in all"},
	{"ulimit", "--file-descriptors, --max-file-size, --processes, --memory-limit and --cpu-time each set a limit"},
	{"cap-drop caps-drop caps drop-caps", "leave it out: the command has no capability"},
	{"cap-add keep-caps privileged", "the command never has a capability; as root, confine only what needs none"},
	{"security-opt seccomp-policy seccomp-string P", "--seccomp FILE takes a policy of one's own, or a profile of Docker's"},
	{"uid gid group u", "--user UID:GID, as root"},
	{"it i interactive pty", "leave it out: the command gets a terminal when you have one; --tty always makes one"},
	{"meta json-status-fd info-fd", "--report FILE or --report fd:N writes the report"},
	{"quiet silent really-quiet q s", "--log quiet"},
	{"verbose V sandbox-log", "--log verbose"},
	{"sandbox", "leave it out: each run is confined; --profile NAME says by which profile"},
	{"settings", "--config FILE reads a file"},
	{"best-effort", "--allow-partial CAPABILITY,… accepts what the host can't enforce"},
	{"allow-all A", "--profile permissive --allow-network all allows most of what there is to allow"},
	{"hostname name entrypoint detach d device gpus", "there is nothing like it here: leave it out"},
}

// peerHint is what says an option of another program's here, or "". word is as it was typed,
// name what follows its dashes, without a value.
func peerHint(word, name string) string {
	if !strings.HasPrefix(word, "--") && name != "it" {
		name = name[:1]
	} else if len(name) == 1 {
		return ""
	}
	name = strings.NewReplacer("_", "-", ".", "-").Replace(name)
	for _, p := range peers {
		for n := range strings.FieldsSeq(p.names) {
			if n == name {
				return p.hint
			}
		}
	}
	return ""
}
