// Command confine runs any command under a policy, and says honestly what was
// enforced, by what, and why the run ended.
//
// From here to execve and back:
//
//	main.go                this file: the command line, or the inside of a run (confine.Init)
//	internal/cli           words → config.Resolve → process.Execute
//	internal/config        WHAT IS WANTED: options, files, profiles → policy
//	backend/process        WHAT WILL BE DONE: policy + host → plan
//	supervisor             OUTSIDE: clones the child, watches, stops, reports
//	child                  INSIDE: the steps, execve, and PID 1
//	status                 HOW IT ENDED: the report
package main

import (
	"os"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/selftest"
)

func main() {
	confine.Init() // a __child never gets any further
	selftest.Main()
	os.Exit(cli.Main(cli.Confined()))
}
