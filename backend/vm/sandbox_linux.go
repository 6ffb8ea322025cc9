package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm/internal/guest"
	"github.com/confine-run/confine/backend/vm/internal/wire"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// bootTime is how long a guest may take to greet. Emulated and on a busy host it takes longer than anybody likes.
const bootTime = 90 * time.Second

// sandbox is a machine.
type sandbox struct {
	plan    plan
	card    bool // it has one for the network
	outer   backend.Sandbox
	qemu    backend.Process
	conn    *conn
	console *tail
	release string // of the guest's kernel

	changing sync.Mutex // of the network, by one at a time

	mu        sync.Mutex
	spec      *backend.Spec
	ledger    status.Ledger
	confirmed status.Ledger // of the outer sandbox, by the report of a process in it

	processes uint32 // how many were started; guarded by conn.mu
	closing   sync.Once
	closed    chan struct{} // closed when closing began
	report    *status.BoxReport
	over      chan struct{} // closed when QEMU has ended
	killed    *status.Report
}

// boot boots a machine, up to a sandbox in it. A report says why there is none.
func boot(ctx context.Context, p plan) (*sandbox, *status.Report, error) {
	dir, err := os.MkdirTemp("", "confine-vm-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	initrd := filepath.Join(dir, "initramfs")
	if err := errors.Join(os.Chmod(dir, 0o755), p.kernel.writeInitramfs(initrd)); err != nil {
		return nil, nil, err
	}
	outerPolicy := outerOf(p.spec.Policy, mountsOf(p.kernel, initrd))
	outer, failed, err := backend.Open(context.WithoutCancel(ctx), process.Backend{}, outerSpec(p.spec, outerPolicy))
	if err != nil || failed != nil {
		if failed != nil {
			failed.Backend = Name
		}
		return nil, failed, err
	}
	_ = os.RemoveAll(dir) // the sandbox has it mounted; who is killed from now on leaves nothing
	s := &sandbox{plan: p, card: hasNetwork(p.spec.Policy), spec: p.spec, outer: outer, console: &tail{}, closed: make(chan struct{}), over: make(chan struct{})}
	if err := s.startQEMU(ctx); err != nil {
		_, _ = outer.Close()
		return nil, nil, err
	}
	if failed, err := s.greet(ctx); err != nil || failed != nil {
		if failed == nil && ctx.Err() == nil {
			failed, err = s.broke(err, "", nil), nil
		}
		s.end()
		_, _ = outer.Close()
		return nil, failed, err
	}
	return s, nil, nil
}

// startQEMU starts QEMU in the outer sandbox. The protocol is on its standard input and output, the console of the guest on its standard error.
func (s *sandbox) startQEMU(ctx context.Context) error {
	fromHost, port, err := os.Pipe()
	if err != nil {
		return err
	}
	answers, toHost, err := os.Pipe()
	if err != nil {
		return errors.Join(err, fromHost.Close(), port.Close())
	}
	ends := []*os.File{fromHost, port, answers, toHost} // which the outer sandbox reads and writes itself
	s.qemu, err = s.outer.Start(context.WithoutCancel(ctx), &backend.Exec{Argv: s.arguments(), Dir: "/", Stdin: fromHost, Stdout: toHost, Stderr: s.console})
	if err != nil {
		for _, f := range ends {
			_ = f.Close()
		}
		return err
	}
	s.conn = newConn(answers, port, func() { _ = s.qemu.Signal(os.Kill) })
	go func() {
		r := s.qemu.Wait()
		s.killed = r
		close(s.over)
		s.conn.fail(errGone)
		for _, f := range ends {
			_ = f.Close()
		}
	}()
	context.AfterFunc(ctx, func() { _, _ = s.Close() })
	return nil
}

// arguments are QEMU's command line. Whatever isn't named isn't there.
func (s *sandbox) arguments() []string {
	p := s.spec.Policy
	args := []string{
		s.plan.qemu, "-M", "q35,usb=off,vmport=off,hpet=off", "-accel", "tcg,thread=single,tb-size=128", "-cpu", "max",
		"-m", strconv.FormatInt(ramOf(p)>>20, 10) + "M", "-smp", strconv.Itoa(max(1, p.CPUs)),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", filepath.Join(inBox, "kernel"), "-initrd", filepath.Join(inBox, "initramfs"),
		"-append", "console=ttyS0 quiet panic=-1 reboot=t mitigations=off random.trust_cpu=on -- " + guest.Word,
		"-chardev", "stdio,id=host,signal=off", "-chardev", "file,id=console,path=/proc/self/fd/2,append=on", "-serial", "chardev:console",
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=host,name=" + guest.Port,
		"-fsdev", "local,id=root,path=/,security_model=none,multidevs=remap", "-device", "virtio-9p-pci,fsdev=root,mount_tag=" + guest.Root,
	}
	if s.card {
		args = append(args, "-netdev", "user,id=net,ipv6=off", "-device", "virtio-net-pci,netdev=net,romfile=")
	}
	return args
}

// confirm has a process in the outer sandbox end, whose report says what of that wall was built: QEMU itself, which only says its version.
func (s *sandbox) confirm() {
	p, err := s.outer.Start(context.Background(), &backend.Exec{Argv: []string{s.plan.qemu, "--version"}, Dir: "/"})
	if err != nil {
		return
	}
	r := p.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed = r.Enforced
}

// wall is the ledger of the outer sandbox.
func (s *sandbox) wall() status.Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := maps.Clone(s.outer.Ledger())
	for c, e := range s.confirmed {
		if c != status.Network { // which may have changed
			l[c] = e
		} else if now := l[c]; e.Applied {
			now.Applied = true
			l[c] = now
		}
	}
	return l
}

