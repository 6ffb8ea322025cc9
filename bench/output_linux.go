package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// volume is what is written.
const volume = 1 << 30

func measureRelay(b *bench) (*result, error) {
	r := &result{unit: "GiB/s", base: "bare"}
	writer := []string{b.self, insideWord, "write", strconv.Itoa(volume)}
	peers := []peer{
		b.piped("bare", command{argv: writer}),
		b.piped("confine", b.confined("--workdir ro --output-limit none", writer...)),
	}
	if b.bwrap != "" {
		peers = append(peers, b.piped("bwrap", b.bwrapped([]string{"--ro-bind", b.work, b.work}, writer...)))
	}
	r.note("`writer | reader` with 64K at once, start-up and end included. bwrap lets the writer have the caller's pipe itself, and knows no cap.")
	return r, r.compare(peers, b.rounds(10), "confine", atLeast(0.8))
}

// piped is a peer that is judged by how fast its output reaches a reader.
func (b *bench) piped(name string, writer command) peer {
	reader := command{argv: []string{b.self, insideWord, "read"}}
	return peer{name, func() (reading, error) {
		between, err := newPipe()
		if err != nil {
			return reading{}, err
		}
		counted, err := newPipe()
		if err != nil {
			return reading{}, err
		}
		defer counted.r.Close()
		began := time.Now()
		to, err := b.start(&reader, [3]*os.File{between.r, counted.w, b.stderr})
		_ = counted.w.Close()
		_ = between.r.Close()
		if err != nil {
			return reading{}, err
		}
		from, err := b.start(&writer, [3]*os.File{1: between.w, 2: b.stderr})
		_ = between.w.Close()
		if err != nil {
			return reading{}, err
		}
		text, err := io.ReadAll(counted.r)
		took := time.Since(began)
		if err != nil {
			return reading{}, err
		}
		for c, p := range map[*command]*os.Process{&reader: to, &writer: from} {
			if _, err := finish(c, p); err != nil {
				return reading{}, err
			}
		}
		if got := strings.TrimSpace(string(text)); got != strconv.Itoa(volume) {
			return reading{}, fmt.Errorf("%s of %d bytes arrived", got, volume)
		}
		return rate(took), nil
	}}
}

func rate(took time.Duration) reading {
	return reading{value: float64(volume) / (1 << 30) / took.Seconds()}
}

type pipe struct{ r, w *os.File }

func newPipe() (p pipe, err error) {
	p.r, p.w, err = os.Pipe()
	return p, err
}

func measureDrop(b *bench) (*result, error) {
	r := &result{unit: "GiB/s", base: "bare, to /dev/null through a reader", verdict: noAim}
	writer := []string{b.self, insideWord, "write", strconv.Itoa(volume)}
	capped := b.confined("--workdir ro --output-limit 1M --log quiet", writer...)
	bare := b.piped(r.base, command{argv: writer})
	dropped := peer{"confine --output-limit 1M", func() (reading, error) {
		began := time.Now()
		p, err := b.start(&capped, [3]*os.File{2: b.stderr})
		if err == nil {
			_, err = finish(&capped, p)
		}
		return rate(time.Since(began)), err
	}}
	if err := r.compare([]peer{bare, dropped}, b.rounds(10), dropped.name, atLeast(0)); err != nil {
		return nil, err
	}
	r.verdict = noAim
	r.measured = fmt.Sprintf("%.1f GiB/s", find(r.all, dropped.name).values().median)
	return r, nil
}
