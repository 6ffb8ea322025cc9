package emulate

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Unix sockets are connected by us, too: a descriptor that is one when it is looked at
// may be one of IPv4 when the kernel makes the call. But paths would be looked up by
// us, who are not under the target's Landlock rules. So a path leads to nothing but
// sockets that were bound inside: the file that it names is opened once, and the
// kernel says whose socket belongs to that file, which is never another.

// established is TCP_ESTABLISHED, which unix sockets use, too.
const established = 1

// maxOwn bounds the sockets that are noted as bound inside; further ones can't be reached.
const maxOwn = 65536

// rememberBound remembers a unix socket of the target's, when it is about to be bound. Whichever it is, it is one that the
// target has.
func (s *Calls) rememberBound(k *socket) {
	if k.family != unix.AF_UNIX {
		return
	}
	cookie, err := unix.GetsockoptUint64(k.fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.own) < maxOwn {
		s.own[cookie] = true
	}
}

// connectUnix connects to what was bound inside.
func (s *Calls) connectUnix(c *caller, k *socket, sockaddr []byte) unix.Errno {
	if familyOf(sockaddr) == unix.AF_UNSPEC {
		return rawConnect(k.fd, make([]byte, 16))
	}
	to, done, errno := s.unixTarget(c, k, sockaddr)
	if errno != 0 {
		return errno
	}
	defer done()
	return rawConnect(k.fd, to)
}

// whyOutside: the socket is not one of the run's own.
const whyOutside = "outside"

// unixTarget is what a name leads to, as an address that can't lead elsewhere until
// done is called.
func (s *Calls) unixTarget(c *caller, k *socket, sockaddr []byte) (to []byte, done func(), errno unix.Errno) {
	if familyOf(sockaddr) != unix.AF_UNIX || len(sockaddr) < 3 || len(sockaddr) > 110 {
		return nil, nil, unix.EINVAL
	}
	name := sockaddr[2:]
	if name[0] == 0 {
		errno = s.judgeUnix(c, k, "@"+string(name[1:]), func(u *linux.UnixSocket) bool { return bytes.Equal(u.Name, name) })
		return sockaddr, func() {}, errno
	}
	path, _, _ := bytes.Cut(name, []byte{0})
	fd, errno := c.openPath(string(path))
	if errno != 0 {
		return nil, nil, errno
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		_ = unix.Close(fd)
		return nil, nil, unix.ECONNREFUSED
	}
	dev, ok := device(fd)
	if !ok || st.Ino > 1<<32-1 {
		_ = unix.Close(fd)
		return nil, nil, unix.EACCES
	}
	errno = s.judgeUnix(c, k, string(path), func(u *linux.UnixSocket) bool {
		return u.File && u.Ino == uint32(st.Ino) && u.Dev == dev
	})
	if errno != 0 {
		_ = unix.Close(fd)
		return nil, nil, errno
	}
	to = append([]byte{unix.AF_UNIX, 0}, linux.FDPath(fd)+"\x00"...)
	return to, func() { _ = unix.Close(fd) }, 0
}

// stableInodes are file systems of which stat(2) tells the number that the kernel knows a
// file by; of others a socket could be taken for one of the run's own.
var stableInodes = [...]int64{
	unix.TMPFS_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
}

// device is the number of the file system that an open file lies on, as the kernel
// lists it: that of the mount, which on btrfs is not the one that stat(2) tells.
func device(fd int) (dev uint32, ok bool) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || !slices.Contains(stableInodes[:], int64(fs.Type)) {
		return 0, false
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, false
	}
	mount := 0
	for line := range strings.Lines(string(info)) {
		if id, found := strings.CutPrefix(line, "mnt_id:"); found {
			mount, _ = strconv.Atoi(strings.TrimSpace(id))
		}
	}
	at, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.ID != mount, m.ID == mount })
	if err != nil || len(at) == 0 {
		return 0, false
	}
	return linux.Device(uint32(at[0].Major), uint32(at[0].Minor)), true
}

// openPath opens what a path of the caller's names, without opening it for anything. No
// link of /proc is followed: they would lead where we are.
func (c *caller) openPath(path string) (int, unix.Errno) {
	cwd, err := unix.Open("/proc/"+strconv.Itoa(c.asked.TID)+"/cwd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || !c.asked.Waits() {
		if err == nil {
			_ = unix.Close(cwd)
		}
		return -1, unix.EACCES
	}
	defer unix.Close(cwd)
	fd, err := unix.Openat2(cwd, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, errnoOf(err)
	}
	return fd, 0
}

// judgeUnix says whether all sockets of a name were bound inside. Of those that are
// connected already the name is the one of who accepted them.
func (s *Calls) judgeUnix(c *caller, k *socket, name string, match func(*linux.UnixSocket) bool) unix.Errno {
	all, err := linux.UnixSockets()
	if err != nil {
		return unix.EACCES // nobody can say whose it is
	}
	found, own := false, true
	s.mu.Lock()
	for i := range all {
		u := &all[i]
		if match(u) && (u.Kind == unix.SOCK_DGRAM || u.State != established) {
			found, own = true, own && s.own[u.Cookie]
		}
	}
	s.mu.Unlock()
	switch {
	case !found:
		return unix.ECONNREFUSED
	case own:
		return 0
	}
	s.g.RefusedUnix(printable(name), whyOutside, func() (int, string) {
		c.identify()
		return c.pid, c.comm
	})
	return unix.EACCES
}

func printable(name string) string {
	quoted := strconv.Quote(name)
	if quoted == `"`+name+`"` {
		return name
	}
	return quoted
}
