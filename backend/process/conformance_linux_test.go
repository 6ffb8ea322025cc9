package process

import (
	"testing"

	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/host"
)

// layersHere says whether a sandbox can stand on what another has left here. Without, that says so itself.
func layersHere(t *testing.T) bool {
	t.Helper()
	box := sandboxOf(t, t.Context(), nil)
	at := box.now()
	err := at.missing("snapshots")
	_, _ = box.Close()
	if err == nil {
		return true
	}
	if must := host.MustRun("overlay"); must != nil {
		t.Fatal(must, err)
	}
	t.Log(err)
	return false
}

// onLayers skips a test where there are none.
func onLayers(t *testing.T) {
	t.Helper()
	if !layersHere(t) {
		t.Skip("no sandbox can stand on what another has left")
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Target{Backend: Backend{}, Snapshots: layersHere(t), Program: conformance.Shell})
}
