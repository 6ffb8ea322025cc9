package vm

import (
	"os"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
)

// Doctor says whether a machine could be booted here. It boots none: that takes seconds.
func Doctor() host.Result {
	r := host.Result{Name: "vm", Means: "--isolation vm: a kernel of its own, in QEMU, on emulated CPUs", Answer: host.Yes}
	found, missing := find(&config.Policy{}, "")
	switch {
	case missing != nil:
		r.Answer, r.Detail, r.Remedy = host.No, missing.Error(), missing.hint
	case found.kernel.modules == "":
		r.Detail = found.qemu + " would boot " + found.kernel.path + ", of which there are no modules: it has to have virtio and 9p built in"
	default:
		r.Detail = found.qemu + " boots " + found.kernel.path
	}
	if _, err := os.Stat("/dev/kvm"); err == nil {
		r.Detail += "; KVM is not used"
	}
	return r
}
