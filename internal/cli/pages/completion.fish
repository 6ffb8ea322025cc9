# fish completion for confine; made by "confine completion fish"

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
    if contains -- "$words[1]" doctor profiles seccomp diff apply discard serve trust completion version help
        return 1
    end
    contains -- "$words[1]" run explain learn shell session selftest; and set -e words[1]
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
                contains -- $w -p --profile --level --config -t --time-limit --cpu-time -m --memory-limit --cpu-limit --cpus --processes --file-descriptors --disk-limit --max-file-size --max-files --output-limit --grace --allow-network --deny-network --allow-port --network-bytes --network-connections --publish --allow-read --allow-write --deny --workdir -C --chdir --mount --overlay --rootfs --env --seccomp --seccomp-action --isolation --user --cgroup-parent --allow-partial --require --report --events --exit-codes --log --log-format --tty --path --access --host --syscall -o --output --name --merge; and set value 1
            case '*'
                return 1
        end
    end
    return 0
end

complete -c confine -f -n 'not __confine_is doctor profiles seccomp diff apply discard serve trust completion version help' -a '(__fish_complete_subcommand -- -p --profile --level --config -t --time-limit --cpu-time -m --memory-limit --cpu-limit --cpus --processes --file-descriptors --disk-limit --max-file-size --max-files --output-limit --grace --allow-network --deny-network --allow-port --network-bytes --network-connections --publish --allow-read --allow-write --deny --workdir -C --chdir --mount --overlay --rootfs --env --seccomp --seccomp-action --isolation --user --cgroup-parent --allow-partial --require --report --events --exit-codes --log --log-format --tty --path --access --host --syscall -o --output --name --merge)'
complete -c confine -n __confine_first -a run -d 'run a command (the word "run" can be left out)'
complete -c confine -n __confine_first -a explain -d 'show what would be enforced, how and why, and run nothing'
complete -c confine -n __confine_first -a doctor -d 'try what this host can enforce, with the remedy for each no'
complete -c confine -n __confine_first -a profiles -d 'list the profiles, or show one as TOML that can be pasted'
complete -c confine -n __confine_first -a seccomp -d 'show, check and compare policies over system calls'
complete -c confine -n __confine_first -a learn -d 'run a command and write the profile that just allows what it did'
complete -c confine -n __confine_first -a shell -d 'start an interactive shell inside'
complete -c confine -n __confine_first -a diff -d 'show what an overlay run changed'
complete -c confine -n __confine_first -a apply -d 'copy what an overlay run changed to the real tree'
complete -c confine -n __confine_first -a discard -d 'drop what an overlay run changed'
complete -c confine -n __confine_first -a session -d 'long-lived sandboxes'
complete -c confine -n __confine_first -a serve -d 'a local API with a warm pool'
complete -c confine -n __confine_first -a selftest -d 'try the built-in escape attempts on this host'
complete -c confine -n __confine_first -a trust -d 'accept a project'\''s confine.toml'
complete -c confine -n __confine_first -a completion -d 'print a completion script for a shell'
complete -c confine -n __confine_first -a version -d 'print the version'
complete -c confine -n __confine_first -a help -d 'print help'

