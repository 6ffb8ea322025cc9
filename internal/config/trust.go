package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The list of trusted files lies in the user's data directory, outside every
// tree that a run can write to. Each line is a digest and a quoted path:
//
//	sha256:9f86d0… "/home/u/project/confine.toml"
//
// A file is trusted as these bytes at this place. Whoever changes it, or moves
// it to another tree, asks again. So are the policies of system calls that it names:
// each has a line of its own.

// trust is how well a file is known.
type trust uint8

const (
	trustNone  trust = iota // this place was never trusted
	trustOther              // it was, with other bytes
	trustFull
)

type trustedFile struct{ digest, path string }

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// trusted says whether these bytes at this path were accepted.
func (src *Sources) trusted(path string, data []byte) (trust, error) {
	store := src.trustStore()
	if store == "" {
		return trustNone, nil
	}
	list, err := readTrustStore(store, src.UID)
	if err == nil && len(list) > 0 {
		err = src.refuseLink("list of trusted files", store)
	}
	if err != nil {
		return trustNone, err
	}
	known := trustNone
	for _, t := range list {
		if t.path != path {
			continue
		}
		if t.digest == digestOf(data) {
			return trustFull, nil
		}
		known = trustOther
	}
	return known, nil
}

// distrusted says why a file with these bytes doesn't count, "" if it does. bad: to trust it wouldn't help.
func (src *Sources) distrusted(path string, data []byte) (why string, bad bool) {
	switch known, err := src.trusted(path, data); {
	case err != nil:
		return "is not trusted (" + firstLine(err) + ")", true
	case known == trustNone:
		return "is not trusted", false
	case known == trustOther:
		return "has changed since it was trusted", false
	}
	return "", false
}

// Trust accepts a project file as it is now, with the policies of system calls that it names, and gives its digest. An empty path
// means the one that would be discovered from src.Dir. A file that can't be
// understood is not accepted.
func Trust(src Sources, path string) (file, digest string, err error) {
	if path == "" {
		if path = discover(src.Dir); path == "" {
			return "", "", &UsageError{Msg: fmt.Sprintf("there is no %s in %q or above it", fileName, src.Dir), Hint: "name a file"}
		}
	}
	if err := src.refuseLink("trust", path); err != nil {
		return "", "", err
	}
	if path, err = (place{dir: src.Dir, home: src.Home}).physical(path); err != nil {
		return "", "", err
	}
	data, err := ReadFile(path, false)
	if err != nil {
		return "", "", unreadable(path, err)
	}
	f, err := parseFile(path, data, src.Home)
	if err != nil {
		return "", "", err
	}
	digest = digestOf(data)
	accepted := []trustedFile{{digest, path}}
	for _, policy := range f.policies() {
		if err := src.refuseLink("seccomp", policy); err != nil {
			return "", "", err
		}
		if data, err = ReadFile(policy, true); err != nil {
			return "", "", unreadable(policy, err)
		}
		accepted = append(accepted, trustedFile{digestOf(data), policy})
	}
	store := src.trustStore()
	if store == "" {
		return "", "", &UsageError{Msg: "there is no place to remember trusted files in", Hint: "set HOME or XDG_DATA_HOME"}
	}
	if err := src.refuseLink("list of trusted files", store); err != nil {
		return "", "", err
	}
	return path, digest, addTrust(store, src.UID, accepted)
}

// physical is the path by which the file would be discovered.
func (at place) physical(path string) (string, error) {
	abs, err := checkPath(at, path)
	if err != nil {
		s := assignment{option: &Option{Name: "file"}, where: "trust"}
		return "", s.errorAt(path, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", unreadable(abs, err)
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// parseTrust reads the list. A line that is damaged makes the whole list void.
func parseTrust(text string) (list []trustedFile, err error) {
	for n, row := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if row == "" && n == 0 {
			continue
		}
		digest, quoted, _ := strings.Cut(row, " ")
		path, err := strconv.Unquote(quoted)
		if err != nil || !strings.HasPrefix(digest, "sha256:") || !filepath.IsAbs(path) {
			return nil, errors.New("line " + strconv.Itoa(n+1) + " is damaged")
		}
		list = append(list, trustedFile{digest, path})
	}
	return list, nil
}

func formatTrust(list []trustedFile) string {
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.digest + " " + strconv.Quote(t.path) + "\n")
	}
	return b.String()
}

// replaceTrust is the list with some files as they are now.
func replaceTrust(list, now []trustedFile) []trustedFile {
	return append(slices.DeleteFunc(list, func(old trustedFile) bool {
		return slices.ContainsFunc(now, func(t trustedFile) bool { return t.path == old.path })
	}), now...)
}

// storeError says why a list of trusted files can't be used.
func storeError(store, why, hint string, err error) error {
	return &UsageError{Msg: fmt.Sprintf("list of trusted files %q: %s", store, why), Hint: hint, Err: err}
}

func storeUnreadable(store string, err error) error {
	return storeError(store, pathless(err).Error(), "remove it and trust the files again", err)
}
