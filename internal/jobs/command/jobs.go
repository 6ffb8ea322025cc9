package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/embedded"
)

const jobsUsage = `usage: confine jobs COMMAND [options]

  list [ID]             jobs, or those of an array; --json prints their records, one a line
  show ID               all that is known of a job, its report too: JSON
  logs [-f] ID          what it wrote; -f waits for more until it ends
  cancel ID…            end it, or have it never begin. It says so when that is certain
  retry ID…             have it run once more
  fetch ID DIR          the files that it left, into a new directory
  workers               who takes jobs, and what room each has
  stop                  end the process of --embedded; what waits goes on with the next

An ID is what "confine submit" printed; ID.N is one of an array.

  --timeout D           how long is waited for an end (2m)
` + placeUsage

// asked is what a command of "jobs" was told.
type asked struct {
	place
	follow, json bool
	q            *jobs.Queue
}

var jobsCommands = map[string]struct {
	do          func(ctx context.Context, a *asked, words []string) (int, error)
	least, most int
}{
	"list": {list, 0, 1}, "show": {show, 1, 1}, "logs": {logs, 1, 1}, "cancel": {cancel, 1, 1000}, "retry": {retry, 1, 1000},
	"fetch": {fetchCommand, 2, 2}, "workers": {workers, 0, 0}, "stop": {stop, 0, 0},
}

func jobsCommand(ctx context.Context, args []string) (int, error) {
	a := &asked{place: place{timeout: 2 * time.Minute}}
	var words []string
	for len(args) > 0 {
		if args[0] == "-f" {
			a.follow, args = true, args[1:]
			continue
		}
		settings, rest, err := cli.ScanOwn(args, func(name string) *cli.Own {
			switch name {
			case "json":
				return toggle(&a.json)
			case "follow":
				return toggle(&a.follow)
			}
			return a.option(name)
		})
		if err != nil {
			return 0, err
		}
		if len(settings) > 0 {
			return 0, &config.UsageError{Msg: "--" + settings[0].Option + " is for commands, not for what has become of them"}
		}
		if len(rest) == 0 {
			break
		}
		words, args = append(words, rest[0]), rest[1:]
	}
	if len(words) == 0 {
		return 0, &config.UsageError{Msg: "no command", Hint: `"confine jobs help" lists them`}
	}
	c, ok := jobsCommands[words[0]]
	if !ok {
		return 0, &config.UsageError{Msg: fmt.Sprintf("%q is no command of jobs", words[0]), Hint: `"confine jobs help" lists them`}
	}
	if n := len(words) - 1; n < c.least || n > c.most {
		return 0, &config.UsageError{Msg: "confine jobs " + words[0] + " doesn't take " + strconv.Itoa(n) + " words", Hint: `"confine jobs help" says what it takes`}
	}
	if words[0] == "stop" {
		if !a.embedded {
			return 0, &config.UsageError{Msg: "stop is for --embedded", Hint: "a worker ends by SIGTERM"}
		}
		if _, there, err := embedded.Find(); !there {
			return 0, err
		}
	}
	q, err := a.open(ctx)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	a.q = q
	return c.do(ctx, a, words[1:])
}

// keys are the jobs that a word stands for: one of an array, or all of what was submitted at once.
func (a *asked) keys(ctx context.Context, word string) ([]jobs.Kept, error) {
	batch, index, one := strings.Cut(word, ".")
	if !jobs.ValidName(batch) {
		return nil, &config.UsageError{Msg: fmt.Sprintf("%.80q is no ID", word)}
	}
	all, err := a.q.List(ctx, a.account, batch)
	if err != nil {
		return nil, err
	}
	if one {
		all = slices.DeleteFunc(all, func(k jobs.Kept) bool { return strconv.Itoa(k.Key.Index) != index })
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", word, jobs.ErrNoJob)
	}
	return all, nil
}

// key is the job that a word stands for.
func (a *asked) key(ctx context.Context, word string) (jobs.Kept, error) {
	all, err := a.keys(ctx, word)
	if err == nil && len(all) > 1 {
		err = &config.UsageError{Msg: word + " is an array", Hint: "name one of it: " + all[0].Key.Name(true)}
	}
	if err != nil {
		return jobs.Kept{}, err
	}
	return a.q.Show(ctx, all[0].Key)
}

// name is how a job is called that is of an array, or not; of one that nobody has begun that isn't known.
func name(k jobs.Kept, many bool) string {
	return k.Key.Name(many || k.Job != nil && k.Job.Array || k.Key.Index > 0)
}

