package cli

import (
	"runtime"
	"runtime/debug"
)

// build is what "version --json" prints.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty"` // built from a tree with changes that are in no commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Version is what a release is called; the linker sets it (-X). Otherwise the
// version is what the module system says, or "devel".
var Version string

func thisBuild() build {
	b := build{Version: Version, Commit: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, set := range info.Settings {
		switch set.Key {
		case "vcs.revision":
			b.Commit = set.Value
		case "vcs.modified":
			b.Dirty = set.Value == "true"
		}
	}
	return b
}

func (s *session) version(args []string) int {
	line, err := words(lookup("version"), args, 0)
	if err != nil {
		return s.usage(err)
	}
	if line.Help {
		return s.page("version")
	}
	asJSON, err := line.wantsJSON()
	if err != nil {
		return s.usage(err)
	}
	b := thisBuild()
	if asJSON {
		return s.print(string(encode(b)))
	}
	commit := b.Commit
	if b.Dirty {
		commit += ", with changes"
	}
	return s.print("confine " + b.Version + " (" + commit + ") " + b.Go + " " + b.OS + "/" + b.Arch + "\n")
}
