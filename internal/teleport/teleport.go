// Package teleport has a sandbox go on at another server, by five steps of a client's; no server asks another:
//
//	here                                      there
//	1  POST departure: it is written down,
//	   stands still, and has a token
//	2  GET snapshot             ————————→     PUT snapshot
//	3                                         POST sandbox from it, with the token as Idempotency-Key
//	4  PUT departure: it ends
//	5                                         DELETE snapshot
//
// It runs here before 1, there after 3, and nowhere in between. Each step may be done again: whoever is interrupted, or doesn't hear an
// answer, begins again at 1 and gets the same token, and by that the same sandbox. Only when the other server has refused it does it go
// on here (DELETE departure). A server that is killed takes its sandboxes with it, as ever; the snapshot stays in its directory until it has said what
// became of it: here up to 4, there up to 5, so that it isn't lost with the one of them.
package teleport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/confine-run/confine/internal/serve"
)

// Moved is where a sandbox has come to be.
type Moved struct {
	ID     string
	Memory bool // its processes are there, too
}

// InDoubtError: nobody knows whether the other server has the sandbox. It stands still until that is known.
type InDoubtError struct{ Err error }

func (e *InDoubtError) Error() string {
	return "the sandbox stands still, since it isn't known whether it has arrived: " + e.Err.Error()
}
func (e *InDoubtError) Unwrap() error  { return e.Err }
func (e *InDoubtError) Remedy() string { return "say the same once more" }

// Move has a sandbox, which path names at one server, go on at another. at is told before each step what it is, and may be nil; with an
// error of it nothing more is done, as if the caller had been killed.
func Move(ctx context.Context, from *serve.Client, path string, to *serve.Client, where string, at func(step string) error) (*Moved, error) {
	if at == nil {
		at = func(string) error { return nil }
	}
	if err := at("depart"); err != nil {
		return nil, err
	}
	var d serve.Departure
	if err := from.Do(ctx, http.MethodPost, path+"/departure", nil, &d); err != nil {
		return nil, err
	}
	made, err := offer(ctx, from, to, &d, at)
	if err != nil {
		var refused *serve.Error
		if !errors.As(err, &refused) || refused.Status >= 500 && refused.Report == nil {
			return nil, &InDoubtError{err}
		}
		// It was refused, and nothing of it is there.
		if back := from.Do(ctx, http.MethodDelete, path+"/departure?token="+url.QueryEscape(d.Token), nil, nil); back != nil {
			return nil, errors.Join(err, back)
		}
		return nil, err
	}
	if err := at("arrived"); err != nil {
		return nil, err
	}
	if err := from.Do(ctx, http.MethodPut, path+"/departure", &serve.Arrival{Token: d.Token, At: where + " as " + made}, nil); err != nil {
		if refused := (*serve.Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusConflict {
			return nil, fmt.Errorf("it is at %s as %s, but %w", where, made, err)
		}
		return nil, &InDoubtError{err}
	}
	if err := at("clean"); err != nil {
		return nil, err
	}
	err = to.Do(ctx, http.MethodDelete, "/v1/snapshots/"+d.Snapshot, nil, nil)
	if refused := (*serve.Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		err = nil
	}
	return &Moved{made, d.Holds == "memory"}, err
}

// offer has the other server take it in.
func offer(ctx context.Context, from, to *serve.Client, d *serve.Departure, at func(string) error) (id string, err error) {
	if err := at("send"); err != nil {
		return "", err
	}
	if err := to.Do(ctx, http.MethodGet, "/v1/snapshots/"+d.Snapshot+"?stat", nil, nil); err != nil {
		if err := pass(ctx, from, to, "/v1/snapshots/"+d.Snapshot); err != nil {
			return "", err
		}
	}
	if err := at("create"); err != nil {
		return "", err
	}
	var ask map[string]json.RawMessage
	if err := json.Unmarshal(d.Create, &ask); err != nil {
		return "", err
	}
	if ask["from"], err = json.Marshal(d.Snapshot); err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	err = to.Once(ctx, "/v1/sandboxes", d.Token, ask, &made)
	if err == nil && made.ID == "" {
		err = errors.New("an answer that is none")
	}
	return made.ID, err
}

// pass copies what a path gives to the same path of another server.
func pass(ctx context.Context, from, to *serve.Client, path string) error {
	r, w := io.Pipe()
	given := make(chan error, 1)
	go func() {
		err := from.Get(ctx, path, w)
		_ = w.CloseWithError(err)
		given <- err
	}()
	err := to.Put(ctx, http.MethodPut, path, r)
	_ = r.CloseWithError(io.ErrClosedPipe)
	if gave := <-given; gave != nil && !errors.Is(gave, io.ErrClosedPipe) {
		return &InDoubtError{gave}
	}
	return err
}
