package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// execWord is how this program is told to stand for a process in a container: it has that one's number outside, its streams and its end.
const execWord = "__exec"

// stands is what it is started with.
type stands struct {
	Order order
	Leads bool // heldTTY is to be its own
}

// start starts a process in a container, and what stands for it, in the background.
func (x *stands) start(d *directory, tty *os.File) (*exec.Cmd, error) {
	s := started{word: execWord, leads: x.Leads, config: x}
	if x.Order.TTY {
		s.tty = tty
	}
	return s.start(d, func(cmd *exec.Cmd) error { return cmd.Start() })
}

// stand stands for a process in a container.
func stand() int {
	ready, signals := asStarted()
	var x stands
	code, err := x.run(ready, signals)
	if err != nil {
		_ = json.NewEncoder(ready).Encode(answer{Error: err.Error()})
		return 1
	}
	return code
}

func (x *stands) run(ready *os.File, signals <-chan os.Signal) (int, error) {
	if err := json.NewDecoder(os.NewFile(heldConfig, "config")).Decode(x); err != nil {
		return 0, err
	}
	streams := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	var tty *os.File
	if x.Order.TTY {
		tty = os.NewFile(heldTTY, "terminal")
		if x.Leads {
			if err := control(tty); err != nil {
				return 0, err
			}
		}
		streams = []*os.File{tty, tty, tty}
		x.Order.Rows, x.Order.Cols = sizeOf(tty)
	}
	l, err := (&directory{dir: os.NewFile(heldState, "state")}).dial()
	if err != nil {
		return 0, err
	}
	defer l.Close()
	var a answer
	if err = l.send(&x.Order, streams...); err == nil {
		err = l.in.Decode(&a)
	}
	if err != nil {
		return 0, errNotRunning
	}
	if a.Error != "" {
		return 0, errors.New(a.Error)
	}
	_ = json.NewEncoder(ready).Encode(a)
	_ = ready.Close()
	go func() {
		for sig := range signals {
			o := order{Op: opKill, Signal: int(sig.(syscall.Signal))}
			if sig == unix.SIGWINCH {
				if tty == nil {
					continue
				}
				o.Op = opResize
				o.Rows, o.Cols = sizeOf(tty)
			}
			_ = l.send(o)
		}
	}()
	if err := l.in.Decode(&a); err != nil || a.Exit == nil {
		return 128 + int(unix.SIGKILL), nil // the container has ended, and it with that
	}
	if a.Reason != "" {
		fmt.Fprintln(streams[2], "confine oci:", a.Reason)
	}
	return *a.Exit, nil
}
