package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func (b *bench) memory() ([]peer, error) {
	if os.Geteuid() != 0 {
		return nil, nil // the PID 1 inside is not dumpable: only root may read its PSS
	}
	argv := []string{b.self, insideWord, "wait"}
	peers := []peer{b.resident(standard, b.confined("-p standard --workdir ro --time-limit 5m", argv...))}
	if b.bwrap != "" {
		peers = append(peers, b.resident(bwrap, b.bwrapped([]string{"--ro-bind", b.work, b.work}, argv...)))
	}
	return peers, nil
}

// settled is when a run that does nothing needs no more memory.
const settled = time.Second

// resident is a peer that is judged by the memory, in MiB, of its own processes: all of
// the chain that it starts but the last, which waits for the end of its input.
func (b *bench) resident(name string, c command) peer {
	return peer{name, func() (got reading, err error) {
		in, until, err := os.Pipe()
		if err != nil {
			return got, err
		}
		here, out, err := os.Pipe()
		if err != nil {
			return got, err
		}
		defer here.Close()
		p, err := b.start(&c, [3]*os.File{in, out})
		_ = in.Close()
		_ = out.Close()
		if err != nil {
			return got, err
		}
		if _, err = here.Read(make([]byte, 16)); err == nil { // the target is there
			time.Sleep(settled)
			var total int64
			total, err = memoryOf(p.Pid)
			got.value = float64(total) / (1 << 20)
		}
		_ = until.Close()
		_, failed := b.finish(&c, p)
		return got, errors.Join(err, failed)
	}}
}

// memoryOf adds up pid and its descendants, but those without children: the target.
func memoryOf(pid int) (total int64, err error) {
	below, err := childrenOf(pid)
	if err != nil || len(below) == 0 {
		return 0, err
	}
	total, err = pss(pid)
	for _, child := range below {
		n, failed := memoryOf(child)
		total, err = total+n, errors.Join(err, failed)
	}
	return total, err
}

func childrenOf(pid int) (list []int, err error) {
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, f := range files {
		text, failed := os.ReadFile(f)
		if failed != nil {
			continue // a thread that has ended
		}
		for _, word := range strings.Fields(string(text)) {
			child, failed := strconv.Atoi(word)
			list, err = append(list, child), errors.Join(err, failed)
		}
	}
	return list, err
}

func pss(pid int) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if after, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			kib, err := strconv.ParseInt(string(bytes.Fields(after)[0]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no Pss in smaps_rollup of %d", pid)
}
