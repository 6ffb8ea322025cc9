# fish completion for confine; made by "confine completion fish"

function __confine_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -e words[1]
    set -l answer (command confine __complete fish $words "$cur" 2>/dev/null)
    set -l head (string split ' ' -- $answer[1])
    test (count $answer) -gt 1; and printf '%s\n' $answer[2..-1]
    switch "$head[1]"
        case files
            set -l option (string match -r -- '^-[^=]*=' "$cur")
            for path in (__fish_complete_path (string replace -r -- '^-[^=]*=' '' "$cur"))
                echo "$option$path"
            end
        case command
            set -a words "$cur"
            complete -C (string join ' ' -- (string escape -- $words[(math $head[2] + 1)..-1]))
    end
end

complete -c confine -f -a '(__confine_complete)'
