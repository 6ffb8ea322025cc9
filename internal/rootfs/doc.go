// Package rootfs decides what the target of a run sees of the file system, and what of it is writable: a
// [view.View]; and makes the mount table of it. It only computes. The table is data
// that the child acts on, and nothing here needs privilege or changes anything.
//
// compile.go has the steps, each with the reason for its place. What each takes is in a package beside
// this one: names (where names lead), discover (tool chains), hide (denied paths, secrets, sockets), protect
// (what host programs obey), gitdir (what git obeys). mounts.go makes the table, of the view alone.
//
// # What is visible
//
//   - System, read-only: /usr, the /bin-like links, of /etc a chosen part or what every
//     user may read, some of it written anew, a fresh /proc, a minimal /dev.
//   - The tool chains that the caller really uses, read-only, found from PATH
//     and the like, never with the credentials beside them. Links in trees of work
//     and pyvenv.cfg files lead to nothing that isn't one (package discover).
//   - The current directory, as the policy wants it, unless it is too broad.
//   - What the policy names.
//   - Private writable places: /tmp, /var/tmp, /dev/shm and the home directory.
//
// The most specific path wins. At a tie deny beats write, write beats overlay,
// and overlay beats read. What the caller named beats what a profile or
// discovery adds.
//
// A virtual file system hides everything of the caller's: current directory,
// home, tool chains, what the policy allows to read. System and the private
// places stay, since almost nothing runs without a loader and a C library.
//
// A prepared tree as the root (Rootfs) stands in the place of the system. Names
// inside are then followed in it: an absolute link of the tree's never leads to
// the host.
//
// # Names
//
// Every path of the caller is resolved once, to a descriptor, and none through a
// symbolic link that lies in a tree of work: see package names. The table has the
// canonical path and the device and inode of that descriptor; the child opens
// the canonical path without following links and compares. Things appear at
// their canonical path, and the symbolic links that the name as given leads
// through appear as links.
//
// # What this does not stop
//
//   - Of /etc an ordinary user's target reads what that user may, by ownership and
//     groups too, but for the names in secrets.InEtc.
//   - Sockets of the host's that lie in a shown tree are hidden, when the kernel lists
//     them, by their names or by the numbers of their files (Linux 3.3, unix_diag). One that is
//     bound later, in another network namespace, or was renamed to where the search for
//     it doesn't get, can be connected to, when its mode lets the target's user: read-only
//     mounts don't prevent that, and neither does a filter of system calls, which can't
//     read paths. From Linux 7.1 on Landlock does.
//   - uid 0 of root's runs owns the files of /proc, and may set the modes of those that are neither
//     hidden nor read-only (meminfo, loadavg, …): the kernel keeps one mode for the whole host.
//   - A deny pattern hides what matches when the run starts. It doesn't prevent
//     a target from making something of that name in a writable tree. Where a
//     pattern, or a path that isn't there yet, meets one, Table.DenyAtStart says so.
//   - An overlay shows nothing of what is mounted below its tree. Where that can be
//     taken off, it is shown read-only; elsewhere the tree is read-only (Table.Nested).
//   - Rules are about paths. Somebody outside who renames things in an allowed
//     tree while the plan is being made can show them by another name; from the
//     plan on, what is hidden or protected has to be where it was.
//   - The set of secrets finds files by their names, not in every form.
//   - Protection covers the root of each writable tree, its git directory,
//     submodules and worktrees, and what the index names as gitlinks, not other repositories
//     further down. What the index comes to name in the run is the supervisor's.
package rootfs
