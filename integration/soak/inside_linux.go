package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// insideWord begins the words by which this program starts itself as a target.
const insideWord = "__inside"

// atMost is when a target ends that nobody ends.
const atMost = 20 * time.Second

// most that a word may ask for.
const (
	mostMiB   = 256
	mostBytes = 64 << 20
	mostTasks = 64
)

// inside does one word after the other, and then exits 0.
func inside(words []string) int {
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 20, Max: 20})
	time.AfterFunc(atMost, func() { os.Exit(99) })
	for len(words) > 0 {
		do, ok := tricks[words[0]]
		if !ok || len(words) < 1+do.args {
			fmt.Fprintf(os.Stderr, "soak inside: %q\n", words)
			return 98
		}
		args := words[1 : 1+do.args]
		words = words[1+do.args:]
		if err := do.do(args); err != nil {
			fmt.Fprintln(os.Stderr, "soak inside:", err)
			return 97
		}
	}
	return 0
}

type trick struct {
	args int
	do   func([]string) error
}

var tricks = map[string]trick{
	"exit":   {1, exit},
	"leave":  {0, leave},
	"deaf":   {0, deaf},
	"onterm": {0, onTerm}, // what follows is done on SIGTERM
	"noise":  {1, noise},  // BYTES
	"fill":   {1, fill},   // BYTES into a file in TMPDIR
	"grow":   {2, grow},   // MILLISECONDS MIB: after so long, and held
	"spin":   {0, func([]string) error { spin(); return nil }},
	"crowd":  {0, crowd},
	"forks":  {0, forks},
	"sh":     {1, func(a []string) error { return unix.Exec("/bin/sh", []string{"sh", "-c", a[0]}, os.Environ()) }},
}

func number(word string, most int) (int, error) {
	n, err := strconv.Atoi(word)
	return min(n, most), err
}

func exit(args []string) error {
	n, err := number(args[0], 255)
	if err == nil {
		os.Exit(n)
	}
	return err
}

// leave starts what would outlive us, and leaves files.
func leave([]string) error {
	for _, session := range []bool{false, true} {
		cmd := exec.Command("/bin/sleep", strconv.Itoa(int(atMost/time.Second)))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	var err error
	for i := range 10 {
		err = errors.Join(err, os.WriteFile(filepath.Join(os.TempDir(), "left"+strconv.Itoa(i)), make([]byte, 1000), 0o600))
	}
	return err
}

func deaf([]string) error {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	time.Sleep(atMost)
	return nil
}

func onTerm([]string) error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTERM)
	<-c
	return nil
}

func noise(args []string) error {
	left, err := number(args[0], mostBytes)
	line := bytes.Repeat([]byte("soak "), 1000)
	for err == nil && left > 0 {
		var n int
		n, err = os.Stdout.Write(line[:min(left, len(line))])
		left -= n
	}
	return err
}

// fill writes until it has to stop.
func fill(args []string) error {
	n, err := number(args[0], mostBytes)
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(os.TempDir(), "full"), make([]byte, n), 0o600)
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return err
}

// grow takes memory, and keeps it.
func grow(args []string) error {
	after, err := number(args[0], 10_000)
	if err != nil {
		return err
	}
	size, err := number(args[1], mostMiB)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(after) * time.Millisecond)
	for range size {
		page, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		for i := 0; i < len(page); i += 4096 {
			page[i] = 1
		}
	}
	time.Sleep(atMost)
	return nil
}

func spin() {
	for end := time.Now().Add(atMost); time.Now().Before(end); {
	}
}

// warm makes the threads that Go may want later, when there are none to be had and
// it would die of that.
func warm() {
	var done sync.WaitGroup
	for range 5 {
		done.Go(func() {
			pause := unix.NsecToTimespec(int64(50 * time.Millisecond))
			_ = unix.Nanosleep(&pause, nil) // in the kernel, each on a thread of its own
		})
	}
	done.Wait()
}

// crowd lets a process of its own ask for more tasks than there may be.
func crowd([]string) error {
	warm()
	return exec.Command("/proc/self/exe", insideWord, "forks").Start()
}

// forks takes every task that it gets, and keeps asking.
func forks([]string) error {
	warm()
	for end, n := time.Now().Add(atMost), 0; time.Now().Before(end); {
		if n == mostTasks {
			time.Sleep(atMost)
		}
		if exec.Command("/bin/sleep", "15").Start() != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		n++
	}
	return nil
}
