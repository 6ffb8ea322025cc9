// Command confine runs any command under a policy, and says honestly what was
// enforced, by what, and why the run ended.
//
// From here to execve and back:
//
//	main.go                this file: the command line, or the inside (package early)
//	internal/cli           words → confine.Resolve → confine.NewPlan
//	confine                WHAT: policy + host → plan
//	supervisor             OUTSIDE: clones the child, watches, stops, reports
//	child                  INSIDE: the steps, execve, and PID 1
//	status                 HOW IT ENDED: the report
package main

import (
	"os"

	_ "github.com/confine-run/confine/child/early" // a __child never gets any further
	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/selftest"
)

func main() {
	confine.Init() // the inside, in a build without package early; and throw-away probes
	selftest.Main()
	os.Exit(cli.Main(cli.Confined()))
}
