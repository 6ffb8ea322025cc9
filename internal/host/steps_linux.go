package host

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/confine/netns"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// inProbe is what one step leaves for a later one.
type inProbe struct {
	root int // the private tmpfs
	proc int // the fresh proc
}

// failed is a step that the kernel refused.
type failed struct {
	op    string
	errno unix.Errno
}

func (f *failed) Error() string { return f.op + ": " + f.errno.Error() }

func refuse(op string, err error) error {
	if err == nil {
		return nil
	}
	errno, ok := err.(unix.Errno)
	if !ok {
		errno = unix.EIO
	}
	return &failed{op, errno}
}

// unsaid stands for the errno of a refusal that is ours and not the kernel's
// (it is the largest errno that a call can give, and none is called that).
const unsaid = unix.Errno(4095)

type step struct {
	name string
	do   func(*inProbe) error
}

// insideSteps are tried in new namespaces, with every capability over them.
// A step's prerequisites are in the table; one that fails doesn't end the list.
var insideSteps = []step{
	// Before any mount: what is mounted here must not appear outside.
	{"mountns", (*inProbe).mountns},
	{"pidns", (*inProbe).pidns},
	{"utsns", (*inProbe).utsns},
	{"lo_up", (*inProbe).loUp},
	{"nft_tproxy", (*inProbe).tproxy},
	// The tmpfs is where the others are mounted.
	{"tmpfs", (*inProbe).tmpfs},
	{"tmpfs_xattr", (*inProbe).tmpfsXattr},
	{"open_tree", (*inProbe).openTree},
	{"mount_setattr", (*inProbe).mountSetattr},
	{"proc_mount", (*inProbe).procMount},
	{"pid_max_ns", (*inProbe).pidMax},
	{"devpts", (*inProbe).devpts},
	{"overlay", (*inProbe).overlay},
	{"rlimit_nproc_userns", (*inProbe).nproc},
	// Last of the mounts: the old root is gone after it.
	{"pivot_root", (*inProbe).pivotRoot},
}

// plainSteps need no namespace. The filter comes last, as it can't be undone.
var plainSteps = []step{
	{"no_new_privs", (*inProbe).noNewPrivs},
	{"seccomp", (*inProbe).seccomp},
}

func (p *inProbe) mountns() error {
	return refuse("mount(MS_REC|MS_PRIVATE)", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// tproxy sends what a run with an allowlist would.
func (p *inProbe) tproxy() error {
	for _, r := range netns.Inside(netns.Config{Others: true}).Requests {
		if r.Role == handoff.RoleRedirect {
			return refuse("netlink "+r.Name, linux.Netlink(int(r.Protocol), r.Messages, int(r.Acks)))
		}
	}
	return refuse("netlink", unsaid)
}

func (p *inProbe) pidns() error {
	if pid := os.Getpid(); pid != 1 {
		return refuse("getpid gives "+strconv.Itoa(pid)+" in a new pid namespace", unsaid)
	}
	return nil
}

func (p *inProbe) utsns() error {
	return refuse("sethostname", unix.Sethostname([]byte("probe")))
}

func (p *inProbe) loUp() error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return refuse("socket(AF_INET)", err)
	}
	defer unix.Close(sock)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return refuse("ifreq", err)
	}
	if err := unix.IoctlIfreq(sock, unix.SIOCGIFFLAGS, lo); err != nil {
		return refuse("ioctl(SIOCGIFFLAGS)", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return refuse("ioctl(SIOCSIFFLAGS)", unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, lo))
}

// nproc forks under a limit that is used up already: it is held where the fork
// fails. The kernel holds it for nobody who is uid 0 outside.
func (p *inProbe) nproc() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return refuse("uname", err)
	}
	errno := forkUnderLimit()
	if errno != unix.EAGAIN {
		if errno == 0 {
			return refuse("fork over RLIMIT_NPROC is not refused", unsaid)
		}
		return refuse("fork", errno)
	}
	// Before 5.14 the count was the user's over all namespaces: no limit of one run.
	if v := ParseKernel(unix.ByteSliceToString(u.Release[:])); !v.IsZero() && !v.AtLeast(Kernel{5, 14}) {
		return refuse("RLIMIT_NPROC counts all processes of the user on Linux "+v.String(), unsaid)
	}
	return nil
}
