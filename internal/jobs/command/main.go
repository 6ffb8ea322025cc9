package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/embedded"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Main is one of the subcommands with its arguments. It gives the exit code.
func Main(args []string, backends func(*config.Policy) backend.Backend) int {
	name, args := args[0], args[1:]
	do := map[string]func(context.Context, []string) (int, error){
		"submit": submit, "jobs": jobsCommand, "session": sessions,
		"worker": func(ctx context.Context, args []string) (int, error) { return work(ctx, args, backends) },
	}[name]
	if do == nil {
		fmt.Fprintf(os.Stderr, "confine-worker: %q is no command of it\n", name)
		return status.UsageRC
	}
	for _, a := range args {
		if a == "--" || !strings.HasPrefix(a, "-") && name != "jobs" {
			break
		}
		if a == "-h" || a == "--help" || a == "help" {
			fmt.Print(usages[name])
			return 0
		}
	}
	ctx, stop := context.Background(), func() {}
	if name != "session" { // some of its commands pass signals on, and none of them leaves anything when it is killed
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	}
	defer stop()
	rc, err := do(ctx, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, terminal.Blame("confine "+name, err))
		if errors.As(err, new(*config.UsageError)) || name == "session" { // whose other codes are those of commands
			return status.UsageRC
		}
		return max(rc, 1)
	}
	return rc
}

// place is where the queue is, and whose.
type place struct {
	jobs.Options
	embedded bool
	account  string
	timeout  time.Duration
}

const placeUsage = `
Where the queue is:
  --nats URL            nats://HOST:PORT or tls://HOST:PORT, several with "," between ($NATS_URL)
  --embedded            a queue on this host, with a worker, in a process in the background that ends when there is nothing to do
  --account NAME        whose jobs they are (default); the servers decide who may use which
  --creds FILE          a JWT and its key, as nsc writes it
  --nkey-file FILE      a seed
  --token-file FILE     a token
  --tls-ca FILE         certificates that servers are trusted by
  --tls-cert FILE, --tls-key FILE
                        the client's own
  --replicas N          servers that keep what is made, where nothing is there yet (1)
  --store SIZE          of all that is made, likewise (8G)
`

// options are those of all that speaks to a queue.
func (p *place) option(name string) *cli.Own {
	text := func(to *string) *cli.Own {
		return &cli.Own{Set: func(word string) error {
			if *to = word; word == "" {
				return errors.New("it is empty")
			}
			return nil
		}}
	}
	switch name {
	case "nats":
		return text(&p.URL)
	case "creds":
		return text(&p.Creds)
	case "nkey-file":
		return text(&p.NKey)
	case "token-file":
		return text(&p.TokenFile)
	case "tls-ca":
		return text(&p.CA)
	case "tls-cert":
		return text(&p.Cert)
	case "tls-key":
		return text(&p.Key)
	case "embedded":
		return toggle(&p.embedded)
	case "account":
		return named(&p.account)
	case "timeout":
		return &cli.Own{Set: func(word string) (err error) { p.timeout, err = config.ParseDuration(word); return err }}
	case "replicas":
		return count(&p.Replicas, 5)
	case "store":
		return &cli.Own{Set: func(word string) (err error) { p.Store, err = config.ParseSize(word); return err }}
	}
	return nil
}

func toggle(to *bool) *cli.Own {
	return &cli.Own{Switch: true, Set: func(word string) (err error) {
		if word != "true" && word != "false" {
			return errors.New(`it is neither "true" nor "false"`)
		}
		*to = word == "true"
		return nil
	}}
}

// count is a number from 1.
func count(to *int, most int) *cli.Own {
	return &cli.Own{Set: func(word string) error {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("it takes a number from 1 to %d", most)
		}
		*to = n
		return nil
	}}
}

func named(to *string) *cli.Own {
	return &cli.Own{Set: func(word string) error {
		if *to = word; !jobs.ValidName(word) {
			return errors.New("it takes a word of up to 64 letters, digits, - and _")
		}
		return nil
	}}
}

// open connects.
func (p *place) open(ctx context.Context) (*jobs.Queue, error) {
	if p.URL == "" && !p.embedded {
		p.URL = os.Getenv("NATS_URL")
	}
	p.account = cmp.Or(p.account, "default")
	switch {
	case p.embedded && p.URL != "":
		return nil, &config.UsageError{Msg: "--embedded and --nats are one or the other"}
	case p.embedded:
		o, err := embedded.Connect(ctx)
		if err != nil {
			return nil, err
		}
		p.Options = o
	case p.URL == "":
		return nil, &config.UsageError{Msg: "no queue is named", Hint: "--embedded is one on this host, --nats URL one on a server"}
	}
	return jobs.Open(ctx, p.Options)
}

// visible is text that can't break out of its line.
func visible(s string) string { return terminal.Visible(s) }