complete -c confine -n __confine_options -l profile -s p -x -a 'default permissive standard strict testing development' -d 'start from a profile (see "confine profiles")'
complete -c confine -n __confine_options -l level -x -a 'permissive standard strict' -d 'the same as --profile, for these three'
complete -c confine -n __confine_options -l config -r -F -d 'use this file and no discovered confine.toml'
complete -c confine -n __confine_options -l time-limit -s t -x -d 'wall clock time'
complete -c confine -n __confine_options -l cpu-time -x -d 'CPU time of the whole tree of processes'
complete -c confine -n __confine_options -l memory-limit -s m -x -d 'memory of the whole tree of processes'
complete -c confine -n __confine_options -l cpu-limit -x -d 'CPU rate, in percent of one core'
complete -c confine -n __confine_options -l cpus -x -d 'number of cores'
complete -c confine -n __confine_options -l processes -x -d 'tasks in the tree; threads count, as in the kernel'
complete -c confine -n __confine_options -l file-descriptors -x -d 'open files per process'
complete -c confine -n __confine_options -l disk-limit -x -d 'what can be written in scratch and overlays'
complete -c confine -n __confine_options -l max-file-size -x -d 'size of one file'
complete -c confine -n __confine_options -l max-files -x -d 'number of files in scratch and overlays'
complete -c confine -n __confine_options -l output-limit -x -d 'output per stream; the rest is dropped and marked [TRUNCATED]'
complete -c confine -n __confine_options -l grace -x -d 'time between SIGTERM and SIGKILL'
complete -c confine -n __confine_options -l allow-network -x -d 'reach a host, a pattern (*.github.com), an address, a CIDR, localhost:PORT, https://HOST/* or http://HOST/PATH/*; "all": the caller'\''s network as it is'
complete -c confine -n __confine_options -l deny-network -x -d 'never reach it; deny beats allow'
complete -c confine -n __confine_options -l allow-port -x -d 'the ports of hosts that are named without one (default: any)'
complete -c confine -n __confine_options -l block-internal -d 'refuse loopback, link-local, private and metadata addresses unless they are named'
complete -c confine -n __confine_options -l log-network -d 'log allowed attempts too'
complete -c confine -n __confine_options -l network-bytes -x -d 'all bytes through the network, both ways together'
complete -c confine -n __confine_options -l network-connections -x -d 'connections through the network at one time'
complete -c confine -n __confine_options -l publish -x -d 'show a port inside on the caller'\''s loopback'
complete -c confine -n __confine_options -l allow-read -r -F -d 'let it be read; the most specific path wins'
complete -c confine -n __confine_options -l allow-write -r -F -d 'let it be read and written; the most specific path wins'
complete -c confine -n __confine_options -l deny -r -F -d 'hide what matches when the run starts; at a tie with an allowed path, deny wins; "secrets": keys and credentials'
complete -c confine -n __confine_options -l workdir -x -a 'none ro rw overlay' -d 'how the current directory appears'
complete -c confine -n __confine_options -l chdir -s C -r -F -d 'where to start'
complete -c confine -n __confine_options -l mount -x -d 'show SRC at DST (default: ro); tmpfs:DST:SIZE is an empty place of its own size'
complete -c confine -n __confine_options -l virtual-fs -d 'only mounts are visible'
complete -c confine -n __confine_options -l temp-dir -d 'a private, writable $TMPDIR (there unless switched off)'
complete -c confine -n __confine_options -l overlay -r -F -d 'keep writes to PATH apart: "confine diff" shows them, "confine apply" copies them'
complete -c confine -n __confine_options -l ephemeral-home -d 'show the home directory as an overlay, except secrets'
complete -c confine -n __confine_options -l keep -d 'keep what overlays hold after the run'
complete -c confine -n __confine_options -l rootfs -r -F -d 'a prepared tree as /; an OCI image layout and a tar are unpacked, once'
complete -c confine -n __confine_options -l log-files -d 'tell each access to a file that the rules refuse'
complete -c confine -n __confine_options -l env -x -d 'pass a variable of the caller'\''s, or set one'
complete -c confine -n __confine_options -l keep-env -d 'pass all variables, secrets too'
complete -c confine -n __confine_options -l seccomp -r -F -d 'which system calls there are'
complete -c confine -n __confine_options -l seccomp-action -x -a 'errno kill log' -d 'what happens at any other system call'
complete -c confine -n __confine_options -l isolation -x -a 'process wasm vm' -d 'what stands between the command and the host'
complete -c confine -n __confine_options -l user -x -d 'as root: run as another, by name or number'
complete -c confine -n __confine_options -l cgroup-parent -r -F -d 'where cgroups are made'
complete -c confine -n __confine_options -l allow-partial -x -d 'go on when a capability can'\''t be enforced'
complete -c confine -n __confine_options -l require -x -d 'refuse to run unless it is enforced, by that mechanism'
complete -c confine -n __confine_options -l report -r -F -d 'write the report'
complete -c confine -n __confine_options -l events -r -F -d 'write JSON lines as things happen'
complete -c confine -n __confine_options -l json -d 'capture the streams and print the whole result as JSON'
complete -c confine -n __confine_options -l exit-codes -x -a 'normalized gnu simple' -d 'which exit codes tell how it ended'
complete -c confine -n __confine_options -l log -x -a 'quiet normal verbose' -d 'what is said on stderr; quiet draws no status line either'
complete -c confine -n __confine_options -l log-format -x -a 'text json' -d 'how it is said'
complete -c confine -n __confine_options -l tty -x -a 'auto always never' -d 'a pty for the command; auto: when the caller has one'

