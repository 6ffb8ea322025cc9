package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// execDoc asks for a process.
type execDoc struct {
	Argv        []string          `json:"argv"`
	Env         map[string]string `json:"env"`
	Dir         string            `json:"dir"` // as seen inside
	Stdin       octets            `json:"stdin"`
	OpenStdin   bool              `json:"open_stdin"` // it is written later
	TTY         *sizeDoc          `json:"tty"`
	TimeLimit   duration          `json:"time_limit"`
	CPUTime     duration          `json:"cpu_time"`     // of it and those below it
	OutputLimit int64             `json:"output_limit"` // bytes of each stream
	Tag         string            `json:"tag"`
	Detach      bool              `json:"detach"` // the answer is there at once
}

type sizeDoc struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// processDoc is a process as it is shown.
type processDoc struct {
	Number  int            `json:"process"`
	State   string         `json:"state"` // "running" or "exited"
	Argv    []string       `json:"argv"`
	Tag     string         `json:"tag,omitempty"`
	TTY     bool           `json:"tty,omitempty"`
	Started time.Time      `json:"started"`
	Seq     uint64         `json:"seq"`             // of the newest frame
	Usage   *backend.Usage `json:"usage,omitempty"` // of one that runs
	Report  *status.Report `json:"report,omitempty"`
}

func processOf(p *sandboxes.Process) *processDoc {
	d := &processDoc{Number: p.Number, State: "running", Argv: p.Argv, Tag: p.Tag, TTY: p.TTY, Started: p.Started, Seq: p.Log.Last(), Report: p.Report()}
	if d.Report != nil {
		d.State = "exited"
	}
	return d
}

// resultDoc is what became of a process that the client waited for.
type resultDoc struct {
	Process   int            `json:"process"`
	Report    *status.Report `json:"report"`
	Stdout    octets         `json:"stdout"`
	Stderr    octets         `json:"stderr"`
	Truncated bool           `json:"truncated,omitempty"` // there was more, which is not in this document
}

// maxArgv is what the kernel takes at most.
const maxArgv = 2 << 20

// maxResult is the most bytes of each stream in one document.
const maxResult = 8 << 20

// envOf is an environment as K=V.
func envOf(env map[string]string) ([]string, error) {
	all, bad, ok := sandboxes.EnvOf(env)
	if !ok {
		return nil, fail(http.StatusUnprocessableEntity, codeBadRequest, "env: "+strconv.Quote(bad)+" can't be a variable")
	}
	return all, nil
}

func (d *execDoc) exec() (*sandboxes.Exec, error) {
	if len(d.Argv) == 0 {
		return nil, &config.UsageError{Msg: "no command given", Hint: `say "argv": ["echo", "hello"]`}
	}
	if size := len(strings.Join(d.Argv, "\x00")); size > maxArgv {
		return nil, fail(http.StatusUnprocessableEntity, codeBadRequest, "argv has more than 2 MiB")
	}
	for _, word := range d.Argv {
		if strings.ContainsRune(word, 0) {
			return nil, fail(http.StatusUnprocessableEntity, codeBadRequest, "argv has a NUL byte")
		}
	}
	e := &sandboxes.Exec{OpenInput: d.OpenStdin, Tag: d.Tag}
	e.Argv, e.Dir = d.Argv, d.Dir
	var err error
	if e.Env, err = envOf(d.Env); err != nil {
		return nil, err
	}
	switch {
	case d.OpenStdin && d.Stdin != nil, d.TTY != nil && d.Stdin != nil:
		return nil, fail(http.StatusUnprocessableEntity, codeBadRequest, "stdin is given here, or written later: not both")
	case d.Stdin != nil:
		e.Input = strings.NewReader(string(d.Stdin))
	}
	if d.TTY != nil {
		e.TTY, e.OpenInput = &backend.WinSize{Rows: d.TTY.Rows, Cols: d.TTY.Cols}, true
	}
	e.Limits = backend.Limits{Time: time.Duration(d.TimeLimit), CPU: time.Duration(d.CPUTime), Output: d.OutputLimit}
	return e, nil
}

