package host

import (
	"reflect"
	"syscall"
	"testing"
)

const (
	mountsV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountsV1 = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	mountsDocker = "32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)

func TestCgroupDirs(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup, mounts string
		want           []cgroupDir
	}{
		"v2":                     {"0::/user.slice/a.scope\n", mountsV2, []cgroupDir{{dir: "/sys/fs/cgroup/user.slice/a.scope", v2: true}}},
		"v2, root":               {"0::/\n", mountsV2, []cgroupDir{{dir: "/sys/fs/cgroup", v2: true}}},
		"v1 and v2":              {"4:memory:/a\n3:cpu,cpuacct:/b\n0::/c\n", mountsV1, []cgroupDir{{dir: "/sys/fs/cgroup/memory/a", controllers: []string{"memory"}}, {dir: "/sys/fs/cgroup/cpu,cpuacct/b", controllers: []string{"cpu", "cpuacct"}}, {dir: "/sys/fs/cgroup/unified/c", v2: true}}},
		"v1 in a container":      {"4:memory:/docker/abc/x\n", mountsDocker, []cgroupDir{{dir: "/sys/fs/cgroup/memory/x", controllers: []string{"memory"}}}},
		"v1 of another":          {"4:memory:/docker/abcdef\n", mountsDocker, nil},
		"v1 with a named one":    {"9:name=systemd:/\n", mountsV1, nil},
		"not mounted":            {"0::/\n", "", nil},
		"mounted without a line": {"", mountsV2, nil},
		"garbage":                {"::\n:\nx", "a b - c\n - - -\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cgroupDirs(c.cgroup, c.mounts); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func FuzzCgroupDirs(f *testing.F) {
	f.Add("4:memory:/a\n0::/c\n", mountsV1)
	f.Fuzz(func(t *testing.T, cgroup, mounts string) {
		for _, d := range cgroupDirs(cgroup, mounts) {
			if d.v2 == (len(d.controllers) > 0) {
				t.Fatalf("%+v", d)
			}
		}
	})
}

type refused struct{}

func (refused) Error() string { return "access: refused" }
func (refused) Unwrap() error { return syscall.EACCES }

func TestCgroupResults(t *testing.T) {
	files := []string{
		"/proc/self/cgroup", "4:memory:/a\n0::/c\n",
		"/proc/self/mountinfo", mountsV1,
		"/sys/fs/cgroup/unified/c/cgroup.controllers", "cpu pids\n",
	}
	for name, c := range map[string]struct {
		writable func(string) error
		want     map[string]Answer
	}{
		"all writable": {func(string) error { return nil },
			map[string]Answer{"cgroup2": Yes, "cgroup2:cpu": Yes, "cgroup2:memory": No, "cgroup1:memory": Yes, "cgroup1:pids": No}},
		"nothing writable": {func(string) error { return refused{} },
			map[string]Answer{"cgroup2": No, "cgroup2:cpu": No, "cgroup1:memory": No}},
		"directory but not cgroup.procs": {func(p string) error {
			if p == "/sys/fs/cgroup/unified/c/cgroup.procs" {
				return refused{}
			}
			return nil
		}, map[string]Answer{"cgroup2": No, "cgroup2:pids": No, "cgroup1:memory": Yes}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]Result{}
			for _, r := range cgroupResults(with(files...), c.writable) {
				got[r.Name] = r
			}
			for probe, want := range c.want {
				if got[probe].Answer != want {
					t.Errorf("%s: %+v, want %s", probe, got[probe], want)
				}
			}
			if r := got["cgroup2"]; r.Answer == No && r.Errno != syscall.EACCES {
				t.Errorf("the errno is lost: %+v", r)
			}
		})
	}
	if rs := cgroupResults(with(), nil); len(rs) != 1 || rs[0].Answer != Unknown {
		t.Errorf("without /proc: %+v", rs)
	}
}
