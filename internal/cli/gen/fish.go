package main

import (
	"strings"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// fishCompletion offers subcommands as the first word, options before the
// command, and then what fish offers for the command itself.
func fishCompletion() []byte {
	var b strings.Builder
	b.WriteString(strings.NewReplacer(
		"@RUNS@", strings.Join(append(names(runsACommand), names(takesOptions)...), " "),
		"@OTHERS@", strings.Join(names(func(c *command.Command) bool { return !c.Takes.All() }), " "),
		"@VALUED@", strings.Join(append(matching(valued), ofQuestions(valued)...), " "),
	).Replace(fishHead))
	for _, c := range command.Commands() {
		b.WriteString("complete -c confine -n __confine_first -a " + c.Name + " -d " + quote(c.Summary) + "\n")
	}
	b.WriteString("\n")
	for _, o := range flags() {
		b.WriteString(fishOption(&o) + "\n")
	}
	b.WriteString("\n")
	for _, c := range command.Commands() {
		if onItsOwn(&c) || asks(&c) {
			for _, o := range c.Own() {
				b.WriteString("complete -c confine -n '__confine_is " + c.Name + "' -l " + o.Name + fishValue(&o) + "\n")
			}
			if len(c.Words) > 0 {
				b.WriteString("complete -c confine -n '__confine_is " + c.Name + "' -a " + quote(strings.Join(c.Words, " ")) + "\n")
			}
		}
		if takesJSON(&c) {
			b.WriteString("complete -c confine -n '__confine_is " + c.Name + "' -l json -d 'print JSON'\n")
		}
	}
	b.WriteString("complete -c confine -f -n '__confine_is completion' -a " + quote(strings.Join(lookupCommand("completion").Words, " ")) + "\n")
	b.WriteString("complete -c confine -f -n '__confine_is profiles' -a " + quote(strings.Join(config.Profiles(), " ")) + "\n")
	b.WriteString("complete -c confine -f -n '__confine_is help' -a " + quote(strings.Join(names(everything), " ")) + "\n")
	b.WriteString("complete -c confine -F -n '__confine_is trust diff apply discard seccomp'\n")
	return []byte(b.String())
}

func fishOption(o *config.Option) string {
	return "complete -c confine -n __confine_options -l " + o.Name + fishValue(o)
}

// fishValue is the rest of an option's line.
func fishValue(o *config.Option) (text string) {
	if o.Short != "" {
		text += " -s " + o.Short
	}
	if !o.IsBool() {
		switch completion(o) {
		case fromProfiles:
			text += " -x -a " + quote(strings.Join(config.Profiles(), " "))
		case fromWords:
			text += " -x -a " + quote(strings.Join(o.Words, " "))
		case fromFiles:
			text += " -r -F"
		default:
			text += " -x"
		}
	}
	return text + " -d " + quote(o.Help)
}

const fishHead = `# fish completion for confine; made by "confine completion fish"

# The first word is being typed.
function __confine_first
    test (count (commandline -opc)) -eq 1
end

# The first word is one of these.
function __confine_is
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv
end

# No command has been typed yet, and options count.
function __confine_options
    set -l words (commandline -opc)
    set -e words[1]
    if contains -- "$words[1]" @OTHERS@
        return 1
    end
    contains -- "$words[1]" @RUNS@; and set -e words[1]
    set -l value
    for w in $words
        if test -n "$value"
            set value
            continue
        end
        switch $w
            case --
                return 1
            case '-*'
                contains -- $w @VALUED@; and set value 1
            case '*'
                return 1
        end
    end
    return 0
end

complete -c confine -f -n 'not __confine_is @OTHERS@' -a '(__fish_complete_subcommand -- @VALUED@)'
`
