package vm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// fakeQEMU is how the names of programs begin that take QEMU's place: this one.
const fakeQEMU = "fake-qemu-"

// fake is a program in the place of QEMU: descriptor 3 is the guest's protocol, 5 the monitor.
func fake(how string) {
	if len(os.Args) == 2 {
		fmt.Println("QEMU emulator version 0")
		return
	}
	guest, monitor := os.NewFile(3, "guest"), os.NewFile(5, "monitor")
	say := func(to *os.File, text string) { _, _ = to.WriteString(text) }
	switch how {
	case "exits":
		fmt.Println("nonsense")
		return
	case "nonsense":
		say(monitor, "nonsense\n")
	case "long":
		say(monitor, `{"QMP": "`+strings.Repeat("x", 4<<20))
	default:
		say(monitor, `{"QMP": {}}`+"\n")
	}
	d := json.NewDecoder(monitor)
	for {
		var c struct{ Execute string }
		if err := d.Decode(&c); err != nil {
			return
		}
		say(monitor, `{"event": "RESUME"}`+"\n"+`{"return": {}}`+"\n")
		if c.Execute != "cont" {
			continue
		}
		switch how {
		case "stops":
			say(monitor, `{"event": "STOP"}`+"\n")
		case "answers":
			say(monitor, `{"return": {}}`+"\n")
		case "guest":
			say(guest, strings.Repeat("\xff", 1<<10))
		case "floods":
			go func() {
				for {
					if _, err := guest.Write(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0, 2, '{', '}'}, 1<<10)); err != nil {
						return
					}
				}
			}()
		}
	}
}

// saysOf says whether a report's reason has these words. Programs built for coverage have the last word on a console, without a directory for it.
func saysOf(reason, words string) bool {
	return strings.Contains(reason, words) || testing.CoverMode() != "" && strings.Contains(reason, "GOCOVERDIR")
}

