package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// payload is what every machine gets, built from the tree.
type payload struct {
	dir  string
	tree string // the directory of the integration tests
}

// built are the programs, by their place in the payload, with what makes them.
var built = [][]string{
	{"guest", "build", "-trimpath", "./integration/machines/guest"},
	{"programs/confine", "build", "-trimpath", "."},
	{"programs/attempt", "build", "-trimpath", "./integration/attempt"},
	{"programs/netpeer", "build", "-trimpath", "./integration/netpeer"},
	{"integration.test", "test", "-c", "-trimpath", "./integration"},
}

// build makes the programs in dir. What they are made from decides every byte.
func build(root, dir string) (*payload, error) {
	for _, b := range built {
		out := filepath.Join(dir, b[0])
		if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
			return nil, err
		}
		last := len(b) - 1
		args := append([]string{}, b[1:last]...)
		args = append(args, "-buildvcs=false", "-ldflags", "-s -w", "-o", out, b[last])
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, text)
		}
	}
	return &payload{dir: dir, tree: filepath.Join(root, "integration")}, nil
}

// files are all of it, by their names in the payload.
func (p *payload) files(scripts []string) map[string]string {
	all := map[string]string{}
	for _, b := range built {
		all[b[0]] = filepath.Join(p.dir, b[0])
	}
	for _, script := range scripts {
		name := "testdata/" + script + ".txtar"
		all["tree/"+name] = filepath.Join(p.tree, filepath.FromSlash(name))
	}
	return all
}

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
