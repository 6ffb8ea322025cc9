// Command confine-wasm is the engine of "--isolation wasm", and lies beside confine: it needs a compiler of WebAssembly, whose start
// no other run is to pay for. It is started inside of a run.
package main

import (
	"os"

	"github.com/confine-run/confine/internal/wasm/engine"
)

func main() { os.Exit(engine.Main(os.Args)) }
