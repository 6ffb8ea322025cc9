package vm

import (
	"os"

	"github.com/confine-run/confine/internal/host"
)

// Doctor says whether a machine could be booted here. It boots none: that takes seconds.
func Doctor() host.Result {
	r := host.Result{Name: "vm", Means: "--isolation vm: a kernel of its own, in QEMU, on emulated CPUs", Answer: host.Yes}
	qemu, k, missing := find("")
	switch {
	case missing != nil:
		r.Answer, r.Detail, r.Remedy = host.No, missing.Error(), missing.hint
	case k.modules == "":
		r.Detail = qemu + " would boot " + k.path + ", of which there are no modules: it has to have virtio and 9p built in"
	default:
		r.Detail = qemu + " boots " + k.path
	}
	if _, err := os.Stat("/dev/kvm"); err == nil {
		r.Detail += "; KVM is not used"
	}
	return r
}
