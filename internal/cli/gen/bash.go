package main

import (
	"strings"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// bashCompletion needs no bash-completion package; with it, the words of the
// command are completed as the command itself would have them.
func bashCompletion() []byte {
	fromFile := func(o *config.Option) bool { return valued(o) && completion(o) == fromFiles }
	files := append(matching(fromFile), ofQuestions(fromFile)...)
	var words strings.Builder
	for _, o := range flags() {
		if completion(&o) == fromWords && valued(&o) {
			words.WriteString("        " + strings.Join(spellings(&o), "|") + ") _confine_words \"" + strings.Join(o.Words, " ") + "\" ;;\n")
		}
	}
	var own, values strings.Builder
	for _, c := range command.Commands() {
		if !onItsOwn(&c) {
			continue
		}
		var words []string
		for _, o := range c.Own() {
			words = append(words, spellings(&o)...)
			if len(o.Words) > 0 {
				values.WriteString("        " + strings.Join(spellings(&o), "|") + ") _confine_words \"" + strings.Join(o.Words, " ") + "\" ;;\n")
			}
		}
		first := ""
		if len(c.Words) > 0 {
			first = " \"" + strings.Join(c.Words, " ") + "\""
		}
		own.WriteString("        " + c.Name + ") _confine_review \"" + strings.Join(words, " ") + " --help\"" + first + " ;;\n")
	}
	return []byte(strings.NewReplacer(
		"@OWNWORDS@", strings.TrimSuffix(values.String(), "\n"),
		"@OWN@", strings.TrimSuffix(own.String(), "\n"),
		"@SUBCOMMANDS@", strings.Join(names(everything), " "),
		"@RUNS@", strings.Join(names(runsACommand), "|"),
		"@OPTIONED@", strings.Join(names(takesOptions), "|"),
		"@JSON@", strings.Join(names(takesJSON), "|"),
		"@SHELLS@", strings.Join(lookupCommand("completion").Words, " "),
		"@PROFILES@", strings.Join(config.Profiles(), " "),
		"@OPTIONS@", strings.Join(matching(func(*config.Option) bool { return true }), " ")+" --help",
		"@VALUED@", strings.Join(append(matching(valued), ofQuestions(valued)...), "|"),
		"@ASKS@", strings.Join(names(asks), "|"),
		"@QUESTIONS@", strings.Join(ofQuestions(valued), " "),
		"@FILES@", strings.Join(files, "|"),
		"@WORDS@", strings.TrimSuffix(words.String(), "\n"),
	).Replace(bashScript))
}

const bashScript = `# bash completion for confine; made by "confine completion bash"

_confine_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }

_confine_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

# Options $1 of a subcommand that takes paths, after one of the words $2.
_confine_review() {
    if [[ $cur == -* ]]; then
        _confine_words "$1"
        return
    fi
    case ${COMP_WORDS[COMP_CWORD - 1]} in
@OWNWORDS@
        --run|--kernel) ;;
        *) if [[ $2 && $COMP_CWORD -eq 2 ]]; then _confine_words "$2"; else _confine_files; fi ;;
    esac
}

# The values of option $1.
_confine_value() {
    case $1 in
        -p|--profile) _confine_words "@PROFILES@" ;;
@WORDS@
        @FILES@) _confine_files ;;
    esac
}

# The command that starts at word $1, and its words.
_confine_command() {
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif [[ $1 -eq $COMP_CWORD ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
        _confine_files
    fi
}

# Options from word $1 on, $3 among them, and then a command if $2 says so.
_confine_options() {
    local i=$1 at
    while [[ $i -lt $COMP_CWORD ]]; do
        case ${COMP_WORDS[i]} in
            --)
                [[ $2 ]] && _confine_command $((i + 1))
                return ;;
            @VALUED@)
                at=$((i + 1))
                # The word is cut at "=", which is then a word of its own.
                if [[ ${COMP_WORDS[at]} == "=" ]]; then
                    [[ $at -eq $COMP_CWORD ]] && cur="" || at=$((at + 1))
                fi
                if [[ $at -ge $COMP_CWORD ]]; then
                    _confine_value "${COMP_WORDS[i]}"
                    return
                fi
                i=$((at + 1)) ;;
            -*|=)
                i=$((i + 1))
                if [[ ${COMP_WORDS[i]} == "=" ]]; then
                    [[ $i -eq $COMP_CWORD ]] && cur=""
                    if [[ $((i + 1)) -ge $COMP_CWORD ]]; then
                        _confine_words "true false"
                        return
                    fi
                    i=$((i + 2))
                fi ;;
            *)
                [[ $2 ]] && _confine_command "$i"
                return ;;
        esac
    done
    if [[ $cur == -* ]]; then
        _confine_words "@OPTIONS@ $3"
    elif [[ $2 ]]; then
        _confine_command "$i"
    fi
}

_confine() {
    local cur=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 && $cur != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "@SUBCOMMANDS@" -- "$cur"; compgen -c -- "$cur")
        return
    fi
    case ${COMP_WORDS[1]} in
        @ASKS@) _confine_options 2 command "@QUESTIONS@" ;;
        @RUNS@) _confine_options 2 command ;;
        @OPTIONED@) _confine_options 2 "" ;;
        completion) _confine_words "@SHELLS@" ;;
        profiles) _confine_words "--json @PROFILES@" ;;
        help) _confine_words "@SUBCOMMANDS@" ;;
        @JSON@) _confine_words "--json --help" ;;
@OWN@
        trust) _confine_files ;;
        serve) ;;
        *) _confine_options 1 command ;;
    esac
}

complete -F _confine confine
`
