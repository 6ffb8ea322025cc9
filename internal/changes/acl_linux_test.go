package changes

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// accessList gives a file an ACL: user::rw, user:12:rw, group::group, mask::rw, other::-.
func accessList(t *testing.T, path string, group uint16) {
	t.Helper()
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range [][3]uint32{{1, 7, 1<<32 - 1}, {2, 6, 12}, {aclGroupObj, uint32(group), 1<<32 - 1}, {0x10, 7, 1<<32 - 1}, {0x20, 0, 1<<32 - 1}} {
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	if err := unix.Setxattr(path, aclName, acl, 0); err != nil {
		t.Skip("setxattr of an ACL: ", err)
	}
}

func TestAnAccessListIsNotLost(t *testing.T) {
	s := newScene(t, map[string]string{"edit": "1", "linked": "1", "plain": "1", "dir/": "", "gone": "1"})
	build(t, s.upper, map[string]string{"edit": "2", "plain": "2", "dir": "a file", "alink": "3"})
	must(t, os.Link(s.upper+"/alink", s.upper+"/linked"))
	whiteout(t, s.upper+"/gone")
	for path, group := range map[string]uint16{"edit": 4, "linked": 0, "dir": 0, "gone": 4} {
		accessList(t, s.lower+"/"+path, group)
		if path != "gone" {
			must(t, os.Chmod(s.upper+"/"+path, 0o660)) // as stat shows the mask
		}
	}
	must(t, os.Chmod(s.upper+"/plain", 0o660))
	r := s.keep(t)
	const why = "has an access control list, which would be lost"
	var conflict *ConflictError
	if _, err := s.store.Apply(r, nil, Options{}); !errors.As(err, &conflict) || len(conflict.Conflicts) != 3 ||
		conflict.Conflicts[0] != (Conflict{s.lower + "/dir", why, false}) || conflict.Conflicts[1] != (Conflict{s.lower + "/edit", why, false}) {
		t.Errorf("%v", err)
	}
	s.want(t, "edit", "1")
	_, err := s.store.Apply(r, nil, Options{Force: true})
	must(t, err)
	s.want(t, "edit", "2")
	for path, want := range map[string]os.FileMode{"edit": 0o640, "linked": 0o600, "alink": 0o600, "dir": 0o600, "plain": 0o660} {
		if st, err := os.Stat(s.lower + "/" + path); err != nil || st.Mode() != want {
			t.Errorf("%s: %v %v", path, st.Mode(), err)
		}
	}
}

// A mode is set on the object itself, which keeps its list.
func TestAModeKeepsTheAccessList(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1"})
	build(t, s.upper, map[string]string{"a": "1"})
	accessList(t, s.lower+"/a", 4)
	must(t, os.Chmod(s.upper+"/a", 0o640))
	_, err := s.store.Apply(s.keep(t), nil, Options{})
	must(t, err)
	if n, err := unix.Getxattr(s.lower+"/a", aclName, nil); err != nil || n != 4+5*8 {
		t.Error(n, err)
	}
}