// greet waits until the guest is up, and has it build its sandbox.
func (s *sandbox) greet(ctx context.Context) (*status.Report, error) {
	confirmed := make(chan struct{})
	go func() { // while it boots
		defer close(confirmed)
		s.confirm()
	}()
	late := time.NewTimer(bootTime)
	defer late.Stop()
	select {
	case g := <-s.conn.hello:
		s.release = g.Release
		if g.Failed != "" {
			return nil, errors.New("the guest failed to start: " + g.Failed)
		}
	case <-s.conn.dead:
		return nil, s.conn.why()
	case <-late.C:
		return nil, fmt.Errorf("the guest didn't boot within %v", bootTime)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-confirmed
	uid, gid := identity(s.spec.Policy)
	dir := s.spec.Dir
	if st, err := s.outer.Files().Stat(dir); err != nil || !st.IsDir() {
		dir = "/" // the policy doesn't show it
	}
	a, err := s.conn.call(ctx, &wire.Request{Method: wire.Open, Open: &wire.Spec{
		Policy: innerOf(s.spec.Policy, uid, gid, config.LookupEnv(s.spec.Environ, "HOME")), Argv: s.spec.Argv, Environ: s.spec.Environ, Dir: dir,
		ConfigFiles: s.spec.ConfigFiles, Network: s.card, Local: localPorts(s.spec.Policy),
	}})
	switch {
	case errors.Is(err, backend.ErrClosed):
		return nil, s.conn.why()
	case err != nil:
		return nil, err
	case a.Failed != nil:
		if plausible(a.Failed) != nil || a.Failed.Status != status.InternalError {
			return nil, wire.Broken("a failure that is none")
		}
		a.Failed.Enforced = s.merged(a.Failed.Enforced)
		return s.complete(a.Failed, s.spec.Argv), nil
	}
	ledger := s.merged(a.Ledger)
	s.mu.Lock()
	s.ledger = ledger
	s.mu.Unlock()
	return nil, nil
}

// identity is who the processes are: in the guest, too.
func identity(p *config.Policy) (uid, gid uint32) {
	if p.User != nil {
		return p.User.UID, p.User.GID
	}
	return uint32(os.Getuid()), uint32(os.Getgid())
}

// Ledger says what it was built to enforce.
func (s *sandbox) Ledger() status.Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger
}

