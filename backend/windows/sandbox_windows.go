package windows

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/internal/hostfiles"
	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

const (
	// maxTree is how many entries a tree may have that is given ACEs, or copied: each is opened twice more when the run ends.
	maxTree = 20_000
	// maxCopy is how much an overlay may copy.
	maxCopy = 256 << 20
)

// copyBound is how much an overlay may copy: not more than may be written in it.
func copyBound(disk int64) int64 {
	if disk > 0 {
		return min(disk, maxCopy)
	}
	return maxCopy
}

// sandbox is what a Box is made of here.
type sandbox struct {
	plan     *Plan
	sid      []byte
	place    string // the run's own directory
	start    string // where processes start
	env      []string
	journal  string
	job      *jobObject
	token    *token
	desktop  *desktop
	overlays []*overlay
	changed  func() *status.Changes
	absent   []string // protected paths that weren't there
	grown    baseline

	box    *task.Box
	passed sync.Once
	seen
	ending
}

// seen is what was looked at, and by whom.
type seen struct {
	watching sync.WaitGroup
	scratch  atomic.Int64
	peak     atomic.Int64 // of processes
}

// ending is an end of everybody.
type ending struct {
	doomed   atomic.Bool
	killed   chan struct{} // closed by the first who kills
	killOnce sync.Once
}

// baseline is what lay in writable trees when the sandbox was built.
type baseline struct {
	trees        []string
	bytes, files int64
}

// build builds a sandbox. What it has made it removes again where it fails; where even that fails, the journal is left for "doctor --clean".
func build(ctx context.Context, p *Plan, runs string) (b *task.Box, err error) {
	sid := newSID()
	binary, err := parseSID(sid)
	if err != nil {
		return nil, err
	}
	s := &sandbox{plan: p, sid: binary, ending: ending{killed: make(chan struct{})}}
	defer func() {
		if err != nil {
			_, undone := s.Close()
			err = errors.Join(err, undone)
		}
	}()
	if err := s.makePlace(runs, sid); err != nil {
		return nil, err
	}
	if s.job, err = openJob(p); err != nil {
		return nil, task.Setup("job", err.Error(), nil)
	}
	if s.token, err = newToken(binary); err != nil {
		p.Lines.Weaken(status.Privileges, status.NotApplied, err.Error())
		p.Lines.Weaken(status.Filesystem, status.NotApplied, "writes are not held: "+err.Error())
		if s.token, err = ownToken(binary, err); err != nil {
			return nil, task.Setup("token", err.Error(), nil)
		}
	} else {
		s.token.enter(p)
	}
	if err := s.privateDesktop(sid); err != nil {
		p.Lines.Weaken(status.Privileges, status.NotApplied, "the window station and the desktop are the user's: "+err.Error())
	}
	if underWine() {
		p.Lines.Weaken(status.CPUTime, status.NotApplied, "Wine's accounting counts nothing")
	}
	if err := config.Accept(p.Spec.Policy, p.Lines); err != nil {
		return nil, err
	}
	s.changed = sync.OnceValue(func() *status.Changes { return changesOf(s.overlays) })
	s.box = task.New(ctx, Name, p.Spec, status.Ledger(p.Lines), s)
	s.watching.Go(s.hear)
	s.watching.Go(s.watch)
	return s.box, nil
}

// ownToken is that of this process, where none could be restricted: the ledger says so.
func ownToken(sid []byte, why error) (*token, error) {
	var own windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ALL_ACCESS, &own); err != nil {
		return nil, fmt.Errorf("OpenProcessToken: %w", err)
	}
	return &token{Token: own, sid: sid, said: []string{why.Error()}}, nil
}

func (s *sandbox) privateDesktop(sid string) error {
	user, err := s.token.GetTokenUser()
	if err != nil {
		return err
	}
	s.desktop, err = newDesktop(sid, user.User.Sid.String())
	return err
}

