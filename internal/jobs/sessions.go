package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// SessionState is what is known of a session.
type SessionState string

// States of sessions. The last two are final: the name is free again.
const (
	SessionRunning  SessionState = "running"  // Worker has it
	SessionMoving   SessionState = "moving"   // Worker has it, it stands still, and may be claimed by Move.To
	SessionArriving SessionState = "arriving" // Worker has claimed it, and makes it anew of Move
	SessionEnded    SessionState = "ended"    // Cause says how
	SessionLost     SessionState = "lost"     // with its worker
)

// Final says that nobody has it, and nobody will.
func (s SessionState) Final() bool { return s == SessionEnded || s == SessionLost }

// Session is what is known of one: the value of its key. Workers write it, each at the revision that it has read, so that one of two is refused; whoever is
// Worker may run it, and nobody else.
type Session struct {
	Account string       `json:"account"`
	Name    string       `json:"name"`
	ID      string       `json:"id"` // of the sandbox at Worker
	Worker  string       `json:"worker"`
	Host    string       `json:"host"` // the name of that
	State   SessionState `json:"state"`
	Policy  string       `json:"policy,omitempty"` // digest of the one that it was opened with
	Created time.Time    `json:"created"`
	// Snapshot is the last that is on the servers.
	Snapshot string `json:"snapshot,omitempty"`
	Move     *Move  `json:"move,omitempty"`
	// Moves is how often it has come to another worker.
	Moves  int       `json:"moves,omitempty"`
	Ended  time.Time `json:"ended,omitzero"`
	Cause  string    `json:"cause,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Move is a session on its way: all that its new worker needs.
type Move struct {
	From     string          `json:"from"`    // the worker that it comes from, which has it yet, standing still
	FromID   string          `json:"from_id"` // what it is there
	FromHost string          `json:"from_host"`
	To       string          `json:"to"`
	Token    string          `json:"token"`
	Snapshot Stored          `json:"snapshot"`
	Create   json.RawMessage `json:"create"` // what asks for it
}

// Stored is a snapshot that is on the servers.
type Stored struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Session string    `json:"session"` // that it was made of
	File    string    `json:"file"`    // digest of the bundle
	Bytes   int64     `json:"bytes"`
	Holds   string    `json:"holds"` // "files" or "memory"
	Created time.Time `json:"created"`
}

// SessionKey names a session.
type SessionKey struct{ Account, Name string }

func (k SessionKey) String() string { return k.Account + "." + k.Name }

// KeptSession is the record of one as it was read.
type KeptSession struct {
	Key      SessionKey
	Revision uint64
	*Session // nil: there is none
}

// Sessions are what is on the servers about sessions.
type Sessions struct{ q *Queue }

// SessionsOf are those of a queue.
func SessionsOf(q *Queue) Sessions { return Sessions{q} }

// ErrNoSession: nobody knows such a session.
var ErrNoSession = errors.New("there is no such session")

const (
	sessionKeys  = "session."
	snapshotKeys = "snapshot."
)

// Get reads a record. It may be old by a moment.
func (s Sessions) Get(ctx context.Context, key SessionKey) (KeptSession, error) {
	k := KeptSession{Key: key}
	if !ValidName(key.Account) || !ValidName(key.Name) {
		return k, ErrNoSession
	}
	var err error
	k.Session, k.Revision, err = value[Session](ctx, s, sessionKeys+key.String())
	return k, err
}

// Put replaces a record by another, and gives its revision. One that has ended is known for a day.
func (s Sessions) Put(ctx context.Context, k KeptSession, next *Session) (uint64, error) {
	ttl := time.Duration(0)
	if next.State.Final() {
		ttl = goneKeep
	}
	return s.q.put(ctx, sessionSubject+sessionKeys+k.Key.String(), next, k.Revision, ttl)
}

// List gives those of an account, by their names.
func (s Sessions) List(ctx context.Context, account string) (all []KeptSession, err error) {
	err = each(ctx, s, sessionKeys+account+".*", func(name string, revision uint64, v *Session) {
		all = append(all, KeptSession{SessionKey{account, name}, revision, v})
	})
	slices.SortFunc(all, func(a, b KeptSession) int { return cmp.Compare(a.Key.Name, b.Key.Name) })
	return all, err
}

// Find gives the session of a word: its name, or its ID.
func (s Sessions) Find(ctx context.Context, account, word string) (KeptSession, error) {
	k, err := s.Get(ctx, SessionKey{account, word})
	if err != nil || k.Session != nil {
		return k, err
	}
	all, err := s.List(ctx, account)
	if err != nil {
		return k, err
	}
	for _, one := range all {
		if one.ID == word {
			return one, nil
		}
	}
	return k, ErrNoSession
}

// PutSnapshot makes a snapshot known.
func (s Sessions) PutSnapshot(ctx context.Context, account string, v *Stored) error {
	key := snapshotKeys + account + "." + v.ID
	_, revision, err := value[Stored](ctx, s, key)
	if err == nil {
		_, err = s.q.put(ctx, sessionSubject+key, v, revision, Keep)
	}
	if errors.Is(err, ErrChanged) { // somebody else has stored it just now
		return nil
	}
	return err
}

// Snapshots gives those of an account, the newest first.
func (s Sessions) Snapshots(ctx context.Context, account string) (all []Stored, err error) {
	err = each(ctx, s, snapshotKeys+account+".*", func(_ string, _ uint64, v *Stored) { all = append(all, *v) })
	slices.SortFunc(all, func(a, b Stored) int { return b.Created.Compare(a.Created) })
	return all, err
}

// Snapshot finds one by its ID, the beginning of that, or its name: of several, the newest.
func (s Sessions) Snapshot(ctx context.Context, account, word string) (*Stored, error) {
	all, err := s.Snapshots(ctx, account)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(v Stored) bool {
		return word != "" && (v.Name == word || len(word) >= 8 && strings.HasPrefix(v.ID, word))
	})
	if i < 0 {
		return nil, ErrNoFile
	}
	return &all[i], nil
}

// value gives a value and its revision; nil and 0 where there is none.
func value[T any](ctx context.Context, s Sessions, key string) (*T, uint64, error) {
	text, revision, err := last(ctx, s.q, sessionStream, sessionSubject+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", key, err)
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, 0, fmt.Errorf("the record %s: %w", key, err)
	}
	return v, revision, nil
}

// each gives the values of a pattern of keys that are there now, with the last word of each key.
func each[T any](ctx context.Context, s Sessions, pattern string, do func(word string, revision uint64, v *T)) error {
	return watched(ctx, s.q.sessions, pattern, false, func(e jetstream.KeyValueEntry) (bool, error) {
		v := new(T)
		if json.Unmarshal(e.Value(), v) == nil { // who wrote another may be asked for it by its name
			do(e.Key()[strings.LastIndexByte(e.Key(), '.')+1:], e.Revision(), v)
		}
		return true, nil
	})
}

// Change makes one change of a record, whoever else makes some. next says what it is to become by what it is; nil: it stays. An answer
// that is lost is asked for again until ctx ends, so that next is to know what it has written.
func (s Sessions) Change(ctx context.Context, key SessionKey, next func(KeptSession) (*Session, error)) (KeptSession, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		k, err := s.Get(ctx, key)
		if err == nil {
			var to *Session
			if to, err = next(k); err != nil || to == nil {
				return k, err
			}
			var revision uint64
			if revision, err = s.Put(ctx, k, to); err == nil {
				return KeptSession{key, revision, to}, nil
			}
		}
		if !errors.Is(err, ErrChanged) && !Transient(err) {
			return k, err
		}
		if !wait(ctx, pause) {
			return k, errors.Join(err, ctx.Err())
		}
	}
}
