package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The world's ports for datagrams.
const (
	portEcho  = 7
	portSizes = 1006 // answers how long a datagram was
)

func serveDatagrams() error {
	told := func(port int, answer func(payload []byte) []byte) error {
		at.doors = append(at.doors, port)
		return datagrams(port, func(to netip.Addr, payload []byte) []byte {
			if string(payload) == lastWord {
				return payload
			}
			seen.add("udp %s %d", netip.AddrPortFrom(to, uint16(port)), len(payload))
			return answer(payload)
		})
	}
	for _, port := range []int{portEcho, 443} {
		if err := told(port, func(payload []byte) []byte { return payload }); err != nil {
			return err
		}
	}
	return told(portSizes, func(payload []byte) []byte { return []byte(strconv.Itoa(len(payload))) })
}

// datagrams answers at every address, from that address.
func datagrams(port int, answer func(to netip.Addr, payload []byte) []byte) error {
	for _, network := range []string{"udp4", "udp6"} {
		var l net.ListenConfig
		l.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			err2 := raw.Control(func(fd uintptr) {
				if network == "udp4" {
					err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_PKTINFO, 1)
				} else {
					err = errors.Join(
						unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1),
						unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1), // to answer from anywhere
					)
				}
			})
			if err == nil {
				err = err2
			}
			return err
		}
		c, err := l.ListenPacket(context.Background(), network, fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		go answerAll(c.(*net.UDPConn), answer)
	}
	return nil
}

func answerAll(c *net.UDPConn, answer func(to netip.Addr, payload []byte) []byte) {
	buf, oob := make([]byte, 64<<10), make([]byte, 128)
	for {
		n, oobn, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			continue
		}
		to, as := meant(oob[:oobn])
		if b := answer(to, buf[:n]); b != nil {
			_, _, _ = c.WriteMsgUDPAddrPort(b, as, from)
		}
	}
}

// meant is the address that a datagram was sent to, and the control message that
// sends from there.
func meant(oob []byte) (to netip.Addr, as []byte) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_PKTINFO:
			to = netip.AddrFrom4([4]byte(m.Data[8:12]))
			as = unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: to.As4()})
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_PKTINFO:
			to = netip.AddrFrom16([16]byte(m.Data[:16]))
			as = unix.PktInfo6(&unix.Inet6Pktinfo{Addr: to.As16()})
		}
	}
	return to, as
}
