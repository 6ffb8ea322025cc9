package host

import (
	"os"
	"strings"
	"syscall"

	"github.com/confine-run/confine/status"
)

// remedy is what to do about one cause of a no.
type remedy struct {
	name   string // of the cause
	reason status.FallbackReason
	probes string // the probes it explains, between blanks
	when   func(f *Facts, errno syscall.Errno) bool
	hint   func(f *Facts) string
	file   func(f *Facts) string // what to write where, under the hint
}

// usernsProbes are those that the kernel refuses when it gives no user namespace,
// or one without capabilities: which of them breaks first differs.
const usernsProbes = " userns uid_map mountns pidns netns ipcns utsns tmpfs open_tree mount_setattr devpts pivot_root lo_up "

// usernsCalls are what a narrower seccomp profile has to allow.
const usernsCalls = "clone, clone3, unshare, setns, mount, umount2, pivot_root, fsopen, fsconfig, fsmount, open_tree, move_mount, mount_setattr and sethostname"

func say(hint string) func(*Facts) string { return func(*Facts) string { return hint } }

func always(*Facts, syscall.Errno) bool { return true }

func denied(_ *Facts, errno syscall.Errno) bool {
	return errno == syscall.EPERM || errno == syscall.EACCES
}

func is(errnos ...syscall.Errno) func(*Facts, syscall.Errno) bool {
	return func(_ *Facts, errno syscall.Errno) bool {
		for _, e := range errnos {
			if e == errno {
				return true
			}
		}
		return false
	}
}

// unmask is the option that leaves a container's /proc whole.
func unmask(f *Facts) string {
	if f.Container() == "podman" {
		return "--security-opt unmask=ALL"
	}
	return "--security-opt systempaths=unconfined"
}

func in(f *Facts) string {
	switch f.Container() {
	case "docker", "podman":
		return ": start the container with " + unmask(f)
	case "kubernetes":
		return ": give the container procMount: Unmasked (and the pod hostUsers: false)"
	}
	return ": see them with `findmnt -R /proc`, and unmount them"
}

const appArmorFile = "/etc/apparmor.d/confine"

// appArmorProfile lets this executable make user namespaces and is no
// restriction otherwise.
func appArmorProfile(*Facts) string {
	path, err := os.Executable()
	if err != nil {
		path = "/usr/local/bin/confine"
	}
	return "abi <abi/4.0>,\n" +
		"include <tunables/global>\n\n" +
		"profile confine \"" + appArmorQuote(path) + "\" flags=(unconfined) {\n" +
		"  userns,\n" +
		"  include if exists <local/confine>\n" +
		"}\n"
}

// appArmorQuote keeps what AppArmor would take for a pattern.
func appArmorQuote(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if strings.IndexByte("*?[]{}^\"\\@", c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// remedyFor is the first that fits, or nil.
func remedyFor(f *Facts, probe string, errno syscall.Errno) *remedy {
	for _, r := range remedies() {
		if strings.Contains(r.probes, " "+probe+" ") && r.when(f, errno) {
			return &r
		}
	}
	return nil
}
