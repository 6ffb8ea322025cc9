package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/confine-run/confine/internal/hint"
)

// QueueStream is the stream of jobs that wait or run.
const QueueStream = "confine-jobs"

// What else there is on the servers.
const (
	deadStream    = "confine-dead"
	outputStream  = "confine-output"
	recordStream  = "KV_confine-records"
	workerStream  = "KV_confine-workers"
	recordBucket  = "confine-records"
	workerBucket  = "confine-workers"
	sessionBucket = "confine-sessions"
	sessionStream = "KV_confine-sessions"
	fileBucket    = "confine-files"
	fileStream    = "OBJ_confine-files"
	jobSubject    = "confine.jobs."
	outputSubject = "confine.output."
	deadSubject   = "confine.dead."
	workerSubject = "confine.worker."
	recordSubject = "$KV." + recordBucket + "."
	visitSubject  = "confine.sessions."

	sessionSubject = "$KV." + sessionBucket + "."
	workerKey      = "$KV." + workerBucket + "."
)

// AckWait is how long a message may be with a worker that says nothing of it.
const AckWait = 30 * time.Second

// Keep is how long it is known what has become of a job, and what files it had.
const Keep = 7 * 24 * time.Hour

// Store is how many bytes all of it may take on each server, unless it is said.
const Store = 8 << 30

