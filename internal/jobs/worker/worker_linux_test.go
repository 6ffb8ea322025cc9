package worker

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/filetree"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestAJobIsDoneAndReported(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url})
	good, bad := s.job("a", 0, "echo out; echo err >&2; exit 3"), s.job("b", 0, "true")
	bad.Argv = []string{"there-is-no-such-program"}
	s.submit(good, bad)
	r := s.ended(good.Key)
	if r.State != jobs.Done || r.Report == nil || r.Report.RC != 3 || r.Attempt != 1 || r.Streamed || len(r.Written) == 0 {
		t.Errorf("%+v", r)
	}
	if r := s.ended(bad.Key); r.State != jobs.Done || r.Report.Status != status.ExecFailed {
		t.Errorf("%+v", r)
	}
	s.empty()
}

// empty waits until no message is left in the queue.
func (s *scene) empty() {
	s.Helper()
	_, js := jobstest.Client(s.TB, s.url)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		stream, err := js.Stream(s.Context(), jobs.QueueStream)
		if err == nil && stream.CachedInfo().State.Msgs == 0 {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("messages are left: %v %+v", err, stream.CachedInfo().State)
		}
	}
}

func TestMuchOutputIsSentWhileTheJobRuns(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url})
	j := s.job("much", 0, "i=0; while [ $i -lt 3000 ]; do echo line $i of much output that does not fit into a record; i=$((i+1)); done; sleep 0.5; echo last >&2")
	s.submit(j)
	var got strings.Builder
	errs := ""
	r, err := s.Queue.Output(t.Context(), j.Key, true, func(c *jobs.Chunk) error {
		if c.Stream == "stderr" {
			errs += string(c.Data)
		} else {
			got.Write(c.Data)
		}
		return nil
	})
	if err != nil || r.State != jobs.Done || !r.Streamed || len(r.Written) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := strings.Count(got.String(), "\n"); n != 3000 || !strings.HasPrefix(got.String(), "line 0 of") || errs != "last\n" {
		t.Errorf("%d lines, %q", n, errs)
	}
}

func TestAJobOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	first := hire(t, hired{URL: s.url})
	j := s.ticking("outlives", 0, 50)
	s.submit(j)
	s.begun(j)
	kill(first)
	hire(t, hired{URL: s.url})
	r := s.ended(j.Key)
	if starts, ends := s.apart("outlives", 0); r.State != jobs.Done || r.Attempt != 2 || starts != 2 || ends != 1 {
		t.Errorf("%+v, %d starts, %d ends", r, starts, ends)
	}
	s.empty()
}

func TestAJobThatEndsItsWorkersIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	j := s.ticking("poison", 0, 10_000)
	j.MaxAttempts = 2
	s.submit(j)
	for n := range 2 {
		w := hire(t, hired{URL: s.url})
		s.until(j.Key, "running", func(r *jobs.Record) bool { return r.State == jobs.Running && r.Attempt == n+1 })
		kill(w)
	}
	hire(t, hired{URL: s.url})
	if r := s.ended(j.Key); r.State != jobs.Dead || r.Reason != jobs.ReasonAttempts || r.Attempt != 2 {
		t.Errorf("%+v", r)
	}
	if l := s.letter("default.poison.0"); l.Reason != jobs.ReasonAttempts || l.Job == nil || l.Job.Key != j.Key {
		t.Errorf("%+v", l)
	}
	s.empty()
}

// letter is what is on the subject of those that were given up.
func (s *scene) letter(key string) (l jobs.Letter) {
	s.Helper()
	_, js := jobstest.Client(s.TB, s.url)
	stream, err := js.Stream(s.Context(), "confine-dead")
	must.Do(s.TB, err)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		m, err := stream.GetLastMsgForSubject(s.Context(), "confine.dead."+key)
		if err == nil {
			must.Do(s.TB, json.Unmarshal(m.Data, &l))
			return l
		}
		if time.Now().After(end) {
			s.Fatal(err)
		}
	}
}

