package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	writeDAC   = 0x0004_0000
	writeOwner = 0x0008_0000
	readACL    = 0x0002_0000
)

const both = windows.DACL_SECURITY_INFORMATION | windows.LABEL_SECURITY_INFORMATION

// entry is one of a tree, opened by itself: never what a link leads to. Nobody can put another in its place as long as it is open, since
// it isn't shared to be deleted.
type entry struct {
	windows.Handle
	info    windows.ByHandleFileInformation
	control windows.SECURITY_DESCRIPTOR_CONTROL // of its security descriptor, once that was read
}

func openEntry(path string) (*entry, error) {
	name, err := windows.UTF16PtrFromString(long(path))
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, readACL|writeDAC|writeOwner|windows.FILE_READ_ATTRIBUTES, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "CreateFile", Path: path, Err: err}
	}
	e := &entry{Handle: h}
	if err := windows.GetFileInformationByHandle(h, &e.info); err != nil {
		_ = windows.CloseHandle(h)
		return nil, &fs.PathError{Op: "GetFileInformationByHandle", Path: path, Err: err}
	}
	return e, nil
}

// long is a name that may have more than 260 characters.
func long(path string) string {
	if checkPath(path) != nil {
		return path
	}
	return `\\?\` + filepath.Clean(path)
}

func (e *entry) close()          { _ = windows.CloseHandle(e.Handle) }
func (e *entry) link() bool      { return e.info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 }
func (e *entry) directory() bool { return e.info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0 }

// many: the file has another name as well, which may lie outside of the tree.
func (e *entry) many() bool { return !e.directory() && e.info.NumberOfLinks > 1 }

// acls are its DACL and its label, as they are stored.
func (e *entry) acls() (dacl, sacl []byte, err error) {
	var n uint32
	_, _ = call(procGetKernelObjectSecurity, uintptr(e.Handle), both, 0, 0, uintptr(unsafe.Pointer(&n)))
	if n == 0 || n > 1<<20 {
		n = 1 << 16
	}
	b := make([]byte, n)
	if _, err := call(procGetKernelObjectSecurity, uintptr(e.Handle), both, uintptr(unsafe.Pointer(&b[0])), uintptr(n), uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, nil, fmt.Errorf("GetKernelObjectSecurity: %w", err)
	}
	sd := (*windows.SECURITY_DESCRIPTOR)(unsafe.Pointer(&b[0]))
	if e.control, _, err = sd.Control(); err != nil {
		return nil, nil, fmt.Errorf("GetSecurityDescriptorControl: %w", err)
	}
	if d, _, err := sd.DACL(); err == nil && d != nil {
		dacl = bytesOf(d)
	}
	if s, _, err := sd.SACL(); err == nil && s != nil {
		sacl = bytesOf(s)
	}
	return dacl, sacl, nil
}

func bytesOf(a *windows.ACL) []byte {
	head := unsafe.Slice((*byte)(unsafe.Pointer(a)), aclHeader)
	size := int(head[2]) | int(head[3])<<8
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(a)), size)...)
}

// set stores ACLs as they are: nothing is inherited by what is in a directory already.
func (e *entry) set(dacl, sacl []byte) error {
	sd, err := windows.NewSecurityDescriptor()
	if err != nil {
		return err
	}
	what := windows.SECURITY_INFORMATION(0)
	if dacl != nil {
		if err := sd.SetDACL((*windows.ACL)(unsafe.Pointer(&dacl[0])), true, false); err != nil {
			return err
		}
		what |= windows.DACL_SECURITY_INFORMATION
		// Whether it takes from its directory what that is given later stays as it is.
		const kept = windows.SE_DACL_AUTO_INHERITED | windows.SE_DACL_PROTECTED
		control := e.control & kept
		if control&windows.SE_DACL_AUTO_INHERITED != 0 {
			control |= windows.SE_DACL_AUTO_INHERIT_REQ
		}
		if err := sd.SetControl(kept|windows.SE_DACL_AUTO_INHERIT_REQ, control); err != nil {
			return fmt.Errorf("SetSecurityDescriptorControl: %w", err)
		}
	}
	if sacl != nil {
		if err := sd.SetSACL((*windows.ACL)(unsafe.Pointer(&sacl[0])), true, false); err != nil {
			return err
		}
		what |= windows.LABEL_SECURITY_INFORMATION
	}
	if err := windows.SetKernelObjectSecurity(e.Handle, what, sd); err != nil {
		return fmt.Errorf("SetKernelObjectSecurity: %w", err)
	}
	return nil
}

// granted is what came of granting trees.
type granted struct {
	entries int
	skipped int // links, files with several names, what is protected
}

// grantTree gives the SID of a run an ACE on each entry of a tree. The journal has all of them before the first is changed.
func grantTree(p *Plan, t *tree, sid []byte, j *journal, g *granted) error {
	type task struct {
		path string
		role role
	}
	var tasks []task
	info, err := os.Lstat(long(t.Path))
	if err != nil {
		return err
	}
	note := func(path string, tree bool) error {
		e, err := openEntry(path)
		if err != nil {
			return err
		}
		defer e.close()
		r := p.roleOf(t, path)
		if e.link() || e.many() || r == roleNone {
			g.skipped++
			return nil
		}
		_, sacl, err := e.acls()
		if err != nil {
			return &fs.PathError{Op: "acl", Path: path, Err: err}
		}
		tasks = append(tasks, task{path, r})
		return j.write(change{Path: path, Tree: tree, SACL: sacl})
	}
	if info.IsDir() {
		err = survey(t.Path, maxTree, func(path string, d fs.DirEntry) error {
			err := note(path, path == t.Path)
			if err == nil && d.IsDir() && p.protected(path) {
				return fs.SkipDir
			}
			return err
		})
	} else {
		err = note(t.Path, false)
	}
	if err == nil {
		err = j.sync()
	}
	for i := 0; i < len(tasks) && err == nil; i++ {
		err = grantEntry(tasks[i].path, tasks[i].role, sid)
		g.entries++
	}
	return err
}

// grantEntry changes one, which is looked at anew: what it was when it was noted may have been put aside.
func grantEntry(path string, r role, sid []byte) error {
	e, err := openEntry(path)
	if err != nil {
		return err
	}
	defer e.close()
	if e.link() || e.many() {
		return &fs.PathError{Op: "grant", Path: path, Err: errors.New("it has become a link")}
	}
	dacl, _, err := e.acls()
	if err != nil {
		return &fs.PathError{Op: "acl", Path: path, Err: err}
	}
	if dacl == nil {
		return &fs.PathError{Op: "acl", Path: path, Err: errors.New("it has no DACL: everybody may do everything")}
	}
	for _, a := range grants(sid, r, e.directory()) {
		if dacl, err = allow(dacl, a); err != nil {
			return &fs.PathError{Op: "acl", Path: path, Err: err}
		}
	}
	if err := e.set(dacl, lowACL(e.directory())); err != nil {
		return &fs.PathError{Op: "grant", Path: path, Err: err}
	}
	return nil
}

// revoke takes back what was granted, and what has come to be in trees meanwhile with the ACE of the run. What is not there any more is
// no error.
func revoke(sid []byte, changes []change) error {
	labels := map[string][]byte{}
	for _, c := range changes {
		labels[fold(c.Path)] = c.SACL
	}
	var failed error
	undo := func(path string) {
		sacl, known := labels[fold(path)]
		if err := revokeEntry(path, sid, sacl, known); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	for _, c := range changes {
		if !c.Tree {
			continue
		}
		err := survey(c.Path, 1<<30, func(path string, _ fs.DirEntry) error {
			undo(path)
			delete(labels, fold(path))
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	for _, c := range changes { // what was moved out of a tree, and single files
		if _, left := labels[fold(c.Path)]; left {
			undo(c.Path)
		}
	}
	return failed
}

func revokeEntry(path string, sid, sacl []byte, known bool) error {
	e, err := openEntry(path)
	if err != nil {
		return err
	}
	defer e.close()
	dacl, now, err := e.acls()
	if err != nil || dacl == nil {
		return err
	}
	dacl, removed, err := without(dacl, sid)
	if err != nil || removed == 0 {
		return err
	}
	if sacl == nil && now != nil {
		sacl, _ = makeACL(2, nil) // it had no label, or is new
	}
	if !known && now == nil {
		sacl = nil
	}
	return e.set(dacl, sacl)
}
