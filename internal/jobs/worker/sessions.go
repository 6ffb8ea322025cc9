package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/sockets"
)

// holding are the sessions of a shift: sandboxes of a manager, which others ask for by the API of "confine serve" over connections of NATS, within the
// ceiling that is for their account. Each has a record on the servers, which says that this worker has it: it is written before anybody hears of the session, and says how it
// ended when nothing of it is left.
type holding struct {
	s       *shift
	of      jobs.Sessions
	manager *sandboxes.Manager
	dir     string // of snapshots
	lock    *os.File
	door    *jobs.Door
	halls   []*hall // one for each ceiling, and one for those that have none
	cancel  context.CancelFunc
	serving sync.WaitGroup
	ends    sync.WaitGroup // that are to be written down

	mu     sync.Mutex
	full   bool // the worker is about to end: it takes no more
	over   bool
	coming map[jobs.SessionKey]bool // they have a record already
	moves  map[jobs.SessionKey]*moving
	visits map[string]int // connections, by account
}

// maxSessions is how many a worker has at one time, whatever room it has.
const maxSessions = 256

// maxSnapshots is how many snapshots of one account are on the disk of a worker.
const maxSnapshots = 100

const ownerPrefix = "account:"

// hall is a listener for those who were let in.
type hall struct {
	came chan net.Conn
	over <-chan struct{}
}

func (h *hall) Accept() (net.Conn, error) {
	select {
	case c := <-h.came:
		return c, nil
	case <-h.over:
		return nil, net.ErrClosed
	}
}

func (h *hall) Close() error { return nil }

// Addr is of no network.
func (h *hall) Addr() net.Addr { return &net.UnixAddr{Name: "sessions", Net: "nats"} }

func (h *hall) enter(c net.Conn) {
	select {
	case h.came <- c:
	case <-h.over:
		_ = c.Close()
	}
}

// hold begins to hold sessions.
func (s *shift) hold(id *jobs.Identity) (*holding, error) {
	h := &holding{s: s, of: jobs.SessionsOf(s.q), coming: map[jobs.SessionKey]bool{}, moves: map[jobs.SessionKey]*moving{}, visits: map[string]int{}}
	var err error
	if h.dir, h.lock, err = s.sessionDir(); err != nil {
		return nil, err
	}
	h.manager = sandboxes.New(sandboxes.Options{Backend: s.opts.Backend, Max: maxSessions, Snapshots: h.dir, MaxSnapshots: maxSnapshots, MaxSnapshotBytes: 16 << 30, Opened: h.opened})
	if h.door, err = s.lease.Open(id); err != nil {
		return nil, errors.Join(err, h.clean())
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	for i := range s.opts.Ceilings {
		c := &s.opts.Ceilings[i]
		src := s.opts.Sources
		src.Environ, src.Dir = nil, "" // no directory of this host is anybody's to name, where there is a ceiling
		server := &serve.Server{Manager: h.manager, Sources: src, Ceiling: c.Policy, CeilingFiles: c.Files, Profile: cmp.Or(c.Profile, s.opts.Profile),
			Hidden: append(slices.Clone(s.opts.Hidden), filepath.Dir(h.dir)), Environ: s.opts.Environ, More: h.more}
		hall := &hall{make(chan net.Conn), ctx.Done()}
		h.halls = append(h.halls, hall)
		h.serving.Go(func() { _ = server.Serve(ctx, hall) })
	}
	outside := &hall{make(chan net.Conn), ctx.Done()}
	h.halls = append(h.halls, outside)
	refuse := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		serve.Refuse(w, &serve.Error{Status: http.StatusForbidden, Code: "CEILING", Detail: "no ceiling of this worker is for sessions of this account"})
	})}
	h.serving.Go(func() { _ = refuse.Serve(outside) })
	go h.welcome()
	return h, nil
}

// welcome lets everybody into the hall for their account.
func (h *holding) welcome() {
	for {
		v, err := h.door.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		room := h.visits[v.Account()] < maxVisits
		if room {
			h.visits[v.Account()]++
		}
		h.mu.Unlock()
		if !room {
			go v.Close()
			continue
		}
		go h.hall(v.Account()).enter(&visit{v, sync.OnceFunc(func() { h.leave(v.Account()) })})
	}
}