// exec starts a process. What is asked for decides what comes: the process at once, its frames, or its result.
func (s *Server) exec(c *call) error {
	b, done, err := s.standing(c)
	if err != nil {
		return err
	}
	defer done()
	var d execDoc
	if err := c.read(&d); err != nil {
		return err
	}
	e, err := d.exec()
	if err != nil {
		return err
	}
	s.stats.count(c.owner, counts{execs: 1})
	var reader *sandboxes.Reader
	follow := func(r *sandboxes.Reader) { reader = r }
	if d.Detach {
		follow = nil
	}
	p, err := b.Start(e, follow)
	if err != nil {
		return startProblem(err)
	}
	c.w.Header().Set("Location", "/v1/sandboxes/"+b.ID+"/processes/"+strconv.Itoa(p.Number))
	switch {
	case d.Detach:
		reply(c.w, http.StatusCreated, processOf(p))
		return nil
	case c.streams():
		defer reader.Close()
		return c.follow(reader, p.Usage)
	}
	defer reader.Close()
	r, err := collect(c.Context(), p, reader)
	if err != nil {
		return err
	}
	reply(c.w, http.StatusOK, r)
	return nil
}

// startProblem is that of a process that could not be started.
func startProblem(err error) error {
	if errors.As(err, new(*config.UsageError)) || errors.Is(err, backend.ErrClosed) || errors.As(err, new(*sandboxes.QuotaError)) {
		return err
	}
	if dir, ok := errors.AsType[*backend.DirError](err); ok {
		return fail(http.StatusUnprocessableEntity, codeDir, dir.Error()).hint("say a directory as processes inside see it; one of the host is there if the policy shows it")
	}
	return fail(http.StatusUnprocessableEntity, codeExec, err.Error())
}

// collect waits for a process, and gives what it wrote.
func collect(ctx context.Context, p *sandboxes.Process, reader *sandboxes.Reader) (*resultDoc, error) {
	r := &resultDoc{Process: p.Number}
	for {
		frames, err := reader.Next(ctx)
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range frames {
			f := &frames[i]
			switch f.Type {
			case sandboxes.FrameStdout:
				r.keep(&r.Stdout, f)
			case sandboxes.FrameStderr:
				r.keep(&r.Stderr, f)
			case sandboxes.FrameExit:
				r.Report = f.Report
			}
		}
	}
}

func (r *resultDoc) keep(to *octets, f *sandboxes.Frame) {
	some := f.Bytes()
	if room := maxResult - len(*to); len(some) > room {
		some, r.Truncated = some[:room], true
	}
	*to = append(*to, some...)
}

// named is the process that a path names.
func (s processRoutes) named(c *call) (*sandboxes.Process, error) {
	b, err := s.box(c)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(c.PathValue("number"))
	if err != nil {
		return nil, sandboxes.ErrNoProcess
	}
	return b.Process(n)
}

func (s processRoutes) processes(c *call) error {
	b, err := s.box(c)
	if err != nil {
		return err
	}
	all := []*processDoc{}
	for _, p := range b.Processes() {
		d := processOf(p)
		d.look(p)
		all = append(all, d)
	}
	reply(c.w, http.StatusOK, map[string]any{"processes": all})
	return nil
}

func (s processRoutes) process(c *call) error {
	p, err := s.named(c)
	if err != nil {
		return err
	}
	d := processOf(p)
	d.look(p)
	reply(c.w, http.StatusOK, d)
	return nil
}

func (s processRoutes) output(c *call) error {
	p, err := s.named(c)
	if err != nil {
		return err
	}
	return s.frames(c, p.Log, p.Usage)
}

// frames sends a log: after ?from=SEQ, to its end where ?follow=1 asks for that, else what is there now.
func (s *Server) frames(c *call, log *sandboxes.Log, usage func() (backend.Usage, error)) error {
	from, err := number(c, "from")
	if err != nil {
		return err
	}
	last := log.Last()
	r, err := log.Reader(from)
	if err != nil {
		if errors.Is(err, sandboxes.ErrDropped) {
			return err
		}
		return fail(http.StatusBadRequest, codeBadRequest, err.Error())
	}
	defer r.Close()
	if on := c.URL.Query().Get("follow"); on == "1" || on == "true" {
		return c.follow(r, usage)
	}
	c.begin()
	for from < last {
		frames, err := r.Next(c.Context())
		if err != nil {
			return nil
		}
		for i := range frames {
			if frames[i].Seq > last {
				return nil
			}
			if err := c.send(&frames[i]); err != nil {
				return nil
			}
			from = frames[i].Seq
		}
	}
	return nil
}

func (c *call) begin() {
	h := c.w.Header()
	h.Set("Content-Type", ndjson)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(http.StatusOK)
}

// send sends a frame. A client that takes nothing for a minute is gone.
func (c *call) send(f *sandboxes.Frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_ = c.control.SetWriteDeadline(time.Now().Add(c.pace.write))
	_, err = c.w.Write(append(text, '\n'))
	return err
}

// pace is how often streams say something of their own, and how long they wait for their reader.
type pace struct {
	usage     time.Duration // between two frames of usage
	keepalive time.Duration // without any other frame
	write     time.Duration // that a client may take for what it is sent
}

