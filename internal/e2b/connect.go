package e2b

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
)

// The Connect protocol: https://connectrpc.com/docs/protocol. A unary call is a document each way. A stream is envelopes: a byte of flags, four
// of the length, and a document; the last one has flagEnd, and an error if there is one.
const (
	typeUnary  = "application/json"
	typeStream = "application/connect+json"

	flagCompressed = 1
	flagEnd        = 2
)

// maxMessage is the most of one message.
const maxMessage = 16 << 20

// code is one of Connect's, and what it is over HTTP.
type code struct {
	name   string
	status int
}

// The codes that are used here.
var (
	invalidArgument    = code{"invalid_argument", http.StatusBadRequest}
	deadlineExceeded   = code{"deadline_exceeded", http.StatusGatewayTimeout}
	notFound           = code{"not_found", http.StatusNotFound}
	alreadyExists      = code{"already_exists", http.StatusConflict}
	permissionDenied   = code{"permission_denied", http.StatusForbidden}
	resourceExhausted  = code{"resource_exhausted", http.StatusTooManyRequests}
	failedPrecondition = code{"failed_precondition", http.StatusBadRequest}
	unimplemented      = code{"unimplemented", http.StatusNotImplemented}
	internal           = code{"internal", http.StatusInternalServerError}
	unavailable        = code{"unavailable", http.StatusServiceUnavailable}
	dataLoss           = code{"data_loss", http.StatusInternalServerError}
	unauthenticated    = code{"unauthenticated", http.StatusUnauthorized}
)

// rpcError is an error of a call.
type rpcError struct {
	code    code
	message string
}

func (e *rpcError) Error() string { return e.message }

func (e *rpcError) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"code": e.code.name, "message": e.message})
}

// rpcErrorOf says what an error is to a caller.
func rpcErrorOf(err error) *rpcError {
	var e *rpcError
	var f *failure
	var usage *config.UsageError
	var large *http.MaxBytesError
	is := func(c code) *rpcError { return &rpcError{c, err.Error()} }
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, errTooMany):
		return is(resourceExhausted)
	case errors.As(err, &f), errors.As(err, &usage), errors.As(err, new(*backend.DirError)), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENAMETOOLONG):
		return is(invalidArgument)
	case errors.As(err, &large):
		return &rpcError{resourceExhausted, "the message is too large"}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, sandboxes.ErrNoProcess):
		return is(notFound)
	case errors.Is(err, fs.ErrExist):
		return is(alreadyExists)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return is(permissionDenied)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, sandboxes.ErrFull), errors.Is(err, syscall.EMFILE):
		return is(resourceExhausted)
	case errors.Is(err, sandboxes.ErrNoStdin), errors.Is(err, sandboxes.ErrBusy):
		return is(failedPrecondition)
	case errors.Is(err, errors.ErrUnsupported):
		return is(unimplemented)
	case errors.Is(err, backend.ErrClosed):
		return is(unavailable)
	case errors.Is(err, context.DeadlineExceeded):
		return is(deadlineExceeded)
	}
	return is(internal)
}

// spoken refuses what is not spoken here: another version, another codec, compression.
func (c *call) spoken(contentType string) error {
	if got, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";"); strings.TrimSpace(got) != contentType {
		c.w.Header().Set("Accept-Post", contentType)
		return &failure{http.StatusUnsupportedMediaType, "the only codec is JSON: " + contentType}
	}
	if v := c.Header.Get("Connect-Protocol-Version"); v != "" && v != "1" {
		return &rpcError{invalidArgument, "the version of Connect is not 1"}
	}
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding"} {
		if v := c.Header.Get(name); v != "" && v != "identity" {
			return &rpcError{unimplemented, "nothing is compressed here: " + strconv.Quote(v)}
		}
	}
	return c.user()
}

// user refuses to be another user of E2B's than the one that there is.
func (c *call) user() error {
	name, _, ok := c.BasicAuth()
	if !ok {
		name = c.URL.Query().Get("username")
	}
	if name != "" && name != "user" {
		return &rpcError{unauthenticated, "invalid username: " + strconv.Quote(name) + ": a sandbox has one user, \"user\""}
	}
	return nil
}

// timeout is the caller's deadline; 0: none.
func (c *call) timeout() (time.Duration, error) {
	word := c.Header.Get("Connect-Timeout-Ms")
	if word == "" {
		return 0, nil
	}
	ms, err := strconv.ParseUint(word, 10, 64)
	if err != nil || len(word) > 10 {
		return 0, &rpcError{invalidArgument, "Connect-Timeout-Ms is no number of up to ten digits"}
	}
	return max(time.Duration(ms)*time.Millisecond, time.Millisecond), nil
}

