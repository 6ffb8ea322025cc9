package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/confine-run/confine/integration/machines/orders"
)

// ground is what all machines share.
type ground struct {
	*options
	root    string
	scratch string
	cache   *cache
	kernels map[string]*kernelFiles
	disk    string
	payload *payload
	way     func() ([]string, error)
}

func run(ctx context.Context, o *options) (err error) {
	list, err := o.chosen()
	if err != nil {
		return err
	}
	root, err := output("", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	if err := checkPrograms(); err != nil {
		return err
	}
	g := &ground{options: o, root: root[:len(root)-1]}
	g.way = sync.OnceValues(func() ([]string, error) { return g.fastest(ctx) })
	if g.scratch, err = os.MkdirTemp("", "confine-machines-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(g.scratch)) }()
	if g.cache, err = openCache(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.cache.close()) }()
	if err := g.prepare(list); err != nil {
		return err
	}
	results, err := g.all(ctx, list)
	if err != nil {
		return err
	}
	fmt.Print(pageOf(list, results))
	if o.scripts != nil {
		return nil
	}
	known, err := readKnown(g.root)
	if err != nil {
		return err
	}
	learn(known, list, results)
	return hold(g.root, known, o.write)
}

// prepare fetches and builds what the machines need, all of it at once.
func (g *ground) prepare(list []*machine) error {
	a, err := openArchive(g.cache)
	if err != nil {
		return err
	}
	g.kernels = map[string]*kernelFiles{}
	var lock sync.Mutex
	var steps []func() error
	for _, k := range kernels {
		wanted := func(m *machine) bool { return m.kernel == k.series }
		if !slices.ContainsFunc(list, wanted) {
			continue
		}
		steps = append(steps, func() error {
			files, err := fetchKernel(g.cache, a, k)
			lock.Lock()
			defer lock.Unlock()
			g.kernels[k.series] = files
			return err
		})
	}
	steps = append(steps, func() (err error) {
		g.disk, err = makeDisk(g.cache, a)
		return err
	}, func() (err error) {
		g.payload, err = build(g.root, filepath.Join(g.scratch, "payload"))
		return err
	})
	errs := make([]error, len(steps))
	var wait sync.WaitGroup
	for i, step := range steps {
		wait.Go(func() { errs[i] = step() })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil && !errors.As(err, &unavailable{}) {
			return err // a failure, whatever else is missing
		}
	}
	return errors.Join(errs...)
}

// all runs the machines, some at once, and has all failures in the error.
func (g *ground) all(ctx context.Context, list []*machine) ([]*result, error) {
	results, errs := make([]*result, len(list)), make([]error, len(list))
	free := make(chan struct{}, max(1, g.jobs))
	var wait sync.WaitGroup
	for i, m := range list {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			if results[i], errs[i] = g.one(ctx, m); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", m.name, errs[i])
				fmt.Fprintf(os.Stderr, "machines: %s failed, see the end\n", m.name)
			}
		})
	}
	wait.Wait()
	return results, errors.Join(errs...)
}

// one is a machine's result: from the cache, or by running it.
func (g *ground) one(ctx context.Context, m *machine) (*result, error) {
	scripts := slices.Concat(m.scripts...)
	if g.few && m.few != nil {
		scripts = slices.Concat(m.few...)
	}
	if g.scripts != nil {
		scripts = g.scripts
	}
	o := ordersFor(m, scripts)
	files := g.payload.files(o.Scripts)
	if m.place == orders.Container {
		files["config.json"] = filepath.Join(g.scratch, "config.json")
		if err := containerConfig(filepath.Join(g.root, "integration", "machines", "config.json"), files["config.json"]); err != nil {
			return nil, err
		}
	}
	k := g.kernels[m.kernel]
	parts := []any{o, k.version, filepath.Base(g.disk)}
	for _, f := range sortedValues(files) {
		parts = append(parts, file(f))
	}
	key, err := digest(parts...)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	how := "nothing has changed"
	path, err := g.cache.get("results", m.name+"_"+key+".json", func(path string) error {
		r, cpu, err := g.try(ctx, m, o, files, k)
		if err != nil {
			return err
		}
		how = fmt.Sprintf("%.0f s, %.0f s of CPU", time.Since(began).Seconds(), cpu.Seconds())
		text, err := json.Marshal(r)
		return errors.Join(err, os.WriteFile(path, text, 0o644))
	})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	tell(m, r, how)
	return r, nil
}

func tell(m *machine, r *result, how string) {
	counts := map[outcome]int{}
	for _, o := range r.Scripts {
		counts[o]++
	}
	what := fmt.Sprintf("%d scripts passed, %d skipped", counts[passed], counts[skipped])
	if r.Refused {
		what = "refused: " + r.Hint
	}
	fmt.Fprintf(os.Stderr, "machines: %s: %s (%s)\n", m.name, what, how)
}

// try boots the machine.
func (g *ground) try(ctx context.Context, m *machine, o *orders.Orders, files map[string]string, k *kernelFiles) (*result, time.Duration, error) {
	way, err := g.way()
	if err != nil {
		return nil, 0, err
	}
	dir := filepath.Join(g.scratch, m.name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, 0, err
	}
	initramfs := filepath.Join(dir, "initramfs")
	if err := writeInitramfs(initramfs, o, files, k, g.disk); err != nil {
		return nil, 0, err
	}
	var said []orders.Said
	machine := guest{way: way, image: k.image, initramfs: initramfs, cpus: o.CPUs, limit: limit, each: func(s orders.Said) {
		said = append(said, s)
		if g.verbose {
			fmt.Fprintf(os.Stderr, "%s: %s%s%s\n", m.name, s.Line, s.Failed, s.Report)
		}
	}}
	err = machine.boot(ctx, dir)
	r, collectErr := collect(said, o.Scripts)
	if err = errors.Join(err, collectErr); err == nil && series(r.Release) != m.kernel {
		err = fmt.Errorf("it runs Linux %s", r.Release)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w\nits console:\n%s", err, machine.console)
	}
	return r, machine.cpu, nil
}
