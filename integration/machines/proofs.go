package main

import (
	"github.com/confine-run/confine/integration/machines/orders"
	"github.com/confine-run/confine/status"
)

// everything are words that ask for all capabilities that a ledger knows. What a
// host can't enforce then doesn't keep the run from starting.
var everything = []string{"--allow-partial", "all", "--json", "-p", "default",
	"--cpu-limit", "50", "--cpus", "1", "--max-file-size", "64M", "--allow-network", "example.com", "--", "true"}

// proof is the scripts that try whether a capability holds.
type proof struct {
	capability status.Capability
	scripts    []string
}

// proofs has the capabilities in the order of the document. One without scripts
// shows its mechanism, unproven; one that no ledger has is not shown.
var proofs = []proof{
	{status.Containment, []string{"stop_survivors", "host_no_userns"}},
	{status.WallTime, []string{"stop_signals"}},
	{status.CPUTime, []string{"limits_cpu"}},
	{status.CPURate, []string{"limits_cpu_rate"}},
	{status.CPUs, []string{"limits_cpus"}},
	{status.Memory, []string{"limits_memory"}},
	{status.Tasks, []string{"limits_tasks", "fallback_tasks"}},
	{status.FileDescriptors, []string{"limits_descriptors"}},
	{status.FileSize, []string{"limits_file_size"}},
	{status.Disk, []string{"limits_disk"}},
	{status.Files, []string{"limits_disk"}},
	{status.MountSize, nil},
	{status.Output, []string{"limits_output"}},
	{status.Filesystem, []string{"filesystem_outside", "landlock_alone"}},
	{status.Network, []string{"network_names", "network_listeners", "network_none", "host_no_userns"}},
	{status.Syscalls, []string{"syscalls"}},
	{status.Privileges, []string{"privileges", "host_no_userns"}},
	{status.Cgroup, []string{"limits_seen"}},
	{status.Overlay, []string{"overlay_review"}},
	{status.Rootfs, nil},
	{status.Publish, nil},
	{status.Isolation, nil},
}

// ordersFor makes of the table what the machine has to know.
func ordersFor(m *machine, scripts []string) *orders.Orders {
	o := &orders.Orders{
		Host: m.name, Place: m.place, Cgroups: m.cgroups, Sysctls: m.sysctls,
		CPUs: max(1, m.cpus), Ledger: everything, Scripts: scripts, Partial: m.partial,
	}
	if m.noNft {
		o.Without = nftables
	}
	if m.user {
		o.UID = orders.UID
	}
	return o
}
