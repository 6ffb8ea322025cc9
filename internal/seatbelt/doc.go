// Package seatbelt compiles a [view.View] into a profile of the sandbox of macOS: text for sandbox-exec, and the parameters that the text
// names paths by. It only computes, on any system.
//
// # How a profile is read
//
// Of all rules that match an operation the last one counts. So the rules come in the order of their paths, directories before what
// is in them: what a view says of a path follows what it says around it. A path is never part of the text: it is a parameter, so that no
// character of it is read as anything else. Paths are canonical, since the kernel compares them with those of the files themselves:
// /private/tmp, not /tmp.
//
// # What can't be moved away
//
// Rules are about paths, and who renames a directory renames all paths in it. So each directory of a writable tree that leads to another
// rule can't be renamed or removed, nor can the tree itself. Hard links and clones would be another path of the same content, and nobody
// makes any.
//
// # What this does not stop
//
//   - A name that differs in case from a protected one that isn't there, on a volume that takes the two for the same: it can be
//     made. So can a directory, elsewhere, that is then renamed to what a protected path leads through. What stands at
//     protected paths when everybody has ended is removed by who built the sandbox ([Profile] says nothing of it).
//   - What the services of base.sbpl do for whom they are asked by. They are few, each with its reason.
//   - What is open already.
package seatbelt
