package windows

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/host"
)

// orphans are journals of runs whose process has ended without taking back what it granted.
func orphans() (list []string, err error) {
	runs, err := runsDir()
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(runs, "journal-*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		o, _, err := readJournal(f, func(p string) bool { return isPlace(p, runs) })
		_ = f.Close()
		if err != nil || !o.alive() { // what can't be read is told when it is to be cleaned
			list = append(list, name)
		}
	}
	return list, nil
}

// leftBehind says whether runs have left ACEs, or places.
func leftBehind() host.Result {
	r := host.Result{Name: "left_behind", Means: "no run that was ended from outside has left an ACE or a directory"}
	list, err := orphans()
	switch {
	case err != nil:
		r.Answer, r.Detail = host.Unknown, err.Error()
	case len(list) == 0:
		r.Answer = host.Yes
	default:
		r.Answer, r.Detail, r.Remedy = host.No, strings.Join(list, "\n"), "confine doctor --clean"
	}
	return r
}

// Clean takes back what such runs have left, and says of how many.
func Clean() (cleaned int, err error) {
	list, err := orphans()
	if err != nil {
		return 0, err
	}
	var failed error
	for _, name := range list {
		if err := clean(name); err != nil {
			failed = errors.Join(failed, errors.New(strconv.Quote(name)+": "+err.Error()))
			continue
		}
		cleaned++
	}
	return cleaned, failed
}
