// Package windows is the backend of Windows: sandboxes of a job object and a restricted token.
//
//	Plan       policy + host facts → what the job, the token, the places and the environment will be, and the ledger: plain data,
//	           made and tested on every system (plan.go, paths.go, env.go, status.go, acl.go, journal.go)
//	Build      the places are made and granted, journal first; the job with its limits, its completion port; the token; a window station
//	           and a desktop; each is read back, and what reads back otherwise is weakened in the ledger (sandbox_windows.go)
//	Start      the process is created suspended in the job, with three handles; it is resumed when its token was looked at (start_windows.go)
//	Close      the job ends everybody, the ACEs are taken back, the places removed
//
// # What holds what
//
// The job holds memory, processes, CPU time and rate, and everybody together. The token has no privilege but to traverse directories,
// administrators only to deny, low integrity, and is write-restricted: what is written has to be granted to the SID of the run as well, which
// has its places and the trees that the policy lets be written, and nothing else. What everybody may write (Everyone, WRITE RESTRICTED,
// the logon session, which are in the same list since no program runs without the null device) stays writable where a low integrity level
// may write.
//
// # What nothing holds
//
// Reads, the network, system calls, descriptors and the size of a file. The ledger says so, and a policy that asks for them is
// refused unless it allows less.
//
// # ACEs
//
// No existing tree is given an ACE that is inherited by what is in it already: each entry is opened by itself, never through a link, and gets
// its own, of a tree with few entries; for what comes to be later a directory's is inheritable. Before an entry is changed the journal
// has its name and label. Close takes all back; after a crash "confine doctor --clean" does.
package windows
