package cli

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interruption is a signal that comes while changes are applied. Before the commit it
// ends the apply, and nothing was changed; afterwards the apply goes on to its end, and says
// so. A second signal does what it always does, and whoever comes next finishes the work.
type interruption struct {
	say     func(string)
	stopped chan struct{} // closed when there is one

	mu        sync.Mutex
	sig       os.Signal
	committed bool
	told      bool
}

// watchSignals begins to note signals, those aside that the caller had us ignore (nohup).
func watchSignals(say func(string)) (in *interruption, stop func()) {
	in = &interruption{say: say, stopped: make(chan struct{})}
	var watched []os.Signal
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			watched = append(watched, sig)
		}
	}
	if watched == nil { // to Notify none are all
		return in, func() {}
	}
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, watched...)
	go func() {
		select {
		case sig := <-signals:
			signal.Reset(watched...)
			in.came(sig)
		case <-done:
		}
	}()
	return in, func() { signal.Stop(signals); close(done) }
}

func (in *interruption) came(sig os.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.sig == nil && in.stopped != nil {
		close(in.stopped)
	}
	in.sig = sig
	in.tell()
}

// stop is the error that the signal is, if there was one.
func (in *interruption) stop() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.sig == nil {
		return nil
	}
	return &interruptedError{in.sig}
}

func (in *interruption) commit() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.committed = true
	in.tell()
}

// tell says once that the signal is too late, under the lock.
func (in *interruption) tell() {
	if in.sig == nil || !in.committed || in.told {
		return
	}
	in.told = true
	in.say(signalName(in.sig) + ": the changes are committed, and are being applied to the end" +
		"\nhint: should that be killed too, the next confine diff, apply or discard finishes it")
}

type interruptedError struct{ sig os.Signal }

func (e *interruptedError) Error() string {
	return signalName(e.sig) + ": stopped before the commit, nothing was changed\nhint: the run is kept: confine apply begins again"
}

// rc is that of a program that the signal ended.
func (e *interruptedError) rc() int {
	if n, ok := e.sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return rcProblem
}

func signalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return fmt.Sprint(sig)
}
