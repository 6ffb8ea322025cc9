package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/backend/vm/internal/ninep"
)

// maxTable is how long the table of what a guest holds is at most.
const maxTable = 256 << 20

// Main never returns. Its exit code is QEMU's.
func Main(args []string) {
	var m keeper.Machine
	if len(args) < 3 {
		fail(errors.New("confine starts it, for --isolation vm"))
	}
	d := json.NewDecoder(strings.NewReader(args[1]))
	d.DisallowUnknownFields() // they are of another version
	if err := d.Decode(&m); err != nil {
		fail(err)
	}
	k := &parent{files: ninep.New(m.Epoch, filepath.Dir(keeper.Place)), host: keeper.NewMux(os.Stdout), orders: make(chan keeper.Order), begun: make(chan struct{})}
	if err := k.start(&m, args[2:]); err != nil {
		fail(err)
	}
	go k.obey(&m)
	go func() { _, _ = io.Copy(k.host.To(keeper.Guest), struct{ io.Reader }{k.guest}) }()
	go func() {
		_ = keeper.Split(os.Stdin, func(data []byte) error {
			_, err := k.guest.Write(data)
			return err
		}, func(data []byte) error {
			var o keeper.Order
			if err := json.Unmarshal(data, &o); err != nil {
				return err
			}
			k.orders <- o
			return nil
		})
		_ = k.qemu.Process.Kill() // the host is gone
	}()
	err := k.qemu.Wait()
	<-k.begun
	if why := k.failed.Load(); why != nil { // the host was told, and may hear of this end before
		fail(fmt.Errorf("QEMU ended before the machine began: %w", *why))
	}
	if why := k.why.Load(); why != nil {
		fail(*why)
	}
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		os.Exit(0)
	}
	if ended.ExitCode() >= 0 {
		os.Exit(ended.ExitCode())
	}
	fail(errors.New("QEMU was ended: " + ended.String()))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "keeper:", err)
	os.Exit(1)
}

type parent struct {
	files  *ninep.Server
	host   *keeper.Mux
	orders chan keeper.Order
	memory chan error // says when it is there, of a machine that goes on
	qemu   *exec.Cmd
	qmp    *monitor
	guest  *os.File              // the guest's protocol
	port   *os.File              // its files
	why    atomic.Pointer[error] // QEMU is ended for
	begun  chan struct{}         // closed when the host has heard whether the CPUs go
	failed atomic.Pointer[error] // why they don't
}

// broken ends QEMU for what it said. One that says no more has ended, or does soon.
func (k *parent) broken(err error) {
	if !hungUp(err) {
		k.why.CompareAndSwap(nil, &err)
		_ = k.qemu.Process.Kill()
	}
}

func pair(name string) (own, other *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// start starts QEMU with descriptors 3, 4, 5 and 6: the guest's protocol, its files, the monitor, and the kernel; and 7, the initramfs, if it boots.
func (k *parent) start(m *keeper.Machine, argv []string) error {
	port, qemuPort, err := pair("files")
	if err != nil {
		return err
	}
	own, monitor, err := pair("monitor")
	if err != nil {
		return err
	}
	guest, qemuGuest, err := pair("guest")
	if err != nil {
		return err
	}
	k.port, k.guest = port, guest
	began := momentNow()
	kernel, err := kernelFor(m)
	if err != nil {
		return err
	}
	handed := []*os.File{qemuGuest, qemuPort, monitor, kernel}
	argv = append(argv, arguments(m)...)
	begin := func() {}
	if m.Restore {
		memory, err := openRegular(keeper.Memory, m.Memory)
		if err != nil {
			return err
		}
		if begin, err = k.take(memory, m); err != nil {
			return err
		}
	} else {
		f, err := newInitramfs(m.Init, m.Modules)
		if err != nil {
			return err
		}
		handed = append(handed, f)
		if m.Ticks {
			argv = told(argv, kilohertz(began, momentNow()))
		}
		argv = append(argv, "-initrd", "/proc/self/fd/7")
	}
	k.qemu = exec.Command(argv[0], argv[1:]...)
	k.qemu.Stderr, k.qemu.ExtraFiles = os.Stderr, handed
	k.qemu.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := k.qemu.Start(); err != nil {
		return err
	}
	begin()
	for _, f := range handed {
		_ = f.Close()
	}
	k.qmp, err = newMonitor(own, k.broken)
	return err
}

// take has the memory that was written down be one that QEMU can write to, which is a copy: the kernel would make it when QEMU opens the file,
// and begin has it made while QEMU starts, which has no need of it until it takes up the rest. It comes after QEMU is a process: where the two have one
// real-time priority, whichever thread copies would have the CPU that QEMU waits for.
func (k *parent) take(frozen *os.File, m *keeper.Machine) (begin func(), err error) {
	if m.Given {
		return func() {}, frozen.Close()
	}
	const fresh = keeper.Memory + ".new"
	to, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		err = errors.Join(to.Truncate(m.Memory), os.Rename(fresh, keeper.Memory))
	}
	if err != nil {
		return nil, errors.Join(err, frozen.Close())
	}
	k.memory = make(chan error, 1)
	return func() {
		go func() { k.memory <- errors.Join(keeper.Copy(to, frozen, m.Memory), to.Close(), frozen.Close()) }()
	}, nil
}

