package backends

import (
	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/windows"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
)

// Init turns the process into a helper of the backend, if it was started as one; then it doesn't return.
func Init() { windows.Init() }

// For is the one that there is. An isolation that it has not is refused by its plan.
func For(*config.Policy) backend.Backend { return windows.Backend{} }

// Doctor says what this host can do.
func Doctor() []host.Result { return windows.Doctor() }

// Clean takes back what runs have left.
func Clean() func() (int, error) { return windows.Clean }
