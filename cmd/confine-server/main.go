// Command confine-server is what "confine serve", "confine session", "confine top" and "confine report" start, and lies beside it: they need
// net/http, or templates, whose start no run is to pay for.
package main

import (
	"fmt"
	"os"

	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/picture"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/session"
	"github.com/confine-run/confine/internal/top"
)

func main() {
	backends.Init() // the inside of a sandbox is this program, started again
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			os.Exit(serve.Main(os.Args[2:], backends.For))
		case "session":
			os.Exit(session.Main(os.Args[2:], backends.For))
		case "report":
			os.Exit(picture.Main(os.Args[2:]))
		case "top":
			os.Exit(top.Main(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "confine-server: started by \"confine serve\", \"confine session\", \"confine top\" and \"confine report\", and by nobody else")
	os.Exit(2)
}
