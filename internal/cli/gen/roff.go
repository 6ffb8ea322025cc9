package main

import (
	"strings"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// roff writes a page in the man macros, the ones that every formatter knows.
type roff struct{ strings.Builder }

// text makes words safe: a backslash, a dash that must stay one, and what would be
// a request at the start of a line.
func roffText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "…", `\&...`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

func (r *roff) section(name string) { r.WriteString(".SH " + name + "\n") }
func (r *roff) group(name string)   { r.WriteString(".SS " + roffText(name) + "\n") }

func (r *roff) paragraph(text string) {
	r.WriteString(".PP\n" + roffText(text) + "\n")
}

// item is a tagged paragraph; the tag is in roff already.
func (r *roff) item(tag string, lines ...string) {
	r.WriteString(".TP\n" + tag + "\n")
	for i, l := range lines {
		if i > 0 {
			r.WriteString(".br\n")
		}
		r.WriteString(roffText(l) + "\n")
	}
}

func bold(s string) string   { return `\fB` + roffText(s) + `\fR` }
func italic(s string) string { return `\fI` + roffText(s) + `\fR` }

// man is confine(1).
func man() []byte {
	r := new(roff)
	r.WriteString(".\\\" Made by internal/cli/gen from the tables of options and subcommands.\n")
	r.WriteString(".TH CONFINE 1\n.nh\n") // options must not be hyphenated
	r.section("NAME")
	r.WriteString("confine \\- " + roffText(command.OneLine) + "\n")
	r.section("SYNOPSIS")
	r.WriteString(bold("confine") + " [" + italic("options") + "] [" + bold("--") + "] " + italic("COMMAND") + " [" + italic("ARG") + "\\&...]\n.br\n")
	r.WriteString(bold("confine") + " " + italic("SUBCOMMAND") + " \\&...\n")
	r.section("DESCRIPTION")
	r.paragraph(command.Description)
	r.section("SUBCOMMANDS")
	for _, c := range command.Commands() {
		r.item(manCommand(&c))
		r.WriteString(roffText(c.Summary) + "\n")
		if c.Text != "" {
			r.WriteString(".IP\n" + roffText(c.Text) + "\n")
		}
	}
	r.options()
	r.section("EXIT STATUS")
	r.paragraph(endings)
	r.exitCodes()
	r.paragraph("125: what was asked for is wrong, and nothing was started. This is so in every dialect.")
	r.section("REPORT")
	r.paragraph(outputs)
	r.section("PRECEDENCE")
	r.paragraph(precedence)
	r.section("ENVIRONMENT")
	r.paragraph("Every option has a twin, named with it above. A list is separated by commas, a list of paths as PATH is.")
	for _, v := range variables {
		r.item(bold(v.name), v.means)
	}
	r.section("FILES")
	r.item(italic("confine.toml"), "a project's file; accepted by \"confine trust\"")
	r.item(italic("~/.config/confine/confine.toml"), "the user's file")
	r.item(italic("/etc/confine/confine.toml"), "the host's file")
	r.section("EXAMPLES")
	for _, e := range examples {
		r.item(bold(e.words), e.means)
	}
	r.section("SEE ALSO")
	r.WriteString(".BR timeout (1),\n.BR unshare (1),\n.BR user_namespaces (7),\n.BR seccomp (2)\n")
	return []byte(r.String())
}

func manCommand(c *command.Command) string {
	tag := bold(c.Name)
	if c.Takes == command.TakesJSON {
		tag += " [" + bold("--json") + "]"
	} else {
		for _, o := range c.Own() {
			tag += " [" + manOption(&o) + "]"
		}
	}
	if c.Takes.All() {
		tag += " [" + italic("options") + "]"
	}
	if c.Args != "" {
		tag += " " + italic(c.Args)
	}
	return tag
}

func (r *roff) options() {
	r.section("OPTIONS")
	r.paragraph(command.Values)
	heading := ""
	for _, o := range flags() {
		if o.Group != heading {
			heading = o.Group
			r.group(heading)
		}
		r.item(manOption(&o), command.OptionHelp(&o), "Environment: "+o.EnvName()+fileKey(&o))
	}
	r.group("Only in a file")
	for _, o := range config.Options() {
		if o.FileOnly {
			r.item(bold(o.Key), command.OptionHelp(&o))
		}
	}
}

func fileKey(o *config.Option) string {
	if o.Key == "" {
		return ""
	}
	return "; file: " + o.Key
}

func manOption(o *config.Option) string {
	var tags []string
	for _, s := range spellings(o) {
		tag := bold(s)
		if o.Arg != "" {
			tag += " " + italic(o.Arg)
		}
		tags = append(tags, tag)
	}
	return strings.Join(tags, ", ")
}

// exitCodes is set as plain columns: not every formatter has tbl.
func (r *roff) exitCodes() {
	r.WriteString(".PP\n.nf\n.ft CW\n")
	head := []string{"status"}
	for _, d := range dialects {
		head = append(head, string(d))
	}
	r.WriteString(columns(head) + "\n")
	for _, row := range exitRows() {
		r.WriteString(columns(append(row[:1:1], row[2:]...)) + "\n")
	}
	r.WriteString(".ft R\n.fi\n")
	for _, s := range status.Statuses() {
		r.item(bold(string(s)), exitMeanings[string(s)])
	}
}

func columns(cells []string) string {
	var b strings.Builder
	for i, c := range cells {
		width := 12
		if i == 0 {
			width = 20
		}
		if i == len(cells)-1 {
			width = 0
		}
		b.WriteString(roffText(c) + strings.Repeat(" ", max(0, width-len(c))))
	}
	return b.String()
}

// flags are the options of a run that can be typed, in the order of the table.
func flags() []config.Option { return command.Commands()[0].Flags() }

// spellings of one option: "-t" and "--time-limit".
func spellings(o *config.Option) []string {
	if o.Short == "" {
		return []string{"--" + o.Name}
	}
	return []string{"-" + o.Short, "--" + o.Name}
}
