// Command confine-server is what "confine serve" starts, and lies beside it: the local API needs net/http, whose start no
// run is to pay for.
package main

import (
	"os"

	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/serve"
)

func main() {
	backends.Init() // the inside of a sandbox is this program, started again
	os.Exit(serve.Main(os.Args[1:], backends.For))
}