// layout are the streams. A bucket is one, too, of a name and with subjects that its clients know.
func layout(replicas int, store int64) []jetstream.StreamConfig {
	sixteenth := store / 16 // what is left is room for what a server needs itself
	all := []jetstream.StreamConfig{
		{Name: QueueStream, Subjects: []string{jobSubject + ">"}, Retention: jetstream.WorkQueuePolicy,
			// A job is there once, and what is too much is refused: whoever submits waits.
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			MaxMsgs: 1_000_000, MaxBytes: 2 * sixteenth, MaxMsgSize: maxJob, Duplicates: 2 * time.Minute, AllowDirect: true},
		{Name: recordStream, Subjects: []string{recordSubject + ">"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			MaxBytes: 3 * sixteenth, Duplicates: 2 * time.Minute, DenyDelete: true, AllowRollup: true, AllowDirect: true, AllowMsgTTL: true},
		{Name: workerStream, Subjects: []string{workerKey + ">"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			MaxBytes: sixteenth / 16, Duplicates: 2 * time.Minute, DenyDelete: true, AllowRollup: true, AllowDirect: true, AllowMsgTTL: true},
		{Name: sessionStream, Subjects: []string{sessionSubject + ">"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, MaxMsgSize: maxJob,
			MaxBytes: sixteenth / 4, Duplicates: 2 * time.Minute, DenyDelete: true, AllowRollup: true, AllowDirect: true, AllowMsgTTL: true},
		{Name: outputStream, Subjects: []string{outputSubject + ">"}, MaxMsgsPerSubject: 10_000, Discard: jetstream.DiscardOld,
			MaxBytes: 3 * sixteenth, MaxAge: Keep, Duplicates: 2 * time.Minute, AllowDirect: true},
		{Name: deadStream, Subjects: []string{deadSubject + ">"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld,
			MaxBytes: sixteenth, MaxAge: 4 * Keep, Duplicates: 2 * time.Minute, AllowDirect: true},
		{Name: fileStream, Subjects: []string{"$O." + fileBucket + ".C.>", "$O." + fileBucket + ".M.>"}, Discard: jetstream.DiscardNew,
			MaxMsgsPerSubject: -1, MaxBytes: 6 * sixteenth, MaxAge: Keep, Duplicates: 2 * time.Minute, AllowRollup: true, AllowDirect: true},
	}
	for i := range all {
		all[i].Storage, all[i].Replicas = jetstream.FileStorage, replicas
	}
	return all
}

// consumer is that of a priority. Each has its own, since a consumer gives messages by their age.
func consumer(priority string, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: "workers-" + priority, FilterSubject: jobSubject + priority + ".>",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 100_000,
	}
}

// LayoutError is a stream, a bucket or a consumer that is there, and isn't what it has to be. Nothing was changed.
type LayoutError struct {
	Kind, Name string
	Fields     []string // in which it differs
}

func (e *LayoutError) Error() string {
	return hint.Text(fmt.Sprintf("the %s %q of the server has another %s than jobs need", e.Kind, e.Name, strings.Join(e.Fields, ", ")), e.Remedy())
}

// Remedy is what to do.
func (e *LayoutError) Remedy() string {
	return "nothing was changed: remove it, if nobody needs what is in it, or use an account of the server's that has none"
}

// field is one that has to be as it is said; how large a stream may be, how long it keeps what it has, and on how many servers, is the operator's.
type field struct {
	name   string
	differ bool
}

func differing(all []field) (names []string) {
	for _, f := range all {
		if f.differ {
			names = append(names, f.name)
		}
	}
	return names
}

func streamDiffers(want, have *jetstream.StreamConfig) []string {
	return differing([]field{
		{"subjects", !slices.Equal(want.Subjects, have.Subjects)},
		{"retention", want.Retention != have.Retention},
		{"discard policy", want.Discard != have.Discard || want.DiscardNewPerSubject != have.DiscardNewPerSubject},
		{"number of messages per subject", max(want.MaxMsgsPerSubject, -1) != have.MaxMsgsPerSubject && want.Name != outputStream},
		{"storage", want.Storage != have.Storage},
		{"rollup", want.AllowRollup && !have.AllowRollup},
		{"direct access", want.AllowDirect && !have.AllowDirect},
		{"time to live of messages", want.AllowMsgTTL && !have.AllowMsgTTL},
		{"age", want.MaxAge == 0 && have.MaxAge != 0}, // it would forget what has not ended
		{"acknowledgement", have.NoAck},
		{"seal", have.Sealed},
		{"mirror or sources", have.Mirror != nil || len(have.Sources) > 0},
		{"transformation of subjects", have.SubjectTransform != nil},
	})
}

func consumerDiffers(want, have *jetstream.ConsumerConfig) []string {
	return differing([]field{
		{"filter", want.FilterSubject != have.FilterSubject || len(have.FilterSubjects) > 0},
		{"acknowledgement policy", want.AckPolicy != have.AckPolicy},
		{"time for acknowledgements", want.AckWait != have.AckWait},
		{"number of deliveries", have.MaxDeliver > 0},
		{"back-off", len(have.BackOff) > 0},
		{"delivery policy", want.DeliverPolicy != have.DeliverPolicy},
		{"form: headers only", have.HeadersOnly},
		{"priority policy", have.PriorityPolicy != jetstream.PriorityPolicyNone},
	})
}

// ensure makes what isn't there, and refuses what is there and wrong.
func (q *Queue) ensure(ctx context.Context, replicas int, store int64) error {
	for _, want := range layout(replicas, store) {
		stream, err := made(ctx, want, q.js.Stream, q.js.CreateStream, want.Name, jetstream.ErrStreamNotFound, jetstream.ErrStreamNameAlreadyInUse)
		if err != nil {
			return about("stream", want.Name, err)
		}
		if fields := streamDiffers(&want, &stream.CachedInfo().Config); fields != nil {
			return &LayoutError{"stream", want.Name, fields}
		}
		q.streams[want.Name] = stream
	}
	for _, priority := range Priorities {
		want := consumer(priority, q.ackWait)
		s := q.streams[QueueStream]
		c, err := made(ctx, want, s.Consumer, s.CreateConsumer, want.Durable, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerExists)
		if err != nil {
			return about("consumer", want.Durable, err)
		}
		if fields := consumerDiffers(&want, &c.CachedInfo().Config); fields != nil {
			return &LayoutError{"consumer", want.Durable, fields}
		}
		q.consumers[priority] = c
	}
	return nil
}

// made looks for something, and makes it where it isn't there.
func made[C, T any](ctx context.Context, want C, find func(context.Context, string) (T, error), create func(context.Context, C) (T, error), name string, none, taken error) (T, error) {
	brief, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	one, err := find(brief, name)
	if errors.Is(err, none) {
		one, err = create(brief, want)
	}
	if errors.Is(err, taken) { // somebody was faster
		one, err = find(brief, name)
	}
	return one, err
}

func about(kind, name string, err error) error {
	err = fmt.Errorf("the %s %q: %w", kind, name, err)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return hint.With(err, "jobs need JetStream: start nats-server with -js")
	}
	return err
}