complete -c confine -n '__confine_is explain' -l path -r -F -d 'may it be read, or what --access says?'
complete -c confine -n '__confine_is explain' -l access -x -a 'read write create exec' -d 'what is asked about each --path'
complete -c confine -n '__confine_is explain' -l host -x -d 'may it be reached?'
complete -c confine -n '__confine_is explain' -l syscall -x -d 'is it let through? Arguments are numbers and names such as AF_PACKET; "_" is any'
complete -c confine -n '__confine_is doctor' -l json -d 'print JSON'
complete -c confine -n '__confine_is profiles' -l json -d 'print JSON'
complete -c confine -n '__confine_is seccomp' -l arch -x -a 'amd64 arm64' -d 'the architecture; if left out, this one, and both for check'
complete -c confine -n '__confine_is seccomp' -l action -x -a 'errno kill log' -d 'as under --seccomp-action'
complete -c confine -n '__confine_is seccomp' -l kernel -x -d 'as on this kernel, for entries of profiles that ask; if left out, the running one'
complete -c confine -n '__confine_is seccomp' -l bpf -d 'show the program, disassembled'
complete -c confine -n '__confine_is seccomp' -l json -d 'capture the streams and print the whole result as JSON'
complete -c confine -n '__confine_is seccomp' -a 'show check diff'
complete -c confine -n '__confine_is learn' -l output -s o -r -F -d 'where the profile goes (default: NAME.confine.toml)'
complete -c confine -n '__confine_is learn' -l name -x -d 'what it is called (default: as the command)'
complete -c confine -n '__confine_is learn' -l merge -r -F -d 'add to what an earlier run wrote'
complete -c confine -n '__confine_is learn' -l overwrite -d 'replace a file that is there'
complete -c confine -n '__confine_is diff' -l run -x -d 'the run; if left out, the latest that changed something in the current directory or around it'
complete -c confine -n '__confine_is diff' -l patch -s p -d 'show what changed in text files: to look at, and for patch(1) as far as nothing is escaped, which it says'
complete -c confine -n '__confine_is diff' -l list -d 'list the runs whose changes are kept, with their trees; with --json, an object a line'
complete -c confine -n '__confine_is diff' -l json -d 'capture the streams and print the whole result as JSON'
complete -c confine -n '__confine_is apply' -l run -x -d 'the run; if left out, the latest that changed something in the current directory or around it'
complete -c confine -n '__confine_is apply' -l force -s f -d 'also where the real tree has changed since the run'
complete -c confine -n '__confine_is apply' -l allow-protected -d 'also what programs outside run or obey, as git hooks, and links that lead out of the tree'
complete -c confine -n '__confine_is discard' -l run -x -d 'the run; if left out, the latest that changed something in the current directory or around it'
complete -c confine -n '__confine_is version' -l json -d 'print JSON'
complete -c confine -f -n '__confine_is completion' -a 'bash zsh fish'
complete -c confine -f -n '__confine_is profiles' -a 'default permissive standard strict testing development'
complete -c confine -f -n '__confine_is help' -a 'run explain doctor profiles seccomp learn shell diff apply discard session serve selftest trust completion version help'
complete -c confine -F -n '__confine_is trust diff apply discard seccomp'
