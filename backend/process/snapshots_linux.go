package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process/internal/layers"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/snapshot"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// boxed is what a box stands on, of a command that a sandbox is built for.
type boxed struct {
	ground *layers.Ground
	like   *Plan         // of a box before it, or beside it; nil: there is none
	used   time.Duration // of the CPU, by those in whose place it goes on
}

// groundInfo is what is known of the snapshot that it begins with; nil: it begins with none.
func (c *boxed) groundInfo() *snapshot.Info {
	if c.ground == nil {
		return nil
	}
	return c.ground.Info
}

// standOn puts a box on what others have left.
func (p *planner) standOn() error {
	c, b := p.command, &p.plan.Box
	if w := &p.plan.Watch; w.CPU > 0 && c.used > 0 {
		w.CPU = max(w.CPU-c.used, time.Millisecond)
	}
	switch info := c.groundInfo(); {
	case c.like != nil && !c.like.Began.IsZero():
		p.plan.Began = c.like.Began
	case c.like != nil:
		p.plan.Began = c.like.planned
	case info != nil:
		p.plan.Began = info.Created
	}
	p.plan.planned = time.Now().Add(-20 * time.Millisecond) // file systems stamp with a coarser clock
	if c.ground == nil {
		return nil
	}
	if p.tier == tierNoNS {
		return &config.UsageError{Msg: "a snapshot can't be shown without a mount namespace", Hint: p.why.hint, Err: errors.ErrUnsupported}
	}
	if info := c.ground.Info; info != nil && c.like == nil {
		if err := samePlaces(b, info); err != nil {
			return err
		}
		if b.OtherIDs {
			return &config.UsageError{Msg: "a snapshot can't be shown to another user (--user)", Err: errors.ErrUnsupported}
		}
	}
	if disk := c.ground.Disk(); disk != nil && disk.Info.PolicyDigest != p.policy.Digest() {
		p.hideInLayers()
	}
	b.Scratch.Layers = c.ground.Layers()
	return narrow(b, c.ground.Used())
}

// hideInLayers hides what --deny names and only a layer may have, of a sandbox that another policy held. What a sandbox has made
// itself, under the same policy, it goes on to see.
func (p *planner) hideInLayers() {
	b := &p.plan.Box
	for _, name := range p.policy.Filesystem.Deny {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.command.Dir, name)
		}
		name = filepath.Clean(name)
		for _, o := range p.plan.Overlays { // it is a name outside
			if rel, below := strings.CutPrefix(name, o.Path+"/"); below {
				name = filepath.Join(o.Dst, rel)
				break
			}
		}
		if !slices.ContainsFunc(b.Mounts, func(m handoff.Mount) bool { return m.Dst == name }) {
			b.Mounts = append(b.Mounts, handoff.Mount{Kind: handoff.MountMask, Dst: name})
		}
	}
}

// narrow leaves to what is written from now on what the files below leave of the limits.
func narrow(b *handoff.Box, used layers.Used) error {
	const least = 4096
	full := func(limit string) error {
		return &config.UsageError{Msg: "the files that it would stand on take up all of its limit on " + limit, Hint: "raise the limit, or remove files before"}
	}
	if s := &b.Scratch; s.Size > 0 {
		if s.Size -= used.Bytes; s.Size < least {
			return full("the disk")
		}
	}
	if s := &b.Scratch; s.Inodes > 0 {
		if s.Inodes -= used.Files; s.Inodes < 1 {
			return full("files")
		}
	}
	for i := range b.Mounts {
		if m := &b.Mounts[i]; m.Kind == handoff.MountTmpfs && used.Sized[m.Dst] > 0 {
			if m.Size -= used.Sized[m.Dst]; m.Size < least {
				return full("the size of " + m.Dst)
			}
		}
	}
	return nil
}

// placesOf are where something can be written that is no tree of the caller's.
func placesOf(b *handoff.Box) (all []snapshot.PlaceInfo) {
	if b.Root.Kind == handoff.MountOverlay && !b.Root.ReadOnly {
		all = append(all, snapshot.PlaceInfo{Path: "/", Kind: snapshot.Overlay})
	}
	for i := range b.Mounts {
		m := &b.Mounts[i]
		if !supervisor.IsPlace(m) {
			continue
		}
		kind := snapshot.Private
		if m.Kind == handoff.MountOverlay {
			kind = snapshot.Overlay
		}
		all = append(all, snapshot.PlaceInfo{Path: m.Dst, Kind: kind})
	}
	return all
}

