package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/review"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/snapshot"
	"github.com/confine-run/confine/internal/sockets"
)

// What is asked about changes of the caller's files.
type changeRoutes struct{ *Server }

// reviews counts who looks at changes: each holds a copy of what was changed for as long.
type reviews struct {
	mu  sync.Mutex
	all map[sandboxes.Owner]int
}

const maxReviews = 4

func (r *reviews) begin(owner sandboxes.Owner) (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[owner] >= maxReviews {
		return nil, &sandboxes.QuotaError{What: "requests of this owner at once that look at changes", Max: maxReviews}
	}
	if r.all == nil {
		r.all = map[sandboxes.Owner]int{}
	}
	r.all[owner]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.all[owner]--; r.all[owner] == 0 {
			delete(r.all, owner)
		}
	}, nil
}

// taken is what a sandbox has changed by now, until done is called.
func (s changeRoutes) taken(c *call) (b *sandboxes.Sandbox, r *review.Review, done func(), err error) {
	b, unused, err := s.standing(c)
	if err != nil {
		return nil, nil, nil, err
	}
	if s.Changes == "" {
		unused()
		return nil, nil, nil, fail(http.StatusNotImplemented, codeUnsupported, "there is no directory for changes").hint("confine serve --state DIR names one")
	}
	end, err := s.reviews.begin(c.owner)
	if err != nil {
		unused()
		return nil, nil, nil, err
	}
	if r, err = b.Review(c.Context(), s.Changes); err != nil {
		end()
		unused()
		return nil, nil, nil, err
	}
	return b, r, func() {
		_ = r.Close() // what can't be forgotten now is forgotten by the next server
		end()
		unused()
	}, nil
}

// diff says what a sandbox changed in the caller's files: as a document, as a patch by ?patch, and as lines by ?names.
func (s changeRoutes) diff(c *call) error {
	query := c.URL.Query()
	o := changes.DiffOptions{From: query.Get("from"), Patch: query.Has("patch")}
	o.JSON = !o.Patch && !query.Has("names")
	_, r, done, err := s.taken(c)
	if err != nil {
		return err
	}
	defer done()
	kind := "text/plain; charset=utf-8"
	switch {
	case o.JSON:
		kind = "application/json"
	case o.Patch:
		kind = "text/x-diff"
	}
	c.w.Header().Set("Content-Type", kind)
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	to := &streamed{to: c.prompt()}
	return to.failed(r.Diff(to, query["path"], o))
}

// applyDoc asks for changes to be copied to the caller's files.
type applyDoc struct {
	Paths          []string `json:"paths"` // absolute; none: all
	DryRun         bool     `json:"dry_run"`
	Force          bool     `json:"force"`
	AllowProtected bool     `json:"allow_protected"`
}

// appliedDoc is what became of it.
type appliedDoc struct {
	Applied int  `json:"applied"` // changes
	DryRun  bool `json:"dry_run"` // nothing was touched
	NoSetID int  `json:"no_set_id"`
	Parted  int  `json:"parted"`
	Copied  int  `json:"copied"`
}

func (s changeRoutes) apply(c *call) error {
	if s.Ceiling != nil { // which says what sandboxes show and write, and not what may be written for them
		return fail(http.StatusForbidden, codeCeiling, "a server with a ceiling writes nothing outside of sandboxes").hint("whoever has the files applies changes, by what diff?patch says")
	}
	var d applyDoc
	if err := c.readOr(&d); err != nil {
		return err
	}
	_, r, done, err := s.taken(c)
	if err != nil {
		return err
	}
	defer done()
	did, err := r.Apply(c.Context(), os.Getenv, d.Paths, changes.Options{Force: d.Force, AllowProtected: d.AllowProtected, Dry: d.DryRun})
	if err != nil {
		return err
	}
	reply(c.w, http.StatusOK, appliedDoc{did.Applied, d.DryRun, did.NoSetID, did.Parted, did.Copied})
	return nil
}

// PathProblem is a path that something is wrong with.
type PathProblem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Hard   bool   `json:"hard"` // force doesn't help
}

func (p *problem) list(all []changes.Conflict, more int) *problem {
	for _, c := range all {
		p.Paths = append(p.Paths, PathProblem{c.Path, c.Reason, c.Hard})
	}
	p.More = more
	return p
}

