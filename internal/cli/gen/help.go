package main

import (
	"strings"

	"github.com/confine-run/confine/confine"
	command "github.com/confine-run/confine/internal/cli"
)

// helpPages are the help of the program and of every subcommand, by file name.
func helpPages() map[string][]byte {
	var b strings.Builder
	b.WriteString(pageHead("confine", oneLine, "confine [options] [--] COMMAND [ARG…]\nconfine SUBCOMMAND …", description) + "\nSUBCOMMANDS\n")
	pages := map[string][]byte{}
	for _, c := range command.Commands() {
		b.WriteString(column(c.Name, summary(&c), 14) + "\n")
		pages["pages/"+c.Name+".txt"] = []byte(commandPage(&c))
	}
	b.WriteString("\nOptions: \"confine help run\". Manual: \"man confine\".\n")
	pages["pages/confine.txt"] = []byte(b.String())
	return pages
}

func pageHead(name, summary, usage, text string) string {
	head := name + " - " + summary + "\n\nUSAGE\n" + fill(usage, "  ", "  ") + "\n"
	if text != "" {
		head += "\n" + fill(text, "", "") + "\n"
	}
	return head
}

func summary(c *command.Command) string {
	if c.Later {
		return c.Summary + " (not in this build yet)"
	}
	return c.Summary
}

func commandPage(c *command.Command) string {
	usage, text := "confine "+c.Name, c.Text
	switch {
	case c.Takes == command.TakesJSON:
		usage += " [--json]"
	case c.Takes != command.TakesNothing:
		usage += " [options]"
	}
	switch {
	case c.Later:
		text = strings.TrimSpace("Not in this build yet. " + text)
	case c.Takes.All():
		text = strings.TrimSpace(text + "\n\n" + values + "\n\n" + twins)
	}
	page := pageHead("confine "+c.Name, summary(c), strings.TrimSpace(usage+" "+c.Args), text)
	if c.Later {
		return page
	}
	heading := ""
	for _, o := range c.Flags() {
		usage, group := help(&o), o.Group
		if o.Name == "json" && !c.Takes.All() {
			usage, group = "print JSON", ""
		}
		if group == "" {
			group = "Options"
		}
		if group != heading {
			heading = group
			page += "\n" + strings.ToUpper(group) + "\n"
		}
		page += column(optionHead(&o), usage, 30) + "\n"
	}
	return page
}

// optionHead is how an option is written: "-t, --time-limit D".
func optionHead(o *confine.Option) string {
	text := "    --" + o.Name
	if o.Short != "" {
		text = "-" + o.Short + ", --" + o.Name
	}
	return strings.TrimSuffix(text+" "+o.Arg, " ")
}

// help is an option's line, with what it takes if that is a closed set.
func help(o *confine.Option) string {
	text := o.Help
	if len(o.Words) > 0 && !strings.Contains(o.Arg, o.Words[0]) {
		text += " (" + strings.Join(o.Words, ", ") + ")"
	}
	if o.IsList() {
		text += " (repeatable)"
	}
	return text
}

// flags are the options of a run that can be typed, in the order of the table.
func flags() []confine.Option {
	return command.Commands()[0].Flags()
}

// spellings of one option: "-t" and "--time-limit".
func spellings(o *confine.Option) []string {
	if o.Short == "" {
		return []string{"--" + o.Name}
	}
	return []string{"-" + o.Short, "--" + o.Name}
}
