package cli

import (
	"embed"
	"strconv"

	"github.com/confine-run/confine/confine"
)

// pages are made by gen. They are read only when asked for.
//
//go:embed pages
var pages embed.FS

// page prints the help of a subcommand; "" is the program's own.
func (s *session) page(name string) int {
	if name == "" {
		name = "confine"
	}
	return s.file("pages/" + name + ".txt")
}

func (s *session) file(path string) int {
	b, err := pages.ReadFile(path)
	if err != nil {
		s.log.failure(err)
		return rcProblem
	}
	return s.print(string(b))
}

func (s *session) help(args []string) int {
	c := lookup("help")
	line, err := words(c, args, 1)
	if err != nil {
		return s.usage(err)
	}
	switch {
	case line.Help:
		return s.page(c.Name)
	case len(line.Rest) == 0:
		return s.page("")
	case lookup(line.Rest[0]) == nil:
		return s.usage(unknownWord("subcommand", line.Rest[0], commandNames()))
	}
	return s.page(line.Rest[0])
}

// completion prints a script that gen has made.
func (s *session) completion(args []string) int {
	c := lookup("completion")
	line, err := words(c, args, 1)
	if err != nil {
		return s.usage(err)
	}
	if line.Help {
		return s.page(c.Name)
	}
	if len(line.Rest) == 0 {
		return s.usage(&confine.UsageError{Msg: "completion: no shell was named", Hint: "usage: confine completion " + c.Args})
	}
	for _, shell := range c.Words {
		if line.Rest[0] == shell {
			return s.file("pages/completion." + shell)
		}
	}
	return s.usage(unknownWord("shell", line.Rest[0], c.Words))
}

func unknownWord(kind, word string, known []string) error {
	err := &confine.UsageError{Msg: "unknown " + kind + " " + strconv.Quote(word)}
	if near := confine.Nearest(word, known); near != "" {
		err.Msg += ", did you mean " + strconv.Quote(near) + "?"
	}
	return err
}