// samePlaces refuses a snapshot of a sandbox that had other places.
func samePlaces(b *handoff.Box, info *snapshot.Info) error {
	have := placesOf(b)
	for _, side := range []struct {
		what    string
		of, not []snapshot.PlaceInfo
	}{{"it has %s (%s), which this sandbox has not", info.Places, have}, {"this sandbox has %s (%s), which it has not", have, info.Places}} {
		for _, p := range side.of {
			if !slices.Contains(side.not, p) {
				return &config.UsageError{Msg: "the snapshot is of a sandbox with other places: " + fmt.Sprintf(side.what, p.Path, p.Kind),
					Hint: "show the same directories in the same way, and start in the same one"}
			}
		}
	}
	return nil
}

// build has a box built on a ground.
func (s *set) build(ctx context.Context, g *layers.Ground) (*supervisor.Sandbox, *status.Report) {
	mount, ok := g.Take()
	if ok && mount >= 0 {
		defer unix.Close(mount)
	} // else it fails, and says where
	box, r := s.ready.Build(ctx, &s.plan.Plan, mount, s.group)
	if box != nil {
		g.Put(box.TakeBase())
	}
	return box, r
}

// kept is a snapshot in a store.
type kept struct {
	id    string
	store *layers.Store

	mu     sync.Mutex
	closed bool // guarded by mu
}

func (k *kept) ID() string { return k.id }

// Close lets go of it, and removes it from a store that goes with its sandbox.
func (k *kept) Close() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	if !k.store.Kept() {
		err = k.store.Remove(k.id)
	}
	k.store.Drop()
	return err
}

// Kept finds a snapshot in a directory, by its ID or its name.
func (Backend) Kept(dir, id string) (backend.Snapshot, error) {
	st, err := layers.OpenStore(dir)
	if err != nil {
		return nil, err
	}
	info, err := st.Find(id)
	if err != nil {
		st.Drop()
		return nil, err
	}
	return &kept{id: info.ID, store: st}, nil
}

// groundOf is what a snapshot is to be stood on; nil without one.
func groundOf(ctx context.Context, s backend.Snapshot) (*layers.Ground, error) {
	if s == nil {
		return nil, nil
	}
	k, ok := s.(*kept)
	if !ok {
		return nil, &config.UsageError{Msg: "the snapshot is another backend's", Err: errors.ErrUnsupported}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, fmt.Errorf("snapshot %s: %w", k.id, fs.ErrClosed)
	}
	return layers.OnDisk(ctx, k.store, k.id, nil)
}

// begin has nobody else change what the sandbox is, until done is called. ctx ends when it is being closed.
func (s *sandbox) begin(ctx context.Context) (_ context.Context, at standing, done func(), err error) {
	s.work.Lock()
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(s.ending, func() { cancel(backend.ErrClosed) })
	done = func() {
		forget()
		cancel(nil)
		s.work.Unlock()
	}
	at = s.now()
	select {
	case <-s.over:
		err = backend.ErrClosed
	default:
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if s.ending.Err() != nil {
			err = backend.ErrClosed
		}
	}
	if err != nil {
		done()
	}
	return ctx, at, done, err
}

// missing says, if it can't be had, what for.
func (at *standing) missing(what string) error {
	call := at.box.NoLayers()
	why := ""
	switch call {
	case "":
		return nil
	case "mount namespace":
		why = "this host gives no mount namespace: the files are the caller's own"
	case "getxattr":
		why = "files in memory have no extended attributes of users (Linux 6.6)"
	case "overlay":
		why = "this kernel gives users no overlayfs over what they have (Linux 5.11)"
	default:
		why = "the kernel refuses " + call
	}
	return hint.With(fmt.Errorf("%s: %s: %w", what, why, errors.ErrUnsupported), "confine doctor says what this host gives")
}

// still stops everybody inside, and keeps everybody outside from the files. Alone: there was nobody.
func (s *sandbox) still(ctx context.Context, at *standing) (resume func(open func() (int, error)), alone bool, err error) {
	release := s.root.Hold()
	alone, err = at.box.Alone()
	if err == nil && !alone {
		var wake func()
		if wake, err = at.box.Pause(ctx); err == nil {
			held := release
			release = func(open func() (int, error)) {
				wake()
				held(open)
			}
		}
	}
	if err == nil {
		return release, alone && !s.root.Writing(), nil
	}
	release(nil)
	if errors.Is(err, unix.ESRCH) {
		return nil, false, backend.ErrClosed
	}
	return nil, false, fmt.Errorf("%w: %w", backend.ErrUnstopped, err)
}

