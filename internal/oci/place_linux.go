package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// placeDir has in the supervisor's mount namespace what a container is made of. It is a directory that everybody can go through, wherever the bundle is.
const placeDir = "/run/confine-oci-tree"

func (c *Container) show() error {
	f := &c.Policy.Filesystem
	if err := show(&f.Rootfs, "root", false); err != nil {
		return err
	}
	host, err := os.Stat("/")
	if err != nil {
		return err
	}
	if its, err := os.Stat(f.Rootfs); err != nil || os.SameFile(host, its) {
		return errors.Join(err, errors.New("this runtime refuses root.path /: the host's root is no container's"))
	}
	root, err := unix.Open(f.Rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: f.Rootfs, Err: err}
	}
	defer unix.Close(root)
	for i := range f.Mounts {
		m, dir := &f.Mounts[i], true
		if m.Size == 0 {
			if err := show(&m.Src, strconv.Itoa(i), true); err != nil {
				return err
			}
			info, err := os.Lstat(m.Src)
			if err != nil {
				return err
			}
			dir = info.IsDir()
		}
		if err := makePoint(root, m.Dst, dir); err != nil && err != unix.EROFS { // where there is none, the sandbox says so
			return fmt.Errorf("mounts %s: %w", m.Dst, err)
		}
	}
	return nil
}

// makePoint makes the place of a mount in a root that lacks it, as every runtime does: the container's user may have no right to. Links lead nowhere else.
func makePoint(root int, at string, dir bool) error {
	open := func(name string) (int, error) {
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
		return unix.Openat2(root, name, &how)
	}
	if fd, err := open(at); err == nil {
		return unix.Close(fd)
	}
	parent := filepath.Dir(at)
	if parent != "/" {
		if err := makePoint(root, parent, true); err != nil {
			return err
		}
	}
	fd, err := open(parent)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if dir {
		return unix.Mkdirat(fd, filepath.Base(at), 0o755)
	}
	file, err := unix.Openat(fd, filepath.Base(at), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(file)
}

// show resolves a tree or a file, once, and mounts it in placeDir, which becomes its path. deep: with what is mounted below.
func show(path *string, name string, deep bool) error {
	fd, err := unix.Open(*path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: *path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "fstat", Path: *path, Err: err}
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		return fmt.Errorf("this runtime refuses mounts of devices: %s", *path)
	}
	at := filepath.Join(placeDir, name)
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = os.WriteFile(at, nil, 0o644)
	} else if err = os.Mkdir(at, 0o755); deep {
		flags |= unix.AT_RECURSIVE
	}
	if err != nil {
		return err
	}
	tree, err := unix.OpenTree(fd, "", flags)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: *path, Err: err}
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: *path, Err: err}
	}
	if kind, err := kernelsIn(at); err != nil || kind != "" {
		return errors.Join(err, fmt.Errorf("this runtime refuses mounts of what is the kernel's: %s has a %s", *path, kind))
	}
	*path = at
	return nil
}

// kernelsFiles are file systems of the kernel's, in which uid 0 may write without any capability, or devices.
var kernelsFiles = [...]string{"binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs",
	"securityfs", "selinuxfs", "sysfs", "tracefs"}

// kernelsIn finds such a one at a mount point of this thread's, or below.
func kernelsIn(at string) (kind string, err error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return "", err
	}
	for l := range strings.Lines(string(text)) {
		before, after, ok := strings.Cut(l, " - ")
		fields, behind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(behind) < 1 {
			return "", fmt.Errorf("mountinfo: %q", l)
		}
		if point := fields[4]; (point == at || strings.HasPrefix(point, at+"/")) && slices.Contains(kernelsFiles[:], behind[0]) {
			return behind[0], nil
		}
	}
	return "", nil
}

// place puts the calling thread, and what it starts, into a mount namespace that has the sources in placeDir, and into the network namespace of the bundle.
func (c *Container) place() error {
	if err := os.MkdirAll(placeDir, 0o711); err != nil {
		return err
	}
	// Whoever is told to join the namespaces of the container by its pid comes to be in the supervisor's: these aren't the host's either.
	own := unix.CLONE_NEWNS | unix.CLONE_FS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !c.Policy.Network.All {
		own |= unix.CLONE_NEWNET
	}
	if err := unix.Unshare(own); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// What the host unmounts goes here too; what is mounted here is seen by nobody there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount /: %w", err)
	}
	if err := unix.Mount("confine", placeDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0711,size=1m"); err != nil {
		return fmt.Errorf("mount %s: %w", placeDir, err)
	}
	if err := c.show(); err != nil {
		return err
	}
	if c.NetNS == "" {
		return nil
	}
	fd, err := unix.Open(c.NetNS, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: c.NetNS, Err: err}
	}
	defer unix.Close(fd)
	if err := c.mayChange(fd); err != nil {
		return err
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return &os.PathError{Op: "setns", Path: c.NetNS, Err: err}
	}
	for name, value := range c.Sysctls { // of the namespace that the thread is in
		path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// mayChange refuses settings of a network that is this process's own, by whatever path: the engine's, and so the host's.
func (c *Container) mayChange(netns int) error {
	var its, own unix.Stat_t
	err := unix.Fstat(netns, &its)
	if err == nil {
		err = unix.Stat("/proc/thread-self/ns/net", &own)
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: c.NetNS, Err: err}
	}
	if len(c.Sysctls) > 0 && its.Dev == own.Dev && its.Ino == own.Ino {
		return fmt.Errorf("this runtime refuses linux.sysctl where %s is the host's network", c.NetNS)
	}
	return nil
}
