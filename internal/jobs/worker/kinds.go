package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/pool"
)

// Ceiling is what no job of some subjects may be wider than.
type Ceiling struct {
	Pattern string         // of subjects, as NATS has them: "confine.jobs.*.team.>"
	Policy  *config.Policy // nil: any policy is right
	Files   []string       // that it was read from
	Profile string         // of jobs that name none; empty: the worker's
}

// matches says whether a subject is one of a pattern.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return i < len(s)
		case i >= len(s) || token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// refused is a policy that a job can't have here.
type refused struct{ detail string }

func (e *refused) Error() string { return e.detail }

// kind is jobs that ask for the same sandbox. A few of those are built ahead when they are asked for.
type kind struct {
	pool  *pool.Pool
	need  jobs.Need
	users int
	used  time.Time
}

// maxKinds are those that are remembered, beside those that run.
const maxKinds = 16

// kinds are those that there are.
type kinds struct {
	w   *Worker
	mu  sync.Mutex
	all map[string]*kind
}

// of is the kind of a job, which the caller gives back.
func (k *kinds) of(j *jobs.Job, subject string) (*kind, error) {
	at := slices.IndexFunc(k.w.opts.Ceilings, func(c Ceiling) bool { return matches(c.Pattern, subject) })
	if at < 0 {
		return nil, &refused{"no ceiling of this worker is for jobs of the subject " + subject}
	}
	text, err := json.Marshal(j.Policy)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%d %s", at, text)
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.all[key]; known != nil {
		known.users++
		return known, nil
	}
	first, err := k.w.spec(j, &k.w.opts.Ceilings[at])
	if err != nil {
		return nil, err
	}
	made := &kind{need: jobs.NeedOf(first.Policy, k.w.opts.Room), users: 1}
	most := 1
	if made.need.Fits(k.w.opts.Room) {
		most = int(min(int64(k.w.opts.Jobs), k.w.opts.Room.Memory/max(made.need.Memory, 1), k.w.opts.Room.CPU/max(made.need.CPU, 1), k.w.opts.Room.Tasks/max(made.need.Tasks, 1)))
	}
	// The worker's files are read again each time: they may have changed.
	made.pool, err = pool.New(context.Background(), pool.Options{Max: max(most, 1), Backend: k.w.opts.Backend,
		Spec: func() (*backend.Spec, error) { return k.w.spec(j, &k.w.opts.Ceilings[at]) }})
	if err != nil {
		return nil, unfit(err)
	}
	k.evict()
	k.all[key] = made
	return made, nil
}

func (k *kinds) done(one *kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one.users--
	one.used = time.Now()
}

// evict forgets the kind that nobody has used for the longest time, if there are many.
func (k *kinds) evict() {
	if len(k.all) < maxKinds {
		return
	}
	oldest := ""
	for key, one := range k.all {
		if one.users == 0 && (oldest == "" || one.used.Before(k.all[oldest].used)) {
			oldest = key
		}
	}
	if oldest != "" {
		go k.all[oldest].pool.Close()
		delete(k.all, oldest)
	}
}

func (k *kinds) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.all {
		one.pool.Close()
	}
}

// unfit is an error about what was asked for, as a refusal.
func unfit(err error) error {
	if errors.As(err, new(*config.UsageError)) || errors.As(err, new(*config.CeilingError)) {
		return &refused{err.Error()}
	}
	return err
}

// spec is the sandbox that a job asks for, within the ceiling.
func (w *Worker) spec(j *jobs.Job, c *Ceiling) (*backend.Spec, error) {
	src := w.opts.Sources
	src.Environ, src.Dir = nil, "/"
	var err error
	if src.Flags, err = j.Settings(); err != nil {
		return nil, unfit(err)
	}
	profile := c.Profile
	profile = cmp.Or(profile, w.opts.Profile)
	if profile != "" && !slices.ContainsFunc(src.Flags, func(s config.Setting) bool { return s.Option == "profile" }) {
		src.Flags = append(src.Flags, config.Setting{Option: "profile", Values: []string{profile}, Source: "worker"})
	}
	r, err := config.Resolve(src)
	if err != nil {
		return nil, unfit(err)
	}
	policy := &r.Policy
	policy.Filesystem.Keep = false // nothing of a job stays on a worker's disk
	if err := policy.WithoutDir(); err != nil {
		return nil, unfit(err)
	}
	if err := policy.Validate(); err != nil {
		return nil, unfit(err)
	}
	if c.Policy != nil {
		if option := policy.Wider(c.Policy); option != "" {
			return nil, &refused{"the policy's " + option + " is wider than the worker allows jobs of " + c.Pattern}
		}
	}
	return &backend.Spec{Policy: policy.Hiding(w.opts.Hidden), Resolved: r, Dir: "/", Environ: w.opts.Environ, ConfigFiles: slices.Concat(r.Protected, c.Files),
		Ceiling: c.Policy.Hiding(w.opts.Hidden), CeilingDir: "/"}, nil
}
