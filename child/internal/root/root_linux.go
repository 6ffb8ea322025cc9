package root

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// Builder builds a root.
type Builder struct {
	tree
	box    *handoff.Box
	bounds bounds
	out    *handoff.Built // what was really done
	// renew does again what a change of ids undoes.
	renew func() error

	scratch scratch
	layers  layers
	masker  masker
	sized   []int    // roots of tmpfs of their own size
	ipc     []int    // handoff.IPCTables
	flat    []string // mount points of what was to be an overlay, and is read-only

	// Instead is what becomes of entries of an environment, where there is no overlay.
	Instead [][2]string
	// PIDs are ns_last_pid and pid_max of the own pid namespace, where the plan asks for a bound.
	PIDs [2]int
}

// New is a builder of the root that box asks for. What it does it says in out. stack came with the box, or is -1; await waits for the bounds.
func New(box *handoff.Box, out *handoff.Built, stack int, renew func() error, await func() (*handoff.Bounds, error)) *Builder {
	b := &Builder{box: box, out: out, renew: renew, bounds: bounds{await: await}, scratch: scratch{fd: -1}, layers: layers{stack: stack}}
	b.tree = tree{image: box.Root.Kind != 0, fell: &out.Fallbacks, refuse: &box.Refuse}
	b.layers.Builder = b
	b.masker = masker{tree: &b.tree, box: box, scratch: &b.scratch, proc: -1}
	return b
}

// bounds come while the box is being built.
type bounds struct {
	*handoff.Bounds // nil until somebody has waited
	await           func() (*handoff.Bounds, error)
}

// wait waits for them, once, and has what is shown because of them shown after everything else.
func (w *bounds) wait(box *handoff.Box) (err error) {
	if w.Bounds != nil {
		return nil
	}
	if w.Bounds, err = w.await(); err == nil {
		box.Mounts = append(box.Mounts, w.Views...)
	}
	return err
}

// Steps build it, in this order.
var Steps = [...]struct {
	Name string
	Do   func(*Builder) error
}{
	{"propagation", (*Builder).propagation},
	// Sources are opened while the caller's tree is still there.
	{"root", (*Builder).makeRoot},
	{"mounts", (*Builder).mountAll},
	{"pivot_root", (*Builder).pivot},
	// After the fact, from the kernel's own table.
	{"verify", (*Builder).verify},
}

// Descriptors are what the outside needs of it, as handoff.Built says, and belong to the caller from here on.
func (b *Builder) Descriptors() (fds []int) {
	b.out.HasProc, b.out.HasScratch = b.masker.proc >= 0, b.scratch.fd >= 0
	b.out.Sized, b.out.Stacks, b.out.IPC = uint8(len(b.sized)), uint8(len(b.layers.handed)), uint8(len(b.ipc))
	for _, fd := range [...]int{b.masker.proc, b.scratch.fd} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return append(append(append(fds, b.sized...), b.layers.handed...), b.ipc...)
}

// scratch is the one sized tmpfs behind every private writable place. It is
// mounted in a corner of the new root while parts of it are shown where they
// belong, and detached from there before the target starts.
type scratch struct {
	fd   int // its root
	next int // number of the next part
}

const corner = ".scratch"

