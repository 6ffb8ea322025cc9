#compdef confine
# zsh completion for confine; made by "confine completion zsh"

_confine() {
    local -a answer head offered
    answer=("${(@f)$(command confine __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    head=(${=answer[1]})
    offered=("${(@)answer[2,-1]}")
    offered=("${(@)offered//:/\\:}")
    offered=("${(@)offered/$'\t'/:}")
    if [[ $offered[1] == -* ]]; then
        _describe -o option offered
    elif (( $#offered )); then
        _describe word offered
    fi
    case $head[1] in
        files)
            compset -P '-*='
            _files ;;
        command)
            shift $(( head[2] + 1 )) words
            (( CURRENT -= head[2] + 1 ))
            _normal ;;
    esac
}

if [[ $funcstack[1] == _confine ]]; then
    _confine "$@"
else
    compdef _confine confine
fi
