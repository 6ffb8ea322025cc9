package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestTheContainerHasDockersProfile holds the filter in config.json against
// moby's for the capabilities that it grants. The rest of the file is written by
// hand, after what "docker run" makes of no options at all; there is no AppArmor
// profile in it. UPDATE_GOLDEN=1 takes the filter anew.
func TestTheContainerHasDockersProfile(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the profile depends on the architecture, and the machines are amd64")
	}
	was, err := os.ReadFile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(was, &spec); err != nil {
		t.Fatal(err)
	}
	if spec.Linux.Seccomp, err = moby.GetDefaultProfile(&spec); err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(spec, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("config.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(was, want) {
		t.Fatal("config.json has another filter than moby's default\nhint: UPDATE_GOLDEN=1 go test ./integration/machines")
	}
	for _, ns := range spec.Linux.Namespaces {
		if ns.Type == specs.UserNamespace {
			t.Fatal("the container shall have no user namespace")
		}
	}
}
