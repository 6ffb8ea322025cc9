package confine

import (
	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// Policy is what is wanted, whatever the host: limits (TimeLimit, CPUTime, MemoryLimit, Processes, DiskLimit, OutputLimit, …), and what of
// the network, of the file system and of the environment is there. The zero value of a limit is none. docs/POLICY.md
// has all fields (go doc ./internal/config Policy lists them); Validate says what is wrong with one.
type Policy = config.Policy

// The parts of a Policy.
type (
	Network    = config.Network
	Filesystem = config.Filesystem
	Mount      = config.Mount
	Env        = config.Env
	User       = config.User
)

// Report says how a run or a process ended, and what was enforced. Its statuses and causes are the constants of package
// github.com/confine-run/confine/status.
type Report = status.Report

// BoxReport says what all processes of a sandbox came to.
type BoxReport = status.BoxReport

// UsageError is a mistake in what was asked for, with a hint. Nothing was started.
type UsageError = config.UsageError

// DirError is a directory of a [Cmd] that isn't there inside its sandbox: nothing was started.
type DirError = backend.DirError

// Default is the policy of the profile "default".
func Default() *Policy {
	p := config.Default()
	return &p
}

// Profile is the policy of a built-in profile; [Profiles] has their names.
func Profile(name string) (*Policy, error) {
	p, err := config.Profile(name)
	return &p, err
}

// Profiles are the names of the built-in profiles.
func Profiles() []string { return config.Profiles() }
