package session

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// startLine is what "start" was told.
type startLine struct {
	settings       []config.Setting
	command        []string // whose tool chain is to be visible
	name, from     string
	lifetime, idle time.Duration
	ownerPID       int
}

// ownOptions are those of "start" beside the options of a run.
var ownOptions = map[string]func(s *startLine, word string) error{
	"name": func(s *startLine, word string) error {
		s.name = word
		return checkName(word)
	},
	"from": func(s *startLine, word string) error {
		if s.from = word; word == "" {
			return fmt.Errorf("takes the ID or the name of a snapshot")
		}
		return nil
	},
	"lifetime":     func(s *startLine, word string) error { return parseTime(&s.lifetime, word) },
	"idle-timeout": func(s *startLine, word string) error { return parseTime(&s.idle, word) },
	"owner-pid": func(s *startLine, word string) (err error) {
		if s.ownerPID, err = strconv.Atoi(word); err != nil || s.ownerPID < 1 {
			err = fmt.Errorf("takes the number of a process")
		}
		return err
	},
}

func checkName(word string) error {
	if word == "" || len(word) > 64 || strings.ContainsAny(word, "/:\x00") || strings.HasPrefix(word, "-") ||
		strings.ContainsFunc(word, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fmt.Errorf("takes a word of up to 64 bytes that can be printed, and has neither / nor : in it")
	}
	return nil
}

func parseTime(to *time.Duration, word string) (err error) {
	if word == "none" {
		*to = 0
		return nil
	}
	*to, err = config.ParseDuration(word)
	return err
}

// How long a session stays where nobody says it.
const (
	defaultLifetime = 24 * time.Hour
	defaultIdle     = time.Hour
)

// parseStart takes the arguments of "start" apart: its own options, and those of a run, up to "--" or the first word that is none.
func parseStart(args []string) (*startLine, error) {
	s := &startLine{lifetime: defaultLifetime, idle: defaultIdle}
	return s, s.parse(args, func(string) *cli.Own { return nil })
}

func (s *startLine) parse(args []string, more func(option string) *cli.Own) (err error) {
	s.settings, s.command, err = cli.ScanOwn(args, func(name string) *cli.Own {
		if set := ownOptions[name]; set != nil {
			return &cli.Own{Set: func(word string) error { return set(s, word) }}
		}
		return more(name)
	})
	if err != nil {
		return err
	}
	for _, set := range s.settings {
		if o := config.LookupOption(set.Option); o != nil && o.Run && set.Option != "profile" && set.Option != "config" {
			return &config.UsageError{Msg: "--" + set.Option + " is about one command, not about a session"}
		}
	}
	return nil
}
