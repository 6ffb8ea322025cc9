package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// shortest is what the kernel takes for having a filter to look at.
const shortest = "no sandbox, a filter of one instruction"

func measureCalls(b *bench) (*result, error) {
	r := &result{unit: "ns", base: "bare"}
	argv := []string{b.self, insideWord, "calls"}
	peers := []peer{
		b.asked("bare", command{argv: argv}),
		b.asked("confine", b.confined("--workdir ro", argv...)),
		b.asked(shortest, command{argv: []string{b.self, insideWord, "calls-filtered"}}),
		b.asked("confine --seccomp off", b.confined("--workdir ro --seccomp off", argv...)),
	}
	if b.bwrap != "" {
		peers = append(peers, b.asked("bwrap", b.bwrapped([]string{"--ro-bind", b.work, b.work}, argv...)))
	}
	var err error
	if r.all, err = inTurns(peers, b.rounds(15)); err != nil {
		return nil, err
	}
	more := difference(find(r.all, "confine"), find(r.all, "bare"))
	floor := difference(find(r.all, shortest), find(r.all, "bare"))
	r.measured, r.verdict = fmt.Sprintf("%+.1f ns, %+.1f of it by any filter at all", more, floor), judge(more <= 10)
	r.note("The best of 60 loops of 50,000 calls, each time. Any filter at all, even one that allows everything "+
		"in one instruction, costs %+.1f ns on this host; confine's costs %+.1f ns more than that.", floor, more-floor)
	return r, nil
}

// asked is a peer that prints its reading itself.
func (b *bench) asked(name string, c command) peer {
	return peer{name, func() (reading, error) {
		text, err := b.output(&c)
		if err != nil {
			return reading{}, err
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return reading{value: value}, err
	}}
}

// output is what c writes to 1.
func (b *bench) output(c *command) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	p, err := b.start(c, [3]*os.File{1: w, 2: b.stderr})
	_ = w.Close()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	if _, failed := finish(c, p); failed != nil {
		return "", failed
	}
	return string(text), err
}
