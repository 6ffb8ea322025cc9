package backends

import (
	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/darwin"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
)

// Init turns the process into the inside of a run, or into the keeper of one, if it was started as that; then it doesn't return.
func Init() { darwin.Init() }

// For is the one that there is. An isolation that it has not is refused by its plan.
func For(*config.Policy) backend.Backend { return darwin.Backend{} }

// Doctor says what this host can do.
func Doctor() []host.Result { return darwin.Doctor() }

// Clean is nil: the keeper of a run leaves nothing.
func Clean() func() (int, error) { return nil }
