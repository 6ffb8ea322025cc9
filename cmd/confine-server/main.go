// Command confine-server is what "confine serve", "confine session", "confine top", "confine report" and "confine oci" start, and lies beside it: they need
// net/http, or templates, whose start no run is to pay for.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/oci"
	"github.com/confine-run/confine/internal/picture"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/session"
	"github.com/confine-run/confine/internal/top"
)

func main() {
	backends.Init()                                 // the inside of a sandbox is this program, started again
	if filepath.Base(os.Args[0]) == "confine-oci" { // as an engine calls it, which says no more than what runc takes
		os.Exit(oci.Main(os.Args[1:], backends.For))
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			os.Exit(serve.Main(os.Args[2:], backends.For))
		case "session":
			os.Exit(session.Main(os.Args[2:], backends.For))
		case "oci":
			os.Exit(oci.Main(os.Args[2:], backends.For))
		case "report":
			os.Exit(picture.Main(os.Args[2:]))
		case "top":
			os.Exit(top.Main(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "confine-server: started by \"confine serve\", \"confine session\", \"confine top\", \"confine report\" and \"confine oci\", and by nobody else")
	os.Exit(2)
}
