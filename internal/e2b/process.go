package e2b

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// The messages of process.Process, in JSON.
type (
	processConfig struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  *string           `json:"cwd,omitempty"`
	}
	ptyConfig struct {
		Size *struct {
			Cols uint16 `json:"cols"`
			Rows uint16 `json:"rows"`
		} `json:"size"`
	}
	startRequest struct {
		Process *processConfig `json:"process"`
		PTY     *ptyConfig     `json:"pty"`
		Tag     *string        `json:"tag"`
		Stdin   *bool          `json:"stdin"` // not there: true
	}
	selector struct {
		PID *uint32 `json:"pid"`
		Tag *string `json:"tag"`
	}
	selected struct {
		Process selector `json:"process"`
	}
	processInput struct {
		Stdin *[]byte `json:"stdin"`
		PTY   *[]byte `json:"pty"`
	}
	sendInputRequest struct {
		selected
		Input processInput `json:"input"`
	}
	streamInputRequest struct {
		Start *selected `json:"start"`
		Data  *struct {
			Input processInput `json:"input"`
		} `json:"data"`
	}
	updateRequest struct {
		selected
		PTY *ptyConfig `json:"pty"`
	}
	signalRequest struct {
		selected
		Signal enum `json:"signal"`
	}
	processInfo struct {
		Config *processConfig `json:"config"`
		PID    int            `json:"pid"`
		Tag    *string        `json:"tag,omitempty"`
	}
	listResponse struct {
		Processes []processInfo `json:"processes"`
	}
	empty struct{}

	// event is one of four.
	event struct {
		Start     *startEvent `json:"start,omitempty"`
		Data      *dataEvent  `json:"data,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		Keepalive *empty      `json:"keepalive,omitempty"`
	}
	startEvent struct {
		PID int `json:"pid"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		PTY    []byte `json:"pty,omitempty"`
	}
	endEvent struct {
		ExitCode int     `json:"exitCode"`
		Exited   bool    `json:"exited"`
		Status   string  `json:"status"`
		Error    *string `json:"error,omitempty"`
	}
)

// keepalive is how long a stream is silent. Tests have less.
var keepalive = 15 * time.Second

// unaries are the calls of one message each way.
func (s *Server) unaries() map[string]func(*call) error {
	return map[string]func(*call) error{
		"process.Process/List":                   unary(listProcesses),
		"process.Process/SendInput":              unary(sendInput),
		"process.Process/CloseStdin":             unary(closeStdin),
		"process.Process/SendSignal":             unary(sendSignal),
		"process.Process/Update":                 unary(update),
		"filesystem.Filesystem/Stat":             unary(stat),
		"filesystem.Filesystem/ListDir":          unary(listDir),
		"filesystem.Filesystem/MakeDir":          unary(makeDir),
		"filesystem.Filesystem/Move":             unary(move),
		"filesystem.Filesystem/Remove":           unary(remove),
		"filesystem.Filesystem/CreateWatcher":    unary(createWatcher),
		"filesystem.Filesystem/GetWatcherEvents": unary(watcherEvents),
		"filesystem.Filesystem/RemoveWatcher":    unary(removeWatcher),
	}
}

// streams are the calls that a stream answers.
func (s *Server) streams() map[string]func(*call) error {
	return map[string]func(*call) error{
		"process.Process/Start":          serverStream(start),
		"process.Process/Connect":        serverStream(connect),
		"filesystem.Filesystem/WatchDir": serverStream(watchDir),
	}
}

// envOf is an environment as K=V.
func envOf(env map[string]string) ([]string, error) {
	all, bad, ok := sandboxes.EnvOf(env)
	if !ok {
		return nil, &rpcError{invalidArgument, strconv.Quote(bad) + " can't be a variable"}
	}
	return all, nil
}

// maxArgv is what the kernel takes at most.
const maxArgv = 2 << 20

// exec is what is to be started, within a time.
func (b *box) exec(in *startRequest, timeout time.Duration) (*sandboxes.Exec, error) {
	p := in.Process
	if p == nil || p.Cmd == "" {
		return nil, &rpcError{invalidArgument, "there is no command"}
	}
	e := &sandboxes.Exec{OpenInput: in.Stdin == nil || *in.Stdin}
	e.Argv = append([]string{p.Cmd}, p.Args...)
	if words := strings.Join(e.Argv, ""); len(words)+len(e.Argv) > maxArgv || strings.ContainsRune(words, 0) {
		return nil, &rpcError{invalidArgument, "the command has more than 2 MiB, or a NUL byte"}
	}
	var err error
	if e.Env, err = envOf(p.Envs); err != nil {
		return nil, err
	}
	e.Dir = Home
	if p.Cwd != nil {
		if e.Dir, err = resolve(*p.Cwd); err != nil {
			return nil, err
		}
	}
	if in.Tag != nil {
		if e.Tag = *in.Tag; len(e.Tag) > maxWord {
			return nil, &rpcError{invalidArgument, "the tag has more than 256 bytes"}
		}
	}
	if in.PTY != nil {
		size, err := in.PTY.size()
		if err != nil {
			return nil, err
		}
		e.TTY, e.OpenInput = size, true
	}
	if most := b.spec.Policy.TimeLimit; most == 0 || timeout < most { // else the policy's holds
		e.Limits.Time = timeout
	}
	return e, nil
}

