package root

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// beneath lays what the private root has at a place over a tree of the caller's, with a
// read-only overlay of the two. One mount shows all of it, names are hidden and replaced
// as names, whatever is renamed outside, and the kernel asks for each file twice: whether
// the target may read it, and whether who made the overlay may.
//
// Where uid 0 of the target owns the files of the tree, the first question says yes to
// everything. So the overlay is made as the stranger, whom nothing belongs to and no
// capability helps: what is left is what every user of the host may read, also of
// files that come to be while the run goes on.
//
// What came mounted below the tree to a user namespace can't be taken off there, and
// keeps the kernel from an overlay. Then the tree is bound, where that shows no more.
func (b *Builder) beneath(m *handoff.Mount) error {
	lower, _, err := openSource(m)
	if err != nil {
		return err
	}
	defer unix.Close(lower)
	if err := b.makeDir(m.Dst, 0o755); err != nil {
		return err
	}
	over, err := b.inside(m.Dst)
	if err != nil {
		return fault.Of("openat2", m.Dst, err)
	}
	defer unix.Close(over)
	if b.fell.EtcChosen { // there are no whiteouts
		return b.bindBeneath(m, lower, over)
	}
	var fd int
	err = asStranger(b.box, b.renew, func() (err error) {
		fd, err = newFS("overlay", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
			"lowerdir", linux.FDPath(over)+":"+linux.FDPath(lower), "userxattr", "")
		return err
	})
	if err != nil {
		if !overlayUnsupported(err) {
			return err
		}
		return b.bindBeneath(m, lower, over)
	}
	return b.attachAt(fd, m.Dst, true)
}

// bindBeneath shows the tree with what is mounted below it. What the private root has at its place
// is laid over it file by file, and hidden names are something empty, which may be read: programs
// take that for settings that say nothing. Where one of them has no place in the
// tree, or uid 0 would read there what it owns, it is the chosen part.
func (b *Builder) bindBeneath(m *handoff.Mount, lower, over int) error {
	if b.box.Stranger != 0 {
		return b.notBeneath()
	}
	var laid []int
	defer func() {
		for _, fd := range laid {
			_ = unix.Close(fd)
		}
	}()
	var places []string
	for i := range b.box.Mounts {
		e := &b.box.Mounts[i]
		rel, in := strings.CutPrefix(e.Dst, m.Dst+"/")
		if !in || e.Instead || e.Kind != handoff.MountAbsent && e.Kind != handoff.MountDir && e.Kind != handoff.MountFile && e.Kind != handoff.MountSymlink {
			continue
		}
		kind, fits := fitsBeneath(lower, rel, e)
		if !fits {
			return b.notBeneath()
		}
		if kind == 0 || e.Kind != handoff.MountAbsent && e.Kind != handoff.MountFile {
			continue
		}
		if e.Kind == handoff.MountAbsent {
			rel = emptyFile
			if kind == unix.S_IFDIR {
				rel = emptyDir
			}
			if err := makeEmpty(over, rel); err != nil {
				return err
			}
		}
		fd, err := unix.OpenTree(over, rel, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return fault.Of("open_tree", e.Dst, err)
		}
		places, laid = append(places, e.Dst), append(laid, fd)
	}
	b.fell.EtcChosen, b.fell.EtcBound = false, true
	if err := b.bind(&handoff.Mount{Src: m.Src, Dst: m.Dst, Dev: m.Dev, Ino: m.Ino, ReadOnly: true}); err != nil {
		return err
	}
	for i, dst := range places {
		if err := b.layOver(laid[i], dst); err != nil {
			return err
		}
	}
	return nil
}

// These lie in what the tree covers.
const emptyFile, emptyDir = ".empty-file", ".empty-dir"

func makeEmpty(at int, name string) (err error) {
	if name == emptyDir {
		err = unix.Mkdirat(at, name, 0o555)
	} else {
		err = unix.Mknodat(at, name, unix.S_IFREG|0o444, 0)
	}
	if err == unix.EEXIST {
		err = nil
	}
	return fault.Of("mknod", name, err)
}

