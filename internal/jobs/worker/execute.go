package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/filetree"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/status"
)

// execute runs a job that is this worker's by its record.
func (s *shift) execute(r *run) outcome {
	next := *r.kept.Record
	o := s.inside(r, &next)
	o.next = &next
	if cause := context.Cause(r.ctx); cause != nil && o.give == "" && !ended(&next) {
		o.lost = cause
	}
	return o
}

// ended says whether it has come to its end by itself, or by a limit, whatever we wanted of it.
func ended(r *jobs.Record) bool {
	return r.Report != nil && !slices.Contains([]status.Cause{status.CauseContext, status.CauseCaller, status.CauseSetup}, r.Report.Cause)
}

// inside builds the sandbox, fills it, runs the command, and collects what it left.
func (s *shift) inside(r *run, next *jobs.Record) outcome {
	box, err := r.d.kind.pool.Claim(r.ctx, r.job.Argv[0])
	if err != nil {
		return unstarted(r, next, err)
	}
	defer box.Retire()
	dir := box.Spec.Policy.Filesystem.Chdir
	if r.job.Input != "" {
		if err := s.fill(r, box.Files(), dir); err != nil {
			if r.ctx.Err() != nil || !lasting(err) {
				return outcome{lost: errUnable}
			}
			return outcome{give: jobs.ReasonInput, why: "its input: " + err.Error()}
		}
	}
	out := newOutput(s.ctx, s.q, r.job.Key, r.job.Run, next.Attempt)
	env := append(slices.Clone(r.job.Env), "JOB_ID="+r.job.Key.Batch)
	if r.job.Array {
		env = append(env, "JOB_INDEX="+strconv.Itoa(r.job.Key.Index))
	}
	p, err := box.Start(r.ctx, &backend.Exec{Argv: r.job.Argv, Env: env, Dir: dir, Stdout: out.stream("stdout"), Stderr: out.stream("stderr")})
	if err != nil {
		_, _, _ = out.close()
		return unstarted(r, next, err)
	}
	next.Report = p.Wait()
	if next.Written, next.Streamed, err = out.close(); err != nil && next.NoOutput == "" {
		next.NoOutput = "some of what it wrote is lost: " + err.Error()
	}
	if len(r.job.Output) > 0 && r.ctx.Err() == nil {
		if next.Output, err = s.collect(r, box.Files(), dir); err != nil {
			next.NoOutput = err.Error()
		}
	}
	return outcome{}
}

// unstarted is a job that was not started.
func unstarted(r *run, next *jobs.Record, err error) outcome {
	var unbuilt *backend.BuildError
	switch {
	case r.ctx.Err() != nil:
		return outcome{}
	case errors.As(err, &unbuilt):
		next.Report = unbuilt.Report
		return outcome{}
	case errors.As(err, new(*config.UsageError)), errors.As(err, new(*config.CeilingError)), errors.As(err, new(*backend.DirError)):
		return outcome{give: jobs.ReasonRefused, why: err.Error()}
	}
	return outcome{lost: errUnable}
}

// lasting says whether an input would be as wrong on another worker.
func lasting(err error) bool {
	return errors.As(err, new(*filetree.Error)) || errors.Is(err, jobs.ErrNoFile)
}

// fill unpacks the input where the command starts.
func (s *shift) fill(r *run, files backend.Files, dir string) error {
	spool, done, err := s.inputs.get(r.ctx, r.job.Input)
	if err != nil {
		return err
	}
	defer done()
	left, err := filetree.Unpack(files, dir, spool.Reader(), true)
	if err == nil && len(left) > 0 {
		return &filetree.Error{Msg: strconv.Quote(left[0]) + " is a link that leads out of it"}
	}
	if err != nil && r.ctx.Err() == nil { // the sandbox has no room for it, mostly: no other has more
		return &filetree.Error{Msg: err.Error()}
	}
	return err
}

// collect packs the files that match a pattern of the job's, and stores them by their content.
func (s *shift) collect(r *run, files backend.Files, dir string) (*jobs.Output, error) {
	n := 0
	keep := func(name string) bool {
		return r.ctx.Err() == nil && slices.ContainsFunc(r.job.Output, func(pattern string) bool {
			ok, _ := doublestar.Match(path.Clean(pattern), name)
			return ok
		})
	}
	spool, err := jobs.NewSpool(tempDir(s.opts.Dir), jobs.MaxFile, func(w io.Writer) (err error) {
		n, err = filetree.PackSome(files, dir, w, keep)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pack the outputs: %w", err)
	}
	defer spool.Close()
	if err := s.q.Store(r.ctx, spool); err != nil {
		return nil, fmt.Errorf("store the outputs: %w", err)
	}
	return &jobs.Output{Digest: spool.Digest, Bytes: spool.Size, Files: n}, nil
}
