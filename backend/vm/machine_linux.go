package vm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm/internal/guest"
	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/backend/vm/internal/wire"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// bootTime is how long a guest may take to greet. Emulated and on a busy host it takes longer than anybody likes.
const bootTime = 90 * time.Second

// machine is one QEMU with its keeper.
type machine struct {
	keeper  backend.Process
	orders  *orders
	conn    *conn
	console *tail
	release string        // of the guest's kernel
	over    chan struct{} // closed when it has ended, with killed set
	killed  *status.Report

	processes uint32 // how many were started; guarded by conn.mu
}

// orders is what is said to the keeper.
type orders struct {
	mu      sync.Mutex // one after the other
	to      *keeper.Mux
	answers chan keeper.Answer // closed when there will be none
}

// errKeeper is a keeper that doesn't do what it is for.
var errKeeper = errors.New("the keeper of the machine doesn't answer")

// hear waits for an answer.
func (o *orders) hear(ctx context.Context, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case a, ok := <-o.answers:
		switch {
		case !ok:
			return errGone
		case a.Err != "":
			return errors.New(strings.Trim(strconv.QuoteToGraphic(a.Err), `"`))
		}
		return nil
	case <-late.C:
		return errKeeper
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give gives an order, and waits until it is carried out.
func (o *orders) give(order *keeper.Order) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	if err := o.to.Send(keeper.Orders, text); err != nil {
		return errGone
	}
	return o.hear(context.Background(), patience)
}

// start starts a keeper, and QEMU with it, in the outer sandbox.
func (p plan) start(ctx context.Context, outer backend.Sandbox, from origin) (*machine, error) {
	fromHost, toKeeper, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	said, fromKeeper, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, fromHost.Close(), toKeeper.Close())
	}
	ends := []*os.File{fromHost, toKeeper, said, fromKeeper} // of which the outer sandbox reads and writes two itself
	mux := keeper.NewMux(toKeeper)
	m := &machine{orders: &orders{to: mux, answers: make(chan keeper.Answer, 1)}, console: &tail{}, over: make(chan struct{})}
	how, err := json.Marshal(keeper.Machine{
		Restore: from.restore, Given: from.give != nil, Memory: ramOf(p.spec.Policy), Kernel: filepath.Join(inBox, "kernel"), Init: filepath.Join(inBox, "init"), Modules: p.kernel.inBox(), Epoch: binary.NativeEndian.Uint64(random(8)),
		Ticks: !p.accel.Works && goesByTicks(),
	})
	if err == nil {
		m.keeper, err = outer.Start(context.WithoutCancel(ctx), &backend.Exec{
			Argv: append([]string{filepath.Join(inBox, keeper.Program), string(how)}, p.arguments()...), Env: p.emulator.env, Dir: "/",
			Stdin: fromHost, Stdout: fromKeeper, Stderr: m.console,
		})
	}
	if err != nil {
		for _, f := range ends {
			_ = f.Close()
		}
		return nil, err
	}
	port, guestSays := io.Pipe()
	m.conn = newConn(port, mux.To(keeper.Guest), func() { _ = m.keeper.Signal(os.Kill) })
	go func() {
		err := m.split(said, guestSays)
		_ = guestSays.CloseWithError(err)
		close(m.orders.answers)
	}()
	go func() {
		m.killed = m.keeper.Wait()
		close(m.over)
		m.conn.fail(errGone)
		_ = port.Close()
		for _, f := range ends {
			_ = f.Close()
		}
	}()
	return m, nil
}

// split tells apart what comes from the keeper.
func (m *machine) split(from io.Reader, guest io.Writer) error {
	err := keeper.Split(from, func(data []byte) error {
		_, err := guest.Write(data)
		return err
	}, func(data []byte) error {
		var a keeper.Answer
		if err := json.Unmarshal(data, &a); err != nil {
			return wire.Broken("an answer of the keeper's that is none")
		}
		select {
		case m.orders.answers <- a:
			return nil
		default:
			return wire.Broken("an answer of the keeper's that nobody asked for")
		}
	})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// end ends it.
func (m *machine) end() {
	m.conn.fail(backend.ErrClosed)
	_ = m.keeper.Signal(os.Kill)
	<-m.over
}

// inBox is where its modules are shown to the keeper.
func (k *kernel) inBox() string {
	if k.modules == "" {
		return ""
	}
	return filepath.Join(inBox, "modules")
}

// arguments are QEMU's command line. Whatever isn't named isn't there.
func (p plan) arguments() []string {
	policy := p.spec.Policy
	word := guest.Word
	if policy.Filesystem.Rootfs != "" {
		word += " " + guest.WithRootfs
	}
	args := append(slices.Clone(p.emulator.argv),
		"-M", machineType, "-m", strconv.FormatInt(ramOf(policy)>>20, 10)+"M", "-smp", strconv.Itoa(max(1, policy.CPUs)),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-append", "console=ttyS0 quiet panic=-1 reboot=t "+p.accel.kernelWords()+"random.trust_cpu=on -- "+word,
		"-chardev", "file,id=console,path=/proc/self/fd/2,append=on", "-serial", "chardev:console",
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=host,name="+guest.Port, "-device", "virtserialport,chardev=files,name="+guest.Files,
	)
	args = append(args, p.accel.arguments()...)
	if hasNetwork(policy) {
		card := "user,id=net,ipv6=off"
		for _, l := range leads(policy) {
			card += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", l.from, l.by)
		}
		args = append(args, "-netdev", card, "-device", "virtio-net-pci,netdev=net,romfile=")
	}
	return args
}

// machineType is what a machine is made of, without its sizes.
const machineType = "q35,usb=off,vmport=off,hpet=off"

// confirmation begins, once, to find out about QEMU and the walls around it, while a machine boots. It is closed when that is known.
func (s *sandbox) confirmation() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confirms == nil {
		s.confirms = make(chan struct{})
		go func() {
			defer close(s.confirms)
			s.confirm()
		}()
	}
	return s.confirms
}