// maxVisits is how many connections of one account there are at one time, so that others find room.
const maxVisits = 256

// visit is counted until it is closed.
type visit struct {
	*jobs.Visit
	done func()
}

func (v *visit) Close() error {
	defer v.done()
	return v.Visit.Close()
}

func (h *holding) leave(account string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.visits[account]--; h.visits[account] == 0 {
		delete(h.visits, account)
	}
}

func (h *holding) hall(account string) *hall {
	at := slices.IndexFunc(h.s.opts.Ceilings, func(c Ceiling) bool { return matches(c.Pattern, jobs.SessionSubject(account, h.s.lease.Name)) })
	if at < 0 {
		at = len(h.halls) - 1
	}
	return h.halls[at]
}

// inside is somebody of an account who is here.
type inside struct {
	net.Conn
	account string
}

func (i *inside) Account() string { return i.account }

// client asks this worker itself, for an account: what it may is decided in one place.
func (h *holding) client(account string) *serve.Client {
	return serve.NewClientBy(func(context.Context) (net.Conn, error) {
		mine, theirs := net.Pipe()
		go h.hall(account).enter(&inside{theirs, account})
		return mine, nil
	})
}

// refuse has no more come.
func (h *holding) refuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.full = true
}

// end ends all sessions, and waits until nothing of them is left, and for a while until that is written down.
func (h *holding) end(patience time.Duration) {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	_ = h.door.Close()
	h.cancel()
	h.manager.Close()
	h.serving.Wait()
	written := make(chan struct{})
	go func() {
		h.ends.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(patience):
	}
	if err := h.clean(); err != nil {
		h.s.say("%v", err)
	}
}

// sessionDir is a directory for snapshots. Those of workers that were killed are removed: each holds a lock as long as it lives.
func (w *Worker) sessionDir() (dir string, lock *os.File, err error) {
	parent := filepath.Join(tempDir(w.opts.Dir), fmt.Sprintf("confine-sessions-%d", os.Geteuid()))
	if err := sockets.Own(parent); err != nil {
		return "", nil, err
	}
	all, _ := locked(parent, true) // nobody is between making a directory and its lock
	defer func() { _ = all.Close() }()
	old, err := os.ReadDir(parent)
	if err != nil {
		return "", nil, err
	}
	for _, e := range old {
		path := filepath.Join(parent, e.Name())
		if f, free := locked(path, false); free {
			_ = os.RemoveAll(path)
			_ = f.Close()
		}
	}
	if dir, err = os.MkdirTemp(parent, "w"); err != nil {
		return "", nil, err
	}
	lock, _ = locked(dir, false)
	return dir, lock, nil
}

// clean removes it.
func (h *holding) clean() error {
	err := os.RemoveAll(h.dir)
	if h.lock != nil {
		err = errors.Join(err, h.lock.Close())
	}
	return err
}

func keyOf(b *sandboxes.Sandbox) jobs.SessionKey {
	return jobs.SessionKey{Account: strings.TrimPrefix(string(b.Owner), ownerPrefix), Name: cmp.Or(b.Name, b.ID)}
}

// opened makes a sandbox a session, before anybody else knows of it.
func (h *holding) opened(b *sandboxes.Sandbox) error {
	key := keyOf(b)
	if !jobs.ValidName(key.Name) {
		return &config.UsageError{Msg: fmt.Sprintf("%.80q is no name of a session", key.Name), Hint: "it takes a word of up to 64 letters, digits, - and _"}
	}
	need := jobs.NeedOf(b.Policy(), h.s.opts.Room)
	if !h.seat(need) {
		return &serve.Error{Status: http.StatusTooManyRequests, Code: "QUOTA", Hint: "another worker may have room, or this one later: say smaller limits",
			Detail: fmt.Sprintf("the worker has no room for %s of memory, %d %% of CPU and %d tasks, which the session may use", config.FormatSize(need.Memory), need.CPU, need.Tasks)}
	}
	h.mu.Lock()
	coming := h.coming[key]
	h.mu.Unlock()
	if !coming {
		ctx, cancel := context.WithTimeout(h.s.ctx, writeTime)
		defer cancel()
		first := &jobs.Session{Account: key.Account, Name: key.Name, ID: b.ID, Worker: h.s.lease.Name, Host: h.s.host, State: jobs.SessionRunning,
			Policy: b.Policy().Digest(), Created: b.Created.UTC()}
		_, err := h.of.Change(ctx, key, func(k jobs.KeptSession) (*jobs.Session, error) {
			switch {
			case k.Session == nil || k.State.Final():
				return first, nil
			case k.ID == first.ID:
				return nil, nil
			}
			return nil, &sandboxes.TakenError{Name: key.Name}
		})
		if err != nil {
			// Where nobody knows whether it was written, its end is.
			h.await(b, key, need)
			return err
		}
	}
	h.await(b, key, need)
	return nil
}

