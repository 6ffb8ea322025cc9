#compdef confine
# zsh completion for confine; made by "confine completion zsh"

_confine_options=(
        '(-p --profile)'{-p+,--profile=}'[start from a profile (see "confine profiles")]:NAME:(default permissive standard strict testing development)'
        '--level=[the same as --profile, for these three]:LEVEL:(permissive standard strict)'
        '--config=[use this file and no discovered confine.toml]:FILE:_files'
        '(-t --time-limit)'{-t+,--time-limit=}'[wall clock time]:D: '
        '--cpu-time=[CPU time of the whole tree of processes]:D: '
        '(-m --memory-limit)'{-m+,--memory-limit=}'[memory of the whole tree of processes]:SIZE: '
        '--cpu-limit=[CPU rate, in percent of one core]:PERCENT: '
        '--cpus=[number of cores]:N: '
        '--processes=[tasks in the tree; threads count, as in the kernel]:N: '
        '--file-descriptors=[open files per process]:N: '
        '--disk-limit=[what can be written in scratch and overlays]:SIZE: '
        '--max-file-size=[size of one file]:SIZE: '
        '--max-files=[number of files in scratch and overlays]:N: '
        '--output-limit=[output per stream; the rest is dropped and marked \[TRUNCATED\]]:SIZE: '
        '--grace=[time between SIGTERM and SIGKILL]:D: '
        '*--allow-network=[reach a host, a pattern (*.github.com), an address, a CIDR, localhost\:PORT, https\://HOST/* or http\://HOST/PATH/*; "all"\: the caller'\''s network as it is]:HOST\[\:PORT\]: '
        '*--deny-network=[never reach it; deny beats allow]:HOST\[\:PORT\]: '
        '*--allow-port=[the ports of hosts that are named without one (default\: any)]:N: '
        '--block-internal=-[refuse loopback, link-local, private and metadata addresses unless they are named]::value:(true false)'
        '--log-network=-[log allowed attempts too]::value:(true false)'
        '--network-bytes=[all bytes through the network, both ways together]:SIZE: '
        '--network-connections=[connections through the network at one time]:N: '
        '*--publish=[show a port inside on the caller'\''s loopback]:HOSTPORT\:PORT: '
        '*--allow-read=[let it be read; the most specific path wins]:PATH:_files'
        '*--allow-write=[let it be read and written; the most specific path wins]:PATH:_files'
        '*--deny=[hide what matches when the run starts; at a tie with an allowed path, deny wins; "secrets"\: keys and credentials]:GLOB|secrets:_files'
        '--workdir=[how the current directory appears]:HOW:(none ro rw overlay)'
        '(-C --chdir)'{-C+,--chdir=}'[where to start]:DIR:_files'
        '*--mount=[show SRC at DST (default\: ro); tmpfs\:DST\:SIZE is an empty place of its own size]:SRC\:DST\[\:ro|rw|overlay\]: '
        '--virtual-fs=-[only mounts are visible]::value:(true false)'
        '--temp-dir=-[a private, writable $TMPDIR (there unless switched off)]::value:(true false)'
        '*--overlay=[keep writes to PATH apart\: "confine diff" shows them, "confine apply" copies them]:PATH:_files'
        '--ephemeral-home=-[show the home directory as an overlay, except secrets]::value:(true false)'
        '--keep=-[keep what overlays hold after the run]::value:(true false)'
        '--rootfs=[a prepared tree as /; an OCI image layout and a tar are unpacked, once]:DIR:_files'
        '--log-files=-[tell each access to a file that the rules refuse]::value:(true false)'
        '*--env=[pass a variable of the caller'\''s, or set one]:K\[=V\]: '
        '--keep-env=-[pass all variables, secrets too]::value:(true false)'
        '--seccomp=[which system calls there are]:off|default|strict|FILE:_files'
        '--seccomp-action=[what happens at any other system call]:ACTION:(errno kill log)'
        '--isolation=[what stands between the command and the host]:LEVEL:(process wasm vm)'
        '--user=[as root\: run as another, by name or number]:USER\[\:GROUP\]: '
        '--cgroup-parent=[where cgroups are made]:PATH:_files'
        '*--allow-partial=[go on when a capability can'\''t be enforced]:CAP|all: '
        '*--require=[refuse to run unless it is enforced, by that mechanism]:CAP\[=MECHANISM\]: '
        '--report=[write the report]:FILE|fd\:N:_files'
        '--events=[write JSON lines as things happen]:FILE|fd\:N:_files'
        '--json=-[capture the streams and print the whole result as JSON]::value:(true false)'
        '--exit-codes=[which exit codes tell how it ended]:DIALECT:(normalized gnu simple)'
        '--log=[what is said on stderr; quiet draws no status line either]:LEVEL:(quiet normal verbose)'
        '--log-format=[how it is said]:FORMAT:(text json)'
        '--tty=[a pty for the command; auto\: when the caller has one]:WHEN:(auto always never)'
        '--help[print help]'
)

