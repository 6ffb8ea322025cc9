package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/serve"
)

// A session moves by its record, and by nothing else:
//
//	the worker that has it               the record             the worker that is to have it
//	it departs: written down, and still  running, FROM
//	the snapshot is on the servers       moving, FROM
//	arrive ———————————————————————————————————————————————————→
//	                                     arriving, TO           claims it
//	                                                            makes it of the snapshot
//	                                     running, TO            it goes on
//	it ends here                                                the answer
//
// Each step is one write that is refused if the record is another by then, so that at every moment one of the two may run it. FROM keeps its own, standing still, until the
// record says that it runs elsewhere. Before it was claimed FROM takes it back, when TO refuses or is gone; after that TO gives it back, or FROM takes it when
// TO is gone by its lease. When FROM is gone meanwhile, TO goes on; when both are, whoever looks for the session makes it of the snapshot.
//
// steps are where a test may end a process.
const (
	stepDepart = "depart" // it runs here
	stepStore  = "store"  // it stands still
	stepOffer  = "offer"  // the snapshot is on the servers
	stepAsk    = "ask"    // the record says that it may be claimed
	stepClaim  = "claim"  // TO is about to
	stepFetch  = "fetch"  // TO has
	stepCreate = "create" // the snapshot is there
	stepArrive = "arrive" // it is made
	stepAnswer = "answer" // the record says so
	stepEnd    = "end"    // FROM knows
)

// moving is a move under way.
type moving struct {
	done chan struct{}
	now  *jobs.Session
	err  error
}

func (h *holding) at(step string) {
	if h.s.opts.At != nil {
		h.s.opts.At(step)
	}
}

// askTime is how long a worker may take to make a session of its snapshot.
const askTime = 5 * time.Minute

