package jobs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// List gives what is known of the jobs of an account, or of one batch, by their keys. A job that nobody has begun has a record here, too.
func (q *Queue) List(ctx context.Context, account, batch string) ([]Kept, error) {
	pattern := account + ".>"
	if batch != "" {
		pattern = account + "." + batch + ".*"
	}
	waiting, err := waiting(ctx, q, pattern)
	if err != nil {
		return nil, err
	}
	all := map[Key]Kept{}
	w, err := q.records.Watch(ctx, pattern, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }()
	for more := true; more; {
		select {
		case e, open := <-w.Updates():
			if more = open && e != nil; more {
				if key, err := ParseKey(e.Key()); err == nil {
					if all[key], err = kept(key, e.Value(), e.Revision()); err != nil {
						return nil, err
					}
				}
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for key, priority := range waiting {
		k, known := all[key]
		if known && !k.State.Final() {
			continue
		}
		run := 1
		var j *Job
		if known { // is it to run again?
			if j, err = q.queued(ctx, key); err != nil {
				return nil, err
			}
			if j == nil || j.Run <= k.Run {
				continue
			}
			run = j.Run
		}
		if j == nil {
			j = &Job{Key: key, Run: run, Priority: priority}
		}
		all[key] = Kept{Key: key, Record: &Record{Job: j, Run: run, State: Queued}}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Kept) int { return a.Key.Compare(b.Key) }), nil
}

// waiting are the jobs that have a message, with their priorities.
func waiting(ctx context.Context, q *Queue, pattern string) (map[Key]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTime)
	defer cancel()
	info, err := q.streams[QueueStream].Info(ctx, jetstream.WithSubjectFilter(jobSubject+"*."+pattern))
	if err != nil {
		return nil, err
	}
	all := map[Key]string{}
	for subject := range info.State.Subjects {
		priority, rest, _ := strings.Cut(strings.TrimPrefix(subject, jobSubject), ".")
		if key, err := ParseKey(rest); err == nil {
			all[key] = priority
		}
	}
	return all, nil
}

// Show is what is known of one job. One that nobody has begun has a record, too.
func (q *Queue) Show(ctx context.Context, key Key) (Kept, error) {
	k, err := q.Get(ctx, key)
	if err != nil || k.Record != nil && !k.State.Final() {
		return k, err
	}
	j, err := q.queued(ctx, key)
	if err != nil {
		return k, err
	}
	if j != nil && (k.Record == nil || j.Run > k.Run) {
		k.Record = &Record{Job: j, Run: j.Run, State: Queued}
	}
	if k.Record == nil {
		return k, ErrNoJob
	}
	return k, nil
}

// Follow gives the records of a batch as they are, and each time that one changes, until the function says that it is enough.
func (q *Queue) Follow(ctx context.Context, account, batch string, more func(Kept) (bool, error)) error {
	return watched(ctx, q.records, account+"."+batch+".*", true, func(e jetstream.KeyValueEntry) (bool, error) {
		key, err := ParseKey(e.Key())
		if err != nil {
			return true, nil
		}
		k, err := kept(key, e.Value(), e.Revision())
		if err != nil {
			return false, err
		}
		return more(k)
	})
}

// watched gives the values of a pattern of keys that are there now, and with follow those that come, until the function says that it is enough.
func watched(ctx context.Context, all jetstream.KeyValue, pattern string, follow bool, more func(jetstream.KeyValueEntry) (bool, error)) error {
	w, err := all.Watch(ctx, pattern, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case e, open := <-w.Updates():
			switch {
			case !open, e == nil && !follow:
				return ctx.Err()
			case e == nil: // that was all there was
				continue
			}
			if ok, err := more(e); !ok || err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
