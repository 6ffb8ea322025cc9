// Package oci is the command line of an OCI runtime: podman, containerd and whoever else makes bundles starts containers with it, and each
// container is a sandbox.
//
// # What of a bundle is taken
//
// [Translate] makes a policy of a config.json. Each thing that a bundle asks for is taken, or refused by its name, or noted: it isn't had, and the note
// says why that takes nothing from anybody's walls. A field that isn't known is refused too, since a later version of the specification may
// mean a wall by it. Nothing is left out silently. docs/OCI.md has the table.
//
// # Processes
//
//	conmon, or a shim ── confine oci create ── supervisor ══ init, PID 1 inside ── the container's process
//	   │    (a reaper)       (ends)               ▲  ▲
//	   └── waits for the supervisor's end ────────┘  │ control socket
//	       confine oci start, kill, state, exec ─────┘
//
// create starts the supervisor (hold_linux.go), which builds the sandbox, and ends when that stands; the supervisor is then a child of the engine's reaper. The pid that
// runtimes tell is the supervisor's: it lives as long as the container's process, exits as that does, and its death is the death of all that is inside. What
// reads /proc of that pid to see inside sees the host.
//
// Where a bundle names a network namespace, the supervisor was started in that; else it is in an empty one, as it is in ipc and uts namespaces of its own, since
// containers are told to join those of others by that pid. It is in a mount namespace in which there is one file system more, with the root and the sources of mounts
// (place_linux.go): each is resolved once, by root, and what the container's user can't reach by name is found there.
//
// # State
//
// A directory for each container (state_linux.go), 0700: what create was told, a lock that the supervisor holds as long as it lives, and its control socket. A
// container whose lock nobody holds has stopped, whatever else stands there.
package oci
