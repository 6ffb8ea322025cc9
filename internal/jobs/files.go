package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MaxFile is the most bytes of an input or of outputs.
const MaxFile = 1 << 30

// fileTime is how long one try to move a file of so many bytes may take: 1 MiB/s, and what a request takes. When a server fails, messages of it are
// lost, and whoever waits for them is told nothing.
func fileTime(bytes int64) time.Duration { return 2*apiTime + time.Duration(bytes>>20)*time.Second }

// tries are how often a file is moved anew.
const tries = 3

func validDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}

// TooLarge is a tar that has more bytes than it may.
type TooLarge struct{ Most int64 }

func (e *TooLarge) Error() string { return fmt.Sprintf("the files are more than %d bytes", e.Most) }

// Spool is a file without a name, of which the digest is known.
type Spool struct {
	*os.File
	Digest string
	Size   int64
}

// NewSpool makes one of what is written. It ends with a *TooLarge when that is more than most bytes.
func NewSpool(dir string, most int64, write func(io.Writer) error) (_ *Spool, err error) {
	f, err := os.CreateTemp(dir, ".confine-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	sum := sha256.New()
	b := &bounded{to: io.MultiWriter(f, sum), left: most, most: most}
	if err := write(b); err != nil {
		return nil, err
	}
	return &Spool{f, hex.EncodeToString(sum.Sum(nil)), most - b.left}, nil
}

// Reader reads it from its beginning. Several can at once.
func (s *Spool) Reader() io.Reader { return io.NewSectionReader(s.File, 0, s.Size) }

type bounded struct {
	to         io.Writer
	left, most int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, &TooLarge{b.most}
	}
	b.left -= int64(len(p))
	return b.to.Write(p)
}

// Store keeps a file under its digest, unless it is there already and has half of its time yet.
func (q *Queue) Store(ctx context.Context, s *Spool) (err error) {
	for range tries {
		if err = store(ctx, q, s); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func store(ctx context.Context, q *Queue, s *Spool) error {
	info, err := q.fileInfo(ctx, s.Digest)
	if err == nil && info.Size == uint64(s.Size) && time.Since(info.ModTime) < Keep/2 {
		return nil
	}
	if err != nil && !errors.Is(err, ErrNoFile) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fileTime(s.Size))
	defer cancel()
	_, err = q.files.Put(ctx, jetstream.ObjectMeta{Name: s.Digest}, s.Reader())
	return err
}

// fileInfo is what the servers say of a file of which all parts are there. Whoever puts one sends what is said of it before he knows whether its parts had
// room: without them it is none.
func (q *Queue) fileInfo(ctx context.Context, digest string) (*jetstream.ObjectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	info, err := q.files.GetInfo(ctx, digest)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, ErrNoFile
	}
	if err != nil || info.Chunks == 0 {
		return info, err
	}
	parts := "$O." + fileBucket + ".C." + info.NUID
	have, err := q.streams[fileStream].Info(ctx, jetstream.WithSubjectFilter(parts))
	if err != nil {
		return nil, err
	}
	if have.State.Subjects[parts] != uint64(info.Chunks) {
		return nil, ErrNoFile
	}
	return info, nil
}

// ErrNoFile: a file isn't there, or not any more.
var ErrNoFile = errors.New("the servers don't have it, or not any more")

// Fetch reads a file into a directory. It is what its digest says, or an error.
func (q *Queue) Fetch(ctx context.Context, dir, digest string) (*Spool, error) {
	var s *Spool
	var err error
	for range tries { // somebody may store it anew just now
		if s, err = fetch(ctx, q, dir, digest); err == nil || errors.Is(err, ErrNoFile) || ctx.Err() != nil {
			break
		}
	}
	return s, err
}

func fetch(ctx context.Context, q *Queue, dir, digest string) (*Spool, error) {
	if !validDigest(digest) {
		return nil, fmt.Errorf("%.100q is no digest", digest)
	}
	info, err := q.fileInfo(ctx, digest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fileTime(int64(min(info.Size, MaxFile))))
	defer cancel()
	o, err := q.files.Get(ctx, digest)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, ErrNoFile
	}
	if err != nil {
		return nil, err
	}
	defer o.Close()
	s, err := NewSpool(dir, MaxFile, func(w io.Writer) error {
		_, err := io.Copy(w, o)
		return err
	})
	if err == nil && s.Digest != digest {
		_ = s.Close()
		return nil, fmt.Errorf("what the servers have under %s has the digest %s", digest, s.Digest)
	}
	return s, err
}
