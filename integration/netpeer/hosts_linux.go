package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// host is one of the two network namespaces of a world. The same servers are in both.
type host struct {
	calls     chan func() // to be made by a thread of the namespace; nil: by the caller
	doors     []int       // ports of datagrams
	listeners []*told
}

// here is where the command is: its loopback, its addresses, and a way to every other
// address, which is one of there.
var here, there = &host{}, &host{calls: make(chan func())}

var hosts = []*host{here, there}

// at is the host for which servers are being made.
var at *host

// do calls f in the namespace of the host. One call is made at a time.
func (h *host) do(f func() error) (err error) {
	at = h
	if h.calls == nil {
		return f()
	}
	done := make(chan struct{})
	h.calls <- func() {
		defer close(done)
		err = f()
	}
	<-done
	return err
}

// begin makes the namespace, and a descriptor of it.
func (h *host) begin() (ns int, err error) {
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			ns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		close(ready)
		for call := range h.calls {
			call()
		}
	}()
	<-ready
	return ns, os.NewSyscallError("unshare", err)
}

// What the host of the command has: addresses of its own on an interface, and ranges that only
// a route makes its own (AnyIP).
var (
	own4, own6   = netip.MustParsePrefix("93.184.216.2/32"), netip.MustParsePrefix("2606:2800:220:1::2/128")
	anyIP        = []netip.Prefix{netip.MustParsePrefix("93.184.217.0/24"), netip.MustParsePrefix("2606:2800:221::/48")}
	all4, all6   = netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")
	theirs6      = netip.MustParsePrefix("2606:2800:220:1::3/128")
	ethernet     = []byte{2, 0, 0, 0, 0, 1} // of both ends, so that nobody has to be asked for it
	outside      = "world"                  // the interface here
	inside       = "host"                   // the one there
	indexOfLo    = 1
	biggestFrame = uint32(65535)
)

// network makes the two hosts, with a cable between them.
func network() error {
	ns, err := there.begin()
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	if err := cable(ns); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	for _, h := range hosts {
		if err := h.do(func() error { return errors.Join(up("lo"), up(h.end())) }); err != nil {
			return err
		}
	}
	// The end that came up first sends when the kernel has heard of the other, by a work of its
	// own, and drops what it is given before.
	for _, h := range hosts {
		if err := h.do(func() error { return running(h.end()) }); err != nil {
			return err
		}
	}
	if err := here.do(func() error {
		out, err := net.InterfaceByName(outside)
		if err != nil {
			return err
		}
		// What comes for an IPv6 address is taken when the kernel has entered a route of its own for it, by a work that is done later.
		return errors.Join(address(own4), address(own6), local(own6), local(anyIP...),
			route(all4, unix.RTN_UNICAST, out.Index, own4.Addr()), route(all6, unix.RTN_UNICAST, out.Index, own6.Addr()))
	}); err != nil {
		return err
	}
	return there.do(func() error {
		in, err := net.InterfaceByName(inside)
		if err != nil {
			return err
		}
		return errors.Join(
			// Whoever knocks at a closed port is told so each time.
			os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0),
			os.WriteFile("/proc/sys/net/ipv6/icmp/ratelimit", []byte("0"), 0),
			address(theirs6), // to say from that there is nobody
			local(all4, all6), local(anyIP...),
			route(own4, unix.RTN_UNICAST, in.Index, netip.Addr{}), route(own6, unix.RTN_UNICAST, in.Index, netip.Addr{}))
	})
}

// end is the host's end of the cable.
func (h *host) end() string {
	if h == here {
		return outside
	}
	return inside
}

// running waits until an interface can send. That it runs (IFF_RUNNING) the kernel also says of one of whose carrier it has not heard, which
// still drops what it is given; that its state is "up" it says when it has heard.
func running(name string) error {
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if is, err := isUp(name); is || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s doesn't run", name)
}