// makePlace makes the run's own directory, grants and copies trees. The journal comes first.
func (s *sandbox) makePlace(runs, sid string) error {
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return task.Setup("place", err.Error(), nil)
	}
	var id [idLength / 2]byte
	_, _ = rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	place := filepath.Join(runs, placePrefix+name)
	file := filepath.Join(runs, "journal-"+name+".json")
	j, err := createJournal(file, opening{Version: journalVersion, SID: sid, PID: os.Getpid(), Started: startedAt(windows.CurrentProcess()), Place: place})
	if err != nil {
		return task.Setup("journal", err.Error(), nil)
	}
	s.journal = file
	defer j.close()
	if err := makePrivate(place, sid); err != nil {
		return task.Setup("place", err.Error(), nil)
	}
	s.place = place
	inside := insideEnv(place)
	for _, dir := range []string{`temp`, `home\AppData\Roaming`, `home\AppData\Local`} {
		if err := os.MkdirAll(filepath.Join(place, dir), 0o700); err != nil {
			return task.Setup("place", err.Error(), nil)
		}
	}
	s.env = s.plan.environ(inside)
	s.start = s.plan.Start
	if s.start == "" {
		s.start = filepath.Join(place, "home")
	}
	for i := range s.plan.Trees {
		if err := s.makeTree(&s.plan.Trees[i], i, j); err != nil {
			return err
		}
	}
	return nil
}

func (s *sandbox) makeTree(t *tree, i int, j *journal) error {
	var large *tooLargeError
	l := s.plan.Lines
	if t.Mode == treeCopy {
		at := filepath.Join(s.place, fmt.Sprintf("work%d", i))
		o, err := copyTree(t.Path, at, maxTree, copyBound(s.plan.Job.Disk))
		if errors.As(err, &large) {
			return &config.UsageError{Msg: "overlay of " + large.Error() + ", and can't be copied", Hint: "start in a smaller directory, or take --workdir ro", Err: err}
		}
		if err != nil {
			return task.Setup("overlay", err.Error(), nil)
		}
		s.overlays = append(s.overlays, o)
		if o.skipped > 0 {
			l.Note(status.Overlay, fmt.Sprintf("links that are not in the copy: %d", o.skipped))
		}
		s.start = s.inside(s.start)
		return nil
	}
	var g granted
	err := grantTree(s.plan, t, s.sid, j, &g)
	switch {
	case errors.As(err, &large):
		return &config.UsageError{Msg: "--" + t.Option + ": " + large.Error() + ", and each would have to be given an ACE", Hint: "name a smaller directory in it, or take --overlay of one", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &config.UsageError{Msg: "--" + t.Option + ": the access to what is in " + t.Path + " can't be changed: " + err.Error(), Hint: "it takes the owner of the files", Err: err}
	case err != nil:
		return task.Setup("grant", err.Error(), nil)
	}
	if g.skipped > 0 {
		l.Note(status.Filesystem, fmt.Sprintf("not granted in %s, since they are protected, links, or files with several names: %d", t.Path, g.skipped))
	}
	for _, rel := range s.plan.Protect {
		if at := protectedIn(t.Path, rel); at != "" {
			if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
				s.absent = append(s.absent, at)
			}
		}
	}
	s.grown.trees = append(s.grown.trees, t.Path)
	bytes, files := hostfiles.Measure([]string{t.Path})
	s.grown.bytes, s.grown.files = s.grown.bytes+bytes, s.grown.files+files
	return nil
}

// makePrivate makes a directory that is the user's and the run's, and what comes to be in it too.
func makePrivate(place, sid string) error {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return fmt.Errorf("GetTokenInformation(TokenUser): %w", err)
	}
	sd, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;" + user.User.Sid.String() + ")(A;OICI;FA;;;" + sid + ")S:(ML;OICI;NW;;;LW)")
	if err != nil {
		return fmt.Errorf("ConvertStringSecurityDescriptorToSecurityDescriptor: %w", err)
	}
	a := &windows.SecurityAttributes{SecurityDescriptor: sd}
	a.Length = uint32(unsafe.Sizeof(*a))
	name, err := windows.UTF16PtrFromString(place)
	if err != nil {
		return err
	}
	if err := windows.CreateDirectory(name, a); err != nil {
		return &fs.PathError{Op: "CreateDirectory", Path: place, Err: err}
	}
	return nil
}