// writeTime is how long a record may take to be written.
const writeTime = 10 * time.Second

// await writes down how a session ended, and gives its room back.
func (h *holding) await(b *sandboxes.Sandbox, key jobs.SessionKey, need jobs.Need) {
	h.s.standing.Add(1)
	h.ends.Go(func() {
		<-b.Done()
		h.s.standing.Add(-1)
		h.unseat(need)
		end := b.Ended()
		h.mu.Lock()
		over := h.over
		h.mu.Unlock()
		_, err := h.of.Change(h.s.ctx, key, func(k jobs.KeptSession) (*jobs.Session, error) {
			if k.Session == nil || k.ID != b.ID || k.Worker != h.s.lease.Name || k.State.Final() ||
				k.Move != nil && over { // it was written down, and whoever it was offered to may have it yet
				return nil, nil
			}
			next := *k.Session
			next.State, next.Ended, next.Cause, next.Reason, next.Move = jobs.SessionEnded, end.Time, end.Cause, end.Reason, nil
			if over {
				next.Cause, next.Reason = "worker", "its worker has ended"
			}
			return &next, nil
		})
		if err != nil && h.s.ctx.Err() == nil {
			h.s.say("the end of the session %s was not written down: %v", key, err)
		}
	})
}

// seat takes room, if there is some.
func (h *holding) seat(n jobs.Need) bool {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	h.mu.Lock()
	full := h.full
	h.mu.Unlock()
	if s.over || full || !plus(s.used, n).Fits(s.opts.Room) {
		return false
	}
	s.used = plus(s.used, n)
	return true
}

func (h *holding) unseat(n jobs.Need) {
	s := h.s
	s.mu.Lock()
	s.used = minus(s.used, n)
	s.full = false
	s.mu.Unlock()
	s.poke()
}

// more is what is asked for beside the API.
func (h *holding) more(r *http.Request, owner sandboxes.Owner) (any, error) {
	account := strings.TrimPrefix(string(owner), ownerPrefix)
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/more/"), "/")
	var said struct {
		To   string `json:"to"`
		Name string `json:"name"`
	}
	if r.ContentLength != 0 {
		if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 64<<10)).Decode(&said); err != nil {
			return nil, &config.UsageError{Msg: "the body: " + err.Error()}
		}
	}
	if len(parts) == 2 && parts[0] == "snapshots" {
		return h.bring(r.Context(), account, parts[1])
	}
	if len(parts) != 3 || parts[0] != "sessions" {
		return nil, sandboxes.ErrNotFound
	}
	key := jobs.SessionKey{Account: account, Name: parts[1]}
	switch parts[2] {
	case "snapshot":
		return h.snapshot(r.Context(), key, said.Name)
	case "move":
		return h.move(r.Context(), key, said.To)
	case "arrive":
		return h.take(key, "")
	case "look":
		return h.look(r.Context(), key)
	}
	return nil, sandboxes.ErrNotFound
}

// own is the record of a session that this worker has.
func (h *holding) own(ctx context.Context, key jobs.SessionKey) (jobs.KeptSession, error) {
	k, err := h.of.Get(ctx, key)
	switch {
	case err != nil:
		return k, err
	case k.Session == nil:
		return k, sandboxes.ErrNotFound
	case k.State.Final() || k.Worker != h.s.lease.Name:
		return k, &serve.Error{Status: http.StatusConflict, Code: "CONFLICT", Detail: "this worker doesn't have the session any more", Hint: "look for it once more"}
	}
	return k, nil
}