func TestWhatIsNoJobIsGivenUp(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url})
	_, js := jobstest.Client(s.TB, s.url)
	for subject, text := range map[string]string{"confine.jobs.normal.default.x.0": "no job", "confine.jobs.low.y": "{}"} {
		if _, err := js.Publish(t.Context(), subject, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if l := s.letter("default.x.0"); l.Reason != jobs.ReasonUnreadable || string(l.Text) != "no job" {
		t.Errorf("%+v", l)
	}
	s.empty()
}

func TestAJobThatIsCancelledEndsBeforeThatIsSaid(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url})
	peers := s.Peers()
	j := s.ticking("cancel", 0, 10_000)
	s.submit(j)
	worker := s.begun(j).Worker
	// Who can't write to its record doesn't end it.
	nc, _ := jobstest.Client(t, s.url)
	if _, err := nc.Request("confine.worker."+worker, []byte(j.Key.String()), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	before := len(s.lines("cancel", 0))
	s.eventually("the job to go on", func() bool { return len(s.lines("cancel", 0)) > before })
	r, err := s.Cancel(t.Context(), peers, j.Key)
	if err != nil || r.State != jobs.Cancelled {
		t.Fatalf("%+v, %v", r, err)
	}
	s.still(j)
	s.empty()
}

// still looks that a job does nothing any more.
func (s *scene) still(j *jobs.Job) {
	s.Helper()
	before := len(s.lines(j.Key.Batch, j.Key.Index))
	time.Sleep(300 * time.Millisecond)
	if after := len(s.lines(j.Key.Batch, j.Key.Index)); after != before {
		s.Errorf("%s goes on: %d lines, then %d", j.Key, before, after)
	}
}

func TestAJobWhoseWorkerHasDiedIsCancelledWithoutOne(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	w := hire(t, hired{URL: s.url})
	peers := s.Peers()
	j := s.ticking("orphan", 0, 10_000)
	s.submit(j)
	s.begun(j)
	kill(w)
	r, err := s.Cancel(t.Context(), peers, j.Key)
	if err != nil || r.State != jobs.Cancelled {
		t.Fatalf("%+v, %v", r, err)
	}
	s.still(j)
	hire(t, hired{URL: s.url}) // it gets the message, and doesn't begin
	s.empty()
	if starts, _ := s.apart("orphan", 0); starts != 1 {
		t.Errorf("%d starts", starts)
	}
}

func TestAWorkerThatEndsWaitsAndGivesBack(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	first := hire(t, hired{URL: s.url, Drain: 4 * time.Second})
	short, long := s.ticking("short", 0, 30), s.ticking("long", 0, 300) // on a busy host the one takes seconds, too
	s.submit(short, long)
	s.begun(short)
	s.begun(long)
	must.Do(t, first.Process.Signal(syscall.SIGTERM))
	later := s.ticking("later", 0, 1)
	s.submit(later)
	must.Do(t, first.Wait())
	if r := s.ended(short.Key); r.State != jobs.Done || r.Attempt != 1 {
		t.Errorf("%+v", r)
	}
	if k, err := s.Show(t.Context(), long.Key); err != nil || k.State != jobs.Queued || k.Attempt != 0 {
		t.Errorf("%+v, %v", k.Record, err)
	}
	s.still(long)
	hire(t, hired{URL: s.url})
	if r := s.ended(long.Key); r.State != jobs.Done || r.Attempt != 1 {
		t.Errorf("%+v", r)
	}
	s.ended(later.Key)
	if starts, ends := s.apart("long", 0); starts != 2 || ends != 1 {
		t.Errorf("%d starts, %d ends", starts, ends)
	}
}

func TestAWorkerThatIsCutOffEndsItsJobsBeforeOthersBegin(t *testing.T) {
	t.Parallel()
	ports := jobstest.Ports(t, 1)
	server := &jobstest.Config{Port: ports[0]}
	url := jobstest.Inside(t, server.On)
	s := set(t, url)
	link := jobstest.NewLink(t, ports[0])
	hire(t, hired{URL: link.URL()})
	j := s.ticking("cut", 0, 200)
	s.submit(j)
	s.begun(j)
	link.Cut()
	hire(t, hired{URL: url})
	s.until(j.Key, "taken over", func(r *jobs.Record) bool { return r.Attempt == 2 })
	link.Mend()
	r := s.ended(j.Key)
	if starts, ends := s.apart("cut", 0); r.State != jobs.Done || starts != 2 || ends != 1 {
		t.Errorf("%+v, %d starts, %d ends", r, starts, ends)
	}
	s.empty()
}

