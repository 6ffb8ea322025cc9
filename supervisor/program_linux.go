package supervisor

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// The child is this program, and what it starts can get hold of its file: /proc/self/exe is still the child's while the kernel opens what is
// to be executed, such as a script's interpreter, and whoever runs as that then shows the file in /proc/PID/exe, by the mount that the child was
// executed by. By a mount of the caller's the file's mode, times and attributes could be changed from inside, and its text where nobody executes it.

const selfPath = "/proc/self/exe"

// The names of calls by which a child gets a mount of its program that is read-only.
const (
	callOpenTree = "open_tree"
	callMount    = "mount_setattr"
	callStat     = "newfstatat"
	callExecFrom = "execveat"
)

// ofProgram are the calls that execute this program: in a mount namespace of the child's own, by a read-only mount that is made there, of what
// has its name there now and is still the same file. Where there is no such mount, it is a copy. Without a mount namespace the target reaches the
// caller's files by their names.
func ofProgram(namespaces uintptr) ([]linux.Call, error) {
	if namespaces&unix.CLONE_NEWNS == 0 {
		return []linux.Call{linux.Exec(selfPath, childArgv, childEnv)}, nil
	}
	path, err := os.Readlink(selfPath)
	if err != nil {
		return nil, &SetupError{Step: "start", Op: "readlink", Path: selfPath, Errno: errnoOf(err)}
	}
	var own unix.Stat_t
	if err := unix.Stat(selfPath, &own); err != nil {
		return nil, &linux.CallError{Name: "stat", Errno: errnoOf(err)}
	}
	name, empty, file := linux.CString(path), linux.CString(""), new(int32)
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	st := &struct {
		ids  [2]linux.FileID // the second is where a struct stat begins
		rest [unsafe.Sizeof(own)]byte
	}{ids: [2]linux.FileID{{uint64(own.Dev), own.Ino}}}
	here := unix.AT_FDCWD
	return []linux.Call{
		{Name: callOpenTree, Nr: unix.SYS_OPEN_TREE, Result: file, Keep: name,
			Args: [5]uintptr{uintptr(here), uintptr(unsafe.Pointer(name)), unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC}},
		{Name: callMount, Nr: unix.SYS_MOUNT_SETATTR, From: file, Keep: attr,
			Args: [5]uintptr{0, uintptr(unsafe.Pointer(empty)), unix.AT_EMPTY_PATH, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr)}},
		{Name: callStat, Nr: unix.SYS_NEWFSTATAT, From: file, Same: &st.ids, Keep: empty,
			Args: [5]uintptr{0, uintptr(unsafe.Pointer(empty)), uintptr(unsafe.Pointer(&st.ids[1])), unix.AT_EMPTY_PATH}},
		{Name: "dup3 of the program", Nr: unix.SYS_DUP3, From: file, Args: [5]uintptr{0, linux.ProgramFD}},
		linux.ExecFrom(file, childArgv, childEnv),
	}, nil
}

// notReadOnly says whether there was no such mount: the kernel is before Linux 5.12 or keeps it from us, or the file was replaced or moved, or
// what is executed by a descriptor has to have a name in /dev/fd (TOMOYO, up to Linux 6.11), and there is none.
func notReadOnly(err error) bool {
	e, ok := err.(*linux.CallError)
	return ok && (e.Name == callOpenTree || e.Name == callMount || e.Name == callStat || e.Name == callExecFrom)
}

// ofCopy are the calls that execute a copy of this program in memory, which nobody can change. It is by a name in /proc, which has to be there anyhow.
func ofCopy() ([]linux.Call, error) {
	file, err := sealed()
	if err != nil {
		return nil, err
	}
	return []linux.Call{linux.Exec(linux.FDPath(int(file)), childArgv, childEnv)}, nil
}

// copied is that copy, once it was made. One that could not be made is tried again: there may be descriptors by then.
var copied struct {
	sync.Mutex
	file int32 // 0: there is none yet
}

func sealed() (int32, error) {
	copied.Lock()
	defer copied.Unlock()
	if copied.file != 0 {
		return copied.file, nil
	}
	file, err := copySelf()
	if err == nil {
		copied.file = file
	}
	return file, err
}

func copySelf() (file int32, err error) {
	program, err := os.Open(selfPath)
	if err != nil {
		return -1, err
	}
	defer program.Close()
	const flags, exec = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING, unix.MFD_EXEC
	fd, err := unix.MemfdCreate("confine", flags|exec)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate("confine", flags)
	}
	if err != nil {
		return -1, &linux.CallError{Name: "memfd_create", Errno: errnoOf(err)}
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	to := os.NewFile(uintptr(dup), "confine")
	defer to.Close()
	if _, err := to.ReadFrom(program); err != nil {
		return -1, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_EXEC); err == unix.EINVAL { // as above
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	return int32(fd), err
}
