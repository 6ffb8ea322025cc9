package guest

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/vm/internal/wire"
)

// paused is a machine of which nothing is on its way, in either direction.
type paused struct {
	held  *wire.Held
	files func() // go on
	nonce []byte
}

// quiet is how long the files of the host may take to be so.
const quiet = 10 * time.Second

// save makes ready to be written down. The answer is the last that is said until resume.
func (g *agent) save(id uint32, nonce []byte) {
	g.mu.Lock()
	to, again := g.to, g.paused != nil
	g.mu.Unlock()
	err := errors.New("it is being written down")
	var files func()
	if !again {
		files, err = g.host.stop(quiet)
	}
	if err != nil {
		_ = to.SendMessage(wire.Reply, id, &wire.Answer{Err: wire.ErrorOf(err)})
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &paused{files: files, nonce: nonce}
	if p.held, err = to.Hold(wire.Reply, id, &wire.Answer{}); err != nil {
		files()
		return
	}
	g.paused = p
}

// resume goes on: as what it was, or as another that forgets who was connected.
func (g *agent) resume(id uint32, w *wire.Wake) {
	g.mu.Lock()
	p := g.paused
	g.paused = nil
	if p == nil {
		to := g.to
		g.mu.Unlock()
		go func() { _ = to.SendMessage(wire.Reply, id, &wire.Answer{Err: wire.ErrorOf(os.ErrInvalid)}) }()
		return
	}
	var err error
	if !w.Other {
		p.held.Release()
	} else {
		err = errors.Join(setClock(w.Now), seed(g.random, w.Seed))
		for _, r := range g.processes {
			for _, out := range r.out {
				out.Discard()
			}
		}
		clear(g.processes)
		for _, cancel := range g.calls {
			cancel()
		}
		clear(g.calls)
		for _, h := range g.handles {
			go h.Close()
		}
		clear(g.handles)
		p.held.Abandon()
		g.to = wire.NewWriter(g.port)
	}
	to := g.to
	g.mu.Unlock()
	p.files()
	go func() {
		if err != nil {
			_ = to.SendMessage(wire.Reply, id, &wire.Answer{Err: wire.ErrorOf(err)})
			return
		}
		_ = to.Send(wire.Resumed, id, p.nonce)
	}()
}

func setClock(now int64) error {
	ts := unix.NsecToTimespec(now)
	return os.NewSyscallError("clock_settime", unix.ClockSettime(unix.CLOCK_REALTIME, &ts))
}

// seed has the kernel's random numbers be others from now on.
func seed(random int, with []byte) error {
	if len(with) == 0 {
		return nil
	}
	info := binary.NativeEndian.AppendUint32(nil, uint32(8*len(with))) // struct rand_pool_info of linux/random.h
	info = binary.NativeEndian.AppendUint32(info, uint32(len(with)))
	info = append(info, with...)
	for _, do := range []struct {
		name string
		req  uintptr
		arg  unsafe.Pointer
	}{{"ioctl RNDADDENTROPY", unix.RNDADDENTROPY, unsafe.Pointer(&info[0])}, {"ioctl RNDRESEEDCRNG", rndReseedCRNG, nil}} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(random), do.req, uintptr(do.arg)); errno != 0 {
			return os.NewSyscallError(do.name, errno)
		}
	}
	return nil
}

// rndReseedCRNG is that of linux/random.h.
const rndReseedCRNG = 0x5207
