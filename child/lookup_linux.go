package child

import (
	"strings"

	"golang.org/x/sys/unix"
)

// lookPath finds the command as execvp does, inside: in the PATH that the
// target gets, in the root that it sees.
func lookPath(name string, env []string) (path string, err error) {
	if name == "" {
		return "", unix.ENOENT
	}
	if strings.IndexByte(name, '/') >= 0 {
		return name, executable(name)
	}
	list := "/usr/local/bin:/usr/bin:/bin"
	for _, e := range env {
		if after, ok := strings.CutPrefix(e, "PATH="); ok {
			list = after
		}
	}
	err = unix.ENOENT
	for more := true; more; {
		var dir string
		dir, list, more = strings.Cut(list, ":")
		if dir == "" {
			dir = "."
		}
		path = dir + "/" + name
		switch e := executable(path); e {
		case nil:
			return path, nil
		case unix.EACCES:
			err = e // found, but not executable; another one may be
		}
	}
	return name, err
}

func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES // a directory, a FIFO, …
	}
	return unix.Access(path, unix.X_OK)
}
