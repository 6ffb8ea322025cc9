package network

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// Loopback brings lo up, so that servers and clients inside can talk.
func Loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fault.Of("socket", "AF_INET", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fault.Of("ifreq", "lo", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return fault.Of("ioctl SIOCSIFFLAGS", "lo", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}

// setup is what goes on.
type setup struct {
	sock         int // to the supervisor
	fell, refuse *handoff.Fallbacks
}

// Prepare prepares the own network namespace and hands the sockets out that are all
// its ways to anywhere.
func Prepare(box *handoff.Box, fell *handoff.Fallbacks, sock int) error {
	n, s := &box.Network, &setup{sock, fell, &box.Refuse}
	if len(n.Sockets) == 0 && !n.Dials {
		return nil
	}
	s.fell.NoIPv6 = !hasIPv6()
	if err := s.requests(n.Requests); err != nil {
		return err
	}
	if n.Pings && setPingGroup(n.Ping) != nil {
		s.fell.NoPing = true
	}
	made := n.Made(*s.fell)
	for len(made) > 0 {
		some := made[:min(len(made), maxRights)]
		made = made[len(some):]
		if err := s.handSockets(some); err != nil {
			return err
		}
	}
	if n.Dials {
		// All ports inside are the run's own: a server that is published may have any.
		// Where that can't be set, the kernel refuses it the lowest.
		_ = setOwn("ip_unprivileged_port_start", "0")
		return s.serveDials()
	}
	return nil
}

// maxRights is SCM_MAX_FD: as many descriptors one message carries.
const maxRights = 253

// hasIPv6 says whether lo has its address of that family.
func hasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet6{Addr: [16]byte{15: 1}}) == nil
}

func (s *setup) requests(all []handoff.Netlink) error {
	for i := range all {
		r := &all[i]
		if !r.Role.Wanted(*s.fell) {
			continue
		}
		err := linux.Netlink(int(r.Protocol), r.Messages, int(r.Acks))
		if err == nil {
			continue
		}
		without := *s.fell
		if !r.Role.Without(&without) || without.NoRedirect && s.refuse.NoRedirect {
			return fault.Of("netlink", r.Name, err)
		}
		*s.fell = without
	}
	return nil
}

// setPingGroup lets the target's group make sockets for echo requests.
func setPingGroup(gid uint32) error {
	word := strconv.FormatUint(uint64(gid), 10)
	return setOwn("ping_group_range", word+" "+word)
}

// setOwn sets what the own network namespace has of net.ipv4.
func setOwn(name, value string) error {
	fd, err := unix.Open("/proc/sys/net/ipv4/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return err
}

// handSockets makes sockets and hands them out.
func (s *setup) handSockets(some []*handoff.Socket) error {
	fds := make([]int, 0, len(some))
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, k := range some {
		fd, err := makeSocket(k)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	m := handoff.Sockets{Fallbacks: *s.fell}
	return fault.Of("sendmsg", "", linux.SendFrame(s.sock, handoff.Encode(&m), fds...))
}

func makeSocket(k *handoff.Socket) (fd int, err error) {
	fd, err = unix.Socket(int(k.Family), int(k.Type)|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(k.Protocol))
	if err != nil {
		return -1, fault.Of("socket", "", err)
	}
	failed := func(op string, err error) (int, error) {
		_ = unix.Close(fd)
		return -1, fault.Of(op, "port "+strconv.Itoa(int(k.Port)), err)
	}
	for _, o := range k.Options {
		if err := unix.SetsockoptInt(fd, int(o.Level), int(o.Name), int(o.Value)); err != nil {
			return failed("setsockopt "+strconv.Itoa(int(o.Level))+" "+strconv.Itoa(int(o.Name)), err)
		}
	}
	if k.Address != "" {
		if err := unix.Bind(fd, address(k)); err != nil {
			return failed("bind", err)
		}
	}
	if k.Listen {
		if err := unix.Listen(fd, backlog); err != nil {
			return failed("listen", err)
		}
	}
	return fd, nil
}

// backlog is bounded by net.core.somaxconn anyway.
const backlog = 4096

func address(k *handoff.Socket) unix.Sockaddr {
	if len(k.Address) == 4 {
		a := &unix.SockaddrInet4{Port: int(k.Port)}
		copy(a.Addr[:], k.Address)
		return a
	}
	a := &unix.SockaddrInet6{Port: int(k.Port)}
	copy(a.Addr[:], k.Address)
	return a
}

// serveDials makes a socket for every byte that comes, for as long as this process
// lives: only from in here can anybody reach what listens inside.
func (s *setup) serveDials() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fault.Of("socketpair", "", err)
	}
	m := handoff.Sockets{Fallbacks: *s.fell}
	err = linux.SendFrame(s.sock, handoff.Encode(&m), pair[1])
	_ = unix.Close(pair[1])
	if err != nil {
		return fault.Of("sendmsg", "", err)
	}
	go func() {
		var b [1]byte
		for {
			n, err := linux.Again(func() (int, error) { return unix.Read(pair[0], b[:]) })
			if err != nil || n == 0 {
				return // nobody will ask any more
			}
			var rights []byte
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err == nil {
				rights = unix.UnixRights(fd)
			}
			_ = unix.Sendmsg(pair[0], b[:], rights, nil, unix.MSG_NOSIGNAL)
			if err == nil {
				_ = unix.Close(fd)
			}
		}
	}()
	return nil
}
