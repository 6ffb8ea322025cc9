package vm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm/internal/guest"
	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/backend/vm/qemu"
	"github.com/confine-run/confine/internal/host"
)

// treeProgram is this program's name in a tree where there is no other.
const treeProgram = "program"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == keeper.Program {
		qemu.Main(os.Args)
	}
	if filepath.Base(os.Args[0]) == treeProgram {
		inTree(os.Args[1])
		os.Exit(0)
	}
	if how, ok := strings.CutPrefix(filepath.Base(os.Args[0]), fakeQEMU); ok {
		fake(how)
		os.Exit(0)
	}
	if guest.Called(os.Args) {
		go disobey()
	}
	process.Init()
	Init()
	// A place of its own: tests of other packages, which run meanwhile, look whether they have left anything.
	dir, err := os.MkdirTemp("", "vm-")
	own, ownErr := os.Executable()
	if err = errors.Join(err, ownErr); err == nil {
		// The keeper is looked for beside this program; it is this program, by its name.
		err = errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir), os.Link(own, filepath.Join(filepath.Dir(own), keeper.Program)))
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// kernelHere is the kernel that the tests boot: the one that VMKERNEL names, or the host's.
func kernelHere(t *testing.T) string {
	t.Helper()
	named := os.Getenv("VMKERNEL")
	k, err := findKernel(named)
	if err == nil && k.modules == "" {
		err = errors.New("there are no modules of " + k.path)
	}
	if err == nil {
		if _, statErr := os.Stat(qemuPaths[0]); statErr != nil {
			err = statErr
		}
	}
	if err == nil {
		return k.path
	}
	if must := host.MustRun("vmkernel"); must != nil {
		t.Fatal(must, err)
	}
	t.Skip("no machine boots here: ", filepath.Base(named), err)
	return ""
}
