package cli

import (
	"cmp"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

// What help and the man page say beside the two tables.
const (
	OneLine = "run any command under a policy, and say honestly how it ended"

	Description = "Runs COMMAND with limits on time, memory, processes, files, output, network and system calls, " +
		"and ends with an exit code that says how the run ended. Without options the profile \"default\" holds. " +
		"What the host can't enforce is never skipped: nothing starts then, unless --allow-partial says so."

	Values = "Sizes are 512M, 512MiB, 1.5G or a number of bytes, 1024-based. Durations are 10s, 1.5m, 100ms or a number of " +
		"seconds. \"none\" takes a limit away. A value can be written --name=value, --name value, -n value or -nvalue; " +
		"a switch is turned off with --name=false."

	Twins = "Every option has a twin in the environment, CONFINE_TIME_LIMIT for --time-limit, which counts less than the " +
		"flag and more than any file."
)

// page prints the help of a subcommand; "" is the program's own.
func (s *session) page(name string) int {
	if c := lookup(name); c != nil {
		return s.print(commandPage(c))
	}
	return s.print(programPage())
}

func helpCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) == 0 {
		return s.page(""), nil
	}
	if lookup(line.Rest[0]) == nil {
		return rcUsage, unknownWord("subcommand", line.Rest[0], commandNames())
	}
	return s.page(line.Rest[0]), nil
}

func programPage() string {
	var b strings.Builder
	b.WriteString(pageHead("confine", OneLine, "confine [options] [--] COMMAND [ARG…]\nconfine SUBCOMMAND …", Description) + "\nSUBCOMMANDS\n")
	for _, c := range commands {
		b.WriteString(column(c.Name, c.Summary, 14) + "\n")
	}
	return b.String() + "\nOptions: \"confine help run\". Manual: \"man confine\".\n"
}

func pageHead(name, summary, usage, text string) string {
	head := name + " - " + summary + "\n\nUSAGE\n" + fill(usage, "  ", "  ") + "\n"
	if text != "" {
		head += "\n" + fill(text, "", "") + "\n"
	}
	return head
}

func commandPage(c *Command) string {
	usage, text := "confine "+c.Name, c.Text
	switch {
	case c.Takes == TakesJSON:
		usage += " [--json]"
	case c.Takes != TakesNothing:
		usage += " [options]"
	}
	if c.Takes.All() {
		text = strings.TrimSpace(text + "\n\n" + Values + "\n\n" + Twins)
	}
	page := pageHead("confine "+c.Name, c.Summary, strings.TrimSpace(usage+" "+c.Args), text)
	if c.Program != "" {
		return page
	}
	heading := ""
	for _, o := range c.Flags() {
		usage, group := OptionHelp(&o), o.Group
		if o.Name == "json" && !c.Takes.All() {
			usage, group = "print JSON", ""
		}
		group = cmp.Or(group, "Options")
		if group != heading {
			heading = group
			page += "\n" + strings.ToUpper(group) + "\n"
		}
		page += column(optionHead(&o), usage, 30) + "\n"
	}
	return page
}

// optionHead is how an option is written: "-t, --time-limit D".
func optionHead(o *config.Option) string {
	text := "    --" + o.Name
	if o.Short != "" {
		text = "-" + o.Short + ", --" + o.Name
	}
	return strings.TrimSuffix(text+" "+o.Arg, " ")
}

// OptionHelp is an option's line, with what it takes if that is a closed set.
func OptionHelp(o *config.Option) string {
	text := o.Help
	if len(o.Words) > 0 && !strings.Contains(o.Arg, o.Words[0]) {
		text += " (" + strings.Join(o.Words, ", ") + ")"
	}
	if o.IsList() {
		text += " (repeatable)"
	}
	return text
}
