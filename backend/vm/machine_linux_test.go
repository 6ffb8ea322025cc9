package vm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/internal/host"
)

func TestMain(m *testing.M) {
	process.Init()
	Init()
	os.Exit(m.Run())
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
