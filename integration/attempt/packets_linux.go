package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// packetTries are what a program does to a network that is led somewhere else.
var packetTries = []attempts.Try{
	{Name: "bind-to", Args: 2, Do: bindTo},          // NETWORK ADDRESS: and nothing else
	{Name: "from", Args: 4, Do: from},               // NETWORK SOURCE ADDRESS TEXT: bound to a source, and is answered there
	{Name: "sockopt", Args: 1, Do: sockopt},         // NAME: on a socket of one's own
	{Name: "rtnetlink", Args: 1, Do: rtnetlink},     // WHAT: a change of the network
	{Name: "segments", Args: 3, Do: segments},       // ADDRESS N SIZE: N datagrams by one call; each is answered
	{Name: "fragments", Args: 2, Do: fragments},     // ADDRESS SIZE: one datagram in pieces of 1280 bytes
	{Name: "many-flows", Args: 3, Do: manyFlows},    // ADDRESS N TEXT: datagrams from as many ports, nobody waits
	{Name: "bounce", Args: 3, Do: bounce},           // A B TEXT: to B in the name of A, and says how many came back
	{Name: "unanswered", Args: 2, Do: unanswered},   // ADDRESS TEXT: a datagram that is refused is told so
	{Name: "reconnected", Args: 3, Do: reconnected}, // ADDRESS TEXT N: one after the other
}

const patience = 10 * time.Second

func bindTo(args []string) error {
	if args[0] == "tcp" {
		_, err := net.Listen(args[0], args[1])
		return err
	}
	_, err := net.ListenPacket(args[0], args[1])
	return err
}

func dialFrom(network, source, to string) (net.Conn, error) {
	a, err := netip.ParseAddrPort(source)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	d := net.Dialer{Timeout: patience}
	if network == "tcp" {
		d.LocalAddr = net.TCPAddrFromAddrPort(a)
	} else {
		d.LocalAddr = net.UDPAddrFromAddrPort(a)
	}
	return d.Dial(network, to)
}

func from(args []string) error {
	c, err := dialFrom(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(args[3])); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	if err != nil {
		return err
	}
	fmt.Printf("%s came to %s\n", buf[:n], c.LocalAddr())
	return nil
}

// options are those by which a socket would pass by the redirection.
var options = map[string]struct{ family, level, name int }{
	"transparent":  {unix.AF_INET, unix.SOL_IP, unix.IP_TRANSPARENT},
	"transparent6": {unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_TRANSPARENT},
	"mark":         {unix.AF_INET, unix.SOL_SOCKET, unix.SO_MARK},
	"mark6":        {unix.AF_INET6, unix.SOL_SOCKET, unix.SO_MARK},
}

func sockopt(args []string) error {
	o, ok := options[args[0]]
	if !ok {
		return fmt.Errorf("%w: option %q", attempts.ErrBroken, args[0])
	}
	fd, err := unix.Socket(o.family, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	const mark = 0x636f6e66 // of the gateway's packets; 1 or more is on, too
	return unix.SetsockoptInt(fd, o.level, o.name, mark)
}

// changes are netlink messages of the kind that would lead packets elsewhere.
var changes = map[string]struct {
	kind uint16
	body []byte
}{
	"route":   {unix.RTM_NEWROUTE, []byte{unix.AF_INET, 32, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0, 8, 0, unix.RTA_DST, 0, 10, 9, 8, 7, 8, 0, unix.RTA_OIF, 0, 1, 0, 0, 0}},
	"address": {unix.RTM_NEWADDR, []byte{unix.AF_INET, 32, 0, 0, 1, 0, 0, 0, 8, 0, unix.IFA_LOCAL, 0, 10, 9, 8, 7}},
	"link":    {unix.RTM_NEWLINK, []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, unix.IFLA_MTU, 0, 0, 0x40, 0, 0}},
	"rule":    {unix.RTM_NEWRULE, []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, unix.RTN_UNICAST, 0, 0, 0, 0}},
}

func rtnetlink(args []string) error {
	c, ok := changes[args[0]]
	if !ok {
		return fmt.Errorf("%w: change %q", attempts.ErrBroken, args[0])
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	flags := uint16(unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE)
	size := uint32(unix.SizeofNlMsghdr + len(c.body))
	m := append([]byte{byte(size), byte(size >> 8), 0, 0, byte(c.kind), byte(c.kind >> 8), byte(flags), byte(flags >> 8), 1, 0, 0, 0, 0, 0, 0, 0}, c.body...)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("%w: %d bytes of an answer", attempts.ErrBroken, n)
	}
	answer := buf[unix.SizeofNlMsghdr:n]
	if errno := -int32(uint32(answer[0]) | uint32(answer[1])<<8 | uint32(answer[2])<<16 | uint32(answer[3])<<24); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}

func segments(args []string) error {
	n := attempts.Numbers(args[1:])
	c, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	u := c.(*net.UDPConn)
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	err2 := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, int(n[1])) })
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if _, err := u.Write(make([]byte, n[0]*n[1])); err != nil {
		return err
	}
	return answers(u, int(n[0]))
}

func answers(c net.Conn, n int) error {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 1<<16)
	for range n {
		size, err := c.Read(buf)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", buf[:size])
	}
	return nil
}

func fragments(args []string) error {
	n := attempts.Numbers(args[1:])
	c, err := net.Dial("udp6", args[0])
	if err != nil {
		return err
	}
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	err2 := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_MTU, 1280) })
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if _, err := c.Write(make([]byte, n[0])); err != nil {
		return err
	}
	return answers(c, 1)
}

func manyFlows(args []string) error {
	n := attempts.Numbers(args[1:2])
	for range n[0] {
		c, err := net.Dial("udp", args[0])
		if err != nil {
			return err
		}
		if _, err := c.Write([]byte(args[2])); err != nil {
			return err
		}
		c.Close()
	}
	fmt.Println("sent")
	return nil
}

// bounce has B answer A, and A is nobody but us.
func bounce(args []string) error {
	a, err := net.ResolveUDPAddr("udp4", args[0])
	if err != nil {
		return err
	}
	b, err := net.ResolveUDPAddr("udp4", args[1])
	if err != nil {
		return err
	}
	c, err := net.DialUDP("udp4", a, b)
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte(args[2])); err != nil {
		return err
	}
	if err := answers(c, 1); err != nil {
		return err
	}
	return c.Close()
}

func unanswered(args []string) error {
	c, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(args[1])); err != nil {
		return err
	}
	n, err := c.Read(make([]byte, 1<<16))
	fmt.Println(n)
	return err
}

func reconnected(args []string) error {
	n := attempts.Numbers(args[2:])
	for range n[0] {
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		_, _ = c.Write([]byte(args[1]))
		_, _ = c.Read(make([]byte, 1))
		c.Close()
	}
	return nil
}
