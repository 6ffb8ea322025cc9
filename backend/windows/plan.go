package windows

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/view"
	"github.com/confine-run/confine/status"
)

// Name is the backend's, as reports have it.
const Name = "windows-job"

// facts are what a plan needs to know of the host.
type facts struct {
	CPUs int
	Home string // the user's own
}

// job are the limits of a job object.
type job struct {
	Memory    int64         // JobMemoryLimit, and that of one process, in bytes of commit; 0: none
	Processes int64         // ActiveProcessLimit
	CPUTime   time.Duration // user and kernel, of all; PerJobUserTimeLimit is of user time alone
	Rate      uint32        // CpuRate: hundredths of a percent of all processors; 0: none
	Affinity  uint64
	Disk      int64 // of places, overlays and what writable trees grow by
	Files     int64
}

// treeMode is what becomes of a tree of the caller's.
type treeMode string

const (
	treeWrite treeMode = "write" // it is granted
	treeCopy  treeMode = "copy"  // the run has a copy, and starts in that
)

// tree is one that a run may write to.
type tree struct {
	Path    string
	Mode    treeMode
	Option  string
	Workdir bool
}

// Plan is what will be done for one sandbox.
type Plan struct {
	Job     job
	Trees   []tree
	Protect []string `json:"-"` // relative to each tree, or absolute
	task.Plan
	Keep bool
}

