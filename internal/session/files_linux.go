package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
)

// info is what is known of a session, as long as its files are there.
type info struct {
	ID      string         `json:"id"`
	Name    string         `json:"name,omitempty"`
	PID     int            `json:"pid"` // of its supervisor
	Created time.Time      `json:"created"`
	Ended   *sandboxes.End `json:"ended,omitempty"`
	dir     string
}

// tombstoneAge is how long it is known how a session ended.
const tombstoneAge = 24 * time.Hour

func (i *info) socket() string { return filepath.Join(i.dir, "sock") }

// base is the directory of all sessions of this user, who alone can look into it.
func base() (string, error) {
	dir := sockets.Dir()
	if err := sockets.Own(dir); err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "sessions")
	return dir, sockets.Own(dir)
}

// list gives all sessions whose files are there, the oldest first. One whose supervisor was killed is among the ended.
func list() ([]*info, error) {
	dir, err := base()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*info
	for _, e := range entries {
		if i, err := read(filepath.Join(dir, e.Name())); err == nil {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *info) int { return a.Created.Compare(b.Created) })
	return all, nil
}

// read reads the files of a session.
func read(dir string) (*info, error) {
	i := &info{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "session"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, i); err != nil {
		return nil, err
	}
	text, err = os.ReadFile(filepath.Join(dir, "ended"))
	if err == nil {
		i.Ended = &sandboxes.End{}
		return i, json.Unmarshal(text, i.Ended)
	}
	if held, err := locked(dir); err == nil && !held {
		i.Ended = &sandboxes.End{Time: i.Created, Cause: "killed", Reason: "its supervisor was killed"}
		if st, err := os.Stat(filepath.Join(dir, "session")); err == nil {
			i.Ended.Time = st.ModTime()
		}
	}
	return i, nil
}

// locked says whether the supervisor of a session is there: it holds a lock as long as it lives.
func locked(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, "session"))
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// find finds a session by its ID, the beginning of one, or its name.
func find(word string) (*info, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	var found []*info
	var ended *info // of that name, the latest
	for _, i := range all {
		if i.ID == word || i.Name == word && i.Ended == nil {
			return i, nil
		}
		if i.Name == word {
			ended = i
		}
		if len(word) >= 4 && strings.HasPrefix(i.ID, word) {
			found = append(found, i)
		}
	}
	switch {
	case ended != nil:
		return ended, nil
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		hint := `"confine session list" shows those there are`
		if strings.HasPrefix(word, "-") {
			hint = "options come after the session: confine session exec ID -it -- COMMAND"
		}
		return nil, &config.UsageError{Msg: fmt.Sprintf("there is no session %q", word), Hint: hint}
	}
	return nil, &config.UsageError{Msg: fmt.Sprintf("%q is the beginning of %d sessions", word, len(found))}
}

// standing is find for what needs a session that stands.
func standing(word string) (*info, error) {
	i, err := find(word)
	if err == nil && i.Ended != nil {
		return nil, errEnded(word, i)
	}
	return i, err
}

func errEnded(word string, i *info) error {
	return &config.UsageError{Msg: fmt.Sprintf("the session %s has ended: %s", word, i.Ended.Reason),
		Hint: "confine session start opens another; confine session list shows those that stand"}
}

// bury removes the files of sessions that ended a day ago or more; with all, of all that have ended.
func bury(all bool) (removed []string, err error) {
	sessions, err := list()
	if err != nil {
		return nil, err
	}
	for _, i := range sessions {
		if i.Ended != nil && (all || time.Since(i.Ended.Time) > tombstoneAge) {
			if err := os.RemoveAll(i.dir); err != nil {
				return removed, err
			}
			removed = append(removed, i.ID)
		}
	}
	return removed, nil
}

// Held is a session that stands.
type Held struct {
	ID, Name, Socket string
	Created          time.Time
}

// Standing are all sessions of this user that stand, the oldest first.
func Standing() (some []Held, err error) {
	all, err := list()
	for _, i := range all {
		if i.Ended == nil {
			some = append(some, Held{i.ID, i.Name, i.socket(), i.Created})
		}
	}
	return some, err
}
