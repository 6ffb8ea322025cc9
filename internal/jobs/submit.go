package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/confine-run/confine/internal/hint"
)

// Errors of messages that are refused.
const (
	errCodeStoreFailed = 10077 // the stream has as many messages, or bytes, as it may have, or the subject has one
	errCodeResources   = 10023
)

// ErrFull: the queue has no room. Whoever submits waits, or gives up.
var ErrFull = errors.New("the queue is full")

// subject is that of a job's message.
func (j *Job) subject() string { return jobSubject + j.Priority + "." + j.Key.String() }

// Submit puts jobs into the queue. When it returns without an error all are there, and will be done; with one, some may be. A job that
// is there already, or has a record, is left as it is: to submit the same once more does no harm. A full queue is waited for until ctx ends.
func (q *Queue) Submit(ctx context.Context, all ...*Job) error {
	messages := make([]*nats.Msg, len(all))
	for i, j := range all {
		if err := j.check(); err != nil {
			return err
		}
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		if len(text) > maxJob {
			return hint.New(fmt.Sprintf("the job has %d bytes, more than %d", len(text), maxJob), "give files by --input")
		}
		messages[i] = nats.NewMsg(j.subject())
		messages[i].Data = text
		messages[i].Header.Set(nats.MsgIdHdr, j.Key.String()+"."+strconv.Itoa(j.Run))
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		left, err := q.send(ctx, messages)
		if len(left) == 0 && err == nil {
			return nil
		}
		if messages = left; !Transient(err) {
			return err
		}
		if !wait(ctx, pause) {
			return errors.Join(err, ctx.Err())
		}
	}
}

// Transient says whether what has failed may be done a moment later.
func Transient(err error) bool {
	return err == nil || errors.Is(err, ErrFull) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || code(err, errCodeResources, 10008, 10009)
}

// send sends messages, and gives back those that have not come in yet.
func (q *Queue) send(ctx context.Context, messages []*nats.Msg) (left []*nats.Msg, err error) {
	const window = 500
	for len(messages) > 0 {
		part := messages[:min(window, len(messages))]
		messages = messages[len(part):]
		sent := make([]jetstream.PubAckFuture, len(part))
		for i, m := range part {
			if sent[i], err = q.js.PublishMsgAsync(m); err != nil {
				return append(append(left, part...), messages...), err
			}
		}
		for i, f := range sent {
			var failed error
			select {
			case <-f.Ok():
				continue
			case failed = <-f.Err():
			case <-time.After(2 * apiTime):
				failed = nats.ErrTimeout
			case <-ctx.Done():
				failed = ctx.Err()
			}
			if code(failed, errCodeStoreFailed) {
				var known bool
				if known, failed = there(ctx, q, part[i]); known {
					continue
				}
			}
			left, err = append(left, part[i]), failed
		}
		if err != nil {
			return append(left, messages...), err
		}
	}
	return left, nil
}

// there says whether the message that the queue has no room for is there: of this run, not of one before.
func there(ctx context.Context, q *Queue, m *nats.Msg) (bool, error) {
	mine, err := ParseJob(m.Data)
	if err != nil {
		return false, err
	}
	has, err := q.queued(ctx, mine.Key)
	switch {
	case err != nil:
		return false, err
	case has == nil:
		return false, ErrFull
	case has.Run == mine.Run:
		return true, nil
	}
	return false, ErrFull // the message of the run before is about to go
}

// Retry has a job run again that has ended.
func (q *Queue) Retry(ctx context.Context, key Key) error {
	k, err := q.Get(ctx, key)
	switch {
	case err != nil:
		return err
	case k.Record == nil:
		if j, err := q.queued(ctx, key); err != nil || j != nil {
			return errors.Join(err, hint.New("it has not ended: it is queued", "wait for it, or cancel it"))
		}
		return ErrNoJob
	case !k.State.Final():
		return hint.New("it has not ended: it is "+string(k.State), "wait for it, or cancel it")
	case k.Job == nil:
		return hint.New("it was cancelled before anybody knew what it was", "submit it again")
	}
	again := *k.Job
	again.Run, again.Submitted = k.Run+1, time.Now().UTC()
	return q.Submit(ctx, &again)
}

// ErrNoJob: nobody knows such a job.
var ErrNoJob = errors.New("there is no such job")
