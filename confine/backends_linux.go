package confine

import (
	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process"
)

// Init turns the process into the inside of a run, if that is what it was started as; then it doesn't return. A
// program that starts anything calls it first thing in main.
func Init() { process.Init() }

// backends are those that there are, by the isolation that a policy asks for.
var backends = map[string]backend.Backend{"": process.Backend{}, "process": process.Backend{}}

// backendFor is the one of a policy. An isolation that has none is refused by the plan of processes, which says so.
func backendFor(p *Policy) backend.Backend {
	if b, ok := backends[p.Isolation]; ok {
		return b
	}
	return process.Backend{}
}