// propagation keeps mounts apart from the caller's in both directions.
func (b *Builder) propagation() error {
	return fault.Of("mount", "/", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// makeRoot mounts the private tmpfs that becomes the root. It is mounted over
// "/": our own root stays the caller's tree below it until pivot_root, so that
// no directory of the caller is needed as a mount point.
func (b *Builder) makeRoot() error {
	fd, err := newTmpfs("mode", "0755")
	if err != nil {
		return err
	}
	if err := moveMount(fd, unix.AT_FDCWD, "/"); err != nil {
		return err
	}
	b.fd = fd
	if err := b.own(fd, "/"); err != nil {
		return err
	}
	if err := unix.Mkdirat(fd, corner, 0o700); err != nil {
		return fault.Of("mkdir", corner, err)
	}
	options := []string{"mode", "0700"}
	if n := b.box.Scratch.Size; n > 0 {
		options = append(options, "size", strconv.FormatInt(n, 10))
	}
	if n := b.box.Scratch.Inodes; n > 0 {
		// Bounded for good when our own are in it: see boundFiles.
		options = append(options, "nr_inodes", strconv.FormatInt(n+ownInodes, 10))
	}
	if b.scratch.fd, err = newTmpfs(options...); err != nil {
		return err
	}
	if err := b.own(b.scratch.fd, corner); err != nil {
		return err
	}
	if err := moveMount(b.scratch.fd, fd, corner); err != nil {
		return err
	}
	if err := b.layers.open(); err != nil {
		return err
	}
	if err := b.layers.handOut(); err != nil {
		return err
	}
	return b.imageRoot()
}

// ownInodes is more than private places and the mount points in them take.
const ownInodes = 1 << 16

// boundFiles lets the target have as many files in the scratch file system as the
// plan says, beside what is there already.
func (b *Builder) boundFiles() error {
	n := b.box.Scratch.Inodes
	if n == 0 {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(b.scratch.fd, &fs); err != nil {
		return fault.Of("fstatfs", corner, err)
	}
	fd, err := unix.Fspick(b.scratch.fd, "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err != nil {
		return fault.Of("fspick", corner, err)
	}
	defer unix.Close(fd)
	most := n + int64(fs.Files-fs.Ffree)
	if err := unix.FsconfigSetString(fd, "nr_inodes", strconv.FormatInt(most, 10)); err != nil {
		return fault.Of("fsconfig nr_inodes", corner, err)
	}
	return fault.Of("fsconfig reconfigure", corner, unix.FsconfigReconfigure(fd))
}

// nextPart is what newPart will make.
func (s *scratch) nextPart() string { return strconv.Itoa(s.next) }

// newPart makes the next directory of the scratch file system.
func (s *scratch) newPart(mode uint32) (name string, err error) {
	name = strconv.Itoa(s.next)
	s.next++
	return name, fault.Of("mkdir", name, unix.Mkdirat(s.fd, name, mode))
}

// part makes the next directory of the scratch file system, and opens it.
func (s *scratch) part(mode uint32) (fd int, err error) {
	name, err := s.newPart(mode)
	if err != nil {
		return -1, err
	}
	return s.open(name)
}

func (s *scratch) open(name string) (fd int, err error) {
	fd, err = unix.Openat(s.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return fd, fault.Of("open", name, err)
}

// newTmpfs makes a tmpfs, mounted nowhere. options are pairs.
func newTmpfs(options ...string) (fd int, err error) {
	return newFS("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, options...)
}

func newFS(kind string, attr int, options ...string) (fd int, err error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fault.Of("fsopen", kind, err)
	}
	defer unix.Close(fs)
	for i := 0; i < len(options); i += 2 {
		if options[i+1] == "" {
			err = unix.FsconfigSetFlag(fs, options[i])
		} else {
			err = unix.FsconfigSetString(fs, options[i], options[i+1])
		}
		if err != nil {
			return -1, fault.Of("fsconfig "+options[i], kind, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fault.Of("fsconfig create", kind, err)
	}
	fd, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	return fd, fault.Of("fsmount", kind, err)
}

// moveMount mounts what fd holds at path under dir. An empty path is dir itself.
func moveMount(fd, dir int, path string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	return fault.Of("move_mount", path, unix.MoveMount(fd, "", dir, path, flags))
}

// finishRoot takes the corner out of the private root, and makes that read-only.
func (b *Builder) finishRoot() error {
	// Into the old root, with which it is detached: each unmount waits until no processor looks at the tree any more.
	// This directory is always there: our null device came from it.
	if err := moveMount(b.scratch.fd, unix.AT_FDCWD, "/dev"); err != nil {
		return err
	}
	if err := unix.Unlinkat(b.fd, corner, unix.AT_REMOVEDIR); err != nil {
		return fault.Of("rmdir", corner, err)
	}
	if err := b.restrict(b.fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, false); err != nil {
		return err
	}
	if b.fell.MountSetattr {
		if err := remount(b.fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return fault.Of("mount MS_REMOUNT", "/", err)
		}
	}
	return nil
}

// pivot makes the new root the root, and lets go of the caller's tree.
func (b *Builder) pivot() error {
	b.forget("/")
	b.masker.close()
	stowProgram()
	if !b.image { // else the corner lies beneath the root, and goes with the old one
		if err := b.finishRoot(); err != nil {
			return err
		}
	}
	if err := unix.Fchdir(b.fd); err != nil {
		return fault.Of("fchdir", "/", err)
	}
	// Both names are ".": the old root is stacked on the new one, and taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fault.Of("pivot_root", "/", err)
	}
	if b.image { // the private root, with its corners, is stacked on the old one
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return fault.Of("umount", "private root", err)
		}
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fault.Of("umount", "old root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fault.Of("chdir", "/", err)
	}
	_ = unix.Close(b.fd)
	return nil
}

// stowProgram mounts what this program was executed by in the old root, with which it is unmounted.
func stowProgram() {
	var own, is unix.Stat_t
	if unix.Fstat(linux.ProgramFD, &is) == nil && unix.Stat("/proc/self/exe", &own) == nil && own.Dev == is.Dev && own.Ino == is.Ino {
		_ = moveMount(linux.ProgramFD, unix.AT_FDCWD, "/dev/null")
		_ = unix.Close(linux.ProgramFD)
	}
}

// empty makes the empty directory, or file, that masks are made of, and opens it.
func (s *scratch) empty(dir bool) (fd int, err error) {
	name := "empty-file"
	if dir {
		name = "empty-dir"
		err = unix.Mkdirat(s.fd, name, 0)
	} else {
		err = unix.Mknodat(s.fd, name, unix.S_IFREG, 0)
	}
	if err != nil {
		return -1, fault.Of("mknod", name, err)
	}
	fd, err = unix.Openat(s.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return fd, fault.Of("open", name, err)
}
