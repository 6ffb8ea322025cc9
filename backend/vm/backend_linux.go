package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm/internal/guest"
	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/status"
)

// Name is the backend's, as reports have it.
const Name = "linux-vm"

// Backend builds machines.
type Backend struct {
	// In tests:
	kernel string                            // that is booted where the policy names none
	device string                            // in the place of /dev/kvm
	try    func(context.Context, plan) error // boots a machine by KVM
}

func (Backend) Name() string { return Name }

// Init turns the process into the first of a guest, if that is what it was started as; then it doesn't return.
func Init() {
	if guest.Called(os.Args) {
		guest.Main()
	}
}

// plan is that of the sandbox around QEMU, with what is booted.
type plan struct {
	backend.Plan
	parts
	spec   *backend.Spec
	accel  accelerator
	own    string // file of this program, which is the guest's first
	calls  []byte // the policy of system calls that a file has; nil: it has a name
	ledger status.Ledger
}

// Plan finds what a machine needs, and plans the sandbox around it. What the guest gives, it says when it has booted.
func (b Backend) Plan(ctx context.Context, s *backend.Spec) (backend.Plan, error) {
	if err := fits(s); err != nil {
		return nil, err
	}
	found, missing := find(s.Policy, cmp.Or(s.Policy.VMKernel, b.kernel))
	var shown []config.Mount
	p := plan{parts: found, spec: s}
	if missing == nil {
		if err := process.Unpack(ctx, s); err != nil {
			return nil, err
		}
		var err error
		if p.own, err = ownFile(); err != nil {
			return nil, err
		}
		if p.accel, err = b.kvm(&p); err != nil && slices.Contains(s.Policy.Require, string(status.Isolation)+"="+accelerator{Works: true}.mechanism()) {
			if p, err = b.accelerated(ctx, p); err != nil {
				return nil, err
			}
		}
		shown = found.mounts(p.own, ramOf(s.Policy))
	}
	outer, err := process.Backend{}.Plan(ctx, p.outerSpec(shown))
	if outer == nil {
		return nil, err
	}
	p.Plan, p.ledger = outer, foretold(s.Policy, outer.Ledger(), isolation(found.kernel, p.accel, missing))
	if err == nil {
		err = p.filter(ctx)
	}
	return p, accept(s.Policy, p.ledger, missing, err)
}

// fits refuses what is asked of a root directory and the guest hasn't.
func fits(s *backend.Spec) error {
	if sh := &s.Shape; sh.Hostname != "" || sh.Sealed || len(sh.Masked)+len(sh.ReadOnly) > 0 {
		return &config.UsageError{Msg: "a container can't be had with --isolation vm", Hint: "confine --isolation vm --rootfs DIR runs a command in its tree"}
	}
	return nil
}

// filter reads the policy of system calls, and refuses one that is none before anything boots: it is the guest that compiles it.
func (p *plan) filter(ctx context.Context) error {
	q := p.spec.Policy
	if slices.Contains([]string{"", "off", "default", "strict"}, q.Seccomp) {
		return nil
	}
	alone := config.Default()
	alone.Seccomp, alone.SeccompAction, alone.AllowPartial = q.Seccomp, q.SeccompAction, []string{config.WordAll}
	text, trusted := q.TrustedSeccomp()
	if !trusted {
		data, err := config.ReadFile(q.Seccomp, true)
		if err != nil {
			return &config.UsageError{Msg: "--seccomp: " + err.Error(), Err: err}
		}
		text = data
	}
	one := *p.spec
	one.Policy, one.Resolved = &alone, nil
	tried, err := process.Backend{}.Plan(ctx, &one)
	if err != nil {
		return err
	}
	p.calls = text
	e := tried.Ledger()[status.Syscalls]
	e.Applied = false
	p.ledger[status.Syscalls] = e
	return nil
}

// accept holds what there is against what was asked for. err is what the plan of the outer sandbox came to.
func accept(p *config.Policy, l status.Ledger, missing *missingError, err error) error {
	var cant *config.Unenforceable
	switch {
	case errors.As(err, &cant):
		cant.Ledger = l
		return cant
	case err != nil:
		return err
	case missing != nil: // where the policy takes less, the command is no machine's
		return &config.Unenforceable{
			Capability: status.Isolation, Requested: "vm", Reason: status.NotInBuild, Details: missing.Error(), Hint: missing.hint, Ledger: l, Err: missing.err,
		}
	}
	return config.Accept(p, l)
}

