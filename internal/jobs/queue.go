package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
)

// Options are how the servers are reached. Secrets are in files, which are read again at each connection.
type Options struct {
	URL       string // nats://HOST:PORT or tls://…, several with "," between
	Creds     string // a file of a JWT and its key
	NKey      string // a file of a seed
	TokenFile string
	CA        string // a file of certificates that servers are trusted by
	Cert, Key string // files of the client's own certificate
	Name      string // of the connection
	Patient   bool   // wait for servers that aren't there yet, and never give up
	Replicas  int    // of what is made; 0: one
	Store     int64  // bytes of all that is made; 0: Store
	// AckWait is that of this package; tests have less time.
	AckWait time.Duration
}

// Queue is a connection. Its methods may be called from any goroutine.
type Queue struct {
	nc        *nats.Conn
	js        jetstream.JetStream
	streams   map[string]jetstream.Stream
	consumers map[string]jetstream.Consumer // by priority
	files     jetstream.ObjectStore
	records   jetstream.KeyValue
	workers   jetstream.KeyValue
	sessions  jetstream.KeyValue
	ackWait   time.Duration
}

// apiTime is how long one answer of a server may take. Each call has that of its own, since the client waits for an answer that is lost for as long as
// the context lasts.
const apiTime = 5 * time.Second

func (o *Options) connection() ([]nats.Option, error) {
	all := []nats.Option{nats.Name(cmp.Or(o.Name, "confine")), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 250*time.Millisecond), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.Timeout(apiTime), nats.RetryOnFailedConnect(o.Patient),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})} // each call says it, too
	given := 0
	for _, secret := range []struct{ option, path string }{{"--creds", o.Creds}, {"--nkey-file", o.NKey}, {"--token-file", o.TokenFile}, {"--tls-key", o.Key}} {
		if secret.path == "" {
			continue
		}
		if _, err := config.ReadSecret(secret.option, secret.path); err != nil {
			return nil, err
		}
	}
	if o.Creds != "" {
		given++
		all = append(all, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		given++
		option, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, &config.UsageError{Msg: "--nkey-file: " + err.Error(), Err: err}
		}
		all = append(all, option)
	}
	if o.TokenFile != "" {
		given++
		all = append(all, nats.TokenHandler(func() string {
			text, _ := os.ReadFile(o.TokenFile)
			return strings.TrimSpace(string(text))
		}))
	}
	if given > 1 {
		return nil, &config.UsageError{Msg: "--creds, --nkey-file and --token-file are one or the other"}
	}
	if o.CA != "" {
		all = append(all, nats.RootCAs(o.CA))
	}
	if o.Cert != "" || o.Key != "" {
		all = append(all, nats.ClientCert(o.Cert, o.Key))
	}
	return all, nil
}

// Open connects, and makes or checks what has to be there.
func Open(ctx context.Context, o Options) (*Queue, error) {
	options, err := o.connection()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(o.URL, options...)
	if err != nil {
		return nil, hint.With(fmt.Errorf("connect %q: %w", o.URL, err), "--nats URL names the servers; --embedded needs none")
	}
	q := &Queue{nc: nc, streams: map[string]jetstream.Stream{}, consumers: map[string]jetstream.Consumer{}, ackWait: cmp.Or(o.AckWait, AckWait)}
	if q.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(apiTime), jetstream.WithPublishAsyncMaxPending(1000)); err != nil {
		nc.Close()
		return nil, err
	}
	for {
		err = q.open(ctx, &o)
		if err == nil || !o.Patient || errors.As(err, new(*LayoutError)) || !wait(ctx, time.Second) {
			break
		}
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return q, nil
}

func (q *Queue) open(ctx context.Context, o *Options) error {
	err := q.ensure(ctx, max(o.Replicas, 1), cmp.Or(o.Store, Store))
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	if err == nil {
		q.files, err = q.js.ObjectStore(ctx, fileBucket)
	}
	if err == nil {
		q.records, err = q.js.KeyValue(ctx, recordBucket)
	}
	if err == nil {
		q.workers, err = q.js.KeyValue(ctx, workerBucket)
	}
	if err == nil {
		q.sessions, err = q.js.KeyValue(ctx, sessionBucket)
	}
	return err
}

