// Package layers is what sandboxes stand on: the files that other sandboxes have left, shared and never written again.
//
// A [Ground] is one layer, on the ground below it. It lies in memory, where it is the scratch file system of
// a sandbox that ended there, held by mounts in no namespace; or on a disk, where it is a snapshot, held by
// descriptors of its directories. What is in memory never lies below what is on a disk. A ground stays as long as
// somebody holds it.
package layers
