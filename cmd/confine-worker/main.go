// Command confine-worker is what "confine submit", "confine jobs" and "confine worker" start, and lies beside it: they need NATS, whose
// start no run is to pay for. By itself it is a worker.
package main

import (
	"os"
	"strings"

	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/jobs/command"
)

func main() {
	backends.Init() // the inside of a sandbox is this program, started again
	args := os.Args[1:]
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = append([]string{"worker"}, args...)
	}
	os.Exit(command.Main(args, backends.For))
}
