package changes

import "golang.org/x/sys/unix"

// removeAll removes name and what is below it, on its file system only. It holds
// few descriptors, follows nothing, and removes also what its owner can't read. A
// directory has to have the inode number ino, unless that is 0: somebody may put
// another one there.
func removeAll(dir int, name string, ino uint64) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR {
		return err
	}
	top, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	n, err := statFD(top)
	if err != nil {
		return err
	}
	if ino != 0 && n.ino != ino {
		return unix.ESTALE
	}
	// Without leave to search it not even it itself can be opened by way of it.
	if n.mode&0o700 != 0o700 {
		if err := unix.Chmod(procPath(top), n.mode|0o700); err != nil && err != unix.EPERM {
			return err
		}
	}
	// Each path is seen twice: to empty it, and to remove it.
	for todo, stuck := []string{""}, 0; len(todo) > 0; {
		path := todo[len(todo)-1]
		subs, err := emptied(top, path, n.dev)
		if err != nil {
			return err
		}
		if len(subs) > 0 {
			todo = append(todo, subs...)
			continue
		}
		if path == "" {
			err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		} else {
			err = removeEmpty(top, path)
		}
		switch {
		case err == nil || err == unix.ENOENT:
			todo = todo[:len(todo)-1]
		case err == unix.ENOTEMPTY && stuck < 100: // somebody puts things there
			stuck++
		default:
			return err
		}
	}
	return nil
}

func removeEmpty(top int, path string) error {
	parent, last := split(path)
	at, err := openBeneath(top, parent, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.Unlinkat(at, last, unix.AT_REMOVEDIR)
}

// emptied removes what isn't a directory from the directory at path, and gives the
// rest.
func emptied(dir int, path string, dev uint64) (subs []string, err error) {
	by, err := openBeneath(dir, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(by)
	n, err := statFD(by)
	if err != nil {
		return nil, err
	}
	if n.dev != dev {
		return nil, unix.EXDEV
	}
	if n.mode&0o700 != 0o700 {
		if err := unix.Chmod(procPath(by), n.mode|0o700); err != nil && err != unix.EPERM {
			return nil, err
		}
	}
	fd, err := unix.Openat(by, ".", dirFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	err = names(fd, func(name string) error {
		err := unix.Unlinkat(fd, name, 0)
		if err == unix.EISDIR {
			subs = append(subs, join(path, name))
			return nil
		}
		if err == unix.ENOENT {
			return nil
		}
		return err
	})
	return subs, err
}
