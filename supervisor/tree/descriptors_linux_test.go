package tree

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestDescriptorsAreThoseOfTheProcessWithTheMost(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1})
	f.put(stat{pid: 3, ppid: 1})
	f.put(stat{pid: 4, ppid: 1, state: 'Z'})
	f.put(stat{pid: 5, ppid: 1}) // nobody may look into it
	for pid, n := range map[int]int{1: 30, 2: 3, 3: 12, 4: 20} {
		dir := filepath.Join(f.dir, strconv.Itoa(pid), "fd")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			f.write(filepath.Join(dir, strconv.Itoa(i)), "")
		}
	}
	f.sample(NoPSS)
	if got := f.tree.Descriptors(); got != 12 {
		t.Errorf("%d, want the 12 of process 3", got)
	}
}

func TestDescriptorsOfARealProcess(t *testing.T) {
	tree, err := NewFromPID(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	before := tree.descriptorCount(int32(os.Getpid()))
	if before < 3 || before > int64(len(names)) {
		t.Fatalf("%d descriptors of ours, and %d names", before, len(names))
	}
	for range 40 {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
	}
	if n := tree.descriptorCount(int32(os.Getpid())); n != before+40 {
		t.Errorf("%d after 40 more than %d", n, before)
	}
}
