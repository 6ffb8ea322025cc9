package rootfs

import (
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/view"
)

// Table is what the target will see, and what follows for the run.
type Table struct {
	*view.View
	plan.Guarded

	Root   handoff.Mount // the tree that is /; of no kind when that is a private one
	Mounts []handoff.Mount
	// Caches are variables of tool chains' caches that would be overlays, where there are
	// none: what they name has to be a place of the run's own.
	Caches []string
	// Overlays are the trees that the caller wanted as overlays, for review. What
	// discovery makes one is thrown away and concerns nobody.
	Overlays []plan.Overlay
	// Nested are the trees that can be no overlays because of what is mounted below.
	Nested []Nested
	// NoHome is why there is no home directory to be an overlay, although one was to be.
	NoHome string
	// Beside are mounts below overlays, outside, which are shown read-only.
	Beside []string
	// DenyAtStart: a pattern is to hide what matches in a writable tree, which
	// holds only for what is there when the run starts.
	DenyAtStart bool
	// ProtectsLess: not all is protected that would have to be; a notice says what not.
	ProtectsLess bool
	// SocketsLater: a tree of the caller's is shown in which somebody outside can bind
	// a socket after the start, which nothing here hides.
	SocketsLater bool
	// SocketsMissed is why a socket that is there when the run starts may not be hidden; "" is no reason.
	SocketsMissed string
}