// TestAMessageThatComesTooEarlyStartsNothing: servers whose clock jumps deliver again what is being done.
func TestAMessageThatComesTooEarlyStartsNothing(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url})
	hire(t, hired{URL: s.url})
	nc, _ := jobstest.Client(t, s.url)
	acks, err := nc.SubscribeSync("$JS.ACK.>") // workers say that they have it yet
	must.Do(t, err)
	j := s.ticking("early", 0, 150)
	s.submit(j)
	s.begun(j)
	for range 5 {
		m, err := acks.NextMsg(5 * time.Second)
		if err != nil {
			break // it has ended
		}
		must.Do(t, nc.Publish(m.Subject, []byte("-NAK")))
	}
	r := s.ended(j.Key)
	if starts, ends := s.apart("early", 0); r.State != jobs.Done || r.Attempt != 1 || starts != 1 || ends != 1 {
		t.Errorf("%+v, %d starts, %d ends", r, starts, ends)
	}
	s.empty()
}

func TestAJobWiderThanTheCeilingIsRefused(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url, Ceiling: "standard", Pattern: "confine.jobs.*.default.>"})
	wide, other, right := s.job("wide", 0, "true"), s.job("other", 0, "true"), s.job("right", 0, "echo $JOB_ID")
	right.Policy, other.Policy = nil, nil
	other.Key.Account = "team"
	s.submit(wide, other, right)
	for _, j := range []*jobs.Job{wide, other} {
		if r := s.ended(j.Key); r.State != jobs.Dead || r.Reason != jobs.ReasonRefused || r.Attempt != 0 {
			t.Errorf("%+v", r)
		}
	}
	if r := s.ended(right.Key); r.State != jobs.Done || r.Report.RC != 0 || r.Report.Profile != "standard" {
		t.Errorf("%+v", r)
	}
	s.empty()
}

func TestJobsRunAtOnceAsFarAsThereIsRoom(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	var all []*jobs.Job
	for i := range 6 { // two fit by their memory
		j := s.job("room", i, `d=${F%/*}; n=$(ls $d | grep -c '^at'); touch $d/at.$JOB_INDEX; echo $n $(ls $d | grep -c '^at'); sleep 0.2; rm $d/at.$JOB_INDEX`)
		j.Array = true
		j.Policy[1].Values = []string{"100M"}
		all = append(all, j)
	}
	huge := s.job("huge", 0, "true")
	huge.Policy[1].Values = []string{"1G"} // no worker ever has so much
	s.submit(append(all, huge)...)
	hire(t, hired{URL: s.url, Room: jobs.Need{Memory: 250 << 20, CPU: 1600, Tasks: 4000}})
	together := 0
	for _, j := range all {
		s.ended(j.Key)
		for _, n := range strings.Fields(s.wrote(j.Key)) {
			if n > "2" {
				t.Errorf("%s jobs ran at once", n)
			}
			if n == "2" {
				together++
			}
		}
	}
	if together == 0 {
		t.Error("no two ran at once")
	}
	if k, err := s.Show(t.Context(), huge.Key); err != nil || k.State != jobs.Queued {
		t.Errorf("%+v, %v", k.Record, err)
	}
}

