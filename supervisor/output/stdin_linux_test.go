package output

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestStdinKinds(t *testing.T) {
	dir := t.TempDir()
	open := func(name string, flags int) int {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	must.Do(t, unix.Mkfifo(dir+"/fifo", 0o600))
	r, w := osPipe(t)
	both, err := reopen(int(r.Fd()), unix.O_RDWR)
	must.Do(t, err)
	m, s, err := pty.Open()
	must.Do(t, err)
	keep(t, m, s)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	for _, c := range []struct {
		name string
		fd   int
		want Kind
	}{
		{"closed", 1 << 20, Null},
		{"/dev/null", open("/dev/null", unix.O_RDONLY), Null},
		{"/dev/null, also for writing", open("/dev/null", unix.O_RDWR), Null},
		{"directory", open(dir, unix.O_RDONLY), Null},
		{"file for writing only", open(dir+"/w", unix.O_WRONLY|unix.O_CREAT), Null},
		{"O_PATH", open(dir, unix.O_PATH), Null},
		{"writing end of a pipe", int(w.Fd()), Null},
		{"anonymous pipe", int(r.Fd()), Teed},
		{"anonymous pipe, also for writing", both, Teed},
		{"named FIFO", open(dir+"/fifo", unix.O_RDONLY|unix.O_NONBLOCK), Relayed},
		{"file", open(dir+"/w", unix.O_RDONLY), Relayed},
		{"other device", open("/dev/zero", unix.O_RDONLY), Relayed},
		{"terminal", int(s.Fd()), Relayed},
		{"socket", fds[0], Relayed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Stdin(c.fd); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// stdin starts a pump over fd and returns what the target gets.
func stdin(t *testing.T, fd int) (*Pump, *os.File) {
	t.Helper()
	p := pump(t)
	target, err := p.Stdin(fd)
	must.Do(t, err)
	p.Start()
	f := os.NewFile(uintptr(target), "stdin")
	keep(t, f)
	return p, f
}

func TestStdinFileGivesBackWhatWasNotRead(t *testing.T) {
	for _, size := range []int{0, 1, 5000, 64 << 10, 1 << 20} {
		for _, take := range []int{0, 1, 5000, 300_000, 1 << 20} {
			if take > size {
				continue
			}
			data := noise(size)
			f, err := os.Open(tempFile(t, data))
			must.Do(t, err)
			keep(t, f)
			p, target := stdin(t, int(f.Fd()))
			got := make([]byte, take)
			if _, err := io.ReadFull(target, got); err != nil || !bytes.Equal(got, data[:take]) {
				t.Fatalf("size %d, take %d: %v", size, take, err)
			}
			target.Close()
			ended(t, p)
			rest, err := io.ReadAll(f)
			if err != nil || !bytes.Equal(rest, data[take:]) {
				t.Errorf("size %d, take %d: %d bytes are left to the next reader, %v", size, take, len(rest), err)
			}
		}
	}
}

func TestStdinFileEnds(t *testing.T) {
	data := noise(300_000)
	f, err := os.OpenFile(tempFile(t, data), os.O_RDWR, 0)
	must.Do(t, err)
	keep(t, f)
	f.Seek(1000, io.SeekStart)
	p, target := stdin(t, int(f.Fd()))
	if b := within(t, collect(target), "target"); !bytes.Equal(b, data[1000:]) {
		t.Errorf("%d bytes", len(b))
	}
	ended(t, p)
	if at, _ := f.Seek(0, io.SeekCurrent); at != int64(len(data)) {
		t.Errorf("the file stands at %d", at)
	}
}

func TestStdinFileCantBeReachedByTheTarget(t *testing.T) {
	name := tempFile(t, []byte("secret"))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must.Do(t, err)
	keep(t, f)
	if own, err := reopen(int(f.Fd()), unix.O_RDWR); err != nil { // the control: what a bare program could do
		t.Fatal(err)
	} else {
		unix.Close(own)
	}
	p, target := stdin(t, int(f.Fd()))
	defer ended(t, p)
	var st unix.Stat_t
	if err := unix.Fstat(int(target.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		t.Errorf("mode %#o, %v", st.Mode, err)
	}
	if _, err := unix.Seek(int(target.Fd()), 0, unix.SEEK_SET); err != unix.ESPIPE {
		t.Errorf("lseek: %v", err)
	}
}

func TestStdinNullIsFresh(t *testing.T) {
	f, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	must.Do(t, err)
	keep(t, f)
	p, target := stdin(t, int(f.Fd()))
	ended(t, p)
	flags, _ := unix.FcntlInt(target.Fd(), unix.F_GETFL, 0)
	if n, err := target.Read(make([]byte, 1)); n != 0 || err != io.EOF || flags&unix.O_ACCMODE != unix.O_RDONLY {
		t.Errorf("read %d, %v, flags %#x", n, err, flags)
	}
}

func TestStdinThatNeverEndsKeepsNothing(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	m, s, err := pty.Open()
	must.Do(t, err)
	zero, err := os.Open("/dev/zero")
	must.Do(t, err)
	keep(t, m, s, zero)
	for name, fd := range map[string]int{"socket": fds[0], "terminal": int(s.Fd()), "endless device": int(zero.Fd())} {
		t.Run(name, func(t *testing.T) {
			p, target := stdin(t, fd)
			ended(t, p)
			if b := within(t, collect(target), "end of file"); name != "endless device" && len(b) != 0 {
				t.Errorf("%q", b)
			}
		})
	}
}

func TestStdinSocketIsRelayedToItsEnd(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	p, target := stdin(t, fds[0])
	data := noise(1 << 20)
	go func() {
		for b := data; len(b) > 0; {
			n, _ := unix.Write(fds[1], b)
			b = b[max(n, 0):]
		}
		unix.Close(fds[1])
	}()
	if b := within(t, collect(target), "target"); !bytes.Equal(b, data) {
		t.Errorf("%d bytes", len(b))
	}
	ended(t, p)
}

func TestStdinRelayStopsWhenNobodyReads(t *testing.T) {
	name := t.TempDir() + "/fifo"
	must.Do(t, unix.Mkfifo(name, 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must.Do(t, err)
	keep(t, f)
	p, target := stdin(t, int(f.Fd()))
	target.Close()
	within(t, p.idle, "the pump's end") // by itself: no End
	f.WriteString("for the next one")
	b := make([]byte, 16)
	if _, err := io.ReadFull(f, b); err != nil || string(b) != "for the next one" {
		t.Errorf("%q, %v", b, err)
	}
	if err := p.End(0); errors.Is(err, ErrUndelivered) {
		t.Error(err)
	}
}

func TestStdinFIFOWhoseWriterHasLeft(t *testing.T) {
	name := t.TempDir() + "/fifo"
	must.Do(t, unix.Mkfifo(name, 0o600))
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	r := os.NewFile(uintptr(fd), name)
	keep(t, r)
	must.Do(t, os.WriteFile(name, []byte("all"), 0))
	unix.SetNonblock(fd, false)
	p, target := stdin(t, fd)
	if b := within(t, collect(target), "end of file"); string(b) != "all" {
		t.Errorf("%q", b)
	}
	ended(t, p)
}
