package worker

import (
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
)

// TestADiskThatFillsLosesNoJob: the disk of the server is full for a while. What was accepted before is done in the end, and nothing was accepted that
// isn't.
func TestADiskThatFillsLosesNoJob(t *testing.T) {
	needSandboxes(t)
	ports := jobstest.Ports(t, 1)
	server := jobstest.SmallDisk(t, jobstest.Config{Name: "small", Port: ports[0], Max: 16 << 30}, 24<<20)
	url := "nats://127.0.0.1:" + strconv.Itoa(ports[0])
	s := set(t, url)
	hire(t, hired{URL: url, Room: jobs.Need{Memory: 1 << 30, CPU: 400, Tasks: 4000}})
	var accepted []*jobs.Job
	running := s.ticking("running", 0, 100)
	s.submit(running)
	s.begun(running)
	for i := range 20 {
		j := s.ticking("before", i, 2)
		s.submit(j)
		accepted = append(accepted, j)
	}
	fill := server.DiskPath() + "/fill"
	f, err := os.Create(fill)
	must.Do(t, err)
	for _, size := range []int{1 << 16, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close()
	refused := 0
	for i := 0; i < 20 && refused < 4; i++ { // each refusal takes its patience
		j := s.ticking("during", i, 2)
		if s.trySubmit(j) == nil {
			accepted = append(accepted, j)
		} else {
			refused++
		}
	}
	if refused == 0 {
		t.Error("a full disk refused nothing: nothing was tried")
	}
	must.Do(t, os.Remove(fill))
	// As an operator would, since a server that could not write has stopped writing.
	server.Signal(syscall.SIGHUP)
	for _, j := range append(accepted, running) {
		r := s.ended(j.Key)
		if _, ends := s.apart(j.Key.Batch, j.Key.Index); r.State != jobs.Done || ends < 1 {
			t.Errorf("%s: %+v, %d ends", j.Key, r, ends)
		}
	}
	s.empty()
	t.Logf("%d jobs were accepted, %d refused", len(accepted)+1, refused)
}

// trySubmit submits a job with less patience.
func (s *scene) trySubmit(j *jobs.Job) error {
	ctx, cancel := context.WithTimeout(s.Context(), 500*time.Millisecond)
	defer cancel()
	return s.Submit(ctx, j)
}