func (p *ptyConfig) size() (*backend.WinSize, error) {
	if p == nil || p.Size == nil || p.Size.Rows == 0 || p.Size.Cols == 0 {
		return nil, &rpcError{invalidArgument, "a terminal needs a size"}
	}
	return &backend.WinSize{Rows: p.Size.Rows, Cols: p.Size.Cols}, nil
}

// start starts a process, and tells what it does. It goes on when the client leaves, and ends at the client's deadline.
func start(ctx context.Context, c *call, in *startRequest, to *sender) error {
	timeout, err := c.timeout()
	if err != nil {
		return err
	}
	e, err := c.box.exec(in, timeout)
	if err != nil {
		return err
	}
	var reader *sandboxes.Reader
	p, err := c.box.Start(e, func(r *sandboxes.Reader) { reader = r })
	if err != nil {
		return err
	}
	defer reader.Close()
	c.box.remember(p, in.Process)
	return c.box.follow(ctx, p, reader, to)
}

// remember keeps what a process was started with, as long as it runs.
func (b *box) remember(p *sandboxes.Process, config *processConfig) {
	b.mu.Lock()
	b.started[p.Number] = config
	b.mu.Unlock()
	go func() {
		<-p.Done
		b.mu.Lock()
		delete(b.started, p.Number)
		b.mu.Unlock()
	}()
}

// connect tells what a process that runs does from now on.
func connect(ctx context.Context, c *call, in *selected, to *sender) error {
	p, err := c.box.running(in.Process)
	if err != nil {
		return err
	}
	reader, err := p.Log.Reader(p.Log.Last())
	if err != nil {
		return err
	}
	defer reader.Close()
	return c.box.follow(ctx, p, reader, to)
}

func (b *box) follow(ctx context.Context, p *sandboxes.Process, reader *sandboxes.Reader, to *sender) error {
	tell := func(e *event) error { return to.send(map[string]*event{"event": e}) }
	if err := tell(&event{Start: &startEvent{p.Number}}); err != nil {
		return err
	}
	for {
		if err := to.flush(); err != nil {
			return err
		}
		brief, cancel := context.WithTimeout(ctx, keepalive)
		frames, err := reader.Next(brief)
		cancel()
		switch {
		case err == io.EOF: // it had ended before
			return b.ended(p.Report(), tell)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if err := tell(&event{Keepalive: &empty{}}); err != nil {
				return err
			}
		}
		for i := range frames {
			f := &frames[i]
			var e *event
			switch f.Type {
			case sandboxes.FrameStdout, sandboxes.FrameStderr:
				e = &event{Data: dataOf(p.TTY, f)}
			case sandboxes.FrameExit:
				return b.ended(f.Report, tell)
			default:
				continue
			}
			if err := tell(e); err != nil {
				return err
			}
		}
	}
}

func dataOf(tty bool, f *sandboxes.Frame) *dataEvent {
	switch {
	case tty:
		return &dataEvent{PTY: f.Bytes()}
	case f.Type == sandboxes.FrameStderr:
		return &dataEvent{Stderr: f.Bytes()}
	}
	return &dataEvent{Stdout: f.Bytes()}
}

// ended tells how a process ended. One whose time was over is an error of the call, as it is to the client, whose time it was; so is
// one that has ended with its sandbox.
func (b *box) ended(r *status.Report, tell func(*event) error) error {
	switch {
	case r == nil:
		return &rpcError{internal, "it has ended without a report"}
	case r.Status == status.Timeout:
		return &rpcError{deadlineExceeded, r.Reason}
	case r.ExitCode == nil && b.Ending():
		return &rpcError{unavailable, gone}
	}
	e := &endEvent{ExitCode: r.RC, Status: "exit status " + strconv.Itoa(r.RC)}
	if e.Exited = r.ExitCode != nil; e.Exited {
		e.ExitCode = *r.ExitCode
		e.Status = "exit status " + strconv.Itoa(*r.ExitCode)
	} else if r.Signal != "" {
		e.Status = "signal: " + strings.ToLower(strings.TrimPrefix(r.Signal, "SIG"))
	}
	if e.ExitCode != 0 {
		why := cmp.Or(r.Reason, e.Status)
		e.Error = &why
	}
	return tell(&event{End: e})
}

