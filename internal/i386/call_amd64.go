package i386

// Getpid is the number of getpid on i386.
const Getpid = 20

// Call makes a call without arguments and gives what the kernel answers: a
// result, or an errno with its sign changed. Where the kernel has no 32-bit
// calls the process dies by SIGSEGV.
func Call(nr uint32) int32
