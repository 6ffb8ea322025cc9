package serve

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/filetree"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// problem is an error as RFC 9457 has it. Code is for programs, Detail and Hint are for people.
type problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Code   string         `json:"code"`
	Detail string         `json:"detail,omitempty"`
	Hint   string         `json:"hint,omitempty"`
	Retry  int            `json:"retry_after,omitempty"` // seconds, as the header Retry-After
	Report *status.Report `json:"report,omitempty"`      // of what could not be built
	Paths  []PathProblem  `json:"paths,omitempty"`       // that something is wrong with
	More   int            `json:"more,omitempty"`        // of those, which aren't listed
}

func (p *problem) Error() string { return p.Code + ": " + p.Detail }

// The codes of problems.
const (
	codeBadRequest   = "BAD_REQUEST"
	codePolicy       = "POLICY"         // a mistake in the policy
	codeCeiling      = "CEILING"        // a policy that is wider than the server's
	codeUnauthorized = "UNAUTHORIZED"   // no token, or a wrong one
	codeForbidden    = "FORBIDDEN"      // who asks, or from where, may not
	codeNotFound     = "NOT_FOUND"      // no such thing, or somebody else's
	codeMethod       = "METHOD"         // not for this path
	codeTooLarge     = "TOO_LARGE"      // the request's body
	codeEnded        = "ENDED"          // the sandbox, or the process
	codeDropped      = "DROPPED"        // frames that are not kept any more
	codeFull         = "STDIN_FULL"     // the process doesn't read, or somebody else writes
	codeNoStdin      = "NO_STDIN"       // the process has no input that is open
	codeDir          = "DIR"            // where the process was to start
	codeExec         = "EXEC_FAILED"    // the process could not be started
	codeBuild        = "BUILD_FAILED"   // the sandbox could not be built
	codeQuota        = "QUOTA"          // there are too many
	codeOverloaded   = "OVERLOADED"     // the server has no room, and had none for as long as it was waited for
	codeConflict     = "CONFLICT"       // a key of idempotency, used for another request; a name that is taken
	codeFile         = "FILE"           // what the file system answered
	CodeChanged      = "CHANGED"        // paths of the caller's that have changed meanwhile
	CodeRefused      = "REFUSED"        // changes that are not applied
	CodeIncomplete   = "INCOMPLETE"     // more changes than were kept
	CodeNoOverlay    = "NO_OVERLAY"     // nothing of the caller's could be changed
	CodeTree         = "TREE"           // the caller's tree below an overlay was exchanged
	codeSnapshot     = "SNAPSHOT"       // the sandbox has what no snapshot can hold
	codeBundle       = "BUNDLE"         // no bundle of a snapshot, or of another
	codeBusy         = "BUSY"           // somebody else is at it
	codeUnsupported  = "UNSUPPORTED"    // this backend can't
	codeInternal     = "INTERNAL_ERROR" // a fault of the server
)

func fail(code int, what, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(code), Status: code, Code: what, Detail: detail}
}

func ended(end *sandboxes.End) *problem {
	return fail(http.StatusGone, codeEnded, "the sandbox has ended: "+end.Reason).hint(`POST /v1/sandboxes, or "confine session start", opens another`)
}

// retryTime is when somebody for whom there was no room may ask again, in seconds.
const retryTime = 5

func overloaded(err error) *problem {
	text, _ := hint.Split(err)
	p := fail(http.StatusServiceUnavailable, codeOverloaded, text).hint("ask again after a while, with the same Idempotency-Key if there was one")
	p.Retry = retryTime
	return p
}

func (p *problem) hint(hint string) *problem {
	p.Hint = hint
	return p
}

