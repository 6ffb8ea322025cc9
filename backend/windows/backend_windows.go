package windows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// Backend builds sandboxes.
type Backend struct{}

func (Backend) Name() string { return Name }

// runsDir is where the directories and the journals of runs are: the user's own, and no place that a run can write.
func runsDir() (string, error) {
	dir, err := os.UserCacheDir() // %LocalAppData%
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "confine"), nil
}

func here() (facts, error) {
	if _, err := runsDir(); err != nil {
		return facts{}, &config.UsageError{Msg: "there is no place for a run: " + err.Error(), Hint: "set LocalAppData", Err: err}
	}
	home, _ := os.UserHomeDir()
	return facts{CPUs: runtime.NumCPU(), Home: home}, nil
}

func (Backend) Plan(_ context.Context, s *backend.Spec) (backend.Plan, error) {
	p, err := planHere(s)
	if p == nil {
		return nil, err
	}
	return p, err
}

// planHere follows the names of trees once, and plans.
func planHere(s *backend.Spec) (*Plan, error) {
	have, err := here()
	if err != nil {
		return nil, err
	}
	spec, policy := *s, *s.Policy
	spec.Policy, spec.PolicyDigest = &policy, ""
	f := &policy.Filesystem
	real := func(path string) string {
		if final, err := finalPath(path); err == nil {
			return final
		}
		return path // what can't be opened is told when it is granted
	}
	spec.Dir = real(spec.Dir)
	f.AllowWrite, f.Overlay = mapped(f.AllowWrite, real), mapped(f.Overlay, real)
	p, err := newPlan(&spec, have)
	if p != nil {
		p.Spec = &spec
	}
	return p, err
}

func mapped(list []string, f func(string) string) (out []string) {
	for _, s := range list {
		out = append(out, f(s))
	}
	return out
}

// finalPath is a path with all links followed.
func finalPath(path string) (string, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return "", err
	}
	h, err := windows.CreateFile(name, 0, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return "", err
	}
	defer windows.CloseHandle(h)
	b := make([]uint16, maxPath+1)
	n, err := windows.GetFinalPathNameByHandle(h, &b[0], uint32(len(b)), 0)
	if err != nil || int(n) > len(b) {
		return "", errors.Join(err, errLong)
	}
	final := windows.UTF16ToString(b[:n])
	if rest, ok := strings.CutPrefix(final, `\\?\UNC\`); ok {
		return `\\` + rest, nil
	}
	return strings.TrimPrefix(final, `\\?\`), nil
}

// Build plans anew, since a plan names files as they were, and builds.
func (Backend) Build(ctx context.Context, planned backend.Plan) (backend.Sandbox, error) {
	p, err := planHere(planned.(*Plan).Spec)
	if err != nil {
		return nil, err
	}
	runs, err := runsDir()
	if err != nil {
		return nil, err
	}
	box, err := build(ctx, p, runs)
	return p.Built(box, err)
}
