package host

import (
	"syscall"
	"testing"
)

const mountsV1 = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
	"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
	"32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
	"33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

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
