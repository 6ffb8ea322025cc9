package host

import (
	"os"
	"testing"
)

// The test binary is started again as the throw-away process, and as the
// scenes of scene_linux_test.go.
func TestMain(m *testing.M) {
	ProbeMain()
	playScene()
	os.Exit(m.Run())
}
