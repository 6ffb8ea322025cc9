package cgroup

import (
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// sweepPatience bounds what a start may wait for the leftovers of others. What
// does not die until then stays for the next.
const sweepPatience = 100 * time.Millisecond

// sweep removes what is left in a directory of runs whose owner is gone, killed
// most likely, with what is still in there. When there is nothing it costs one reading of
// the directory.
//
// Only owners in the own pid namespace and time namespace can be judged, and what
// can't be judged stays. Two sweeps at once don't disturb each other: each finds gone what the
// other removed.
func (h *here) sweep(d *dir) {
	var dead []string
	_ = eachDir(d.fd, func(name []byte) {
		if !ours(name) {
			return
		}
		if o, ok := parseName(string(name)); ok && h.dead(o) {
			dead = append(dead, string(name))
		}
	})
	if len(dead) == 0 {
		return
	}
	until := time.Now().Add(sweepPatience)
	for _, name := range dead {
		fd, err := openAt(d.fd, name, flagsDir)
		if err != nil {
			continue
		}
		left := &dir{fd: fd, path: path.Join(d.path, name), parent: d.fd, name: name, procs: -1}
		// Its owner may have died while it was frozen; v1 keeps the killed so.
		_ = left.write("freezer.state", "THAWED")
		_ = left.write("pids.max", "0")
		if left.write("cgroup.kill", "1") == nil || left.killAll(nil, until) == nil {
			_ = left.removeTree(left.version(), until)
		}
		left.close()
	}
}

// version is that of the hierarchy.
func (d *dir) version() int {
	if kind, _, err := statfs(d.fd); err == nil && kind == unix.CGROUP2_SUPER_MAGIC {
		return 2
	}
	return 1
}

// dead says that an owner is certainly gone. Its number is asked of the kernel, which takes
// it in the own pid namespace; /proc may show another one.
func (h *here) dead(o owner) bool {
	if o.spaces != h.owner.spaces || h.owner.spaces == 0 || o == h.owner {
		return false
	}
	if unix.Kill(o.pid, 0) == unix.ESRCH {
		return true
	}
	_, start, ok := h.process(o.pid)
	return ok && start != o.start
}
