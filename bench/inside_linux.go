package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// insideWord begins the words by which the bench starts itself, inside and
// outside a sandbox, as the one who is measured.
const insideWord = "__inside"

func inside(words []string) int {
	var err error
	switch {
	case len(words) == 1 && words[0] == "calls":
		fmt.Println(fastestCall())
	case len(words) == 1 && words[0] == "calls-filtered":
		if err = allowAll(); err == nil {
			fmt.Println(fastestCall())
		}
	case len(words) == 1 && words[0] == firstWord && os.Getpid() == 1:
		first()
	case len(words) == 1 && words[0] == "wait":
		err = wait()
	case len(words) == 1 && words[0] == "serve":
		err = serve()
	case len(words) == 4 && words[0] == "flow":
		err = askFlow(words[1], words[2], words[3])
	case len(words) > 1 && words[0] == "named":
		err = named(words[1:])
	default:
		err = unix.EINVAL
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench inside:", err)
		return 1
	}
	return 0
}

// wait stays until the caller closes our input.
func wait() error {
	fmt.Println("here")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// fastestCall is the least time of a getppid, in nanoseconds: the best of many
// short loops, so that it isn't the time of those who disturb.
func fastestCall() float64 {
	const loops, calls = 60, 50_000
	best := time.Duration(1 << 62)
	for range loops {
		began := time.Now()
		for range calls {
			unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		}
		best = min(best, time.Since(began))
	}
	return float64(best) / calls
}

// allowAll loads the shortest filter there is, which allows everything.
func allowAll() error {
	runtime.LockOSThread()
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	program := &unix.SockFprog{Len: 1, Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(program)), 0, 0)
}

func (b *bench) calls() ([]peer, error) {
	argv := []string{b.self, insideWord, "calls"}
	peers := []peer{
		b.asked(bare, command{argv: argv}),
		b.asked("confine", b.confined("--workdir ro", argv...)),
		b.asked(allAllow, command{argv: []string{b.self, insideWord, "calls-filtered"}}),
		b.asked("confine --seccomp off", b.confined("--workdir ro --seccomp off", argv...)),
	}
	if b.bwrap != "" {
		peers = append(peers, b.asked(bwrap, b.bwrapped([]string{"--ro-bind", b.work, b.work}, argv...)))
	}
	return peers, nil
}

// asked is a peer that prints its reading itself.
func (b *bench) asked(name string, c command) peer {
	return peer{name, func() (got reading, err error) {
		text, err := b.output(&c)
		if err == nil {
			got.value, err = strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
		return got, err
	}}
}

// output is what c writes to 1.
func (b *bench) output(c *command) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	p, err := b.start(c, [3]*os.File{1: w})
	_ = w.Close()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	_, failed := b.finish(c, p)
	return string(text), errors.Join(err, failed)
}
