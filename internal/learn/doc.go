// Package learn makes a profile of what a run was seen to do, which lets the command run
// again under the rules of the profile "strict". It only computes: somebody else has run
// the command and watched it.
//
//	accesses, hosts, system calls, usage ─▶ Seen ─┐
//	what strict grants anyway, the host ─▶ World ─┴▶ Fold ─▶ Profile ─▶ TOML (and Merge with an older one)
//
// # What becomes of an access
//
// What strict shows by itself (system, tool chains, private places) needs nothing. Of the
// rest, files that are read are granted one by one, or as their directory when several
// of it are read or it is listed; below the current directory, as that. What is made,
// removed or renamed needs its directory to be writable. A directory that the run made itself
// won't be there the next time, so the one above it has to be. The files are those of
// the host: a link is followed, and the name that leads through it is granted, too.
//
// Some directories are never granted as a whole, because they hold far more than one
// program's files: see broad. Secrets are granted when that very file was read, in a line
// of their own, and hidden otherwise (deny_patterns = ["secrets"]).
//
// # What can't be learned
//
// What the run didn't do: other arguments and other input take other ways. What is done
// by a descriptor that was there before. Which variables of the environment were read. How
// large files became that were removed again. The profile says so at its head.
package learn