func (s *sandbox) ShelveIn(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := *s.spec
	spec.Snapshots = dir
	s.spec = &spec
}

// Snapshot writes down what is in private places and overlays. Processes stand still meanwhile, and are not in it.
func (s *sandbox) Snapshot(ctx context.Context) (backend.Snapshot, error) {
	ctx, at, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := at.missing("snapshot"); err != nil {
		return nil, err
	}
	if s.store == nil {
		if dir := s.asked().Snapshots; dir != "" {
			s.store, err = layers.OpenStore(dir)
		} else {
			s.store, err = layers.NewTemp()
		}
		if err != nil {
			s.store = nil
			return nil, err
		}
	}
	id, err := s.save(ctx, &at, s.store, nil, "")
	if err != nil {
		return nil, err
	}
	return &kept{id: id, store: s.store.Hold()}, nil
}

// save writes what the sandbox has over base to a store, after what it stands on.
func (s *sandbox) save(ctx context.Context, at *standing, st *layers.Store, base *layers.Ground, without string) (id string, err error) {
	meta := snapshot.Meta{PolicyDigest: s.asked().Policy.Digest(), Places: placesOf(&at.plan.Box)}
	if meta.Parent, err = at.ground.Save(ctx, st, base, meta); err != nil {
		return "", err
	}
	resume, _, err := s.still(ctx, at)
	if err != nil {
		return "", err
	}
	defer resume(nil)
	dirs, err := at.box.Written()
	if errors.Is(err, unix.ESRCH) {
		err = backend.ErrClosed
	}
	if err != nil {
		return "", err
	}
	if dir, ok := dirs[without]; ok {
		delete(dirs, without)
		_ = unix.Close(dir)
	}
	return st.Add(ctx, meta, dirs)
}

// Changes says what was changed in overlays until now.
func (s *sandbox) Changes(ctx context.Context, keep string) (*status.Changes, error) {
	ctx, at, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := at.missing("changes while a sandbox goes on"); err != nil {
		return nil, err
	}
	resume, _, err := s.still(ctx, &at)
	if err != nil {
		return nil, err
	}
	defer resume(nil)
	if keep != "" {
		if keep, err = filepath.Abs(keep); err != nil {
			return nil, err
		}
	}
	c, err := at.box.Changes(keep)
	if errors.Is(err, unix.ESRCH) {
		err = backend.ErrClosed
	}
	return c, err
}

// Restore makes the files what they were. All that was written since is gone, and so is everybody inside.
func (s *sandbox) Restore(ctx context.Context, from backend.Snapshot) error {
	ctx, at, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if from == nil {
		return &config.UsageError{Msg: "no snapshot to restore"}
	}
	if err := at.missing("restore"); err != nil {
		return err
	}
	if err := at.box.Unmoved(); err != nil {
		return err
	}
	if at.plan.Box.OtherIDs {
		return &config.UsageError{Msg: "a snapshot can't be shown to another user (--user)", Err: errors.ErrUnsupported}
	}
	g, err := groundOf(ctx, from)
	if err != nil {
		return err
	}
	if err := samePlaces(&at.plan.Box, g.Info); err != nil {
		g.Drop()
		return err
	}
	release := s.root.Hold()
	err = s.replace(&at, g, "the sandbox was restored", true)
	s.release(release, err)
	return err
}

// release has files found in the box that there is now.
func (s *sandbox) release(release func(open func() (int, error)), err error) {
	if err != nil {
		release(nil)
		return
	}
	at := s.now()
	release(rootOf(&at))
}

