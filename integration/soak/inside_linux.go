package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// insideWord begins the words by which this program starts itself as a target.
const insideWord = "__inside"

// atMost is when a target ends that nobody ends.
const atMost = 20 * time.Second

// mostTasks is what a target may start.
const mostTasks = 64

// tricks are words of a target's beside those of package attempts.
var tricks = []attempts.Try{
	{Name: "exit", Args: 1, Do: func(a []string) error { os.Exit(int(attempts.Number(a[0]))); return nil }},
	{Name: "leave", Do: leave},
	{Name: "onterm", Do: onTerm}, // what follows is done on SIGTERM
	{Name: "crowd", Do: crowd},
	{Name: "forks", Do: forks},
	{Name: "sh", Args: 1, Do: func(a []string) error { return unix.Exec("/bin/sh", []string{"sh", "-c", a[0]}, os.Environ()) }},
}

// inside is a target.
func inside(words []string) {
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 20, Max: 20})
	time.AfterFunc(atMost, func() { os.Exit(99) })
	for i, w := range words {
		words[i] = strings.Replace(w, "$TMPDIR", os.TempDir(), 1)
	}
	attempts.Main(words, tricks)
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

func onTerm([]string) error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTERM)
	<-c
	return nil
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