// Close ends the connection.
func (q *Queue) Close() { q.nc.Close() }

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// ErrChanged: somebody else has changed a record since it was read.
var ErrChanged = errors.New("somebody else has changed the record")

// put writes a value, if the last of its subject is of this revision; 0: there is none. That is decided by the servers.
func (q *Queue) put(ctx context.Context, subject string, v any, revision uint64, ttl time.Duration) (uint64, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithRetryAttempts(0)}
	if ttl > 0 {
		options = append(options, jetstream.WithMsgTTL(ttl))
	}
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	ack, err := q.js.Publish(ctx, subject, text, options...)
	if code(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return 0, ErrChanged
	}
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func code(err error, codes ...jetstream.ErrorCode) bool {
	var api jetstream.JetStreamError
	if !errors.As(err, &api) || api.APIError() == nil {
		return false
	}
	return slices.Contains(codes, api.APIError().ErrorCode)
}

// Kept is a record as it was read.
type Kept struct {
	Key      Key
	Revision uint64
	*Record  // nil: there is none
}

// Get reads the record of a job. What it gives may be old by a moment: whoever acts on it names its revision.
func (q *Queue) Get(ctx context.Context, key Key) (Kept, error) {
	text, revision, err := last(ctx, q, recordStream, recordSubject+key.String())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Kept{Key: key}, nil
	}
	if err != nil {
		return Kept{}, fmt.Errorf("read the record of %s: %w", key, err)
	}
	return kept(key, text, revision)
}

func kept(key Key, text []byte, revision uint64) (Kept, error) {
	k := Kept{Key: key, Revision: revision, Record: &Record{}}
	if err := json.Unmarshal(text, k.Record); err != nil {
		return k, fmt.Errorf("the record of %s: %w", key, err)
	}
	return k, nil
}

// errLent is a message that somebody has written who may not: he asked a server for one of his own, and named the subject of this one for the answer. A user's
// permissions are about what he publishes, and not about where answers go.
var errLent = errors.New("the servers were made to write it, by somebody who asked them for something else")

// lent says so of a message, by what servers add to an answer; to one that is read of a stream directly they add it once more.
func lent(h nats.Header, direct bool) bool {
	n := len(h[jetstream.StreamHeader])
	return n > 1 || n == 1 && !direct
}

// last is the last message of a subject, and its number in the stream, which an errLent has, too. jetstream.ErrMsgNotFound: there is none, or not any more.
func last(ctx context.Context, q *Queue, stream, subject string) ([]byte, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	m, err := q.streams[stream].GetLastMsgForSubject(ctx, subject)
	switch {
	case err != nil:
		return nil, 0, err
	case lent(m.Header, true):
		all := m.Header[jetstream.SequenceHeader]
		revision, err := strconv.ParseUint(all[len(all)-1], 10, 64)
		return nil, revision, errors.Join(errLent, err)
	case m.Header.Get("KV-Operation") != "" || m.Header.Get("Nats-Marker-Reason") != "":
		return nil, 0, jetstream.ErrMsgNotFound
	}
	return m.Data, m.Sequence, nil
}

// Put replaces a record by another, and gives its revision. One that has ended is forgotten after Keep, unless it is to be met by its message.
func (q *Queue) Put(ctx context.Context, k Kept, r *Record) (uint64, error) {
	ttl := time.Duration(0)
	if r.State.Final() && !r.Seal {
		ttl = Keep
	}
	return q.put(ctx, recordSubject+k.Key.String(), r, k.Revision, ttl)
}

// queued is the message of a job, if there is one.
func (q *Queue) queued(ctx context.Context, key Key) (*Job, error) {
	text, _, err := last(ctx, q, QueueStream, jobSubject+"*."+key.String())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s in the queue: %w", key, err)
	}
	return ParseJob(text)
}

// Waiting is how many requests for messages wait.
func (q *Queue) Waiting(ctx context.Context) (n int) {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	for _, priority := range Priorities {
		if c, err := q.streams[QueueStream].Consumer(ctx, consumer(priority, 0).Durable); err == nil {
			n += c.CachedInfo().NumWaiting
		}
	}
	return n
}

// AckWait is how long a message may be with a worker that says nothing of it.
func (q *Queue) AckWait() time.Duration { return q.ackWait }

// Consumer gives the messages of a priority.
func (q *Queue) Consumer(priority string) jetstream.Consumer { return q.consumers[priority] }
