package outputs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// asIs is for names that lead through no link.
func asIs(name string) (string, error) { return filepath.Abs(name) }

// The name of a directory was looked at, and then somebody put a link in its place.
func TestALinkThatComesTooLateIsNotFollowed(t *testing.T) {
	for _, dir := range []string{"d", "d/e"} {
		t.Chdir(t.TempDir())
		must.Do(t, errors.Join(os.MkdirAll("d/e", 0o700), os.MkdirAll("elsewhere/e", 0o700)))
		swap := func(name string) (string, error) {
			abs, err := filepath.Abs(name)
			return abs, errors.Join(err, os.RemoveAll("d"), os.Symlink("elsewhere", "d"))
		}
		if s, err := OpenWhole("--report", dir+"/r.json", asIs); err != nil { // the control
			t.Fatal(err)
		} else {
			s.Close()
		}
		if s, err := OpenWhole("--report", dir+"/r.json", swap); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: %v", dir, err)
			s.Close()
		}
		if found, err := filepath.Glob("elsewhere/*/*"); err != nil || found != nil {
			t.Errorf("%q, %v", found, err)
		}
	}
}
