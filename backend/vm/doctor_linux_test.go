package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

func TestTheDoctorTakesTheKernelThatTheEnvironmentNames(t *testing.T) {
	if r := Doctor(); strings.Contains(r.Detail, "qemu-system-x86_64 in ") || strings.Contains(r.Detail, "x86-64, and") {
		t.Skip(r.Detail)
	}
	named := filepath.Join(t.TempDir(), "named")
	must.Do(t, os.WriteFile(named, []byte("no kernel"), 0o600))
	t.Setenv("CONFINE_VM_KERNEL", named)
	if r := Doctor(); r.Answer != host.No || !strings.Contains(r.Detail, named) && !strings.Contains(r.Detail, keeper.Program) {
		t.Errorf("%+v", r)
	}
}
