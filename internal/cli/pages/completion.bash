# bash completion for confine; made by "confine completion bash"

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
        --arch) _confine_words "amd64 arm64" ;;
        --action) _confine_words "errno kill log" ;;
        --run|--kernel) ;;
        *) if [[ $2 && $COMP_CWORD -eq 2 ]]; then _confine_words "$2"; else _confine_files; fi ;;
    esac
}

# The values of option $1.
_confine_value() {
    case $1 in
        -p|--profile) _confine_words "default permissive standard strict testing development" ;;
        --level) _confine_words "permissive standard strict" ;;
        --workdir) _confine_words "none ro rw overlay" ;;
        --seccomp-action) _confine_words "errno kill log" ;;
        --isolation) _confine_words "process wasm vm" ;;
        --exit-codes) _confine_words "normalized gnu simple" ;;
        --log) _confine_words "quiet normal verbose" ;;
        --log-format) _confine_words "text json" ;;
        --tty) _confine_words "auto always never" ;;
        --config|--allow-read|--allow-write|--deny|-C|--chdir|--overlay|--rootfs|--seccomp|--cgroup-parent|--report|--events|--path|-o|--output|--merge) _confine_files ;;
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
            -p|--profile|--level|--config|-t|--time-limit|--cpu-time|-m|--memory-limit|--cpu-limit|--cpus|--processes|--file-descriptors|--disk-limit|--max-file-size|--max-files|--output-limit|--grace|--allow-network|--deny-network|--allow-port|--network-bytes|--network-connections|--publish|--allow-read|--allow-write|--deny|--workdir|-C|--chdir|--mount|--overlay|--rootfs|--env|--seccomp|--seccomp-action|--isolation|--user|--cgroup-parent|--allow-partial|--require|--report|--events|--exit-codes|--log|--log-format|--tty|--path|--access|--host|--syscall|-o|--output|--name|--merge)
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
        _confine_words "-p --profile --level --config -t --time-limit --cpu-time -m --memory-limit --cpu-limit --cpus --processes --file-descriptors --disk-limit --max-file-size --max-files --output-limit --grace --allow-network --deny-network --allow-port --block-internal --log-network --network-bytes --network-connections --publish --allow-read --allow-write --deny --workdir -C --chdir --mount --virtual-fs --temp-dir --overlay --ephemeral-home --keep --rootfs --log-files --env --keep-env --seccomp --seccomp-action --isolation --user --cgroup-parent --allow-partial --require --report --events --json --exit-codes --log --log-format --tty --help $3"
    elif [[ $2 ]]; then
        _confine_command "$i"
    fi
}

_confine() {
    local cur=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 && $cur != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "run explain doctor profiles seccomp learn shell diff apply discard session serve selftest trust completion version help" -- "$cur"; compgen -c -- "$cur")
        return
    fi
    case ${COMP_WORDS[1]} in
        explain|learn) _confine_options 2 command "--path --access --host --syscall -o --output --name --merge" ;;
        run|explain|learn) _confine_options 2 command ;;
        shell|session|selftest) _confine_options 2 "" ;;
        completion) _confine_words "bash zsh fish" ;;
        profiles) _confine_words "--json default permissive standard strict testing development" ;;
        help) _confine_words "run explain doctor profiles seccomp learn shell diff apply discard session serve selftest trust completion version help" ;;
        doctor|profiles|version) _confine_words "--json --help" ;;
        seccomp) _confine_review "--arch --action --kernel --bpf --json --help" "show check diff" ;;
        diff) _confine_review "--run -p --patch --list --json --help" ;;
        apply) _confine_review "--run -f --force --allow-protected --help" ;;
        discard) _confine_review "--run --help" ;;
        trust) _confine_files ;;
        serve) ;;
        *) _confine_options 1 command ;;
    esac
}

complete -F _confine confine
