package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/filetree"
	"github.com/confine-run/confine/internal/jobs"
)

const submitUsage = `usage: confine submit [options] -- COMMAND [ARG…]

Puts a command into a queue and prints its ID. Takes the options of a run, which are those of the sandbox on the worker: nothing of this
host is in it. The command starts in a private directory.

  --wait                wait for its end: with its output, and its exit code; of an array 0 when all ended with 0, else 1
  --input DIR           what is in DIR is where the command starts
  --output GLOB         files that it leaves there are kept, **/ is any directory; repeatable
  --to DIR              where --wait puts them: a new directory (./ID)
  --array FROM-TO       once for each number, which is $JOB_INDEX
  --priority WORD       high, normal, low (normal)
  --ttl D               give it up if it is not started within D
  --attempts N          give it up when it was started N times, and each time its worker died (3)
  --set K=V             a variable of the command's; repeatable
  --id ID               a name of its own; to submit the same once more does nothing
  --timeout D           how long a full queue is waited for (1m)
` + placeUsage

// submission is what "submit" was told.
type submission struct {
	place
	wait       bool
	input, to  string
	job        jobs.Job
	from, last int
}

func (s *submission) option(name string) *cli.Own {
	switch name {
	case "wait":
		return toggle(&s.wait)
	case "input":
		return &cli.Own{Set: func(word string) error { s.input = word; return nil }}
	case "to":
		return &cli.Own{Set: func(word string) error { s.to = word; return nil }}
	case "output":
		return &cli.Own{Set: func(word string) error {
			if s.job.Output = append(s.job.Output, word); filepath.IsAbs(word) {
				return errors.New("it takes a pattern of names below where the command starts")
			}
			if err := config.CheckPattern(word); err != nil {
				return fmt.Errorf("it %w", err)
			}
			return nil
		}}
	case "array":
		return &cli.Own{Set: s.array}
	case "priority":
		return &cli.Own{Set: func(word string) error {
			if s.job.Priority = word; !slices.Contains(jobs.Priorities, word) {
				return errors.New("it takes high, normal or low")
			}
			return nil
		}}
	case "ttl":
		return &cli.Own{Set: func(word string) error {
			d, err := config.ParseDuration(word)
			s.job.TTL = jobs.Seconds(d.Seconds())
			return err
		}}
	case "attempts":
		return count(&s.job.MaxAttempts, jobs.MaxAttempts)
	case "set":
		return &cli.Own{Set: func(word string) error {
			if k, _, ok := strings.Cut(word, "="); !ok || k == "" {
				return errors.New("it takes K=V")
			}
			s.job.Env = append(s.job.Env, word)
			return nil
		}}
	case "id":
		return named(&s.job.Key.Batch)
	}
	return s.place.option(name)
}

func (s *submission) array(word string) error {
	from, last, ok := strings.Cut(word, "-")
	a, err := strconv.Atoi(from)
	b, err2 := strconv.Atoi(last)
	if !ok || err != nil || err2 != nil || a < 0 || b < a || b-a >= jobs.MaxArray {
		return fmt.Errorf("it takes FROM-TO: 1-100, and %d numbers at most", jobs.MaxArray)
	}
	s.job.Array, s.from, s.last = true, a, b
	return nil
}

func submit(ctx context.Context, args []string) (int, error) {
	s := &submission{place: place{timeout: time.Minute}, job: jobs.Job{Version: 1, Run: 1, Priority: "normal", MaxAttempts: 3}}
	settings, rest, err := cli.ScanOwn(args, s.option)
	if err != nil {
		return 0, err
	}
	if s.job.Argv = rest; len(rest) == 0 {
		return 0, &config.UsageError{Msg: "no command", Hint: "usage: confine submit [options] -- COMMAND [ARG…]"}
	}
	for _, set := range settings {
		option := set.Option
		if option == "level" {
			option = "profile"
		}
		s.job.Policy = append(s.job.Policy, jobs.Setting{Option: option, Values: set.Values})
	}
	if _, err := s.job.Settings(); err != nil {
		return 0, err
	}
	q, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	return s.submit(ctx, q)
}

func (s *submission) submit(ctx context.Context, q *jobs.Queue) (int, error) {
	if s.input != "" {
		if err := s.pack(ctx, q); err != nil {
			return 0, fmt.Errorf("--input %q: %w", s.input, err)
		}
	}
	s.job.Key.Account, s.job.Submitted = s.account, time.Now().UTC()
	if s.job.Key.Batch == "" {
		s.job.Key.Batch = jobs.NewID()
	}
	var all []*jobs.Job
	for i := s.from; i <= s.last; i++ {
		j := s.job
		j.Key.Index = i
		all = append(all, &j)
	}
	patient, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := q.Submit(patient, all...); err != nil {
		return 1, err
	}
	if !s.wait {
		fmt.Println(s.job.Key.Batch)
		return 0, nil
	}
	return s.follow(ctx, q)
}

// pack stores what is in the input's directory.
func (s *submission) pack(ctx context.Context, q *jobs.Queue) error {
	root, err := os.OpenRoot(s.input)
	if err != nil {
		return err
	}
	defer root.Close()
	spool, err := jobs.NewSpool("", jobs.MaxFile, func(w io.Writer) error {
		_, err := filetree.Pack(filetree.Host(root), ".", w)
		return err
	})
	if err != nil {
		return err
	}
	defer spool.Close()
	s.job.Input = spool.Digest
	return q.Store(ctx, spool)
}