// move has a session go on at another worker, whether or not whoever asks waits for that. Who asks once more waits for the same.
func (h *holding) move(ctx context.Context, key jobs.SessionKey, to string) (*jobs.Session, error) {
	if to == h.s.lease.Name || !jobs.ValidName(to) {
		return nil, &config.UsageError{Msg: "it is there already, or that is no worker"}
	}
	h.mu.Lock()
	m := h.moves[key]
	if m == nil {
		m = &moving{done: make(chan struct{})}
		h.moves[key] = m
		go func() {
			m.now, m.err = h.depart(key, to)
			h.mu.Lock()
			delete(h.moves, key)
			h.mu.Unlock()
			close(m.done)
		}()
	}
	h.mu.Unlock()
	select {
	case <-m.done:
		return m.now, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *holding) depart(key jobs.SessionKey, to string) (*jobs.Session, error) {
	h.at(stepDepart)
	ctx := h.s.ctx
	k, err := h.own(ctx, key)
	if err != nil {
		return nil, err
	}
	local, path := h.client(key.Account), "/v1/sandboxes/"+k.ID
	create, err := h.remaining(key.Account, k.ID)
	if err != nil {
		return nil, err
	}
	var d serve.Departure
	if err := local.Do(ctx, http.MethodPost, path+"/departure", nil, &d); err != nil {
		return nil, err
	}
	back := func(why error) error {
		return errors.Join(why, local.Do(ctx, http.MethodDelete, path+"/departure?token="+url.QueryEscape(d.Token), nil, nil))
	}
	h.at(stepStore)
	stored, err := h.store(ctx, key, &jobs.Stored{ID: d.Snapshot, Holds: d.Holds})
	if err != nil {
		return nil, back(err)
	}
	m := &jobs.Move{From: k.Worker, FromID: k.ID, FromHost: k.Host, To: to, Token: d.Token, Snapshot: *stored}
	if m.Create, err = create(d.Create); err != nil {
		return nil, back(err)
	}
	h.at(stepOffer)
	_, err = h.of.Change(ctx, key, func(k jobs.KeptSession) (*jobs.Session, error) {
		switch {
		case k.Session == nil || k.Worker != m.From || k.ID != m.FromID || k.State.Final():
			return nil, errElsewhere
		case k.State == jobs.SessionMoving && k.Move.Token == m.Token:
			return nil, nil
		}
		next := *k.Session
		next.State, next.Move = jobs.SessionMoving, m
		return &next, nil
	})
	if err != nil {
		return nil, back(err)
	}
	h.at(stepAsk)
	asked := make(chan error, 1)
	go func() { asked <- h.ask(ctx, key, to) }()
	now, err := h.settle(ctx, key, m, asked)
	if err != nil || now.Worker == m.From {
		return nil, back(err)
	}
	h.at(stepEnd)
	return now, local.Do(ctx, http.MethodPut, path+"/departure", &serve.Arrival{Token: d.Token, At: now.Host + " as " + now.ID}, nil)
}

var errElsewhere = &serve.Error{Status: http.StatusConflict, Code: "CONFLICT", Detail: "the session has ended, or is somewhere else by now"}

// maxCreate is the most bytes of what asks for a session, which becomes part of its record.
const maxCreate = 256 << 10

// remaining gives what turns what has asked for a session into what asks for it elsewhere: what is left of its lifetime is a number of seconds, which no clock of another host is
// needed for.
func (h *holding) remaining(account, id string) (func(json.RawMessage) (json.RawMessage, error), error) {
	b, err := h.manager.Get(serve.OwnerOfAccount(account), id)
	if err != nil {
		return nil, err
	}
	return func(text json.RawMessage) (json.RawMessage, error) {
		ask := map[string]any{}
		if err := json.Unmarshal(text, &ask); err != nil {
			return nil, err
		}
		deadline, idle := b.Deadlines()
		ask["lifetime"], ask["idle_timeout"] = "none", "none"
		if !deadline.IsZero() {
			ask["lifetime"] = config.FormatDuration(max(time.Until(deadline).Round(time.Second), time.Second))
		}
		if idle > 0 {
			ask["idle_timeout"] = config.FormatDuration(idle)
		}
		made, err := json.Marshal(ask)
		if len(made) > maxCreate {
			return nil, &config.UsageError{Msg: "what the session was asked for by has more than 256 KiB: it can't be moved"}
		}
		return made, err
	}, nil
}

// ask has another worker take a session in.
func (h *holding) ask(ctx context.Context, key jobs.SessionKey, to string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	there := serve.NewClientBy(func(ctx context.Context) (net.Conn, error) { return h.of.Reach(ctx, key.Account, to) })
	defer there.CloseIdleConnections()
	return there.Do(ctx, http.MethodPost, "/more/sessions/"+key.Name+"/arrive", nil, nil)
}

// settle waits until it is known who has a session that was offered, and gives its record. An error is that nobody else has it, and this worker again.
func (h *holding) settle(ctx context.Context, key jobs.SessionKey, m *jobs.Move, asked <-chan error) (*jobs.Session, error) {
	var refusal error
	answered := false
	for {
		var gone bool
		if h.s.lease.Left() <= 0 { // it is for others to say now
			return nil, jobs.ErrGone
		}
		k, err := h.of.Get(ctx, key)
		switch {
		case err != nil: // until the lease ends
		case k.Session == nil || k.State.Final() && k.Worker == m.From:
			return nil, errElsewhere
		case k.Worker == m.From && k.State == jobs.SessionRunning:
			return nil, errors.Join(refusal, errReturned(refusal))
		case k.State == jobs.SessionRunning || k.State.Final():
			return k.Session, nil
		default: // whoever has claimed it, or is to
			to := k.Worker
			if to == m.From {
				to = m.To
			}
			presence, err := h.s.peers.See(ctx, to)
			gone = err == nil && presence == jobs.Gone
		}
		if err == nil && (gone || answered && k.Worker == m.From) {
			worker := k.Worker
			_, err := h.of.Change(ctx, key, func(k jobs.KeptSession) (*jobs.Session, error) {
				if k.Session == nil || k.Worker != worker || k.Move == nil || k.Move.Token != m.Token || h.s.lease.Left() <= 0 {
					return nil, nil // it is looked at once more
				}
				next := *k.Session
				next.State, next.Worker, next.ID, next.Host, next.Move = jobs.SessionRunning, m.From, m.FromID, m.FromHost, nil
				return &next, nil
			})
			if err == nil && gone {
				refusal = errors.New("the other worker is gone")
			}
			if err == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-asked:
			answered, refusal, asked = true, err, nil
		case <-time.After(min(h.s.opts.Lease/20, time.Second/2)):
		}
	}
}

// errReturned is for a session that came back without a word.
func errReturned(refusal error) error {
	if refusal != nil {
		return nil
	}
	return errors.New("the session stays where it is: the other worker has given it back")
}

// take makes a session that was offered to this worker of its snapshot, or one whose worker is gone: that is named then.
func (h *holding) take(key jobs.SessionKey, gone string) (*jobs.Session, error) {
	ctx, me := h.s.ctx, h.s.lease.Name
	h.at(stepClaim)
	tried := false
	k, err := h.of.Change(ctx, key, func(k jobs.KeptSession) (*jobs.Session, error) {
		switch {
		case k.Session == nil || k.Move == nil || k.State.Final():
			return nil, errElsewhere
		case k.State == jobs.SessionArriving && k.Worker == me && tried: // the answer was lost
			return nil, nil
		case gone == "" && (k.State != jobs.SessionMoving || k.Move.To != me), gone != "" && k.Worker != gone:
			return nil, errElsewhere
		}
		tried = true
		next := *k.Session
		next.State, next.Worker, next.Host = jobs.SessionArriving, me, h.s.host
		return &next, nil
	})
	if err != nil {
		return nil, err
	}
	h.at(stepFetch)
	id, failed := h.make(ctx, key, k.Session)
	h.at(stepArrive)
	k, err = h.of.Change(ctx, key, func(k jobs.KeptSession) (*jobs.Session, error) {
		switch {
		case k.Session != nil && k.State == jobs.SessionRunning && k.Worker == me && k.ID == id && failed == nil:
			return nil, nil
		case k.Session == nil || k.State != jobs.SessionArriving || k.Worker != me || h.s.lease.Left() <= 0:
			return nil, errElsewhere
		}
		next := *k.Session
		next.Snapshot = k.Move.Snapshot.ID
		switch {
		case failed == nil:
			next.State, next.ID, next.Move = jobs.SessionRunning, id, nil
			next.Moves++
		case gone != "": // somebody else may
			next.State, next.Worker, next.Host = jobs.SessionMoving, k.Move.From, k.Move.FromHost
		default:
			next.State, next.Worker, next.Host, next.ID, next.Move = jobs.SessionRunning, k.Move.From, k.Move.FromHost, k.Move.FromID, nil
		}
		return &next, nil
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil { // nobody may run it here
		_ = h.client(key.Account).Do(context.WithoutCancel(ctx), http.MethodDelete, "/v1/sandboxes/"+id, nil, nil)
		return nil, err
	}
	h.at(stepAnswer)
	return k.Session, nil
}

// make builds a session of its snapshot, and gives its ID here.
func (h *holding) make(ctx context.Context, key jobs.SessionKey, s *jobs.Session) (id string, err error) {
	if err := h.fetch(ctx, key.Account, &s.Move.Snapshot); err != nil {
		return "", err
	}
	h.at(stepCreate)
	var ask map[string]json.RawMessage
	if err := json.Unmarshal(s.Move.Create, &ask); err != nil {
		return "", err
	}
	ask["from"], _ = json.Marshal(s.Move.Snapshot.ID) // plain text
	ask["name"], _ = json.Marshal(key.Name)
	h.mu.Lock()
	h.coming[key] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.coming, key)
	}()
	var made struct {
		ID string `json:"id"`
	}
	if err := h.client(key.Account).Do(ctx, http.MethodPost, "/v1/sandboxes", ask, &made); err != nil {
		return "", err
	}
	// It stands on the layers of the snapshot for as long as it needs them.
	err = h.manager.Snapshots(serve.OwnerOfAccount(key.Account)).Remove(s.Move.Snapshot.ID)
	if errors.Is(err, sandboxes.ErrNoSnapshot) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return made.ID, err
}

// look finds out whether a session that nobody answers for is lost, and where it was on its way makes it of its snapshot.
func (h *holding) look(ctx context.Context, key jobs.SessionKey) (*jobs.Session, error) {
	for {
		k, err := h.of.Get(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case k.Session == nil:
			return nil, sandboxes.ErrNotFound
		case k.State.Final() || k.Worker == h.s.lease.Name:
			return k.Session, nil
		}
		presence, err := h.s.peers.See(ctx, k.Worker)
		if err == nil && presence == jobs.Gone && k.State == jobs.SessionArriving {
			// Where it comes from it may stand yet: it goes on there.
			presence, err = h.s.peers.See(ctx, k.Move.From)
			if presence == jobs.There {
				presence = jobs.Silent
			}
		}
		switch {
		case err != nil:
			return nil, err
		case presence == jobs.There:
			return k.Session, nil
		case presence == jobs.Gone && k.Move != nil:
			return h.take(key, k.Worker)
		case presence == jobs.Gone:
			now, err := h.lost(ctx, k)
			return now, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(h.s.opts.Lease/4, time.Second)):
		}
	}
}

// lost writes down that a session has ended with its worker.
func (h *holding) lost(ctx context.Context, seen jobs.KeptSession) (*jobs.Session, error) {
	now, err := h.of.Change(ctx, seen.Key, func(k jobs.KeptSession) (*jobs.Session, error) {
		if k.Session == nil || k.Worker != seen.Worker || k.State != jobs.SessionRunning {
			return nil, nil
		}
		next := *k.Session
		next.State, next.Ended, next.Cause = jobs.SessionLost, time.Now().UTC(), "lost"
		next.Reason = fmt.Sprintf("the worker %s on %s has ended, or was cut off", k.Worker, k.Host)
		return &next, nil
	})
	if err == nil && now.Session == nil {
		err = sandboxes.ErrNotFound
	}
	return now.Session, err
}
