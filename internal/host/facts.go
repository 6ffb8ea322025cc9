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

// Facts is what a few files and calls say, without trying anything. Each
// method asks at most once; the zero value is ready for use, and so cheap that
// making one costs nothing. Off Linux most of them say that nothing is known.
type Facts struct {
	files map[string]string // stands in for the file system in tests

	kernel    once[kernelFact]
	maxUserns once[sysctl]
	apparmor  once[sysctl]
	usernsClo once[sysctl]
	status    once[procStatus]
	container once[string]
	chrooted  once[bool]
	label     once[string]
	cpus      once[[]int]
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

type kernelFact struct {
	release string
	version Kernel
}

// Release is the kernel's, as uname(2) gives it.
func (f *Facts) Release() string { return f.kernel.get(f.askKernel).release }

// Kernel is the version in Release.
func (f *Facts) Kernel() Kernel { return f.kernel.get(f.askKernel).version }

func (f *Facts) askKernel() kernelFact {
	release := ""
	if f.files != nil {
		release = f.files["uname"]
	} else {
		release = unameRelease()
	}
	return kernelFact{release, ParseKernel(release)}
}

// UID is the effective user.
func (f *Facts) UID() int { return os.Geteuid() }

// CPUs are those that this process may run on.
func (f *Facts) CPUs() []int { return f.cpus.get(allowedCPUs) }

// sysctl is a kernel setting that may not exist.
type sysctl struct {
	value int
	known bool
}

func (f *Facts) sysctl(path string) sysctl {
	text, ok := f.read(path)
	if !ok {
		return sysctl{}
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return sysctl{n, err == nil}
}

// MaxUserNamespaces is user.max_user_namespaces; ok is false where there is no
// such setting.
func (f *Facts) MaxUserNamespaces() (n int, ok bool) {
	s := f.maxUserns.get(func() sysctl { return f.sysctl("/proc/sys/user/max_user_namespaces") })
	return s.value, s.known
}

// AppArmorRestrictsUserns is kernel.apparmor_restrict_unprivileged_userns, of
// Ubuntu since 23.10: a user namespace made by an ordinary user has no
// capabilities, unless a profile for the program says otherwise.
func (f *Facts) AppArmorRestrictsUserns() bool {
	s := f.apparmor.get(func() sysctl { return f.sysctl("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") })
	return s.known && s.value != 0
}

// UsernsCloneForbidden is kernel.unprivileged_userns_clone=0, a setting of
// Debian's and of hardened kernels.
func (f *Facts) UsernsCloneForbidden() bool {
	s := f.usernsClo.get(func() sysctl { return f.sysctl("/proc/sys/kernel/unprivileged_userns_clone") })
	return s.known && s.value == 0
}

// ProcMounted: there is a /proc that shows this process.
func (f *Facts) ProcMounted() bool { return f.status.get(f.askStatus).found }

// SeccompMode is 2 when this process already runs under a filter.
func (f *Facts) SeccompMode() int { return f.status.get(f.askStatus).seccomp }

// Capable: this process has the capability in its effective set.
func (f *Facts) Capable(capability uint) bool {
	return f.status.get(f.askStatus).capEff&(1<<capability) != 0
}

const capSysAdmin = 21

func (f *Facts) privileged() bool { return f.Capable(capSysAdmin) }

type procStatus struct {
	found   bool
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
	s := procStatus{found: true}
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
	return f.container.get(func() string {
		switch {
		case f.exists("/var/run/secrets/kubernetes.io"):
			return "kubernetes"
		case f.exists("/.dockerenv"):
			return "docker"
		case f.exists("/run/.containerenv"):
			return "podman"
		}
		return ""
	})
}

// Chrooted: the root directory is not the root of a mount, and therefore the
// kernel makes no user namespace.
func (f *Facts) Chrooted() bool {
	return f.chrooted.get(func() bool {
		text, ok := f.read("/proc/self/mountinfo")
		return ok && !hasRootMount(text)
	})
}

func hasRootMount(text string) bool {
	all, err := mounts.Parse(text)
	return err != nil || slices.ContainsFunc(all, func(m *mountinfo.Info) bool { return m.Mountpoint == "/" })
}

// AppArmorLabel is the profile that confines this process, or "".
func (f *Facts) AppArmorLabel() string {
	return f.label.get(func() string {
		text, ok := f.read("/proc/self/attr/apparmor/current")
		if !ok {
			text, _ = f.read("/proc/self/attr/current")
		}
		label, _, _ := strings.Cut(strings.Trim(text, "\x00\n "), " (")
		if label == "unconfined" {
			return ""
		}
		return label
	})
}
