package keeper

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestACopyHasTheDataAndTheHoles(t *testing.T) {
	dir := t.TempDir()
	from, err := os.Create(filepath.Join(dir, "from"))
	must.Do(t, err)
	defer from.Close()
	const size = 64 << 20
	piece := bytes.Repeat([]byte("data"), 1<<16)
	err = from.Truncate(size)
	for _, at := range []int64{1 << 20, 30 << 20, size - int64(len(piece))} {
		_, writeErr := from.WriteAt(piece, at)
		err = errors.Join(err, writeErr)
	}
	to, createErr := os.Create(filepath.Join(dir, "to"))
	must.Do(t, errors.Join(err, createErr))
	defer to.Close()
	must.Do(t, Copy(to, from, size))
	a, errA := os.ReadFile(from.Name())
	b, errB := os.ReadFile(to.Name())
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%d and %d bytes, %v, %v", len(a), len(b), errA, errB)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(to.Fd()), &st); err != nil || st.Blocks*512 > size/4 {
		t.Errorf("it takes %d bytes, %v", st.Blocks*512, err)
	}
	if err := Copy(from, to, 0); err != nil {
		t.Error(err)
	}
}
