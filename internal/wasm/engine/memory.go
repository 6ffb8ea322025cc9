package engine

import (
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// memory is what the module has.
type memory struct {
	limit   uint64 // bytes; 0: as much as there can be
	peak    uint64
	refused bool // it asked for more
}

// Allocate reserves addresses for the most that there may be, which costs nothing until it is used. A module that begins with more can't be told so: the engine's library
// takes what it asks for first for granted. So that is a panic with a *tooLarge, whether the memory is exported or not.
func (m *memory) Allocate(least, most uint64) experimental.LinearMemory {
	if m.limit > 0 {
		most = min(most, m.limit)
	}
	space, err := reserve(most)
	if err != nil {
		space = nil // everything is refused
	}
	if gets := uint64(len(space)); least > gets {
		panic(&tooLarge{fmt.Sprintf("the module begins with %d bytes of memory, and gets %d", least, gets)})
	}
	return &linear{m, space}
}

type linear struct {
	*memory
	space []byte
}

func (l *linear) Reallocate(size uint64) []byte {
	if size > uint64(len(l.space)) {
		l.refused = true
		return nil
	}
	l.peak = max(l.peak, size)
	return l.space[:size]
}

func (l *linear) Free() {} // the engine ends with the module

// suits says why a module can't be run.
func suits(module wazero.CompiledModule) error {
	for _, f := range module.ImportedFunctions() {
		if from, name, _ := f.Import(); from != "wasi_snapshot_preview1" {
			return &notImported{from, name}
		}
	}
	if _, ok := module.ExportedFunctions()["_start"]; !ok {
		return errNoCommand
	}
	return nil
}