// running finds a process that runs.
func (b *box) running(by selector) (*sandboxes.Process, error) {
	for _, p := range b.Processes() {
		if p.Report() == nil && (by.PID != nil && p.Number == int(*by.PID) || by.PID == nil && by.Tag != nil && p.Tag != "" && p.Tag == *by.Tag) {
			return p, nil
		}
	}
	return nil, &rpcError{notFound, "no such process runs"}
}

func listProcesses(_ context.Context, c *call, _ *empty) (*listResponse, error) {
	all := &listResponse{Processes: []processInfo{}}
	for _, p := range c.box.Processes() {
		c.box.mu.Lock()
		config := c.box.started[p.Number]
		c.box.mu.Unlock()
		if config == nil || p.Report() != nil {
			continue
		}
		info := processInfo{Config: config, PID: p.Number}
		if p.Tag != "" {
			info.Tag = &p.Tag
		}
		all.Processes = append(all.Processes, info)
	}
	return all, nil
}

// write writes to the input of a process what is meant for it.
func write(ctx context.Context, p *sandboxes.Process, in *processInput) error {
	data := in.Stdin
	if p.TTY {
		data = in.PTY
	}
	if data == nil {
		return &rpcError{invalidArgument, "the process has another kind of input"}
	}
	_, err := p.WriteInput(ctx, bytes.NewReader(*data))
	return err
}

func sendInput(ctx context.Context, c *call, in *sendInputRequest) (*empty, error) {
	p, err := c.box.running(in.Process)
	if err == nil {
		err = write(ctx, p, &in.Input)
	}
	return &empty{}, err
}

// streamInput is a stream of input, answered at its end.
func (s *Server) streamInput(c *call) error {
	return c.stream(func(ctx context.Context, to *sender) error {
		timeout, err := c.timeout()
		if err != nil {
			return err
		}
		body := c.patient(cmp.Or(timeout, s.BodyTime))
		var p *sandboxes.Process
		for {
			text, err := readEnvelope(body, c.document)
			switch {
			case err == io.EOF && p == nil:
				return &rpcError{invalidArgument, "the stream names no process"}
			case err == io.EOF:
				return to.send(&empty{})
			case err != nil:
				return err
			}
			var in streamInputRequest
			if err := decode(text, &in); err != nil {
				return err
			}
			switch {
			case in.Start != nil && p == nil:
				if p, err = c.box.running(in.Start.Process); err != nil {
					return err
				}
			case in.Data != nil && p != nil:
				if err := write(ctx, p, &in.Data.Input); err != nil {
					return err
				}
			case in.Start != nil || in.Data != nil:
				return &rpcError{invalidArgument, "the stream begins with the process, once"}
			}
		}
	})
}

func closeStdin(_ context.Context, c *call, in *selected) (*empty, error) {
	p, err := c.box.running(in.Process)
	if err == nil && p.TTY {
		err = &rpcError{failedPrecondition, "a terminal's input ends by Ctrl+D"}
	}
	if err == nil {
		err = p.CloseInput()
	}
	return &empty{}, err
}

// signals are those that E2B has.
var signals = map[enum]os.Signal{"SIGNAL_SIGTERM": syscall.SIGTERM, "15": syscall.SIGTERM, "SIGNAL_SIGKILL": syscall.SIGKILL, "9": syscall.SIGKILL}

func sendSignal(_ context.Context, c *call, in *signalRequest) (*empty, error) {
	sig, ok := signals[in.Signal]
	if !ok {
		return nil, &rpcError{invalidArgument, "no such signal"}
	}
	p, err := c.box.running(in.Process)
	if err == nil {
		if err = p.Signal(sig); errors.Is(err, os.ErrProcessDone) {
			err = &rpcError{notFound, "no such process runs"}
		}
	}
	return &empty{}, err
}

func update(_ context.Context, c *call, in *updateRequest) (*empty, error) {
	p, err := c.box.running(in.Process)
	if err != nil {
		return nil, err
	}
	if in.PTY == nil {
		return &empty{}, nil
	}
	size, err := in.PTY.size()
	if err == nil && !p.TTY {
		err = &rpcError{failedPrecondition, "the process has no terminal"}
	}
	if err == nil {
		err = p.Resize(*size)
	}
	return &empty{}, err
}
