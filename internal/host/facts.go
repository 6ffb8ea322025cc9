package host

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/confine-run/confine/internal/mounts"
)

// Facts is what a few files and calls say, without trying anything. What every run asks is asked at
// most once; the zero value is ready for use, and so cheap that making one costs nothing. Off Linux most
// of them say that nothing is known.
type Facts struct {
	files map[string]string // stands in for the file system in tests

	status once[procStatus]
	cpus   once[[]int]
}

type once[T any] struct {
	sync.Once
	value T
}

func (o *once[T]) get(ask func() T) T {
	o.Do(func() { o.value = ask() })
	return o.value
}

// recent is an answer that is asked for again when it is old: a host changes while a program runs.
type recent[T any] struct {
	mu    sync.Mutex
	value T
	asked time.Time
}

func (r *recent[T]) get(most time.Duration, ask func() T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.asked.IsZero() || now.Sub(r.asked) > most {
		r.value, r.asked = ask(), now
	}
	return r.value
}

var current recent[*Facts]

// Current is about this process, shared by what happens in it within a second.
func Current() *Facts { return current.get(time.Second, func() *Facts { return &Facts{} }) }

func (f *Facts) read(path string) (string, bool) {
	if f.files != nil {
		text, ok := f.files[path]
		return text, ok
	}
	b, err := os.ReadFile(path)
	return string(b), err == nil
}

func (f *Facts) exists(path string) bool {
	if f.files != nil {
		_, ok := f.files[path]
		return ok
	}
	_, err := os.Lstat(path)
	return err == nil
}

// Release is the kernel's, as uname(2) gives it.
func (f *Facts) Release() string {
	if f.files != nil {
		return f.files["uname"]
	}
	return unameRelease()
}

// Kernel is the version in Release.
func (f *Facts) Kernel() Kernel { return ParseKernel(f.Release()) }

// UID is the effective user.
func (f *Facts) UID() int { return os.Geteuid() }

// CPUs are those that this process may run on.
func (f *Facts) CPUs() []int { return f.cpus.get(allowedCPUs) }

// sysctl is a kernel setting; ok is false where there is no such setting.
func (f *Facts) sysctl(name string) (n int, ok bool) {
	text, ok := f.read("/proc/sys/" + name)
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, ok && err == nil
}

// MaxUserNamespaces is user.max_user_namespaces.
func (f *Facts) MaxUserNamespaces() (n int, ok bool) { return f.sysctl("user/max_user_namespaces") }

// AppArmorRestrictsUserns is kernel.apparmor_restrict_unprivileged_userns, of
// Ubuntu since 23.10: a user namespace made by an ordinary user has no
// capabilities, unless a profile for the program says otherwise.
func (f *Facts) AppArmorRestrictsUserns() bool {
	n, ok := f.sysctl("kernel/apparmor_restrict_unprivileged_userns")
	return ok && n != 0
}

// UsernsCloneForbidden is kernel.unprivileged_userns_clone=0, a setting of
// Debian's and of hardened kernels.
func (f *Facts) UsernsCloneForbidden() bool {
	n, ok := f.sysctl("kernel/unprivileged_userns_clone")
	return ok && n == 0
}

// SeccompMode is 2 when this process already runs under a filter.
func (f *Facts) SeccompMode() int { return f.status.get(f.askStatus).seccomp }

// Capable: this process has the capability in its effective set.
func (f *Facts) Capable(capability uint) bool {
	return f.status.get(f.askStatus).capEff&(1<<capability) != 0
}

const (
	capSysAdmin = 21
	capSetfcap  = 31
)

// Privileged: runs can have namespaces without a user namespace.
func (f *Facts) Privileged() bool { return f.Capable(capSysAdmin) }

type procStatus struct {
	seccomp int
	capEff  uint64
}

func (f *Facts) askStatus() procStatus {
	text, ok := f.read("/proc/self/status")
	if !ok {
		return procStatus{}
	}
	return parseStatus(text)
}

// parseStatus reads proc_pid_status(5).
func parseStatus(text string) procStatus {
	s := procStatus{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Seccomp":
			s.seccomp, _ = strconv.Atoi(value)
		case "CapEff":
			s.capEff, _ = strconv.ParseUint(value, 16, 64)
		}
	}
	return s
}

// Container is the kind of container this process runs in: "docker", "podman",
// "kubernetes", or "" where nothing says so.
func (f *Facts) Container() string {
	switch {
	case f.exists("/var/run/secrets/kubernetes.io"):
		return "kubernetes"
	case f.exists("/.dockerenv"):
		return "docker"
	case f.exists("/run/.containerenv"):
		return "podman"
	}
	return ""
}

// Chrooted: the root directory is not the root of a mount, and therefore the
// kernel makes no user namespace.
func (f *Facts) Chrooted() bool {
	text, ok := f.read("/proc/self/mountinfo")
	all, err := mounts.Parse(text)
	return ok && err == nil && !slices.ContainsFunc(all, func(m *mountinfo.Info) bool { return m.Mountpoint == "/" })
}

// AppArmorLabel is the profile that confines this process, or "".
func (f *Facts) AppArmorLabel() string {
	text, ok := f.read("/proc/self/attr/apparmor/current")
	if !ok {
		text, _ = f.read("/proc/self/attr/current")
	}
	label, _, _ := strings.Cut(strings.Trim(text, "\x00\n "), " (")
	if label == "unconfined" {
		return ""
	}
	return label
}
