// Package engine runs a WebAssembly module that speaks WASI preview 1, by wazero, for "--isolation wasm". See package wasm.
//
//	Main      words → load → instantiate → told
//	memory    what the module has, and that it was refused more
//	tree      a directory that it has, by os.Root: links lead nowhere out of it
//	file      what it has open
//	clock     and random numbers, as they are or as they always are
//	ending    what came of it → status
package engine
