package host

import (
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/status"
)

const (
	maxUserns = "/proc/sys/user/max_user_namespaces"
	restrict  = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	clone     = "/proc/sys/kernel/unprivileged_userns_clone"
	self      = "/proc/self/status"
	mounted   = "/proc/self/mountinfo"
	rooted    = "21 1 0:5 / / rw - ext4 /dev/sda rw\n"
)

func TestDiagnose(t *testing.T) {
	for name, c := range map[string]struct {
		facts   *Facts
		failure Failure
		reason  status.FallbackReason
		hint    string // a part of it
	}{
		"namespaces switched off": {with(maxUserns, "0", self, statusFiltered, "/.dockerenv", ""),
			Failure{Op: "clone", Errno: syscall.ENOSPC}, status.UsernsDenied, "user.max_user_namespaces=15000"},
		"namespaces used up": {with(maxUserns, "100"),
			Failure{Op: "clone", Errno: syscall.ENOSPC}, status.UsernsDenied, "of some kind are used up: look for a low limit with `sysctl user`"},
		"Debian's setting": {with(maxUserns, "100", clone, "0", self, statusPlain),
			Failure{Op: "clone", Errno: syscall.EPERM}, status.UsernsDenied, "kernel.unprivileged_userns_clone=1"},
		"Debian's setting, which root is above": {with(clone, "0", self, statusRoot, mounted, rooted),
			Failure{Op: "clone", Errno: syscall.EPERM}, status.UsernsDenied, "security module"},
		"root without CAP_SETFCAP": {with(self, "CapEff:\t000001ff7fffffff\n", mounted, rooted),
			Failure{Op: "write", Path: "uid_map", Errno: syscall.EPERM}, status.UsernsDenied, "--cap-add SETFCAP"},
		"root with it": {with(self, statusRoot, mounted, rooted),
			Failure{Op: "write", Path: "uid_map", Errno: syscall.EPERM}, status.UsernsDenied, "security module"},
		"Ubuntu, at the first mount": {with(restrict, "1", self, statusPlain, mounted, rooted),
			Failure{Step: "root", Op: "fsopen", Path: "tmpfs", Errno: syscall.EPERM}, status.UsernsDeniedAppArmor, "apparmor_restrict_unprivileged_userns=0"},
		"Ubuntu, at the propagation": {with(restrict, "1", self, statusPlain, mounted, rooted),
			Failure{Step: "propagation", Op: "mount", Path: "/", Errno: syscall.EACCES}, status.UsernsDeniedAppArmor, "apparmor_parser -r"},
		"Ubuntu, at the loopback": {with(restrict, "1", self, statusPlain, mounted, rooted),
			Failure{Step: "loopback", Op: "ioctl", Path: "lo", Errno: syscall.EPERM}, status.UsernsDeniedAppArmor, "apparmor_parser -r"},
		"Ubuntu, at the map": {with(restrict, "1", self, statusPlain, mounted, rooted),
			Failure{Op: "write", Path: "/proc/7/uid_map", Errno: syscall.EPERM}, status.UsernsDeniedAppArmor, "apparmor_parser -r"},
		"Docker": {with("/.dockerenv", "", self, statusFiltered, mounted, rooted),
			Failure{Op: "clone", Errno: syscall.EPERM}, status.UsernsDenied, "--security-opt seccomp=unconfined"},
		"Docker, with its AppArmor profile only": {with("/.dockerenv", "", self, statusPlain, mounted, rooted, "/proc/self/attr/current", "docker-default (enforce)"),
			Failure{Step: "root", Op: "mount", Errno: syscall.EACCES}, status.UsernsDeniedAppArmor, "--security-opt apparmor=unconfined"},
		"Podman": {with("/run/.containerenv", "", self, statusFiltered, mounted, rooted),
			Failure{Op: "clone", Errno: syscall.EPERM}, status.UsernsDenied, "unmask=ALL"},
		"Kubernetes": {with("/var/run/secrets/kubernetes.io", "", self, statusFiltered, mounted, rooted),
			Failure{Op: "unshare", Errno: syscall.EPERM}, status.UsernsDenied, "seccompProfile"},
		"a profile of the caller's": {with(self, statusPlain, mounted, rooted, "/proc/self/attr/current", "snap.x (enforce)"),
			Failure{Op: "clone", Errno: syscall.EACCES}, status.UsernsDeniedAppArmor, "\"snap.x\""},
		"a filter of the caller's": {with(self, statusFiltered, mounted, rooted),
			Failure{Op: "clone", Errno: syscall.EPERM}, status.UsernsDenied, "RestrictNamespaces="},
		"chroot": {with(self, statusPlain, mounted, ""),
			Failure{Op: "clone", Errno: syscall.EPERM}, status.UsernsDenied, "chroot"},
		"a kernel without": {with("uname", "5.10.0-tiny"),
			Failure{Op: "clone", Errno: syscall.EINVAL}, status.UsernsDenied, "CONFIG_USER_NS"},
		"masked proc in Docker": {with("/.dockerenv", ""),
			Failure{Step: "mounts", Op: "fsmount", Path: "proc", Errno: syscall.EPERM}, status.ProcMasked, "systempaths=unconfined"},
		"masked proc elsewhere": {with(),
			Failure{Step: "mounts", Op: "fsconfig create", Path: "proc", Errno: syscall.EPERM}, status.ProcMasked, "findmnt"},
		"no proc": {with(),
			Failure{Step: "start", Op: "readlink", Path: "/proc/self/exe", Errno: syscall.ENOENT}, status.ProcMasked, "mount -t proc"},
		"overlay on an old kernel": {with("uname", "5.10.0"),
			Failure{Op: "fsopen", Path: "overlay", Errno: syscall.EPERM}, status.OverlayUnsupported, "5.11"},
		"overlay not loaded": {with("uname", "6.1.0"),
			Failure{Op: "fsopen", Path: "overlay", Errno: syscall.ENODEV}, status.OverlayUnsupported, "modprobe overlay"},
		"seccomp": {with("uname", "6.1.0"),
			Failure{Op: "seccomp", Errno: syscall.ENOSYS}, status.SeccompUnsupported, "CONFIG_SECCOMP_FILTER"},
		"mount_setattr": {with(),
			Failure{Op: "mount_setattr", Path: "/usr", Errno: syscall.ENOSYS}, status.MountAttrUnsupported, "5.12"},
		"initramfs": {with(),
			Failure{Op: "pivot_root", Path: "/", Errno: syscall.EINVAL}, status.UsernsDenied, "switch_root"},
		"something of the user's": {with(restrict, "1", self, statusPlain),
			Failure{Step: "chdir", Op: "chdir", Path: "/nowhere", Errno: syscall.ENOENT}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			reason, hint := Diagnose(c.facts, c.failure)
			if reason != c.reason || !strings.Contains(hint, c.hint) || (c.hint == "") != (hint == "") {
				t.Errorf("reason %q, hint %q;\nwant %q, %q", reason, hint, c.reason, c.hint)
			}
			if strings.Contains(hint, "\n") {
				t.Error("a hint is one line")
			}
		})
	}
}

