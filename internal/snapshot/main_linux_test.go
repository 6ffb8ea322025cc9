package snapshot

import (
	"os"
	"testing"

	"github.com/confine-run/confine/internal/overlaytest"
)

// The test binary is started again as the owner of an overlay, and as who is killed at a step.
func TestMain(m *testing.M) {
	overlaytest.Main()
	if os.Getenv("SNAPSHOT_ROLE") == "victim" {
		victim()
	}
	os.Exit(m.Run())
}

var must, build, openedDir, difference = overlaytest.Must, overlaytest.Build, overlaytest.OpenDir, overlaytest.Difference
