package changes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// accessList is user::rw, user:12:rw, group::group, mask::rwx, other::-.
func accessList(group uint16) []byte {
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 7, 1<<32 - 1}, {2, 6, 12}, {4, uint32(group), 1<<32 - 1}, {0x10, 7, 1<<32 - 1}, {0x20, 0, 1<<32 - 1}} {
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	return acl
}

func setList(t *testing.T, path, name string, group uint16) {
	t.Helper()
	if err := unix.Setxattr(path, name, accessList(group), 0); err != nil {
		t.Skip("setxattr of an ACL: ", err)
	}
}

func wantList(t *testing.T, path, name string, want []byte) {
	t.Helper()
	buf := make([]byte, 1024)
	n, err := unix.Getxattr(path, name, buf)
	if err == unix.ENODATA {
		n, err = 0, nil
	}
	if err != nil || !bytes.Equal(buf[:n], want) {
		t.Errorf("%s: %v, %v, want %v", path, buf[:max(n, 0)], err, want)
	}
}

// What a run leaves has the lists that it left: no mask becomes rights of the group.
func TestAccessListsAreApplied(t *testing.T) {
	s := newScene(t, map[string]string{"edited": "1", "listed": "1", "unlisted": "1", "dir/": "", "plain": "1", "moved": "1"}, map[string]string{"edited": "2", "listed": "1", "unlisted": "1", "dir/": "", "new": "1", "made/in": "1", "plain": "2"})
	for path, group := range map[string]uint16{"edited": 4, "unlisted": 0, "moved": 0} {
		setList(t, s.lower+"/"+path, aclAccess, group)
	}
	for path, group := range map[string]uint16{"edited": 4, "listed": 1, "new": 0, "made": 5} {
		setList(t, s.upper+"/"+path, aclAccess, group)
	}
	setList(t, s.upper+"/dir", aclDefault, 4)
	setList(t, s.upper+"/made", aclDefault, 4)
	must(t, os.Rename(s.upper+"/new", s.upper+"/moved"))
	s.apply(t, s.keep(t))
	for path, want := range map[string][]byte{"edited": accessList(4), "listed": accessList(1), "moved": accessList(0), "made": accessList(5),
		"unlisted": nil, "plain": nil, "dir": nil, "made/in": nil} {
		wantList(t, s.lower+"/"+path, aclAccess, want)
	}
	for path, want := range map[string][]byte{"dir": accessList(4), "made": accessList(4)} {
		wantList(t, s.lower+"/"+path, aclDefault, want)
	}
	s.want(t, "edited", "2")
}

// One that the real file was given meanwhile is not lost.
func TestAnAccessListOfOthersIsAConflict(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2"})
	must(t, os.Chmod(s.upper+"/a", 0o770))
	must(t, os.Chmod(s.lower+"/a", 0o770))
	r := s.keep(t)
	setList(t, s.lower+"/a", aclAccess, 4)
	var conflict *ConflictError
	if _, err := s.store.Apply(r, nil, Options{}); !errors.As(err, &conflict) || len(conflict.Paths) != 1 ||
		conflict.Paths[0] != (Conflict{s.lower + "/a", "has other attributes", false}) {
		t.Errorf("%v", err)
	}
	wantList(t, s.lower+"/a", aclAccess, accessList(4))
	_, err := s.store.Apply(r, nil, Options{Force: true})
	must(t, err)
	wantList(t, s.lower+"/a", aclAccess, nil)
	s.want(t, "a", "2")
}

// What is closed to its owner is kept; what is out of reach is told, and the rest is kept.
func TestOneObjectOutOfReach(t *testing.T) {
	s := newScene(t, map[string]string{"locked/b": "1", "blind/b": "1", "odd": "1"}, map[string]string{"locked/b": "2", "blind/b": "2", "odd": "1", "result": "3", "secret": "4"})
	for _, path := range []string{"odd", "secret"} {
		must(t, unix.Setxattr(s.upper+"/"+path, "user.k", []byte("v"), 0))
		must(t, os.Chmod(s.upper+"/"+path, 0))
	}
	must(t, os.Chmod(s.lower+"/blind", 0o300))
	must(t, os.Chmod(s.lower+"/locked", 0))
	defer func() { _ = os.Chmod(s.lower+"/locked", 0o700) }()
	defer func() { _ = os.Chmod(s.lower+"/blind", 0o700) }()
	r := s.keep(t)
	refused := 0
	for i := range r.m.Changes {
		e := &r.m.Changes[i]
		if e.Unkept != "" {
			refused++
			if e.Path != "locked/b" {
				t.Errorf("%s: %s", e.Path, e.Unkept)
			}
		}
	}
	if want := map[bool]int{true: 0, false: 1}[isRoot()]; refused != want {
		t.Errorf("%d refused", refused)
	}
	if got := strings.Count(diffOf(t, r, DiffOptions{}), "b (can't be applied)\n"); got != refused {
		t.Errorf("%d marked: %s", got, diffOf(t, r, DiffOptions{}))
	}
	s.apply(t, r, s.lower+"/result", s.lower+"/secret", s.lower+"/odd", s.lower+"/blind/b")
	s.want(t, "result", "3")
	for _, path := range []string{"odd", "secret"} {
		st, err := os.Stat(s.lower + "/" + path)
		must(t, err)
		if st.Mode() != 0 {
			t.Error(path, st.Mode())
		}
		must(t, os.Chmod(s.lower+"/"+path, 0o400))
		wantList(t, s.lower+"/"+path, "user.k", []byte("v"))
	}
	s.want(t, "secret", "4")
	must(t, os.Chmod(s.lower+"/blind", 0o700))
	s.want(t, "blind/b", "2")
}
