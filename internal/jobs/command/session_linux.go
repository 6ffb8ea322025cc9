package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/session"
)

const sessionUsage = `usage: confine session --nats URL|--embedded [options] COMMAND …

A session that some worker of a queue holds, found by its name from wherever the queue is reached.

  start [options] [--name N] [--idle-timeout D] [--lifetime D] [--from SNAPSHOT] [--on WORKER|HOST] [-- COMMAND]
                          open one, where there is most room, and print its name; the options are those of a run, within the worker's ceiling
  exec NAME …, shell NAME, cp SRC DST, ps NAME, logs NAME PROCESS, kill NAME PROCESS [SIGNAL], network NAME …
                          as for a session of this host: "confine session help"
  list [--json]           all of the account, with their workers, and for a day those that have ended or are lost
  show NAME               all that is known of one: JSON
  snapshot NAME [WORD]    write its files down, on the servers, for a week; prints an ID
  snapshot --list
  restore NAME SNAPSHOT   make its files what they were; what runs in it ends
  teleport NAME [--to WORKER|HOST]
                          have it go on at another worker: with --isolation vm its processes too, else its files, and nothing may run
  stop NAME               end it and everything in it

"create" is start, and "close" is stop. "confine jobs workers" lists workers.

  --timeout D             how long a session is looked for whose worker doesn't answer (30s)
` + placeUsage

// far is what a command about sessions was told.
type far struct {
	place
	q  *jobs.Queue
	of jobs.Sessions
}

var sessionCommands = map[string]func(ctx context.Context, f *far, args []string) (int, error){
	"start": startSession, "create": startSession, "list": listSessions, "show": showSession, "snapshot": snapshotSession, "restore": restoreSession,
	"teleport": teleportSession, "stop": stopSession, "close": stopSession,
}

func sessions(ctx context.Context, args []string) (int, error) {
	f := &far{place: place{timeout: 30 * time.Second}}
	settings, args, err := cli.ScanOwn(args, f.option)
	switch {
	case err != nil:
		return 0, err
	case len(settings) > 0:
		return 0, &config.UsageError{Msg: "--" + settings[0].Option + " comes after the command", Hint: "confine session --nats URL start [options]"}
	case len(args) == 0:
		return 0, &config.UsageError{Msg: "no command", Hint: `"confine session --nats URL help" lists them`}
	case args[0] == "help":
		fmt.Print(sessionUsage)
		return 0, nil
	}
	do := sessionCommands[args[0]]
	if do == nil && !session.IsElsewhere(args[0]) {
		return 0, &config.UsageError{Msg: fmt.Sprintf("%q is no command of sessions of a queue", args[0]), Hint: `"confine session --nats URL help" lists them`}
	}
	if f.q, err = f.open(ctx); err != nil {
		return 0, err
	}
	defer f.q.Close()
	f.of = jobs.SessionsOf(f.q)
	if do != nil {
		return do(ctx, f, args[1:])
	}
	asked := ""
	rc, err := session.Elsewhere(ctx, args, func(word string) (*serve.Client, string, error) {
		asked = word
		return f.find(ctx, word)
	})
	var refused *serve.Error
	var usage *config.UsageError
	if err != nil && asked != "" && !errors.As(err, &refused) && !errors.As(err, &usage) {
		if _, _, lost := f.find(ctx, asked); errors.As(lost, &usage) { // that is what it was
			return 0, lost
		}
	}
	return rc, err
}

// client asks a worker.
func (f *far) client(worker string) *serve.Client {
	return serve.NewClientBy(func(ctx context.Context) (net.Conn, error) {
		for end := time.Now().Add(f.timeout); ; time.Sleep(100 * time.Millisecond) { // servers that have lost one choose a leader first
			c, err := f.of.Reach(ctx, f.account, worker)
			if err == nil || !waits(ctx, err) || time.Now().After(end) {
				return c, err
			}
		}
	})
}

// waits says whether the servers may have an answer later. That a worker is absent is one.
func waits(ctx context.Context, err error) bool {
	return ctx.Err() == nil && jobs.Transient(err) && !errors.As(err, new(*jobs.AbsentError))
}

