// Command confine-vm is the process beside QEMU in "--isolation vm", and lies beside confine: it unpacks kernels, and no other run is to pay
// for the start of what that takes. It is started inside of a run.
package main

import (
	"os"

	"github.com/confine-run/confine/backend/vm/qemu"
)

func main() { qemu.Main(os.Args) }
