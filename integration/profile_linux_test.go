package integration

import (
	"encoding/json"
	"os"

	moby "github.com/moby/profiles/seccomp"
	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["docker-profile"] = cmdDockerProfile }

// cmdDockerProfile writes the profile that Docker gives a container when nobody asks
// for another one.
func cmdDockerProfile(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, "docker-profile FILE")
	text, err := json.MarshalIndent(moby.DefaultProfile(), "", "  ")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o644))
}
