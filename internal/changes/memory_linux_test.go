package changes

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// manyTargets is TestTargetsAreBounded in a process of its own: it says what it took.
func manyTargets() int {
	base := os.Getenv("CHANGES_BASE")
	fd := func(path string) int {
		must(nil, os.Mkdir(path, 0o755))
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(nil, err)
		return fd
	}
	tree := Tree{Path: base + "/lower", Upper: fd(base + "/upper"), Lower: fd(base + "/lower")}
	const many = 16_500
	target := strings.Repeat("\xff", 4094)
	for i := range many {
		must(nil, unix.Symlinkat(target, tree.Upper, fmt.Sprint(i)))
	}
	s, err := OpenStore(filepath.Join(base, "confine", "runs"))
	must(nil, err)
	set, err := Read(tree, Limits{})
	must(nil, err)
	if n := len(set.Changes); n < 1000 || n*4094 > 16<<20 || n+set.Truncated != many {
		must(nil, fmt.Errorf("%d changes, %d truncated", n, set.Truncated))
	}
	id, _, err := s.Keep(Keeping{Trees: []Tree{tree}, Sets: []*Set{set}, Start: farFuture})
	must(nil, err)
	list, err := s.List()
	must(nil, err)
	if len(list) != 1 || list[0].Summary.Added != len(set.Changes) {
		must(nil, fmt.Errorf("list: %+v", list))
	}
	r, err := s.Open(id)
	must(nil, err)
	for _, o := range []DiffOptions{{}, {JSON: true}, {Patch: true}} {
		must(nil, Diff(io.Discard, r, nil, o))
	}
	_, err = s.Discard(id, set.Changes[0].Path)
	must(nil, err)
	_, err = s.Discard(id)
	must(nil, err)
	status, err := os.ReadFile("/proc/self/status")
	must(nil, err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	_, err = fmt.Sscan(peak, &kib)
	must(nil, err)
	if fmt.Println(kib>>10, "MiB"); kib > 300<<10 {
		return 1
	}
	return 0
}

func TestTargetsAreBounded(t *testing.T) {
	inMemory(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CHANGES_ROLE=targets", "CHANGES_BASE="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// A list reads no further than the head of a record.
func TestAListReadsTheHead(t *testing.T) {
	s := newScene(t, nil, map[string]string{"a": "1", "b": "22"})
	r := s.keep(t)
	path := s.store.path + "/" + r.ID() + "/" + manifestName
	data, err := os.ReadFile(path)
	must(t, err)
	head, _, _ := strings.Cut(string(data), "\n")
	must(t, os.WriteFile(path, []byte(head+"{"), 0o600))
	all, err := s.store.List()
	must(t, err)
	if len(all) != 1 || all[0].Err != nil || all[0].Summary != r.Info().Summary || all[0].Summary.Bytes != 3 || all[0].Trees[0] != s.lower {
		t.Errorf("%+v", all)
	}
	if _, err := s.store.Open(r.ID()); err == nil {
		t.Error("half a record was opened")
	}
}
