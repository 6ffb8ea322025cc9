# bash completion for confine; made by "confine completion bash"

# The words of the command are completed as the command itself would have them, where there is bash-completion.
_confine() {
    local cur=${COMP_WORDS[COMP_CWORD]} kind="" at=0
    [[ $cur == [=:] ]] && cur=""
    COMPREPLY=()
    { read -r kind at; mapfile -t COMPREPLY; } < <(command confine __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
    case $kind in
        files)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        command)
            if [[ $((at += 1)) -eq $COMP_CWORD ]]; then
                mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$cur")
            elif declare -F _comp_command_offset >/dev/null; then
                _comp_command_offset "$at"
            elif declare -F _command_offset >/dev/null; then
                _command_offset "$at"
            else
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            fi ;;
    esac
}

complete -F _confine confine
