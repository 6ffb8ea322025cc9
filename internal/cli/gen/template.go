package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// Templates of the help pages. The library's own sort options by the alphabet;
// these keep the order of the table, which goes from what is asked for most.
const (
	appTemplate = `confine - {{.Usage}}

USAGE
{{fill .UsageText "  " "  "}}

{{fill .Description "" ""}}

SUBCOMMANDS
{{range .VisibleCommands}}{{column .Name .Usage 14}}
{{end}}
Options: "confine help run". Manual: "man confine".
`
	commandTemplate = `{{.HelpName}} - {{.Usage}}

USAGE
{{fill .UsageText "  " "  "}}
{{if .Description}}
{{fill .Description "" ""}}
{{end}}{{range groups .VisibleFlags}}
{{.Name}}
{{range .Flags}}{{column (flag .) .Usage 30}}
{{end}}{{end}}`
)

// group is the options below one heading.
type group struct {
	Name  string
	Flags []shown
}

// shown is a flag as the library holds it, with the option it was made from.
type shown struct {
	cli.DocGenerationFlag
	option *config.Option
}

// Usage is the line of help.
func (s shown) Usage() string { return s.GetUsage() }

// groups sorts flags below their headings, in the order of the table.
func groups(flags []cli.Flag) []group {
	var all []group
	for _, f := range flags {
		o := command.OptionOf(f.Names()[0])
		if o == nil {
			continue // the library's own --help
		}
		name := f.(cli.CategorizableFlag).GetCategory()
		if name == "" {
			name = "Options"
		}
		name = strings.ToUpper(name)
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, group{Name: name})
		}
		g := &all[len(all)-1]
		g.Flags = append(g.Flags, shown{f.(cli.DocGenerationFlag), o})
	}
	return all
}

// flagHead is how a flag is written: "-t, --time-limit D".
func flagHead(s shown) string { return optionHead(s.option) }

func optionHead(o *config.Option) string {
	text := "--" + o.Name
	if o.Short != "" {
		text = "-" + o.Short + ", " + text
	} else {
		text = "    " + text
	}
	if o.Arg != "" {
		text += " " + o.Arg
	}
	return text
}
