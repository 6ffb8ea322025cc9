package selftest

import (
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// leaks: nothing of the caller leaks in.
func leaks() []attempt {
	return []attempt{
		{name: "descriptors", invariant: 1, tries: "uses a descriptor that the caller left open",
			inside: "inherited"},
		{name: "stdin_write", invariant: 1, tries: "writes to the file that is its standard input",
			inside: "any writefd 0 , reopen 0 write , reopen 0 truncate", outside: "each writefd 0 , reopen 0 write", streams: true, traces: true},
		{name: "stdout_read", invariant: 1, tries: "reads the file that its output goes to",
			inside: "any readfd 1 , reopen 1 read", outside: "each readfd 1 , reopen 1 read", streams: true},
		{name: "stdout_cut", invariant: 1, tries: "cuts the file that its output goes to",
			inside: "any truncate 1 , truncate 2 , seekwrite 1 , reopen 1 truncate , reopen 2 truncate", outside: "each reopen 1 truncate , truncate 1", streams: true, traces: true},
		{name: "terminal", invariant: 1, tries: "opens the caller's terminal as its own",
			inside: "tty"},
		{name: "terminal_input", invariant: 6, walls: walls(status.Syscalls), tries: "types into a terminal (TIOCSTI)",
			inside: "call tiocsti"},
		{name: "terminal_input_high", invariant: 6, walls: walls(status.Syscalls), tries: "the same with a bit that careless filters overlook",
			inside: "call tiocsti_high"},
		{name: "console", invariant: 6, walls: walls(status.Syscalls), tries: "pastes into a console (TIOCLINUX)",
			inside: "call tioclinux"},
		{name: "environment", invariant: 1, tries: "reads a secret of the caller's environment",
			inside: "variable {variable}"},
		{name: "keyring", invariant: 1, tries: "finds a key of the caller's session, without a filter of system calls in its way",
			inside: "key {key}", policy: func(p *config.Policy, _ values) { p.Seccomp = "off" }},
		{name: "abstract_socket", invariant: 1, walls: walls(status.Network), tries: "connects to an abstract unix socket of the host",
			inside: "connect unix {abstract}"},
		{name: "unix_socket", invariant: 1, walls: walls(status.Filesystem), tries: "connects to a unix socket in a directory that isn't shown",
			inside: "connect unix {sock}", policy: readOnly},
		{name: "sysv_memory", invariant: 1, walls: walls(status.Filesystem), tries: "attaches shared memory of another program (shmget)",
			inside: "segment {segment}"},
		{name: "posix_memory", invariant: 1, walls: walls(status.Filesystem), tries: "opens shared memory of another program (/dev/shm)",
			inside: "read {posix}"},
		{name: "parent_memory", invariant: 1, walls: walls(status.Containment), tries: "opens its parent's memory, environment, descriptors, program and root by /proc",
			inside:  "any memory parent , environ parent , rootof parent /etc/passwd , read /proc/1/maps , read /proc/1/auxv , read /proc/1/cwd/ , read /proc/1/fd/3 , overwrite /proc/1/fd/3 , overwrite /proc/1/exe",
			outside: "each memory child , environ child , rootof child /etc/passwd"},
		{name: "supervisor_memory", invariant: 1, walls: walls(status.Containment), tries: "the same with the supervisor, and with another program of the caller's",
			inside:  "any memory {supervisor} , environ {supervisor} , memory {victim} , environ {victim} , rootof {victim} {secret}",
			outside: "each memory child , environ {victim}"},
		{name: "parent_traced", invariant: 1, walls: walls(status.Containment), tries: "traces its parent, reads its memory, takes its descriptors",
			inside:  "any peek parent , pidfd parent 0 , pidfd parent 3 , ptrace parent",
			outside: "each peek child , pidfd child 0 , ptrace child"},
		{name: "parent_limits", invariant: 1, walls: walls(status.Syscalls), tries: "changes the limits of its parent",
			inside: "limit parent", outside: "limit child"},
		{name: "others_traced", invariant: 1, walls: walls(status.Containment), tries: "the same with the supervisor, and with another program of the caller's",
			inside:  "any peek {supervisor} , pidfd {supervisor} 0 , ptrace {supervisor} , peek {victim} , pidfd {victim} 0 , ptrace {victim}",
			outside: "each peek child , pidfd child 0 , ptrace child"},
		{name: "signals", invariant: 1, walls: walls(status.Containment), tries: "sends signals to the supervisor, and to another program of the caller's",
			inside: "any signal {supervisor} , signal {victim}"},
	}
}

// survivors: nothing of the target's outlives the run.
func survivors() []attempt {
	contained := walls(status.Containment)
	return []attempt{
		{name: "survivor", invariant: 2, walls: contained, tries: "leaves a process of another session behind (double fork, setsid)",
			inside: "daemon 30 {token}", leaves: true},
		{name: "survivor_timeout", invariant: 2, walls: contained, tries: "the same, and is deaf to the signal that its time is up",
			inside: "each daemon 30 {token} , deaf 30", outside: "daemon 30 {token}", leaves: true, ends: []status.Status{status.Timeout},
			policy: func(p *config.Policy, _ values) { p.TimeLimit, p.Grace = tightTime, tightTime }},
		{name: "survivor_kill", invariant: 2, walls: contained, tries: "the same, while confine itself is killed by SIGKILL",
			inside: "each daemon 30 {token} , deaf 30", outside: "daemon 30 {token}", leaves: true, special: (*driver).killed},
		{name: "fork_bomb", invariant: 2, walls: contained, tries: "forks without pause, and leaves what it forked behind",
			inside: "bomb 40 1 {token}", outside: "bomb 3 1 {token}", special: (*driver).bombed, leaves: true,
			policy: func(p *config.Policy, _ values) { p.Processes = 24 }},
	}
}
