package host

import (
	"os"
	"runtime"
	"testing"
)

func with(files ...string) *Facts {
	f := &Facts{files: map[string]string{}}
	for i := 0; i < len(files); i += 2 {
		f.files[files[i]] = files[i+1]
	}
	return f
}

const (
	statusPlain    = "Name:\tx\nCapEff:\t0000000000000000\nSeccomp:\t0\n"
	statusFiltered = "Name:\tx\nCapEff:\t0000000000000000\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	statusRoot     = "Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"
)

func TestKernel(t *testing.T) {
	for release, want := range map[string]Kernel{
		"6.8.0-45-generic":  {6, 8},
		"5.10.0":            {5, 10},
		"6.18-rc1":          {6, 18},
		"4.4.0":             {4, 4},
		"5.15.167.4-micros": {5, 15},
		"":                  {},
		"6":                 {},
		"6.":                {},
		"x.y":               {},
		"6.x":               {},
		"99999999999.1":     {},
	} {
		if got := ParseKernel(release); got != want {
			t.Errorf("%q is %v, want %v", release, got, want)
		}
	}
	for _, c := range []struct {
		have, least Kernel
		want        bool
	}{
		{Kernel{5, 14}, Kernel{5, 14}, true},
		{Kernel{5, 9}, Kernel{5, 14}, false},
		{Kernel{6, 0}, Kernel{5, 14}, true},
		{Kernel{4, 20}, Kernel{5, 0}, false},
		{Kernel{}, Kernel{}, false},
	} {
		if got := c.have.AtLeast(c.least); got != c.want {
			t.Errorf("%v at least %v: %v", c.have, c.least, got)
		}
	}
}

func FuzzKernel(f *testing.F) {
	f.Add("6.8.0-45-generic")
	f.Fuzz(func(t *testing.T, release string) {
		k := ParseKernel(release)
		if k.Major < 0 || k.Minor < 0 {
			t.Fatalf("%q is %v", release, k)
		}
		if !k.IsZero() && ParseKernel(k.String()) != k {
			t.Fatalf("%q is %v, which does not parse to itself", release, k)
		}
	})
}

func TestFactsOfSettings(t *testing.T) {
	f := with()
	if _, ok := f.MaxUserNamespaces(); ok || f.AppArmorRestrictsUserns() || f.UsernsCloneForbidden() {
		t.Error("something is known where there is no file")
	}
	f = with(
		"/proc/sys/user/max_user_namespaces", "0\n",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n",
		"/proc/sys/kernel/unprivileged_userns_clone", "0\n",
		"/proc/self/status", statusFiltered,
	)
	if n, ok := f.MaxUserNamespaces(); n != 0 || !ok {
		t.Errorf("max_user_namespaces: %d, %v", n, ok)
	}
	if !f.AppArmorRestrictsUserns() || !f.UsernsCloneForbidden() || f.SeccompMode() != 2 || f.Privileged() {
		t.Error("a setting was not read")
	}
	f = with("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n",
		"/proc/sys/kernel/unprivileged_userns_clone", "1\n", "/proc/self/status", statusRoot)
	if f.AppArmorRestrictsUserns() || f.UsernsCloneForbidden() || !f.Privileged() || f.SeccompMode() != 0 {
		t.Error("a setting was read as its opposite")
	}
}

func TestFactsAreReadOnce(t *testing.T) {
	f := with("/proc/self/status", statusFiltered)
	f.SeccompMode()
	f.files["/proc/self/status"] = statusRoot
	if n := f.SeccompMode(); n != 2 {
		t.Errorf("read again: %d", n)
	}
}

func TestFactsOfSurroundings(t *testing.T) {
	for file, want := range map[string]string{
		"/.dockerenv":                    "docker",
		"/run/.containerenv":             "podman",
		"/var/run/secrets/kubernetes.io": "kubernetes",
		"/etc/hostname":                  "",
	} {
		if got := with(file, "").Container(); got != want {
			t.Errorf("%s: container %q, want %q", file, got, want)
		}
	}
	for text, want := range map[string]bool{
		"21 1 0:5 / / rw - ext4 /dev/sda rw\n":                                 false,
		"21 1 0:5 / /proc rw - proc proc rw\n22 1 0:6 / /a rw - tmpfs none rw": true,
		"": true,
	} {
		if got := with("/proc/self/mountinfo", text).Chrooted(); got != want {
			t.Errorf("%q: chrooted %v", text, got)
		}
	}
	for text, want := range map[string]string{
		"docker-default (enforce)\n": "docker-default",
		"unconfined\n":               "",
		"":                           "",
		"snap.go.go (complain)\x00":  "snap.go.go",
	} {
		if got := with("/proc/self/attr/current", text).AppArmorLabel(); got != want {
			t.Errorf("%q: label %q, want %q", text, got, want)
		}
	}
}

func TestFactsOfThisProcess(t *testing.T) {
	f := Current()
	if f.UID() != os.Geteuid() {
		t.Error("another user")
	}
	if n := len(f.CPUs()); n != runtime.NumCPU() {
		t.Errorf("%d CPUs, Go says %d", n, runtime.NumCPU())
	}
	if runtime.GOOS == "linux" && f.Kernel().IsZero() {
		t.Error("no kernel")
	}
}

func FuzzStatus(f *testing.F) {
	f.Add(statusFiltered)
	f.Fuzz(func(t *testing.T, text string) { parseStatus(text) })
}