// problemOf says what an error is to a client.
func problemOf(err error) *problem {
	var p *problem
	var usage *config.UsageError
	var wider *config.CeilingError
	var taken *sandboxes.TakenError
	var elsewhere *sandboxes.ElsewhereError
	var quota *sandboxes.QuotaError
	var unbuilt *backend.BuildError
	var large *http.MaxBytesError
	var path *fs.PathError
	var packed *filetree.Error
	if errors.As(err, &p) {
		return p
	}
	if other := (*Error)(nil); errors.As(err, &other) {
		p := fail(other.Status, other.Code, other.Detail).hint(other.Hint)
		p.Report, p.Paths, p.More = other.Report, other.Paths, other.More
		return p
	}
	if p = changeProblem(err); p == nil {
		p = snapshotProblem(err)
	}
	switch {
	case p != nil:
		return p
	case errors.As(err, &wider):
		p := fail(http.StatusForbidden, codeCeiling, wider.Error())
		if wider.Option != "" {
			p.Hint = lessHint
		}
		return p
	case errors.As(err, &usage):
		return fail(http.StatusUnprocessableEntity, codePolicy, usage.Msg).hint(usage.Hint)
	case errors.As(err, &taken):
		return fail(http.StatusConflict, codeConflict, taken.Error()).hint("end that, or choose another name")
	case errors.As(err, &elsewhere):
		return fail(http.StatusConflict, codeConflict, elsewhere.Error()).hint("end one of the two")
	case errors.As(err, &quota) && quota.Waited > 0, errors.Is(err, places.ErrFull):
		return overloaded(err)
	case errors.As(err, &quota):
		return fail(http.StatusTooManyRequests, codeQuota, quota.Error()).hint("end some, or wait")
	case errors.As(err, &unbuilt):
		p := fail(http.StatusUnprocessableEntity, codeBuild, unbuilt.Report.Reason)
		p.Report = unbuilt.Report
		if e := unbuilt.Report.SetupError; e != nil {
			p.Hint = e.Hint
		}
		return p
	case errors.As(err, &large):
		return fail(http.StatusRequestEntityTooLarge, codeTooLarge, "the body has more bytes than are taken")
	case errors.Is(err, sandboxes.ErrNotFound), errors.Is(err, sandboxes.ErrNoProcess):
		return fail(http.StatusNotFound, codeNotFound, err.Error())
	case errors.Is(err, sandboxes.ErrClosing):
		p := overloaded(errors.New("the server is ending, and opens no sandbox any more"))
		p.Code = codeEnded
		return p
	case errors.Is(err, backend.ErrClosed):
		return fail(http.StatusGone, codeEnded, err.Error())
	case errors.Is(err, os.ErrProcessDone):
		return fail(http.StatusGone, codeEnded, "the process has ended")
	case errors.Is(err, sandboxes.ErrDropped):
		return fail(http.StatusGone, codeDropped, err.Error()).hint("ask without \"from\" for what is left")
	case errors.Is(err, sandboxes.ErrBusy):
		return fail(http.StatusConflict, codeFull, err.Error()).hint("one at a time")
	case errors.Is(err, sandboxes.ErrFull):
		return fail(http.StatusConflict, codeFull, err.Error()).hint("send the rest when it reads again")
	case errors.Is(err, sandboxes.ErrNoStdin):
		return fail(http.StatusConflict, codeNoStdin, err.Error())
	case errors.Is(err, errors.ErrUnsupported):
		return fail(http.StatusNotImplemented, codeUnsupported, err.Error())
	case errors.As(err, &packed):
		return fail(http.StatusUnprocessableEntity, codeBadRequest, packed.Error())
	case errors.As(err, &path):
		return fileProblem(path)
	}
	text, remedy := hint.Split(err)
	return fail(http.StatusInternalServerError, codeInternal, text).hint(remedy)
}

// fileProblem is what the file system of a sandbox answered.
func fileProblem(err *fs.PathError) *problem {
	code := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = http.StatusNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = http.StatusForbidden
	case errors.Is(err, fs.ErrExist):
		code = http.StatusConflict
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail(http.StatusInsufficientStorage, codeFile, err.Op+" "+err.Path+": "+err.Err.Error()).
			hint("disk_limit bounds private places, and memory_limit those in memory; what there was space for may have been written")
	case errors.Is(err, syscall.EMFILE): // of watchers
		return fail(http.StatusTooManyRequests, codeQuota, err.Op+" "+err.Path+": there are too many already").hint("end some: a sandbox has 16")
	}
	return fail(code, codeFile, err.Op+" "+err.Path+": "+err.Err.Error())
}

// reply writes a document.
func reply(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}

// plainProblem is the answer to what is no request.
func plainProblem(code int, text string) (kind string, body []byte) {
	body, _ = json.Marshal(fail(code, codeBadRequest, text)) // plain data
	return problemType, body
}

const problemType = "application/problem+json"

// Refuse writes an error.
func Refuse(w http.ResponseWriter, err error) { refuse(w, err) }

// refuse writes an error.
func refuse(w http.ResponseWriter, err error) {
	p := problemOf(err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.Retry))
	}
	text, _ := json.Marshal(p) // plain data
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n'))
}
