package cli

import (
	"fmt"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

// completeWord is what the scripts of "confine completion" begin their question with.
const completeWord = "__complete"

// completion is what can stand in the place of the word that is being typed.
type completion struct {
	word string // as far as it was typed
	// kind of what else can stand there: "words" is nothing else, "files" are files, "command" is what the
	// shell offers for the command that begins at a word.
	kind string
	at   int // that word, counted from behind "confine"
	text strings.Builder
}

// complete answers "__complete SHELL WORD…", the last of which is being typed: a line with the kind and the
// word, then each candidate, a tab and its meaning.
func (s *session) complete(args []string) int {
	if len(args) < 2 {
		return rcUsage
	}
	words := args[1:]
	var places []int
	if args[0] == "bash" {
		words, places = rejoin(words)
	}
	c := completionOf(words, args[0] == "bash")
	if places != nil {
		c.at = places[c.at]
	}
	return s.print(fmt.Sprintf("%s %d\n%s", c.kind, c.at, &c.text))
}

// rejoin undoes that bash cuts words at "=" and ":". places says where each began.
func rejoin(cut []string) (words []string, places []int) {
	joined := false
	for i, w := range cut {
		separator := i > 0 && (w == "=" || w == ":")
		if separator || joined {
			words[len(words)-1] += w
		} else {
			words, places = append(words, w), append(places, i)
		}
		joined = separator
	}
	return words, places
}

// completionOf reads the words as a run would. cut: what stands before a value, up to "=", is a word of its own
// for the shell, and otherwise part of each candidate.
func completionOf(words []string, cut bool) *completion {
	before := words[:len(words)-1]
	c := &completion{word: words[len(words)-1], kind: "words"}
	sub, i := lookup("run"), 0
	switch {
	case len(before) > 0 && lookup(before[0]) != nil:
		sub, i = lookup(before[0]), 1
	case len(before) == 0 && !strings.HasPrefix(c.word, "-"):
		c.kind = "command"
		c.offerSubcommands()
		return c
	}
	plain, ended := 0, false // plain counts the words that are no options
	for ; i < len(before) && (plain == 0 && !ended || !sub.Takes.All()); i++ {
		w := before[i]
		switch {
		case ended || len(w) < 2 || w[0] != '-':
			plain++
			c.at = i
		case w == "--":
			ended = true
			c.at = i + 1
		default:
			o, _, attached, err := flag(sub.Takes, w)
			if err != nil || attached || o.IsBool() {
				continue
			}
			if i++; i == len(before) {
				c.offerValues(o, "")
				return c
			}
		}
	}
	switch {
	case sub.Takes.All() && (plain > 0 || ended):
	case strings.HasPrefix(c.word, "-") && !ended:
		c.offerOptions(sub, cut)
		return c
	default:
		c.at = len(before)
	}
	switch {
	case sub.Takes.All() && strings.Contains(sub.Args, "COMMAND"):
		c.kind = "command"
	case sub.Takes.All() || sub.Args == "":
	case strings.Contains(sub.Args, "PATH") || plain > 0 && sub.Name == "seccomp" || plain == 0 && sub.Name == "trust":
		c.kind = "files"
	case plain > 0:
	case sub.Name == "profiles":
		c.offer("", config.Profiles()...)
	case sub.Name == "help":
		c.offerSubcommands()
	default:
		c.offer("", sub.Words...)
	}
	return c
}

// offer adds the words that begin with what was typed.
func (c *completion) offer(means string, words ...string) {
	for _, w := range words {
		if strings.HasPrefix(w, c.word) {
			c.text.WriteString(w + "\t" + means + "\n")
		}
	}
}

func (c *completion) offerSubcommands() {
	for _, sub := range commands {
		c.offer(sub.Summary, sub.Name)
	}
}

// offerOptions adds a subcommand's options, or the values of the one that is there with a "=".
func (c *completion) offerOptions(sub *Command, cut bool) {
	if name, value, ok := strings.Cut(c.word, "="); ok {
		o, _, _, err := flag(sub.Takes, c.word)
		if err != nil {
			return
		}
		if cut {
			c.word, name = value, ""
		} else {
			name += "="
		}
		c.offerValues(o, name)
		return
	}
	for o := range sub.Takes.options() {
		if o.Short != "" {
			c.offer(o.Help, "-"+o.Short)
		}
		c.offer(o.Help, "--"+o.Name)
	}
	c.offer("print help", "--help")
}

// offerValues adds what an option takes, each behind prefix.
func (c *completion) offerValues(o *config.Option, prefix string) {
	words := o.Words
	switch {
	case o.Name == "profile":
		words = config.Profiles()
	case o.IsBool():
		words = []string{"true", "false"}
	case o.Paths:
		c.kind = "files"
	}
	for _, w := range words {
		c.offer("", prefix+w)
	}
}
