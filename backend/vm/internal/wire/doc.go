// Package wire is what the host and the guest of a machine say to each other over its serial port.
//
//	host                                     guest
//	                          <- Hello       it is up, or why not
//	Call "open" ->                           builds its sandbox
//	                          <- Reply
//	Call "start", number n ->                starts a process
//	                          <- Reply
//	Stdin n ->        <- Stdout n, Stderr n  no more than Window bytes that weren't Taken
//	Taken n ->                <- Taken n
//	                          <- Event n     a denial, a limit
//	                          <- End n       the report; nothing of n follows
//
// A frame is its kind, a number, a length, and so many bytes. The host believes nothing that the guest says: lengths are
// compared before anything is read, and what was not asked for ends the machine.
package wire
