package vm

import (
	"os"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
)

// Doctor says whether a machine could be booted here. It boots none: that takes seconds. So of KVM it says what the last machine came to.
// It takes the kernel from the option's twin in the environment, as runs do.
func Doctor() host.Result {
	r := host.Result{Name: "vm", Means: "--isolation vm: a kernel of its own, in QEMU, by KVM where that boots one, else emulated", Answer: host.Yes}
	found, missing := find(&config.Policy{}, os.Getenv("CONFINE_VM_KERNEL"))
	switch {
	case missing != nil:
		r.Answer, r.Detail, r.Remedy = host.No, missing.Error(), missing.hint
	case found.kernel.modules == "":
		r.Detail = found.qemu + " would boot " + found.kernel.path + ", of which there are no modules: it has to have virtio and 9p built in"
	default:
		r.Detail = found.qemu + " boots " + found.kernel.path
	}
	if missing == nil {
		dir, _ := os.Getwd()
		a, _ := Backend{}.kvm(&plan{parts: found, spec: &backend.Spec{Policy: &config.Policy{}, Dir: dir, Environ: os.Environ()}})
		r.Detail += ", " + a.details()
	}
	return r
}
