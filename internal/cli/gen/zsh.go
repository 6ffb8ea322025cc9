package main

import (
	"strings"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// zshCompletion describes the options to _arguments, and hands the words of the
// command to the completion of that command.
func zshCompletion() []byte {
	var options, subcommands strings.Builder
	for _, o := range flags() {
		options.WriteString("        " + zshOption(&o) + "\n")
	}
	for _, c := range command.Commands() {
		subcommands.WriteString("        " + quote(c.Name+":"+c.Summary) + "\n")
	}
	var own strings.Builder
	for _, c := range command.Commands() {
		if onItsOwn(&c) {
			own.WriteString("        " + c.Name + ") _arguments -s -S")
			for _, o := range c.Own() {
				own.WriteString(" " + zshOption(&o))
			}
			if len(c.Words) > 0 {
				own.WriteString(" '1:word:(" + strings.Join(c.Words, " ") + ")'")
			}
			own.WriteString(" '--help[print help]' '*: :_files' ;;\n")
		}
	}
	var questions strings.Builder
	for _, c := range command.Commands() {
		if asks(&c) {
			for _, o := range c.Own() {
				questions.WriteString(" " + zshOption(&o))
			}
		}
	}
	return []byte(strings.NewReplacer(
		"@ASKS@", strings.Join(names(asks), "|"), "@QUESTIONS@", questions.String(),
		"@OWN@", strings.TrimSuffix(own.String(), "\n"),
		"@REVIEWS@", strings.Join(names(onItsOwn), "|"),
		"@OPTIONS@", strings.TrimSuffix(options.String(), "\n"),
		"@SUBCOMMANDS@", strings.TrimSuffix(subcommands.String(), "\n"),
		"@RUNS@", strings.Join(names(runsACommand), "|"),
		"@OPTIONED@", strings.Join(names(takesOptions), "|"),
		"@JSON@", strings.Join(names(func(c *command.Command) bool { return takesJSON(c) && c.Name != "profiles" }), "|"),
		"@SHELLS@", strings.Join(lookupCommand("completion").Words, " "),
		"@PROFILES@", strings.Join(config.Profiles(), " "),
	).Replace(zshScript))
}

// zshOption is one spec of _arguments.
func zshOption(o *config.Option) string {
	escape := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`)
	text := "[" + escape.Replace(o.Help) + "]"
	long := "--" + o.Name
	if o.IsBool() {
		return quote(long + "=-" + text + `::value:(true false)`)
	}
	text += ":" + escape.Replace(o.Arg) + ":" + zshValues(o)
	exclude, repeat := "", ""
	if o.IsList() {
		repeat = "*"
	} else if o.Short != "" {
		exclude = "(-" + o.Short + " " + long + ")"
	}
	if o.Short == "" {
		return quote(repeat + long + "=" + text)
	}
	return quote(exclude+repeat) + "{-" + o.Short + "+," + long + "=}" + quote(text)
}

func zshValues(o *config.Option) string {
	switch completion(o) {
	case fromProfiles:
		return "(" + strings.Join(config.Profiles(), " ") + ")"
	case fromWords:
		return "(" + strings.Join(o.Words, " ") + ")"
	case fromFiles:
		return "_files"
	}
	return " "
}

const zshScript = `#compdef confine
# zsh completion for confine; made by "confine completion zsh"

_confine_options=(
@OPTIONS@
        '--help[print help]'
)

_confine_subcommands() {
    local -a subcommands=(
@SUBCOMMANDS@
    )
    _describe -t subcommands subcommand subcommands
}

# Options, and then a command with words of its own.
_confine_run() {
    _arguments -s -S -A '-*' "$@" $_confine_options '(-)1: :_command_names -e' '*:: :_normal'
}

_confine() {
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _alternative 'subcommands: :_confine_subcommands' 'commands: :_command_names -e'
        return
    fi
    case $words[2] in
        @RUNS@|@OPTIONED@|@JSON@|completion|profiles|help|trust|@REVIEWS@)
            local sub=$words[2]
            shift words
            (( CURRENT-- )) ;;
        *)
            _confine_run
            return ;;
    esac
    case $sub in
        @ASKS@) _confine_run@QUESTIONS@ ;;
        @RUNS@) _confine_run ;;
        @OPTIONED@) _arguments -s -S $_confine_options ;;
        completion) _values shell @SHELLS@ ;;
        profiles) _values profile @PROFILES@ ;;
        help) _confine_subcommands ;;
        @JSON@) _arguments '--json[print JSON]' '--help[print help]' ;;
@OWN@
        *) _files ;;
    esac
}

if [[ $funcstack[1] == _confine ]]; then
    _confine "$@"
else
    compdef _confine confine
fi
`
