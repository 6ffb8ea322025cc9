// Command attempt gives scripts the words of package attempts, and a few more
// that make a command believe in another host.
package main

import (
	"os"

	"github.com/confine-run/confine/internal/attempts"
)

func main() {
	attempts.Main(os.Args[1:], faultTries, olderTries, cgroupTries, packetTries, denialTries, supervisedTries, messageTries, askTries, overhearTries)
}
