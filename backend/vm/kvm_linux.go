package vm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/internal/config"
)

// That /dev/kvm opens and makes machines says nothing: there are some that can't run the code of a kernel. So one is booted, once, with a
// deadline, and what came of it is kept for the same QEMU, kernel and CPU until the host boots again.

// accelerator is how the CPUs of a guest are made.
type accelerator struct {
	Works bool   // KVM does
	Why   string // it doesn't, or isn't known to
}

const (
	kvmDevice = "/dev/kvm"
	// kvmTime is how long a machine may take to boot by KVM: a multiple of what it takes where it works, on a busy host.
	kvmTime = 10 * time.Second
)

var errNotTried = errors.New("nobody has tried it")

// mechanism is its name in ledgers.
func (a accelerator) mechanism() string {
	if a.Works {
		return "qemu-kvm"
	}
	return "qemu-tcg"
}

// details are what a ledger says of it.
func (a accelerator) details() string {
	if a.Works {
		return "on the host's CPUs by KVM, by which it booted here before"
	}
	return "on CPUs that QEMU emulates: " + a.Why
}

// arguments are QEMU's.
func (a accelerator) arguments() []string {
	if a.Works {
		return []string{"-accel", "kvm", "-cpu", a.cpu()}
	}
	return []string{"-accel", "tcg,thread=single,tb-size=128", "-cpu", a.cpu()}
}

// kernelWords are for the kernel.
func (a accelerator) kernelWords() string {
	if a.Works {
		return ""
	}
	return emulatedWords + " "
}

// emulatedWords are those of a kernel on emulated CPUs. Code that runs once there costs what it takes to translate it, and each timer that is set
// wakes another thread of QEMU.
var emulatedWords = strings.Join([]string{
	"mitigations=off",            // these CPUs run nothing ahead of time that could tell anything
	"no_timer_check",             // on a busy host the timer's interrupts come late, and the kernel panics for it
	"highres=off",                // timers go by the kernel's ticks
	"tsc=nowatchdog",             // the counter is the host's, and a busy host lets the device that it would be held against come late
	"noautogroup",                // nobody is at a desk
	"nowatchdog",                 // a CPU that stands still is one that the host had no time for
	"lsm=landlock,yama",          // the others have no policy in a guest
	"transparent_hugepage=never", // what is cleared is written down, and copied
	"cryptomgr.notests",
	"rcupdate.rcu_expedited=1",
	"GODEBUG=asyncpreemptoff=1", // the environment of the guest's first process
}, " ")

// goesByTicks says whether the host's clock goes by the counter of its CPUs: then that always has the same frequency.
func goesByTicks() bool {
	text, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return string(bytes.TrimSpace(text)) == "tsc"
}

// cpu is the model. One that is emulated says that it is slow at moving single bytes, as it is: each takes as long as eight would.
func (a accelerator) cpu() string {
	if a.Works {
		return "host"
	}
	return "max,erms=off,fsrm=off"
}

// kvm is what is known of it without a boot. errNotTried: a boot would tell.
func (b Backend) kvm(p *plan) (accelerator, error) {
	device := cmp.Or(b.device, kvmDevice)
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return accelerator{Why: "there is no " + device}, nil
		}
		return accelerator{Why: err.Error()}, nil
	}
	_ = f.Close()
	key, err := p.kvmKey()
	if err != nil {
		return accelerator{Why: err.Error()}, nil
	}
	if known, ok := tried.Load(key); ok {
		return known.(accelerator), nil
	}
	if a, ok := p.readKVM(key); ok {
		return a, nil
	}
	return accelerator{Why: "KVM is tried by the first machine that begins"}, errNotTried
}

// tried are those of this process, by their keys.
var tried sync.Map

// trying is for one at a time.
var trying sync.Mutex

// accelerated is a plan whose machine has the fastest CPUs that work.
func (b Backend) accelerated(ctx context.Context, p plan) (plan, error) {
	trying.Lock()
	defer trying.Unlock()
	var err error
	if p.accel, err = b.kvm(&p); err == nil {
		return p, nil
	}
	try := b.try
	if try == nil {
		try = bootByKVM
	}
	p.accel = accelerator{Works: true}
	if err := try(ctx, p); err != nil {
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		p.accel = accelerator{Why: "a machine that was tried by KVM didn't boot: " + err.Error()}
	}
	key, err := p.kvmKey()
	if err != nil {
		return p, err
	}
	tried.Store(key, p.accel)
	p.writeKVM(key)
	return p, nil
}

// bootByKVM boots a machine of this kernel in the walls of any other, and asks its guest for something.
func bootByKVM(ctx context.Context, p plan) error {
	ctx, cancel := context.WithTimeout(ctx, kvmTime)
	defer cancel()
	policy := config.Default()
	policy.Isolation, policy.VMKernel, policy.MemoryLimit = "vm", p.kernel.path, 128<<20
	policy.Filesystem.Workdir, policy.AllowPartial = "none", []string{config.WordAll}
	spec := *p.spec
	spec.Policy, spec.PolicyDigest, spec.Resolved, spec.Argv, spec.Dir, spec.From, spec.Snapshots = &policy, "", nil, nil, "/", nil, ""
	p.spec, p.calls, p.emulator = &spec, nil, emulatorOf(p.qemu, false)
	box, failed, err := open(ctx, p)
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("not within %v", kvmTime)
	case failed != nil:
		err = errors.New(failed.Reason)
	}
	if box != nil {
		_, _ = box.Close()
	}
	return err
}

// kvmKey tells whether what was tried is what is here.
func (p *plan) kvmKey() (string, error) {
	kernel, err := digestOf(p.kernel.path)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(p.qemu)
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, kernel, p.qemu, keyOf(st), string(boot), cpuHere())
	return hex.EncodeToString(h.Sum(nil)), nil
}

// cpuHere is what /proc/cpuinfo says of the first CPU, but for what changes.
func cpuHere() (said string) {
	text, _ := os.ReadFile("/proc/cpuinfo")
	text, _, _ = bytes.Cut(text, []byte("\n\n"))
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "cpu MHz") && !strings.HasPrefix(line, "bogomips") {
			said += line
		}
	}
	return said
}

// kept is a file with the last that was tried.
type kept struct {
	Key string
	accelerator
}

func (p *plan) kvmFile() (string, error) {
	dir, err := process.Cache(p.spec, "vm")
	return filepath.Join(dir, "kvm"), err
}

// readKVM reads it, if it is the caller's own.
func (p *plan) readKVM(key string) (accelerator, bool) {
	path, err := p.kvmFile()
	if err != nil {
		return accelerator{}, false
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return accelerator{}, false
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o022 != 0 || int(st.Uid) != os.Geteuid() || st.Size > maxAbout {
		return accelerator{}, false
	}
	var k kept
	if err := json.NewDecoder(f).Decode(&k); err != nil || k.Key != key {
		return accelerator{}, false
	}
	return k.accelerator, true
}

// writeKVM writes it where it can: else the next process tries again.
func (p *plan) writeKVM(key string) {
	path, err := p.kvmFile()
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), "kvm-*")
	if err != nil {
		return
	}
	err = errors.Join(json.NewEncoder(f).Encode(kept{key, p.accel}), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// restored is the accelerator that a machine goes on with: the one that it was written down with, where that is emulation, which there is everywhere.
func (a accelerator) restored(written string) accelerator {
	if a.Works && written == (accelerator{}).mechanism() {
		return accelerator{Why: "it was written down where there was no KVM"}
	}
	return a
}
