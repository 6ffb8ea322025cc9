package windows

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Rights in an ACE, as winnt.h has them.
const (
	rightDelete      = 0x0001_0000
	genericRead      = 0x0012_0089 // FILE_GENERIC_READ
	genericWrite     = 0x0012_0116
	genericExecute   = 0x0012_00A0
	readWriteExecute = genericRead | genericWrite | genericExecute
)

// Flags of an ACE.
const (
	objectInherit    = 0x01
	containerInherit = 0x02
	inheritOnly      = 0x08
	inheritedACE     = 0x10
)

// Types of ACEs.
const (
	accessAllowed  = 0
	mandatoryLabel = 0x11
)

// sidMark is the first subauthority of the SIDs of runs, below the authority of resource managers, which no account has.
const (
	sidAuthority = 9
	sidMark      = 0x434F4E46
	sidRandom    = 4
)

// newSID is the SID of a run, which nobody has ever had.
func newSID() string {
	var b [4 * sidRandom]byte
	_, _ = rand.Read(b[:])
	words := []string{"S-1", strconv.Itoa(sidAuthority), strconv.Itoa(sidMark)}
	for i := range sidRandom {
		words = append(words, strconv.FormatUint(uint64(binary.LittleEndian.Uint32(b[4*i:])), 10))
	}
	return strings.Join(words, "-")
}

// parseSID is the binary form of a SID of a run, and no other's.
func parseSID(s string) ([]byte, error) {
	words := strings.Split(s, "-")
	if len(words) != 4+sidRandom || words[0] != "S" || words[1] != "1" || words[2] != strconv.Itoa(sidAuthority) || words[3] != strconv.Itoa(sidMark) {
		return nil, fmt.Errorf("%q is no SID of a run", s)
	}
	b := []byte{1, 1 + sidRandom, 0, 0, 0, 0, 0, sidAuthority}
	for _, w := range words[3:] {
		n, err := strconv.ParseUint(w, 10, 32)
		if err != nil || strconv.FormatUint(n, 10) != w {
			return nil, fmt.Errorf("%q is no SID of a run", s)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b, nil
}

// lowLabel is S-1-16-4096, the low integrity level.
var lowLabel = []byte{1, 1, 0, 0, 0, 0, 0, 16, 0, 0x10, 0, 0}

// ace is an entry of an ACL.
type ace struct {
	typ, flags byte
	mask       uint32
	sid        []byte
}

func (a *ace) bytes() []byte {
	b := []byte{a.typ, a.flags, 0, 0}
	binary.LittleEndian.PutUint16(b[2:], uint16(8+len(a.sid)))
	return append(binary.LittleEndian.AppendUint32(b, a.mask), a.sid...)
}

var errACL = errors.New("a malformed ACL")

const (
	aclHeader = 8
	maxACL    = 65535 // its size has 16 bits
)

// entries are those of an ACL, as they are.
func entries(acl []byte) (list [][]byte, err error) {
	if len(acl) < aclHeader || acl[0] < 2 || acl[0] > 4 {
		return nil, errACL
	}
	size, count := int(binary.LittleEndian.Uint16(acl[2:])), int(binary.LittleEndian.Uint16(acl[4:]))
	if size < aclHeader || size > len(acl) {
		return nil, errACL
	}
	rest := acl[aclHeader:size]
	for range count {
		if len(rest) < 8 {
			return nil, errACL
		}
		n := int(binary.LittleEndian.Uint16(rest[2:]))
		if n < 8 || n > len(rest) || n%4 != 0 {
			return nil, errACL
		}
		list, rest = append(list, rest[:n]), rest[n:]
	}
	return list, nil
}

// makeACL puts entries together.
func makeACL(revision byte, list [][]byte) ([]byte, error) {
	b := []byte{revision, 0, 0, 0, 0, 0, 0, 0}
	for _, e := range list {
		b = append(b, e...)
	}
	if len(b) > maxACL {
		return nil, errors.New("the ACL is full")
	}
	binary.LittleEndian.PutUint16(b[2:], uint16(len(b)))
	binary.LittleEndian.PutUint16(b[4:], uint16(len(list)))
	return b, nil
}

// allow puts an ACE in front of those that allow: behind what is denied by the object itself, and in front of what it has inherited, as
// the canonical order is.
func allow(acl []byte, a ace) ([]byte, error) {
	list, err := entries(acl)
	if err != nil {
		return nil, err
	}
	at := 0
	for at < len(list) && list[at][0] != accessAllowed && list[at][1]&inheritedACE == 0 {
		at++
	}
	out := append(append(append(make([][]byte, 0, len(list)+1), list[:at]...), a.bytes()), list[at:]...)
	return makeACL(acl[0], out)
}

// without takes out all ACEs of a SID, inherited or not.
func without(acl, sid []byte) (out []byte, removed int, err error) {
	list, err := entries(acl)
	if err != nil {
		return nil, 0, err
	}
	kept := list[:0:0]
	for _, e := range list {
		if e[0] <= 1 && len(e) >= 8+len(sid) && bytes.Equal(e[8:8+len(sid)], sid) {
			removed++
			continue
		}
		kept = append(kept, e)
	}
	out, err = makeACL(acl[0], kept)
	return out, removed, err
}

// lowACL is the SACL with the low label, to which whatever is lower may not write.
func lowACL(directory bool) []byte {
	a := ace{typ: mandatoryLabel, mask: 1, sid: lowLabel} // SYSTEM_MANDATORY_LABEL_NO_WRITE_UP
	if directory {
		a.flags = objectInherit | containerInherit
	}
	acl, _ := makeACL(2, [][]byte{a.bytes()})
	return acl
}

// role is what an entry of a tree is to a run.
type role int

const (
	roleNone role = iota // it is left as it is
	roleOpen             // it may be written, renamed and removed
	roleKept             // a directory in which things may come to be, and which stays where it is
)

// grants are the ACEs that let a run write an entry. None has FILE_DELETE_CHILD: what is protected in a directory can't be removed
// through it. What comes to be in a directory is the run's own.
func grants(sid []byte, r role, directory bool) []ace {
	open := ace{typ: accessAllowed, mask: readWriteExecute | rightDelete, sid: sid}
	switch {
	case !directory:
		return []ace{open}
	case r == roleOpen:
		open.flags = objectInherit | containerInherit
		return []ace{open}
	}
	open.flags = objectInherit | containerInherit | inheritOnly
	return []ace{open, {typ: accessAllowed, mask: readWriteExecute, sid: sid}}
}
