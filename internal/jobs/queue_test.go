package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
)

func open(t *testing.T, url string) *jobs.Queue {
	t.Helper()
	q, err := jobs.Open(t.Context(), jobs.Options{URL: url})
	must.Do(t, err)
	t.Cleanup(q.Close)
	return q
}

func job(batch string, index int) *jobs.Job {
	return &jobs.Job{Version: 1, Key: jobs.Key{Account: "default", Batch: batch, Index: index}, Run: 1, Priority: "normal", Argv: []string{"true"}, MaxAttempts: 3}
}

// take takes a message, as a worker does.
func take(t *testing.T, q *jobs.Queue, priority string) jetstream.Msg {
	t.Helper()
	m, err := q.Consumer(priority).Next(jetstream.FetchMaxWait(5 * time.Second))
	must.Do(t, err)
	return m
}

func TestWhatIsThereAndWrongIsRefusedAndNotChanged(t *testing.T) {
	url := jobstest.Inside(t)
	open(t, url).Close()
	_, js := jobstest.Client(t, url)
	stream, err := js.Stream(t.Context(), "confine-output")
	must.Do(t, err)
	c := stream.CachedInfo().Config
	right := c
	c.MaxAge, c.MaxBytes = time.Hour, 1<<20 // how much it keeps is the operator's
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	open(t, url).Close()
	c.Discard = jetstream.DiscardNew
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, err = jobs.Open(t.Context(), jobs.Options{URL: url, Patient: true})
	var wrong *jobs.LayoutError
	if !errors.As(err, &wrong) || wrong.Name != "confine-output" || !slices.Equal(wrong.Fields, []string{"discard policy"}) {
		t.Errorf("%v", err)
	}
	if stream, err = js.Stream(t.Context(), "confine-output"); err != nil || stream.CachedInfo().Config.Discard != jetstream.DiscardNew {
		t.Errorf("it was changed: %v", err)
	}
	if _, err := js.UpdateStream(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	if _, err := js.UpdateConsumer(t.Context(), "confine-jobs", jetstream.ConsumerConfig{
		Durable: "workers-high", FilterSubject: "confine.jobs.high.>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second, MaxDeliver: 5}); err != nil {
		t.Fatal(err)
	}
	_, err = jobs.Open(t.Context(), jobs.Options{URL: url})
	if !errors.As(err, &wrong) || wrong.Kind != "consumer" || wrong.Name != "workers-high" {
		t.Errorf("%v", err)
	}
}

func TestAServerWithoutJetStreamIsTold(t *testing.T) {
	url := jobstest.Inside(t, func(o *server.Options) { o.JetStream = false })
	if _, err := jobs.Open(t.Context(), jobs.Options{URL: url}); err == nil {
		t.Error("there is no error")
	}
}

func TestToSubmitTheSameOnceMoreDoesNothing(t *testing.T) {
	q := open(t, jobstest.Inside(t))
	for range 3 {
		must.Do(t, q.Submit(t.Context(), job("once", 1), job("once", 2)))
	}
	all, err := q.List(t.Context(), "default", "")
	if err != nil || len(all) != 2 || all[0].State != jobs.Queued {
		t.Errorf("%d jobs, %v", len(all), err)
	}
}

func TestAFullQueueIsWaitedFor(t *testing.T) {
	url := jobstest.Inside(t)
	q := open(t, url)
	_, js := jobstest.Client(t, url)
	stream, err := js.Stream(t.Context(), "confine-jobs")
	must.Do(t, err)
	c := stream.CachedInfo().Config
	c.MaxMsgs = 2
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := q.Submit(short, job("full", 1), job("full", 2), job("full", 3)); !errors.Is(err, jobs.ErrFull) {
		t.Errorf("%v", err)
	}
	done := make(chan error, 1)
	go func() { done <- q.Submit(t.Context(), job("full", 1), job("full", 2), job("full", 3)) }()
	must.Do(t, take(t, q, "normal").Ack())
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOfTwoWhoWriteARecordOneIsRefused(t *testing.T) {
	q := open(t, jobstest.Inside(t))
	key := job("race", 0).Key
	var group sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 20 {
		group.Go(func() {
			_, err := q.Put(t.Context(), jobs.Kept{Key: key}, &jobs.Record{Run: 1, State: jobs.Running})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, jobs.ErrChanged) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if won != 1 {
		t.Errorf("%d have written it", won)
	}
}

func TestAJobThatIsCancelledWhileItWaitsIsNotStarted(t *testing.T) {
	q := open(t, jobstest.Inside(t))
	j := job("cancelled", 0)
	must.Do(t, q.Submit(t.Context(), j))
	m := take(t, q, "normal") // a worker has it in hand already
	peers := q.Peers()
	r, err := q.Cancel(t.Context(), peers, j.Key)
	if err != nil || r.State != jobs.Cancelled {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := q.Put(t.Context(), jobs.Kept{Key: j.Key}, &jobs.Record{Run: 1, State: jobs.Running}); !errors.Is(err, jobs.ErrChanged) {
		t.Errorf("it was started: %v", err)
	}
	k, err := q.Get(t.Context(), j.Key)
	must.Do(t, err)
	read, err := jobs.Read(m.Subject(), m.Headers(), m.Data())
	must.Do(t, err)
	if v := jobs.Decide(&jobs.Situation{Job: read, Kept: k, Me: "w"}); v.Do != jobs.Seal {
		t.Errorf("%+v", v)
	}
	if _, err := q.Cancel(t.Context(), peers, jobs.Key{Account: "default", Batch: "nobody"}); !errors.Is(err, jobs.ErrNoJob) {
		t.Errorf("%v", err)
	}
}

func TestAWorkerThatIsSilentIsGoneAndStaysSo(t *testing.T) {
	q := open(t, jobstest.Inside(t))
	lease, err := q.Enlist(t.Context(), jobs.WorkerInfo{Lease: 0.4})
	must.Do(t, err)
	peers := q.Peers()
	began := time.Now()
	for time.Since(began) < time.Second {
		must.Do(t, lease.Renew(t.Context(), jobs.Need{}, 0, 0))
		if presence, err := peers.See(t.Context(), lease.Name); presence == jobs.Gone || err != nil {
			t.Fatalf("gone while it says that it is there: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	silent := time.Now()
	for {
		left := lease.Left()
		presence, err := peers.See(t.Context(), lease.Name)
		must.Do(t, err)
		if presence == jobs.Gone {
			if left > 0 {
				t.Errorf("it is held for gone with %v of its lease left", left)
			}
			break
		}
		if time.Since(silent) > 5*time.Second {
			t.Fatal("it is never held for gone")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := lease.Renew(t.Context(), jobs.Need{}, 0, 0); !errors.Is(err, jobs.ErrGone) {
		t.Errorf("it came back: %v", err)
	}
	if lease.Left() > 0 {
		t.Error("it has a lease")
	}
	if presence, err := peers.See(t.Context(), "nobody"); presence != jobs.Gone || err != nil {
		t.Errorf("a worker that has no key: %v, %v", presence, err)
	}
}

func TestFilesAreKeptOnceAndHeldAgainstTheirDigests(t *testing.T) {
	url := jobstest.Inside(t)
	q := open(t, url)
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	spool := func() *jobs.Spool {
		s, err := jobs.NewSpool(t.TempDir(), jobs.MaxFile, func(w io.Writer) error { _, err := w.Write(content); return err })
		must.Do(t, err)
		return s
	}
	s := spool()
	for range 3 {
		must.Do(t, q.Store(t.Context(), s))
	}
	_, js := jobstest.Client(t, url)
	bucket, err := js.ObjectStore(t.Context(), "confine-files")
	must.Do(t, err)
	if st, err := bucket.Status(t.Context()); err != nil || st.Size() > uint64(len(content))*3/2 {
		t.Errorf("it takes %d bytes: %v", st.Size(), err)
	}
	got, err := q.Fetch(t.Context(), t.TempDir(), s.Digest)
	if err != nil || got.Digest != s.Digest {
		t.Errorf("%v", err)
	}
	if _, err := bucket.PutBytes(t.Context(), s.Digest, []byte("something else")); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Fetch(t.Context(), t.TempDir(), s.Digest); err == nil {
		t.Error("what somebody has put in its place was given out")
	}
	if _, err := jobs.NewSpool(t.TempDir(), 10, func(w io.Writer) error { _, err := w.Write(content); return err }); !errors.As(err, new(*jobs.TooLarge)) {
		t.Errorf("%v", err)
	}
	if _, err := q.Fetch(t.Context(), t.TempDir(), "00"+s.Digest[2:]); !errors.Is(err, jobs.ErrNoFile) {
		t.Errorf("%v", err)
	}
}
