// Package policyfile reads policies over system calls from files, of TOML and of the
// JSON of Docker and OCI. It names each mistake with its line and column.
//
// # TOML
//
//	extends = "default"          # or "strict"; its rules come after these
//	default_action = "deny"      # for calls that no rule names; any word of the table in package seccomp
//	default_errno = "ENOSYS"     # under default_action = "errno"; without: EPERM
//
//	[[rules]]                    # the first that holds decides
//	rule = "no-sockets"          # its name, for people
//	names = ["socket"]
//	action = "errno"
//	errno = "EAFNOSUPPORT"       # without: EPERM
//	reason = "…"
//	args = [{ index = 0, op = "ne", value = "AF_UNIX", width = 32 }]
//
// All conditions of a rule must hold. op is eq, ne, lt, le, gt, ge (with value),
// in or not_in (with values); comparisons are without sign. mask picks bits
// before the comparison. width must be said: 32 where the kernel takes an int,
// because it ignores the upper half of the register then, and a comparison of
// all 64 bits is one that the target can dodge. Values are numbers, hexadecimal
// strings, or constants such as "AF_UNIX" and "CLONE_NEWUSER|CLONE_NEWNET".
//
// Calls that only the other architecture has may be named. Whoever writes
// default_action = "allow" should know that everything new in the kernel is
// allowed with it.
//
// # Profiles of Docker and OCI
//
// A file that starts with a brace is one. It is read for a [Target], because it may
// have entries for some architectures and kernels only, and decides as runc and
// libseccomp do for a container without capabilities. What it says that can't be
// done is a *seccomp.PolicyError; what is not as it looks is in Policy.Notices. Comparisons
// are of 64 bits there, which is what libseccomp does and not what their authors
// meant: see the package inspect, which finds those that can be dodged.
//
// # How it is read
//
// The reader of each format stops at the first mistake by a panic with it, which
// [Parse] gives back as an error; it lets every other panic go on.
package policyfile
