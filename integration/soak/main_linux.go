package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideWord {
		inside(os.Args[2:])
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// options are the words of the command line.
type options struct {
	runs, atOnce, repeat int
	duration             time.Duration
	confine              string
	add                  []setup
}

func parse() *options {
	o := &options{}
	flag.IntVar(&o.runs, "runs", 1000, "runs in sequence, and as many at once, under each set of options")
	flag.IntVar(&o.atOnce, "at-once", 200, "how many are in flight together")
	flag.IntVar(&o.repeat, "repeat", 50, "how often each pair of limits is struck (0: never)")
	flag.DurationVar(&o.duration, "duration", 0, "again and again for at least so long (0: once)")
	flag.StringVar(&o.confine, "confine", "", "soak this `binary` instead of building one")
	flag.Func("add", "one more set of options, as `NAME=OPTIONS`", func(s string) error {
		name, words, found := strings.Cut(s, "=")
		if !found || name == "" {
			return errors.New("not NAME=OPTIONS")
		}
		o.add = append(o.add, setup{name: name, options: strings.Fields(words), why: "asked for"})
		return nil
	})
	flag.Parse()
	return o
}

func run() (err error) {
	o := parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected word %q\nhint: go run ./integration/soak -h", flag.Arg(0))
	}
	s, err := open(o.confine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	go s.interrupted()
	before, err := s.traces()
	if err != nil {
		return err
	}
	bad := 0
	for began, round := time.Now(), 1; round == 1 || time.Since(began) < o.duration; round++ {
		p := s.soak(append(setups, o.add...), o, func(what string) { fmt.Fprintln(os.Stderr, "soak:", what) })
		left, err := s.settle(before)
		if err != nil {
			return err
		}
		s.end(left)
		fmt.Printf("Round %d, %s.\n\n%s\n%s", round, time.Since(began).Round(time.Second), p.text(), leftText(before, left))
		bad += len(p.wrong()) + len(left)
	}
	if bad > 0 {
		return fmt.Errorf("%d things are not as they have to be", bad)
	}
	return nil
}

// interrupted ends everything, on a signal. What is in flight still ends by itself.
func (s *soak) interrupted() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	n := (<-c).(unix.Signal)
	s.supervisors.Range(func(pid, running any) bool {
		if running.(bool) {
			_ = unix.Kill(pid.(int), unix.SIGTERM)
		}
		return true
	})
	_ = s.close()
	os.Exit(128 + int(n))
}

// soak is one round.
func (s *soak) soak(list []setup, o *options, say func(string)) *page {
	p := &page{}
	for _, u := range list {
		if why := s.refused(u); why != "" {
			p.refused = append(p.refused, u.name+": "+why)
			continue
		}
		for _, flight := range []int{1, o.atOnce} {
			say(fmt.Sprintf("%s: %d runs, %d at once", u.name, o.runs, flight))
			p.batches = append(p.batches, s.batch(u, o.runs, flight))
		}
		for _, k := range strikes {
			if o.repeat > 0 {
				say(fmt.Sprintf("%s: %s, %d times", u.name, k.name, o.repeat))
				p.strikes = append(p.strikes, s.strike(u, k, o.repeat, 2*runtime.NumCPU()))
			}
		}
		// The empty cgroup of a killed supervisor is removed by the next run.
		if why := s.refused(u); why != "" {
			last := p.batches[len(p.batches)-1]
			last.wrong = append(last.wrong, "in the end: "+why)
		}
	}
	return p
}