// replace ends the box, and has another go on in its place on a ground, which is its own then. Where that can't be, the
// sandbox has ended; if it is to stay, and both can stand at one time, it is as it was.
func (s *sandbox) replace(at *standing, g *layers.Ground, why string, stay bool) error {
	used := time.Duration(0) // by the boxes before this one
	for _, e := range s.earlier {
		used += time.Duration(e.Usage.CPUMS) * time.Millisecond
	}
	both := at.plan.undisturbed()
	var next *standing
	var err error
	if stay = stay && both; stay {
		if next, err = s.succeed(g, at.plan, used+at.box.CPU()); err != nil {
			g.Drop()
			return err
		}
	}
	s.mu.Lock()
	s.replacing = true
	s.mu.Unlock()
	var r *status.BoxReport
	switch {
	case stay:
		r = at.box.Replace(why)
	case both:
		var ended sync.WaitGroup
		used += at.box.CPU()
		ended.Go(func() { r = at.box.Replace(why) })
		next, err = s.succeed(g, at.plan, used)
		ended.Wait()
	default:
		if r = at.box.Replace(why); r.Cause == "" {
			next, err = s.succeed(g, at.plan, used+time.Duration(r.Usage.CPUMS)*time.Millisecond)
		}
	}
	if r.Cause != "" { // it has ended by itself
		if err = backend.ErrClosed; next != nil {
			next.box.Close()
		}
	}
	s.mu.Lock()
	s.replacing = false
	if err != nil {
		s.mu.Unlock()
		g.Drop()
		if failed := (*backend.BuildError)(nil); errors.As(err, &failed) {
			s.failed = failed.Report.SetupError
		}
		s.end()
		return err
	}
	s.standing = *next
	s.mu.Unlock()
	s.earlier = append(s.earlier, r)
	at.ground.Drop()
	go s.await(next.box)
	return nil
}

// undisturbed says whether another box can be planned and built while one of this plan ends: nothing is put in order then that
// the plan would find otherwise, and nothing is held that there is once.
func (p *Plan) undisturbed() bool {
	return len(p.Guarded.KeepAbsent)+len(p.Guarded.KeepClear)+len(p.Watch.Trees)+len(p.Network.Publish) == 0
}

// succeed builds the box that goes on. used is what CPU time others had before it.
func (s *sandbox) succeed(g *layers.Ground, like *Plan, used time.Duration) (*standing, error) {
	next, failed, err := build(s.life, s.asked(), g, like, used)
	if failed != nil {
		err = &backend.BuildError{Report: failed}
	}
	return next, err
}

// Fork makes another sandbox, which ends with ctx, with the same files. Nobody inside is in it. Where nobody is
// inside both stand on what there is, and nothing is copied.
func (s *sandbox) Fork(life context.Context) (backend.Sandbox, error) {
	ctx, at, done, err := s.begin(life)
	if err != nil {
		return nil, err
	}
	later := false
	defer func() {
		if !later {
			done()
		}
	}()
	if err := forks(s, &at); err != nil {
		return nil, err
	}
	release, alone, err := s.still(ctx, &at)
	if err != nil {
		return nil, err
	}
	if alone && (at.started || s.root.Used() || !at.ground.Ready()) {
		g, err := s.divide(&at, release)
		if err != nil {
			return nil, err
		}
		later = true // the fork is what is waited for; who wants something of the source waits a little longer
		defer func() {
			go func() {
				defer done()
				s.release(release, s.replace(&at, g, "the sandbox was forked", false))
				s.spare(&at)
			}()
		}()
		return s.beside(life, &at, g.Hold())
	}
	release(nil)
	defer s.spare(&at)
	if alone {
		return s.beside(life, &at, at.ground.Hold())
	}
	g, err := copied(ctx, s, &at, "")
	if err != nil {
		return nil, err
	}
	return s.beside(life, &at, g)
}

// ForkWithout makes a fork in which one private place is empty: whoever knows better how to fill it does.
func (s *sandbox) ForkWithout(life context.Context, place string) (backend.Sandbox, error) {
	ctx, at, done, err := s.begin(life)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := forks(s, &at); err != nil {
		return nil, err
	}
	g, err := copied(ctx, s, &at, place)
	if err != nil {
		return nil, err
	}
	defer s.spare(&at)
	return s.beside(life, &at, g)
}

// forks says why there can be none of a sandbox, if so.
func forks(s *sandbox, at *standing) error {
	if err := at.missing("fork"); err != nil {
		return err
	}
	if len(s.asked().Policy.Network.Publish) > 0 {
		return &config.UsageError{Msg: "a sandbox that publishes ports can't be forked: a port leads to one sandbox", Hint: "leave --publish away"}
	}
	return at.box.Unmoved()
}

// spare has the init of another fork start ahead: whoever forks once often forks again.
func (s *sandbox) spare(at *standing) {
	if s.ending.Err() == nil {
		s.unused = supervisor.Spare(at.plan.tier.namespaces(s.asked().Policy))
	}
}

// beside builds a fork on a ground, which is its own then.
func (s *sandbox) beside(life context.Context, at *standing, g *layers.Ground) (backend.Sandbox, error) {
	box, r, err := openOn(life, s.asked(), g, at.plan)
	if r != nil {
		err = &backend.BuildError{Report: r}
	}
	if err != nil {
		return nil, err
	}
	return box, nil
}