// arguments are those of QEMU for what start hands it.
func arguments(m *keeper.Machine) []string {
	args := []string{
		"-kernel", "/proc/self/fd/6",
		"-object", "memory-backend-file,id=memory,share=on,mem-path=" + keeper.Memory + ",size=" + strconv.FormatInt(m.Memory, 10), "-machine", "memory-backend=memory",
		"-chardev", "socket,id=host,fd=3", "-chardev", "socket,id=files,fd=4", "-chardev", "socket,id=monitor,fd=5", "-mon", "chardev=monitor,mode=control", "-S",
	}
	if m.Restore {
		args = append(args, "-incoming", "defer")
	}
	return args
}

// obey does what the host says, until the host is gone.
func (k *parent) obey(m *keeper.Machine) {
	err := k.qmp.prepare()
	if m.Given {
		if o := <-k.orders; !o.Load {
			err = errors.Join(err, errOrder)
		}
	} else if m.Restore {
		err = errors.Join(err, <-k.memory)
	}
	if err == nil && m.Restore {
		err = k.load()
	}
	go func() { _ = k.files.Serve(k.port) }()
	begins := sync.OnceFunc(func() {
		k.answer(err)
		if err != nil {
			why := err
			k.failed.Store(&why)
		}
		close(k.begun)
	})
	if err == nil {
		if err = k.qmp.run(begins); err != nil {
			k.broken(err)
		}
	}
	begins()
	for o := range k.orders {
		switch {
		case o.Save != nil:
			k.answer(k.save(o.Save))
		case o.Go:
			k.answer(errors.Join(ignoreMissing(os.Remove(keeper.State)), k.qmp.run(func() {})))
		default:
			k.answer(errOrder)
		}
	}
}

var errOrder = errors.New("an order that is none")

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (k *parent) answer(err error) {
	a := keeper.Answer{}
	if err != nil {
		a.Err = err.Error()
		a.Err = a.Err[:min(len(a.Err), 4096)]
	}
	text, _ := json.Marshal(a)
	_ = k.host.Send(keeper.Orders, text)
}

// save writes the machine down. The guest has said before that it asks for no files.
func (k *parent) save(about []byte) error {
	if err := k.qmp.stand(); err != nil {
		return err
	}
	all, err := k.files.Save()
	if err != nil {
		return err
	}
	table, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(keeper.Fids, table, 0o600), os.WriteFile(keeper.About, about, 0o600)); err != nil {
		return err
	}
	state, err := os.OpenFile(keeper.State, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer state.Close()
	return k.qmp.move("migrate", state)
}

// load has QEMU take up what is in the place.
func (k *parent) load() error {
	f, err := openRegular(keeper.Fids, -1)
	if err != nil {
		return err
	}
	defer f.Close()
	var all map[uint32]ninep.Fid
	if err := json.NewDecoder(io.LimitReader(f, maxTable)).Decode(&all); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(keeper.Fids), err)
	}
	if err := k.files.Load(all); err != nil {
		return err
	}
	state, err := openRegular(keeper.State, -1)
	if err != nil {
		return err
	}
	defer state.Close()
	return k.qmp.move("migrate-incoming", state)
}

// openRegular opens a file that was written down, and nothing that somebody made by hand to lead elsewhere, or of another size. A size of -1 is any.
func openRegular(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && (!st.Mode().IsRegular() || size >= 0 && st.Size() != size) {
		err = fmt.Errorf("%s isn't what a machine was written down in", filepath.Base(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// patience is how long QEMU may take for its part.
const patience = 30 * time.Second