func TestEveryRemedyIsForAProbe(t *testing.T) {
	for _, r := range remedies() {
		for _, probe := range strings.Fields(r.probes) {
			if _, ok := find(probe); !ok && probe != "cgroup2" {
				t.Errorf("%s: no probe %q", r.name, probe)
			}
		}
	}
	for _, f := range failures {
		if _, ok := find(f.probe); !ok {
			t.Errorf("no probe %q", f.probe)
		}
	}
	for _, e := range table {
		for _, need := range strings.Fields(e.needs) {
			if _, ok := find(need); !ok {
				t.Errorf("%s needs %q, which does not exist", e.name, need)
			}
		}
	}
}

func TestExamineAdvises(t *testing.T) {
	f := with(restrict, "1", self, statusPlain, mounted, rooted, "uname", "5.4.0")
	d := advised(f, Results{
		{Name: "seccomp", Answer: Yes, Needed: true},
		{Name: "tmpfs", Answer: No, Needed: true, Errno: syscall.EPERM},
		{Name: "devpts", Answer: No, Needed: true, Detail: "needs tmpfs", lacks: "tmpfs", Errno: syscall.EPERM},
		{Name: "close_range", Answer: No, Errno: syscall.ENOSYS, minKernel: Kernel{5, 9}},
	})
	if r, _ := d.Result("tmpfs"); !strings.Contains(r.Remedy, "userns,") || !strings.Contains(r.Remedy, "flags=(unconfined)") {
		t.Errorf("no AppArmor profile in %q", r.Remedy)
	}
	if r, _ := d.Result("devpts"); r.Remedy != "" {
		t.Errorf("a remedy twice: %q", r.Remedy)
	}
	if r, _ := d.Result("close_range"); r.Remedy != "use Linux 5.9 or later; this is 5.4.0" {
		t.Errorf("remedy %q", r.Remedy)
	}
	if r, _ := d.Result("seccomp"); r.Remedy != "" || r.Err() != nil {
		t.Errorf("a yes with a remedy: %+v", r)
	}
}

func TestAppArmorQuote(t *testing.T) {
	if got, want := appArmorQuote(`/opt/my tools/{a}/[b]"c`), `/opt/my tools/\{a\}/\[b\]\"c`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestErrors(t *testing.T) {
	r := Result{Name: "overlay", Answer: No, Detail: "fsopen(overlay): ENODEV", Remedy: "modprobe overlay", minKernel: Kernel{5, 11}}
	if want := "overlay: not supported by this host: fsopen(overlay): ENODEV (needs Linux 5.11)\nhint: modprobe overlay"; r.Err().Error() != want {
		t.Errorf("%q, want %q", r.Err(), want)
	}
	if err := (Result{Name: "overlay", Answer: Unknown}).Err(); err.Error() != "overlay: could not be found out" {
		t.Error(err)
	}
}