// startedAt is when a process began; 0: that can't be told.
func startedAt(process windows.Handle) int64 {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(process, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	return created.Nanoseconds()
}

// hear takes down what the job tells.
func (s *sandbox) hear() {
	for {
		message, ok := s.job.told()
		if !ok {
			return
		}
		switch message {
		case msgNewProcess:
			s.count()
		case msgJobMemoryLimit, msgProcessMemoryLimit:
			s.box.Reached(status.Memory)
		case msgActiveProcessLimit:
			s.box.Reached(status.Tasks)
		case msgEndOfJobTime:
			s.box.End(status.CauseCPUGroup, cpuReached(s.plan.Job.CPUTime))
		}
	}
}

func cpuReached(d time.Duration) string { return "CPU time limit of " + d.String() + " reached" }

// count keeps the highest number of processes.
func (s *sandbox) count() {
	if a, err := s.job.account(); err == nil {
		for n := int64(a.Active); ; {
			if most := s.peak.Load(); n <= most || s.peak.CompareAndSwap(most, n) {
				return
			}
		}
	}
}

// watch looks at what nobody tells: CPU time with that of the kernel, and what lies in places and trees.
func (s *sandbox) watch() {
	clock := time.NewTicker(task.LookEvery)
	defer clock.Stop()
	next := time.Now()
	for {
		select {
		case <-s.killed:
			return
		case <-clock.C:
		}
		if limit := s.plan.Job.CPUTime; limit > 0 {
			if a, err := s.job.account(); err == nil && a.cpu() >= limit {
				s.box.End(status.CauseCPUGroup, cpuReached(limit))
			}
		}
		if began := time.Now(); !began.Before(next) {
			s.lookAtDisk()
			next = time.Now().Add(max(task.LookAtDiskEvery, 4*time.Since(began)))
		}
	}
}

func (s *sandbox) lookAtDisk() {
	bytes, files := hostfiles.Measure(append([]string{s.place}, s.grown.trees...))
	for _, o := range s.overlays { // what was copied is the caller's
		files -= int64(len(o.was))
	}
	bytes, files = bytes-s.grown.bytes, files-s.grown.files
	s.scratch.Store(max(0, bytes))
	most := s.plan.Job.Disk
	if most > 0 {
		most += s.copied()
	}
	s.box.LookAtDisk(bytes, files, most, s.plan.Job.Files)
}

// copied is how much of what lies in the place was copied there.
func (s *sandbox) copied() (n int64) {
	for _, o := range s.overlays {
		n += o.size
	}
	return n
}

// inside is what a name of the caller's is for processes.
func (s *sandbox) inside(name string) string {
	if name != "" && os.IsPathSeparator(name[0]) && filepath.VolumeName(name) == "" {
		name = filepath.VolumeName(s.start) + name
	}
	if !filepath.IsAbs(name) {
		return name
	}
	return moved(filepath.Clean(name), s.overlays)
}

func (s *sandbox) Start(x *task.Start) (task.Target, error) {
	e := x.Exec
	env := withEnv(s.env, e.Env)
	dir := s.start
	if e.Dir != "" {
		dir = s.inside(e.Dir)
	}
	path, err := find(s.inside(e.Argv[0]), dir, env)
	if err != nil {
		return nil, err
	}
	if batch(path) && !batchSafe(e.Argv[1:]) {
		return nil, task.Setup("start", "the arguments of a script of cmd.exe have characters that it would read otherwise", nil)
	}
	for _, word := range append(e.Argv[1:len(e.Argv):len(e.Argv)], dir) {
		if strings.IndexByte(word, 0) >= 0 {
			return nil, task.Setup("start", "an argument has a NUL in it", nil)
		}
	}
	sp := &spawn{path: path, line: commandLine(e.Argv), dir: dir, env: block(env), token: s.token.Token}
	if s.desktop != nil {
		sp.desktop = s.desktop.name
	}
	release := func() {}
	if e.TTY != nil {
		if err := windows.CreatePseudoConsole(coord(*e.TTY), windows.Handle(x.Keys.Fd()), windows.Handle(x.Screen.Fd()), 0, &sp.console); err != nil {
			return nil, task.Setup("start", "CreatePseudoConsole", err)
		}
	} else if sp.streams, release, err = inheritable(x); err != nil {
		return nil, task.Setup("start", "DuplicateHandle", err)
	}
	defer release()
	t, err := s.launch(sp, true)
	if err != nil { // a job with limits on the user interface may not be one of several
		var without error
		if t, without = s.launch(sp, false); without == nil {
			s.box.Amend(func(l plan.Ledger) {
				l.Note(status.Privileges, "the job has no limits on the user interface: it is one of several")
			})
			return t, nil
		}
		if sp.console != 0 {
			windows.ClosePseudoConsole(sp.console)
		}
		return nil, err
	}
	return t, nil
}

// launch starts a process in a job of its own in that of all.
func (s *sandbox) launch(sp *spawn, ui bool) (*target, error) {
	own, err := newJob()
	if err != nil {
		return nil, task.Setup("start", err.Error(), nil)
	}
	j := &jobObject{handle: own}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	err = setJob(own, windows.JobObjectExtendedLimitInformation, &limits)
	if err == nil && ui {
		err = setJob(own, windows.JobObjectBasicUIRestrictions, &windows.JOBOBJECT_BASIC_UI_RESTRICTIONS{UIRestrictionsClass: uiLimits})
	}
	if err != nil {
		j.close()
		return nil, task.Setup("start", "SetInformationJobObject", err)
	}
	sp.jobs = []windows.Handle{s.job.handle, own}
	t, err := launch(sp, s.token, s.rung)
	if err != nil {
		j.close()
		return nil, err
	}
	t.job, t.doomed = j, &s.doomed
	return t, nil
}

// rung writes down that a way to create processes could not be taken.
func (s *sandbox) rung(mechanism, why string) {
	s.passed.Do(func() {
		s.box.Amend(func(l plan.Ledger) {
			e := l[status.Privileges]
			if e.FallbackReason == "" {
				e.FallbackReason = status.InsufficientPrivilege
				l[status.Privileges] = e
			}
			l.Note(status.Privileges, "not by "+mechanism+": "+why+"; by create_process_as_user, which puts it into the job and gives it three handles from its first instruction")
		})
	})
}

// Files are those of the place of the run, and of trees that it may write to or start in.
func (s *sandbox) Files() backend.Files {
	f := hostfiles.Files{Closed: s.box.Done(), Places: []hostfiles.Place{{Dir: s.place, Write: true}}}
	if s.plan.Start != "" {
		f.Places = append(f.Places, hostfiles.Place{Dir: s.start})
	}
	for _, o := range s.overlays {
		f.Places = append(f.Places, hostfiles.Place{Dir: o.tree, At: o.copy, Write: true})
	}
	for _, t := range s.grown.trees {
		f.Places = append(f.Places, hostfiles.Place{Dir: t, Write: true})
	}
	return f
}

func (s *sandbox) Usage() (backend.Usage, error) {
	u, err := s.job.usage()
	u.Scratch = s.scratch.Load()
	return u, err
}

func (s *sandbox) Used() status.Usage {
	u := s.job.used()
	u.TasksPeak = max(s.peak.Load(), min(1, u.TasksStarted))
	if u.Sources != nil {
		u.Sources["tasks_peak"] = "job object, processes, whenever one began"
	}
	return u
}

func (s *sandbox) Kill() {
	s.doomed.Store(true)
	s.killOnce.Do(func() { close(s.killed) })
	s.job.kill()
}

func (s *sandbox) Changes() *status.Changes { return s.changed() }

// emptyPatience is how long the last of those who were killed may take to be gone.
const emptyPatience = 10 * time.Second

func (s *sandbox) Close() (violations []status.Violation, err error) {
	if s.job != nil {
		s.Kill()
		for began := time.Now(); time.Since(began) < emptyPatience; time.Sleep(time.Millisecond) {
			if a, err := s.job.account(); err != nil || a.Active == 0 {
				break
			}
		}
		s.job.hush()
		s.watching.Wait()
		s.job.close()
	}
	if s.token != nil {
		_ = s.token.Close()
	}
	s.desktop.close()
	violations = s.sweep()
	if s.journal != "" {
		err = clean(s.journal)
	}
	return violations, err
}

// sweep removes what came to be at protected paths.
func (s *sandbox) sweep() (list []status.Violation) {
	for _, at := range s.absent {
		if _, err := os.Lstat(at); err != nil {
			continue
		}
		v := status.Violation{Kind: "file", What: at, Count: 1, Rule: status.RuleProtected, Hint: "it was removed: the path is protected"}
		if err := os.RemoveAll(at); err != nil {
			v.Rule, v.Hint = status.RuleLeft, "it could NOT be removed: "+err.Error()
		}
		list = append(list, v)
	}
	return list
}

// clean takes back what a journal tells, and removes the place and the journal itself.
func clean(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	runs := filepath.Dir(name)
	o, changes, err := readJournal(f, func(p string) bool { return isPlace(p, runs) })
	_ = f.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	sid, err := parseSID(o.SID)
	if err != nil {
		return err
	}
	if err := errors.Join(revoke(sid, changes), removePlace(o.Place)); err != nil {
		return err
	}
	return os.Remove(name)
}

// removePlace removes a directory of a run, of which a handle may be closed a moment late.
func removePlace(place string) (err error) {
	for range 50 {
		if err = os.RemoveAll(long(place)); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// alive says whether the process that wrote a journal still runs.
func (o *opening) alive() bool {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(o.PID))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer windows.CloseHandle(h)
	if e, err := windows.WaitForSingleObject(h, 0); err == nil && e == windows.WAIT_OBJECT_0 {
		return false
	}
	return startedAt(h) == o.Started
}

var (
	_ task.System = (*sandbox)(nil)
	_ task.Target = (*target)(nil)
)
