package main

import (
	"time"

	"github.com/confine-run/confine/integration/machines/orders"
)

// machine is one host that confine is tried on.
type machine struct {
	name    string
	what    string // for the document
	kernel  string // of kernels
	place   orders.Place
	user    bool // the caller is an ordinary user
	cgroups orders.Hierarchy
	sysctls map[string]string
	cpus    int        // 0: one
	partial bool       // not everything holds there, and that is accepted
	noNft   bool       // its kernel has no nftables
	scripts [][]string // sets of them
	few     [][]string // those of them that are tried with every change; none: nor is the machine booted
}

// The scripts of the proofs, in sets: all of them on every machine would take
// too long.
var (
	// What is counted over all processes: by cgroups, or without them.
	tree = []string{"stop_survivors", "limits_cpu", "limits_cpu_rate", "limits_memory", "limits_seen", "limits_tasks", "fallback_tasks"}
	// The same with every change. That a run falls back by order is tried on any host.
	groups = []string{"stop_survivors", "limits_cpu", "limits_cpu_rate", "limits_memory", "limits_seen", "limits_tasks"}
	// What can't be seen, reached, or done.
	walls = []string{"filesystem_outside", "network_none", "syscalls", "privileges"}
	// What can be reached by name.
	names = []string{"network_none", "network_names"}
	// What the kernel holds for each process alike, and what confine itself does.
	single = []string{"stop_signals", "limits_descriptors", "limits_disk", "limits_file_size", "limits_output"}
	// What holds without namespaces.
	bare = []string{"host_no_userns", "limits_cpu", "limits_cpu_rate", "limits_memory", "limits_tasks", "limits_descriptors", "limits_file_size"}
	// One CPU would be no limit to one CPU.
	severalCPUs = []string{"limits_cpus"}
)

// limit is how long any of them may take, emulated, on a host that is busy with
// other things. Left alone an emulated one takes a minute or two.
const limit = 25 * time.Minute

var machines = []machine{
	{name: "v2-root", kernel: "6.12", place: orders.Plain, cgroups: orders.Unified, cpus: 2,
		what:    "cgroup v2, nothing that manages it, as root",
		scripts: [][]string{tree, walls, single, severalCPUs, {"overlay_review", "network_names"}},
		few:     [][]string{groups, severalCPUs, {"filesystem_outside"}}}, // the others don't ask for cgroups: root's tests on the host have them
	{name: "systemd-user", kernel: "6.12", place: orders.Session, user: true,
		what:    "cgroup v2, systemd, as an ordinary user in a delegated cgroup",
		scripts: [][]string{tree},
		few:     [][]string{{"stop_survivors", "limits_memory", "limits_tasks"}}}, // "v2-root" has the others
	{name: "systemd-root", kernel: "6.12", place: orders.Service,
		what:    "cgroup v2, systemd, as root in a service",
		scripts: [][]string{tree}},
	{name: "hybrid", kernel: "6.1", place: orders.Plain, cgroups: orders.Hybrid,
		what:    "cgroup v1, with v2 beside it for processes only, as root",
		scripts: [][]string{tree}},
	{name: "newer", kernel: "6.18", place: orders.Plain, user: true, cgroups: orders.Unified,
		what:    "a newer kernel, as an ordinary user, no cgroup delegated",
		scripts: [][]string{{"filesystem_outside", "limits_tasks"}, names}},
	{name: "older", kernel: "6.1", place: orders.Plain, user: true, cgroups: orders.Unified,
		what:    "an older kernel without nftables, as an ordinary user, no cgroup delegated",
		noNft:   true,
		scripts: [][]string{tree, {"filesystem_outside", "privileges", "overlay_review", "network_listeners"}},
		few:     [][]string{{"overlay_review", "network_listeners"}}}, // "oldest" has the tree and the walls
	{name: "oldest", kernel: "5.10", place: orders.Plain, user: true, cgroups: orders.Unified,
		what:    "the oldest kernel that Debian has, as an ordinary user, no cgroup delegated",
		scripts: [][]string{tree, walls, {"network_names"}},
		few:     [][]string{{"stop_survivors", "limits_cpu", "limits_memory", "fallback_tasks"}, walls, {"network_names"}}},
	{name: "no-userns-root", kernel: "6.12", place: orders.Plain, cgroups: orders.Unified,
		sysctls: map[string]string{"user.max_user_namespaces": "0"},
		what:    "`user.max_user_namespaces=0`, as root",
		scripts: [][]string{{"stop_survivors"}, walls}},
	{name: "no-userns-user", kernel: "6.12", place: orders.Plain, user: true, partial: true, cgroups: orders.Unified,
		sysctls: map[string]string{"user.max_user_namespaces": "0"},
		what:    "`user.max_user_namespaces=0`, as an ordinary user",
		scripts: [][]string{bare, {"landlock_alone"}},
		few:     [][]string{{"host_no_userns", "landlock_alone", "limits_cpu", "limits_tasks", "limits_file_size"}}},
	{name: "no-clone-user", kernel: "6.1", place: orders.Plain, user: true, partial: true, cgroups: orders.Unified,
		sysctls: map[string]string{"kernel.unprivileged_userns_clone": "0"},
		what:    "`kernel.unprivileged_userns_clone=0`, as an ordinary user",
		scripts: [][]string{{"host_no_userns"}}},
	{name: "container", kernel: "6.12", place: orders.Container, partial: true, cgroups: orders.Unified,
		what:    "a container as Docker starts it, its seccomp profile and capabilities, no user namespace, as its root",
		scripts: [][]string{bare},
		few:     [][]string{{"host_no_userns", "limits_memory", "limits_descriptors", "limits_cpu_rate"}}}, // "no-userns-user" has the others
}

