package outcome

import "syscall"

const sigSYS = syscall.Signal(12)

// signalNames are the numbers of 4.2 BSD.
var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "EMT", 8: "FPE", 9: "KILL",
	10: "BUS", 11: "SEGV", 12: "SYS", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "URG", 17: "STOP",
	18: "TSTP", 19: "CONT", 20: "CHLD", 21: "TTIN", 22: "TTOU", 23: "IO", 24: "XCPU", 25: "XFSZ",
	26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "INFO", 30: "USR1", 31: "USR2",
}
