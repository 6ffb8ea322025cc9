package windows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/status"
)

// token is what processes of a run are started with.
type token struct {
	windows.Token
	sid  []byte
	said []string // how it is other than it was asked to be
}

// traverse is the one privilege that is left, without which each directory on the way to a file is asked.
const traverse = "SeChangeNotifyPrivilege"

// sidOf is the SID of bytes, which have to stay.
func sidOf(b []byte) *windows.SID { return (*windows.SID)(unsafe.Pointer(&b[0])) }

// logonSID is that of the logon session, which owns its window stations and what else programs of it share.
func logonSID(t windows.Token) *windows.SID {
	groups, err := t.GetTokenGroups()
	if err != nil {
		return nil
	}
	for _, g := range groups.AllGroups() {
		if g.Attributes&windows.SE_GROUP_LOGON_ID == windows.SE_GROUP_LOGON_ID {
			if sid, err := g.Sid.Copy(); err == nil {
				return sid
			}
		}
	}
	return nil
}

// newToken restricts that of this process.
func newToken(sid []byte) (*token, error) {
	var own windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ALL_ACCESS, &own); err != nil {
		return nil, fmt.Errorf("OpenProcessToken: %w", err)
	}
	defer own.Close()
	admins, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		return nil, fmt.Errorf("CreateWellKnownSid: %w", err)
	}
	everyone, err := windows.CreateWellKnownSid(windows.WinWorldSid)
	if err != nil {
		return nil, fmt.Errorf("CreateWellKnownSid: %w", err)
	}
	writers, err := windows.StringToSid("S-1-5-33") // NT AUTHORITY\WRITE RESTRICTED, which system objects name for such tokens
	if err != nil {
		return nil, fmt.Errorf("ConvertStringSidToSid: %w", err)
	}
	// The list that Windows gives to restricted services: with less, nothing can write to the null device.
	restricting := []windows.SIDAndAttributes{{Sid: sidOf(sid)}, {Sid: everyone}, {Sid: writers}}
	if logon := logonSID(own); logon != nil {
		restricting = append(restricting, windows.SIDAndAttributes{Sid: logon})
	}
	deny := []windows.SIDAndAttributes{{Sid: admins}}
	t := &token{sid: sid}
	_, err = call(procCreateRestrictedToken, uintptr(own), disableMaxPrivilege|writeRestricted, uintptr(len(deny)), uintptr(unsafe.Pointer(&deny[0])),
		0, 0, uintptr(len(restricting)), uintptr(unsafe.Pointer(&restricting[0])), uintptr(unsafe.Pointer(&t.Token)))
	if err != nil {
		return nil, fmt.Errorf("CreateRestrictedToken: %w", err)
	}
	if err := t.lower(); err != nil {
		t.said = append(t.said, err.Error())
	}
	if err := t.own(); err != nil {
		t.said = append(t.said, err.Error())
	}
	t.said = append(t.said, differences(t.Token, sid)...)
	return t, nil
}

// lower gives it the low integrity level.
func (t *token) lower() error {
	label := windows.Tokenmandatorylabel{Label: windows.SIDAndAttributes{Sid: sidOf(lowLabel), Attributes: windows.SE_GROUP_INTEGRITY}}
	if err := windows.SetTokenInformation(t.Token, windows.TokenIntegrityLevel, (*byte)(unsafe.Pointer(&label)), label.Size()); err != nil {
		return fmt.Errorf("SetTokenInformation(TokenIntegrityLevel): %w", err)
	}
	return nil
}

// system is S-1-5-18.
var system = []byte{1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0}

const genericAll = 0x1000_0000

// own lets the run use what it makes: a pipe that a program has made for itself is opened a second time.
func (t *token) own() error {
	user, err := t.GetTokenUser()
	if err != nil {
		return fmt.Errorf("GetTokenInformation(TokenUser): %w", err)
	}
	u := user.User.Sid
	var list [][]byte
	for _, sid := range [][]byte{unsafe.Slice((*byte)(unsafe.Pointer(u)), u.Len()), system, t.sid} {
		list = append(list, (&ace{typ: accessAllowed, mask: genericAll, sid: sid}).bytes())
	}
	acl, err := makeACL(2, list)
	if err != nil {
		return err
	}
	def := struct{ acl *byte }{&acl[0]}
	if err := windows.SetTokenInformation(t.Token, windows.TokenDefaultDacl, (*byte)(unsafe.Pointer(&def)), uint32(unsafe.Sizeof(def))); err != nil {
		return fmt.Errorf("SetTokenInformation(TokenDefaultDacl): %w", err)
	}
	return nil
}

