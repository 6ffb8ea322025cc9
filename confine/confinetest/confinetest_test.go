package confinetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Target{
		Backend: &Backend{Handle: toy}, Snapshots: true,
		Program: func(does ...string) []string { return does },
	})
}

// toy plays the programs of the suite.
func toy(c *Call) (r Result) {
	words, first := strings.Join(c.Args[1:], " "), ""
	if len(c.Args) > 1 {
		first = c.Args[1]
	}
	var err error
	switch c.Args[0] {
	case "echo":
		_, err = fmt.Fprintln(c.Stdout, words)
	case "err":
		_, err = fmt.Fprintln(c.Stderr, words)
	case "cat":
		_, err = io.Copy(c.Stdout, c.Stdin)
	case "exit":
		r.Code, err = strconv.Atoi(first)
	case "sleep":
		c.Use(backend.Usage{Memory: 1 << 20, Tasks: 1, Scratch: -1})
		<-c.Context.Done()
	case "denied":
		c.Tell(backend.Event{Denied: &status.Violation{Kind: "syscall", What: "mount", Count: 1}})
		<-c.Context.Done()
	case "burn":
		for used := time.Duration(0); c.Context.Err() == nil; used += 10 * time.Millisecond {
			c.Use(backend.Usage{CPU: used, Memory: 1 << 20, Tasks: 1, Scratch: -1})
			time.Sleep(time.Millisecond)
		}
	case "flood":
		for began := time.Now(); err == nil; {
			c.Use(backend.Usage{CPU: time.Since(began), Memory: 1 << 20, Tasks: 1, Scratch: -1})
			_, err = fmt.Fprintln(c.Stdout, "0123456789")
		}
	case "write":
		err = write(c.Files, first, c.Args[2])
	case "read":
		var text []byte
		text, err = read(c.Files, first)
		_, _ = c.Stdout.Write(text)
	case "env":
		value := ""
		for _, v := range c.Env {
			if name, is, _ := strings.Cut(v, "="); name == first {
				value = is
			}
		}
		_, err = fmt.Fprintln(c.Stdout, value)
	case "pwd":
		_, err = fmt.Fprintln(c.Stdout, c.Dir)
	case "size":
		_, err = fmt.Fprintln(c.Stdout, c.TTY.Rows, c.TTY.Cols)
	default:
		return Result{Code: 127, Status: status.ExecFailed}
	}
	if err != nil {
		r.Code = 1
	}
	return r
}

func TestScript(t *testing.T) {
	mock := &Backend{Handle: Script(
		Step{Args: []string{"python3", "-c"}, Stdout: "42\n", Stderr: "warned\n"},
		Step{Result: Result{Status: status.MemLimit, Reason: "too much"}},
		Step{Args: []string{"ls"}},
		Step{Delay: time.Hour},
	)}
	box, err := confine.Open(t.Context(), nil, confine.WithBackend(mock))
	must.Do(t, err)
	out, r, err := box.Command("python3", "-c", "print(42)").CombinedOutput()
	if err != nil || string(out) != "42\nwarned\n" || r.Status != status.OK {
		t.Errorf("%q, %+v, %v", out, r, err)
	}
	var exit *confine.ExitError
	if r, err := box.Command("python3").Run(); !errors.As(err, &exit) || exit.Report != r || r.Status != status.MemLimit || r.Reason != "too much" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, _ := box.Command("rm").Run(); r.Status != status.InternalError || !strings.Contains(r.Reason, `step 3 is for ["ls"]`) {
		t.Errorf("not the one of its step: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := box.CommandContext(ctx, "sleep")
	must.Do(t, slow.Start())
	cancel()
	if r, _ := slow.Wait(); r.Status != status.KilledKill {
		t.Errorf("cancelled while it is slow: %+v", r)
	}
	if r, _ := box.Command("more").Run(); r.Status != status.InternalError {
		t.Errorf("after the last step: %+v", r)
	}
	if _, err := box.Close(); err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	fault := errors.New("a fault")
	for _, mock := range []*Backend{{PlanErr: fault}, {BuildErr: fault}} {
		if _, err := confine.Open(t.Context(), nil, confine.WithBackend(mock)); !errors.Is(err, fault) {
			t.Errorf("%+v: %v", mock, err)
		}
	}
	cmd := confine.Command("true")
	cmd.Backend = &Backend{StartErr: fault}
	if r, err := cmd.Run(); r != nil || !errors.Is(err, fault) {
		t.Errorf("%+v, %v", r, err)
	}
	policy := confine.Default()
	policy.Require = []string{"memory"}
	_, err := confine.Open(t.Context(), policy, confine.WithBackend(&Backend{Weak: []status.Capability{status.Memory}}))
	var exit *confine.ExitError
	if !errors.As(err, &exit) || exit.Report.Status != status.InternalError {
		t.Errorf("what is required and weak: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := confine.Open(ctx, nil, confine.WithBackend(&Backend{BuildDelay: time.Hour})); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled while it is built: %v", err)
	}
}

func write(f backend.Files, name, text string) error {
	w, err := f.Create(name, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return errors.Join(err, w.Close())
}

func read(f backend.Files, name string) ([]byte, error) {
	r, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
