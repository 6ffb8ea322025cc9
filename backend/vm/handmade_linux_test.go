package vm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// A snapshot that somebody made without a machine leads to no machine, and to an answer soon.
func TestAMachineMadeByHandIsRefused(t *testing.T) {
	dir := t.TempDir()
	spec := specHere(t, dir)
	p, err := Backend{}.Plan(t.Context(), spec)
	must.Do(t, err)
	vp := p.(plan)
	// A sandbox with the places of a machine's, and QEMU's version of here.
	outer := conformance.Open(t, process.Backend{}, vp.outerSpec(vp.mounts(vp.own, ramOf(spec.Policy))))
	here := &sandbox{plan: vp, outer: outer}
	here.confirm()
	if !strings.Contains(here.qemu, "QEMU") {
		t.Fatalf("its version is %q", here.qemu)
	}
	good, err := vp.describe(here.qemu)
	must.Do(t, err)
	good.Nonce = random(nonceSize)
	other := *good
	other.QEMU = "QEMU emulator version 1"
	text := func(v any) string {
		b, err := json.Marshal(v)
		must.Do(t, err)
		return string(b)
	}
	// All that there is to be, of which each case changes one thing.
	whole := fmt.Sprintf("cd %s; m=%s; rm -rf * $m*; truncate -s %d $m; echo '{}' >fids; head -c 65536 /dev/zero >devices\n", keeper.Place, keeper.Memory, ramOf(spec.Policy))
	for _, c := range []struct{ name, about, script, usage, says string }{
		{"no machine", "", "rm *", "there is no machine", ""},
		{"a description that is none", "[", "", "is none", ""},
		{"a long description", `{"Format": "` + strings.Repeat("1", maxAbout) + `"}`, "", "is none", ""},
		{"another version of QEMU", text(&other), "", "another version of QEMU", ""},
		{"devices that are none", text(good), "", "", "migration"},
		{"devices that are elsewhere", text(good), "ln -sf /etc/passwd devices", "", "devices"},
		{"devices that are a directory", text(good), "rm devices; mkdir devices", "", "devices"},
		{"a short memory", text(good), "truncate -s 4096 $m", "", "memory isn't"},
		{"a huge memory", text(good), "truncate -s 8G $m", "", "memory isn't"},
		{"memory that is elsewhere", text(good), "ln -sf ../../../etc/passwd $m", "", "memory"},
		{"a table that is none", text(good), "echo '[]' >fids", "", "fids"},
		{"a table that is elsewhere", text(good), "ln -sf devices fids", "", "fids"},
		{"a name that leads up", text(good), `echo '{"1":{"Path":"/../etc/shadow","Open":true}}' >fids`, "", "9P"},
		{"a device to be opened", text(good), `echo '{"1":{"Path":"/dev/null","Open":true}}' >fids`, "", "/dev/null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			p, err := outer.Start(t.Context(), &backend.Exec{Argv: []string{"sh", "-ec", whole + "cat >machine\n" + c.script}, Stdin: strings.NewReader(c.about), Stdout: &out, Stderr: &out})
			must.Do(t, err)
			if r := p.Wait(); r.Status != status.OK {
				t.Fatalf("%s: %s", r.Reason, out.String())
			}
			snap, err := outer.Snapshot(t.Context())
			must.Do(t, err)
			defer snap.Close()
			from := *spec
			from.From = snap
			began := time.Now()
			box, failed, err := backend.Open(t.Context(), Backend{}, &from)
			switch {
			case box != nil:
				_, _ = box.Close()
				t.Fatal("it runs")
			case c.usage != "" && (!errors.As(err, new(*config.UsageError)) || !strings.Contains(err.Error(), c.usage)):
				t.Errorf("%+v, %v", failed, err)
			case c.says != "" && (failed == nil || !saysOf(failed.Reason, c.says)):
				t.Errorf("%+v, %v", failed, err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// qemuOf finds a QEMU below this process.
func qemuOf(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	must.Do(t, err)
	parents, qemus := map[int]int{}, []int{}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		after := bytes.LastIndexByte(text, ')')
		fields := strings.Fields(string(text[after+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		if bytes.Contains(text[:after], []byte("qemu-system")) {
			qemus = append(qemus, pid)
		}
	}
	for _, pid := range qemus {
		for at := pid; at > 1; at = parents[at] {
			if at == os.Getpid() {
				return pid
			}
		}
	}
	t.Fatal("no QEMU below this process")
	return 0
}

// A QEMU that is killed ends the sandbox, which says so; whoever waits is told.
func TestAMachineWhoseQEMUIsKilledHasEnded(t *testing.T) {
	box := opened(t, specHere(t, t.TempDir()))
	p, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sleep", "100"}})
	must.Do(t, err)
	must.Do(t, unix.Kill(qemuOf(t), unix.SIGKILL))
	<-box.Done()
	if r := p.Wait(); !strings.Contains(r.Reason, "QEMU ended") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	if _, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"true"}}); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := box.Snapshot(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a snapshot afterwards: %v", err)
	}
}

// What a guest writes to its console is bounded, however much that is.
func TestAFloodOnTheConsoleKeepsItsEndAlone(t *testing.T) {
	m := &machine{console: &tail{}}
	for range 1000 {
		_, _ = m.console.Write(bytes.Repeat([]byte("flood\n"), 1<<12))
	}
	_, _ = m.console.Write([]byte("\x1b[2Jthe end"))
	if n := cap(m.console.text); n > 4*maxTail {
		t.Errorf("%d bytes are kept", n)
	}
	if said := m.lastWords(); !strings.Contains(said, `\x1b[2Jthe end`) {
		t.Errorf("%q", said)
	}
}

func BenchmarkBoot(b *testing.B) {
	for b.Loop() {
		first(b, nil)
	}
}

// BenchmarkRestore begins with a machine that was written down before, up to the end of its first command.
func BenchmarkRestore(b *testing.B) {
	box := first(b, nil)
	snap, err := box.Snapshot(b.Context())
	must.Do(b, err)
	first(b, snap)
	for b.Loop() {
		first(b, snap)
	}
}

func BenchmarkFork(b *testing.B) {
	box := first(b, nil)
	for b.Loop() {
		f, err := box.Fork(b.Context())
		must.Do(b, err)
		b.StopTimer()
		_, _ = f.Close()
		b.StartTimer()
	}
}

var benchSpec *backend.Spec

// first is a machine that has run a command.
func first(b *testing.B, from backend.Snapshot) backend.Sandbox {
	b.Helper()
	if benchSpec == nil {
		p := config.Default()
		p.Isolation, p.VMKernel, p.MemoryLimit = "vm", os.Getenv("VMKERNEL"), 512<<20
		dir, err := os.MkdirTemp("", "vm-bench-")
		must.Do(b, err)
		benchSpec = &backend.Spec{Policy: &p, Dir: "/", Environ: []string{"PATH=/usr/bin:/bin"}, Snapshots: dir}
	}
	spec := *benchSpec
	spec.From = from
	box := conformance.Open(b, Backend{device: "/none"}, &spec)
	p, err := box.Start(b.Context(), &backend.Exec{Argv: []string{"true"}})
	must.Do(b, err)
	p.Wait()
	b.StopTimer()
	b.Cleanup(func() { _, _ = box.Close() })
	if from != nil {
		_, _ = box.Close()
	}
	b.StartTimer()
	return box
}
