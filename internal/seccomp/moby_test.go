//go:build linux

package seccomp

import (
	"slices"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// narrower are calls that moby allows and default/3 does not. The reason stands
// at the rule.
var narrower = []string{
	"epoll_ctl_old", "epoll_wait_old", "fanotify_mark", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents",
	"io_setup", "io_submit", "modify_ldt", "memfd_secret", "name_to_handle_at", "openat2", "vmsplice",
}

// wider are calls that default/3 allows and moby does not: unshare without a
// namespace needs no capability.
var wider = []string{"unshare"}

// TestDefaultIsMobysProfileButForWhatIsSaid holds default/3 against the
// maintained allowlist, with no capability granted.
func TestDefaultIsMobysProfileButForWhatIsSaid(t *testing.T) {
	allowed := map[string]bool{}
	for _, s := range moby.DefaultProfile().Syscalls {
		granted := s.Includes == nil || len(s.Includes.Caps) == 0 &&
			(len(s.Includes.Arches) == 0 || slices.Contains(s.Includes.Arches, "amd64"))
		if s.Action != specs.ActAllow || !granted {
			continue
		}
		for _, name := range s.Names {
			allowed[name] = Known(name)
		}
	}
	if !allowed["read"] || !allowed["clone"] || allowed["bpf"] || allowed["unshare"] {
		t.Fatal("moby's profile was not read right")
	}
	ours := map[string]bool{}
	for _, r := range Builtin("default").Rules {
		for _, name := range r.Calls {
			ours[name] = ours[name] || r.Outcome.Do == Allow
		}
	}
	for _, name := range AllCalls() {
		switch said := slices.Contains(narrower, name); {
		case allowed[name] && !ours[name] && !said:
			t.Errorf("moby allows %s, default/3 does not, and no list says so", name)
		case said && (ours[name] || !allowed[name]):
			t.Errorf("%s is listed as narrower and is not", name)
		}
		switch said := slices.Contains(wider, name); {
		case ours[name] && !allowed[name] && !said:
			t.Errorf("default/3 allows %s, moby does not, and no list says so", name)
		case said && (!ours[name] || allowed[name]):
			t.Errorf("%s is listed as wider and is not", name)
		}
	}
}
