package supervisor

import "github.com/confine-run/confine/supervisor/outcome"

// SetupError is a sandbox that could not be built.
type SetupError = outcome.SetupError
