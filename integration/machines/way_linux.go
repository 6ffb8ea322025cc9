package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/confine-run/confine/integration/machines/orders"
)

// tooLong is how long a machine with KVM may take to start and say so.
const tooLong = 8 * time.Second

// fastest is KVM where a machine starts with it: that the device is there, and
// answers, doesn't mean that a kernel runs.
func (g *ground) fastest(ctx context.Context) ([]string, error) {
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return emulated, nil
	}
	dir := filepath.Join(g.scratch, "kvm")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	k := g.kernels[slices.Sorted(maps.Keys(g.kernels))[0]]
	initramfs := filepath.Join(dir, "initramfs")
	files := map[string]string{"guest": filepath.Join(g.payload.dir, "guest")}
	if err := writeInitramfs(initramfs, &orders.Orders{Place: orders.Nowhere}, files, k, ""); err != nil {
		return nil, err
	}
	started := false
	began := time.Now()
	try := guest{way: virtual, image: k.image, initramfs: initramfs, cpus: 1, limit: tooLong, each: func(s orders.Said) { started = s.Done }}
	if err := try.boot(ctx, dir); err != nil || !started {
		fmt.Fprintf(os.Stderr, "machines: no machine starts with KVM: emulated (%.1f s)\n", time.Since(began).Seconds())
		return emulated, nil
	}
	return virtual, nil
}

func sortedValues(m map[string]string) (values []string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}
