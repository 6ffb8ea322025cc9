package integration

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

// measure are scripts that hold what ends in time to a figure, with nobody beside them.
var measure = []string{"testdata/limits_memory_fast_growth.txtar"}

func TestScriptsThatMeasure(t *testing.T) { runScripts(t, measure) }

func TestScripts(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob("testdata/*.txtar")
	must.Do(t, err)
	runScripts(t, slices.DeleteFunc(all, func(name string) bool { return slices.Contains(measure, name) }))
}

func runScripts(t *testing.T, files []string) {
	work := filepath.Join(scene.dir, "work")
	must.Do(t, os.MkdirAll(work, 0o755))
	testscript.Run(t, testscript.Params{
		Files:               files,
		WorkdirRoot:         work,
		Setup:               prepare,
		Condition:           condition,
		Cmds:                commands,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
	})
}

// passedOn are variables of the caller's that tool chains need. Everything else
// that a script finds is made for it.
var passedOn = []string{
	"GOROOT", "GOTOOLCHAIN", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "PYENV_ROOT", "JAVA_HOME", "CARGO_HOME", "RUSTUP_HOME", "LANG", "CONFINE_SDKS", "VMKERNEL",
}

// prepare gives a script a binary of its own, by which everything that is left
// of its runs can be told from other scripts', a home and a place for temporary
// files. They lie beside the script's directory, so that this is a project like
// any other. At the end of each, nothing of its runs is left, as by clean.
func prepare(env *testscript.Env) error {
	name := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
	p, err := newPlace(name)
	if err != nil {
		return err
	}
	own := p.own
	kind, about, _ := strings.Cut(name, "_")
	also := map[string][]string{"session": {"confine-server"}, "serve": {"confine-server"}, "vm": {"confine-vm", "confine-server"}, "wasm": {"confine-wasm", "confine-server"}, "report": {"confine-server"}, "jobs": {"confine-worker"}}[kind]
	network := kind == "network" || about == "network"
	if network {
		also = append(also, "netpeer")
	}
	for _, also := range also {
		if err := copyProgram(filepath.Join(scene.programs, also), p.program(also)); err != nil {
			return err
		}
	}
	if err := copyShared(filepath.Join(own, "bin")); err != nil {
		return err
	}
	env.Setenv("PATH", filepath.Join(own, "bin")+":"+os.Getenv("PATH"))
	env.Setenv("HOME", filepath.Join(own, "home"))
	env.Setenv("REALHOME", os.Getenv("HOME"))
	env.Setenv("TMPDIR", filepath.Join(own, "tmp"))
	env.Setenv("OWN", own)
	env.Setenv("ATTEMPT", p.program("attempt"))
	for _, key := range passedOn {
		if value := os.Getenv(key); value != "" {
			env.Setenv(key, value)
		}
	}
	if kind == "session" || kind == "serve" || name == "vm_teleport" {
		run := filepath.Join(env.WorkDir, "run")
		if err := errors.Join(os.MkdirAll(run, 0o700), os.Chmod(run, 0o700)); err != nil { // serve_ceiling has files there
			return err
		}
		env.Setenv("XDG_RUNTIME_DIR", run)
	}
	wholly := kind == "learn" || network && name != "network_none" // what these are about is there, or they are skipped
	if os.Getenv("CONFINE_TEST_PARTIAL") != "" && !wholly {        // on hosts that hold less
		env.Setenv("CONFINE_ALLOW_PARTIAL", "all")
	}
	before, err := takeStock(own, env.WorkDir)
	if err != nil {
		return err
	}
	env.Values[stockKey{}] = before
	env.Defer(func() {
		defer func() { _ = os.RemoveAll(own) }()
		if t, ok := env.T().(interface{ Failed() bool }); ok && t.Failed() {
			return // in the middle, whatever is left there
		}
		if left := before.left(); len(left) > 0 {
			env.T().Fatal("left behind:\n" + strings.Join(left, "\n"))
		}
		if err := validReports(env.WorkDir); err != nil {
			env.T().Fatal(err)
		}
	})
	return nil
}

//go:embed testdata/bin
var shared embed.FS

// copyShared gives a script the programs that several have in common.
func copyShared(dir string) error {
	programs, err := shared.ReadDir("testdata/bin")
	for _, program := range programs {
		text, _ := shared.ReadFile("testdata/bin/" + program.Name())
		syscall.ForkLock.RLock() // as in copyProgram
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, program.Name()), text, 0o755))
		syscall.ForkLock.RUnlock()
	}
	return err
}

// condition answers what testscript itself doesn't know.
func condition(cond string) (bool, error) {
	if name, ok := strings.CutPrefix(cond, "prog:"); ok {
		cond = "program:" + name
	}
	if module, ok := strings.CutPrefix(cond, "python:"); ok {
		return hasModule("python3", module, cond)
	}
	if module, ok := strings.CutPrefix(cond, "debian:"); ok {
		return hasModule("/usr/bin/python3", module, cond)
	}
	if name, ok := strings.CutPrefix(cond, "sdk:"); ok {
		return hasSDK(name, cond)
	}
	if cond == "vmkernel" {
		return hasKernel()
	}
	if cond == "wasi" {
		if compilesWASI() {
			return true, nil
		}
		return false, host.MustRun(cond)
	}
	ok, err := host.Has(cond)
	if err != nil || ok {
		return ok, err
	}
	return false, host.MustRun(cond)
}

// hasKernel says whether machines can be booted: there is QEMU, and a kernel for them, which VMKERNEL names.
func hasKernel() (bool, error) {
	_, err := os.Stat("/usr/bin/qemu-system-x86_64")
	if err == nil {
		_, err = os.Stat(os.Getenv("VMKERNEL"))
	}
	if err == nil {
		return true, nil
	}
	return false, host.MustRun("vmkernel")
}

// compilesWASI says whether clang makes modules of WebAssembly, which takes wasi-libc.
var compilesWASI = sync.OnceValue(func() bool {
	cmd := exec.Command("clang", "--target=wasm32-wasi", "-x", "c", "-", "-o", "/dev/null")
	cmd.Stdin = strings.NewReader("int main(){return 0;}")
	return cmd.Run() == nil
})

// hasSDK says whether somebody's package was installed for these tests, below CONFINE_SDKS.
func hasSDK(name, cond string) (bool, error) {
	file, ok := map[string]string{"python": "python/bin/python", "js": "js/node_modules/e2b/package.json"}[name]
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	if dir := os.Getenv("CONFINE_SDKS"); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return true, nil
		}
	}
	return false, host.MustRun(cond)
}