// isUp says whether the operational state of an interface is "up" (RFC 2863).
func isUp(name string) (is bool, err error) {
	const operUp = 6 // IF_OPER_UP
	all, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return false, err
	}
	messages, err := syscall.ParseNetlinkMessage(all)
	for i := 0; err == nil && i < len(messages); i++ {
		if messages[i].Header.Type != unix.RTM_NEWLINK {
			continue
		}
		var attributes []syscall.NetlinkRouteAttr
		attributes, err = syscall.ParseNetlinkRouteAttr(&messages[i])
		mine, up := false, false
		for _, a := range attributes {
			mine = mine || a.Attr.Type == unix.IFLA_IFNAME && unix.ByteSliceToString(a.Value) == name
			up = up || a.Attr.Type == unix.IFLA_OPERSTATE && a.Value[0] == operUp
		}
		is = is || mine && up
	}
	return is, err
}

// up brings one up; on the cable nobody asks for anybody's address (ARP, NDP).
func up(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	i, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	flags := uint16(unix.IFF_UP | unix.IFF_RUNNING)
	if name != "lo" {
		flags |= unix.IFF_NOARP
	}
	i.SetUint16(flags)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, i)
}

// cable makes a pair of interfaces, one end of them in another namespace.
func cable(ns int) error {
	const vethPeer = 1 // VETH_INFO_PEER
	head := make([]byte, unix.SizeofIfInfomsg)
	end := func(e *netlink.AttributeEncoder, name string) {
		e.String(unix.IFLA_IFNAME, name)
		e.Bytes(unix.IFLA_ADDRESS, ethernet)
		e.Uint32(unix.IFLA_MTU, biggestFrame)
	}
	return send(unix.RTM_NEWLINK, head, func(e *netlink.AttributeEncoder) {
		end(e, outside)
		e.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
			info.String(unix.IFLA_INFO_KIND, "veth")
			info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
				peer := netlink.NewAttributeEncoder()
				end(peer, inside)
				peer.Uint32(unix.IFLA_NET_NS_FD, uint32(ns))
				b, err := peer.Encode()
				data.Bytes(vethPeer, append(head[:len(head):len(head)], b...))
				return err
			})
			return nil
		})
	})
}

func family(a netip.Addr) byte {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// address gives lo one.
func address(p netip.Prefix) error {
	head := []byte{family(p.Addr()), byte(p.Bits()), unix.IFA_F_PERMANENT | unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE, byte(indexOfLo), 0, 0, 0}
	return send(unix.RTM_NEWADDR, head, func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.IFA_LOCAL, p.Addr().AsSlice())
		e.Bytes(unix.IFA_ADDRESS, p.Addr().AsSlice())
	})
}

// local makes ranges the host's own.
func local(all ...netip.Prefix) (err error) {
	for _, p := range all {
		err = errors.Join(err, route(p, unix.RTN_LOCAL, indexOfLo, netip.Addr{}))
	}
	return err
}

// route enters one in the table of local ones, where the most exact counts.
func route(p netip.Prefix, kind byte, link int, source netip.Addr) error {
	scope := byte(unix.RT_SCOPE_LINK)
	if kind == unix.RTN_LOCAL {
		scope = unix.RT_SCOPE_HOST
	}
	head := []byte{family(p.Addr()), byte(p.Bits()), 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, scope, kind, 0, 0, 0, 0}
	return send(unix.RTM_NEWROUTE, head, func(e *netlink.AttributeEncoder) {
		if p.Bits() > 0 {
			e.Bytes(unix.RTA_DST, p.Addr().AsSlice())
		}
		e.Uint32(unix.RTA_OIF, uint32(link))
		if source.IsValid() {
			e.Bytes(unix.RTA_PREFSRC, source.AsSlice())
		}
	})
}

func send(kind netlink.HeaderType, head []byte, attributes func(*netlink.AttributeEncoder)) error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	e := netlink.NewAttributeEncoder()
	attributes(e)
	body, err := e.Encode()
	if err != nil {
		return err
	}
	flags := netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl
	_, err = conn.Execute(netlink.Message{Header: netlink.Header{Type: kind, Flags: flags}, Data: append(head[:len(head):len(head)], body...)})
	return err
}
