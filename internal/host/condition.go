package host

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// mustRunVar names the conditions that have to hold: a test that would be skipped
// for want of one fails.
const mustRunVar = "CONFINE_MUST_RUN"

// Has answers a condition of a test, by the probes that the doctor prints:
//
//	userns, overlay, seccomp, …     a probe's name
//	landlock:4                      a probe that has a version, at least this one
//	cgroup2:memory, cgroup1:pids    a controller that can be used
//	procmount                       proc_mount
//	kernel:5.14                     at least this one
//	root, linux                     who and what
//	program:node                    found in PATH
//
// A condition that does not exist is an error, and so is one that could not be
// found out.
func Has(cond string) (bool, error) {
	name, arg, hasArg := strings.Cut(cond, ":")
	probe, version := cond, 0
	switch {
	case cond == "root":
		return os.Geteuid() == 0, nil
	case cond == "linux":
		return !Current().Kernel().IsZero(), nil
	case name == "kernel" && hasArg:
		least := ParseKernel(arg)
		if least.IsZero() {
			return false, fmt.Errorf("condition %q: not a version", cond)
		}
		return Current().Kernel().AtLeast(least), nil
	case name == "program" && arg != "":
		_, err := exec.LookPath(arg)
		return err == nil, nil
	case cond == "procmount":
		probe = "proc_mount"
	case name == "landlock" && hasArg:
		probe = name
		if version, _ = strconv.Atoi(arg); version < 1 {
			return false, fmt.Errorf("condition %q: not a version", cond)
		}
	}
	if _, ok := find(probe); !ok && !isCgroupProbe(probe) {
		return false, fmt.Errorf("condition %q: no such condition", cond)
	}
	r, _ := examined().Result(probe)
	if r.Answer == Unknown {
		return false, fmt.Errorf("condition %q: %w", cond, r.Err())
	}
	return r.Answer == Yes && r.Version >= version, nil
}

func isCgroupProbe(name string) bool {
	hierarchy, controller, _ := strings.Cut(name, ":")
	return name == "cgroup2" || hierarchy == "cgroup2" && slices.Contains(v2Controllers[:], controller) ||
		hierarchy == "cgroup1" && slices.Contains(v1Controllers[:], controller)
}

// MustRun is an error where CONFINE_MUST_RUN says that tests with this
// condition have to run here. It is for the place where one is about to be
// skipped. The variable is a list with commas between; "program:*" stands for all
// programs and "all" for everything.
func MustRun(cond string) error {
	for _, want := range strings.Split(os.Getenv(mustRunVar), ",") {
		want = strings.TrimSpace(want)
		prefix, isPattern := strings.CutSuffix(want, "*")
		if want == "" || want != cond && want != "all" && !(isPattern && strings.HasPrefix(cond, prefix)) {
			continue
		}
		err := fmt.Errorf("%s=%s: %q does not hold on this host, and the test must not be skipped", mustRunVar, want, cond)
		if r, ok := examined().Result(cond); ok && r.Answer != Yes {
			err = fmt.Errorf("%w: %w", err, r.Err())
		}
		return err
	}
	return nil
}
