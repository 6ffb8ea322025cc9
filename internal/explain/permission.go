package explain

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// may says whether the mode, or the ACL, lets the viewer: 4 reads, 2 writes, 1 executes.
// It has no capability that would ask nobody.
func (c *Checker) may(n *node, want uint32) bool {
	if n.lower != nil && c.by.OneID && (n.lower.UID != c.by.UID || n.lower.GID != c.by.GID) &&
		!c.may(&node{Inode: *n.lower}, want&^2) {
		return false // the overlay itself, which has no capability over what is another's
	}
	if n.layer != nil && n.layer.others && n.source != "" && uint32(n.Mode.Perm())&want != want {
		return false
	}
	return c.mayByOwn(n, want)
}

// mayByOwn is may, of the viewer's own ids.
func (c *Checker) mayByOwn(n *node, want uint32) bool {
	mode := uint32(n.Mode.Perm())
	switch {
	case n.UID == c.by.UID:
		return mode>>6&want == want
	case len(n.ACL) > 0 && mode&0o070 != 0:
		return c.mayByACL(n, want)
	case c.inGroup(n.GID):
		return mode>>3&want == want
	}
	return mode&want == want
}

func (c *Checker) inGroup(gid uint32) bool {
	return gid == c.by.GID || slices.Contains(c.by.Groups, gid)
}

// Tags of entries of a POSIX ACL, and the length of one.
const (
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20
	aclHeader   = 4
	aclEntry    = 8
)

// mayByACL is posix_acl_permission of the kernel, for who is not the owner.
func (c *Checker) mayByACL(n *node, want uint32) bool {
	mask, other, inGroup := uint32(7), uint32(0), false
	var granted []uint32
	for e := n.ACL[min(aclHeader, len(n.ACL)):]; len(e) >= aclEntry; e = e[aclEntry:] {
		perm, id := uint32(binary.LittleEndian.Uint16(e[2:])), binary.LittleEndian.Uint32(e[4:])
		switch binary.LittleEndian.Uint16(e) {
		case aclUser:
			if id == c.by.UID {
				return c.aclMasked(n, perm)&want == want
			}
		case aclGroupObj:
			id = n.GID
			fallthrough
		case aclGroup:
			if c.inGroup(id) {
				inGroup = true
				granted = append(granted, perm)
			}
		case aclMask:
			mask = perm
		case aclOther:
			other = perm
		}
	}
	if !inGroup {
		return other&want == want
	}
	return slices.ContainsFunc(granted, func(perm uint32) bool { return perm&mask&want == want })
}

func (c *Checker) aclMasked(n *node, perm uint32) uint32 {
	for e := n.ACL[min(aclHeader, len(n.ACL)):]; len(e) >= aclEntry; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e) == aclMask {
			return perm & uint32(binary.LittleEndian.Uint16(e[2:]))
		}
	}
	return perm
}

// uncopied is what keeps an overlay from taking over what is written to: the file, or a
// directory that leads to it, whose owner isn't there inside, or an id that its ACL names.
func (c *Checker) uncopied(n *node) (at, details string) {
	if n.layer.kind != overlay || !c.by.OneID {
		return "", ""
	}
	for at := n.at; hostfs.Below(at, n.layer.dst); at = path.Dir(at) {
		m, found := c.look(at)
		if !found || m.source == "" {
			continue
		}
		if m.UID != c.by.UID || m.GID != c.by.GID {
			return at, m.permissions()
		}
		if who := c.stranger(m.ACL); who != "" {
			return at, m.permissions() + " that names " + who
		}
		if who := c.stranger(m.DefaultACL); who != "" {
			return at, m.permissions() + ", default ACL that names " + who
		}
	}
	return "", ""
}

// stranger is whom of an ACL isn't there inside: the kernel takes over no such ACL (EINVAL).
func (c *Checker) stranger(acl []byte) string {
	for e := acl[min(aclHeader, len(acl)):]; len(e) >= aclEntry; e = e[aclEntry:] {
		switch tag, id := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint32(e[4:]); {
		case tag == aclUser && id != c.by.UID:
			return "uid " + strconv.FormatUint(uint64(id), 10)
		case tag == aclGroup && id != c.by.GID:
			return "gid " + strconv.FormatUint(uint64(id), 10)
		}
	}
	return ""
}

// readsForOverlay: what is opened in an overlay, the overlay opens for reading, and it
// has no capability over what belongs to other ids.
func (c *Checker) readsForOverlay(n *node) bool {
	return n.layer.kind != overlay || !c.by.OneID || n.UID == c.by.UID && n.GID == c.by.GID || c.may(n, 4)
}

// permissions is what ls would say.
func (n *node) permissions() string {
	text := fmt.Sprintf("%s, uid %d, gid %d", n.Mode, n.UID, n.GID)
	if len(n.ACL) > 0 {
		text += ", with an ACL"
	}
	return text
}

// rule is the one of the table that shows or hides what is at a node.
func (c *Checker) rule(n *node) view.Rule {
	want := ""
	at := n.layer.dst
	switch {
	case n.layer.kind == mask:
		want = view.RuleHidden
	case n.ReadOnly:
		for _, d := range c.readOnly {
			if hostfs.Under(n.at, d) && hostfs.Under(d, n.layer.dst) {
				at, want = d, view.RuleProtected
			}
		}
	}
	var best view.Rule
	for _, r := range c.view.Rules {
		switch {
		case !hostfs.Under(n.at, r.Path) || len(r.Path) < len(best.Path):
		case want != "" && r.Path == at && r.Access == want:
			return r
		case want == "" && (r.Access == view.RuleHidden || r.Access == view.RuleProtected) && len(r.Path) > len(n.layer.dst):
			// Of something that wasn't there to be hidden.
		default:
			best = r
		}
	}
	return best
}