// What takes QEMU's place, and isn't QEMU, is no machine: it ends soon, and the report says by what. That real machines begin, other tests show.
func TestAProgramInThePlaceOfQEMUIsNoMachine(t *testing.T) {
	own, err := os.Executable()
	must.Do(t, err)
	was := qemuPaths
	defer func() { qemuPaths = was }()
	for how, says := range map[string]string{
		"exits": "doesn't greet", "nonsense": "may not", "long": "may not", "stops": "stopped the CPUs", "answers": "may not",
		"guest": "broke the protocol", "floods": "broke the protocol",
	} {
		t.Run(how, func(t *testing.T) {
			qemuPaths = was
			spec, dir := specHere(t, t.TempDir()), t.TempDir()
			program := filepath.Join(dir, fakeQEMU+how)
			text, err := os.ReadFile(own)
			must.Do(t, errors.Join(err, os.WriteFile(program, text, 0o755)))
			qemuPaths = []string{program}
			spec.Policy.Filesystem.AllowRead = []string{dir}
			began := time.Now()
			box, failed, err := backend.Open(t.Context(), Backend{device: "/nowhere"}, spec)
			if box != nil {
				_, _ = box.Close()
				t.Fatal("it is a machine")
			}
			if failed == nil || failed.Status != status.InternalError || !saysOf(failed.Reason, says) || len(failed.Reason) > 1000 {
				t.Errorf("%+v, %v", failed, err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// disobey does, as the first process of a guest and with all that its kernel gives, what a file of the tree says that is called disobey.
func disobey() {
	const own = "/tmp/vm-*/TestAGuestThatIsNotOurs*/*"
	for {
		if _, err := os.Stat("/dev/shm/own"); err == nil { // its root is there
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if tree, _ := filepath.Glob(own); len(tree) == 0 { // another test's
		return
	}
	for ; ; time.Sleep(100 * time.Millisecond) {
		found, _ := filepath.Glob(own + "/disobey")
		if len(found) == 0 {
			continue
		}
		word, err := os.ReadFile(found[0])
		_ = os.Remove(found[0])
		dir := filepath.Dir(found[0])
		years := func(n int) error {
			ts := unix.NsecToTimespec(time.Now().AddDate(n, 0, 0).UnixNano())
			return unix.ClockSettime(unix.CLOCK_REALTIME, &ts)
		}
		switch strings.TrimSpace(string(word)) {
		case "forward":
			err = years(10)
		case "back":
			err = years(-20)
		case "console":
			f, openErr := os.OpenFile("/dev/console", os.O_WRONLY, 0)
			if err = openErr; err == nil {
				_, err = f.Write(bytes.Repeat([]byte("\x1b[2Jflood\n"), 8<<10))
			}
		case "disk":
			f, openErr := os.Create(filepath.Join(dir, "huge"))
			for err = openErr; err == nil; {
				_, err = f.Write(make([]byte, 1<<20))
			}
		case "memory":
			for all := [][]byte{}; ; {
				all = append(all, bytes.Repeat([]byte{1}, 16<<20))
			}
		}
		_ = os.WriteFile(filepath.Join(dir, "done"), fmt.Append(nil, err), 0o644)
	}
}

// A guest whose kernel does what the policy doesn't let it: limits are held by the host's clock and the walls around QEMU. One boot; the
// machines that end are of a snapshot of it.
func TestAGuestThatIsNotOursIsBounded(t *testing.T) {
	dir := t.TempDir()
	spec := specHere(t, dir)
	spec.Policy.DiskLimit, spec.Policy.CPUTime, spec.Policy.TimeLimit = 32<<20, 10*time.Minute, 10*time.Minute // emulated, all of this takes a while
	box := opened(t, spec)
	tell := func(box backend.Sandbox, word string) {
		t.Helper()
		if said := does(t, box, "rm -f done; echo "+word+" >word; mv word disobey; until [ -s done ]; do sleep 0.1; done; cat done"); said != "<nil>" {
			t.Fatalf("%s: %s", word, said)
		}
	}
	limited := func(box backend.Sandbox, meanwhile func()) (*status.Report, time.Duration) {
		t.Helper()
		began := time.Now()
		p, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sleep", "1000"}, Limits: backend.Limits{Time: 3 * time.Second}})
		must.Do(t, err)
		meanwhile()
		return p.Wait(), time.Since(began)
	}
	snap, err := box.Snapshot(t.Context())
	must.Do(t, err)
	for _, c := range []struct {
		word string
		year int
	}{{"forward", 10}, {"back", -10}} { // the one after the other
		word := c.word
		tell(box, word)
		if now := does(t, box, "date +%Y"); now != fmt.Sprint(time.Now().Year()+c.year) {
			t.Fatalf("after %s it is %s", word, now)
		}
		if r, took := limited(box, func() {}); r.Status != status.Timeout || took < 3*time.Second || took > 3*time.Second+spec.Policy.Grace+breath+slack {
			t.Errorf("after %s: %s, in %v", word, r.Status, took)
		}
	}
	tell(box, "console")
	run := func(script string) *status.Report {
		t.Helper()
		p, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard})
		must.Do(t, err)
		return p.Wait()
	}
	if r := run("head -c 100000000 /dev/zero >/tmp/full"); r.Status == status.OK {
		t.Errorf("a private place: %s", r.Status)
	}
	does(t, box, "rm /tmp/full; echo it goes on")
	switch r := run("tail /dev/zero"); r.Status {
	case status.MemLimit:
		select {
		case <-box.Done(): // the kernel has killed all of it
		case <-time.After(time.Minute):
			t.Error("the sandbox goes on, and nobody is in it any more")
		}
		if r, _ := box.Close(); !slices.Contains(r.LimitsHit, string(status.Memory)) {
			t.Errorf("memory: the sandbox ended with %v, %s", r.LimitsHit, r.Reason)
		}
	case status.KilledKill: // a guest without memory of its own, before the limit was reached: its kernel has killed one process
		does(t, box, "echo it goes on")
		_, _ = box.Close()
	default:
		t.Errorf("memory: %s, %s", r.Status, r.Reason)
	}
	for _, c := range []struct {
		word  string
		limit time.Duration
		says  []string
	}{{"disk", 0, []string{"disk"}}, {"memory", 10 * time.Second, []string{"anic", errLate.Error(), "memory"}}} { // a kernel without memory panics, comes to nothing any more, or kills others first
		from := *spec
		from.From = snap
		other := opened(t, &from)
		p, err := other.Start(t.Context(), &backend.Exec{Argv: []string{"sh", "-c", "echo " + c.word + " >word; mv word disobey; sleep 1000"}, Limits: backend.Limits{Time: c.limit}})
		must.Do(t, err)
		r := p.Wait()
		said := slices.ContainsFunc(c.says, func(says string) bool { return strings.Contains(r.Reason, says) })
		if r.Status == status.OK || !said && r.Status != status.KilledKill || len(r.Reason) > 1000 {
			t.Errorf("%s: %s, %s", c.word, r.Status, r.Reason)
		}
		for began := time.Now(); err == nil && time.Since(began) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
			_, err = other.Usage() // a guest in which nobody is left that anybody waits for, and that does nothing, has to be asked
		}
		if err == nil {
			t.Errorf("%s: it goes on", c.word)
		}
		_, _ = other.Close()
		if st, err := os.Stat(filepath.Join(dir, "huge")); c.word == "disk" && (err != nil || st.Size() < spec.Policy.DiskLimit || st.Size() > 16*spec.Policy.DiskLimit) {
			t.Errorf("what it wrote: %v, %v", st, err)
		}
		_ = os.Remove(filepath.Join(dir, "huge")) // it counts as grown since the snapshot
	}
	// A QEMU that is stopped: the host's clock ends the run, and nothing is left of it.
	from := *spec
	from.From = snap
	other := opened(t, &from)
	pid := 0
	r, took := limited(other, func() {
		pid = qemuOf(t)
		must.Do(t, unix.Kill(pid, unix.SIGSTOP))
	})
	if r.Status != status.Timeout || took < 3*time.Second {
		t.Errorf("stopped: %s (%s), in %v", r.Status, r.Reason, took)
	}
	<-other.Done()
	conformance.Close(t, other)
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("QEMU is left: %v", err)
	}
}
