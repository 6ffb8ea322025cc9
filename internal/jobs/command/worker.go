package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/embedded"
	"github.com/confine-run/confine/internal/jobs/worker"
)

var workerUsage = `usage: confine worker --nats URL --ceiling [SUBJECTS=]NAME|FILE… [options]

Takes jobs from a queue, each into a sandbox of its own, as many as there is room for, and holds sessions ("confine session --nats URL help"). At SIGTERM it takes no more, waits for those that run,
gives back what has not ended, and ends its sessions; at a second one it doesn't wait.

  --ceiling [SUBJECTS=]NAME|FILE
                        no job's policy may be wider than this profile, or this file; "none": any may be. With SUBJECTS it is for those jobs:
                        confine.jobs.PRIORITY.ACCOUNT.>, or for sessions: confine.sessions.ACCOUNT.>, where * is any word. The first that fits counts, and
                        what none fits is refused
  --profile NAME        of jobs that name none (that of the ceiling, where it is one)
  --memory SIZE         for all jobs together (four fifths of this host's)
  --cpu PERCENT         likewise, 100 is one CPU (all)
  --tasks N             likewise (half of what this host can have)
  --jobs N              at one time (64)
  --lease D             it ends what it runs when it was cut off for so long; others take over after one and a half times as long (10s)
  --drain D             how long jobs may go on after SIGTERM (30s)
` + strings.Replace(placeUsage, "  --embedded            a queue on this host, with a worker, in a process in the background that ends when there is nothing to do\n", "", 1)

var usages = map[string]string{"submit": submitUsage, "jobs": jobsUsage, "worker": workerUsage, "session": sessionUsage}

// hired is what "worker" was told.
type hired struct {
	place
	worker.Options
	ceilings []string
	inside   bool // it has a server in its own process
	cpu      int
	tasks    int
	worker   atomic.Pointer[worker.Worker]
}

func (h *hired) option(name string) *cli.Own {
	time := func(to *time.Duration) *cli.Own {
		return &cli.Own{Set: func(word string) (err error) { *to, err = config.ParseDuration(word); return err }}
	}
	switch name {
	case "ceiling":
		return &cli.Own{Set: func(word string) error { h.ceilings = append(h.ceilings, word); return nil }}
	case "profile":
		return &cli.Own{Set: func(word string) error { h.Profile = word; return nil }}
	case "memory":
		return &cli.Own{Set: func(word string) (err error) { h.Room.Memory, err = config.ParseSize(word); return err }}
	case "cpu":
		return count(&h.cpu, 1_000_000)
	case "tasks":
		return count(&h.tasks, 1<<22)
	case "jobs":
		return count(&h.Jobs, 10_000)
	case "lease":
		return time(&h.Lease)
	case "drain":
		return time(&h.Drain)
	case "embedded", "account", "timeout":
		return nil
	}
	return h.place.option(name)
}

func work(ctx context.Context, args []string, backends func(*config.Policy) backend.Backend) (int, error) {
	h := &hired{}
	h.Backend, h.Said = backends, os.Stderr
	if len(args) == 1 && args[0] == embedded.Word {
		h.ceilings = []string{"none"} // its user's own jobs, on its user's own host
		return 0, embedded.Serve(ctx, h.holds, func(ctx context.Context, o jobs.Options, dir string) error {
			h.place.Options, h.Hidden, h.inside = o, []string{dir}, true
			return h.work(ctx)
		})
	}
	settings, rest, err := cli.ScanOwn(args, h.option)
	switch {
	case err != nil:
		return 0, err
	case len(settings) > 0:
		return 0, &config.UsageError{Msg: "--" + settings[0].Option + " is about one command, not about a worker", Hint: "a profile has it: --profile NAME, or --ceiling FILE"}
	case len(rest) > 0:
		return 0, &config.UsageError{Msg: fmt.Sprintf("unexpected word %q", rest[0]), Hint: "see: confine worker --help"}
	case len(h.ceilings) == 0:
		return 0, &config.UsageError{Msg: "no ceiling: whoever may submit could read what this user can", Hint: `--ceiling standard, a file of your own, or "none" if that is meant`}
	}
	if h.URL == "" {
		h.URL = os.Getenv("NATS_URL")
	}
	if h.URL == "" {
		return 0, &config.UsageError{Msg: "no queue is named", Hint: "--nats URL"}
	}
	for _, path := range []string{h.Creds, h.NKey, h.TokenFile, h.place.Key} {
		if path == "" {
			continue
		}
		if path, err := filepath.Abs(path); err == nil {
			h.Hidden = append(h.Hidden, path)
		}
	}
	h.Patient = true
	return 0, h.work(ctx)
}

func (h *hired) work(ctx context.Context) error {
	host := worker.HostRoom()
	h.Room.Memory = cmp.Or(h.Room.Memory, host.Memory)
	if h.Room.CPU, h.Room.Tasks = int64(h.cpu), int64(h.tasks); h.cpu == 0 {
		h.Room.CPU = host.CPU
	}
	if h.tasks == 0 {
		h.Room.Tasks = host.Tasks
	}
	h.Sources = config.Here(os.Environ(), config.SystemFile)
	h.Environ = config.Harmless(os.Environ())
	for _, word := range h.ceilings {
		c, err := ceiling(h.Sources, word)
		if err != nil {
			return err
		}
		h.Ceilings = append(h.Ceilings, c)
	}
	h.Name = "confine-worker"
	q, err := jobs.Open(ctx, h.place.Options)
	if err != nil {
		return err
	}
	defer q.Close()
	if h.inside {
		inner, stop := context.WithCancel(ctx)
		defer stop()
		if ctx = inner; q.OnStop(stop) != nil {
			return errors.New("the server inside takes no requests")
		}
	}
	// The first signal has ended ctx; a second one ends the patience.
	hurry, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-ctx.Done()
		again := make(chan os.Signal, 1)
		signal.Notify(again, syscall.SIGINT, syscall.SIGTERM)
		select {
		case <-again:
			cancel()
		case <-hurry.Done():
		}
	}()
	w := worker.New(q, h.Options)
	h.worker.Store(w)
	return w.Run(ctx, hurry)
}

// holds says whether there are sessions.
func (h *hired) holds() bool {
	w := h.worker.Load()
	return w != nil && w.Sessions() > 0
}

// ceiling is one of [SUBJECTS=]NAME|FILE.
func ceiling(src config.Sources, word string) (worker.Ceiling, error) {
	c := worker.Ceiling{Pattern: ">"}
	if pattern, rest, ok := strings.Cut(word, "="); ok && (strings.HasPrefix(pattern, "confine.jobs.") || strings.HasPrefix(pattern, "confine.sessions.")) {
		c.Pattern, word = pattern, rest
	}
	if word == "none" {
		return c, nil
	}
	var err error
	if c.Policy, c.Files, err = config.LoadCeiling(src, word); err != nil {
		return c, err
	}
	if slices.Contains(config.Profiles(), word) {
		c.Profile = word
	}
	return c, nil
}