// divide makes a ground of what was written in a sandbox, for that and a fork. release is that of its files.
func (s *sandbox) divide(at *standing, release func(open func() (int, error))) (*layers.Ground, error) {
	layer := at.box.TakeLayer()
	g, err := at.ground.Over(layer)
	if err == nil {
		box := at.plan.Box
		box.Mounts = slices.Clone(box.Mounts)
		if err = narrow(&box, g.Own()); err == nil {
			return g, nil
		}
		g.Abandon()
	}
	at.box.GiveBack(layer)
	release(nil)
	if errors.Is(err, unix.ESRCH) {
		err = backend.ErrClosed
	}
	return nil, err
}

// copied is a ground with what is written in the sandbox now. It goes with the last who stands on it.
func copied(ctx context.Context, s *sandbox, at *standing, without string) (*layers.Ground, error) {
	st, err := layers.NewTemp()
	if err != nil {
		return nil, err
	}
	defer st.Drop()
	base := at.ground.Disk()
	id, err := s.save(ctx, at, st, base, without)
	if err != nil {
		return nil, err
	}
	return layers.OnDisk(ctx, st, id, base)
}

// sum is one report of the boxes that a sandbox was, one after the other.
func sum(all []*status.BoxReport) *status.BoxReport {
	last := all[len(all)-1]
	if len(all) == 1 {
		return last
	}
	r := *last
	r.DurationMS, r.Usage, r.LimitsHit, r.FullMounts, r.Violations, r.Network = 0, status.Usage{Sources: last.Usage.Sources}, nil, nil, nil, nil
	for _, b := range all {
		addUsage(&r.Usage, &b.Usage)
		r.LimitsHit, r.FullMounts = union(r.LimitsHit, b.LimitsHit), union(r.FullMounts, b.FullMounts)
		for _, v := range b.Violations {
			v.FirstMS += r.DurationMS
			if v.LastMS > 0 {
				v.LastMS += r.DurationMS
			}
			i := slices.IndexFunc(r.Violations, func(o status.Violation) bool { return o.Kind == v.Kind && o.What == v.What && o.Rule == v.Rule })
			if i < 0 {
				r.Violations = append(r.Violations, v)
				continue
			}
			r.Violations[i].Count += v.Count
			r.Violations[i].LastMS = max(v.FirstMS, v.LastMS)
		}
		r.Network = addTraffic(r.Network, b.Network, r.DurationMS)
		if r.SetupError == nil {
			r.SetupError = b.SetupError
		}
		r.DurationMS += b.DurationMS
	}
	return &r
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	slices.SortFunc(a, strings.Compare)
	return a
}

func addUsage(to, u *status.Usage) {
	to.CPUMS += u.CPUMS
	to.UserMS += u.UserMS
	to.SystemMS += u.SystemMS
	to.MemoryPeakBytes = max(to.MemoryPeakBytes, u.MemoryPeakBytes)
	to.TasksPeak = max(to.TasksPeak, u.TasksPeak)
	to.ThrottledMS += u.ThrottledMS
	to.ReadBytes += u.ReadBytes
	to.WriteBytes += u.WriteBytes
	to.ContextSwitches += u.ContextSwitches
	for k, ms := range u.PressureMS {
		if to.PressureMS == nil {
			to.PressureMS = map[string]int64{}
		}
		to.PressureMS[k] += ms
	}
}

// addTraffic adds what was told of a network, after so many milliseconds of others.
func addTraffic(to, t *status.Traffic, after int64) *status.Traffic {
	const most = 1024 // kinds of attempts, as in one
	if t == nil {
		return to
	}
	if to == nil {
		to = &status.Traffic{}
	}
	for _, a := range t.Attempts {
		a.FirstMS += after
		i := slices.IndexFunc(to.Attempts, func(o status.Attempt) bool {
			return o.What == a.What && o.Protocol == a.Protocol && o.Verdict == a.Verdict && o.Why == a.Why && o.Rule == a.Rule && o.Address == a.Address && o.Port == a.Port
		})
		switch {
		case i >= 0:
			to.Attempts[i].Count += a.Count
		case len(to.Attempts) < most:
			to.Attempts = append(to.Attempts, a)
		default:
			to.Others += a.Count
		}
	}
	to.Others += t.Others
	to.Connections = max(to.Connections, t.Connections)
	to.SentBytes += t.SentBytes
	to.ReceivedBytes += t.ReceivedBytes
	return to
}
