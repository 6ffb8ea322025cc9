// Package disk holds what a run adds to the caller's own directories to a size
// and a number of files, from outside, where no file system does it.
//
// Private places are file systems of their own and have their limits in the
// kernel. A directory of the caller's that is writable inside has none: there
// this package looks, and says when it is too much. It refuses no write; the
// run has to be ended by whoever hears of it.
//
// Read watchdog.go for what follows from a look and a walk, pace.go for when there is one, forest_linux.go
// and walk_linux.go for the walk itself, open_linux.go for removed files.
//
// # What is counted
//
// What the trees hold beyond their baseline, which is what they held at the
// start. Bytes are allocated blocks (st_blocks), so that a hole costs nothing and a
// preallocated block does; files are inodes of any kind, directories too, as for
// nr_inodes of a tmpfs. An inode counts once, however many names it has and
// wherever it is moved while the trees are walked. What was there before and is
// removed gives room.
//
// Trees are walked by descriptor, one name at a time, by openat2 without
// symlinks and without crossing a mount (Linux 5.6). What is mounted below a
// tree is a tree of its own, and has to be given as one. What vanishes or changes its
// kind under the walk is passed over; the next walk finds it where it is then.
//
// A file that was removed and is still open is in no directory. After each walk the
// descriptors of the run's processes are therefore looked at (CountOpen), and what they have
// of removed files on the file systems of the trees counts, once for each inode. One from a
// tree that is only read counts as well, if somebody else removes it meanwhile.
//
// Walks cost in proportion to the trees, statfs costs nothing. So the file
// systems are asked often, and the trees are walked when the file systems have
// lost so much since the last walk that a limit could be passed, and now and
// then besides. On average walks take at most a twentieth of one core, and a
// fifth as long as twice a limit could be there. Two walks in a row have to find a
// limit passed before it is told.
//
// # The baseline
//
// It is taken while the target runs already, so as not to delay it, and the rest
// follows from that:
//
//   - An inode born since the start (btime; ctime where the file system tells no
//     btime) is not in the baseline, so that making files meanwhile gains
//     nothing. The start is known to the tick (at most 10 ms) that times of files have: what
//     the caller made within the last one counts as the run's. Without btime an older file
//     that is merely touched meanwhile counts as new.
//   - What is appended meanwhile to an older file, before the walk has come to it, is
//     in the baseline and stays uncounted.
//   - An older file that is removed meanwhile, before the walk has come to it, gives
//     no room.
//
// A tree with more entries than MaxEntries isn't walked any more. Then what its
// file systems have lost since the start counts instead, whoever took it.
//
// # What can be dodged
//
//   - A removed file that no process has a descriptor of (it is only mapped, or in flight over
//     a socket), or that is open where there is no proc of the run's own. Only the file
//     system shows it. RLIMIT_FSIZE bounds each.
//   - Whatever is written between two looks is written: a limit that is found
//     passed may have been passed by as much as the disk takes in some
//     milliseconds and two walks.
//   - What others free on the same file system at the same time hides as much of what
//     the run takes. Only the walks of now and then find it; after the last one nothing does.
//   - A directory that is moved from where the walk has yet to come to where it has
//     been is missed by this walk. Whoever moves it all the time is found only
//     when a walk is lucky.
//   - A directory that the target makes unreadable hides what is in it, if the
//     caller isn't root. From then on what the file systems have lost counts, if it
//     is more.
//   - A file that shares its blocks with another (reflink) counts in full, and so
//     does one that the file system compresses or one that XFS has preallocated for.
//
// # Why no project quota
//
// The kernel would refuse the write itself by a project quota of ext4 or XFS, and
// it was considered. It can't be had without changing the caller's tree for good:
//
//   - The directory has to get a project id and FS_XFLAG_PROJINHERIT. Every file made in it
//     then carries the id, after the run as well: taking it back is a walk over
//     everything, which a SIGKILL to the supervisor prevents. Then the caller's
//     directory keeps a limit that nobody knows of, and the caller's own next
//     build fails with EDQUOT.
//   - Only an empty directory would be held in full. What is in it before keeps its
//     own id and grows outside the quota, and the subdirectories that were there
//     don't pass an id on.
//   - Renames and hard links between different project ids fail with EXDEV, so
//     that programs inside and outside would see errors that have nothing to do
//     with a limit.
//   - Project ids are the administrator's to give (/etc/projid). A free one can't
//     be reserved, two runs could take the same, and Q_SETQUOTA on one that is
//     in use overwrites its limit.
//   - It takes CAP_SYS_ADMIN in the initial user namespace and a file system
//     mounted with prjquota: almost nobody who runs confine has both.
//
// Who has such a file system and wants the kernel to hold the limit sets the
// quota up once, on a directory for this purpose, and gives that directory to
// the run: statfs in it then shows the quota, and the target gets EDQUOT.
package disk
