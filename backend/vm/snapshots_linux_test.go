package vm

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// specHere is of a machine with the directory dir, to be written to.
func specHere(t *testing.T, dir string) *backend.Spec {
	t.Helper()
	p := config.Default()
	p.Isolation, p.VMKernel, p.Filesystem.Workdir = "vm", kernelHere(t), "rw"
	p.MemoryLimit = 320 << 20
	return &backend.Spec{Policy: &p, Dir: dir, Environ: []string{"PATH=/usr/bin:/bin"}, Snapshots: t.TempDir()}
}

func opened(t *testing.T, spec *backend.Spec) backend.Sandbox {
	t.Helper()
	return conformance.Open(t, Backend{}, spec)
}

// does runs a script to its end.
func does(t *testing.T, box backend.Sandbox, script string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	must.Do(t, err)
	if r := p.Wait(); r.Status != status.OK {
		t.Errorf("%q: %s, %s: %s", script, r.Status, r.Reason, out.String())
	}
	return strings.TrimSpace(out.String())
}

// What runs in a machine goes on where it was: in the machine itself, in one that was made of it, and again after that one was written down.
func TestMachinesGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "book"), []byte(strings.Repeat("line\n", 5)), 0o644))
	spec := specHere(t, dir)
	box := opened(t, spec)
	// An interpreter with a variable of its own, a file that is open in the tree of the host, and one of the machine.
	const interpreter = `mkfifo /tmp/in /tmp/out; exec 9<>/tmp/in 8<>/tmp/out
		(n=0; exec 5<book; while read -r word <&9; do case $word in
			add) n=$((n+1)); read -r l <&5; echo "$n $l" >&8;;
			id) cat /proc/sys/kernel/random/uuid >&8;;
		esac; done) >/dev/null 2>&1 &`
	does(t, box, interpreter)
	ask := func(box backend.Sandbox, word string) string {
		t.Helper()
		return does(t, box, "echo "+word+" >/tmp/in; read -r a </tmp/out; echo $a")
	}
	if got := ask(box, "add"); got != "1 line" {
		t.Fatalf("%q", got)
	}
	// Somebody is connected to a process meanwhile.
	in, feed := io.Pipe()
	var out bytes.Buffer
	cat, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"cat"}, Stdin: in, Stdout: &out})
	must.Do(t, err)
	began := time.Now()
	snap, err := box.Snapshot(t.Context())
	must.Do(t, err)
	t.Log("written down in ", time.Since(began))
	if got := ask(box, "add"); got != "2 line" {
		t.Errorf("the machine itself: %q", got)
	}
	began = time.Now()
	fork, err := box.Fork(t.Context())
	must.Do(t, err)
	t.Log("forked in ", time.Since(began))
	defer fork.Close()
	if a, b := ask(box, "id"), ask(fork, "id"); a == b {
		t.Errorf("both have the random number %s", a)
	}
	if a, b := ask(fork, "add"), ask(box, "add"); a != "3 line" || b != "3 line" {
		t.Errorf("the fork: %q, and where it comes from: %q", a, b)
	}
	if now := does(t, fork, "date +%s"); now < does(t, box, "date +%s") && now < time.Now().Add(-time.Minute).Format("150405") {
		t.Errorf("the clock of the fork: %s", now)
	}
	if l := fork.Ledger(); len(l) != len(box.Ledger()) || !l[status.Isolation].Applied || l[status.Tasks] != box.Ledger()[status.Tasks] {
		t.Errorf("the fork's ledger: %+v", l)
	}
	_, _ = io.WriteString(feed, "still there")
	feed.Close()
	if r := cat.Wait(); r.Status != status.OK || out.String() != "still there" {
		t.Errorf("%s, %q", r.Status, out.String())
	}
	began = time.Now()
	must.Do(t, box.Restore(t.Context(), snap))
	t.Log("restored in ", time.Since(began))
	if got := ask(box, "add"); got != "2 line" {
		t.Errorf("restored: %q", got)
	}
	// Once more, of a machine that has been restored; and by another sandbox.
	second, err := box.Snapshot(t.Context())
	must.Do(t, err)
	must.Do(t, box.Restore(t.Context(), second))
	if got := ask(box, "add"); got != "3 line" {
		t.Errorf("restored twice: %q", got)
	}
	conformance.Close(t, box)
	from := *spec
	from.From = snap
	began = time.Now()
	another := opened(t, &from)
	does(t, another, ":")
	t.Log("begun up to the first command in ", time.Since(began))
	if got := ask(another, "add"); got != "2 line" {
		t.Errorf("begun with it: %q", got)
	}
	// One that is to be parked has had a command run, where that is translated first.
	s, _ := backend.As[*sandbox](another)
	before := s.now().processes
	if err := s.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if ran := s.now().processes - before; ran != 1 && !s.plan.accel.Works {
		t.Errorf("%d commands ran ahead", ran)
	}
	// What doesn't fit is refused by its name.
	for name, other := range map[string]func(p *config.Policy){
		"policy":         func(p *config.Policy) { p.Processes++ },
		"size of memory": func(p *config.Policy) { p.MemoryLimit += 1 << 20 },
	} {
		p := *spec.Policy
		other(&p)
		from.Policy = &p
		_, _, err := backend.Open(t.Context(), Backend{}, &from)
		if !errors.As(err, new(*config.UsageError)) || !strings.Contains(err.Error(), "another "+name) {
			t.Errorf("with another %s: %v", name, err)
		}
	}
	from.Policy = spec.Policy
	must.Do(t, os.WriteFile(filepath.Join(dir, "book"), []byte("another book"), 0o644))
	if _, failed, err := backend.Open(t.Context(), Backend{}, &from); failed == nil || !strings.Contains(failed.Reason, "book") {
		t.Errorf("with another file than the one that is open: %+v, %v", failed, err)
	}
}
