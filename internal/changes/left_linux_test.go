package changes

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Somebody puts a file where a step is being undone: theirs stays, and what was there
// before isn't lost.
func TestSomebodyInTheWayOfUndoing(t *testing.T) {
	s := newScene(t, map[string]string{"edit": "old", "mode": "m", "gone": "g"}, map[string]string{"edit": "new", "mode": "m"})
	must(t, os.Chmod(s.upper+"/mode", 0o600))
	whiteout(t, s.upper+"/gone")
	r := s.keep(t)
	s.store.hook = func(at string) error {
		switch at {
		case "mode":
			return unix.EIO
		case "undo swap":
			// Most likely with the same inode number, but born in another tick.
			at := openDir(t, s.lower)
			born := func() int64 { n, _ := statAt(at, "edit"); return n.born }
			was := born()
			if was == 0 {
				t.Skip("a file system that doesn't know when a file was made")
			}
			for born() == was || born() == 0 {
				_ = os.Remove(s.lower + "/edit")
				must(t, os.WriteFile(s.lower+"/edit", []byte("theirs"), 0o644))
			}
		}
		return nil
	}
	_, err := s.store.Apply(r, nil, Options{})
	s.store.hook = nil
	var left *LeftError
	if !errors.Is(err, unix.EIO) || !errors.As(err, &left) || left.Name != s.lower+"/edit" {
		t.Fatalf("%v", err)
	}
	s.want(t, "edit", "theirs")
	s.want(t, "gone", "g")
	if old, err := os.ReadFile(left.Path); err != nil || string(old) != "old" {
		t.Errorf("%s: %q %v", left.Path, old, err)
	}
	recovered(t, s.store) // it doesn't come back to that
	s.want(t, "edit", "theirs")
}
