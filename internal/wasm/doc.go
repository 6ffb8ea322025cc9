// Package wasm is what the two sides of a run of a WebAssembly module have to agree on: the command line of the engine, which is the
// program that is really started inside, and what the engine tells at its end.
//
// The engine is confine-wasm, which lies beside confine. It runs as the target of a run like any other, so that all that holds a
// program holds it; the module in it is held once more, by having nothing but what the engine gives it:
//
//	confine ── box ── confine-wasm ── module
//	                  │  memory up to Pages, files below Dirs, its streams, clocks, random numbers
//	                  └─ Told, by a descriptor that the module doesn't have
//
// The package knows nothing of the engine's library. Only package engine does, which only confine-wasm links.
package wasm
