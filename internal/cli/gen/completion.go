package main

import (
	"strings"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// What a value is completed from.
type completes uint8

const (
	fromNothing completes = iota
	fromWords
	fromFiles
	fromProfiles
)

func completion(o *config.Option) completes {
	switch {
	case o.Name == "profile":
		return fromProfiles
	case o.Paths:
		return fromFiles
	case len(o.Words) > 0:
		return fromWords
	}
	return fromNothing
}

// flags are the options that can be typed, in the order of the table.
func flags() []config.Option {
	return lookupCommand("run").Flags()
}

func lookupCommand(name string) *command.Command {
	all := command.Commands()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	panic("no subcommand " + name)
}

// names are the subcommands that keep says.
func names(keep func(*command.Command) bool) []string {
	var all []string
	for _, c := range command.Commands() {
		if keep(&c) {
			all = append(all, c.Name)
		}
	}
	return all
}

func everything(*command.Command) bool { return true }

// runsACommand: what follows the options is a command line of its own.
func runsACommand(c *command.Command) bool {
	return c.Takes.All() && strings.Contains(c.Args, "COMMAND")
}

func takesOptions(c *command.Command) bool {
	return c.Takes.All() && !runsACommand(c)
}

func takesJSON(c *command.Command) bool { return c.Takes == command.TakesJSON }

// onItsOwn: it has options of its own, and paths follow.
func onItsOwn(c *command.Command) bool { return len(c.Own()) > 0 && !takesJSON(c) && !c.Takes.All() }

// asks: it has options of its own beside those of runs.
func asks(c *command.Command) bool { return len(c.Own()) > 0 && c.Takes.All() }

// ofQuestions are spellings of the options that only subcommands like explain have.
func ofQuestions(keep func(*config.Option) bool) (all []string) {
	for _, c := range command.Commands() {
		if !asks(&c) {
			continue
		}
		for _, o := range c.Own() {
			if keep(&o) {
				all = append(all, spellings(&o)...)
			}
		}
	}
	return all
}

// spellings of one option: "-t" and "--time-limit".
func spellings(o *config.Option) []string {
	if o.Short == "" {
		return []string{"--" + o.Name}
	}
	return []string{"-" + o.Short, "--" + o.Name}
}

// matching are the spellings of the options that keep says.
func matching(keep func(*config.Option) bool) []string {
	var all []string
	for _, o := range flags() {
		if keep(&o) {
			all = append(all, spellings(&o)...)
		}
	}
	return all
}

func valued(o *config.Option) bool { return !o.IsBool() }

// quote makes text a word for any of the three shells.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
