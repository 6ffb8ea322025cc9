package cgroup

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
)

// needSystemd skips where there is none to ask.
func needSystemd(t *testing.T) Source {
	t.Helper()
	offer := Look("")
	if offer.Source != SystemdUser && offer.Source != SystemdSystem {
		if err := host.MustRun("systemd"); err != nil {
			t.Fatal(err)
		}
		t.Skipf("no systemd: %+v", offer)
	}
	t.Logf("%+v", offer)
	return offer.Source
}

func TestRealSystemdGivesAScope(t *testing.T) {
	source := needSystemd(t)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed=", killed), func(t *testing.T) {
			init := start(t, again("init"))
			init.expect("ready")
			began := time.Now()
			g := mustMake(t, Options{Limits: Limits{Memory: 50 * mib, Tasks: 100, CPUPercent: 50}, Account: true,
				Anchor: func() int { return init.Process.Pid }})
			t.Logf("made after %v: %s", time.Since(began), g.Path())
			if g.Source() != source || path.Base(g.Path()) != runLeaf || g.Version() != 2 {
				t.Errorf("%s, %s", g.Source(), g.Path())
			}
			for _, c := range []Controller{Memory, PIDs, CPU} {
				if _, ok := g.Holds(c); !ok && c != CPU {
					t.Error(g.WhyNot(c))
				} else if !ok {
					t.Log(g.WhyNot(c)) // users don't get it everywhere
				}
			}
			fmt.Fprintln(init.in, g.Path())
			target, err := strconv.Atoi(init.line())
			must(t, err)
			scope := path.Dir(g.Path())
			for pid, leaf := range map[int]string{init.Process.Pid: initLeaf, target: runLeaf} {
				own, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
				if !strings.HasSuffix(strings.TrimSpace(string(own)), "/"+path.Base(scope)+"/"+leaf) {
					t.Errorf("%d is in %q", pid, own)
				}
			}
			if s := g.Stat(); !s.Memory.Known || s.Tasks.N < 1 || !s.CPU.Known {
				t.Errorf("%+v", s)
			}
			if killed { // all of it, as when the namespace dies: nothing of ours removes anything
				must(t, unix.Kill(target, unix.SIGKILL))
				must(t, init.Process.Kill())
				_ = init.Wait()
			} else {
				must(t, g.Remove())
				if exists(g.Path()) {
					t.Error("left: ", g.Path())
				}
				must(t, init.in.Close())
				_ = init.Wait()
			}
			eventually(t, "the scope is gone", func() bool { return !exists(scope) })
		})
	}
}

func TestRealSystemdIsTheOnlyWriter(t *testing.T) {
	needSystemd(t)
	_, err := Make(limits) // without a process
	e, ok := err.(*Error)
	if !ok || e.Kind != NoSystemd || e.Next == nil || e.Next.Kind != Managed {
		t.Errorf("%v", err)
	}
}
