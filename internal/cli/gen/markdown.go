package main

import (
	"strings"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// markdown is docs/OPTIONS.md.
func markdown() []byte {
	var b strings.Builder
	b.WriteString("<!-- Made by internal/cli/gen from the tables of options and subcommands. -->\n# Options\n\n" + command.Values + "\n\n" + precedence + "\n")
	heading := ""
	for _, o := range config.Options() {
		if o.Group != heading {
			heading = o.Group
			b.WriteString("\n## " + heading + "\n\n| flag | environment | in a file | meaning |\n|---|---|---|---|\n")
		}
		b.WriteString(cells(markdownFlag(&o), code(o.EnvName()), code(o.Key), command.OptionHelp(&o)))
	}
	b.WriteString("\n## Subcommands\n\n| subcommand | does |\n|---|---|\n")
	for _, c := range command.Commands() {
		b.WriteString(cells(code(strings.TrimSpace(c.Name+" "+c.Args)), c.Summary))
	}
	b.WriteString("\n## Exit codes\n\n" + endings + "\n\n| status | when |")
	for _, d := range dialects {
		b.WriteString(" " + string(d) + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(dialects)) + "\n")
	for _, row := range exitRows() {
		row[0] = code(row[0])
		b.WriteString(cells(row...))
	}
	b.WriteString("\n125 also means, in every dialect, that what was asked for is wrong and nothing was started.\n\n## Report\n\n" + outputs + "\n")
	return []byte(b.String())
}

func markdownFlag(o *config.Option) string {
	if o.FileOnly {
		return ""
	}
	text := strings.Join(spellings(o), ", ")
	if o.Arg != "" {
		text += " " + o.Arg
	}
	return code(text)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// cells is one row of a table; a bar in a cell would end it.
func cells(all ...string) string {
	var b strings.Builder
	b.WriteString("|")
	for _, c := range all {
		b.WriteString(" " + strings.ReplaceAll(c, "|", `\|`) + " |")
	}
	return b.String() + "\n"
}