_confine_subcommands() {
    local -a subcommands=(
        'run:run a command (the word "run" can be left out)'
        'explain:show what would be enforced, how and why, and run nothing'
        'doctor:try what this host can enforce, with the remedy for each no'
        'profiles:list the profiles, or show one as TOML that can be pasted'
        'seccomp:show, check and compare policies over system calls'
        'learn:run a command and write the profile that just allows what it did'
        'shell:start an interactive shell inside'
        'diff:show what an overlay run changed'
        'apply:copy what an overlay run changed to the real tree'
        'discard:drop what an overlay run changed'
        'session:long-lived sandboxes'
        'serve:a local API with a warm pool'
        'selftest:try the built-in escape attempts on this host'
        'trust:accept a project'\''s confine.toml'
        'completion:print a completion script for a shell'
        'version:print the version'
        'help:print help'
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
        run|explain|learn|shell|session|selftest|doctor|version|completion|profiles|help|trust|seccomp|diff|apply|discard)
            local sub=$words[2]
            shift words
            (( CURRENT-- )) ;;
        *)
            _confine_run
            return ;;
    esac
    case $sub in
        explain|learn) _confine_run '*--path=[may it be read, or what --access says?]:PATH:_files' '*--access=[what is asked about each --path]:ACCESS:(read write create exec)' '*--host=[may it be reached?]:HOST\[\:PORT\]: ' '*--syscall=[is it let through? Arguments are numbers and names such as AF_PACKET; "_" is any]:NAME\[,ARGUMENT…\]: ' '(-o --output)'{-o+,--output=}'[where the profile goes (default\: NAME.confine.toml)]:FILE:_files' '--name=[what it is called (default\: as the command)]:NAME: ' '--merge=[add to what an earlier run wrote]:FILE:_files' '--overwrite=-[replace a file that is there]::value:(true false)' ;;
        run|explain|learn) _confine_run ;;
        shell|session|selftest) _arguments -s -S $_confine_options ;;
        completion) _values shell bash zsh fish ;;
        profiles) _values profile default permissive standard strict testing development ;;
        help) _confine_subcommands ;;
        doctor|version) _arguments '--json[print JSON]' '--help[print help]' ;;
        seccomp) _arguments -s -S '--arch=[the architecture; if left out, this one, and both for check]:ARCH:(amd64 arm64)' '--action=[as under --seccomp-action]:ACTION:(errno kill log)' '--kernel=[as on this kernel, for entries of profiles that ask; if left out, the running one]:VERSION: ' '--bpf=-[show the program, disassembled]::value:(true false)' '--json=-[capture the streams and print the whole result as JSON]::value:(true false)' '1:word:(show check diff)' '--help[print help]' '*: :_files' ;;
        diff) _arguments -s -S '--run=[the run; if left out, the latest that changed something in the current directory or around it]:ID: ' '--patch=-[show what changed in text files\: to look at, and for patch(1) as far as nothing is escaped, which it says]::value:(true false)' '--list=-[list the runs whose changes are kept, with their trees; with --json, an object a line]::value:(true false)' '--json=-[capture the streams and print the whole result as JSON]::value:(true false)' '--help[print help]' '*: :_files' ;;
        apply) _arguments -s -S '--run=[the run; if left out, the latest that changed something in the current directory or around it]:ID: ' '--force=-[also where the real tree has changed since the run]::value:(true false)' '--allow-protected=-[also what programs outside run or obey, as git hooks, and links that lead out of the tree]::value:(true false)' '--help[print help]' '*: :_files' ;;
        discard) _arguments -s -S '--run=[the run; if left out, the latest that changed something in the current directory or around it]:ID: ' '--help[print help]' '*: :_files' ;;
        *) _files ;;
    esac
}

if [[ $funcstack[1] == _confine ]]; then
    _confine "$@"
else
    compdef _confine confine
fi
