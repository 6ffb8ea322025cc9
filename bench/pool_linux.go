package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/confine"
)

// Names of peers with pools.
const (
	pooled    = "confine, a pool by the Go API"
	overHTTP  = "confine serve, a pool by HTTP"
	emptyHTTP = "confine serve, a request for nothing"
	poolInit  = "a parked sandbox"
	forked    = "a fork of 1 GiB"
	forkEmpty = "a fork of nothing"
	opened    = "an open"
)

// shortest is a program of a few instructions that ends well: what is measured is not its own start.
func (b *bench) shortest() (string, error) {
	code := map[string]string{
		"amd64": "\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05",             // exit(0)
		"arm64": "\xa8\x0b\x80\xd2\x00\x00\x80\xd2\x01\x00\x00\xd4", // the same
	}[runtime.GOARCH]
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[runtime.GOARCH]
	if code == "" {
		return "", errors.New("no program for " + runtime.GOARCH)
	}
	const base, head, segment = 0x400000, 64, 56
	put := binary.LittleEndian
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, head+segment-7)...)
	put.PutUint16(elf[16:], 2) // ET_EXEC
	put.PutUint16(elf[18:], machine)
	put.PutUint32(elf[20:], 1)
	put.PutUint64(elf[24:], base+head+segment) // where it begins
	put.PutUint64(elf[32:], head)              // where the segments are
	put.PutUint16(elf[52:], head)
	put.PutUint16(elf[54:], segment)
	put.PutUint16(elf[56:], 1)
	size := uint64(head + segment + len(code))
	for i, word := range []uint64{1 | 5<<32, 0, base, base, size, size, 0x1000} { // PT_LOAD, read and execute
		put.PutUint64(elf[head+8*i:], word)
	}
	name := filepath.Join(b.work, "shortest")
	return name, os.WriteFile(name, append(elf, code...), 0o755)
}

// profileOf is the one of the pools that are compared: "standard", and the program.
func (b *bench) profileOf() (*confine.Policy, error) {
	policy, err := confine.Profile("standard")
	if err != nil {
		return nil, err
	}
	policy.Filesystem.Workdir, policy.Filesystem.AllowRead = "none", []string{b.work}
	return policy, nil
}

// briefly gives this process the environment that commands have, since the Go API takes what it finds.
func (b *bench) briefly() (undo func()) {
	set := func(all []string) {
		os.Clearenv()
		for _, e := range all {
			name, value, _ := strings.Cut(e, "=")
			_ = os.Setenv(name, value)
		}
	}
	old := os.Environ()
	set(b.env)
	return func() { set(old) }
}

// pool is one of the Go API's, ended after the measurement.
func (b *bench) pool(min, max int) (*confine.Pool, error) {
	policy, err := b.profileOf()
	if err != nil {
		return nil, err
	}
	defer b.briefly()()
	p, err := confine.NewPool(context.Background(), policy, confine.PoolOptions{Min: min, Max: max})
	if err == nil {
		b.undo = append(b.undo, p.Close)
	}
	return p, err
}

// full waits until so many are ready, and the builder has come to rest.
func full(ready func() (int, error), n int) error {
	for until := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		have, err := ready()
		switch {
		case err != nil:
			return err
		case have >= n:
			time.Sleep(30 * time.Millisecond)
			return nil
		case time.Now().After(until):
			return fmt.Errorf("%d sandboxes are ready after a minute, of %d", have, n)
		}
	}
}

func readyOf(p *confine.Pool) func() (int, error) {
	return func() (int, error) { return p.Stats().Ready, nil }
}

// parkedRun is one run of a pool's.
func parkedRun(p *confine.Pool, target string) error {
	_, err := p.Command(target).Run()
	return err
}

const parkedEach = 4 // sandboxes of a pool of which one is used at a time

