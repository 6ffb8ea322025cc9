package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors of a process of ours, beside the streams.
const (
	heldConfig = 3 + iota
	heldReady
	heldState
	heldTTY
)

// started is a process of ours that goes on in the background.
type started struct {
	word   string   // what it is told to be
	leads  bool     // the terminal is to be its own; else the streams are the engine's, which may wait for the end of them
	tty    *os.File // nil: none
	config any      // what it is told
}

// start starts it, and waits until it has answered.
func (s *started) start(d *directory, begin func(*exec.Cmd) error) (*exec.Cmd, error) {
	config, toConfig, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer toConfig.Close()
	ready, toReady, err := os.Pipe()
	if err != nil {
		_ = config.Close()
		return nil, err
	}
	defer ready.Close()
	cmd := exec.Command("/proc/self/exe", "oci", s.word)
	if !s.leads {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	cmd.ExtraFiles = []*os.File{config, toReady, d.dir}
	if s.tty != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.tty)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: s.tty == nil || s.leads}
	err = begin(cmd)
	_, _ = config.Close(), toReady.Close()
	if err != nil {
		return nil, err
	}
	if err = json.NewEncoder(toConfig).Encode(s.config); err == nil {
		err = toConfig.Close()
	}
	var a answer
	if err == nil {
		err = json.NewDecoder(ready).Decode(&a)
	}
	if err != nil {
		err = fmt.Errorf("what holds the container ended without a word: %w", err)
	} else if a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	return cmd, nil
}

// asStarted is the beginning of such a process: where it answers, and the signals that it hears.
func asStarted() (ready *os.File, signals chan os.Signal) {
	for fd := heldConfig; fd <= heldTTY; fd++ {
		unix.CloseOnExec(fd)
	}
	signals = make(chan os.Signal, 32)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	return os.NewFile(heldReady, "ready"), signals
}
