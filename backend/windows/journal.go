package windows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// journal is written before anything of the caller's is changed, a line at a time, and read by whoever takes it back: the run itself, or
// after a crash "confine doctor --clean". Whoever can write it could have the ACEs of runs removed, and those places that look like a
// run's: nothing else is taken from it.
type journal struct {
	f *os.File
}

const (
	journalVersion = 1
	maxJournal     = 64 << 20
	maxJournalLine = 256 << 10
)

// opening is the first line.
type opening struct {
	Version int    `json:"version"`
	SID     string `json:"sid"`
	PID     int    `json:"pid"`
	Started int64  `json:"started"` // when the process began, since its number is used again
	Place   string `json:"place"`   // the directory of the run, which goes as a whole
}

// change is one entry of a tree that was given an ACE. An entry has a line before it has the ACE.
type change struct {
	Path string `json:"path"`
	Tree bool   `json:"tree,omitempty"` // what came to be in it has ACEs, too
	// SACL is its label before; nil: it had none.
	SACL []byte `json:"sacl,omitempty"`
}

// createJournal begins one, which must not be there yet.
func createJournal(name string, o opening) (*journal, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{f}
	if err := j.write(o); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, j.sync()
}

func (j *journal) write(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = j.f.Write(append(b, '\n'))
	}
	return err
}

// sync: what was written is there after a crash of the system, too. It comes before the first of the changes that it tells.
func (j *journal) sync() error  { return j.f.Sync() }
func (j *journal) close() error { return j.f.Close() }

// readJournal reads one. A last line that was cut off tells of a change that was never made.
func readJournal(r io.Reader, placeOK func(string) bool) (o opening, changes []change, err error) {
	lines := bufio.NewReaderSize(io.LimitReader(r, maxJournal), maxJournalLine)
	for first := true; ; first = false {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && (len(line) == 0 || !first) {
			if first {
				return o, nil, errors.New("an empty journal")
			}
			return o, changes, nil
		}
		if err != nil && err != io.EOF {
			return o, changes, fmt.Errorf("a malformed journal: %w", err)
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if first {
			if err := d.Decode(&o); err != nil || o.Version != journalVersion {
				return o, nil, errors.New("no journal of this version")
			}
			if _, err := parseSID(o.SID); err != nil {
				return o, nil, err
			}
			if !placeOK(o.Place) {
				return o, nil, fmt.Errorf("%q is no place of a run", o.Place)
			}
			continue
		}
		var c change
		if err := d.Decode(&c); err != nil {
			return o, changes, fmt.Errorf("a malformed journal: %w", err)
		}
		if err := checkPath(c.Path); err != nil {
			return o, changes, fmt.Errorf("%q %w", c.Path, err)
		}
		if c.SACL != nil {
			if _, err := entries(c.SACL); err != nil {
				return o, changes, err
			}
		}
		changes = append(changes, c)
	}
}

// placePrefix is how the directories of runs are called.
const placePrefix = "confine-run-"

// isPlace says whether a path is the directory of a run in a directory of those.
func isPlace(p, runs string) bool {
	name, ok := strings.CutPrefix(fold(p), fold(runs)+`\`)
	if !ok || checkPath(p) != nil {
		return false
	}
	id, ok := strings.CutPrefix(name, strings.ToUpper(placePrefix))
	return ok && len(id) == idLength && strings.Trim(id, "0123456789ABCDEF") == ""
}

const idLength = 16
