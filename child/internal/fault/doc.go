// Package fault is what the kernel refused the inside: the call, what it was about, and the errno.
package fault
