package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// target is the least that can be run.
const target = "/bin/true"

func (b *bench) starts() ([]peer, error) {
	// Its PATH too: each tool chain found there is a mount more.
	own := b.confined("-p standard", target)
	own.env = os.Environ()
	peers := []peer{
		b.timed(bare, command{argv: []string{target}}),
		b.timed(standard, b.confined("-p standard", target)),
		b.timed("confine (profile default)", b.confined("", target)),
		b.timed(standard+", caller's whole environment", own),
	}
	if b.against != "" {
		peers = append(peers, b.timed("the other build, -p standard", command{argv: confineWords(b.against, "-p standard", []string{target})}))
	}
	if b.bwrap == "" {
		return peers, nil
	}
	same, err := b.mountForMount("-p standard", target)
	// What is judged is the work of confining, not how many mounts were asked for.
	return append(peers, b.timed(bwrap, b.bwrapped(nil, target)), b.timed(sameMount, same)), err
}

// module is the least one: a type, a function of it, and that as _start.
const module = "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01\x07\x13\x02\x06_start\x00\x00\x06memory\x02\x00\x0a\x04\x01\x02\x00\x0b"

func modules(b *bench) ([]peer, error) {
	name := filepath.Join(b.work, "least.wasm")
	if err := os.WriteFile(name, []byte(module), 0o600); err != nil {
		return nil, err
	}
	peers := []peer{b.timed(standard, b.confined("-p standard", target)), b.timed(asModule, b.confined("-p standard --isolation wasm --allow-read "+name, name))}
	if wazero, err := exec.LookPath("wazero"); err == nil {
		peers = append(peers, b.timed("wazero run", command{argv: []string{wazero, "run", "-cachedir", filepath.Join(b.scratch, "wazero"), name}}))
	}
	return peers, nil
}

// batch compares count runs, with so many in flight. A reading is all of them, in seconds.
func batch(count, flight int) func(*bench) ([]peer, error) {
	return func(b *bench) ([]peer, error) {
		peers := []peer{b.batch(standard, b.confined("-p standard", target), count, flight)}
		if b.bwrap != "" {
			peers = append(peers, b.batch(bwrap, b.bwrapped(nil, target), count, flight))
		}
		return peers, nil
	}
}

func (b *bench) batch(name string, c command, count, flight int) peer {
	return peer{name, func() (r reading, err error) {
		began := time.Now()
		var running []*os.Process
		for started := 0; started < count || len(running) > 0; {
			if started < count && len(running) < flight && err == nil {
				p, failed := b.start(&c, [3]*os.File{})
				if err = failed; err == nil {
					running = append(running, p)
				}
				started++
				continue
			}
			if len(running) == 0 {
				break
			}
			used, failed := b.finish(&c, running[0])
			running, r.cpu, err = running[1:], r.cpu+used, errors.Join(err, failed)
		}
		r.value = time.Since(began).Seconds()
		return r, err
	}}
}
