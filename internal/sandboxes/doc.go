// Package sandboxes keeps sandboxes for clients that come and go: a daemon's, or those of one session on the command line.
//
// A [Manager] opens a [Sandbox] for an owner, who alone sees it, and closes it when its lifetime or its idle time is over,
// when its backend says that it has ended, or when it is asked to. In it run processes, each with a [Log] of frames:
// what it wrote and what became of it, by sequence numbers, so that a client that was cut off goes on where it was. The log is
// bounded. While somebody follows, nothing that was not taken is dropped and the process waits instead; when nobody
// does, the oldest goes, and the process is never held up.
//
// What has ended stays for a day as a tombstone that says why, without its output.
package sandboxes
