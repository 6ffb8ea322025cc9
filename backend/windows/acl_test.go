package windows

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

var (
	everyone = []byte{1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	admins   = []byte{1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0}
)

func aclOf(t *testing.T, list ...ace) []byte {
	t.Helper()
	var all [][]byte
	for i := range list {
		all = append(all, list[i].bytes())
	}
	acl, err := makeACL(2, all)
	must.Do(t, err)
	return acl
}

func TestSIDsOfRuns(t *testing.T) {
	one, other := newSID(), newSID()
	b, err := parseSID(one)
	if err != nil || one == other || len(b) != 28 || b[1] != 5 || b[7] != sidAuthority || !strings.HasPrefix(one, "S-1-9-1129270854-") {
		t.Errorf("%s, %s: %x, %v", one, other, b, err)
	}
	for _, s := range []string{"", "S-1-1-0", "S-1-5-32-544", "S-1-9-1129270854", "S-1-9-1129270854-1-2-3", "S-1-9-1129270854-1-2-3-4-5", "S-1-9-1129270854-1-2-3-4294967296",
		"S-1-9-1129270854-1-2-3-+4", "S-1-9-1129270854-1-2-3-04", "S-1-5-1129270854-1-2-3-4"} {
		if _, err := parseSID(s); err == nil {
			t.Errorf("%q is taken for one", s)
		}
	}
}

// TestGrantingAndTakingBack: the order is canonical, what was there stays octet for octet, and nothing is left.
func TestGrantingAndTakingBack(t *testing.T) {
	sid, _ := parseSID("S-1-9-1129270854-1-2-3-4")
	deny := ace{typ: 1, mask: 1, sid: everyone}
	own, inherited := ace{typ: accessAllowed, mask: 0x1F01FF, sid: admins}, ace{typ: accessAllowed, flags: inheritedACE, mask: 0x120089, sid: everyone}
	before := aclOf(t, deny, own, inherited)
	acl := before
	var err error
	for _, a := range grants(sid, roleKept, true) {
		acl, err = allow(acl, a)
		must.Do(t, err)
	}
	list, err := entries(acl)
	if err != nil || len(list) != 5 || !bytes.Equal(list[0], deny.bytes()) || !bytes.Equal(list[3], own.bytes()) || !bytes.Equal(list[4], inherited.bytes()) {
		t.Fatalf("%x, %v", acl, err)
	}
	if got, want := hex.EncodeToString(list[1]), "00002400bf0112000105000000000009464e4f4301000000020000000300000004000000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if list[2][1] != objectInherit|containerInherit|inheritOnly {
		t.Errorf("%x", list[2])
	}
	back, removed, err := without(acl, sid)
	if err != nil || removed != 2 || !bytes.Equal(back, before) {
		t.Errorf("%x, want %x; %d, %v", back, before, removed, err)
	}
	if back, removed, err := without(before, sid); err != nil || removed != 0 || !bytes.Equal(back, before) {
		t.Errorf("%x, %d, %v", back, removed, err)
	}
	empty, err := allow([]byte{2, 0, 8, 0, 0, 0, 0, 0}, grants(sid, roleOpen, false)[0])
	if list, _ := entries(empty); err != nil || len(list) != 1 {
		t.Errorf("%x, %v", empty, err)
	}
}

// TestNoGrantRemovesWhatIsProtected: no ACE has FILE_DELETE_CHILD, WRITE_DAC or WRITE_OWNER, and a directory that has to stay has no DELETE.
func TestNoGrantRemovesWhatIsProtected(t *testing.T) {
	for _, r := range []role{roleOpen, roleKept} {
		for _, dir := range []bool{false, true} {
			for _, a := range grants([]byte{1, 0, 0, 0, 0, 0, 0, 9}, r, dir) {
				const deleteChild, writeDAC, writeOwner = 0x40, 0x40000, 0x80000
				if a.mask&(deleteChild|writeDAC|writeOwner) != 0 {
					t.Errorf("%v, directory %v: %#x", r, dir, a.mask)
				}
				if r == roleKept && dir && a.flags&inheritOnly == 0 && a.mask&rightDelete != 0 {
					t.Errorf("a directory that stays can be removed: %#x", a.mask)
				}
			}
		}
	}
}

func TestFullACL(t *testing.T) {
	sid, _ := parseSID("S-1-9-1129270854-1-2-3-4")
	acl := aclOf(t)
	var err error
	for range 5000 {
		if acl, err = allow(acl, grants(sid, roleOpen, false)[0]); err != nil {
			break
		}
	}
	if err == nil || len(acl) > maxACL {
		t.Errorf("%d octets, %v", len(acl), err)
	}
}

func FuzzACL(f *testing.F) {
	sid, _ := parseSID("S-1-9-1129270854-1-2-3-4")
	f.Add([]byte{2, 0, 8, 0, 0, 0, 0, 0})
	f.Add([]byte{2, 0, 28, 0, 1, 0, 0, 0, 0, 0, 20, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, acl []byte) {
		before, err := entries(acl)
		if err != nil {
			return
		}
		with, err := allow(acl, grants(sid, roleOpen, true)[0])
		if err != nil {
			return
		}
		back, removed, err := without(with, sid)
		if err != nil || removed < 1 {
			t.Fatalf("%v, %d", err, removed)
		}
		after, err := entries(back)
		kept := slices.DeleteFunc(slices.Clone(before), func(e []byte) bool { return e[0] <= 1 && len(e) >= 8+len(sid) && bytes.Equal(e[8:8+len(sid)], sid) })
		if err != nil || !slices.EqualFunc(after, kept, bytes.Equal) {
			t.Fatalf("%x became %x, %v", acl, back, err)
		}
	})
}
