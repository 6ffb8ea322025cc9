package seccomp

import "github.com/confine-run/confine/internal/i386"

const hasI386 = true

func i386Getpid() int32 { return i386.Call(i386.Getpid) }
