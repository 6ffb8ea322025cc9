package qemu

// ticks is the time stamp counter of the CPU.
func ticks() uint64
