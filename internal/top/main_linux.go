package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/session"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

const usage = `usage: confine top [--server unix:PATH] [--once] [--json]

What all sessions of this user use, every second: CPU time, memory and its limit, tasks, files in private places, and how often something
was reached over the network or refused there. "-" is what nobody counts. Keys: q, or Ctrl-C, ends it.

  --server unix:PATH  the sandboxes of a server, too, which is yours ("@" before their names), and its pools
  --once              one picture, and end
  --json              a document for each picture
`

// every is how often there is a new picture; between is the time between the two that --once takes, since CPU per cent takes two.
const (
	every   = time.Second
	between = 400 * time.Millisecond
)

// options are what "top" was told.
type options struct {
	server     string
	once, json bool
}

func parse(args []string) (o options, err error) {
	for len(args) > 0 {
		name, value, attached := strings.Cut(args[0], "=")
		args = args[1:]
		switch {
		case name == "--once" && !attached:
			o.once = true
		case name == "--json" && !attached:
			o.json = true
		case name == "--server":
			if !attached {
				if len(args) == 0 {
					return o, &config.UsageError{Msg: "--server needs a value", Hint: "unix:PATH"}
				}
				value, args = args[0], args[1:]
			}
			var ok bool
			if o.server, ok = strings.CutPrefix(value, "unix:"); !ok || o.server == "" {
				return o, &config.UsageError{Msg: fmt.Sprintf("--server %q is not unix:PATH", value), Hint: "of a server on TCP, its API tells the same: GET /v1/sandboxes?usage=1"}
			}
		default:
			return o, &config.UsageError{Msg: fmt.Sprintf("unknown option %q", name), Hint: `"confine top --help" lists them`}
		}
	}
	return o, nil
}

// Main is "confine top" with its arguments. It gives the exit code.
func Main(args []string) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Print(usage)
		return 0
	}
	o, err := parse(args)
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, terminal.Blame("confine top", err))
		return status.UsageRC
	}
	return 0
}

// sources are all who have sandboxes now.
func (o *options) sources() (all []Source, err error) {
	sessions, err := session.Standing()
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		all = append(all, Source{ID: s.ID, Name: s.Name, Created: s.Created, Client: serve.NewClient(s.Socket)})
	}
	if o.server != "" {
		all = append(all, Source{Client: serve.NewClient(o.server)})
	}
	return all, nil
}

// picture takes the next one.
func (o *options) picture(ctx context.Context, before *Picture) (*Picture, error) {
	sources, err := o.sources()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range sources {
			s.Client.CloseIdleConnections()
		}
	}()
	return gather(ctx, sources, before), nil
}

func (o *options) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	p, err := o.picture(ctx, nil)
	if err != nil {
		return err
	}
	if o.once {
		if !sleep(ctx, between) {
			return nil
		}
		if p, err = o.picture(ctx, p); err != nil {
			return err
		}
		if p.Unreachable != "" {
			err = errors.New("server: " + plain(p.Unreachable))
		}
		return errors.Join(o.print(p), err)
	}
	if o.json || !term.IsTerminal(0) || !term.IsTerminal(1) {
		return o.lines(ctx, p)
	}
	return live(ctx, p, o.picture)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// print writes a picture where it isn't drawn over.
func (o *options) print(p *Picture) (err error) {
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(p)
	}
	_, err = fmt.Println(strings.Join(p.lines(0, 0), "\n"))
	return err
}

// lines prints pictures one after another, where there is no terminal. A reader that has left ends it.
func (o *options) lines(ctx context.Context, p *Picture) (err error) {
	signal.Ignore(syscall.SIGPIPE)
	for {
		if err := o.print(p); errors.Is(err, syscall.EPIPE) {
			return nil
		} else if err != nil {
			return err
		}
		if !sleep(ctx, every) {
			return nil
		}
		if p, err = o.picture(ctx, p); err != nil {
			return err
		}
	}
}

// live draws pictures until somebody ends it. The terminal is given back in any case, but that of SIGKILL.
func live(ctx context.Context, p *Picture, take func(ctx context.Context, before *Picture) (*Picture, error)) error {
	s, err := open(os.Stdin, os.Stdout)
	if err != nil {
		return err
	}
	defer s.close() // in a panic too, which says why on a terminal that is the caller's again
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan *Picture)
	failed := make(chan error, 1)
	go func() {
		defer guard()
		last := p
		for sleep(ctx, every) {
			now, err := take(ctx, last)
			if err != nil {
				failed <- err
				return
			}
			last = now
			select {
			case next <- now:
			case <-ctx.Done():
				return
			}
		}
	}()
	keys := s.keys()
	for {
		if err := s.draw(p); err != nil {
			return nil // the terminal is gone
		}
		select {
		case k, open := <-keys:
			const ctrlC, ctrlD = 3, 4
			if !open || k == 'q' || k == 'Q' || k == ctrlC || k == ctrlD {
				return nil
			}
		case <-resized:
		case p = <-next:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}
