package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// pace is how often streams say something of their own, and how long they wait for their reader.
type pace struct {
	usage     time.Duration // between two frames of usage
	keepalive time.Duration // without any other frame
	write     time.Duration // that a client may take for what it is sent
}

var usualPace = pace{usage: time.Second, keepalive: 15 * time.Second, write: writeTime}

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

// liveDoc is what is known of a sandbox that stands while somebody looks.
type liveDoc struct {
	Usage   *backend.Usage             `json:"usage,omitempty"`
	Limits  *limitsDoc                 `json:"limits,omitempty"`
	Traffic *trafficDoc                `json:"traffic,omitempty"` // where somebody sees it
	Network map[string]json.RawMessage `json:"network,omitempty"` // the options that hold; of one alone
}

// limitsDoc are those that usage can be held against; 0 is none.
type limitsDoc struct {
	Memory int64 `json:"memory"`
	Tasks  int64 `json:"tasks"`
	Disk   int64 `json:"disk"`
}

// trafficDoc is what went over the network until now.
type trafficDoc struct {
	Allowed       int64 `json:"allowed"` // attempts
	Blocked       int64 `json:"blocked"`
	Failed        int64 `json:"failed"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
}

// look fills in what takes a look at the sandbox.
func (d *liveDoc) look(b *sandboxes.Sandbox) {
	if b.Ended() != nil {
		return
	}
	if u, err := b.Usage(); err == nil {
		d.Usage = &u
	}
	p := b.Policy()
	d.Limits = &limitsDoc{Memory: p.MemoryLimit, Tasks: p.Processes, Disk: p.DiskLimit}
	t := b.Traffic()
	if t == nil {
		return
	}
	d.Traffic = &trafficDoc{SentBytes: t.SentBytes, ReceivedBytes: t.ReceivedBytes}
	for i := range t.Attempts {
		switch a := &t.Attempts[i]; a.Verdict {
		case status.AttemptAllowed:
			d.Traffic.Allowed += a.Count
		case status.AttemptBlocked:
			d.Traffic.Blocked += a.Count
		case status.AttemptFailed:
			d.Traffic.Failed += a.Count
		}
	}
}

// look fills in what a process that runs uses.
func (d *processDoc) look(p *sandboxes.Process) {
	if u, err := p.Usage(); err == nil {
		d.Usage = &u
	}
}

// changeNetwork has other rules hold: the options that are said are others, the rest is as it was. They may be no wider than the ceiling.
func (s *Server) changeNetwork(c *call, b *sandboxes.Sandbox, said policyDoc) error {
	settings, err := said.settings()
	if err != nil {
		return err
	}
	return b.Network(c.Context(), func(p *config.Policy) (*config.Network, error) {
		n, err := p.Network.Change(settings)
		if err != nil {
			return nil, err
		}
		policy := *p
		policy.Network = *n
		if err := policy.Validate(); err != nil {
			return nil, err
		}
		if s.Ceiling != nil {
			if option := policy.Wider(s.Ceiling); option != "" {
				return nil, fail(http.StatusForbidden, codeCeiling, "with this network, the policy's "+option+" would be wider than the server allows").hint("ask for less of it")
			}
		}
		return n, nil
	})
}

// networkOf are the options of a network, as a change takes them.
func networkOf(n *config.Network) map[string]json.RawMessage {
	doc := map[string]json.RawMessage{}
	for _, set := range n.Settings() {
		o := config.LookupOption(set.Option)
		var v any = set.Values
		switch {
		case o.IsList() && len(set.Values) == 0:
			v = []string{}
		case o.IsBool():
			v = set.Values[0] == "true"
		case !o.IsList():
			v = set.Values[0]
		}
		text, _ := json.Marshal(v) // plain data
		doc[strings.ReplaceAll(set.Option, "-", "_")] = text
	}
	return doc
}
