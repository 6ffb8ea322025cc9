package selftest

import (
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// files: paths lead nowhere else.
func files() []attempt {
	wall := walls(status.Filesystem)
	return []attempt{
		{name: "read", invariant: 4, walls: wall, tries: "reads a file that isn't shown: by its path, by .., by symbolic and magic links, by openat2",
			inside: "any read {secret} , read {tree}/link , read {tree}/../secret , read /proc/self/root{secret} , read /proc/self/cwd/../secret , openat2 {secret} , openat2 {tree}/link , climb {secret}",
			policy: readOnly},
		{name: "write", invariant: 4, walls: wall, tries: "changes a file that isn't shown, by the same ways",
			inside:  "any write {secret} , cut {secret} , chmod 777 {secret} , create {dir}/new , unlink {secret} , write {tree}/link , write /proc/self/root{secret} , write /proc/self/cwd/../secret",
			outside: "each write {secret} , chmod 700 {secret} , create {dir}/new , write {tree}/link , write /proc/self/root{secret} , write /proc/self/cwd/../secret , cut {secret} , unlink {secret}",
			policy:  readOnly, traces: true},
		{name: "read_only", invariant: 4, walls: wall, tries: "changes a tree that is shown read-only: writes, truncates, removes, renames, changes modes",
			inside:  "any write {tree}/file , create {tree}/new , cut {tree}/file , chmod 777 {tree}/file , rename {tree}/file {tree}/other , unlink {tree}/file , write /proc/self/cwd/file",
			outside: "each write {tree}/file , create {tree}/new , chmod 700 {tree}/file , write /proc/self/cwd/file , cut {tree}/file , rename {tree}/file {tree}/other , unlink {tree}/other",
			policy:  readOnly},
		{name: "links", invariant: 4, walls: wall, tries: "gives a file that isn't shown, or may only be read, another name in a tree that may be written",
			inside:  "any link {secret} {tree}/hard , rename {secret} {tree}/moved , link {tree}/confine.toml {tree}/hard , rename {tree}/.git/hooks {tree}/hooks",
			outside: "each link {secret} {tree}/hard , rename {secret} {tree}/moved , rename {tree}/.git/hooks {tree}/hooks",
			policy:  writable, traces: true},
		{name: "protected", invariant: 4, walls: wall, tries: "in a writable tree, leaves what runs later outside: git hooks and settings, confine.toml, .envrc",
			inside:  "any create {tree}/.git/hooks/pre-commit , write {tree}/.git/config , write {tree}/confine.toml , write {tree}/.envrc , rename {tree}/.git/hooks {tree}/.git/old , rename {tree}/.git {tree}/moved , unlink {tree}/confine.toml",
			outside: "each create {tree}/.git/hooks/pre-commit , write {tree}/.git/config , write {tree}/confine.toml , write {tree}/.envrc , unlink {tree}/confine.toml",
			policy:  writable, traces: true},
		{name: "by_handle", invariant: 4, walls: walls(status.Filesystem, status.Syscalls, status.Privileges), tries: "opens a file by the number that its file system knows it by",
			inside: "byhandle {handle_type} {handle} {tree}", policy: readOnly},
		{name: "device", invariant: 4, walls: walls(status.Privileges, status.Syscalls), tries: "makes a device node",
			inside: "call mknod"},
		{name: "sysctl", invariant: 5, walls: walls(status.Filesystem, status.Privileges), tries: "opens a setting of the kernel's for writing (/proc/sys)",
			inside: "any openwrite /proc/sys/kernel/core_pattern , openwrite /proc/sys/net/ipv4/ip_forward", outside: "openwrite /proc/sys/net/ipv4/ip_forward", rooted: ownNet},
		{name: "sysrq", invariant: 5, walls: walls(status.Filesystem, status.Privileges), tries: "opens /proc/sysrq-trigger for writing",
			inside: "openwrite /proc/sysrq-trigger"},
		{name: "kernel_memory", invariant: 5, walls: walls(status.Filesystem, status.Privileges), tries: "reads the kernel's memory (/proc/kcore)",
			inside: "read /proc/kcore"},
		{name: "cgroup", invariant: 4, walls: wall, tries: "joins another cgroup, or makes one",
			inside: "joincgroup"},
	}
}

func readOnly(p *config.Policy, _ values) { inTree(p, "ro") }
func writable(p *config.Policy, _ values) { inTree(p, "rw") }

// inTree starts it in the tree of its ground.
func inTree(p *config.Policy, how string) {
	p.Filesystem.Workdir, p.Filesystem.WorkdirAsked, p.Filesystem.Chdir = how, true, ""
}
