package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/internal/attempts"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/supervisor"
)

// Word is the first argument of every process of the self-test.
const Word = "__attempt"

// mark is in the environment of those that the self-test started. Typed by hand
// the word does nothing.
const mark = "_CONFINE_SELFTEST"

// What is no single attempt.
const (
	driveWord = "drive" // runs the attempts; the order comes on descriptor 0, results go to 1
	holdWord  = "hold"  // runs one, and is killed meanwhile
)

// holding is what holdWord is told.
type holding struct {
	Policy config.Policy
	Argv   []string
	Dir    string
}

// Main is a process of the self-test, if this one was started as that. It returns
// otherwise.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != Word {
		return
	}
	if os.Getenv(mark) == "" || len(os.Args) < 3 {
		fmt.Fprintf(os.Stderr, "[confine] %s is internal, and does nothing by itself\n", Word)
		os.Exit(125)
	}
	words := os.Args[2:]
	var err error
	switch words[0] {
	case driveWord:
		err = drive()
	case holdWord:
		err = hold()
	default:
		signal.Ignore(unix.SIGXFSZ) // the answer is an errno then
		attempts.Self = []string{Word}
		for i, w := range words {
			words[i] = strings.Replace(w, "$TMPDIR", os.TempDir(), 1)
		}
		attempts.Main(words)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func hold() error {
	var h holding
	if err := json.NewDecoder(os.Stdin).Decode(&h); err != nil {
		return err
	}
	_, err := process.Execute(context.Background(), &h.Policy, &process.Command{Argv: h.Argv, Dir: h.Dir}, supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1}, nil)
	return err
}

// drive makes all attempts, as many at a time as there are cores.
func drive() error {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	s, err := newScene(&o)
	if err != nil {
		return err
	}
	defer s.close()
	d := &driver{order: &o, scene: s}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if err := d.works(ctx); err != nil {
		return err
	}
	all := table()
	next := make(chan *attempt)
	var lock sync.Mutex
	out := json.NewEncoder(os.Stdout)
	var workers sync.WaitGroup
	for range max(4, min(8, runtime.NumCPU())) { // much of it is waiting
		workers.Go(func() {
			for a := range next {
				r := d.try(ctx, a)
				lock.Lock()
				err = errors.Join(err, out.Encode(&r))
				lock.Unlock()
			}
		})
	}
	// Those that wait for time to pass begin first.
	slices.SortStableFunc(all, func(a, b attempt) int { return b.rank() - a.rank() })
	for i := range all {
		if ctx.Err() == nil {
			next <- &all[i]
		}
	}
	close(next)
	workers.Wait()
	return err
}

// works: where nothing can be tried inside, nothing was held.
func (d *driver) works(ctx context.Context) error {
	got := d.confined(ctx, &attempt{name: "works", inside: "say works"})
	if got.err != nil {
		return got.err
	}
	if got.report.Stdout != "works" {
		_, why := got.judge(&attempt{})
		return fmt.Errorf("nothing can be tried inside: %s", why)
	}
	d.ledger = got.ledger
	return nil
}