// Done is closed when it has ended.
func (s *sandbox) Done() <-chan struct{} { return s.over }

// Usage is what everybody inside uses now.
func (s *sandbox) Usage() (backend.Usage, error) {
	return usageOf(s.conn.call(context.Background(), &wire.Request{Method: wire.Usage}))
}

// Changes says what was changed, which is in the overlays of the outer sandbox.
func (s *sandbox) Changes(ctx context.Context, keep string) (*status.Changes, error) {
	if _, err := s.conn.call(ctx, &wire.Request{Method: wire.Sync}); err != nil {
		return nil, err
	}
	return s.outer.Changes(ctx, keep)
}

// Network changes whom the processes inside may reach. A machine without a card can't get one.
func (s *sandbox) Network(ctx context.Context, n *config.Network) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	p := *s.asked().Policy
	p.Network = *n
	if hasNetwork(&p) && !s.card {
		return errors.ErrUnsupported
	}
	if err := s.outer.Network(ctx, n); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := *s.spec
	spec.Policy, spec.Resolved = &p, nil
	s.spec, s.ledger = &spec, maps.Clone(s.ledger)
	s.ledger[status.Network] = s.outer.Ledger()[status.Network]
	return nil
}

// asked is what it is to be by now.
func (s *sandbox) asked() *backend.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec
}

// Traffic is what the gateway has seen until now.
func (s *sandbox) Traffic() *status.Traffic {
	if seer, ok := backend.As[backend.Seer](s.outer); ok {
		return seer.Traffic()
	}
	return nil
}

// Tell has somebody told what happens to nobody in particular.
func (s *sandbox) Tell(tell func(backend.Event)) {
	if t, ok := backend.As[backend.Teller](s.outer); ok {
		t.Tell(func(e backend.Event) {
			if e.Denied == nil || e.Denied.Kind != "syscall" { // of QEMU's
				tell(e)
			}
		})
	}
}

// Ready waits until its init answers.
func (s *sandbox) Ready(ctx context.Context) error {
	_, err := s.conn.call(ctx, &wire.Request{Method: wire.Usage})
	return err
}

// Snapshot can't be had yet.
func (s *sandbox) Snapshot(context.Context) (backend.Snapshot, error) {
	return nil, errors.ErrUnsupported
}

// Restore can't be had yet.
func (s *sandbox) Restore(context.Context, backend.Snapshot) error { return errors.ErrUnsupported }

// Fork can't be had yet.
func (s *sandbox) Fork(context.Context) (backend.Sandbox, error) { return nil, errors.ErrUnsupported }

// end ends QEMU.
func (s *sandbox) end() {
	s.conn.fail(backend.ErrClosed)
	_ = s.qemu.Signal(os.Kill)
	<-s.over
}

// Close ends everybody inside.
func (s *sandbox) Close() (*status.BoxReport, error) {
	s.closing.Do(s.close)
	if e := s.report.SetupError; e != nil {
		return s.report, errors.New(e.Error)
	}
	return s.report, nil
}

func (s *sandbox) close() {
	close(s.closed)
	var inner *status.BoxReport
	fault := s.conn.why()
	if fault == nil {
		if a, err := s.conn.call(context.Background(), &wire.Request{Method: wire.Close}); err == nil {
			inner = a.Box
		} else {
			fault = s.conn.why()
		}
	}
	s.end()
	outer, _ := s.outer.Close()
	r := outer
	r.Enforced = s.Ledger()
	r.Backend = Name
	r.LimitsHit, r.Cause, r.Reason = nil, "", ""
	r.Violations = outside(r.Violations)
	if inner != nil {
		r.Usage, r.LimitsHit, r.FullMounts, r.Cause, r.Reason = inner.Usage, inner.LimitsHit, inner.FullMounts, inner.Cause, inner.Reason
		r.Violations = append(r.Violations, inner.Violations...)
	} else if r.SetupError == nil && fault != nil && !errors.Is(fault, backend.ErrClosed) {
		_, cause, why := s.diagnose(fault)
		r.Cause, r.Reason = cause, why
		if cause == status.CauseSetup {
			r.SetupError = &status.SetupError{Step: "machine", Op: "run", Error: why}
		}
	}
	whole := backend.Complete(&status.Report{Enforced: r.Enforced, LimitsHit: r.LimitsHit, Violations: r.Violations}, s.asked())
	r.Version, r.Profile, r.PolicyDigest, r.Host = whole.Version, whole.Profile, whole.PolicyDigest, whole.Host
	r.Enforced, r.LimitsHit, r.Violations = whole.Enforced, whole.LimitsHit, whole.Violations
	s.report = r
}

