package supervisor

import (
	"strings"
	"time"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/audit"
	"github.com/confine-run/confine/supervisor/files"
)

// subscribe begins to hear of what Landlock refuses, before there is anything to hear.
func (r *run) subscribe() {
	l := &r.plan.Child.Landlock
	if !r.plan.Files.Log || l.None() {
		return
	}
	r.audit, r.noAudit = audit.Subscribe()
	l.Log = r.audit != nil
}

// readAudit tells the log what Landlock refused, besides what is in it.
func (r *run) readAudit() {
	if r.audit == nil {
		return
	}
	target := pidOf(r.target)
	r.audit.Read(func(pid int) bool { return pid == target }, func(d audit.Denial) {
		if d.Path == "" {
			return // no file
		}
		r.files.Add(files.Refused{
			Refusal: files.Refusal{Rule: "landlock"},
			What:    wishOf(d.Blockers) + " " + files.Printable(d.Path), At: time.Now(),
		})
	})
}

// wishOf is what was wanted, by the rights that were missing.
func wishOf(blockers []string) string {
	for _, w := range []struct{ right, wish string }{
		{"fs.execute", "exec"}, {"fs.make_", "create"}, {"fs.remove_", "remove"}, {"fs.refer", "create"},
		{"fs.write_file", "write"}, {"fs.truncate", "write"}, {"fs.ioctl_dev", "write"}, {"fs.resolve_unix", "connect"},
		{"fs.read_dir", "list"},
	} {
		for _, b := range blockers {
			if strings.HasPrefix(b, w.right) {
				return w.wish
			}
		}
	}
	return "read"
}

// auditLost says in the ledger why Landlock's own words are not among what is told.
func (r *run) auditLost(ledger map[status.Capability]status.Enforcement) {
	if r.noAudit == nil {
		return
	}
	e := ledger[status.Filesystem]
	e.Details += "; Landlock's audit is not read: " + r.noAudit.Error()
	ledger[status.Filesystem] = e
}
