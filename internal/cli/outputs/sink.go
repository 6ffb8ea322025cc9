package outputs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/confine-run/confine/internal/config"
)

// A Sink is where a report or events go: a file or an inherited descriptor.
//
// It is made before the target starts and written while, or after, it runs. The
// file may lie in a directory that the target can write, so nothing that the
// target does to names may matter:
//
//   - the directory is opened once, through no link that an earlier run may have left,
//     and every later step starts from that descriptor: moving or replacing a directory
//     above changes nothing;
//   - a report has no name at all while the target runs. Afterwards it is written to a new
//     file under a random name, which is renamed. Renaming replaces what stands there, and neither
//     follows a link that the target has put there, nor writes to what a hard link shares;
//   - events are written through the one descriptor that was opened before the target started.
//     At the end the name must still lead to that file, and the file must be as long as what was written.
//
// The target can still take the directory's permissions away, fill the disk or
// put a directory of the same name in the way. Then there is no report, and
// confine says so and doesn't end with 0; there is never a forged one.
type Sink struct {
	option string   // "--report"
	spec   string   // as the caller wrote it
	dir    *os.Root // nil: a descriptor was inherited
	base   string   // the name in dir
	events *os.File // opened by openEvents
	fd     int      // the inherited descriptor
	size   int64    // written so far
	// patience is how long whoever reads the descriptor may take nothing of a report.
	patience time.Duration
}

// reportPatience: the command can make a report longer than a pipe, and who waits for confine's end before he reads would wait for ever.
const reportPatience = 30 * time.Second

// sinkMode: a report says what the command line was.
const sinkMode = 0o600

// errChanged is a file that is not as confine left it.
var errChanged = errors.New("changed by somebody else while the command ran")

// RealDir says where the name of a directory leads. What it gives is opened without following
// links: those that were followed are the caller's own, and none in a tree of work.
type RealDir func(name string) (string, error)

// OpenWhole makes sure that a file can be written at the end, in one piece.
func OpenWhole(option, spec string, real RealDir) (*Sink, error) {
	s, err := open(option, spec, real)
	if err != nil || !s.IsFile() {
		return s, err
	}
	if err := s.tryToMake(); err != nil {
		s.Close()
		return nil, s.refuse("", "the directory must be writable", err)
	}
	return s, nil
}

// tryToMake makes a file: that is the only sure way to learn that one can be made here. Where it can do without a name, nothing
// is left if a signal ends confine here.
func (s *Sink) tryToMake() error {
	if nameless != 0 {
		if f, err := s.dir.OpenFile(".", os.O_WRONLY|nameless, sinkMode); err == nil {
			return f.Close()
		}
	}
	f, name, err := s.create()
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), s.dir.Remove(name))
}

