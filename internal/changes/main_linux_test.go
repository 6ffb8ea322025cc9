package changes

import (
	"os"
	"testing"

	"github.com/confine-run/confine/internal/overlaytest"
)

// The test binary is started again as the owner of an overlay, as an apply that is
// killed, and as who swaps directories.
func TestMain(m *testing.M) {
	overlaytest.Main()
	switch os.Getenv("CHANGES_ROLE") {
	case "apply":
		applyAndDie()
	case "swapper":
		swapForever()
	case "targets":
		os.Exit(manyTargets())
	}
	os.Exit(m.Run())
}

// overlay is one of lower, as a run has it.
type overlay struct {
	*overlaytest.Overlay
	lower string
}

// newOverlay makes one whose upper directory becomes a lower one so many times while operations go on.
func newOverlay(t *testing.T, lower string, layers int) *overlay {
	return &overlay{overlaytest.New(t, layers, lower), lower}
}

// do does operations inside, once; what one says is its errno.
func (o *overlay) do(t *testing.T, acts ...act) []string {
	t.Helper()
	said, _ := o.Do(t, acts...)
	return said
}

// tree is what there is now.
func (o *overlay) tree(t *testing.T) Tree {
	uppers := o.Uppers(t)
	return Tree{Path: o.lower, Upper: uppers[0], Under: uppers[1:], Lower: openDir(t, o.lower)}
}

type act = overlaytest.Act

var build, openDir, difference = overlaytest.Build, overlaytest.OpenDir, overlaytest.Difference