// confirm has a process in the outer sandbox end, whose report says what of that wall was built: QEMU itself, which only says its version, or, where
// that is known, the keeper, which ends sooner.
func (s *sandbox) confirm() {
	var out bytes.Buffer
	e := &backend.Exec{Argv: append(slices.Clone(s.plan.emulator.argv), "--version"), Env: s.plan.emulator.env, Dir: "/", Stdout: &out, Limits: backend.Limits{Output: 4096}}
	version := s.plan.knownVersion()
	if version != "" {
		e.Argv = []string{filepath.Join(inBox, keeper.Program)}
	}
	p, err := s.outer.Start(context.Background(), e)
	if err != nil {
		return
	}
	r := p.Wait()
	line, _, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed, s.qemu = r.Enforced, cmp.Or(version, string(line))
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
func (m *machine) greet(ctx context.Context, s *sandbox) (*status.Report, error) {
	if err := m.begun(ctx); err != nil {
		return nil, err
	}
	late := time.NewTimer(bootTime)
	defer late.Stop()
	select {
	case g := <-m.conn.hello:
		m.release = g.Release
		if g.Failed != "" {
			return nil, errors.New("the guest failed to start: " + g.Failed)
		}
	case <-m.conn.dead:
		return nil, m.conn.why()
	case <-late.C:
		return nil, fmt.Errorf("the guest didn't boot within %v", bootTime)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-s.confirmation()
	uid, gid := identity(s.spec.Policy)
	dir := s.spec.Dir
	if st, err := s.outer.Files().Stat(dir); err != nil || !st.IsDir() {
		dir = "/" // the policy doesn't show it
	}
	open := &wire.Spec{
		Policy: innerOf(s.spec.Policy, uid, gid, config.LookupEnv(s.spec.Environ, "HOME")), Argv: s.spec.Argv, Environ: s.spec.Environ, Dir: dir,
		ConfigFiles: s.spec.ConfigFiles, Network: s.card, Local: localPorts(s.spec.Policy), Calls: s.plan.calls,
	}
	for _, l := range leads(s.spec.Policy) {
		open.Leads = append(open.Leads, wire.Lead{Port: l.by, To: l.from})
	}
	if at, ok := s.plan.Plan.(interface{ Begins() (dir, path string) }); ok && open.Policy.Filesystem.Rootfs != "" {
		open.Start, open.Path = at.Begins()
	}
	a, err := m.conn.call(ctx, &wire.Request{Method: wire.Open, Open: open})
	switch {
	case errors.Is(err, backend.ErrClosed):
		return nil, m.conn.why()
	case err != nil:
		return nil, err
	case a.Failed != nil:
		if plausible(a.Failed) != nil || a.Failed.Status != status.InternalError {
			return nil, wire.Broken("a failure that is none")
		}
		a.Failed.Enforced = s.merged(m, a.Failed.Enforced)
		return s.complete(a.Failed, s.spec.Argv), nil
	}
	s.setLedger(m, a.Ledger)
	return nil, nil
}

// begun waits for the first word of the keeper: the CPUs go.
func (m *machine) begun(ctx context.Context) error {
	m.orders.mu.Lock()
	defer m.orders.mu.Unlock()
	return m.cause(m.orders.hear(ctx, bootTime))
}

// cause is what ended it, where all that is known is that it has.
func (m *machine) cause(err error) error {
	if why := m.conn.why(); errors.Is(err, errGone) && why != nil {
		return why
	}
	return err
}

// setLedger makes one of what the guest says of its own.
func (s *sandbox) setLedger(m *machine, guest status.Ledger) {
	l := s.merged(m, guest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger, s.inner = l, guest
}

// guestOf is what the guest said of its own.
func guestOf(s *sandbox) status.Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner
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
func (m *machine) lastWords() string {
	m.console.mu.Lock()
	defer m.console.mu.Unlock()
	lines := bytes.FieldsFunc(m.console.text, func(r rune) bool { return r == '\n' || r == '\r' })
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
