package status

import "testing"

func TestRC(t *testing.T) {
	for _, c := range []struct {
		name                    string
		status                  Status
		exitCode, sig           int
		normalized, gnu, simple int
	}{
		{"ok", OK, 0, 0, 0, 0, 0},
		{"failed keeps the target's own code", Failed, 3, 0, 3, 3, 3},
		{"failed with a code that looks like ours", Failed, 124, 0, 124, 124, 124},
		{"failed with 255", Failed, 255, 0, 255, 255, 255},
		{"failed can't be a success", Failed, 0, 0, 1, 1, 1},
		{"failed can't be a success modulo 256", Failed, 512, 0, 1, 1, 1},
		{"wall clock", Timeout, 0, 15, 124, 124, 124},
		{"wall clock, and the target exited 1", Timeout, 1, 0, 124, 124, 124},
		{"cpu", CPULimit, 0, 24, 152, 124, 124},
		{"memory", MemLimit, 0, 9, 137, 137, 125},
		{"sigterm", KilledTerm, 0, 15, 143, 143, 143},
		{"sigkill", KilledKill, 0, 9, 137, 137, 137},
		{"sigsegv", KilledSignal, 0, 11, 139, 139, 139},
		{"sighup", KilledSignal, 0, 1, 129, 129, 129},
		{"last real-time signal", KilledSignal, 0, 64, 192, 192, 192},
		{"a signal that can't be", KilledSignal, 0, 0, 255, 255, 255},
		{"sigsys", ForbiddenSyscall, 0, 31, 159, 159, 159},
		{"denied keeps the target's own code", SandboxDenied, 13, 0, 13, 13, 13},
		{"not found", ExecFailed, 127, 0, 127, 127, 127},
		{"not executable", ExecFailed, 126, 0, 126, 126, 126},
		{"exec failed, nobody says how", ExecFailed, 0, 0, 127, 127, 127},
		{"internal", InternalError, 0, 0, 1, 125, 1},
		{"a status outside the set", Status("NEW"), 0, 0, 1, 125, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for d, want := range map[Dialect]int{
				Normalized: c.normalized, GNU: c.gnu, Simple: c.simple, "": c.normalized, "other": c.normalized,
			} {
				if got := c.status.RC(d, c.exitCode, c.sig); got != want {
					t.Errorf("%s in %q: %d, want %d", c.status, d, got, want)
				}
			}
		})
	}
}

func TestOnlyOKIsZero(t *testing.T) {
	for _, s := range constants[Status](t, "Status") {
		for _, d := range []Dialect{Normalized, GNU, Simple} {
			for exit := -1; exit <= 256; exit++ {
				for _, sig := range []int{-1, 0, 9, 15, 128, 256} {
					rc := s.RC(d, exit, sig)
					if (rc == 0) != (s == OK) || rc < 0 || rc > 255 {
						t.Fatalf("%s in %s with code %d and signal %d: %d", s, d, exit, sig, rc)
					}
				}
			}
		}
	}
}

func TestEveryStatusHasOneRow(t *testing.T) {
	all := constants[Status](t, "Status")
	if len(all) != len(exitCodes) {
		t.Fatalf("%d statuses, %d rows", len(all), len(exitCodes))
	}
	for i, s := range all {
		if exitCodes[i].status != s {
			t.Errorf("row %d is %s, want %s", i, exitCodes[i].status, s)
		}
	}
}
