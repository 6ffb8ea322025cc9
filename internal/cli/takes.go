package cli

import (
	"iter"

	"github.com/confine-run/confine/confine"
)

// Takes says which options a subcommand has.
type Takes uint8

const (
	TakesJSON   Takes = 1 << iota // --json
	TakesAll                      // all of confine.Options
	takesRun                      // --run
	takesPatch                    // --patch, --list
	takesForce                    // --force, --allow-protected
	takesPolicy                   // --arch, --action, --kernel, --bpf
	takesAsk                      // --path, --host, --syscall, --access
	takesLearn                    // --output, --name, --merge, --overwrite

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
	option confine.Option
}{
	{takesRun, confine.Option{Name: "run", Kind: confine.KindText, Arg: "ID", Help: "the run; if left out, the latest that changed something in the current directory or around it"}},
	{takesPatch, confine.Option{Name: "patch", Short: "p", Kind: confine.KindBool, Help: "show what changed in text files: to look at, and for patch(1) as far as nothing is escaped, which it says"}},
	{takesPatch, confine.Option{Name: "list", Kind: confine.KindBool, Help: "list the runs whose changes are kept, with their trees; with --json, an object a line"}},
	{takesForce, confine.Option{Name: "force", Short: "f", Kind: confine.KindBool, Help: "also where the real tree has changed since the run"}},
	{takesForce, confine.Option{Name: "allow-protected", Kind: confine.KindBool, Help: "also what programs outside run or obey, as git hooks"}},
	{takesPolicy, confine.Option{Name: "arch", Kind: confine.KindWord, Arg: "ARCH", Words: []string{"amd64", "arm64"}, Help: "the architecture; if left out, this one, and both for check"}},
	{takesPolicy, confine.Option{Name: "action", Kind: confine.KindWord, Arg: "ACTION", Words: []string{"errno", "kill", "log"}, Help: "as under --seccomp-action"}},
	{takesPolicy, confine.Option{Name: "kernel", Kind: confine.KindText, Arg: "VERSION", Help: "as on this kernel, for entries of profiles that ask; if left out, the running one"}},
	{takesPolicy, confine.Option{Name: "bpf", Kind: confine.KindBool, Help: "show the program, disassembled"}},
	{takesLearn, confine.Option{Name: "output", Short: "o", Kind: confine.KindText, Arg: "FILE", Paths: true, Group: groupLearn, Help: "where the profile goes (default: NAME.confine.toml)"}},
	{takesLearn, confine.Option{Name: "name", Kind: confine.KindText, Arg: "NAME", Group: groupLearn, Help: "what it is called (default: as the command)"}},
	{takesLearn, confine.Option{Name: "merge", Kind: confine.KindText, Arg: "FILE", Paths: true, Group: groupLearn, Help: "add to what an earlier run wrote"}},
	{takesLearn, confine.Option{Name: "overwrite", Kind: confine.KindBool, Group: groupLearn, Help: "replace a file that is there"}},
	{takesAsk, confine.Option{Name: "path", Kind: confine.KindList, Arg: "PATH", Paths: true, Group: groupAsk, Help: "may it be read, or what --access says?"}},
	{takesAsk, confine.Option{Name: "access", Kind: confine.KindList, Arg: "ACCESS", Words: []string{"read", "write", "create", "exec"}, Group: groupAsk, Help: "what is asked about each --path"}},
	{takesAsk, confine.Option{Name: "host", Kind: confine.KindList, Arg: "HOST[:PORT]", Group: groupAsk, Help: "may it be reached?"}},
	{takesAsk, confine.Option{Name: "syscall", Kind: confine.KindList, Arg: "NAME[,ARGUMENT…]", Group: groupAsk, Help: "is it let through? Arguments are numbers and names such as AF_PACKET; \"_\" is any"}},
}

// Has says whether the subcommand takes the option as a flag.
func (t Takes) Has(o *confine.Option) bool {
	if t&TakesAll != 0 && !o.FileOnly && confine.LookupOption(o.Name) != nil {
		return true
	}
	if t&TakesJSON != 0 && o.Name == "json" {
		return true
	}
	for i := range own {
		if own[i].option.Name == o.Name {
			return t&own[i].takes != 0
		}
	}
	return false
}

// lookup finds an option by its name, whether the subcommand takes it or not.
func (t Takes) lookup(name string) *confine.Option {
	for i := range own {
		if t&own[i].takes != 0 && own[i].option.Name == name {
			return &own[i].option
		}
	}
	return confine.LookupOption(name)
}

// options are those that the subcommand takes: its own first.
func (t Takes) options() iter.Seq[*confine.Option] {
	return func(yield func(*confine.Option) bool) {
		for i := range own {
			if t&own[i].takes != 0 && !yield(&own[i].option) {
				return
			}
		}
		all := confine.Options()
		for i := range all {
			if t.Has(&all[i]) && !yield(&all[i]) {
				return
			}
		}
	}
}

// OptionOf finds an option of any subcommand by its name, or nil.
func OptionOf(name string) *confine.Option { return (^TakesNothing).lookup(name) }

// Own are the subcommand's options that say nothing about a run, --json included if
// it takes none of those that do.
func (c *Command) Own() (all []confine.Option) {
	for o := range c.Takes.options() {
		if !c.Takes.All() || confine.LookupOption(o.Name) == nil {
			all = append(all, *o)
		}
	}
	return all
}

// Flags are the options that the subcommand takes.
func (c *Command) Flags() (all []confine.Option) {
	for o := range c.Takes.options() {
		all = append(all, *o)
	}
	return all
}