// find finds a session that stands, and a client of the worker that has it.
func (f *far) find(ctx context.Context, word string) (*serve.Client, string, error) {
	k, err := f.standing(ctx, word)
	if err != nil {
		return nil, "", err
	}
	return f.client(k.Worker), "/v1/sandboxes/" + k.ID, nil
}

// standing is the record of a session that stands, and whose worker answers. One that moves is waited for, and of one whose worker doesn't answer others say
// what has become of it.
func (f *far) standing(ctx context.Context, word string) (jobs.KeptSession, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var absent error
	for {
		k, err := f.of.Find(ctx, f.account, word)
		switch {
		case errors.Is(err, jobs.ErrNoSession):
			return k, &config.UsageError{Msg: fmt.Sprintf("there is no session %.80q", word), Hint: `"confine session --nats URL list" shows those there are`}
		case err == nil && k.State.Final():
			return k, f.ended(ctx, &k)
		case err == nil:
			var c net.Conn
			if c, err = f.of.Reach(ctx, f.account, k.Worker); err == nil {
				_ = c.Close()
				if k.State == jobs.SessionRunning {
					return k, nil
				}
			}
		}
		switch {
		case errors.As(err, new(*jobs.AbsentError)):
			absent = err
			f.look(ctx, k)
		case err != nil && !waits(ctx, err):
			return k, cmp.Or(absent, err)
		case err != nil:
			absent = err
		}
		select {
		case <-ctx.Done():
			return k, cmp.Or(absent, fmt.Errorf("the session %s is being moved, and has not arrived yet", k.Key.Name))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (f *far) ended(ctx context.Context, k *jobs.KeptSession) error {
	e := &config.UsageError{Msg: fmt.Sprintf("the session %s has ended: %s", k.Key.Name, visible(k.Reason)),
		Hint: "the same with start in place of the command opens another; with list it shows those that stand"}
	if k.State == jobs.SessionLost {
		e.Msg = fmt.Sprintf("the session %s is lost: %s", k.Key.Name, visible(k.Reason))
		e.Hint = "there is no snapshot of it on the servers"
	}
	if last, err := f.of.Snapshot(ctx, f.account, k.Snapshot); err == nil {
		e.Hint = fmt.Sprintf("its last snapshot is of %s, and another begins with that, by the same options: confine session … start --name %s --from %.12s", last.Created.Local().Format("2006-01-02 15:04:05"), k.Key.Name, last.ID)
	}
	return e
}

// look has some other worker find out what has become of a session.
func (f *far) look(ctx context.Context, k jobs.KeptSession) {
	all, err := f.choose(ctx, "")
	if err != nil {
		return
	}
	for _, w := range all {
		if w.Name != k.Worker && f.client(w.Name).Do(ctx, http.MethodPost, "/more/sessions/"+k.Key.Name+"/look", nil, nil) == nil {
			return
		}
	}
}

// choose gives workers, those with most room first: all, or those that a word stands for.
func (f *far) choose(ctx context.Context, word string) ([]jobs.Named, error) {
	all, err := f.q.Workers(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(w jobs.Named) bool {
		return w.Info.Identity == "" || word != "" && w.Name != word && w.Info.Host != word
	})
	free := func(w jobs.Named) int64 { return w.Info.Room.Memory - w.Info.Used.Memory }
	slices.SortStableFunc(all, func(a, b jobs.Named) int { return cmp.Compare(free(b), free(a)) })
	if len(all) == 0 && word != "" {
		return nil, &config.UsageError{Msg: fmt.Sprintf("there is no worker %.80q", word), Hint: "\"confine jobs workers\" lists them"}
	}
	return all, nil
}

func startSession(ctx context.Context, f *far, args []string) (int, error) {
	on := ""
	ask, err := session.Ask(args, func(option string) *cli.Own {
		if option == "on" {
			return &cli.Own{Set: func(word string) error { on = word; return nil }}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if ask.Name != "" && !jobs.ValidName(ask.Name) {
		return 0, &config.UsageError{Msg: fmt.Sprintf("%.80q is no name of a session of a queue", ask.Name), Hint: "it takes a word of up to 64 letters, digits, - and _"}
	}
	if ask.Name != "" { // one that is lost has its name yet, until somebody looks
		if k, err := f.of.Get(ctx, jobs.SessionKey{Account: f.account, Name: ask.Name}); err == nil && k.Session != nil && !k.State.Final() {
			_, _ = f.standing(ctx, ask.Name)
		}
	}
	for end := time.Now().Add(f.timeout); ; {
		all, err := f.choose(ctx, on)
		if err != nil {
			return 0, err
		}
		name, err := f.startAtOneOf(ctx, all, ask)
		if err == nil {
			fmt.Println(name)
			return 0, nil
		}
		// One may be about to come: that of --embedded is, when it was started by this.
		if !errors.As(err, new(*jobs.AbsentError)) && !errors.Is(err, errNoWorker) || time.Now().After(end) {
			return 0, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

var errNoWorker = &config.UsageError{Msg: "no worker is there that holds sessions", Hint: "start one: confine worker --nats URL --ceiling NAME"}

// startAtOneOf opens a session at the first of some workers that has room for it, and allows it.
func (f *far) startAtOneOf(ctx context.Context, all []jobs.Named, ask *session.Asked) (name string, err error) {
	err = errNoWorker
	for _, w := range all {
		name, err = f.startAt(ctx, w.Name, ask)
		var refused *serve.Error
		switch {
		case errors.As(err, new(*jobs.AbsentError)): // another one
		case errors.As(err, &refused) && (refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusForbidden):
		default:
			return name, err
		}
	}
	return "", err
}

// startAt opens a session at a worker, and gives its name.
func (f *far) startAt(ctx context.Context, worker string, ask *session.Asked) (string, error) {
	c := f.client(worker)
	defer c.CloseIdleConnections()
	if ask.From != "" {
		from, err := bring(ctx, c, ask.From)
		if err != nil {
			return "", err
		}
		ask.Document["from"] = from
	}
	var made struct {
		ID string `json:"id"`
	}
	err := c.Do(ctx, http.MethodPost, "/v1/sandboxes", ask.Document, &made)
	return cmp.Or(ask.Name, made.ID), err
}

// bring has a worker fetch a snapshot from the servers, and gives its ID.
func bring(ctx context.Context, c *serve.Client, word string) (string, error) {
	if !jobs.ValidName(word) {
		return "", &config.UsageError{Msg: fmt.Sprintf("%.80q is no snapshot", word), Hint: "confine session … snapshot --list"}
	}
	var there jobs.Stored
	return there.ID, c.Do(ctx, http.MethodPost, "/more/snapshots/"+word, nil, &there)
}

func listSessions(ctx context.Context, f *far, args []string) (int, error) {
	asJSON := len(args) == 1 && args[0] == "--json"
	if len(args) > 0 && !asJSON {
		return 0, &config.UsageError{Msg: "usage: confine session … list [--json]"}
	}
	all, err := f.of.List(ctx, f.account)
	if err != nil {
		return 0, err
	}
	if asJSON {
		for _, k := range all {
			if err := json.NewEncoder(os.Stdout).Encode(k.Session); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTATE\tWORKER\tHOST\tCREATED\tSNAPSHOT\tENDED")
	silent := map[string]bool{}
	for _, k := range all {
		if !k.State.Final() {
			if _, asked := silent[k.Worker]; !asked {
				c, err := f.of.Reach(ctx, f.account, k.Worker)
				if silent[k.Worker] = errors.As(err, new(*jobs.AbsentError)); err == nil {
					_ = c.Close()
				}
			}
			if silent[k.Worker] {
				k.Reason = "its worker does not answer"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", visible(k.Key.Name), visible(string(k.State)), visible(k.Worker), visible(k.Host), k.Created.Local().Format("2006-01-02 15:04:05"),
			visible(k.Snapshot[:min(12, len(k.Snapshot))]), visible(strings.TrimSuffix(k.Cause+": "+k.Reason, ": ")))
	}
	return 0, t.Flush()
}

// one is the only word.
func one(args []string, form string) (string, error) {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return "", &config.UsageError{Msg: "usage: confine session … " + form}
	}
	return args[0], nil
}

func showSession(ctx context.Context, f *far, args []string) (int, error) {
	word, err := one(args, "show NAME")
	if err != nil {
		return 0, err
	}
	k, err := f.of.Find(ctx, f.account, word)
	if err != nil {
		return 0, err
	}
	all := struct {
		*jobs.Session
		Sandbox json.RawMessage `json:"sandbox,omitempty"`
	}{Session: k.Session}
	if !k.State.Final() {
		brief, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = f.client(k.Worker).Do(brief, http.MethodGet, "/v1/sandboxes/"+k.ID, nil, &all.Sandbox) // what its worker says, if it does
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return 0, e.Encode(&all)
}

func stopSession(ctx context.Context, f *far, args []string) (int, error) {
	word, err := one(args, "stop NAME")
	if err != nil {
		return 0, err
	}
	k, err := f.standing(ctx, word)
	if k.Session != nil && k.State.Final() {
		return 0, nil
	}
	if err == nil {
		err = f.client(k.Worker).Do(ctx, http.MethodDelete, "/v1/sandboxes/"+k.ID, nil, nil)
	}
	if err != nil {
		return 0, err
	}
	for { // the name is free when the record says so
		now, err := f.of.Get(ctx, k.Key)
		if err != nil || now.Session == nil || now.State.Final() || now.ID != k.ID {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func snapshotSession(ctx context.Context, f *far, args []string) (int, error) {
	if len(args) == 1 && args[0] == "--list" {
		all, err := f.of.Snapshots(ctx, f.account)
		if err != nil {
			return 0, err
		}
		t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tNAME\tSESSION\tHOLDS\tSIZE\tCREATED")
		for _, v := range all {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", visible(v.ID), visible(v.Name), visible(v.Session), visible(v.Holds), config.FormatSize(v.Bytes), v.Created.Local().Format("2006-01-02 15:04:05"))
		}
		return 0, t.Flush()
	}
	if len(args) < 1 || len(args) > 2 || strings.HasPrefix(args[0], "-") {
		return 0, &config.UsageError{Msg: "usage: confine session … snapshot NAME [WORD] | --list"}
	}
	k, err := f.standing(ctx, args[0])
	if err != nil {
		return 0, err
	}
	ask := map[string]string{}
	if len(args) > 1 {
		ask["name"] = args[1]
	}
	var made jobs.Stored
	if err := f.client(k.Worker).Do(ctx, http.MethodPost, "/more/sessions/"+k.Key.Name+"/snapshot", ask, &made); err != nil {
		return 0, err
	}
	fmt.Println(made.ID)
	return 0, nil
}

func restoreSession(ctx context.Context, f *far, args []string) (int, error) {
	if len(args) != 2 {
		return 0, &config.UsageError{Msg: "usage: confine session … restore NAME SNAPSHOT"}
	}
	c, path, err := f.find(ctx, args[0])
	if err != nil {
		return 0, err
	}
	id, err := bring(ctx, c, args[1])
	if err != nil {
		return 0, err
	}
	return 0, c.Do(ctx, http.MethodPost, path+"/restore", map[string]string{"snapshot": id}, nil)
}

func teleportSession(ctx context.Context, f *far, args []string) (int, error) {
	to := ""
	if len(args) == 3 && args[1] == "--to" {
		to, args = args[2], args[:1]
	} else if len(args) == 2 && strings.HasPrefix(args[1], "--to=") {
		to, args = strings.TrimPrefix(args[1], "--to="), args[:1]
	}
	word, err := one(args, "teleport NAME [--to WORKER|HOST]")
	if err != nil {
		return 0, err
	}
	k, err := f.standing(ctx, word)
	if err != nil {
		return 0, err
	}
	all, err := f.choose(ctx, to)
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(w jobs.Named) bool { return w.Name == k.Worker })
	if len(all) == 0 {
		return 0, &config.UsageError{Msg: "there is no other worker that it could go to", Hint: "\"confine jobs workers\" lists them"}
	}
	for i, w := range all {
		var now jobs.Session
		err = f.client(k.Worker).Do(ctx, http.MethodPost, "/more/sessions/"+k.Key.Name+"/move", map[string]string{"to": w.Name}, &now)
		if err == nil {
			fmt.Println(now.Worker)
			if last, err := f.of.Snapshot(ctx, f.account, now.Snapshot); err == nil && last.Holds == "files" {
				fmt.Fprintln(os.Stderr, "confine session: its files are there, and no processes: those are moved with --isolation vm alone")
			}
			return 0, nil
		}
		var refused *serve.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests && refused.Status != http.StatusForbidden || i == len(all)-1 {
			break
		}
	}
	return 0, err
}
