package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// containerConfig writes what the container's runtime is told: config.json, which is written by
// hand after what "docker run" makes of no options at all, without an AppArmor profile, and the
// seccomp profile that Docker gives those capabilities.
func containerConfig(from, to string) error {
	if runtime.GOARCH != "amd64" { // which the machines are
		return fmt.Errorf("the seccomp profile of a container is made for %s here", runtime.GOARCH)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var spec specs.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	if spec.Linux.Seccomp, err = moby.GetDefaultProfile(&spec); err != nil {
		return err
	}
	for _, ns := range spec.Linux.Namespaces {
		if ns.Type == specs.UserNamespace {
			return fmt.Errorf("%s gives the container a user namespace", from)
		}
	}
	if text, err = json.Marshal(&spec); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