// parked compares single runs.
func (b *bench) parked() ([]peer, error) {
	program, err := b.shortest()
	if err != nil {
		return nil, err
	}
	p, err := b.pool(parkedEach, parkedEach)
	if err != nil {
		return nil, err
	}
	api, err := b.servePool(parkedEach)
	if err != nil {
		return nil, err
	}
	bothFull := func() error { return errors.Join(full(readyOf(p), parkedEach), full(api.ready, parkedEach)) }
	rested := func(name string, do func() error) peer { return took(name, time.Millisecond, do).after(bothFull) }
	started := func(c command) func() error {
		return func() error {
			process, err := b.start(&c, [3]*os.File{})
			if err == nil {
				_, err = b.finish(&c, process)
			}
			return err
		}
	}
	peers := []peer{
		rested(bare, started(command{argv: []string{program}})),
		rested(pooled, func() error { return parkedRun(p, program) }),
		rested(overHTTP, func() error { return api.run(program) }),
		rested(emptyHTTP, func() error { _, err := api.get("version"); return err }),
	}
	if b.bwrap != "" {
		peers = append(peers, rested(bwrap, started(b.bwrapped([]string{"--ro-bind", b.work, b.work}, program))))
	}
	return peers, nil
}

// api is a server of confine's, and a client of it.
type api struct{ http.Client }

// servePool starts one with a pool.
func (b *bench) servePool(n int) (*api, error) {
	home := filepath.Join(b.scratch, "home", ".config", "confine")
	text := fmt.Sprintf("[sandbox.profiles.bench]\nextends = \"standard\"\n[sandbox.profiles.bench.filesystem]\nallow_read = [%q]\n", b.work)
	socket := filepath.Join(b.scratch, "run", "bench.sock")
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(filepath.Join(home, "confine.toml"), []byte(text), 0o600)); err != nil {
		return nil, err
	}
	c := command{argv: []string{b.confine, "serve", "--listen", "unix:" + socket, "--pool", fmt.Sprintf("bench=%d:%d", n, n)}}
	p, err := b.start(&c, [3]*os.File{})
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, func() {
		_ = p.Signal(os.Interrupt)
		_, _ = p.Wait()
	})
	a := &api{http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}}
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err = a.get("version"); err == nil || time.Now().After(until) {
			return a, err
		}
	}
}

func (a *api) answer(r *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, body)
	}
	return body, err
}

func (a *api) get(path string) ([]byte, error) { return a.answer(a.Get("http://confine/v1/" + path)) }

func (a *api) ready() (int, error) {
	body, err := a.get("pools")
	var d struct {
		Pools []struct {
			Ready int `json:"ready"`
		}
	}
	if err == nil {
		err = json.Unmarshal(body, &d)
	}
	least := -1
	for _, p := range d.Pools {
		if least < 0 || p.Ready < least {
			least = p.Ready // nothing is to be built while something is measured
		}
	}
	if err == nil && least < 0 {
		err = errors.New("no pool")
	}
	return least, err
}

func (a *api) run(program string) error {
	body := fmt.Sprintf(`{"argv": [%q], "policy": {"profile": "bench"}}`, program)
	text, err := a.answer(a.Post("http://confine/v1/runs", "application/json", strings.NewReader(body)))
	if err == nil && !strings.Contains(string(text), `"status":"OK"`) {
		err = errors.New(string(text))
	}
	return err
}

// burst compares count runs, so many in flight, out of a pool of such a size. A reading is all of them, in seconds.
func burst(count, flight, size int) func(*bench) ([]peer, error) {
	return func(b *bench) ([]peer, error) {
		program, err := b.shortest()
		if err != nil {
			return nil, err
		}
		p, err := b.pool(size, max(size, flight))
		if err != nil {
			return nil, err
		}
		ready := func() error { return full(readyOf(p), size) }
		own := took(pooled, time.Second, func() error {
			return together(count, flight, func() error { return parkedRun(p, program) })
		}).after(ready)
		if b.bwrap == "" {
			return []peer{own}, nil
		}
		other := b.batch(bwrap, b.bwrapped([]string{"--ro-bind", b.work, b.work}, program), count, flight)
		return []peer{own, other.after(ready)}, nil
	}
}

