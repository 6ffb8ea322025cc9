package vm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// planOf is one whose kernel and QEMU are files of the test's, in whose cache nothing is.
func planOf(t *testing.T) plan {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"kernel", "qemu"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(dir), 0o600))
	}
	p := config.Default()
	return plan{parts: parts{qemu: filepath.Join(dir, "qemu"), kernel: &kernel{path: filepath.Join(dir, "kernel"), release: "6.1"}},
		spec: &backend.Spec{Policy: &p, Ceiling: &p, Dir: "/", Environ: []string{"HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache")}}}
}

func device(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kvm")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	return path
}

func TestKVMIsUsedWhereAMachineBootsByIt(t *testing.T) {
	for name, c := range map[string]struct {
		boots     error
		mechanism string
		details   string
	}{
		"one boots": {nil, "qemu-kvm", "by KVM"},
		"none does": {errors.New("emulation failure"), "qemu-tcg", "emulates: a machine that was tried by KVM didn't boot: emulation failure"},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			b := Backend{device: device(t), try: func(_ context.Context, p plan) error {
				if tries++; !p.accel.Works || !slices.Contains(p.arguments(), "kvm") {
					t.Errorf("it was tried with %q", p.arguments())
				}
				return c.boots
			}}
			was := planOf(t)
			if _, err := b.kvm(&was); !errors.Is(err, errNotTried) {
				t.Errorf("before: %v", err)
			}
			for range 2 {
				p, err := b.accelerated(t.Context(), was)
				must.Do(t, err)
				yes := c.boots == nil
				o := p.outerSpec(nil)
				for what, has := range map[string]bool{
					"arguments": slices.Contains(p.arguments(), "kvm"), "sandbox": slices.Contains(o.Policy.Filesystem.AllowWrite, kvmDevice),
					"ceiling": slices.Contains(o.Ceiling.Filesystem.AllowWrite, kvmDevice), "plan": p.accel.Works,
				} {
					if has != yes {
						t.Errorf("the %s: KVM is %v", what, has)
					}
				}
				if e := isolation(p.kernel, p.accel, nil); e.Mechanism != c.mechanism || !strings.Contains(e.Details, c.details) {
					t.Errorf("%+v", e)
				}
			}
			if tries != 1 {
				t.Errorf("it was tried %d times", tries)
			}
			if slices.Contains(was.spec.Policy.Filesystem.AllowWrite, kvmDevice) {
				t.Error("the caller's policy has changed")
			}
			// Another process finds it, by what is kept.
			tried.Clear()
			if a, err := b.kvm(&was); err != nil || a.mechanism() != c.mechanism {
				t.Errorf("kept: %+v, %v", a, err)
			}
		})
	}
}

func TestWhatIsKeptOfKVMIsTheCallersAndOfTheSameThings(t *testing.T) {
	for name, change := range map[string]func(p *plan, file string) error{
		"another kernel":      func(p *plan, _ string) error { return os.WriteFile(p.kernel.path, []byte("other kernel"), 0o600) },
		"another QEMU":        func(p *plan, _ string) error { return os.WriteFile(p.qemu, []byte("other"), 0o600) },
		"a file of anybody's": func(_ *plan, file string) error { return os.Chmod(file, 0o622) },
		"what is no file":     func(_ *plan, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"a link": func(_ *plan, file string) error {
			return errors.Join(os.Rename(file, file+"2"), os.Symlink(file+"2", file))
		},
		"what is no description": func(_ *plan, file string) error { return os.WriteFile(file, []byte("["), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			b := Backend{device: device(t), try: func(context.Context, plan) error { return nil }}
			p := planOf(t)
			if _, err := b.accelerated(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			tried.Clear()
			if a, err := b.kvm(&p); err != nil || !a.Works {
				t.Fatalf("as it was: %+v, %v", a, err)
			}
			tried.Clear()
			file, err := p.kvmFile()
			must.Do(t, errors.Join(err, change(&p, file)))
			if a, err := b.kvm(&p); !errors.Is(err, errNotTried) || a.Works {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

func TestKVMIsNotTriedWithoutADeviceAndNothingIsKeptOfHalfATry(t *testing.T) {
	p := planOf(t)
	fails := func(context.Context, plan) error { t.Error("it was tried"); return nil }
	got, err := Backend{device: filepath.Join(t.TempDir(), "none"), try: fails}.accelerated(t.Context(), p)
	if err != nil || got.accel.Works || !strings.Contains(got.accel.Why, "there is no") {
		t.Errorf("%+v, %v", got.accel, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b := Backend{device: device(t), try: func(context.Context, plan) error { cancel(); return context.Canceled }}
	if _, err := b.accelerated(ctx, p); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := b.kvm(&p); !errors.Is(err, errNotTried) {
		t.Errorf("after half a try: %v", err)
	}
}

func TestAMachineGoesOnEmulatedWhereItBeganSo(t *testing.T) {
	yes, no := accelerator{Works: true}, accelerator{Why: "none"}
	for _, c := range []struct {
		here    accelerator
		written string
		is      string
	}{{yes, "qemu-tcg", "qemu-tcg"}, {yes, "qemu-kvm", "qemu-kvm"}, {no, "qemu-tcg", "qemu-tcg"}, {no, "qemu-kvm", "qemu-tcg"}} {
		if got := c.here.restored(c.written).mechanism(); got != c.is {
			t.Errorf("%+v with one of %s: %s", c.here, c.written, got)
		}
	}
	if e := isolation(nil, yes, &missingError{err: os.ErrNotExist}); e.Mechanism != "none" || e.FallbackReason != status.NotInBuild {
		t.Errorf("%+v", e)
	}
}