// begin looks at the head of a call, and gives a context that ends by the caller's deadline.
func (c *call) begin(kind string) (ctx context.Context, cancel func(), err error) {
	if err := c.spoken(kind); err != nil {
		return nil, nil, err
	}
	timeout, err := c.timeout()
	if err != nil {
		return nil, nil, err
	}
	if timeout == 0 {
		return c.Context(), func() {}, nil
	}
	ctx, cancel = context.WithTimeout(c.Context(), timeout)
	return ctx, cancel, nil
}

// unspoken is an error that is told outside of the protocol, since the call was not in it.
func unspoken(err error) error {
	if f, ok := errors.AsType[*failure](err); ok && f.status == http.StatusUnsupportedMediaType {
		return f
	}
	return nil
}

// unary is a call of one message each way.
func unary[In, Out any](do func(context.Context, *call, *In) (*Out, error)) func(*call) error {
	return func(c *call) error {
		out, err := func() (*Out, error) {
			ctx, cancel, err := c.begin(typeUnary)
			if err != nil {
				return nil, err
			}
			defer cancel()
			text, err := c.document(http.MaxBytesReader(c.w, c.patient(c.server.BodyTime), maxMessage))
			if err != nil {
				return nil, err
			}
			var in In
			if err := decode(text, &in); err != nil {
				return nil, err
			}
			return do(ctx, c, &in)
		}()
		if err == nil {
			reply(c.prompt(), http.StatusOK, out)
			return nil
		}
		if f := unspoken(err); f != nil {
			return f
		}
		e := rpcErrorOf(err)
		reply(c.w, e.code.status, e)
		return nil
	}
}

func decode(text []byte, v any) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return &rpcError{invalidArgument, "the message: " + err.Error()}
	}
	return nil
}

// readEnvelope gives the next message of a stream. io.EOF is its end.
func readEnvelope(r io.Reader, document func(io.Reader) ([]byte, error)) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = &rpcError{invalidArgument, "the stream ends in an envelope"}
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0]&flagCompressed != 0:
		return nil, &rpcError{unimplemented, "nothing is compressed here"}
	case head[0] != 0:
		return nil, &rpcError{invalidArgument, "an envelope has flags that a client doesn't set"}
	case size > maxMessage:
		return nil, &rpcError{resourceExhausted, "the message is too large"}
	}
	text, err := document(io.LimitReader(r, int64(size))) // memory as it comes, not as it says
	if err == nil && len(text) < int(size) {
		err = &rpcError{invalidArgument, "the stream ends in an envelope"}
	}
	return text, err
}

// sender writes messages of a stream.
type sender struct {
	c     *call
	began bool
}

func (s *sender) begin() {
	if !s.began {
		s.began = true
		s.c.w.Header().Set("Content-Type", typeStream)
		s.c.w.WriteHeader(http.StatusOK)
	}
}

func (s *sender) write(flags byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.begin()
	envelope := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text)))
	_, err = s.c.prompt().Write(append(envelope, text...))
	return err
}

func (s *sender) send(v any) error { return s.write(0, v) }

func (s *sender) flush() error { return s.c.control.Flush() }

// end is the last envelope.
func (s *sender) end(err error) {
	last := map[string]any{}
	if err != nil {
		last["error"] = rpcErrorOf(err)
	}
	if s.write(flagEnd, last) == nil {
		_ = s.flush()
	}
}

// stream answers a call by a stream.
func (c *call) stream(do func(ctx context.Context, to *sender) error) error {
	ctx, cancel, err := c.begin(typeStream)
	to := &sender{c: c}
	if err == nil {
		defer cancel()
		err = do(ctx, to)
	}
	if f := unspoken(err); f != nil {
		return f
	}
	to.end(err)
	return nil
}

// serverStream is a call of one message, which a stream answers.
func serverStream[In any](do func(context.Context, *call, *In, *sender) error) func(*call) error {
	return func(c *call) error {
		return c.stream(func(ctx context.Context, to *sender) error {
			body := c.patient(c.server.BodyTime)
			text, err := readEnvelope(body, c.document)
			if err == io.EOF {
				err = &rpcError{invalidArgument, "the stream has no message"}
			}
			if err != nil {
				return err
			}
			if _, err := readEnvelope(body, c.document); err != io.EOF {
				return &rpcError{invalidArgument, "the stream has more than one message"}
			}
			var in In
			if err := decode(text, &in); err != nil {
				return err
			}
			return do(ctx, c, &in, to)
		})
	}
}

// enum is one of a message, which has it as its name or as its number.
type enum string

func (e *enum) UnmarshalJSON(text []byte) error {
	if n, err := strconv.Atoi(string(text)); err == nil {
		*e = enum(strconv.Itoa(n))
		return nil
	}
	return json.Unmarshal(text, (*string)(e))
}
