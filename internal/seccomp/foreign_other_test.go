//go:build !amd64

package seccomp

const hasI386 = false

func i386Getpid() int32 { panic("no such calls from this architecture") }
