package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// newApp hands the two tables to the library.
func newApp(out io.Writer) *cli.App {
	app := &cli.App{
		Name:            "confine",
		Usage:           oneLine,
		UsageText:       "confine [options] [--] COMMAND [ARG…]\nconfine SUBCOMMAND …",
		Description:     description,
		HideHelpCommand: true, // ours is in the table
		HideVersion:     true,
		Writer:          out,
		ErrWriter:       out,
		// A comma may be part of a path, a value or a pattern.
		DisableSliceFlagSeparator: true,
		CustomAppHelpTemplate:     appTemplate,
	}
	for _, c := range command.Commands() {
		app.Commands = append(app.Commands, newCommand(&c))
	}
	return app
}

func newCommand(c *command.Command) *cli.Command {
	usage := "confine " + c.Name
	switch {
	case c.Takes.All():
		usage += " [options]"
	case c.Takes == command.TakesJSON:
		usage += " [--json]"
	default:
		if onItsOwn(c) {
			usage += " [options]"
		}
	}
	text, summary := c.Text, c.Summary
	switch {
	case c.Later:
		summary += " (not in this build yet)"
		text = strings.TrimSpace("Not in this build yet. " + text)
	case c.Takes.All():
		text = strings.TrimSpace(text + "\n\n" + values + "\n\n" + twins)
	}
	sub := &cli.Command{
		Name:               c.Name,
		Usage:              summary,
		UsageText:          strings.TrimSpace(usage + " " + c.Args),
		Description:        text,
		HideHelpCommand:    true,
		CustomHelpTemplate: commandTemplate,
	}
	if c.Later {
		return sub
	}
	for _, o := range c.Flags() {
		sub.Flags = append(sub.Flags, newFlag(&o, c.Takes))
	}
	return sub
}

// newFlag says an option in the library's words. Environment twins are left to
// config.Resolve, which knows their rank; the library would take them for flags.
func newFlag(o *config.Option, takes command.Takes) cli.Flag {
	usage, category := help(o), o.Group
	if takes&command.TakesAll == 0 && o.Name == "json" {
		usage, category = "print JSON", ""
	}
	var short []string
	if o.Short != "" {
		short = []string{o.Short}
	}
	switch {
	case o.IsBool():
		return &cli.BoolFlag{Name: o.Name, Aliases: short, Usage: usage, Category: category}
	case o.IsList():
		return &cli.StringSliceFlag{Name: o.Name, Aliases: short, Usage: usage, Category: category}
	}
	return &cli.StringFlag{Name: o.Name, Aliases: short, Usage: usage, Category: category}
}

// help is an option's line, with what it takes if that is a closed set.
func help(o *config.Option) string {
	text := o.Help
	if len(o.Words) > 0 && !strings.Contains(o.Arg, o.Words[0]) {
		text += " (" + strings.Join(o.Words, ", ") + ")"
	}
	if o.IsList() {
		text += " (repeatable)"
	}
	return text
}

// helpPages renders the help of the program and of every subcommand, through the
// library, by file name.
func helpPages() (map[string][]byte, error) {
	cli.HelpPrinter = func(w io.Writer, templ string, data any) {
		cli.HelpPrinterCustom(w, templ, data, map[string]any{
			"groups": groups, "fill": fill, "column": column, "flag": flagHead,
		})
	}
	var out bytes.Buffer
	app := newApp(&out)
	app.Setup()
	ctx := cli.NewContext(app, nil, nil)
	ctx.Command = &cli.Command{}
	if err := cli.ShowAppHelp(ctx); err != nil {
		return nil, err
	}
	all := map[string][]byte{"pages/confine.txt": bytes.Clone(out.Bytes())}
	for _, c := range command.Commands() {
		out.Reset()
		if err := cli.ShowCommandHelp(ctx, c.Name); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all["pages/"+c.Name+".txt"] = bytes.Clone(out.Bytes())
	}
	return all, nil
}
