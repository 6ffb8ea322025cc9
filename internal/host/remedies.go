package host

import (
	"slices"
	"syscall"

	"github.com/confine-run/confine/status"
)

// remedies, the first that fits counts: a setting that forbids comes before
// what surrounds the program, and that before a guess. They are functions because
// a run that goes well needs none of them.
func remedies() []remedy {
	return slices.Concat(settings(), surroundings(), mountsRefused(), kernels(), cgroups())
}

// settings of the kernel that forbid namespaces to somebody.
func settings() []remedy {
	return []remedy{
		{
			name: "no proc", reason: status.ProcMasked, probes: " proc ",
			when: always,
			hint: say("mount it: mount -t proc proc /proc"),
		},
		{
			name: "max_user_namespaces is 0", reason: status.UsernsDenied, probes: " userns ",
			// Any other errno comes from something that stood in the way before this.
			when: func(f *Facts, errno syscall.Errno) bool {
				n, ok := f.MaxUserNamespaces()
				return ok && n == 0 && (errno == syscall.ENOSPC || errno == syscall.EUSERS)
			},
			hint: say("as root: sysctl -w user.max_user_namespaces=15000 (and in /etc/sysctl.d/ to keep it)"),
		},
		{
			// A run asks for all kinds at once, and the kernel doesn't say which one it was.
			name: "too many or too deep", reason: status.UsernsDenied, probes: " userns mountns pidns netns ipcns utsns cgroupns ",
			when: is(syscall.ENOSPC, syscall.EUSERS),
			hint: say("namespaces of some kind are used up: look for a low limit with `sysctl user`, here or further out, and raise it; those of users nest 32 deep at most"),
		},
		{
			name: "unprivileged_userns_clone is 0", reason: status.UsernsDenied, probes: " userns ",
			when: func(f *Facts, _ syscall.Errno) bool { return f.UsernsCloneForbidden() && !f.Privileged() },
			hint: say("as root: sysctl -w kernel.unprivileged_userns_clone=1 (and in /etc/sysctl.d/ to keep it)"),
		},
	}
}