var usualPace = pace{usage: time.Second, keepalive: keepalive, write: writeTime}

// or is another where nothing was said: tests say less.
func (p pace) or(usual pace) pace {
	return pace{cmp.Or(p.usage, usual.usage), cmp.Or(p.keepalive, usual.keepalive), cmp.Or(p.write, usual.write)}
}

// follow sends frames to the last. Between them it says every second what is used, as long as somebody can tell, and else now and then
// that the server is there: frames of the reader's own, which repeat the number of the last.
func (c *call) follow(r *sandboxes.Reader, usage func() (backend.Usage, error)) error {
	c.begin()
	_ = c.control.Flush()
	last, look, said := uint64(0), time.Now().Add(c.pace.usage), time.Now()
	for {
		wake := said.Add(c.pace.keepalive)
		if usage != nil && look.Before(wake) {
			wake = look
		}
		ctx, cancel := context.WithDeadline(c.Context(), wake)
		frames, err := r.Next(ctx)
		cancel()
		if err != nil && (!errors.Is(err, context.DeadlineExceeded) || c.Context().Err() != nil) {
			return nil // the last frame was sent, or nobody is there
		}
		now := time.Now()
		own := &sandboxes.Frame{Seq: last, Time: now.UTC()}
		if len(frames) > 0 {
			own.Seq = frames[len(frames)-1].Seq
		}
		if usage != nil && !now.Before(look) {
			look = now.Add(c.pace.usage)
			u, err := usage()
			if err != nil {
				usage = nil // it has ended, or nobody can tell
			} else {
				own.Type, own.Usage = sandboxes.FrameUsage, &u
			}
		}
		if own.Type == "" && len(frames) == 0 && !now.Before(said.Add(c.pace.keepalive)) {
			own.Type = sandboxes.FrameKeepalive
		}
		if own.Type != "" {
			frames = append(frames, *own)
		}
		for i := range frames {
			last, said = frames[i].Seq, now
			if err := c.send(&frames[i]); err != nil {
				return nil
			}
		}
		if err := c.control.Flush(); err != nil {
			return nil
		}
	}
}

// look fills in what a process that runs uses.
func (d *processDoc) look(p *sandboxes.Process) {
	if u, err := p.Usage(); err == nil {
		d.Usage = &u
	}
}

// watch cancels what a client that is gone has begun. net/http looks for that only when the whole body was read.
func (c *call) watch(ctx context.Context, cancel func()) {
	for {
		select {
		case <-time.After(200 * time.Millisecond):
			if c.peer.HungUp() {
				cancel()
			}
		case <-ctx.Done():
			return
		}
	}
}

// stdin writes the body to the input of a process; ?eof=1 is its end.
func (s processRoutes) stdin(c *call) error {
	p, err := s.named(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	go c.watch(ctx, cancel)
	n, err := p.WriteInput(ctx, c.patient())
	if err != nil {
		return err
	}
	if eof := c.URL.Query().Get("eof"); eof == "1" || eof == "true" {
		if err := p.CloseInput(); err != nil {
			return err
		}
	}
	reply(c.w, http.StatusOK, map[string]int64{"bytes": n})
	return nil
}

// signals are those that have names here.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
	"USR1": syscall.Signal(10), "USR2": syscall.Signal(12), "CONT": syscall.Signal(18), "STOP": syscall.Signal(19), "WINCH": syscall.Signal(28),
}

func (s processRoutes) signal(c *call) error {
	p, err := s.named(c)
	if err != nil {
		return err
	}
	var d struct {
		Signal string `json:"signal"`
	}
	if err := c.read(&d); err != nil {
		return err
	}
	sig, ok := signals[strings.TrimPrefix(strings.ToUpper(d.Signal), "SIG")]
	if n, err := strconv.Atoi(d.Signal); err == nil && n > 0 && n <= 64 {
		sig, ok = syscall.Signal(n), true
	}
	if !ok {
		return fail(http.StatusUnprocessableEntity, codeBadRequest, strconv.Quote(d.Signal)+" is no signal").hint("a name such as TERM, or a number")
	}
	if err := p.Signal(sig); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s processRoutes) resize(c *call) error {
	p, err := s.named(c)
	if err != nil {
		return err
	}
	var d sizeDoc
	if err := c.read(&d); err != nil {
		return err
	}
	if !p.TTY {
		return fail(http.StatusConflict, codeBadRequest, "the process has no terminal")
	}
	if err := p.Resize(backend.WinSize{Rows: d.Rows, Cols: d.Cols}); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