// openEvents opens the file that events, or a record, are written to as they happen.
func openEvents(option, spec string, real RealDir) (*Sink, error) {
	s, err := open(option, spec, real)
	if err != nil || !s.IsFile() {
		return s, err
	}
	if err := s.openFile(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sink) openFile() (err error) {
	// nonblock: should a FIFO have taken the place since it was looked at, the
	// open fails instead of waiting for a reader.
	if s.events, err = s.dir.OpenFile(s.base, os.O_WRONLY|os.O_CREATE|os.O_APPEND|nonblock, sinkMode); err != nil {
		return s.refuse("", "", err)
	}
	info, err := s.events.Stat()
	if err != nil {
		return s.refuse("", "", err)
	}
	if err := s.requireOwnFile(info); err != nil {
		return err
	}
	if links(info) > 1 {
		return s.refuse("has another name too (a hard link)", "remove it, or choose another name", nil)
	}
	if err := s.unchanged(s.events, info.Size()); err != nil { // a link was followed
		return err
	}
	return errors.Join(s.events.Truncate(0), s.events.Chmod(sinkMode))
}

// open finds the place: an inherited descriptor that can be written to, or a
// directory and what stands in it under the name.
func open(option, spec string, real RealDir) (*Sink, error) {
	s := &Sink{option: option, spec: spec, patience: reportPatience}
	if digits, ok := strings.CutPrefix(spec, "fd:"); ok {
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != digits {
			return nil, s.refuse("not the number of a descriptor", "write fd:3, and open it as in: confine "+option+" fd:3 -- COMMAND 3>file", nil)
		}
		s.fd = int(n)
		return s, s.inherit()
	}
	i := len(spec)
	for i > 0 && !os.IsPathSeparator(spec[i-1]) {
		i--
	}
	dir := spec[:i]
	if s.base = spec[i:]; dir == "" {
		dir = "."
	}
	switch s.base {
	case "-":
		return nil, &config.UsageError{Msg: option + " -: no such place", Hint: option + " fd:1 writes to stdout"}
	case "", ".", "..":
		return nil, s.refuse("is a directory", "name a file in it", nil)
	}
	dir, err := real(dir)
	if err != nil {
		if usage, ok := errors.AsType[*config.UsageError](err); ok {
			err = &config.UsageError{Msg: option + " " + strconv.Quote(spec) + ": " + usage.Msg, Hint: usage.Hint, Err: err}
		}
		return nil, err
	}
	if s.dir, err = openDir(dir); err != nil {
		return nil, s.refuse("", "the directory must be there and readable", err)
	}
	info, err := s.dir.Lstat(s.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		err = s.refuse("", "", err)
	default:
		err = s.requireOwnFile(info)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// requireOwnFile refuses what stands under the name already, unless it is a file of the caller's.
func (s *Sink) requireOwnFile(info fs.FileInfo) error {
	is := "is a device"
	switch info.Mode().Type() {
	case 0:
		if uid, euid := owner(info), os.Geteuid(); uid != euid {
			return s.refuse("belongs to uid "+strconv.Itoa(uid), "remove it, or choose another name", fs.ErrPermission)
		}
		return nil
	case fs.ModeSymlink:
		is = "is a symbolic link, which is not followed"
	case fs.ModeDir:
		is = "is a directory"
	case fs.ModeNamedPipe:
		is = "is a FIFO"
	case fs.ModeSocket:
		is = "is a socket"
	}
	return s.refuse(is, "name a file, or a descriptor as in fd:3", nil)
}

// refuse is a place that can't be written to.
func (s *Sink) refuse(why, hint string, err error) error {
	return &config.UsageError{Msg: strings.TrimSuffix(s.failed(why, err).Error(), ": "), Hint: hint, Err: err}
}

// failed says of which option it is. A path in the error would be one that the caller hasn't written.
func (s *Sink) failed(why string, err error) error {
	var in *fs.PathError
	var to *os.LinkError
	switch {
	case errors.As(err, &in):
		why, err = in.Op, in.Err
	case errors.As(err, &to):
		why, err = to.Op, to.Err
	}
	text := fmt.Sprintf("%s %q", s.option, s.spec)
	if why != "" {
		text += ": " + why
	}
	if err == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %w", text, err)
}

// IsFile says whether it is no descriptor of the caller's.
func (s *Sink) IsFile() bool { return s.dir != nil }

// create makes a file that nobody knows yet.
func (s *Sink) create() (f *os.File, name string, err error) {
	name = ".confine-" + rand.Text()
	f, err = s.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, sinkMode)
	return f, name, err
}

// Put writes the whole of b under the final name, or to the descriptor.
func (s *Sink) Put(b []byte) error {
	if !s.IsFile() {
		return s.give(b)
	}
	f, name, err := s.create()
	if err != nil {
		return s.failed("", err)
	}
	defer f.Close()
	if _, err = f.Write(b); err == nil {
		err = s.dir.Rename(name, s.base)
	}
	if err != nil {
		_ = s.dir.Remove(name)
		return s.failed("", err)
	}
	return s.unchanged(f, int64(len(b)))
}

// give writes to the descriptor as long as somebody takes something.
func (s *Sink) give(b []byte) error {
	widen(s.fd, len(b))
	var taken atomic.Int64
	done := make(chan error, 1)
	go func() {
		var err error
		for part := range slices.Chunk(b, 4<<10) {
			if err = s.write(part); err != nil {
				break
			}
			taken.Add(1)
		}
		done <- err
	}()
	for {
		before := taken.Load()
		select {
		case err := <-done:
			return err
		case <-time.After(s.patience):
			if taken.Load() == before {
				return s.failed("", errUnread)
			}
		}
	}
}

var errUnread = errors.New("nobody reads it: the rest is lost")

// write appends to the events, or to the descriptor.
func (s *Sink) write(b []byte) (err error) {
	if s.events != nil {
		_, err = s.events.Write(b)
	} else {
		err = WriteAll(s.fd, b)
	}
	if err != nil {
		return s.failed("write", err)
	}
	s.size += int64(len(b))
	return nil
}

// unchanged checks that the name leads to an open file, and that it has
// the length it should have. The directory, too, may have been moved away, with another left in its place:
// what the caller will read is what the name leads to.
func (s *Sink) unchanged(f *os.File, size int64) error {
	open, err := f.Stat()
	if err != nil {
		return s.failed("", err)
	}
	named, err := s.dir.Lstat(s.base)
	if err != nil {
		return s.failed("", err)
	}
	if at, err := os.Lstat(s.spec); err != nil || !os.SameFile(open, named) || !os.SameFile(open, at) || open.Size() != size {
		return s.failed("", errChanged)
	}
	return nil
}

// finish ends the events.
func (s *Sink) finish() error {
	if s.events == nil {
		return nil
	}
	return s.unchanged(s.events, s.size)
}

// Close ends it.
func (s *Sink) Close() {
	if s.events != nil {
		_ = s.events.Close()
	}
	if s.dir != nil {
		_ = s.dir.Close()
	}
}
