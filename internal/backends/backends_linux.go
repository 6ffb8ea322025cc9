package backends

import (
	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm"
	"github.com/confine-run/confine/internal/config"
)

// Init turns the process into the inside of a run, or into the first process of a machine, if that is what it was started as; then it doesn't return.
func Init() {
	process.Init()
	vm.Init()
}

var all = map[string]backend.Backend{"": process.Backend{}, "process": process.Backend{}, "vm": vm.Backend{}}

// For is the one of a policy. An isolation that has none is refused by the plan of processes, which says so.
func For(p *config.Policy) backend.Backend {
	if b, ok := all[p.Isolation]; ok && (p.Isolation != "vm" || !vm.GoesWithout(p)) {
		return b
	}
	return process.Backend{}
}