// together does something so often, so much of it at once.
func together(count, flight int, do func() error) (err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, flight)
	for range count {
		room <- struct{}{}
		group.Go(func() {
			failed := do()
			mu.Lock()
			err = errors.Join(err, failed)
			mu.Unlock()
			<-room
		})
	}
	group.Wait()
	return err
}

// atOnce opens sandboxes all at one time, with none parked, and closes them. A reading is how long until all stood, in seconds.
func atOnce(count int) func(*bench) ([]peer, error) {
	return func(b *bench) ([]peer, error) {
		policy, err := b.profileOf()
		if err != nil {
			return nil, err
		}
		return []peer{{pooled, func() (r reading, err error) {
			defer b.briefly()()
			boxes := make(chan *confine.Sandbox, count)
			began := time.Now()
			err = together(count, count, func() error {
				box, err := confine.Open(context.Background(), policy)
				if err == nil {
					boxes <- box
				}
				return err
			})
			r.value = time.Since(began).Seconds()
			close(boxes)
			for box := range boxes {
				_, failed := box.Close()
				err = errors.Join(err, failed)
			}
			return r, err
		}}}, nil
	}
}

// forks compares forks of sandboxes with opening one.
func (b *bench) forks() ([]peer, error) {
	policy, err := b.profileOf()
	if err != nil {
		return nil, err
	}
	policy.MemoryLimit, policy.DiskLimit, policy.MaxFileSize = 4<<30, 2<<30, 1<<30
	defer b.briefly()()
	source := func(files int) (*confine.Sandbox, error) {
		box, err := confine.Open(context.Background(), policy)
		if err != nil {
			return nil, err
		}
		b.undo = append(b.undo, func() { _, _ = box.Close() })
		text := bytes.Repeat([]byte("confine\n"), 2<<20)
		for i := range files {
			err = errors.Join(err, box.Files().WriteFile(fmt.Sprintf("/tmp/%d", i), text, 0o644))
		}
		return box, err
	}
	full, err := source(64)
	if err != nil {
		return nil, err
	}
	empty, err := source(0)
	if err != nil {
		return nil, err
	}
	timed := func(name string, open func() (*confine.Sandbox, error)) peer {
		return peer{name, func() (r reading, err error) {
			defer b.briefly()()
			began := time.Now()
			box, err := open()
			r.value = milliseconds(time.Since(began))
			if err == nil {
				_, err = box.Close()
			}
			return r, err
		}}
	}
	fork := func(box *confine.Sandbox) func() (*confine.Sandbox, error) {
		return func() (*confine.Sandbox, error) { return box.Fork(context.Background()) }
	}
	return []peer{timed(opened, func() (*confine.Sandbox, error) { return confine.Open(context.Background(), policy) }),
		timed(forkEmpty, fork(empty)), timed(forked, fork(full))}, nil
}

// poolMemory is what one of many that are parked takes: its PID 1, and what this process has grown by.
func poolMemory(count int) func(*bench) ([]peer, error) {
	return func(b *bench) ([]peer, error) {
		if os.Geteuid() != 0 {
			return nil, nil // as in memory
		}
		return []peer{{poolInit, func() (r reading, err error) {
			runtime.GC()
			before, err := pss(os.Getpid())
			if err != nil {
				return r, err
			}
			p, err := b.pool(count, count)
			if err == nil {
				err = full(readyOf(p), count)
			}
			if err != nil {
				return r, err
			}
			defer p.Close()
			time.Sleep(settled)
			runtime.GC()
			after, err := pss(os.Getpid())
			if err != nil {
				return r, err
			}
			total := after - before
			inits, err := childrenOf(os.Getpid())
			for _, pid := range inits {
				one, failed := pss(pid)
				err = errors.Join(err, failed)
				total += one
			}
			if err == nil && len(inits) != count {
				err = fmt.Errorf("%d children, of %d", len(inits), count)
			}
			r.value = float64(total) / float64(count) / (1 << 20)
			return r, err
		}}}, nil
	}
}