// kernel is a series of Debian's.
type kernel struct {
	series  string // what the document says
	pattern string // the names of its packages; the highest version counts
}

var kernels = []kernel{
	{"5.10", `^linux-image-5\.10\.0-\d+-cloud-amd64$`},
	{"6.1", `^linux-image-6\.1\.0-\d+-cloud-amd64$`},
	{"6.12", `^linux-image-6\.12\.\d+\+deb12-cloud-amd64$`},
	{"6.18", `^linux-image-6\.18\.\d+\+deb13-cloud-amd64$`},
}

// modules are what a machine needs of its kernel, with all that these need.
// What the kernel has built in is fine, too.
var modules = []string{
	"loop",            // the disk
	"overlay", "veth", // no ordinary user's mount loads it
	"nf_tables", "nft_tproxy", "nf_tproxy_ipv4", "nf_tproxy_ipv6", // nor would its own network namespace
}

// nftables are those of them that lead flows to the gateway.
var nftables = modules[3:]

// suite is a part of Debian's archive.
type suite string

// suites are what the kernels and the disk come from. Where they are to be had, the
// sources of this host's apt say.
var suites = []suite{
	"bookworm", "bookworm-security",
	"bullseye",
	"trixie-backports",
}

// disk is the userland of all machines: what systemd needs to serve an ordinary
// user, a container's runtime, and what the scripts call.
var disk = recipe{
	release:  "bookworm",
	suites:   suites[:2],
	packages: []string{"crun", "dbus", "dbus-user-session", "libpam-systemd", "procps", "systemd", "systemd-sysv"},
	hooks: []string{
		`chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 ` + orders.User,
		`mkdir -p "$1` + orders.Payload + `"`,
		// What only slows the start down here.
		`for u in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service ` +
			`fstrim.timer getty@tty1.service systemd-timesyncd.service; do ln -sf /dev/null "$1/etc/systemd/system/$u"; done`,
	},
}

// recipe is what mmdebstrap is told.
type recipe struct {
	release  string
	suites   []suite
	packages []string
	hooks    []string
}
