package host

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// newFS makes a file system, mounted nowhere. options are pairs; an empty
// second word makes a flag. It is done as the inside of a run does it: an answer
// for mount(2) would be none for fsopen(2), to a seccomp filter for one.
func newFS(kind string, options ...string) (fd int, err error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, refuse("fsopen("+kind+")", err)
	}
	defer unix.Close(fs)
	for i := 0; i < len(options); i += 2 {
		if options[i+1] == "" {
			err = unix.FsconfigSetFlag(fs, options[i])
		} else {
			err = unix.FsconfigSetString(fs, options[i], options[i+1])
		}
		if err != nil {
			return -1, refuse("fsconfig("+kind+", "+options[i]+")", err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, refuse("fsconfig("+kind+", create)", err)
	}
	fd, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID)
	return fd, refuse("fsmount("+kind+")", err)
}

// show mounts what fd holds in a new directory of the private root.
func (p *inProbe) show(fd int, name string) error {
	if err := unix.Mkdirat(p.root, name, 0o755); err != nil {
		return refuse("mkdir("+name+")", err)
	}
	return refuse("move_mount("+name+")", unix.MoveMount(fd, "", p.root, name, unix.MOVE_MOUNT_F_EMPTY_PATH))
}

func (p *inProbe) tmpfs() error {
	fd, err := newFS("tmpfs", "mode", "0755", "size", "1048576", "nr_inodes", "100")
	if err != nil {
		return err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return refuse("move_mount(/)", err)
	}
	if err := unix.Mkdirat(fd, "lower", 0o755); err != nil {
		return refuse("mkdir on tmpfs", err)
	}
	p.root = fd
	return nil
}

// tmpfsXattr asks for an attribute that isn't there.
func (p *inProbe) tmpfsXattr() error {
	_, err := unix.Getxattr("/proc/self/fd/"+strconv.Itoa(p.root)+"/lower", "user.overlay.opaque", nil)
	if err == unix.ENODATA {
		return nil
	}
	return refuse("getxattr(user.overlay.opaque)", err)
}

func (p *inProbe) openTree() error {
	old, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return refuse("open(/)", err)
	}
	defer unix.Close(old)
	tree, err := unix.OpenTree(old, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return refuse("open_tree(/)", err)
	}
	defer unix.Close(tree)
	return p.show(tree, "old")
}

func (p *inProbe) mountSetattr() error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return refuse("mount_setattr(AT_RECURSIVE, MOUNT_ATTR_RDONLY)",
		unix.MountSetattr(p.root, "old", unix.AT_RECURSIVE, &attr))
}

func (p *inProbe) procMount() error {
	fd, err := newFS("proc")
	if err != nil {
		return err
	}
	if err := p.show(fd, "proc"); err != nil {
		return err
	}
	p.proc = fd
	return nil
}

// pidMax writes what was read, and only where the setting is known to be the
// namespace's own: before that it is the host's, and root's to change.
func (p *inProbe) pidMax() error {
	if v := ParseKernel(unameRelease()); !v.AtLeast(Kernel{6, 14}) {
		return refuse("kernel.pid_max is the host's on Linux "+v.String(), unsaid)
	}
	const path = "sys/kernel/pid_max"
	fd, err := unix.Openat(p.proc, path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return refuse("open("+path+")", err)
	}
	defer unix.Close(fd)
	var buf [32]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return refuse("read("+path+")", err)
	}
	_, err = unix.Pwrite(fd, buf[:n], 0)
	return refuse("write("+path+")", err)
}

func (p *inProbe) devpts() error {
	fd, err := newFS("devpts", "newinstance", "", "ptmxmode", "0666", "mode", "0620")
	if err != nil {
		return err
	}
	if err := p.show(fd, "pts"); err != nil {
		return err
	}
	pty, err := unix.Openat(fd, "ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return refuse("open(ptmx)", err)
	}
	_ = unix.Close(pty)
	return nil
}

// overlay is tried with a write through it: some kernels mount what they then
// can't write.
func (p *inProbe) overlay() error {
	var paths []string
	for _, name := range []string{"lower", "upper", "work"} {
		if err := unix.Mkdirat(p.root, name, 0o755); err != nil && err != unix.EEXIST {
			return refuse("mkdir("+name+")", err)
		}
		dir, err := unix.Openat(p.root, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return refuse("open("+name+")", err)
		}
		defer unix.Close(dir)
		paths = append(paths, "/proc/self/fd/"+strconv.Itoa(dir))
	}
	fd, err := newFS("overlay", "lowerdir", paths[0], "upperdir", paths[1], "workdir", paths[2], "userxattr", "")
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	file, err := unix.Openat(fd, "written", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return refuse("open(overlay, O_CREAT)", err)
	}
	_ = unix.Close(file)
	return refuse("stat(upper)", unix.Faccessat(p.root, "upper/written", unix.F_OK, 0))
}

func (p *inProbe) pivotRoot() error {
	if err := unix.Fchdir(p.root); err != nil {
		return refuse("fchdir", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return refuse("pivot_root", err)
	}
	return refuse("umount2(MNT_DETACH)", unix.Unmount(".", unix.MNT_DETACH))
}
