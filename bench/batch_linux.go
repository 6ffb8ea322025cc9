package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func measureSequence(b *bench) (*result, error) {
	return b.batches(1000, 1, 1)
}

func measureTogether(b *bench) (*result, error) {
	return b.batches(200, 200, 3)
}

// batches runs count targets, with so many in flight, and looks what is left.
func (b *bench) batches(count, flight, rounds int) (*result, error) {
	r := &result{unit: "s", base: "bwrap"}
	var peers []peer
	if b.bwrap != "" {
		peers = append(peers, b.batch("bwrap", b.bwrapped(nil, target), count, flight))
	}
	peers = append(peers, b.batch("confine", b.confined("-p standard", target), count, flight))
	// Rounds are long: none to warm up, but one run of each.
	for _, c := range []command{b.confined("-p standard", target)} {
		if _, err := b.time(&c); err != nil {
			return nil, err
		}
	}
	before, err := b.traces()
	if err != nil {
		return nil, err
	}
	for i := range peers {
		r.all = append(r.all, series{name: peers[i].name})
	}
	for range b.rounds(rounds) {
		for i := range peers {
			got, err := peers[i].take()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", peers[i].name, err)
			}
			r.all[i].readings = append(r.all[i].readings, got)
		}
	}
	left, err := b.settle(before)
	if err != nil {
		return nil, err
	}
	r.verdict = judge(left == nil)
	r.measured = "none failed, nothing left"
	if left != nil {
		r.measured = left.Error()
	}
	if base := find(r.all, "bwrap"); base != nil {
		r.measured += fmt.Sprintf("; %.2f × bwrap's time", ratio(find(r.all, "confine"), base))
	}
	r.note("Before: %s. Processes are counted as children of a subreaper above all runs.", before)
	return r, nil
}

// batch is a peer whose reading is a whole batch of runs, in seconds.
func (b *bench) batch(name string, c command, count, flight int) peer {
	return peer{name, func() (reading, error) {
		began := time.Now()
		var running []*os.Process
		var cpu time.Duration
		for started := 0; started < count || len(running) > 0; {
			if started < count && len(running) < flight {
				p, err := b.start(&c, [3]*os.File{2: b.stderr})
				if err != nil {
					return reading{}, errors.Join(err, finishAll(&c, running))
				}
				running, started = append(running, p), started+1
				continue
			}
			used, err := finish(&c, running[0])
			if running = running[1:]; err != nil {
				return reading{}, errors.Join(err, finishAll(&c, running))
			}
			cpu += used
		}
		return reading{time.Since(began).Seconds(), milliseconds(cpu)}, nil
	}}
}

func finishAll(c *command, running []*os.Process) (err error) {
	for _, p := range running {
		_, failed := finish(c, p)
		err = errors.Join(err, failed)
	}
	return err
}

// settle waits until nothing more than before is there, but not for long: what
// is gone a moment later, the kernel was just clearing away.
func (b *bench) settle(before traces) (left, err error) {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		after, err := b.traces()
		if err != nil {
			return nil, err
		}
		if left = after.beyond(before); left == nil || time.Now().After(deadline) {
			return left, nil
		}
	}
}

// orphans are processes that lost their parent in a run and came to us.
func orphans() (n int, err error) {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err == unix.ECHILD:
			return n, nil
		case err != nil:
			return n, err
		case pid == 0: // one that still runs
			live, err := childrenOf(unix.Getpid())
			return n + len(live), err
		default:
			n++ // and that was the end of it
		}
	}
}
