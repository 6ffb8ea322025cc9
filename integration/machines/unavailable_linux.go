package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/confine-run/confine/internal/host"
)

// unavailable is what can't be had here. It is no failure, unless somebody
// insists on machines.
type unavailable struct{ error }

func (u unavailable) Unwrap() error { return u.error }

// skippable makes an error of what was found missing, or nothing where it may
// be missing.
func skippable(err error) error {
	if _, ok := errors.AsType[unavailable](err); !ok {
		return err
	}
	if must := host.MustRun("machines"); must != nil {
		return fmt.Errorf("%w: %w", must, err)
	}
	return nil
}

// programs are what has to be installed, each with Debian's package.
var programs = [][2]string{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"apt-get", "apt"},
	{"apt-cache", "apt"},
	{"dpkg-deb", "dpkg"},
	{"mmdebstrap", "mmdebstrap"},
	{"genext2fs", "genext2fs"},
	{"xz", "xz-utils"},
}

func checkPrograms() error {
	if runtime.GOARCH != "amd64" {
		return unavailable{fmt.Errorf("the machines are amd64, and this is %s", runtime.GOARCH)}
	}
	var names, packages []string
	for _, p := range programs {
		if _, err := exec.LookPath(p[0]); err != nil {
			names, packages = append(names, p[0]), append(packages, p[1])
		}
	}
	if names == nil {
		return nil
	}
	return unavailable{fmt.Errorf("no %s\nhint: apt-get install --no-install-recommends %s",
		strings.Join(names, ", "), strings.Join(packages, " "))}
}
