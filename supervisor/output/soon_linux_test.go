package output

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// soonPump is a pump of one stream that would start in an hour, with the target's end of it and what arrives.
func soonPump(t *testing.T, c Config) (p *Pump, s *Stream, target *os.File) {
	t.Helper()
	p = pump(t)
	s, target = output(t, p, c)
	p.StartSoon(time.Hour)
	return p, s, target
}

func TestWhatAShortTargetWroteIsDeliveredWithoutAThread(t *testing.T) {
	r, w := osPipe(t)
	p, s, target := soonPump(t, Config{Dst: int(w.Fd())})
	if _, err := target.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	target.Close()
	if !p.EndNow() {
		t.Fatal("somebody has to be waited for")
	}
	w.Close()
	if got, _ := io.ReadAll(r); string(got) != "hello" || s.Bytes() != 5 {
		t.Errorf("%q, %d bytes", got, s.Bytes())
	}
	if p.End(-1) != nil || p.EndNow() {
		t.Error("it ended twice")
	}
}

func TestWhoeverStillWritesIsWaitedFor(t *testing.T) {
	r, w := osPipe(t)
	p, _, target := soonPump(t, Config{Dst: int(w.Fd())})
	_, _ = target.WriteString("some ")
	if p.EndNow() {
		t.Fatal("it ended although the target's end is open")
	}
	_, _ = target.WriteString("more")
	target.Close()
	ended(t, p)
	w.Close()
	if got, _ := io.ReadAll(r); string(got) != "some more" {
		t.Errorf("%q", got)
	}
}

func TestAReaderThatIsSlowIsWaitedFor(t *testing.T) {
	r, w := osPipe(t)
	if _, err := w.Write(make([]byte, 60<<10)); err != nil {
		t.Fatal(err)
	}
	p, _, target := soonPump(t, Config{Dst: int(w.Fd())})
	want := strings.Repeat("x", 60<<10)
	_, _ = target.WriteString(want)
	target.Close()
	if p.EndNow() {
		t.Fatal("the reader's pipe doesn't hold that much")
	}
	got := collect(r)
	ended(t, p)
	w.Close()
	if b := within(t, got, "reader"); !strings.HasSuffix(string(b), want) {
		t.Errorf("%d bytes", len(b))
	}
}

func TestAPumpThatIsToStartSoonDoes(t *testing.T) {
	r, w := osPipe(t)
	p := pump(t)
	_, target := output(t, p, Config{Dst: int(w.Fd())})
	p.StartSoon(time.Millisecond)
	_, _ = target.WriteString("x")
	if pollOne(int(r.Fd()), unix.POLLIN, patience)&unix.POLLIN == 0 {
		t.Error("nothing came while the target goes on")
	}
	target.Close()
	ended(t, p)
}

func TestADestinationIsOpenedWhenItIsNeeded(t *testing.T) {
	r, w := osPipe(t)
	opened := 0
	open := func() (int, error) { opened++; return int(w.Fd()), nil }
	p, _, target := soonPump(t, Config{Dst: -1, Open: open})
	target.Close()
	if !p.EndNow() || opened != 0 {
		t.Errorf("opened %d times for nothing", opened)
	}
	p, _, target = soonPump(t, Config{Dst: -1, Open: open})
	_, _ = target.WriteString("x")
	target.Close()
	if !p.EndNow() || opened != 1 {
		t.Errorf("opened %d times", opened)
	}
	w.Close()
	if got, _ := io.ReadAll(r); string(got) != "x" {
		t.Errorf("%q", got)
	}
	p, s, target := soonPump(t, Config{Dst: -1, Open: func() (int, error) { return -1, unix.EMFILE }})
	_, _ = target.WriteString("x")
	target.Close()
	if ended(t, p); !errors.Is(s.Err(), unix.EMFILE) || s.Bytes() != 1 {
		t.Errorf("%v after %d bytes", s.Err(), s.Bytes())
	}
}

// The thread of whoever calls EndNow has its mask of signals again, and a SIGPIPE of a write there ends nobody.
func TestAReaderThatHasLeftEndsNobody(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, nil, &before)
	r, w := osPipe(t)
	p, s, target := soonPump(t, Config{Dst: int(w.Fd())})
	r.Close()
	_, _ = target.WriteString("x")
	target.Close()
	if !p.EndNow() {
		ended(t, p)
	}
	if !Gone(s.Err()) {
		t.Error(s.Err())
	}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, nil, &after)
	if before != after {
		t.Error("the thread blocks other signals than before")
	}
}
