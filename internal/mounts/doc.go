// Package mounts reads proc_pid_mountinfo(5) for the outside, with
// github.com/moby/sys/mountinfo, which parses it on Linux only. The inside has a reader of
// its own (child/internal/root/mountinfo_linux.go).
package mounts
