package attempts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var networkTries = []Try{
	{"connect", 2, Connect},   // NETWORK ADDRESS: and hears what is said
	{"loopback", 1, loopback}, // NETWORK: a server and a client of our own
	{"pair", 0, pair},         // a socket pair
	{"socket", 1, socket},     // FAMILY
	{"datagram", 1, datagram}, // ADDRESS: UDP, and its answer
	{"ping", 1, ping},         // IPv4 address
	{"mptcp", 1, mptcp},       // IPv4 ADDRESS: and hears what is said
	{"resolve", 1, resolve},   // NAME
	{"relay", 2, relay},       // PORT|all ADDRESS: asks what listens on the own loopback to pass it on
}

// patience is how long an answer may take, where there might be none.
const patience = time.Second

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
			return errOf(unix.Socket(f.family, f.kind, f.protocol))
		}
	}
	return fmt.Errorf("%w: family %q", ErrBroken, args[0])
}

func datagram(args []string) error {
	c, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("attempt\n")); err != nil {
		return err
	}
	return errOf(c.Read(make([]byte, 64)))
}

// ping by the socket that anybody may open, or by a raw one.
func ping(args []string) error {
	to, err := netip.ParseAddr(args[0])
	if err != nil || !to.Is4() {
		return fmt.Errorf("%w: %q", ErrBroken, args[0])
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP); err != nil {
			return during("socket", err)
		}
	}
	defer unix.Close(fd)
	echo := []byte{8, 0, 0, 0, 0, 1, 0, 1}
	binary.BigEndian.PutUint16(echo[2:], ^uint16(0x0800+0x0001+0x0001))
	wait := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if err := unix.Sendto(fd, echo, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
		return during("sendto", err)
	}
	_, _, err = unix.Recvfrom(fd, make([]byte, 128), 0)
	return err
}

func mptcp(args []string) error {
	to, err := netip.ParseAddrPort(args[0])
	if err != nil || !to.Addr().Is4() {
		return fmt.Errorf("%w: %q", ErrBroken, args[0])
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return during("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return during("connect", err)
	}
	n, err := unix.Read(fd, make([]byte, 16))
	if err == nil && n == 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

func resolve(args []string) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	found, err := net.DefaultResolver.LookupHost(ctx, args[0])
	fmt.Println(found)
	return err
}

// relay speaks as if a proxy listened there.
func relay(args []string) error {
	ports := []string{args[0]}
	if args[0] == "all" {
		var err error
		if ports, err = listening(); err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
	}
	errs := []error{fmt.Errorf("%d ports listen", len(ports))}
	for _, port := range ports {
		err := connectBy("127.0.0.1:"+port, args[1])
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func connectBy(proxy, to string) error {
	c, err := net.DialTimeout("tcp", proxy, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to); err != nil {
		return err
	}
	said, err := bufio.NewReader(c).ReadString('\n')
	if _, port, _ := net.SplitHostPort(to); err == nil && strings.TrimSpace(said) != Hello+" "+port {
		return fmt.Errorf("%s says %q", proxy, said)
	}
	return err
}

// Hello is what a listener says, and then its port.
const Hello = "attempt got through"

// listening are the ports of the own network namespace on which something listens.
func listening() (ports []string, err error) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(b) {
			f := bytes.Fields(line)
			if len(f) < 4 || string(f[3]) != "0A" {
				continue
			}
			_, port, _ := strings.Cut(string(f[1]), ":")
			if n, err := strconv.ParseUint(port, 16, 16); err == nil {
				ports = append(ports, strconv.FormatUint(n, 10))
			}
		}
	}
	return ports, nil
}