// surroundings are what the program was started in.
func surroundings() []remedy {
	return []remedy{
		{
			name: "no CAP_SETFCAP", reason: status.UsernsDenied, probes: " uid_map ",
			when: func(f *Facts, errno syscall.Errno) bool {
				return denied(f, errno) && f.Privileged() && !f.Capable(capSetfcap)
			},
			hint: say("since Linux 5.12 root maps itself into a user namespace by CAP_SETFCAP, which is missing: give it (docker and podman: --cap-add SETFCAP; systemd: CapabilityBoundingSet=; setpriv, capsh: leave it in the bounding set); without it root goes on with the other namespaces"),
		},
		{
			name: "chroot", reason: status.UsernsDenied, probes: " userns ",
			when: func(f *Facts, errno syscall.Errno) bool { return denied(f, errno) && f.Chrooted() },
			hint: say("the kernel gives no user namespace in a chroot: enter the tree with a mount namespace and pivot_root (unshare --mount, bwrap, systemd-nspawn) instead of chroot"),
		},
		{
			name: "AppArmor", reason: status.UsernsDeniedAppArmor, probes: usernsProbes,
			when: func(f *Facts, errno syscall.Errno) bool {
				return denied(f, errno) && f.AppArmorRestrictsUserns() && !f.Privileged()
			},
			hint: say("as root, for this program: write the profile that `confine doctor` prints to " + appArmorFile +
				" and run apparmor_parser -r " + appArmorFile +
				"; or for all programs: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
			file: appArmorProfile,
		},
		{
			name: "seccomp of Docker", reason: status.UsernsDenied, probes: usernsProbes,
			when: func(f *Facts, errno syscall.Errno) bool {
				return denied(f, errno) && f.SeccompMode() == 2 && (f.Container() == "docker" || f.Container() == "podman")
			},
			hint: func(f *Facts) string {
				return "start the container with --security-opt seccomp=unconfined, or with a copy of its seccomp profile that " +
					"also allows " + usernsCalls + "; and with " + unmask(f) + " for a fresh /proc"
			},
		},
		{
			name: "seccomp of Kubernetes", reason: status.UsernsDenied, probes: usernsProbes,
			when: func(f *Facts, errno syscall.Errno) bool {
				return denied(f, errno) && f.SeccompMode() == 2 && f.Container() == "kubernetes"
			},
			hint: say("give the container seccompProfile: {type: Unconfined}, or a Localhost profile that also allows " +
				usernsCalls + ", in its securityContext"),
		},
		{
			name: "AppArmor of a container", reason: status.UsernsDeniedAppArmor, probes: usernsProbes,
			when: func(f *Facts, errno syscall.Errno) bool {
				return denied(f, errno) && f.AppArmorLabel() != "" && f.Container() != ""
			},
			hint: func(f *Facts) string {
				return "the AppArmor profile \"" + f.AppArmorLabel() +
					"\" of the container refuses it: start the container with --security-opt apparmor=unconfined"
			},
		},
		{
			name: "AppArmor of the caller", reason: status.UsernsDeniedAppArmor, probes: usernsProbes,
			when: func(f *Facts, errno syscall.Errno) bool { return denied(f, errno) && f.AppArmorLabel() != "" },
			hint: func(f *Facts) string {
				return "the AppArmor profile \"" + f.AppArmorLabel() +
					"\" that this program runs under refuses it: run it from outside, or allow it there (userns, mount, capability sys_admin)"
			},
		},
		{
			name: "seccomp of the caller", reason: status.UsernsDenied, probes: usernsProbes,
			when: func(f *Facts, errno syscall.Errno) bool { return denied(f, errno) && f.SeccompMode() == 2 },
			hint: say("a seccomp filter that this program was started under refuses it: look for RestrictNamespaces= or SystemCallFilter= in the systemd unit, for flatpak or snap, or for another sandbox around it"),
		},
	}
}

// mountsRefused are single file systems that are refused, and the rest that
// nothing above explains.
func mountsRefused() []remedy {
	return []remedy{
		{
			name: "masked proc", reason: status.ProcMasked, probes: " proc_mount ",
			when: denied,
			hint: func(f *Facts) string {
				return "parts of /proc are covered by other mounts, so that the kernel gives no fresh one" + in(f)
			},
		},
		{
			name: "root is the initramfs", reason: status.UsernsDenied, probes: " pivot_root ",
			when: is(syscall.EINVAL),
			hint: say("the root file system is the initial ramfs, which can't be left by pivot_root: switch_root to another one first"),
		},
		{
			name: "mount_setattr too new", reason: status.MountAttrUnsupported, probes: " mount_setattr ",
			when: is(syscall.ENOSYS),
			hint: say("mounts are made read-only one by one instead; Linux 5.12 or later does it at once"),
		},
		{
			name: "kernel without namespaces", reason: status.UsernsDenied, probes: usernsProbes,
			when: is(syscall.EINVAL, syscall.ENOSYS, syscall.ENODEV),
			hint: func(f *Facts) string {
				return "this kernel (" + f.Release() + ") lacks it: use Linux 5.10 or later, built with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS, CONFIG_UTS_NS and CONFIG_TMPFS"
			},
		},
		{
			name: "another policy", reason: status.UsernsDenied, probes: usernsProbes,
			when: denied,
			hint: say("a security module (SELinux: see `ausearch -m avc -ts recent`) or a surrounding sandbox refuses it: run outside of that, or allow it there"),
		},
		{
			name: "no overlayfs for users", reason: status.OverlayUnsupported, probes: " overlay ",
			when: always,
			hint: func(f *Facts) string {
				if v := f.Kernel(); !v.IsZero() && !v.AtLeast(Kernel{5, 11}) {
					return "users mount overlayfs on Linux 5.11 or later; this is " + f.Release()
				}
				return "as root: modprobe overlay"
			},
		},
	}
}

// kernels are too old, or built or booted without something.
func kernels() []remedy {
	return []remedy{
		{
			name: "no seccomp", reason: status.SeccompUnsupported, probes: " seccomp seccomp_log seccomp_user_notif no_new_privs ",
			when: always,
			hint: func(f *Facts) string {
				return "use a kernel with CONFIG_SECCOMP_FILTER (this is " + f.Release() + "), and no surrounding sandbox that refuses seccomp(2)"
			},
		},
		{
			name: "RLIMIT_NPROC and root", reason: status.NprocUnboundForRoot, probes: " rlimit_nproc_userns ",
			when: func(f *Facts, _ syscall.Errno) bool { return f.UID() == 0 },
			hint: say("the kernel holds RLIMIT_NPROC for nobody who is root outside: run as an ordinary user; otherwise a watchdog holds the task limit"),
		},
		{
			name: "Landlock not started", probes: " landlock ",
			when: is(syscall.EOPNOTSUPP),
			hint: say("add landlock to the lsm= list on the kernel's command line"),
		},
		{
			name: "no Landlock", probes: " landlock ",
			when: is(syscall.ENOSYS),
			hint: say("use Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK"),
		},
	}
}

// cgroups that are not this process's to change.
func cgroups() []remedy {
	return []remedy{
		{
			name: "cgroup as user", reason: status.CgroupNotDelegated, probes: " cgroup2 ",
			when: func(f *Facts, _ syscall.Errno) bool { return f.UID() != 0 },
			hint: say("start it in a cgroup that is yours: systemd-run --user --scope -p Delegate=yes confine …; in a unit file: Delegate=yes"),
		},
		{
			name: "cgroup read-only", reason: status.CgroupNotDelegated, probes: " cgroup2 ",
			when: is(syscall.EROFS),
			hint: say("cgroups are mounted read-only here: start the container with a writable, private cgroup namespace (docker: --cgroupns=private and a read-write /sys/fs/cgroup; systemd-nspawn does by itself)"),
		},
		{
			name: "no cgroup2", reason: status.CgroupNotDelegated, probes: " cgroup2 ",
			when: is(0),
			hint: say("as root: mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1"),
		},
	}
}