func TestJobsOfHigherPriorityGoFirst(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	var all []*jobs.Job
	for i, priority := range []string{"low", "low", "normal", "normal", "high", "high"} {
		j := s.job("prio", i, "echo "+priority+" >>${F%/*}/order")
		j.Priority = priority
		all = append(all, j)
	}
	s.submit(all...)
	hire(t, hired{URL: s.url, Jobs: 1})
	for _, j := range all {
		s.ended(j.Key)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "order"))
	if got := strings.Fields(string(text)); err != nil || !slices.Equal(got, []string{"high", "high", "normal", "normal", "low", "low"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAJobThatWaitsForTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	j := s.job("old", 0, "touch $F")
	j.TTL = 0.2
	s.submit(j)
	time.Sleep(400 * time.Millisecond) // that is what it is about
	hire(t, hired{URL: s.url})
	if r := s.ended(j.Key); r.State != jobs.Dead || r.Reason != jobs.ReasonExpired {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(s.file("old", 0)); !os.IsNotExist(err) {
		t.Errorf("it has run: %v", err)
	}
}

// wrote is what a job has written.
func (s *scene) wrote(key jobs.Key) string {
	s.Helper()
	var b strings.Builder
	if _, err := s.Queue.Output(s.Context(), key, false, func(c *jobs.Chunk) error { b.Write(c.Data); return nil }); err != nil {
		s.Fatal(err)
	}
	return b.String()
}

// input stores a directory as the input of jobs.
func (s *scene) input(dir string) string {
	s.Helper()
	root, err := os.OpenRoot(dir)
	must.Do(s.TB, err)
	defer root.Close()
	spool, err := jobs.NewSpool(s.TempDir(), jobs.MaxFile, func(w io.Writer) error {
		_, err := filetree.Pack(filetree.Host(root), ".", w)
		return err
	})
	if err == nil {
		err = s.Store(s.Context(), spool)
	}
	must.Do(s.TB, err)
	return spool.Digest
}

func TestInputsAndOutputs(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url})
	in := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(in, "n"), []byte("41\n"), 0o644))
	j := s.job("files", 0, `mkdir -p out/deep; echo $(($(cat n)+1)) >out/deep/answer; ln -s /etc/passwd out/link; mkfifo out/fifo; echo no >other`)
	j.Input, j.Output = s.input(in), []string{"out/**"}
	gone, bad := s.job("gone", 0, "true"), s.job("bad", 0, "true")
	gone.Input = strings.Repeat("0", 64)
	evil := t.TempDir()
	must.Do(t, os.Symlink("/", filepath.Join(evil, "up")))
	bad.Input = s.input(evil)
	s.submit(j, gone, bad)
	r := s.ended(j.Key)
	if r.State != jobs.Done || r.Report.RC != 0 || r.Output == nil || r.Output.Files != 2 {
		t.Fatalf("%+v %+v", r, r.Output)
	}
	spool, err := s.Fetch(t.Context(), t.TempDir(), r.Output.Digest)
	must.Do(t, err)
	to := t.TempDir()
	root, _ := os.OpenRoot(to)
	left, err := filetree.Unpack(filetree.Host(root), ".", spool.Reader(), true)
	if err != nil || !slices.Equal(left, []string{"out/link"}) {
		t.Errorf("%q, %v", left, err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "out/deep/answer")); string(text) != "42\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, j := range []*jobs.Job{gone, bad} {
		if r := s.ended(j.Key); r.State != jobs.Dead || r.Reason != jobs.ReasonInput {
			t.Errorf("%+v", r)
		}
	}
}

func TestRetryRunsOnceMore(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	hire(t, hired{URL: s.url})
	j := s.ticking("retry", 0, 1)
	s.submit(j)
	s.ended(j.Key)
	s.empty()
	must.Do(t, s.Retry(t.Context(), j.Key))
	r := s.until(j.Key, "done again", func(r *jobs.Record) bool { return r.Run == 2 && r.State.Final() })
	if starts, ends := s.apart("retry", 0); r.State != jobs.Done || starts != 2 || ends != 2 {
		t.Errorf("%+v, %d, %d", r, starts, ends)
	}
}

func TestPatternsOfSubjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{">", "a.b", true}, {"a.>", "a", false}, {"a.>", "a.b.c", true}, {"a.*.c", "a.b.c", true}, {"a.*", "a.b.c", false}, {"a.b", "a.b", true}, {"a", "b", false}, {"a.b.c", "a.b", false},
	} {
		if got := matches(c.pattern, c.subject); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.subject, got)
		}
	}
}
