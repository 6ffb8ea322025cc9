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
	warm := b.confined("-p standard", target)
	peers := []peer{b.batch("confine", warm, count, flight)}
	if b.bwrap != "" {
		peers = append(peers, b.batch("bwrap", b.bwrapped(nil, target), count, flight))
	}
	if _, err := b.time(&warm); err != nil { // rounds are long: one run will do
		return nil, err
	}
	if _, err := orphans(); err != nil {
		return nil, err
	}
	before, err := b.traces()
	if err != nil {
		return nil, err
	}
	r.all = make([]series, len(peers))
	outlived := 0
	for range min(b.rounds(rounds), rounds) { // each is many runs already
		for i, p := range peers {
			r.all[i].name = p.name
			got, err := p.take()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			r.all[i].readings = append(r.all[i].readings, got)
			n, err := orphans()
			if err != nil {
				return nil, err
			}
			if p.name == "confine" {
				outlived += n
			}
		}
	}
	left, err := b.settle(before)
	if err != nil {
		return nil, err
	}
	if outlived > 0 {
		left = errors.Join(left, fmt.Errorf("%d processes outlived their run", outlived))
	}
	r.measured, r.verdict = "none failed, nothing left", judge(left == nil)
	if left != nil {
		r.measured = left.Error()
	}
	if base := find(r.all, "bwrap"); base != nil {
		r.measured += fmt.Sprintf("; %.2f × bwrap's time", ratio(find(r.all, "confine"), base))
	}
	r.note("Counted before and after: %s. A process that outlives its run comes to a subreaper above all runs.", before)
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
		if c.argv[0] == b.bwrap {
			cpu = 0 // it doesn't wait for what it starts
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

// orphans counts the processes that lost their parent in a run and came to us,
// and waits for their end.
func orphans() (n int, err error) {
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		switch err {
		case nil:
			n++
		case unix.ECHILD:
			return n, nil
		case unix.EINTR:
		default:
			return n, err
		}
	}
}
