package policyfile

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/located"
	"github.com/confine-run/confine/internal/seccomp"
)

// Target is the machine that a policy is read for. Files in Docker's format have
// entries for some architectures and kernels only; other policies don't ask.
type Target struct {
	Arch   string // as runtime.GOARCH; "": this one
	Kernel Kernel
}

// Kernel is a version of Linux. The zero value is an unknown one, for which a file
// that asks is an error.
type Kernel struct{ Major, Minor int }

func (k Kernel) atLeast(least Kernel) bool {
	return k.Major > least.Major || k.Major == least.Major && k.Minor >= least.Minor
}

// IsFile says whether --seccomp names a file, and no policy that ships.
func IsFile(spec string) bool { return seccomp.Builtin(spec) == nil }

// Load gives the policy that --seccomp names: "default", "strict" or a file's. It must not be changed.
func Load(spec string, on Target) (*seccomp.Policy, error) {
	if !IsFile(spec) {
		return seccomp.Builtin(spec), nil
	}
	text, err := read(spec)
	if err != nil {
		return nil, err
	}
	return Parse(text, spec, on)
}

// limit is more than any policy needs, and less than /dev/zero has.
const limit = 1 << 20

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, hint.With(fmt.Errorf("seccomp policy: %w", err), "--seccomp takes off, default, strict or the path of a policy file")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("seccomp policy: %w", err)
	case len(text) > limit:
		return nil, &seccomp.PolicyError{File: path, Msg: "a policy file has at most 1 MiB"}
	}
	return text, nil
}

// Parse reads a policy from the text of a file. The name is for errors and for
// the policy's version. The error is a *seccomp.PolicyError or a *seccomp.ArchError.
func Parse(text []byte, name string, on Target) (p *seccomp.Policy, err error) {
	d := &document{name: name, text: text, lines: located.NewLines(text), json: isJSON(text)}
	defer d.caught(&err)
	on.Arch = cmp.Or(on.Arch, runtime.GOARCH)
	execve := `names = ["execve"], action = "allow"`
	if d.json {
		execve = `{ "names": ["execve"], "action": "SCMP_ACT_ALLOW" }`
		if _, err := seccomp.TableOf(on.Arch); err != nil {
			return nil, err
		}
		p = parseOCI(d, on)
	} else {
		p = parseTOML(d)
	}
	if !startable(p) {
		d.fail(-1, "execve is not allowed, so that no program can start", "allow it: "+execve)
	}
	p.Kind, p.Version = "file", filepath.Base(name)
	return p, nil
}

// startable says whether anything can run under a policy: the filter is loaded
// before execve. A condition doesn't count: the arguments are pointers.
func startable(p *seccomp.Policy) bool {
	for i := range p.Rules {
		if r := &p.Rules[i]; len(r.Args) == 0 && slices.Contains(r.Calls, "execve") {
			return r.Outcome.LetsThrough()
		}
	}
	return p.Default.LetsThrough()
}
