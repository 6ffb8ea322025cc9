package hierarchy

import (
	"reflect"
	"strings"
	"testing"
)

const (
	mountsV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountsV1 = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	mountsDocker = "32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	v2, v1       = "/sys/fs/cgroup", "/sys/fs/cgroup/memory"
)

func TestDirs(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup, mounts string
		want           []Dir
	}{
		"v2":       {"0::/user.slice/a.scope\n", mountsV2, []Dir{{Path: v2 + "/user.slice/a.scope", Mount: v2, V2: true}}},
		"v2, root": {"0::/\n", mountsV2, []Dir{{Path: v2, Mount: v2, V2: true}}},
		"v1 and v2": {"4:memory:/a\n3:cpu,cpuacct:/b\n0::/c\n", mountsV1, []Dir{
			{Path: v1 + "/a", Mount: v1, Controllers: []string{"memory"}},
			{Path: v2 + "/cpu,cpuacct/b", Mount: v2 + "/cpu,cpuacct", Controllers: []string{"cpu", "cpuacct"}},
			{Path: v2 + "/unified/c", Mount: v2 + "/unified", V2: true}}},
		"v1 in a container":           {"4:memory:/docker/abc/x\n", mountsDocker, []Dir{{Path: v1 + "/x", Mount: v1, Controllers: []string{"memory"}}}},
		"v1 of another":               {"4:memory:/docker/abcdef\n", mountsDocker, nil},
		"v1 with a named one":         {"9:name=systemd:/\n", mountsV1, nil},
		"outside of the namespace":    {"0::/../other\n", mountsV2, nil},
		"the parent of the namespace": {"0::/..\n", mountsV2, nil},
		"a name that begins with ..":  {"0::/..x\n", mountsV2, []Dir{{Path: v2 + "/..x", Mount: v2, V2: true}}},
		"not mounted":                 {"0::/\n", "", nil},
		"mounted without a line":      {"", mountsV2, nil},
		"garbage":                     {"::\n:\nx", "a b - c\n - - -\na - cgroup\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Dirs(c.cgroup, c.mounts); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func FuzzDirs(f *testing.F) {
	f.Add("4:memory:/a\n0::/c\n", mountsV1)
	f.Fuzz(func(t *testing.T, cgroup, mounts string) {
		for _, d := range Dirs(cgroup, mounts) {
			if d.V2 == (len(d.Controllers) > 0) || strings.HasPrefix(d.Mount, "/") && !strings.HasPrefix(d.Path, "/") {
				t.Fatalf("%+v", d)
			}
		}
	})
}
