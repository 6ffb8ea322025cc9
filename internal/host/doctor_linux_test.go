package host

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// users are those as whom this test can play scenes.
func users() []int {
	if os.Getuid() == 0 && allUsers() {
		return []int{0, nobody}
	}
	return []int{os.Getuid()}
}

// allUsers is false in a user namespace that has only a few.
func allUsers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
}

// enforceable: all that the profile "default" needs is there.
func enforceable(d Results) bool {
	return !slices.ContainsFunc(d, func(r Result) bool { return r.Needed && r.Answer != Yes })
}

func TestDoctorAnswersEveryProbeOnce(t *testing.T) {
	for _, uid := range users() {
		d := play(t, "nothing taken away", uid)
		seen := map[string]int{}
		for _, r := range d {
			seen[r.Name]++
			if r.Answer == Unknown {
				t.Errorf("uid %d: %s: could not tell: %s", uid, r.Name, r.Detail)
			}
			if r.Means == "" {
				t.Errorf("%s: says nothing about what it means", r.Name)
			}
		}
		for _, e := range table {
			if seen[e.name] != 1 {
				t.Errorf("uid %d: %s was answered %d times", uid, e.name, seen[e.name])
			}
		}
		if seen["cgroup2"] != 1 {
			t.Errorf("uid %d: cgroup2 was answered %d times", uid, seen["cgroup2"])
		}
		if !enforceable(d) {
			t.Logf("uid %d: %+v", uid, d)
			skip(t, "userns", nil)
		}
		if r, _ := d.Result("rlimit_nproc_userns"); (r.Answer == Yes) != (uid != 0) && allUsers() && Current().Kernel().AtLeast(Kernel{5, 14}) {
			t.Errorf("uid %d: RLIMIT_NPROC is held: %s", uid, r.Answer)
		}
	}
}

// taken is what a scene takes away, and what is to be said about it.
var taken = []struct {
	scene       string
	no          string // the probe that has the cause
	follows     string // one that is then a no as well
	stays       string // one that is not touched
	remedy      string // a part of it
	enforceable bool
}{
	{scene: "no user namespaces left", no: "userns", follows: "proc_mount", stays: "seccomp",
		remedy: "sysctl -w user.max_user_namespaces="},
	{scene: "no network namespaces left", no: "netns", follows: "lo_up", stays: "tmpfs",
		remedy: "sysctl user"},
	{scene: "filter refuses user namespaces", no: "userns", follows: "uid_map", stays: "seccomp",
		remedy: "seccomp"},
	{scene: "filter refuses mounts", no: "tmpfs", follows: "overlay", stays: "lo_up",
		remedy: "seccomp"},
	{scene: "filter refuses filters", no: "seccomp", stays: "no_new_privs",
		remedy: "CONFIG_SECCOMP_FILTER"},
	{scene: "no mount_setattr", no: "mount_setattr", stays: "open_tree",
		remedy: "Linux 5.12", enforceable: true},
	{scene: "proc is masked", no: "proc_mount", follows: "pid_max_ns", stays: "pidns",
		remedy: "/proc", enforceable: true},
	{scene: "proc is missing", no: "proc", follows: "seccomp", stays: "openat2",
		remedy: "mount -t proc"},
	{scene: "chroot", no: "userns", follows: "tmpfs", stays: "no_new_privs",
		remedy: "pivot_root"},
}

func TestDoctorFindsWhatIsTakenAway(t *testing.T) {
	for _, uid := range users() {
		control := play(t, "nothing taken away", uid)
		for _, want := range taken {
			t.Run(want.scene, func(t *testing.T) {
				for _, name := range []string{want.no, want.follows, want.stays} {
					if r, _ := control.Result(name); name != "" && r.Answer != Yes {
						skip(t, name, nil)
					}
				}
				d := play(t, want.scene, uid)
				r, _ := d.Result(want.no)
				if r.Answer != No || r.Errno == 0 {
					t.Errorf("%s: %s %v, want no with an errno", want.no, r.Answer, r.Errno)
				}
				if !strings.Contains(r.Remedy, want.remedy) {
					t.Errorf("%s: remedy %q, want one with %q", want.no, r.Remedy, want.remedy)
				}
				if f, ok := d.Result(want.follows); ok && (f.Answer != No || !strings.HasPrefix(f.Detail, "needs ") || f.Remedy != "") {
					t.Errorf("%s: %s (%s), remedy %q; want a no that only names what it needs", want.follows, f.Answer, f.Detail, f.Remedy)
				}
				if s, _ := d.Result(want.stays); s.Answer != Yes {
					t.Errorf("%s: %s (%s), want yes", want.stays, s.Answer, s.Detail)
				}
				if enforceable(d) != want.enforceable {
					t.Errorf("default profile enforceable: %v", enforceable(d))
				}
			})
		}
	}
}

func TestDoctorTellsNoFromCouldNotTell(t *testing.T) {
	d := play(t, "probe is killed", os.Getuid())
	if r, _ := d.Result("userns"); r.Answer != Yes {
		skip(t, "userns", nil)
	}
	for name, want := range map[string]Answer{"mountns": Yes, "utsns": Unknown, "tmpfs": Unknown, "seccomp": Yes} {
		if r, _ := d.Result(name); r.Answer != want {
			t.Errorf("%s: %s (%s), want %s", name, r.Answer, r.Detail, want)
		}
	}
	if r, _ := d.Result("tmpfs"); !strings.Contains(r.Detail, "bad system call") {
		t.Errorf("the detail %q does not say what became of the process", r.Detail)
	}
	if enforceable(d) {
		t.Error("what is unknown passes for enforceable")
	}
}

func TestMainWithoutProbeMainDoesNotStartItselfForEver(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{args[0], ProbeWord, roleInside}
	if _, _, err := try(rolePlain, 0); err != errNoMain {
		t.Fatalf("a probe started a probe: %v", err)
	}
}

func BenchmarkDoctor(b *testing.B) {
	for b.Loop() {
		RunDoctor()
	}
}