// follow waits for the end of what was submitted. When it is interrupted, that goes on.
func (s *submission) follow(ctx context.Context, q *jobs.Queue) (int, error) {
	rc, err := s.followOne, error(nil)
	if s.job.Array {
		rc = s.followAll
	}
	told, stop := context.WithCancel(ctx)
	go s.tellWaits(told, q)
	n, err := rc(ctx, q)
	stop()
	if ctx.Err() != nil {
		fmt.Fprintf(os.Stderr, "confine submit: %s goes on\nconfine submit: hint: confine jobs cancel %s\n", s.job.Key.Batch, s.job.Key.Batch)
		return 130, nil
	}
	return n, err
}

// firstLook is when it is looked again for a worker where there is none: one that is being started may not have said so yet.
const firstLook = time.Second

// tellWaits says what the job waits for, if no worker can begin it.
func (s *submission) tellWaits(ctx context.Context, q *jobs.Queue) {
	all, err := q.Workers(ctx)
	if err == nil && len(all) == 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(firstLook):
		}
		all, err = q.Workers(ctx)
	}
	if err != nil { // whoever may not see the workers isn't told
		return
	}
	w := jobs.WaitsOf(&s.job, all)
	if w == nil || w.Fit > 0 {
		return
	}
	first := s.job.Key
	first.Index = s.from
	if k, err := q.Show(ctx, first); err != nil || k.State != jobs.Queued || ctx.Err() != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "confine submit: %s: %s\nconfine submit: hint: \"confine jobs workers\" says what there is; it begins when a worker has room, and \"confine jobs cancel %s\" gives it up\n",
		s.job.Key.Batch, visible(w.Detail), s.job.Key.Batch)
}

func (s *submission) followOne(ctx context.Context, q *jobs.Queue) (int, error) {
	r, err := q.Output(ctx, s.job.Key, true, relay)
	if err != nil {
		return 1, err
	}
	tell(s.job.Key.Batch, r)
	if r.Output != nil {
		to := s.to
		to = cmp.Or(to, s.job.Key.Batch)
		if err := fetch(ctx, q, r, to); err != nil {
			return 1, err
		}
	}
	return r.RC(), nil
}

func (s *submission) followAll(ctx context.Context, q *jobs.Queue) (int, error) {
	ended, worst := map[int]bool{}, 0
	err := q.Follow(ctx, s.account, s.job.Key.Batch, func(k jobs.Kept) (bool, error) {
		if !k.State.Final() || ended[k.Key.Index] {
			return true, nil
		}
		ended[k.Key.Index] = true
		if k.RC() != 0 {
			worst = 1
		}
		name := k.Key.Name(true)
		for _, c := range k.Written {
			if err := relay(&c); err != nil {
				return false, err
			}
		}
		if k.Streamed {
			if _, err := q.Output(ctx, k.Key, false, relay); err != nil {
				return false, err
			}
		}
		tell(name, k.Record)
		if k.Output != nil {
			to := s.to
			to = cmp.Or(to, s.job.Key.Batch)
			if err := fetch(ctx, q, k.Record, filepath.Join(to, strconv.Itoa(k.Key.Index))); err != nil {
				return false, err
			}
		}
		return len(ended) < s.last-s.from+1, nil
	})
	return worst, err
}

// relay writes what a job wrote where it wrote it.
func relay(c *jobs.Chunk) error {
	to := os.Stdout
	if c.Stream == "stderr" {
		to = os.Stderr
	}
	_, err := to.Write(c.Data)
	return err
}

// lines are what a worker says, and below it what to do about it.
func lines(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	text = visible(first)
	for line := range strings.Lines(rest) {
		text += "\nconfine submit: " + visible(strings.TrimSuffix(line, "\n"))
	}
	return text
}

// tell says how a job ended, unless that was well.
func tell(name string, r *jobs.Record) {
	switch {
	case r.State == jobs.Done && r.Report != nil && r.Report.RC != 0:
		fmt.Fprintln(os.Stderr, "confine submit: "+name+": "+visible(string(r.Report.Status))+": "+visible(r.Report.Reason))
	case r.State != jobs.Done:
		fmt.Fprintln(os.Stderr, "confine submit: "+name+": "+visible(string(r.State))+": "+lines(r.Detail))
	}
	if r.NoOutput != "" {
		fmt.Fprintln(os.Stderr, "confine submit: "+name+": "+visible(r.NoOutput))
	}
}

// fetch unpacks what a job left into a new directory.
func fetch(ctx context.Context, q *jobs.Queue, r *jobs.Record, to string) error {
	spool, err := q.Fetch(ctx, "", r.Output.Digest)
	if err != nil {
		return fmt.Errorf("the outputs: %w", err)
	}
	defer spool.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	left, err := filetree.Unpack(filetree.Host(root), ".", spool.Reader(), true)
	for _, name := range left {
		fmt.Fprintln(os.Stderr, "confine: left out, since it leads elsewhere: "+visible(name))
	}
	return err
}