func list(ctx context.Context, a *asked, words []string) (int, error) {
	var all []jobs.Kept
	var err error
	if len(words) == 0 {
		all, err = a.q.List(ctx, a.account, "")
	} else {
		all, err = a.keys(ctx, words[0])
	}
	if err != nil {
		return 1, err
	}
	if a.json {
		e := json.NewEncoder(os.Stdout)
		for _, k := range all {
			if err := e.Encode(k.Record); err != nil {
				return 1, err
			}
		}
		return 0, nil
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tTRIES\tHOST\tTIME\tEXIT\tCOMMAND")
	for _, k := range all {
		took, rc, command, host := "-", "-", "-", "-"
		if k.Job != nil && len(k.Job.Argv) > 0 {
			command = visible(strings.Join(k.Job.Argv, " "))
			command = command[:min(len(command), 60)]
		}
		if k.Host != "" {
			host = visible(k.Host)
		}
		switch {
		case k.State == jobs.Done && k.Report != nil:
			took, rc = strconv.FormatInt(k.Report.DurationMS, 10)+"ms", strconv.Itoa(k.Report.RC)
		case k.State == jobs.Running:
			took = time.Since(k.Started).Truncate(time.Second).String()
		case k.State == jobs.Dead:
			rc = visible(string(k.Reason))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", name(k, false), visible(string(k.State)), k.Attempt, host, took, rc, command)
	}
	return 0, t.Flush()
}

func show(ctx context.Context, a *asked, words []string) (int, error) {
	k, err := a.key(ctx, words[0])
	if err != nil {
		return 1, err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return 0, e.Encode(a.told(ctx, &k))
}

// told is a record as it is printed.
type told struct {
	*jobs.Record
	Waits *jobs.Waits `json:"waits,omitempty"` // of one that nobody has begun
}

func (a *asked) told(ctx context.Context, k *jobs.Kept) told {
	t := told{Record: k.Record}
	if k.State == jobs.Queued && k.Job != nil {
		if all, err := a.q.Workers(ctx); err == nil { // whoever may not see the workers isn't told
			t.Waits = jobs.WaitsOf(k.Job, all)
		}
	}
	return t
}

func logs(ctx context.Context, a *asked, words []string) (int, error) {
	k, err := a.key(ctx, words[0])
	if err != nil {
		return 1, err
	}
	_, err = a.q.Output(ctx, k.Key, a.follow, relay)
	if ctx.Err() != nil {
		return 130, nil
	}
	return 0, err
}

func cancel(ctx context.Context, a *asked, words []string) (int, error) {
	ctx, stop := context.WithTimeout(ctx, a.timeout)
	defer stop()
	peers := a.q.Peers()
	rc := 0
	for _, word := range words {
		all, err := a.keys(ctx, word)
		if err != nil {
			return 1, err
		}
		for _, k := range all {
			r, err := a.q.Cancel(ctx, peers, k.Key)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				fmt.Fprintf(os.Stderr, "confine jobs: %s: it is to be cancelled, and may run yet: its worker has not said that it doesn't\n", name(k, len(all) > 1))
				rc = 1
			case err != nil:
				return 1, err
			default:
				fmt.Println(name(k, len(all) > 1) + ": " + string(r.State))
			}
		}
	}
	return rc, nil
}

func retry(ctx context.Context, a *asked, words []string) (int, error) {
	ctx, stop := context.WithTimeout(ctx, a.timeout)
	defer stop()
	for _, word := range words {
		all, err := a.keys(ctx, word)
		if err != nil {
			return 1, err
		}
		for _, k := range all {
			if err := a.q.Retry(ctx, k.Key); err != nil {
				return 1, fmt.Errorf("%s: %w", name(k, len(all) > 1), err)
			}
		}
	}
	return 0, nil
}

func fetchCommand(ctx context.Context, a *asked, words []string) (int, error) {
	k, err := a.key(ctx, words[0])
	if err != nil {
		return 1, err
	}
	if k.Output == nil {
		return 1, fmt.Errorf("%s has left no files: it is %s%s", words[0], k.State, strings.TrimSuffix(", "+k.NoOutput, ", "))
	}
	if err := fetch(ctx, a.q, k.Record, words[1]); err != nil {
		return 1, err
	}
	return 0, nil
}

// stop ends the process of --embedded, and waits for that.
func stop(ctx context.Context, a *asked, _ []string) (int, error) {
	if err := a.q.Stop(ctx); err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for {
		if _, there, err := embedded.Find(); !there {
			return 0, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return 1, errors.New("it has not ended yet: its jobs have time to end")
		}
	}
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1fG", float64(n)/(1<<30)) }

func workers(ctx context.Context, a *asked, _ []string) (int, error) {
	all, err := a.q.Workers(ctx)
	if err != nil {
		return 1, err
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKER\tHOST\tJOBS\tMEMORY\tCPU\tTASKS")
	for _, w := range all {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s of %s\t%d of %d %%\t%d of %d\n", w.Name, visible(w.Info.Host), w.Info.Jobs, gibibytes(w.Info.Used.Memory), gibibytes(w.Info.Room.Memory),
			w.Info.Used.CPU, w.Info.Room.CPU, w.Info.Used.Tasks, w.Info.Room.Tasks)
	}
	return 0, t.Flush()
}
