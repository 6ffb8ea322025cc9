package top

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/serve"
)

// Picture is what was found at one moment.
type Picture struct {
	Time      time.Time `json:"time"`
	Sandboxes []Row     `json:"sandboxes"`
	Pools     []Pool    `json:"pools,omitempty"`
	// Unreachable is why the server could not be asked.
	Unreachable string `json:"unreachable,omitempty"`
}

// Row is one sandbox.
type Row struct {
	ID         string         `json:"id"`
	Name       string         `json:"name,omitempty"`
	Session    bool           `json:"session"` // else it is the server's
	State      string         `json:"state"`
	Created    time.Time      `json:"created"`
	Processes  int            `json:"processes"`
	Usage      *backend.Usage `json:"usage,omitempty"`
	CPUPercent float64        `json:"cpu_percent"` // of one core, since the picture before; -1: that isn't known
	Limits     struct {
		Memory int64 `json:"memory"`
		Tasks  int64 `json:"tasks"`
		Disk   int64 `json:"disk"`
	} `json:"limits"`
	Traffic *struct {
		Allowed       int64 `json:"allowed"`
		Blocked       int64 `json:"blocked"`
		Failed        int64 `json:"failed"`
		SentBytes     int64 `json:"sent_bytes"`
		ReceivedBytes int64 `json:"received_bytes"`
	} `json:"traffic,omitempty"`

	at time.Time // when it was asked
}

// Pool is one of a server's.
type Pool struct {
	Profile string `json:"profile"`
	For     string `json:"for"` // runs or sandboxes
	Ready   int    `json:"ready"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	// Parked are claims that found one that was ready, Cold those for which one was built.
	Parked Claims `json:"parked"`
	Cold   Claims `json:"cold"`
}

// Claims are those that came by their sandboxes in one way.
type Claims struct {
	Claims int64 `json:"claims"`
}

// Source is somebody who has sandboxes.
type Source struct {
	ID, Name string // of a session; empty: it is the server
	Created  time.Time
	Client   *serve.Client
}

// patience is how long anybody may take for an answer.
const patience = 2 * time.Second

// atOnce is how many are asked at one time.
const atOnce = 16

// gather asks all of them. before is the picture of before, or nil.
func gather(ctx context.Context, sources []Source, before *Picture) *Picture {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := &Picture{Sandboxes: []Row{}}
	rows := make([][]Row, len(sources))
	room := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i, s := range sources {
		asking.Go(func() {
			defer guard()
			room <- struct{}{}
			defer func() { <-room }()
			var all struct {
				Sandboxes []Row `json:"sandboxes"`
			}
			err := s.Client.Do(ctx, "GET", "/v1/sandboxes?usage=1&state=running", nil, &all)
			if s.ID != "" { // a session's supervisor has its forks, too, which are sessions of their own
				all.Sandboxes = slices.DeleteFunc(all.Sandboxes, func(r Row) bool { return r.ID != s.ID })
			}
			for j := range all.Sandboxes {
				all.Sandboxes[j].at, all.Sandboxes[j].Session = time.Now(), s.ID != ""
			}
			rows[i] = all.Sandboxes
			switch {
			case s.ID == "":
				if err != nil {
					p.Unreachable = err.Error()
				} else {
					p.Pools, err = pools(ctx, s.Client)
					if err != nil {
						p.Unreachable = err.Error()
					}
				}
			case err != nil:
				rows[i] = []Row{{ID: s.ID, Name: s.Name, Session: true, State: "unreachable", Created: s.Created}}
			}
		})
	}
	asking.Wait()
	p.Time = time.Now()
	p.Sandboxes = append(p.Sandboxes, slices.Concat(rows...)...)
	p.since(before)
	return p
}

// pools are those of a server that has any.
func pools(ctx context.Context, c *serve.Client) ([]Pool, error) {
	var all struct {
		Pools []Pool `json:"pools"`
	}
	err := c.Do(ctx, "GET", "/v1/pools", nil, &all)
	if refused, ok := errors.AsType[*serve.Error](err); ok && refused.Status == http.StatusNotFound {
		return nil, nil // a server that knows no pools
	}
	return all.Pools, err
}

// since fills in what takes two pictures.
func (p *Picture) since(before *Picture) {
	was := map[string]*Row{}
	if before != nil {
		for i := range before.Sandboxes {
			was[before.Sandboxes[i].ID] = &before.Sandboxes[i]
		}
	}
	for i := range p.Sandboxes {
		r := &p.Sandboxes[i]
		r.CPUPercent = -1
		then := was[r.ID]
		if then == nil || r.Usage == nil || then.Usage == nil || r.Usage.CPU < 0 || then.Usage.CPU < 0 {
			continue
		}
		if d := r.at.Sub(then.at); d > 0 {
			r.CPUPercent = max(0, 100*float64(r.Usage.CPU-then.Usage.CPU)/float64(d))
		}
	}
	slices.SortStableFunc(p.Sandboxes, func(a, b Row) int {
		switch {
		case a.CPUPercent > b.CPUPercent:
			return -1
		case a.CPUPercent < b.CPUPercent:
			return 1
		}
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}
