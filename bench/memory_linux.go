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

	"golang.org/x/sys/unix"
)

func measureMemory(b *bench) (*result, error) {
	r := &result{unit: "MiB", base: "bwrap"}
	argv := []string{b.self, insideWord, "wait"}
	peers := []peer{b.resident("confine", b.confined("-p standard --workdir ro --time-limit 5m", argv...), r)}
	if b.bwrap != "" {
		peers = append(peers, b.resident("bwrap", b.bwrapped([]string{"--ro-bind", b.work, b.work}, argv...), r))
	}
	var err error
	if r.all, err = inTurns(peers, b.rounds(5)); err != nil {
		return nil, err
	}
	s := find(r.all, "confine").values()
	r.measured, r.verdict = fmt.Sprintf("%.1f MiB", s.median), judge(s.median <= 6)
	r.note("PSS, a second after the start of a target that waits: both processes, without the target.")
	return r, nil
}

// settled is when a run that does nothing needs no more memory.
const settled = time.Second

// resident is a peer that is judged by the memory of its own processes, all but
// the last of the chain that it starts.
func (b *bench) resident(name string, c command, r *result) peer {
	return peer{name, func() (reading, error) {
		in, err := newPipe()
		if err != nil {
			return reading{}, err
		}
		out, err := newPipe()
		if err != nil {
			return reading{}, err
		}
		p, err := b.start(&c, [3]*os.File{in.r, out.w, b.stderr})
		_ = in.r.Close()
		_ = out.w.Close()
		if err != nil {
			return reading{}, err
		}
		_, err = out.r.Read(make([]byte, 16)) // the target is there
		var total int64
		if err == nil {
			time.Sleep(settled)
			total, err = memoryOf(p.Pid, r)
		}
		_ = in.w.Close()
		_, failed := finish(&c, p)
		_ = out.r.Close()
		return reading{value: float64(total) / (1 << 20)}, errors.Join(err, failed)
	}}
}

// memory is that of what carries the bytes.
func (one *way) memory(r *result) (reading, error) {
	time.Sleep(settled)
	pids, err := one.carriers()
	if err != nil {
		return reading{}, err
	}
	total, err := allOf(pids, r)
	return reading{value: float64(total) / (1 << 20)}, err
}

// memoryOf adds up pid and its descendants, but those without children: the target.
func memoryOf(pid int, r *result) (total int64, err error) {
	pids, err := parents(pid)
	if err != nil {
		return 0, err
	}
	return allOf(pids, r)
}

// allOf adds up processes.
func allOf(pids []int, r *result) (total int64, err error) {
	for _, pid := range pids {
		n, failed := proportional(pid, r)
		total, err = total+n, errors.Join(err, failed)
	}
	return total, err
}

// proportional is a process's PSS, or what comes nearest.
func proportional(pid int, r *result) (total int64, err error) {
	if total, err = pss(pid); errors.Is(err, unix.EACCES) {
		// Not dumpable, and we are an ordinary user.
		total, err = rss(pid)
		if len(r.notes) == 0 {
			r.note("As an ordinary user only RSS can be had of the PID 1 inside, which counts shared pages in full.")
		}
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

func rss(pid int) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of %d: %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
