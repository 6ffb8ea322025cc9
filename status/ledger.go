package status

// Capability is one thing that a policy can ask for. The names are those that
// --allow-partial and --require take.
type Capability string

const (
	Containment     Capability = "containment"      // no process outlives the run
	WallTime        Capability = "wall_time"        // --time-limit
	CPUTime         Capability = "cpu_time"         // --cpu-time
	CPURate         Capability = "cpu_rate"         // --cpu-limit
	CPUs            Capability = "cpus"             // --cpus
	Memory          Capability = "memory"           // --memory-limit
	Tasks           Capability = "tasks"            // --processes
	FileDescriptors Capability = "file_descriptors" // --file-descriptors
	FileSize        Capability = "file_size"        // --max-file-size
	Disk            Capability = "disk"             // --disk-limit
	Files           Capability = "files"            // --max-files
	MountSize       Capability = "mount_size"       // --mount tmpfs:DST:SIZE
	Output          Capability = "output"           // --output-limit
	Filesystem      Capability = "filesystem"       // what is visible, and what of it is writable
	Network         Capability = "network"          // --allow-network
	Syscalls        Capability = "syscalls"         // --seccomp
	Privileges      Capability = "privileges"       // no capabilities, no_new_privs
	Cgroup          Capability = "cgroup"           // --cgroup-parent
	Overlay         Capability = "overlay"          // --overlay, --keep, --workdir overlay
	Rootfs          Capability = "rootfs"           // --rootfs
	Publish         Capability = "publish"          // --publish
	Isolation       Capability = "isolation"        // --isolation
)

// Ledger says of each capability what holds, and by what.
type Ledger = map[Capability]Enforcement

// Enforcement is one line of the ledger.
type Enforcement struct {
	Requested      string         `json:"requested"` // as the policy says it: "512M", "none", "default/3"
	Enabled        bool           `json:"enabled"`   // the policy asks for it
	Applied        bool           `json:"applied"`   // the side that did it confirmed it
	Effective      bool           `json:"effective"` // it holds as asked, for the whole tree
	Mechanism      string         `json:"mechanism"` // "pid namespace", "RLIMIT_NOFILE", …; "none"
	Details        string         `json:"details,omitempty"`
	FallbackReason FallbackReason `json:"fallback_reason,omitempty"` // why not the strongest mechanism
	PolicyKind     string         `json:"policy_kind,omitempty"`     // of filters: "default", "strict", "file"
	Version        string         `json:"version,omitempty"`         // of policies that ship: "default/3"; with its digest
}

// FallbackReason says why a stronger mechanism was not used. The list is closed.
type FallbackReason string

const (
	UsernsDenied          FallbackReason = "linux_userns_denied"
	UsernsDeniedAppArmor  FallbackReason = "linux_userns_denied_apparmor"
	CgroupNotDelegated    FallbackReason = "linux_cgroup_not_delegated"
	CgroupV1              FallbackReason = "linux_cgroup_v1"
	SeccompUnsupported    FallbackReason = "linux_seccomp_unsupported_kernel"
	NotifyUnsupported     FallbackReason = "linux_seccomp_notify_unsupported_kernel"
	ListenerTaken         FallbackReason = "linux_seccomp_listener_taken"
	OverlayUnsupported    FallbackReason = "linux_overlay_unsupported"
	OverlayNestedMount    FallbackReason = "linux_overlay_nested_mount"
	OverlayKeepsDirs      FallbackReason = "linux_tmpfs_xattr_unsupported_kernel"
	ProcMasked            FallbackReason = "linux_proc_masked"
	NprocUnboundForRoot   FallbackReason = "linux_rlimit_nproc_not_for_root"
	NprocPerUserKernel    FallbackReason = "linux_rlimit_nproc_counts_whole_user"
	MountAttrUnsupported  FallbackReason = "linux_mount_setattr_unsupported_kernel"
	LandlockMissing       FallbackReason = "linux_landlock_missing"
	NftablesMissing       FallbackReason = "linux_nftables_missing"
	HomeUnusable          FallbackReason = "home_unusable"
	ProtectedLeft         FallbackReason = "protected_left"
	NotInBuild            FallbackReason = "not_enforceable_on_this_build"
	PlatformUnsupported   FallbackReason = "platform_not_supported"
	InsufficientPrivilege FallbackReason = "windows_insufficient_privilege"
	NotApplied            FallbackReason = "windows_not_applied"   // what was set reads back otherwise
	NestedSandbox         FallbackReason = "darwin_nested_sandbox" // macOS puts nobody into a sandbox who is in one
)