// newPlan decides what will be done. It changes nothing and asks nobody but the facts.
func newPlan(s *backend.Spec, have facts) (*Plan, error) {
	p := &Plan{Plan: task.NewPlan(Name, "Windows", s)}
	for _, part := range []func() error{
		p.Refuse,
		func() error { return p.limits(have) },
		p.held,
		func() error { return p.files(have) },
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	return p, config.Accept(s.Policy, p.Lines)
}

// limits are the job's, and what is watched beside it.
func (p *Plan) limits(have facts) error {
	q, l, j := p.Spec.Policy, p.Lines, &p.Job
	l.Enforced(status.WallTime, "timer", "")
	l.Enforced(status.Output, "relay", "")

	j.CPUTime = q.CPUTime
	l.Enforced(status.CPUTime, "job_object", "its accounting of all processes, looked at every "+task.LookEvery.String()+"; the job's own limit on user time behind it")
	if q.CPULimit > 0 {
		j.Rate = uint32(min(10_000, max(1, q.CPULimit*100/max(1, have.CPUs))))
		l.Enforced(status.CPURate, "job_object", fmt.Sprintf("hard cap of %s%% of %d processors", strconv.FormatFloat(float64(j.Rate)/100, 'f', -1, 64), have.CPUs))
	}
	switch {
	case q.CPUs == 0:
	case q.CPUs >= have.CPUs: // a mask with more than there are is refused
		l.Enforced(status.CPUs, "job_object", "this host has no more")
	default:
		j.Affinity = 1<<min(q.CPUs, 63) - 1
		l.Enforced(status.CPUs, "job_object", "affinity")
	}
	j.Memory = q.MemoryLimit
	l.Enforced(status.Memory, "job_object", "committed memory of all processes; beyond it allocations fail")
	j.Processes = q.Processes
	l.Partial(status.Tasks, "job_object", status.PlatformUnsupported, "processes; their threads aren't counted")

	j.Disk, j.Files = q.DiskLimit, q.MaxFiles
	const watched = "places of the run, overlays, and what writable trees grow by, looked through every " // a quarter of a second, or longer
	l.Enforced(status.Disk, "disk_watchdog", watched+task.LookAtDiskEvery.String())
	l.Enforced(status.Files, "disk_watchdog", watched+task.LookAtDiskEvery.String())
	for _, c := range []status.Capability{status.FileDescriptors, status.FileSize} {
		l.Missing(c, status.PlatformUnsupported, "Windows has no such limit")
	}
	return nil
}

// held is what keeps the processes together and from privileges, and what nothing keeps them from.
func (p *Plan) held() error {
	l := p.Lines
	l.Enforced(status.Containment, "job_object", "kill on close, no breakaway")
	l.Enforced(status.Privileges, "restricted_token", "no privilege but to traverse directories, administrators only to deny, low integrity")
	l.Missing(status.Network, status.PlatformUnsupported, "at this level nothing holds the network; it would take an administrator")
	l.Missing(status.Publish, status.PlatformUnsupported, "the command's ports are the host's")
	p.Unfiltered("")
	return nil
}

// files are the trees that may be written.
func (p *Plan) files(have facts) error {
	q, l := p.Spec.Policy, p.Lines
	f := &q.Filesystem
	add := func(path string, mode treeMode, option string, workdir bool) error {
		if err := checkPath(path); err != nil {
			return &config.UsageError{Msg: "--" + option + ": " + strconv.Quote(path) + " " + err.Error(), Hint: "name a directory or a file of a drive", Err: err}
		}
		for _, t := range p.Trees {
			if t.Mode != mode && (under(path, t.Path) || under(t.Path, path)) {
				return &config.UsageError{Msg: strconv.Quote(path) + " and " + strconv.Quote(t.Path) + " lie in each other, and one is an overlay", Hint: "an overlay is a copy here: keep one of them"}
			}
		}
		p.Trees = append(p.Trees, tree{path, mode, option, workdir})
		return nil
	}
	var err error
	start := cmp.Or(f.Chdir, p.Spec.Dir)
	switch f.Workdir {
	case "rw":
		err = add(p.Spec.Dir, treeWrite, "workdir", true)
	case "overlay":
		err = add(p.Spec.Dir, treeCopy, "workdir", true)
	case "ro":
		p.Shown = append(p.Shown, view.Rule{Path: p.Spec.Dir, Access: view.RuleRead, Why: "the current directory", Origin: view.Origin{Option: view.FromWorkdir}})
	default:
		if f.Chdir == "" {
			start = ""
		}
	}
	for _, path := range f.AllowWrite {
		if err == nil {
			err = add(path, treeWrite, "allow-write", false)
		}
	}
	for _, path := range f.Overlay {
		if err == nil {
			err = add(path, treeCopy, "overlay", false)
		}
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(p.Trees, func(t tree) bool { return t.Workdir && have.Home != "" && fold(t.Path) == fold(have.Home) }) {
		return &config.UsageError{Msg: "the current directory is the home directory, too broad to be written", Hint: "change to a project's directory"}
	}
	p.Start = start
	p.Protect = slices.Concat(f.Protect, p.Spec.ConfigFiles)
	var written, copied []string
	for _, t := range p.Trees {
		access, why := view.RuleWrite, "granted to the SID of the run"
		if t.Mode == treeCopy {
			copied, access, why = append(copied, t.Path), view.RuleOverlay, "the run has a copy in a place of its own"
		} else {
			written = append(written, t.Path)
		}
		p.Shown = append(p.Shown, view.Rule{Path: t.Path, Access: access, Why: why, Origin: view.Origin{Option: t.Option, Word: t.Path}})
	}
	where := "writes are held to places of the run's own"
	if len(written) > 0 {
		where += " and to " + strings.Join(written, ", ")
	}
	l.Partial(status.Filesystem, "restricted_token", status.PlatformUnsupported,
		where+"; what Everyone may write stays writable at a low integrity level; reads are not held: what the user may read can be read, secrets too")
	if len(copied) == 0 {
		l.Unasked(status.Overlay, "none", "no tree is shown as one")
		return nil
	}
	l.Ask(status.Overlay, strings.Join(copied, ","))
	const how = "at another name: absolute names lead to the tree itself, which can't be written; changes are told"
	if p.Keep = f.Keep; p.Keep {
		l.Partial(status.Overlay, "copy", status.PlatformUnsupported, how+", and can't be kept")
	} else {
		l.Enforced(status.Overlay, "copy", how+", and thrown away")
	}
	return nil
}

// insideEnv is what the place of a run adds to the environment: every path of the user's own that programs write to leads there.
func insideEnv(place string) map[string]string {
	home, temp := place+`\home`, place+`\temp`
	return map[string]string{
		"TEMP": temp, "TMP": temp, "TMPDIR": temp, "HOME": home, "USERPROFILE": home, "HOMEDRIVE": home[:2], "HOMEPATH": home[2:],
		"APPDATA": home + `\AppData\Roaming`, "LOCALAPPDATA": home + `\AppData\Local`,
	}
}

// environ is the environment of processes, with what the place of the run adds.
func (p *Plan) environ(inside map[string]string) []string {
	return environment(&p.Spec.Policy.Env, p.Spec.Environ, inside)
}

func (p *Plan) Key() [32]byte {
	return backend.KeyOf(p, p.Spec.Policy.Digest())
}

// Ask answers what can be asked here: whom nothing holds may do what the user may.
func (p *Plan) Ask(q config.Ask) (config.Answer, error) {
	a := config.Answer{Kind: q.Kind, Asked: q.Word, Access: q.Access, Answer: config.AnswerDepends, Reason: "not_held",
		Details: "nothing holds it here: it is as for the user"}
	switch {
	case q.Kind == config.AskHost && p.Spec.Policy.Network.All:
		a.Answer, a.Reason, a.Details = config.AnswerYes, "network_all", "the caller's network as it is"
	case q.Kind == config.AskPath && (q.Access == "write" || q.Access == "create"):
		if err := checkPath(q.Word); err != nil {
			return a, &config.UsageError{Msg: strconv.Quote(q.Word) + " " + err.Error(), Err: err}
		}
		a.Answer, a.Reason, a.Details = config.AnswerNo, "not_granted", "no tree that was granted holds it; what Everyone may write is writable"
		for _, t := range p.Trees {
			if under(q.Word, t.Path) && t.Mode == treeWrite {
				a.Answer, a.Reason, a.At, a.Details = config.AnswerYes, "granted", t.Path, "where the user may"
				a.Origin = view.Origin{Option: t.Option, Word: t.Path}
			}
		}
		if a.Answer == config.AnswerYes && p.protected(q.Word) {
			a.Answer, a.Reason, a.Details = config.AnswerNo, "protected", "it is protected in every writable tree"
		}
	case q.Kind == config.AskSyscall:
		return a, p.NoSyscalls()
	}
	return a, nil
}

// protected says whether a path is one that stays as it is, or is in one.
func (p *Plan) protected(path string) bool {
	for _, t := range p.Trees {
		for _, rel := range p.Protect {
			if at := protectedIn(t.Path, rel); at != "" && under(path, at) {
				return true
			}
		}
	}
	return false
}

// protectedIn is where a path that is protected lies in a tree; "": not there.
func protectedIn(tree, rel string) string {
	rel = strings.ReplaceAll(rel, "/", `\`)
	switch {
	case strings.HasPrefix(rel, `~\`):
		return "" // the home directory of a run is its own
	case len(rel) > 1 && rel[1] == ':' || strings.HasPrefix(rel, `\`):
		if under(rel, tree) {
			return rel
		}
		return ""
	}
	return strings.TrimRight(tree, `\/`) + `\` + rel
}

// roleOf is what an entry of a tree is to a run.
func (p *Plan) roleOf(t *tree, path string) role {
	if p.protected(path) {
		return roleNone
	}
	if fold(path) == fold(t.Path) {
		return roleKept
	}
	for _, rel := range p.Protect {
		if at := protectedIn(t.Path, rel); at != "" && under(at, path) {
			return roleKept // something in it is protected, which must not be moved away with it
		}
	}
	return roleOpen
}