// changeProblem is an error about changes, or nil.
func changeProblem(err error) *problem {
	var conflict *changes.ConflictError
	var refused *changes.RefusedError
	var bad *review.PathError
	detail, _ := hint.Split(err)
	switch {
	case errors.As(err, &conflict):
		p := fail(http.StatusConflict, CodeChanged, fmt.Sprintf("%d paths have changed since", len(conflict.Paths)+conflict.More))
		return p.list(conflict.Paths, conflict.More).hint(`"force": true lets the sandbox's version win, but for those that are hard`)
	case errors.As(err, &refused):
		p := fail(http.StatusUnprocessableEntity, CodeRefused, fmt.Sprintf("%d paths can't be applied", len(refused.Paths)+refused.More))
		if refused.Asked() {
			p.Hint = `look at diff?patch; then "allow_protected": true, or name the other paths`
		} else {
			p.Hint = "name the other paths"
		}
		return p.list(refused.Paths, refused.More)
	case errors.Is(err, changes.ErrExchanged):
		return fail(http.StatusConflict, CodeTree, detail).hint("put it back under its name, or open another sandbox")
	case errors.As(err, new(*changes.WallError)):
		return fail(http.StatusUnprocessableEntity, CodeRefused, detail).hint("its files came from a bundle that no sandbox has written")
	case errors.As(err, &bad):
		return fail(http.StatusBadRequest, codeBadRequest, bad.Error())
	case errors.Is(err, review.ErrNothing):
		return fail(http.StatusUnprocessableEntity, CodeNoOverlay, detail).hint(`open one with "workdir": "overlay" and a dir`)
	case errors.Is(err, changes.ErrNoMatch):
		return fail(http.StatusNotFound, codeNotFound, detail).hint("diff lists what was changed")
	case errors.Is(err, changes.ErrIncomplete), errors.Is(err, changes.ErrDeep):
		return fail(http.StatusConflict, CodeIncomplete, detail).hint(`"force": true applies the others`)
	case errors.Is(err, changes.ErrBusy), errors.Is(err, snapshot.ErrBusy):
		return fail(http.StatusServiceUnavailable, codeBusy, detail).hint("try again")
	}
	return nil
}

// snapshotProblem is an error about snapshots, or nil.
func snapshotProblem(err error) *problem {
	switch {
	case errors.Is(err, sandboxes.ErrNoSnapshot):
		return fail(http.StatusNotFound, codeNotFound, err.Error()).hint(`GET /v1/snapshots, or "confine session snapshot --list", lists yours`)
	case errors.Is(err, sandboxes.ErrNoSpace):
		return fail(http.StatusInsufficientStorage, codeFile, err.Error()).hint("DELETE some snapshots; --state names another directory")
	case errors.Is(err, snapshot.ErrTaken):
		return fail(http.StatusConflict, codeConflict, err.Error()).hint("DELETE that, or choose another name")
	case errors.Is(err, snapshot.ErrTooLarge):
		return fail(http.StatusRequestEntityTooLarge, codeTooLarge, err.Error())
	case errors.As(err, new(*snapshot.UnfitError)):
		return fail(http.StatusUnprocessableEntity, codeSnapshot, err.Error()).hint("remove that, and ask again")
	case errors.Is(err, snapshot.ErrLayers):
		detail, remedy := hint.Split(err)
		return fail(http.StatusUnprocessableEntity, codeSnapshot, detail).hint(remedy)
	case errors.Is(err, backend.ErrUnstopped):
		return fail(http.StatusServiceUnavailable, codeBusy, err.Error()).hint("try again")
	case errors.Is(err, snapshot.ErrOther):
		return fail(http.StatusUnprocessableEntity, codeBundle, err.Error()).hint("the ID in the path is the digest of its manifest")
	case errors.Is(err, snapshot.ErrBundle):
		return fail(http.StatusUnprocessableEntity, codeBundle, err.Error()).hint("it takes what GET /v1/snapshots/{id} gives")
	}
	return nil
}

// keepTime is how long what was kept for a look is left alone, whose server may be another one.
const keepTime = time.Hour

// recoverChanges brings to an end what a server that was killed left half applied, and forgets what it had kept for looks.
func recoverChanges(dir string) (notices []string, err error) {
	store, err := changes.FindStore(dir)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	store.OnRecovered = func(did changes.Recovered) {
		n := did.Notice()
		notices = append(notices, n.Text)
	}
	if _, err := store.Recover(); err != nil {
		return notices, err
	}
	all, err := store.List()
	for _, in := range all {
		if in.Err == nil && time.Since(in.Time) > keepTime {
			_, discarded := store.Discard(in.ID)
			err = errors.Join(err, discarded)
		}
	}
	return notices, err
}

// prepareState makes the directory of what outlives the server: word, or the one of systemd, or the user's own. Where there is none of the
// latter, nothing is kept, and said is told.
func (s *Server) prepareState(word string, o *sandboxes.Options, said io.Writer) error {
	own := false
	if word == "" {
		word = os.Getenv("STATE_DIRECTORY")
	}
	if word == "" {
		own = true
		runs, err := s.Sources.StoreDir()
		if err != nil {
			fmt.Fprintln(said, "confine serve: no snapshots are kept: "+err.Error())
			return nil
		}
		word = filepath.Join(filepath.Dir(runs), "serve")
	}
	dir, err := filepath.Abs(word)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil && own {
		fmt.Fprintln(said, "confine serve: no snapshots are kept: "+err.Error())
		return nil
	}
	if err == nil {
		err = sockets.Own(dir)
	}
	if err != nil {
		text, _ := hint.Split(err)
		return &config.UsageError{Msg: "the state directory: " + text, Hint: "name one of your own that nobody else can open: --state DIR", Err: err}
	}
	s.Changes, o.Snapshots = filepath.Join(dir, "changes"), filepath.Join(dir, "snapshots")
	s.Hidden = append(s.Hidden, dir)
	notices, err := recoverChanges(s.Changes)
	for _, n := range notices {
		fmt.Fprintln(said, "confine serve: "+n)
	}
	return err
}