// fitsBeneath gives the type of what a tree has by a name, or 0, and says whether a mount there does what e is for.
func fitsBeneath(tree int, rel string, e *handoff.Mount) (kind uint32, fits bool) {
	fd, err := unix.Openat2(tree, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil { // or it is in a directory that nobody can search
		return 0, e.Kind == handoff.MountAbsent || err == unix.ENOENT && e.Dispensable()
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0, false
	}
	kind = st.Mode & unix.S_IFMT
	switch e.Kind {
	case handoff.MountAbsent:
		fits = (kind == unix.S_IFREG || kind == unix.S_IFDIR) && !unlinked(fd)
	case handoff.MountDir:
		fits = kind == unix.S_IFDIR
	case handoff.MountFile:
		fits = kind == unix.S_IFREG && !unlinked(fd)
	case handoff.MountSymlink:
		var text [unix.PathMax]byte
		n, err := unix.Readlinkat(fd, "", text[:])
		fits = err == nil && string(text[:n]) == e.Text
	}
	return kind, fits
}

// unlinked says whether what was opened is mounted where it is and has no name any more, as when
// who mounted it has removed or replaced the file: the kernel mounts nothing on that (ENOENT).
func unlinked(fd int) bool {
	var text [unix.PathMax]byte
	n, err := unix.Readlink(linux.FDPath(fd), text[:])
	return err != nil || strings.HasSuffix(string(text[:n]), " (deleted)")
}

// asStranger does something as the stranger, if there is one, and without a capability over
// files. Ids of this thread alone change, and only for what it does to files.
func asStranger(box *handoff.Box, renew, do func() error) (err error) {
	id := int(box.Stranger)
	if id == 0 {
		return do()
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&header, &had[0]); err != nil {
		return fault.Of("capget", "", err)
	}
	less := had
	less[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER
	for _, set := range [...]func(int) error{unix.Setfsgid, unix.Setfsuid} {
		if err := set(id); err != nil {
			return fault.Of("setfsuid", "", err)
		}
	}
	if uid, _ := unix.SetfsuidRetUid(-1); uid != id { // it says no in no other way
		return fault.Of("setfsuid", "", unix.EPERM)
	}
	if gid, _ := unix.SetfsgidRetGid(-1); gid != id {
		return fault.Of("setfsgid", "", unix.EPERM)
	}
	if err := unix.Capset(&header, &less[0]); err != nil {
		return fault.Of("capset", "", err)
	}
	err = do()
	uid, gid := int(box.UID), int(box.GID)
	if e := unix.Setfsuid(uid); e != nil {
		return fault.Of("setfsuid", "", e)
	}
	if e := unix.Setfsgid(gid); e != nil {
		return fault.Of("setfsgid", "", e)
	}
	if e := unix.Capset(&header, &had[0]); e != nil {
		return fault.Of("capset", "", e)
	}
	if e := renew(); e != nil {
		return e
	}
	return err
}

// absent makes the whiteout by which an overlay hides a name of what lies beneath. It takes no
// capability, but what stands around this sandbox may not let a node be made.
func (b *Builder) absent(m *handoff.Mount) error {
	at, err := b.ownParent(m.Dst)
	if err != nil {
		return err
	}
	err = unix.Mknodat(at.fd, at.name, unix.S_IFCHR, 0)
	if err == unix.EPERM || err == unix.EACCES {
		b.fell.EtcChosen = true
		return nil
	}
	return fault.Of("mknod", m.Dst, err)
}

// notBeneath takes back what only an overlay understands.
func (b *Builder) notBeneath() error {
	b.fell.EtcChosen = true
	for i := range b.box.Mounts {
		a := &b.box.Mounts[i]
		if a.Kind != handoff.MountAbsent {
			continue
		}
		at, err := b.parent(a.Dst)
		if err != nil {
			return err
		}
		if err := unix.Unlinkat(at.fd, at.name, 0); err != nil && err != unix.ENOENT {
			return fault.Of("unlink", a.Dst, err)
		}
	}
	return nil
}
