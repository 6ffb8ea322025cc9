// Command guest is what runs in the machines of the proving ground: /init of the
// initramfs, PID 1 of those machines that have no systemd, and the trial.
//
//	/init           loads modules, mounts the disk, and becomes what PID 1 shall be
//	guest host      prepares the host that the orders describe, and starts the trial in it
//	guest trial     runs confine once for its ledger, then the scripts, and tells what came of it
//
// What it tells goes to standard output, one line of JSON each, which whoever
// starts it connects to the second serial port. When all is said, the machine is
// ended from outside.
package main