// outside are the violations that aren't QEMU's own calls.
func outside(all []status.Violation) (others []status.Violation) {
	for _, v := range all {
		if v.Kind != "syscall" {
			others = append(others, v)
		}
	}
	return others
}

// complete makes a report of the guest's one of this host's.
func (s *sandbox) complete(r *status.Report, argv []string) *status.Report {
	spec := *s.asked()
	spec.Argv = argv
	r.Backend, r.PolicyDigest, r.Network, r.Changes = Name, "", nil, nil
	return backend.Complete(r, &spec)
}

// diagnose says why a machine is gone: the outer sandbox knows it if it was one of its limits.
func (s *sandbox) diagnose(fault error) (status.Status, status.Cause, string) {
	if errors.Is(fault, errLate) {
		return status.Timeout, status.CauseWall, fault.Error()
	}
	if errors.Is(fault, errGone) {
		<-s.over
		switch r := s.killed; r.Status {
		case status.CPULimit, status.MemLimit, status.Timeout:
			return r.Status, r.Cause, "the machine as a whole: " + r.Reason
		case status.OK:
			return status.InternalError, status.CauseSetup, "the kernel of the guest ended" + s.lastWords()
		default:
			return status.InternalError, status.CauseSetup, "QEMU ended: " + r.Reason + s.lastWords()
		}
	}
	if fault == nil {
		fault = errGone
	}
	return status.InternalError, status.CauseSetup, fault.Error() + s.lastWords()
}

// broke is the report of a process whose machine is gone.
func (s *sandbox) broke(fault error, killed status.Cause, e *backend.Exec) *status.Report {
	argv := s.asked().Argv
	if e != nil {
		argv = e.Argv
	}
	r := &status.Report{}
	select {
	case <-s.closed:
		killed = status.CauseContext
	default:
	}
	if killed != "" {
		r.Status, r.Cause, r.Reason, r.Signal = status.KilledKill, killed, "killed with its machine", "SIGKILL"
		r.RC = r.Status.RC(status.Normalized, 0, int(unix.SIGKILL))
	} else {
		r.Status, r.Cause, r.Reason = s.diagnose(fault)
		r.RC = r.Status.RC(status.Normalized, 0, 0)
		if r.Status == status.InternalError {
			r.SetupError = &status.SetupError{Step: "machine", Op: "run", Error: r.Reason}
		}
	}
	r.Enforced = s.Ledger()
	if r.Enforced == nil {
		r.Enforced = s.merged(nil)
	}
	return s.complete(r, argv)
}

// tail keeps the end of what the guest's console, and QEMU, say.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-maxTail):]...)
	if n := len(t.text) - maxTail; n > 0 {
		t.text = append([]byte(nil), t.text[n:]...)
	}
	return len(p), nil
}

// lastWords is the last line that was said, of a panic the line that says why.
func (s *sandbox) lastWords() string {
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	lines := bytes.FieldsFunc(s.console.text, func(r rune) bool { return r == '\n' || r == '\r' })
	var last []byte
	for _, line := range lines {
		if last = line; bytes.Contains(line, []byte("Kernel panic")) {
			break
		}
	}
	if len(last) == 0 {
		return ""
	}
	return "; the last that its console said: " + strconv.QuoteToASCII(string(last[:min(len(last), 200)]))
}
