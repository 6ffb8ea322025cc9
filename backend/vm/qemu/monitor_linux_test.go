package qemu

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// emulator is a QEMU that says what a test likes.
func emulator(t *testing.T) (m *monitor, qemu *os.File, ended chan error) {
	t.Helper()
	own, other, err := pair("monitor")
	must.Do(t, err)
	t.Cleanup(func() { other.Close() })
	ended = make(chan error, 1)
	m, err = newMonitor(own, func(err error) { ended <- err })
	must.Do(t, err)
	return m, other, ended
}

func TestAMonitorTakesWhatItAskedFor(t *testing.T) {
	m, qemu, ended := emulator(t)
	go func() {
		fmt.Fprintln(qemu, `{"QMP": {}}`)
		b := make([]byte, 4096)
		for range 4 {
			_, _ = qemu.Read(b)
			// However much is said between.
			w := bufio.NewWriter(qemu)
			for range 5000 {
				fmt.Fprintln(w, `{"event": "RTC_CHANGE", "data": {"offset": 1}}`)
			}
			fmt.Fprintln(w, `{"return": {"status": "x"}}`)
			_ = w.Flush()
		}
		_, _ = qemu.Read(b)
		fmt.Fprintln(qemu, `{"event": "STOP"}`+"\n"+`{"return": {}}`)
	}()
	var got struct{ Status string }
	if err := errors.Join(m.prepare(), m.call("query-migrate", nil, &got)); err != nil || got.Status != "x" {
		t.Fatalf("%v, %+v", err, got)
	}
	if err := m.stand(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Error(err)
	default:
	}
}

func TestAQEMUThatSaysWhatItMayNotIsAtItsEnd(t *testing.T) {
	for name, c := range map[string]struct{ says, why string }{
		"no message":             {"hello\n", "may not"},
		"a message without end":  {strings.Repeat("x", 4*maxLine), "may not"},
		"nothing in a message":   {"{}\n", "may not"},
		"what nobody asked for":  {`{"QMP": {}}` + "\n" + `{"return": {}}` + "\n", "may not"},
		"that its CPUs stand":    {`{"QMP": {}}` + "\n" + `{"event": "STOP"}` + "\n", "by itself"},
		"an error of what isn't": {`{"QMP": {}}` + "\n" + `{"error": {"desc": "x"}}` + "\n", "may not"},
	} {
		t.Run(name, func(t *testing.T) {
			m, qemu, ended := emulator(t)
			m.expect(false)
			go func() { _, _ = qemu.WriteString(c.says) }()
			if err := <-ended; err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v", err)
			}
			for range 2 { // what is in the way is heard first
				if _, err := m.hear(); err != nil && !strings.Contains(err.Error(), c.why) {
					t.Errorf("who waits hears %v", err)
				}
			}
		})
	}
}

func TestWhatIsNoFileOfAMachineIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	file, link, fifo := dir+"/file", dir+"/link", dir+"/fifo"
	must.Do(t, errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Symlink(file, link), unix.Mkfifo(fifo, 0o600)))
	for _, c := range []struct {
		path string
		size int64
		ok   bool
	}{{file, -1, true}, {file, 4, true}, {file, 5, false}, {link, -1, false}, {fifo, -1, false}, {dir, -1, false}, {dir + "/none", -1, false}} {
		f, err := openRegular(c.path, c.size)
		if (err == nil) != c.ok {
			t.Errorf("%s of %d bytes: %v", c.path, c.size, err)
		}
		if f != nil {
			f.Close()
		}
	}
}
