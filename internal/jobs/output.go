package jobs

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MaxChunk is the most bytes of one message of output.
const MaxChunk = 64 << 10

// Write adds to what a job has written.
func (q *Queue) Write(ctx context.Context, key Key, c *Chunk) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	for {
		once, cancel := context.WithTimeout(ctx, apiTime)
		_, err = q.js.Publish(once, outputSubject+key.String(), text)
		cancel()
		if err == nil || ctx.Err() != nil || !Transient(err) {
			return err
		}
		if !wait(ctx, 250*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// Output gives what a job has written, of its last attempt. With follow it waits for more, until the job has ended; then it
// gives the record of that, and else the one of now.
func (q *Queue) Output(ctx context.Context, key Key, follow bool, give func(*Chunk) error) (*Record, error) {
	r := &reading{give: give}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		k, err := q.Show(ctx, key)
		if err != nil {
			return nil, err
		}
		if k.State.Final() && !k.Streamed {
			for _, c := range k.Written {
				if err := give(&c); err != nil {
					return nil, err
				}
			}
			return k.Record, nil
		}
		if k.Run != r.run || k.Attempt > r.attempt {
			r.run, r.attempt, r.end = k.Run, k.Attempt, false
		}
		if k.State == Running || k.State.Final() {
			if err := read(ctx, q, key, r, follow && !k.State.Final()); err != nil {
				return nil, err
			}
		}
		if k.State.Final() || !follow {
			return k.Record, nil
		}
		if !wait(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// reading is how far somebody has read.
type reading struct {
	run, attempt int
	next         uint64 // of the stream
	end          bool
	give         func(*Chunk) error
}

// read reads what there is in the stream. With follow it waits a moment for more.
func read(ctx context.Context, q *Queue, key Key, r *reading, follow bool) error {
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{outputSubject + key.String()}, DeliverPolicy: jetstream.DeliverAllPolicy}
	if r.next > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.next
	}
	brief, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	c, err := q.streams[outputStream].OrderedConsumer(brief, config)
	if err != nil {
		return err
	}
	for !r.end && ctx.Err() == nil {
		var batch jetstream.MessageBatch
		if follow {
			batch, err = c.Fetch(100, jetstream.FetchMaxWait(time.Second))
		} else {
			batch, err = c.FetchNoWait(1000)
		}
		if err != nil {
			return err
		}
		n := 0
		for m := range batch.Messages() {
			n++
			var chunk Chunk
			meta, err := m.Metadata()
			if err != nil || json.Unmarshal(m.Data(), &chunk) != nil {
				continue
			}
			r.next = meta.Sequence.Stream + 1
			if chunk.Run != r.run || chunk.Attempt != r.attempt {
				if chunk.Run > r.run || chunk.Run == r.run && chunk.Attempt > r.attempt {
					r.next = meta.Sequence.Stream // it was started anew: the record will say
					return nil
				}
				continue
			}
			if r.end = chunk.End; !r.end {
				if err := r.give(&chunk); err != nil {
					return err
				}
			}
		}
		if n == 0 {
			return batch.Error()
		}
	}
	return nil
}

// Letter is a job that was given up, as the subject of those has it.
type Letter struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail"`
	Job    *Job   `json:"job,omitempty"`
	Text   []byte `json:"text,omitempty"` // of what is no job
}

// Bury puts a job on the subject of those that were given up. Each is there once.
func (q *Queue) Bury(ctx context.Context, subject string, l *Letter) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	_, err = q.js.Publish(ctx, deadSubject+subject, text)
	return err
}

// BuryText puts what is no job there, by the subject of its message.
func (q *Queue) BuryText(ctx context.Context, subject string, text []byte, why error) error {
	_, rest, _ := strings.Cut(strings.TrimPrefix(subject, jobSubject), ".")
	return q.Bury(ctx, rest, &Letter{Reason: ReasonUnreadable, Detail: "the message is no job: " + why.Error(), Text: text})
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}