// Explanation is what is shown of a plan.
type Explanation struct {
	Outer   *process.Plan
	Command *process.Command
	Ledger  status.Ledger
	Refused *config.Unenforceable // nil: it isn't
}

// Explain plans, and shows it.
func Explain(_ context.Context, s *backend.Spec) (*Explanation, error) {
	if err := fits(s); err != nil {
		return nil, err
	}
	found, missing := find(s.Policy, s.Policy.VMKernel)
	x := &Explanation{Command: &process.Command{Argv: s.Argv, Dir: s.Dir, Environ: s.Environ, ConfigFiles: s.ConfigFiles}}
	var err error
	if x.Outer, err = process.NewPlan(outerOf(s.Policy, nil), x.Command); x.Outer == nil {
		return nil, err
	}
	var accel accelerator
	if missing == nil {
		accel, _ = Backend{}.kvm(&plan{parts: found, spec: s})
	}
	x.Ledger = foretold(s.Policy, status.Ledger(x.Outer.Ledger), isolation(found.kernel, accel, missing))
	if err := accept(s.Policy, x.Ledger, missing, err); err != nil && !errors.As(err, &x.Refused) {
		return nil, err
	}
	return x, nil
}

// ownFile is where this program is.
func ownFile() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	running, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(running, there) {
		return "", fmt.Errorf("%q isn't the program any more that runs: a machine needs it", path)
	}
	return path, selfContained()
}

// missingError is what a machine needs and isn't there.
type missingError struct {
	err  error
	hint string
}

func (m *missingError) Error() string { return m.err.Error() }

// parts are files that a machine is made of.
type parts struct {
	qemu, keeper string
	emulator     emulator
	kernel       *kernel
}

// find finds them.
func find(p *config.Policy, kernelFile string) (found parts, missing *missingError) {
	if runtime.GOARCH != "amd64" {
		return found, &missingError{errors.New("machines are x86-64, and this host is " + runtime.GOARCH), "run it with --isolation process"}
	}
	for _, path := range qemuPaths {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			found.qemu = path
			break
		}
	}
	if found.qemu == "" {
		return found, &missingError{errors.New("there is no qemu-system-x86_64 in /usr/bin nor in /usr/local/bin"), "apt-get install --no-install-recommends qemu-system-x86"}
	}
	found.emulator = emulatorOf(found.qemu, p.Filesystem.Rootfs != "")
	var err error
	if found.keeper, err = hostfs.Beside(keeper.Program); err != nil {
		return found, &missingError{err, "install " + keeper.Program + " beside confine: make install does"}
	}
	if found.kernel, err = findKernel(kernelFile); err != nil {
		return found, &missingError{err, kernelHint}
	}
	return found, nil
}

// GoesWithout says whether the command of a policy runs as a process: there is no machine to be had, and the policy takes that.
func GoesWithout(p *config.Policy) bool {
	if !config.AllowsPartial(p, status.Isolation) {
		return false
	}
	_, missing := find(p, p.VMKernel)
	return missing != nil
}

// outerSpec is what the sandbox around QEMU is to be. It shows the tool chain of the command, not QEMU's, which is the system's.
func (p plan) outerSpec(shown []config.Mount) *backend.Spec {
	o := *p.spec
	o.Policy, o.Resolved = outerOf(p.spec.Policy, shown), nil
	if !p.accel.Works {
		return &o
	}
	o.Policy.Filesystem.AllowWrite = append(slices.Clone(o.Policy.Filesystem.AllowWrite), kvmDevice)
	if o.Ceiling != nil { // it is nobody's wish
		ceiling := *o.Ceiling
		ceiling.Filesystem.AllowWrite = append(slices.Clone(ceiling.Filesystem.AllowWrite), kvmDevice)
		o.Ceiling = &ceiling
	}
	return &o
}

func (p plan) Ledger() status.Ledger { return p.ledger }

// Key is the same for machines that are the same.
func (p plan) Key() [32]byte {
	return backend.KeyOf(p.Plan.Key(), p.spec.Policy.Digest(), p.kernel.path)
}

// Kept is a machine written down, or anything else that is in the directory: what it is of, the sandbox knows that is to go on from it.
func (Backend) Kept(dir, id string) (backend.Snapshot, error) { return process.Backend{}.Kept(dir, id) }

// Build boots a machine, or has one go on that was written down.
func (b Backend) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	fast, err := b.accelerated(ctx, p.(plan))
	if err != nil {
		return nil, err
	}
	box, failed, err := open(ctx, fast)
	if failed != nil {
		return nil, &backend.BuildError{Report: failed}
	}
	if err != nil {
		return nil, err
	}
	return box, nil
}