// snapshot writes a session's files down, and stores them on the servers.
func (h *holding) snapshot(ctx context.Context, key jobs.SessionKey, name string) (*jobs.Stored, error) {
	if name != "" && !jobs.ValidName(name) {
		return nil, &config.UsageError{Msg: fmt.Sprintf("%.80q is no name of a snapshot", name), Hint: "it takes a word of up to 64 letters, digits, - and _"}
	}
	k, err := h.own(ctx, key)
	if err != nil {
		return nil, err
	}
	var made struct {
		ID    string `json:"id"`
		Holds string `json:"holds"`
	}
	local := h.client(key.Account)
	if err := local.Do(ctx, http.MethodPost, "/v1/sandboxes/"+k.ID+"/snapshots", map[string]string{}, &made); err != nil {
		return nil, err
	}
	v, err := h.store(ctx, key, &jobs.Stored{ID: made.ID, Name: name, Holds: made.Holds})
	err = errors.Join(err, h.manager.Snapshots(serve.OwnerOfAccount(key.Account)).Remove(made.ID)) // what counts is on the servers
	if err != nil {
		return nil, err
	}
	_, err = h.of.Change(ctx, key, func(k jobs.KeptSession) (*jobs.Session, error) {
		if k.Session == nil || k.Worker != h.s.lease.Name || k.State.Final() {
			return nil, nil
		}
		next := *k.Session
		next.Snapshot = v.ID
		return &next, nil
	})
	return v, err
}

// store puts a snapshot of this worker's on the servers, by its content, and makes it known.
func (h *holding) store(ctx context.Context, key jobs.SessionKey, v *jobs.Stored) (*jobs.Stored, error) {
	spool, err := jobs.NewSpool(h.dir, jobs.MaxFile, func(w io.Writer) error {
		return h.manager.Snapshots(serve.OwnerOfAccount(key.Account)).Export(ctx, v.ID, w)
	})
	if large, ok := errors.AsType[*jobs.TooLarge](err); ok {
		return nil, &config.UsageError{Msg: "the snapshot: " + large.Error(), Hint: "remove files that it needn't have"}
	}
	if err != nil {
		return nil, fmt.Errorf("pack the snapshot: %w", err)
	}
	defer spool.Close()
	if err := h.s.q.Store(ctx, spool); err != nil {
		return nil, fmt.Errorf("store the snapshot: %w", err)
	}
	v.Session, v.File, v.Bytes, v.Created = key.Name, spool.Digest, spool.Size, time.Now().UTC()
	return v, h.of.PutSnapshot(ctx, key.Account, v)
}

// fetch has a snapshot of the servers' here.
func (h *holding) fetch(ctx context.Context, account string, v *jobs.Stored) error {
	of := h.manager.Snapshots(serve.OwnerOfAccount(account))
	if _, err := of.Find(v.ID); err == nil {
		return nil
	}
	if all, err := of.List(); err == nil && len(all) >= maxSnapshots/2 { // the newest first: what was fetched long ago is fetched again
		for _, old := range all[maxSnapshots/2-1:] {
			_ = of.Remove(old.ID)
		}
	}
	spool, err := h.s.q.Fetch(ctx, h.dir, v.File)
	if err != nil {
		return fmt.Errorf("fetch the snapshot %s: %w", v.ID, err)
	}
	defer spool.Close()
	_, _, err = of.Import(ctx, v.ID, spool.Reader())
	return err
}

// bring is fetch, of one that somebody of the account names.
func (h *holding) bring(ctx context.Context, account, word string) (*jobs.Stored, error) {
	v, err := h.of.Snapshot(ctx, account, word)
	if errors.Is(err, jobs.ErrNoFile) {
		return nil, &serve.Error{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: fmt.Sprintf("the servers have no snapshot %.100q", word), Hint: "confine session … snapshot --list"}
	}
	if err == nil {
		err = h.fetch(ctx, account, v)
	}
	return v, err
}