// differences are what a token is other than it was asked to be: to have asked is no proof.
func differences(t windows.Token, sid []byte) (said []string) {
	restricted, err := tokenInfo(t, windows.TokenRestrictedSids)
	switch {
	case err != nil:
		said = append(said, "GetTokenInformation(TokenRestrictedSids): "+err.Error())
	case !hasGroup(restricted, sid):
		said = append(said, "it isn't restricted by the SID of the run")
	}
	if privileges, err := tokenInfo(t, windows.TokenPrivileges); err != nil {
		said = append(said, "GetTokenInformation(TokenPrivileges): "+err.Error())
	} else if names := privilegesOf(privileges); len(names) > 1 || len(names) == 1 && names[0] != traverse {
		said = append(said, "it has privileges: "+strings.Join(names, ", "))
	}
	if level, err := tokenInfo(t, windows.TokenIntegrityLevel); err != nil {
		said = append(said, "GetTokenInformation(TokenIntegrityLevel): "+err.Error())
	} else if label := (*windows.Tokenmandatorylabel)(unsafe.Pointer(&level[0])); !label.Label.Sid.Equals(sidOf(lowLabel)) {
		said = append(said, "its integrity level is not low")
	}
	if groups, err := tokenInfo(t, windows.TokenGroups); err != nil {
		said = append(said, "GetTokenInformation(TokenGroups): "+err.Error())
	} else if admins, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid); err == nil {
		for _, g := range (*windows.Tokengroups)(unsafe.Pointer(&groups[0])).AllGroups() {
			if g.Sid.Equals(admins) && g.Attributes&windows.SE_GROUP_ENABLED != 0 {
				said = append(said, "administrators are not only to deny")
			}
		}
	}
	return said
}

func tokenInfo(t windows.Token, class uint32) ([]byte, error) {
	var n uint32
	_ = windows.GetTokenInformation(t, class, nil, 0, &n)
	n = cmp.Or(n, 1<<12)
	b := make([]byte, n+64)
	if err := windows.GetTokenInformation(t, class, &b[0], uint32(len(b)), &n); err != nil {
		return nil, err
	}
	return b, nil
}

// hasGroup says whether a SID is in a list of them.
func hasGroup(list, sid []byte) bool {
	groups := (*windows.Tokengroups)(unsafe.Pointer(&list[0]))
	return groups.GroupCount > 0 && slices.ContainsFunc(groups.AllGroups(), func(g windows.SIDAndAttributes) bool { return g.Sid != nil && g.Sid.Equals(sidOf(sid)) })
}

// privilegesOf are the names of those that a token has, enabled or not.
func privilegesOf(list []byte) (names []string) {
	for _, p := range (*windows.Tokenprivileges)(unsafe.Pointer(&list[0])).AllPrivileges() {
		names = append(names, privilegeName(p.Luid))
	}
	return names
}

var procLookupPrivilegeName = advapi32.NewProc("LookupPrivilegeNameW")

func privilegeName(l windows.LUID) string {
	var b [128]uint16
	n := uint32(len(b))
	if _, err := call(procLookupPrivilegeName, 0, uintptr(unsafe.Pointer(&l)), uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n))); err != nil {
		return fmt.Sprintf("privilege %d", l.LowPart)
	}
	return windows.UTF16ToString(b[:])
}

// enter writes down how a token is other than planned.
func (t *token) enter(p *Plan) {
	if len(t.said) == 0 {
		return
	}
	why := "the token: " + strings.Join(t.said, "; ")
	p.Lines.Weaken(status.Privileges, status.NotApplied, why)
	p.Lines.Weaken(status.Filesystem, status.NotApplied, "writes are not held: "+why)
}

// impersonates says whether this process has the privilege that CreateProcessWithTokenW asks for.
func impersonates() bool {
	var own windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_QUERY, &own); err != nil {
		return false
	}
	defer own.Close()
	list, err := tokenInfo(own, windows.TokenPrivileges)
	return err == nil && slices.Contains(privilegesOf(list), "SeImpersonatePrivilege")
}
