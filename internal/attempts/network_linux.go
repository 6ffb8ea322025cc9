package attempts

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

var networkTries = []Try{
	{"connect", 2, Connect},   // NETWORK ADDRESS: and hears what is said
	{"loopback", 1, loopback}, // NETWORK: a server and a client of our own
	{"pair", 0, pair},         // a socket pair
	{"socket", 1, socket},     // FAMILY
}

// Connect connects to NETWORK ADDRESS.
func Connect(args []string) error {
	c, err := net.Dial(args[0], args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	fmt.Printf("%s", text)
	return err
}

func loopback(args []string) error {
	address := "127.0.0.1:0"
	switch args[0] {
	case "tcp6":
		address = "[::1]:0"
	case "unix":
		address = "@attempt-loopback"
	}
	l, err := net.Listen(args[0], address)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Write([]byte("hello\n"))
			err = errors.Join(err, c.Close())
		}
		served <- err
	}()
	if err := Connect([]string{args[0], l.Addr().String()}); err != nil {
		return err
	}
	return <-served
}

func pair([]string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fds[0], []byte("x"))
	return err
}

// families are those that a program has no business with.
var families = []struct {
	name                   string
	family, kind, protocol int
}{
	{"inet", unix.AF_INET, unix.SOCK_STREAM, 0},
	{"inet6", unix.AF_INET6, unix.SOCK_STREAM, 0},
	{"unix", unix.AF_UNIX, unix.SOCK_STREAM, 0},
	{"netlink", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
	{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	{"packet", unix.AF_PACKET, unix.SOCK_RAW, 0},
	{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
	{"audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
	{"mptcp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
	{"mptcp6", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
	{"raw6", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_UDP},
	{"packets", unix.AF_PACKET, unix.SOCK_DGRAM, 0},
	{"netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
	{"sctp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
}

func socket(args []string) error {
	for _, f := range families {
		if f.name == args[0] {
			_, err := unix.Socket(f.family, f.kind, f.protocol)
			return err
		}
	}
	return fmt.Errorf("%w: family %q", ErrBroken, args[0])
}
